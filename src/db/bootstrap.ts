/**
 * The rows of a first run: one account, one organization, one admin key. Local starts and
 * deployments insert the same rows; in a database that already has an organization the statements
 * do nothing. The table `installation` holds the ids of the account and the organization. No
 * statement may find either by address or age, because strangers can choose both.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { MintedKey } from "../authz/secrets";
import { RESTORABLE_DAYS } from "../domain/defaults";
import { FIRST_ACCOUNT_EMAIL, operatorAddress } from "../domain/network/reserved-address";
import { DAY_MS, MINUTE_MS, SIGN_IN_LINK_MINUTES } from "../domain/time";
import { auditBindingGiven, auditBindingsOfKeys, auditedBinding } from "./audit/bindings";
import { type Actor, auditEach, systemActor } from "./audit/entries";
import { insertEach, insertIf, query, RANDOM_UUID } from "./client";
import { SAME_BINDING } from "./members";

interface Bootstrap {
	readonly organizationId: string;
	readonly statements: CompiledQuery[];
}

const FIRST_ORGANIZATION_NAME = "My organization";
const FIRST_KEY_NAME = "First admin key";
/** The global permissions of the operator's keys. */
const MAY_CREATE = '["org.create"]';
const OWNER_ROLE = "org_super_admin";
const organizationExists = (id: string) => sql<boolean>`EXISTS (SELECT 1 FROM organizations WHERE id = ${id})`;
const FIRST_ROLE = sql<string>`json_object('role', 'org_super_admin')`;

/**
 * The statements of a first run, for one batch. `key` gets `org_super_admin` on the first
 * organization, and `org.create`.
 */
export function bootstrapStatements(key: MintedKey, newId: () => string, nowMs: number): Bootstrap {
	const [userId, organizationId, keyId, bindingId] = [newId(), newId(), newId(), newId()];
	const untouched = sql<boolean>`NOT EXISTS (SELECT 1 FROM organizations)`;
	const created = organizationExists(organizationId);
	const ids = { first_user_id: userId, first_org_id: organizationId };
	const made = { created_at_ms: nowMs, updated_at_ms: nowMs };
	const binding = {
		role_name: OWNER_ROLE,
		scope_type: "org",
		org_id: organizationId,
		created_at_ms: nowMs,
	} as const;
	const statements = [
		insertIf(
			"users",
			{ id: userId, email: freeAddress(userId), created_at_ms: nowMs, global_permissions: MAY_CREATE },
			untouched,
		),
		insertIf(
			"organizations",
			{ id: organizationId, name: FIRST_ORGANIZATION_NAME, created_by: userId, ...made },
			untouched,
		),
		insertIf("installation", { id: 1, ...ids }, created).onConflict((conflict) =>
			conflict.column("id").doUpdateSet(ids),
		),
		insertIf(
			"api_keys",
			{
				id: keyId,
				org_id: organizationId,
				user_id: userId,
				name: FIRST_KEY_NAME,
				key_hash: key.hash,
				key_hint: key.hint,
				global_permissions: MAY_CREATE,
				...made,
			},
			created,
		),
		insertIf("role_bindings", { id: bindingId, api_key_id: keyId, ...binding }, created),
		insertIf("role_bindings", { id: newId(), user_id: userId, ...binding }, created),
		firstEntry(nowMs, newId(), "organization.create", "organization", organizationId, FIRST_ORGANIZATION_NAME, created),
		firstEntry(nowMs, newId(), "api_key.create", "api_key", keyId, FIRST_KEY_NAME, created, organizationId),
		firstEntry(nowMs, newId(), "member.add", "user", userId, FIRST_ACCOUNT_EMAIL, created, organizationId, FIRST_ROLE),
	].map((statement) => statement.compile());
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
	condition: RawBuilder<boolean>,
	organizationId = targetId,
	after = sql<string>`json_object('name', ${targetName})`,
) {
	const entry = {
		org_id: organizationId,
		at_ms: nowMs,
		actor_type: "system",
		actor_name: "first run",
		action,
		target_type: targetType,
		target_id: targetId,
		target_name: targetName,
		after,
		request_id: requestId,
	} as const;
	return insertIf("audit_log", entry, condition);
}

/** Lifetime of a new admin key if the organization requires an expiry and sets no maximum. */
const REPLACEMENT_LIFE_DAYS = 90;
const FIRST_USER = sql<string>`(SELECT first_user_id FROM installation)`;
const FIRST_ORG = sql<string>`(SELECT first_org_id FROM installation)`;
const FIRST_ORG_IS_LIVE = sql<boolean>`EXISTS (SELECT 1 FROM organizations WHERE id = ${FIRST_ORG} AND deleted_at_ms IS NULL)`;
/** SQL condition: binding `b` owns its organization permanently. */
const OWNS = sql`b.scope_type = 'org' AND b.role_name = ${OWNER_ROLE} AND b.expires_at_ms IS NULL`;

/**
 * Replaces the admin keys that the first run and earlier replacements created, whatever their names
 * are now, with one new key of the same rights on the first organization. The key meets the
 * policies of the organization and acts for the first account. If that account was deleted, or
 * belongs to a person who no longer owns the first organization, a new operator account replaces
 * it. If the first organization was deleted, a new one (`organizationId`) replaces it. The key also
 * owns the organizations that no valid key and no other person owns.
 */
export function replaceFirstKeyStatements(key: MintedKey, newId: () => string, nowMs: number): Bootstrap {
	const [userId, organizationId, keyId] = [newId(), newId(), newId()];
	const operator = systemActor(newId(), "operator at the command line");
	const statements = [
		...ownerAccount(userId, nowMs),
		...dropOldKeys(operator, nowMs, sql<boolean>`NOT ${FIRST_ORG_IS_LIVE}`),
		...liveOrganization(operator, organizationId, nowMs),
		...ownership(operator, newId(), nowMs),
		...dropOldKeys(operator, nowMs, sql<boolean>`true`),
		...newOwnerKey({ operator, key, keyId, bindingId: newId(), nowMs }),
		...adoptOrphans(operator, keyId, nowMs),
	];
	return { organizationId, statements };
}

const REPLACED = { reason: "admin_key_replaced" };

/** The first account, or a new one in its place. */
function ownerAccount(userId: string, nowMs: number): CompiledQuery[] {
	const isUsable = sql`EXISTS (SELECT 1 FROM users u WHERE u.id = ${FIRST_USER} AND (u.email LIKE ${operatorAddress("%")}
		OR u.email = ${FIRST_ACCOUNT_EMAIL}
		OR EXISTS (SELECT 1 FROM role_bindings b WHERE b.user_id = u.id AND b.org_id = ${FIRST_ORG} AND ${OWNS})))`;
	return [
		query
			.insertInto("installation")
			.values({ id: 1 })
			.onConflict((conflict) => conflict.column("id").doNothing())
			.compile(),
		insertIf(
			"users",
			{ id: userId, email: freeAddress(userId), created_at_ms: nowMs },
			sql<boolean>`NOT ${isUsable}`,
		).compile(),
		query
			.updateTable("installation")
			.set({ first_user_id: userId })
			.where((eb) => eb.exists(eb.selectFrom("users").select("users.id").where("users.id", "=", userId)))
			.compile(),
	];
}

/** The first organization, or a new one in its place. */
function liveOrganization(operator: Actor, organizationId: string, nowMs: number): CompiledQuery[] {
	const made = { created_at_ms: nowMs, updated_at_ms: nowMs };
	return [
		insertIf(
			"organizations",
			{ id: organizationId, name: FIRST_ORGANIZATION_NAME, created_by: FIRST_USER, ...made },
			sql<boolean>`NOT ${FIRST_ORG_IS_LIVE}`,
		).compile(),
		query
			.updateTable("installation")
			.set({ first_org_id: organizationId })
			.where(organizationExists(organizationId))
			.compile(),
		auditEach(
			operator,
			nowMs,
			{ action: "organization.create", targetType: "organization", details: { reason: "first_organization_deleted" } },
			sql`SELECT id AS org_id, id AS target_id, name AS target_name, NULL AS before, json_object('name', name) AS after
				FROM organizations WHERE id = ${organizationId}`,
		),
	];
}

/** The first organization, and the expiry that a key of it may have. */
const firstOrganization = (nowMs: number) =>
	sql<{ id: string; expires_at_ms: number | null }>`(SELECT id, CASE
			WHEN max_apikey_expiration_days IS NOT NULL THEN ${nowMs} + max_apikey_expiration_days * ${DAY_MS}
			WHEN require_apikey_expiration = 1 THEN ${nowMs + REPLACEMENT_LIFE_DAYS * DAY_MS} END AS expires_at_ms
		FROM organizations WHERE id = ${FIRST_ORG})`.as("first");

const owning = (nowMs: number) => ({ role_name: OWNER_ROLE, scope_type: "org", created_at_ms: nowMs }) as const;

/** The first account owns the first organization, permanently. */
function ownership(operator: Actor, bindingId: string, nowMs: number): CompiledQuery[] {
	const first = firstOrganization(nowMs);
	const roles = (
		condition: RawBuilder<unknown>,
	) => sql`FROM role_bindings WHERE user_id = ${FIRST_USER} AND org_id = first.id
		AND scope_type = 'org' AND (expires_at_ms IS NULL OR expires_at_ms > ${nowMs}) AND ${condition}`;
	return [
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
				{ action, targetType: "user", details: REPLACED },
				sql`SELECT first.id AS org_id, ${FIRST_USER} AS target_id, (SELECT email FROM users WHERE id = ${FIRST_USER}) AS target_name,
					${was} AS before, json_object('role', ${OWNER_ROLE}) AS after FROM ${first} WHERE ${is}`,
			),
		),
		insertEach("role_bindings", query.selectFrom(first).where(sql<boolean>`true`), (eb) => ({
			id: bindingId,
			user_id: FIRST_USER,
			...owning(nowMs),
			org_id: eb.ref("first.id"),
		}))
			.onConflict((conflict) => conflict.expression(SAME_BINDING).doUpdateSet({ expires_at_ms: null }))
			.compile(),
	];
}

const expiry = (column: RawBuilder<unknown>) => sql`strftime('%Y-%m-%dT%H:%M:%fZ', ${column} / 1000.0, 'unixepoch')`;

interface OwnerKey {
	readonly operator: Actor;
	readonly key: MintedKey;
	readonly keyId: string;
	readonly bindingId: string;
	readonly nowMs: number;
}

function newOwnerKey({ operator, key, keyId, bindingId, nowMs }: OwnerKey): CompiledQuery[] {
	const first = firstOrganization(nowMs);
	return [
		insertEach("api_keys", query.selectFrom(first), (eb) => ({
			id: keyId,
			org_id: eb.ref("first.id"),
			user_id: FIRST_USER,
			name: FIRST_KEY_NAME,
			key_hash: key.hash,
			key_hint: key.hint,
			global_permissions: MAY_CREATE,
			expires_at_ms: eb.ref("first.expires_at_ms"),
			created_at_ms: nowMs,
			updated_at_ms: nowMs,
		})).compile(),
		insertEach("role_bindings", query.selectFrom(first), (eb) => ({
			id: bindingId,
			api_key_id: keyId,
			...owning(nowMs),
			org_id: eb.ref("first.id"),
		})).compile(),
		auditEach(
			operator,
			nowMs,
			{ action: "api_key.create", targetType: "api_key", details: REPLACED },
			sql`SELECT k.org_id, k.id AS target_id, k.name AS target_name, NULL AS before, json_object('name', k.name, 'user_id', k.user_id,
					'is_hashed_key', json('true'), 'expires_at', ${expiry(sql`k.expires_at_ms`)},
					'global_permissions', json(k.global_permissions)) AS after
				FROM api_keys k WHERE k.id = ${keyId}`,
		),
		auditBindingGiven(operator, nowMs, FIRST_ORG, bindingId),
	];
}

/** @param condition of the keys `k` */
function dropOldKeys(operator: Actor, nowMs: number, condition: RawBuilder<boolean>): CompiledQuery[] {
	// Only the operator creates keys as the system.
	const old = sql<boolean>`k.id IN (SELECT target_id FROM audit_log WHERE org_id = ${FIRST_ORG} AND actor_type = 'system'
		AND action IN ('api_key.create', 'api_key.replace_first')) AND ${condition}`;
	return [
		auditEach(
			operator,
			nowMs,
			{ action: "api_key.delete", targetType: "api_key", details: REPLACED },
			sql`SELECT k.org_id, k.id AS target_id, k.name AS target_name, json_object('name', k.name, 'user_id', k.user_id,
					'expires_at', ${expiry(sql`k.expires_at_ms`)}, 'global_permissions', json(k.global_permissions)) AS before, NULL AS after
				FROM api_keys k WHERE k.org_id = ${FIRST_ORG} AND ${old} ORDER BY k.created_at_ms, k.id`,
		),
		...auditBindingsOfKeys(operator, nowMs, FIRST_ORG, old, REPLACED),
		query.deleteFrom("api_keys as k").where("k.org_id", "=", FIRST_ORG).where(old).compile(),
	];
}

/**
 * Gives the key the organizations created with the lost key: no valid key and no person other than
 * the first account owns them.
 */
function adoptOrphans(operator: Actor, keyId: string, nowMs: number): CompiledQuery[] {
	const orphans = sql`FROM organizations o WHERE o.deleted_at_ms IS NULL AND o.id <> ${FIRST_ORG} AND NOT EXISTS (
		SELECT 1 FROM role_bindings b INNER JOIN api_keys k ON k.id = b.api_key_id
		WHERE b.org_id = o.id AND b.scope_type = 'org' AND b.role_name = ${OWNER_ROLE}
			AND (b.expires_at_ms IS NULL OR b.expires_at_ms > ${nowMs}) AND (k.expires_at_ms IS NULL OR k.expires_at_ms > ${nowMs}))
		AND NOT EXISTS (SELECT 1 FROM role_bindings b WHERE b.org_id = o.id AND b.user_id <> ${FIRST_USER}
			AND b.scope_type = 'org' AND b.role_name = ${OWNER_ROLE} AND (b.expires_at_ms IS NULL OR b.expires_at_ms > ${nowMs}))`;
	return [
		sql`INSERT INTO role_bindings (id, api_key_id, role_name, scope_type, org_id, created_at_ms)
			SELECT ${RANDOM_UUID}, ${keyId}, ${OWNER_ROLE}, 'org', o.id, ${nowMs} ${orphans}`.compile(query),
		auditEach(
			operator,
			nowMs,
			{ action: "binding.create", targetType: "api_key", details: REPLACED },
			sql`SELECT b.org_id, ${keyId} AS target_id, ${FIRST_KEY_NAME} AS target_name, NULL AS before, ${auditedBinding} AS after
				FROM role_bindings b WHERE b.api_key_id = ${keyId} AND b.org_id <> ${FIRST_ORG} ORDER BY b.org_id`,
		),
	];
}

/** Printed when `replaceFirstKeyStatements` created an organization. */
export const FIRST_ORGANIZATION_REPLACED = `The first organization was deleted, so a new one named "${FIRST_ORGANIZATION_NAME}" was created for the key. Within ${RESTORABLE_DAYS} days of the deletion, an owner of the old one can restore it: sign in, or POST /organization/restore.`;

/**
 * A single-use sign-in link for the operator: to the first account if it owns the first
 * organization, otherwise to the owner since the earliest time. Earlier links of the account stop
 * working.
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
 * A single-use sign-in link for the account with this address that also verifies the address, which
 * removes credentials added before. For deployments without mail, where an invitee may have taken
 * the address.
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
	const found = query.selectFrom(sql<{ user_id: string }>`(${account})`.as("account"));
	const statements = [
		query.deleteFrom("sign_in_links").where("user_id", "=", sql<string>`(${account})`),
		insertEach("sign_in_links", found, (eb) => ({
			token_hash: token.hash,
			user_id: eb.ref("account.user_id"),
			created_at_ms: nowMs,
			expires_at_ms: nowMs + SIGN_IN_LINK_MINUTES * MINUTE_MS,
			proves_email: provesEmail,
		})),
		insertEach("account_log", found, (eb) => ({
			user_id: eb.ref("account.user_id"),
			at_ms: nowMs,
			action: "sign_in_link.create",
			request_id: newId(),
		})),
	];
	return statements.map((statement) => statement.compile());
}
