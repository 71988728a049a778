/**
 * The rows of a first run: one account, one organization, one admin key. Local starts and deployments insert the same rows; in a database
 * that already has an organization the statements do nothing. The table `installation` holds the ids of the account and the organization.
 * No statement may find either by address or age, because strangers can choose both.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { MintedKey } from "../authz/secrets";
import { FIRST_ACCOUNT_EMAIL, operatorAddress } from "../domain/network/reserved-address";
import { DAY_MS, MINUTE_MS, SIGN_IN_LINK_MINUTES } from "../domain/time";
import { auditBindingGiven, auditBindingsOfKeys, auditedBinding } from "./audit/bindings";
import { auditEach, systemActor } from "./audit/entries";
import { query, RANDOM_UUID } from "./client";

interface Bootstrap {
	readonly organizationId: string;
	readonly statements: CompiledQuery[];
}

const FIRST_ORGANIZATION_NAME = "My organization";
const FIRST_KEY_NAME = "First admin key";
const FIRST_ROLE = sql`json_object('role', 'org_super_admin')`;

/** The statements of a first run, for one batch. `key` gets `org_super_admin` on the first organization, and `org.create`. */
export function bootstrapStatements(key: MintedKey, newId: () => string, nowMs: number): Bootstrap {
	const [userId, organizationId, keyId, bindingId] = [newId(), newId(), newId(), newId()];
	const untouched = sql`WHERE NOT EXISTS (SELECT 1 FROM organizations)`;
	const created = sql`WHERE EXISTS (SELECT 1 FROM organizations WHERE id = ${organizationId})`;
	const statements = [
		sql`INSERT INTO users (id, email, created_at_ms, global_permissions)
			SELECT ${userId}, ${freeAddress(userId)}, ${nowMs}, '["org.create"]' ${untouched}`,
		sql`INSERT INTO organizations (id, name, created_by, created_at_ms, updated_at_ms)
			SELECT ${organizationId}, ${FIRST_ORGANIZATION_NAME}, ${userId}, ${nowMs}, ${nowMs} ${untouched}`,
		sql`INSERT INTO installation (id, first_user_id, first_org_id) SELECT 1, ${userId}, ${organizationId} ${created}
			ON CONFLICT (id) DO UPDATE SET first_user_id = excluded.first_user_id, first_org_id = excluded.first_org_id`,
		sql`INSERT INTO api_keys (id, org_id, user_id, name, key_hash, key_hint, global_permissions, created_at_ms, updated_at_ms)
			SELECT ${keyId}, ${organizationId}, ${userId}, ${FIRST_KEY_NAME}, ${key.hash}, ${key.hint}, '["org.create"]', ${nowMs}, ${nowMs} ${created}`,
		sql`INSERT INTO role_bindings (id, api_key_id, role_name, scope_type, org_id, created_at_ms)
			SELECT ${bindingId}, ${keyId}, 'org_super_admin', 'org', ${organizationId}, ${nowMs} ${created}`,
		sql`INSERT INTO role_bindings (id, user_id, role_name, scope_type, org_id, created_at_ms)
			SELECT ${newId()}, ${userId}, 'org_super_admin', 'org', ${organizationId}, ${nowMs} ${created}`,
		firstEntry(nowMs, newId(), "organization.create", "organization", organizationId, FIRST_ORGANIZATION_NAME, created),
		firstEntry(nowMs, newId(), "api_key.create", "api_key", keyId, FIRST_KEY_NAME, created, organizationId),
		firstEntry(nowMs, newId(), "member.add", "user", userId, FIRST_ACCOUNT_EMAIL, created, organizationId, FIRST_ROLE),
	].map((statement) => statement.compile(query));
	const firstRun = systemActor(newId(), "first run");
	return { organizationId, statements: [...statements, auditBindingGiven(firstRun, nowMs, organizationId, bindingId)] };
}

/** The reserved address, or another address of the reserved domain if an account already has it. */
const freeAddress = (userId: string) =>
	sql<string>`iif(EXISTS (SELECT 1 FROM users WHERE email = ${FIRST_ACCOUNT_EMAIL}), ${operatorAddress(userId)}, ${FIRST_ACCOUNT_EMAIL})`;

/** An audit entry by the system, because no key exists yet. */
function firstEntry(
	nowMs: number,
	requestId: string,
	action: string,
	targetType: string,
	targetId: string,
	targetName: string,
	condition: RawBuilder<unknown>,
	organizationId = targetId,
	after: RawBuilder<unknown> = sql`json_object('name', ${targetName})`,
) {
	return sql`INSERT INTO audit_log (org_id, at_ms, actor_type, actor_name, action, target_type, target_id, target_name, after, request_id)
		SELECT ${organizationId}, ${nowMs}, 'system', 'first run', ${action}, ${targetType}, ${targetId}, ${targetName},
			${after}, ${requestId} ${condition}`;
}

/** Lifetime of a new admin key if the organization requires an expiry and sets no maximum. */
const REPLACEMENT_LIFE_DAYS = 90;
const OWNER_ROLE = "org_super_admin";
const FIRST_USER = sql<string>`(SELECT first_user_id FROM installation)`;
const FIRST_ORG = sql<string>`(SELECT first_org_id FROM installation)`;
const FIRST_ORG_IS_LIVE = sql<boolean>`EXISTS (SELECT 1 FROM organizations WHERE id = ${FIRST_ORG} AND deleted_at_ms IS NULL)`;
/** SQL condition: binding `b` owns its organization permanently. */
const OWNS = sql`b.scope_type = 'org' AND b.role_name = ${OWNER_ROLE} AND b.expires_at_ms IS NULL`;

/**
 * Replaces the admin keys that the first run and earlier replacements created, whatever their names are now, with one new key of the same
 * rights on the first organization. The key meets the policies of the organization and acts for the first account. If that account was
 * deleted, or belongs to a person who no longer owns the first organization, a new operator account replaces it. If the first
 * organization was deleted, a new one (`organizationId`) replaces it. The key also owns the organizations that no valid key and no other
 * person owns.
 */
export function replaceFirstKeyStatements(key: MintedKey, newId: () => string, nowMs: number): Bootstrap {
	const [userId, organizationId, keyId, bindingId, requestId] = [newId(), newId(), newId(), newId(), newId()];
	const operator = systemActor(requestId, "operator at the command line");
	const first = sql`(SELECT id, CASE
			WHEN max_apikey_expiration_days IS NOT NULL THEN ${nowMs} + max_apikey_expiration_days * ${DAY_MS}
			WHEN require_apikey_expiration = 1 THEN ${nowMs + REPLACEMENT_LIFE_DAYS * DAY_MS} END AS expires_at_ms
		FROM organizations WHERE id = ${FIRST_ORG}) AS first`;
	const isUsable = sql`EXISTS (SELECT 1 FROM users u WHERE u.id = ${FIRST_USER} AND (u.email LIKE ${operatorAddress("%")}
		OR u.email = ${FIRST_ACCOUNT_EMAIL}
		OR EXISTS (SELECT 1 FROM role_bindings b WHERE b.user_id = u.id AND b.org_id = ${FIRST_ORG} AND ${OWNS})))`;
	const roles = (
		condition: RawBuilder<unknown>,
	) => sql`FROM role_bindings WHERE user_id = ${FIRST_USER} AND org_id = first.id
		AND scope_type = 'org' AND (expires_at_ms IS NULL OR expires_at_ms > ${nowMs}) AND ${condition}`;
	const expiry = (column: RawBuilder<unknown>) => sql`strftime('%Y-%m-%dT%H:%M:%fZ', ${column} / 1000.0, 'unixepoch')`;
	const reason = { reason: "admin_key_replaced" };
	const dropOldKeys = (condition: RawBuilder<boolean>) => {
		// Only the operator creates keys as the system.
		const old = sql`k.id IN (SELECT target_id FROM audit_log WHERE org_id = ${FIRST_ORG} AND actor_type = 'system'
			AND action IN ('api_key.create', 'api_key.replace_first')) AND ${condition}`;
		return [
			auditEach(
				operator,
				nowMs,
				{ action: "api_key.delete", targetType: "api_key", details: reason },
				sql`SELECT k.org_id, k.id AS target_id, k.name AS target_name, json_object('name', k.name, 'user_id', k.user_id,
						'expires_at', ${expiry(sql`k.expires_at_ms`)}, 'global_permissions', json(k.global_permissions)) AS before, NULL AS after
					FROM api_keys k WHERE k.org_id = ${FIRST_ORG} AND ${old} ORDER BY k.created_at_ms, k.id`,
			),
			...auditBindingsOfKeys(operator, nowMs, FIRST_ORG, old, reason),
			sql`DELETE FROM api_keys AS k WHERE k.org_id = ${FIRST_ORG} AND ${old}`.compile(query),
		];
	};
	const isCreated = sql`EXISTS (SELECT 1 FROM organizations WHERE id = ${organizationId})`;
	// Organizations created with the lost key: no valid key and no person other than the first account owns them.
	const orphans = sql`FROM organizations o WHERE o.deleted_at_ms IS NULL AND o.id <> ${FIRST_ORG} AND NOT EXISTS (
		SELECT 1 FROM role_bindings b INNER JOIN api_keys k ON k.id = b.api_key_id
		WHERE b.org_id = o.id AND b.scope_type = 'org' AND b.role_name = ${OWNER_ROLE}
			AND (b.expires_at_ms IS NULL OR b.expires_at_ms > ${nowMs}) AND (k.expires_at_ms IS NULL OR k.expires_at_ms > ${nowMs}))
		AND NOT EXISTS (SELECT 1 FROM role_bindings b WHERE b.org_id = o.id AND b.user_id <> ${FIRST_USER}
			AND b.scope_type = 'org' AND b.role_name = ${OWNER_ROLE} AND (b.expires_at_ms IS NULL OR b.expires_at_ms > ${nowMs}))`;
	const statements = [
		sql`INSERT INTO installation (id) SELECT 1 WHERE true ON CONFLICT (id) DO NOTHING`.compile(query),
		sql`INSERT INTO users (id, email, created_at_ms) SELECT ${userId}, ${freeAddress(userId)}, ${nowMs}
			WHERE NOT ${isUsable}`.compile(query),
		sql`UPDATE installation SET first_user_id = ${userId} WHERE EXISTS (SELECT 1 FROM users WHERE id = ${userId})`.compile(
			query,
		),
		...dropOldKeys(sql<boolean>`NOT ${FIRST_ORG_IS_LIVE}`),
		sql`INSERT INTO organizations (id, name, created_by, created_at_ms, updated_at_ms)
			SELECT ${organizationId}, ${FIRST_ORGANIZATION_NAME}, ${FIRST_USER}, ${nowMs}, ${nowMs}
			WHERE NOT ${FIRST_ORG_IS_LIVE}`.compile(query),
		sql`UPDATE installation SET first_org_id = ${organizationId} WHERE ${isCreated}`.compile(query),
		auditEach(
			operator,
			nowMs,
			{ action: "organization.create", targetType: "organization", details: { reason: "first_organization_deleted" } },
			sql`SELECT id AS org_id, id AS target_id, name AS target_name, NULL AS before, json_object('name', name) AS after
				FROM organizations WHERE id = ${organizationId}`,
		),
		...[
			{ action: "member.add", was: sql`NULL`, is: sql`NOT EXISTS (SELECT 1 ${roles(sql`1`)})` },
			{
				action: "member.update",
				was: sql`json_object('role', (SELECT min(role_name) ${roles(sql`1`)}))`,
				is: sql`EXISTS (SELECT 1 ${roles(sql`1`)})
					AND NOT EXISTS (SELECT 1 ${roles(sql`role_name = ${OWNER_ROLE} AND expires_at_ms IS NULL`)})`,
			},
		].map(({ action, was, is }) =>
			auditEach(
				operator,
				nowMs,
				{ action, targetType: "user", details: reason },
				sql`SELECT first.id AS org_id, ${FIRST_USER} AS target_id, (SELECT email FROM users WHERE id = ${FIRST_USER}) AS target_name,
					${was} AS before, json_object('role', ${OWNER_ROLE}) AS after FROM ${first} WHERE ${is}`,
			),
		),
		sql`INSERT INTO role_bindings (id, user_id, role_name, scope_type, org_id, created_at_ms)
			SELECT ${newId()}, ${FIRST_USER}, ${OWNER_ROLE}, 'org', first.id, ${nowMs} FROM ${first} WHERE true
			ON CONFLICT (coalesce(api_key_id, user_id), role_name, org_id, coalesce(app_id, ''), coalesce(channel_id, 0))
			DO UPDATE SET expires_at_ms = NULL`.compile(query),
		...dropOldKeys(sql<boolean>`true`),
		sql`INSERT INTO api_keys
			(id, org_id, user_id, name, key_hash, key_hint, global_permissions, expires_at_ms, created_at_ms, updated_at_ms)
			SELECT ${keyId}, first.id, ${FIRST_USER}, ${FIRST_KEY_NAME}, ${key.hash}, ${key.hint}, '["org.create"]', first.expires_at_ms,
				${nowMs}, ${nowMs} FROM ${first}`.compile(query),
		sql`INSERT INTO role_bindings (id, api_key_id, role_name, scope_type, org_id, created_at_ms)
			SELECT ${bindingId}, ${keyId}, ${OWNER_ROLE}, 'org', first.id, ${nowMs} FROM ${first}`.compile(query),
		auditEach(
			operator,
			nowMs,
			{ action: "api_key.create", targetType: "api_key", details: reason },
			sql`SELECT k.org_id, k.id AS target_id, k.name AS target_name, NULL AS before, json_object('name', k.name, 'user_id', k.user_id,
					'is_hashed_key', json('true'), 'expires_at', ${expiry(sql`k.expires_at_ms`)},
					'global_permissions', json(k.global_permissions)) AS after
				FROM api_keys k WHERE k.id = ${keyId}`,
		),
		auditBindingGiven(operator, nowMs, FIRST_ORG, bindingId),
		sql`INSERT INTO role_bindings (id, api_key_id, role_name, scope_type, org_id, created_at_ms)
			SELECT ${RANDOM_UUID}, ${keyId}, ${OWNER_ROLE}, 'org', o.id, ${nowMs} ${orphans}`.compile(query),
		auditEach(
			operator,
			nowMs,
			{ action: "binding.create", targetType: "api_key", details: reason },
			sql`SELECT b.org_id, ${keyId} AS target_id, ${FIRST_KEY_NAME} AS target_name, NULL AS before, ${auditedBinding} AS after
				FROM role_bindings b WHERE b.api_key_id = ${keyId} AND b.org_id <> ${FIRST_ORG} ORDER BY b.org_id`,
		),
	];
	return { organizationId, statements };
}

/** Printed when `replaceFirstKeyStatements` created an organization. */
export const FIRST_ORGANIZATION_REPLACED = `The first organization was deleted, so a new one named "${FIRST_ORGANIZATION_NAME}" was created for the key. Within 30 days of the deletion, an owner of the old one can restore it: sign in, or POST /organization/restore.`;

/**
 * A single-use sign-in link for the operator: to the first account if it owns the first organization, otherwise to the owner since the
 * earliest time. Earlier links of the account stop working.
 */
export function signInLinkStatements(token: MintedKey, newId: () => string, nowMs: number): CompiledQuery[] {
	const owner = sql`SELECT user_id FROM (
		SELECT b.user_id, b.user_id IS NOT i.first_user_id AS is_other, b.created_at_ms, b.id
			FROM installation i INNER JOIN role_bindings b ON b.org_id = i.first_org_id WHERE b.user_id IS NOT NULL AND ${OWNS}
		UNION ALL SELECT u.id, 2, 0, '' FROM installation i INNER JOIN users u ON u.id = i.first_user_id)
		ORDER BY is_other, created_at_ms, id LIMIT 1`;
	return linkStatements(token, owner, 0, newId, nowMs);
}

/**
 * A single-use sign-in link for the account with this address that also verifies the address, which removes credentials added before. For
 * deployments without mail, where an invitee may have taken the address.
 */
export function reclaimLinkStatements(
	token: MintedKey,
	email: string,
	newId: () => string,
	nowMs: number,
): CompiledQuery[] {
	return linkStatements(token, sql`SELECT id AS user_id FROM users WHERE email = ${email}`, 1, newId, nowMs);
}

function linkStatements(
	token: MintedKey,
	account: RawBuilder<unknown>,
	provesEmail: 0 | 1,
	newId: () => string,
	nowMs: number,
): CompiledQuery[] {
	const statements = [
		sql`DELETE FROM sign_in_links WHERE user_id = (${account})`,
		sql`INSERT INTO sign_in_links (token_hash, user_id, created_at_ms, expires_at_ms, proves_email)
			SELECT ${token.hash}, user_id, ${nowMs}, ${nowMs + SIGN_IN_LINK_MINUTES * MINUTE_MS}, ${provesEmail} FROM (${account})`,
		sql`INSERT INTO account_log (user_id, at_ms, action, request_id)
			SELECT user_id, ${nowMs}, 'sign_in_link.create', ${newId()} FROM (${account})`,
	];
	return statements.map((statement) => statement.compile(query));
}
