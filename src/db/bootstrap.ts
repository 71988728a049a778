/**
 * The rows of a first run: one account, one organization, one admin key. Local starts and deployments insert the same rows, and
 * inserting them into a database that already has an organization does nothing.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { MintedKey } from "../authz/keys";
import { type Actor, auditEach } from "./audit";
import { auditBindingGiven, auditBindingsOfKeys, auditedBinding } from "./binding-audit";
import { query } from "./client";

export interface Bootstrap {
	readonly organizationId: string;
	readonly statements: CompiledQuery[];
}

export const FIRST_ORGANIZATION_NAME = "My organization";
export const FIRST_ACCOUNT_EMAIL = "admin@capstan.local";
const FIRST_KEY_NAME = "First admin key";
const FIRST_ROLE = sql`json_object('role', 'org_super_admin')`;

/** The statements, to be run as one batch. `key` holds `org_super_admin` on the first organization, and `org.create`. */
export function bootstrapStatements(key: MintedKey, newId: () => string, nowMs: number): Bootstrap {
	const [userId, organizationId, keyId, bindingId] = [newId(), newId(), newId(), newId()];
	const untouched = sql`WHERE NOT EXISTS (SELECT 1 FROM organizations)`;
	const created = sql`WHERE EXISTS (SELECT 1 FROM organizations WHERE id = ${organizationId})`;
	const statements = [
		sql`INSERT INTO users (id, email, created_at_ms, global_permissions)
			SELECT ${userId}, ${FIRST_ACCOUNT_EMAIL}, ${nowMs}, '["org.create"]' ${untouched}`,
		sql`INSERT INTO organizations (id, name, created_by, created_at_ms, updated_at_ms)
			SELECT ${organizationId}, ${FIRST_ORGANIZATION_NAME}, ${userId}, ${nowMs}, ${nowMs} ${untouched}`,
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
	const firstRun: Actor = { type: "system", id: null, name: "first run", requestId: newId(), ipAddress: null };
	return { organizationId, statements: [...statements, auditBindingGiven(firstRun, nowMs, organizationId, bindingId)] };
}

/** What the first run did, for the audit log: nobody had a key yet. */
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

const DAY_MS = 24 * 60 * 60 * 1000;
/** Of a new admin key where the organization demands an expiry and says no more. */
const REPLACEMENT_LIFE_DAYS = 90;
const OWNER_ROLE = "org_super_admin";

/**
 * Takes the place of the admin keys that the first run and earlier calls of this made, whatever they are called now: a new key with
 * the same rights on the same organization, the old ones gone. It meets the policies of the organization, so it works even where they
 * stopped every other key, and belongs to the account of the first run, which is made a member again should it have left: whoever is at
 * the command line answers for the key, and nobody who left comes back under their own name. It also owns every other organization that
 * no key owns any more, such as one that the old key made.
 */
export function replaceFirstKeyStatements(key: MintedKey, newId: () => string, nowMs: number): CompiledQuery[] {
	const [keyId, bindingId, requestId] = [newId(), newId(), newId()];
	const operator: Actor = {
		type: "system",
		id: null,
		name: "operator at the command line",
		requestId,
		ipAddress: null,
	};
	const first = sql`(SELECT id, CASE
			WHEN max_apikey_expiration_days IS NOT NULL THEN ${nowMs} + max_apikey_expiration_days * ${DAY_MS}
			WHEN require_apikey_expiration = 1 THEN ${nowMs + REPLACEMENT_LIFE_DAYS * DAY_MS} END AS expires_at_ms
		FROM organizations ORDER BY deleted_at_ms IS NOT NULL, created_at_ms LIMIT 1) AS first`;
	const firstId = sql`(SELECT id FROM organizations ORDER BY deleted_at_ms IS NOT NULL, created_at_ms LIMIT 1)`;
	const owner = sql`(SELECT id FROM users WHERE email = ${FIRST_ACCOUNT_EMAIL})`;
	const roles = (
		condition: RawBuilder<unknown>,
	) => sql`FROM role_bindings WHERE user_id = ${owner} AND org_id = first.id
		AND scope_type = 'org' AND (expires_at_ms IS NULL OR expires_at_ms > ${nowMs}) AND ${condition}`;
	// Nobody else makes a key as the system.
	const old = sql`k.id IN (SELECT target_id FROM audit_log WHERE org_id = ${firstId} AND actor_type = 'system'
		AND action IN ('api_key.create', 'api_key.replace_first'))`;
	const expiry = (column: RawBuilder<unknown>) => sql`strftime('%Y-%m-%dT%H:%M:%fZ', ${column} / 1000.0, 'unixepoch')`;
	const reason = { reason: "admin_key_replaced" };
	// Organizations that no working key owns any more: whoever lost the key that made one has it back by this one.
	const orphans = sql`FROM organizations o WHERE o.deleted_at_ms IS NULL AND o.id <> ${firstId} AND NOT EXISTS (
		SELECT 1 FROM role_bindings b INNER JOIN api_keys k ON k.id = b.api_key_id
		WHERE b.org_id = o.id AND b.scope_type = 'org' AND b.role_name = ${OWNER_ROLE}
			AND (b.expires_at_ms IS NULL OR b.expires_at_ms > ${nowMs}) AND (k.expires_at_ms IS NULL OR k.expires_at_ms > ${nowMs}))`;
	return [
		sql`INSERT INTO users (id, email, created_at_ms) SELECT ${newId()}, ${FIRST_ACCOUNT_EMAIL}, ${nowMs}
			WHERE NOT EXISTS (SELECT 1 FROM users WHERE email = ${FIRST_ACCOUNT_EMAIL})`.compile(query),
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
				sql`SELECT first.id AS org_id, ${owner} AS target_id, ${FIRST_ACCOUNT_EMAIL} AS target_name, ${was} AS before,
					json_object('role', ${OWNER_ROLE}) AS after FROM ${first} WHERE ${is}`,
			),
		),
		sql`INSERT INTO role_bindings (id, user_id, role_name, scope_type, org_id, created_at_ms)
			SELECT ${newId()}, ${owner}, ${OWNER_ROLE}, 'org', first.id, ${nowMs} FROM ${first} WHERE true
			ON CONFLICT (coalesce(api_key_id, user_id), role_name, org_id, coalesce(app_id, ''), coalesce(channel_id, 0))
			DO UPDATE SET expires_at_ms = NULL`.compile(query),
		auditEach(
			operator,
			nowMs,
			{ action: "api_key.delete", targetType: "api_key", details: reason },
			sql`SELECT k.org_id, k.id AS target_id, k.name AS target_name, json_object('name', k.name, 'user_id', k.user_id,
					'expires_at', ${expiry(sql`k.expires_at_ms`)}, 'global_permissions', json(k.global_permissions)) AS before, NULL AS after
				FROM api_keys k WHERE k.org_id = ${firstId} AND ${old} ORDER BY k.created_at_ms, k.id`,
		),
		...auditBindingsOfKeys(operator, nowMs, firstId, old, reason),
		sql`DELETE FROM api_keys AS k WHERE k.org_id = ${firstId} AND ${old}`.compile(query),
		sql`INSERT INTO api_keys
			(id, org_id, user_id, name, key_hash, key_hint, global_permissions, expires_at_ms, created_at_ms, updated_at_ms)
			SELECT ${keyId}, first.id, ${owner}, ${FIRST_KEY_NAME}, ${key.hash}, ${key.hint}, '["org.create"]', first.expires_at_ms,
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
		auditBindingGiven(operator, nowMs, firstId, bindingId),
		sql`INSERT INTO role_bindings (id, api_key_id, role_name, scope_type, org_id, created_at_ms)
			SELECT ${RANDOM_UUID}, ${keyId}, ${OWNER_ROLE}, 'org', o.id, ${nowMs} ${orphans}`.compile(query),
		auditEach(
			operator,
			nowMs,
			{ action: "binding.create", targetType: "api_key", details: reason },
			sql`SELECT b.org_id, ${keyId} AS target_id, ${FIRST_KEY_NAME} AS target_name, NULL AS before, ${auditedBinding} AS after
				FROM role_bindings b WHERE b.api_key_id = ${keyId} AND b.org_id <> ${firstId} ORDER BY b.org_id`,
		),
	];
}

const RANDOM_UUID = sql`lower(printf('%s-%s-4%s-8%s-%s', hex(randomblob(4)), hex(randomblob(2)), substr(hex(randomblob(2)), 2),
	substr(hex(randomblob(2)), 2), hex(randomblob(6))))`;
/** How long the operator's link signs in. */
export const SIGN_IN_LINK_MINUTES = 60;

/**
 * A link that signs in, once, whoever the operator is: the account that made the first organization while it may end it, or else whoever
 * may longest. A link that was made before is dead.
 */
export function signInLinkStatements(token: MintedKey, newId: () => string, nowMs: number): CompiledQuery[] {
	const owner = sql`SELECT b.user_id FROM role_bindings b INNER JOIN organizations o ON o.id = b.org_id
		WHERE b.user_id IS NOT NULL AND b.scope_type = 'org' AND b.role_name = 'org_super_admin' AND b.expires_at_ms IS NULL
			AND o.id = (SELECT id FROM organizations ORDER BY deleted_at_ms IS NOT NULL, created_at_ms LIMIT 1)
		ORDER BY b.user_id <> o.created_by, b.created_at_ms, b.id LIMIT 1`;
	const statements = [
		sql`DELETE FROM sign_in_links WHERE user_id = (${owner})`,
		sql`INSERT INTO sign_in_links (token_hash, user_id, created_at_ms, expires_at_ms)
			SELECT ${token.hash}, user_id, ${nowMs}, ${nowMs + SIGN_IN_LINK_MINUTES * 60_000} FROM (${owner})`,
		sql`INSERT INTO account_log (user_id, at_ms, action, request_id)
			SELECT user_id, ${nowMs}, 'sign_in_link.create', ${newId()} FROM (${owner})`,
	];
	return statements.map((statement) => statement.compile(query));
}
