/**
 * Statements about API keys and their role bindings. Only the functions whose docstring says so
 * return the hash or the sealed secret; lists and records cannot show them.
 */
import { type CompiledQuery, type Insertable, type RawBuilder, sql, type Updateable } from "kysely";
import type { OrgId } from "../authz/decide";
import type { ScopeType } from "../authz/permissions";
import type { PolicyColumns } from "../authz/principal";
import { bindingsUnchanged } from "./caller-guards";
import { insertEach, jsonList, query } from "./client";
import { CUSTOM_PERMISSIONS } from "./custom-roles";
import { appIdOf } from "./public-app-id";
import type { SealedRows } from "./reseal";
import type { ApiKeysTable, Flag } from "./schema";

export interface ApiKeyRow {
	readonly id: string;
	readonly org_id: string;
	readonly user_id: string;
	readonly name: string;
	readonly key_hint: string;
	readonly is_hashed_key: 0 | 1;
	readonly global_permissions: string;
	readonly expires_at_ms: number | null;
	readonly last_used_at_ms: number | null;
	readonly created_at_ms: number;
	readonly updated_at_ms: number;
	readonly previous_valid_until_ms: number | null;
	/** JSON array of CIDR ranges; null: any address. */
	readonly ip_allow_list: string | null;
	/** The time at which the stored secret was last revealed, and the account that saw it. */
	readonly revealed_at_ms: number | null;
	readonly revealed_by: string | null;
	/** The trusted publisher that acts by the key; null: an ordinary key. */
	readonly publisher_id: string | null;
	/** JSON array of BindingRecord. */
	readonly bindings: string;
	/**
	 * JSON array of `[public id, expires_at_ms]`: the apps in them, without those of deleted
	 * organizations.
	 */
	readonly apps: string;
}

export interface BindingRecord {
	readonly id: string;
	readonly role_name: string;
	/**
	 * The permissions of a custom role; null: a built-in role, or none that the organization defines.
	 */
	readonly custom_permissions: readonly string[] | null;
	readonly scope_type: ScopeType;
	readonly org_id: string;
	readonly app_id: string | null;
	readonly channel_id: number | null;
	readonly parent_binding_id: string | null;
	readonly expires_at_ms: number | null;
	/** 1: the organization is deleted; the binding grants nothing until it is restored. */
	readonly in_deleted_organization: Flag;
}

/** @param shown SQL condition on a binding `b`: whether the record includes it */
const apiKeyRows = (shown: RawBuilder<unknown> = sql`1`) =>
	query.selectFrom("api_keys").select([
		"api_keys.id",
		"api_keys.org_id",
		"api_keys.user_id",
		"api_keys.name",
		"api_keys.key_hint",
		"api_keys.global_permissions",
		"api_keys.expires_at_ms",
		"api_keys.last_used_at_ms",
		"api_keys.created_at_ms",
		"api_keys.updated_at_ms",
		"api_keys.previous_valid_until_ms",
		"api_keys.ip_allow_list",
		sql<number | null>`(SELECT max(at_ms) FROM api_key_reveals WHERE api_key_id = api_keys.id)`.as("revealed_at_ms"),
		sql<string | null>`(SELECT user_id FROM api_key_reveals WHERE api_key_id = api_keys.id
			ORDER BY at_ms DESC, user_id LIMIT 1)`.as("revealed_by"),
		sql<string | null>`(SELECT id FROM publishers WHERE api_key_id = api_keys.id)`.as("publisher_id"),
		sql<0 | 1>`api_keys.key_ciphertext IS NULL`.as("is_hashed_key"),
		sql<string>`(SELECT json_group_array(json_object('id', b.id, 'role_name', b.role_name, 'scope_type', b.scope_type,
				'custom_permissions', json(${CUSTOM_PERMISSIONS}), 'org_id', b.org_id, 'app_id', b.app_id,
				'channel_id', b.channel_id, 'parent_binding_id', b.parent_binding_id,
				'expires_at_ms', b.expires_at_ms, 'in_deleted_organization', o.deleted_at_ms IS NOT NULL))
			FROM role_bindings b CROSS JOIN organizations o ON o.id = b.org_id
			WHERE b.api_key_id = api_keys.id AND ${shown})`.as("bindings"),
		sql<string>`(SELECT json_group_array(json_array(a.app_id, b.expires_at_ms)) FROM role_bindings b CROSS JOIN apps a ON a.id = b.app_id
			CROSS JOIN organizations o ON o.id = b.org_id AND o.deleted_at_ms IS NULL
			WHERE b.api_key_id = api_keys.id AND ${shown})`.as("apps"),
	]);

export interface ApiKeyFilter {
	/** Includes keys that belong to one of these organizations or have a binding in it. */
	readonly orgIds: readonly OrgId[];
	/** Includes this key as well. */
	readonly ownKeyId: string;
	/** Keeps keys that belong to this organization or have a binding in it. */
	readonly orgId: string | undefined;
	/** Keeps keys that were created and last used no later than this. */
	readonly unusedSinceMs: number | undefined;
}

/**
 * Keys that match, oldest first. A key of another organization shows only its bindings in
 * `filter.orgIds`.
 */
export function apiKeysPage(filter: ApiKeyFilter, limit: number, offset: number): CompiledQuery<ApiKeyRow> {
	const { orgId, unusedSinceMs } = filter;
	const orgIds = jsonList(JSON.stringify(filter.orgIds));
	// The filter must not reveal bindings in organizations that the caller does not manage.
	const wanted = jsonList(JSON.stringify(filter.orgIds.filter((id) => id === orgId)));
	const shown = sql`(b.org_id IN ${orgIds} OR api_keys.org_id IN ${orgIds} OR api_keys.id = ${filter.ownKeyId})`;
	const unused = (key: string) =>
		unusedSinceMs === undefined
			? sql`true`
			: sql`coalesce(${sql.ref(`${key}.last_used_at_ms`)}, ${sql.ref(`${key}.created_at_ms`)}) <= ${unusedSinceMs}`;
	const ofOrganization = orgId === undefined ? sql`true` : sql`(k.org_id = ${orgId} OR k.id IN ${keysBoundIn(wanted)})`;
	// The statement reads of each organization only as many keys as may be on the page.
	const own = JSON.stringify(filter.orgIds.filter((id) => orgId === undefined || id === orgId));
	const page = sql<string>`(SELECT k.id FROM (
			SELECT b.id FROM json_each(${own}) AS org CROSS JOIN api_keys b ON b.id IN (SELECT c.id FROM api_keys c
				WHERE c.org_id = org.value AND ${unused("c")} ORDER BY c.created_at_ms, c.id LIMIT ${limit + offset})
			UNION SELECT id FROM ${keysBoundIn(orgIds)} AS foreigners UNION SELECT ${filter.ownKeyId}) AS found
		CROSS JOIN api_keys k ON k.id = found.id WHERE ${unused("k")} AND ${ofOrganization}
		ORDER BY k.created_at_ms, k.id LIMIT ${limit} OFFSET ${offset})`;
	return apiKeyRows(shown)
		.where("api_keys.id", "in", page)
		.orderBy("api_keys.created_at_ms")
		.orderBy("api_keys.id")
		.compile();
}

/** Keys of other organizations with a binding in one of these. */
const keysBoundIn = (orgIds: RawBuilder<string>) =>
	query
		.selectFrom("role_bindings")
		.select((eb) => eb.ref("api_key_id").$notNull().as("id"))
		.where("org_id", "in", orgIds)
		.where("is_foreign", "=", sql.lit(1));

/** An id, or the statement that finds it. */
export type KeyId = string | RawBuilder<string>;

/** The id of the key with this secret. */
export const keyIdOfSecret = (keyHash: string): KeyId =>
	sql<string>`(SELECT id FROM api_keys WHERE key_hash = ${keyHash})`;

/** The organization of a new key: that of an app by its public id, or of the key with this hash. */
export const organizationOfNewKey = (publicAppId: string | undefined, keyHash: string): RawBuilder<string> =>
	publicAppId === undefined
		? sql<string>`(SELECT org_id FROM api_keys WHERE key_hash = ${keyHash})`
		: sql<string>`(SELECT owner_org FROM apps WHERE id = ${appIdOf(publicAppId)})`;

/** One key by its id; for loads in the authorization batch. */
export function apiKeyById(id: KeyId): CompiledQuery<ApiKeyRow> {
	return apiKeyRows().where("api_keys.id", "=", id).compile();
}

/**
 * One key by its id. If `orgId` is given and is not the key's organization, only the bindings in
 * `orgId`. For loads in the authorization batch.
 */
export function apiKeyAsSeenBy(orgId: string | undefined, id: KeyId): CompiledQuery<ApiKeyRow> {
	if (orgId === undefined) return apiKeyById(id);
	return apiKeyRows(sql`(b.org_id = ${orgId} OR api_keys.org_id = ${orgId})`).where("api_keys.id", "=", id).compile();
}

export function apiKeyRecord(orgId: OrgId, id: string): CompiledQuery<ApiKeyRow> {
	return apiKeyRows().where("api_keys.org_id", "=", orgId).where("api_keys.id", "=", id).compile();
}

/**
 * The sealed secret of a key created with `hashed: false`, to reveal it; for loads in the
 * authorization batch.
 */
export function sealedKeyText(id: string): CompiledQuery<{ key_ciphertext: string | null }> {
	return query.selectFrom("api_keys").select("key_ciphertext").where("id", "=", id).compile();
}

/** Records that the account has seen the stored secret of a key of the organization. */
export function markRevealed(orgId: OrgId, id: string, userId: string, nowMs: number): CompiledQuery {
	const key = query.selectFrom("api_keys").where("id", "=", id).where("org_id", "=", orgId);
	return insertEach("api_key_reveals", key, (eb) => ({ api_key_id: eb.ref("id"), user_id: userId, at_ms: nowMs }))
		.onConflict((conflict) =>
			conflict.columns(["api_key_id", "user_id"]).doUpdateSet((eb) => ({ at_ms: eb.ref("excluded.at_ms") })),
		)
		.compile();
}

/**
 * Deletes the recorded reveals of a key. After a regeneration only the actor has seen the secret;
 * `markRevealed` records that.
 */
export function clearReveals(orgId: OrgId, id: string): CompiledQuery {
	return query
		.deleteFrom("api_key_reveals")
		.where(
			"api_key_id",
			"=",
			query.selectFrom("api_keys").select("id").where("id", "=", id).where("org_id", "=", orgId),
		)
		.compile();
}

/**
 * Guard: the account has seen no valid secret of the key, neither by a reveal nor by a
 * regeneration.
 */
export function isUnseenBy(apiKeyId: string | null, userId: string) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM api_key_reveals WHERE api_key_id = ${apiKeyId} AND user_id = ${userId})`;
}

/**
 * Other members' keys of the organization whose secret the account has revealed or regenerated,
 * oldest first.
 */
export function keysRevealedTo(orgId: OrgId, userId: string): CompiledQuery<{ id: string; name: string }> {
	return (
		query
			.selectFrom("api_key_reveals as r")
			.innerJoin("api_keys as k", "k.id", "r.api_key_id")
			.select(["k.id", "k.name"])
			.where("r.user_id", "=", userId)
			// The unary + keeps SQLite from reading all keys of the organization.
			.where(sql<boolean>`+k.org_id = ${orgId}`)
			.where("k.user_id", "<>", userId)
			.orderBy("k.created_at_ms")
			.orderBy("k.id")
			.compile()
	);
}

/**
 * Keys of all organizations that another signing secret sealed; for the rotation of the signing
 * secret.
 */
export const SEALED_KEYS: SealedRows<{ readonly id: string; readonly key_ciphertext: string }> = {
	name: "key",
	select: (secretId, limit) =>
		query
			.selectFrom("api_keys")
			.select(["id", "key_ciphertext"])
			.where("key_ciphertext", "is not", null)
			.where("key_ciphertext", "not like", `${secretId}.%`)
			.orderBy("id")
			.limit(limit)
			.$narrowType<{ key_ciphertext: string }>()
			.compile(),
	async replace({ id, key_ciphertext: before }, sealAgain) {
		const after = await sealAgain(before, id);
		return query
			.updateTable("api_keys")
			.set({ key_ciphertext: after })
			.where("id", "=", id)
			.where("key_ciphertext", "=", before)
			.compile();
	},
};

/**
 * The hash of a key's secret, to be kept as the previous one; for loads in the authorization batch.
 */
export function currentKeyHash(id: string): CompiledQuery<{ key_hash: string }> {
	return query.selectFrom("api_keys").select("key_hash").where("id", "=", id).compile();
}

export function insertApiKey(orgId: OrgId, values: Omit<Insertable<ApiKeysTable>, "org_id">): CompiledQuery {
	return query
		.insertInto("api_keys")
		.values({ ...values, org_id: orgId })
		.compile();
}

export function updateApiKey(
	orgId: OrgId,
	id: string,
	values: Omit<Updateable<ApiKeysTable>, "id" | "org_id" | "user_id">,
): CompiledQuery {
	return query.updateTable("api_keys").set(values).where("org_id", "=", orgId).where("id", "=", id).compile();
}

/** The policy columns of an organization, with its id. */
export interface PoliciesElsewhere extends PolicyColumns {
	readonly id: string;
}

/**
 * The policies of the other organizations in which the key has bindings; for loads in the
 * authorization batch.
 */
export function policiesElsewhere(apiKeyId: string): CompiledQuery<PoliciesElsewhere> {
	return sql<PoliciesElsewhere>`SELECT o.id, o.enforce_hashed_api_keys, o.require_apikey_expiration, o.max_apikey_expiration_days
		FROM organizations o WHERE o.deleted_at_ms IS NULL AND o.id IN (SELECT b.org_id FROM role_bindings b
			INNER JOIN api_keys k ON k.id = b.api_key_id WHERE k.id = ${apiKeyId} AND b.org_id <> k.org_id)
		ORDER BY o.id`.compile(query);
}

/** Guard: these policies are unchanged since they were read. */
export function policiesElsewhereAre(policies: readonly PoliciesElsewhere[]) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM json_each(${JSON.stringify(policies)}) AS read
		INNER JOIN organizations o ON o.id = read.value ->> 'id'
		WHERE o.enforce_hashed_api_keys <> read.value ->> 'enforce_hashed_api_keys'
			OR o.require_apikey_expiration <> read.value ->> 'require_apikey_expiration'
			OR o.max_apikey_expiration_days IS NOT read.value ->> 'max_apikey_expiration_days')`;
}

/** Guard: the key exists and belongs to the organization. */
export function apiKeyExists(orgId: OrgId, id: string) {
	return sql<boolean>`EXISTS (SELECT 1 FROM api_keys WHERE org_id = ${orgId} AND id = ${id})`;
}

/** Guard: the key has a binding in the organization. */
export function isBoundIn(orgId: OrgId, apiKeyId: string) {
	return sql<boolean>`EXISTS (SELECT 1 FROM role_bindings WHERE org_id = ${orgId} AND api_key_id = ${apiKeyId})`;
}

/** Guard: all of these are apps of the organization. */
export function appsAreOf(orgId: OrgId, appIds: readonly string[]) {
	const wanted = [...new Set(appIds)];
	return sql<boolean>`(SELECT count(*) FROM apps WHERE +owner_org = ${orgId}
		AND id IN ${jsonList(JSON.stringify(wanted))}) = ${wanted.length}`;
}

/** Guard: the key and its bindings are unchanged since they were read. */
export function apiKeyUnchanged(row: Pick<ApiKeyRow, "id" | "updated_at_ms" | "bindings">) {
	return sql<boolean>`EXISTS (SELECT 1 FROM api_keys WHERE id = ${row.id} AND updated_at_ms = ${row.updated_at_ms})
		AND ${bindingsUnchanged(row.id, bindingIds(row))}
		AND NOT EXISTS (SELECT 1 FROM role_bindings WHERE api_key_id = ${row.id} AND ${isNewSince(row)})`;
}

/** Guard: the key has gained no binding in the organization since it was read. */
export function apiKeyNoStronger(orgId: OrgId, row: Pick<ApiKeyRow, "id" | "bindings">) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM role_bindings WHERE api_key_id = ${row.id} AND org_id = ${orgId}
		AND ${isNewSince(row)})`;
}

/** Ignores bindings that came from a parent binding, because they grant nothing beyond it. */
function isNewSince(row: Pick<ApiKeyRow, "bindings">) {
	return sql`parent_binding_id IS NULL AND id NOT IN ${jsonList(JSON.stringify(bindingIds(row)))}`;
}

function bindingIds(row: Pick<ApiKeyRow, "bindings">): string[] {
	return (JSON.parse(row.bindings) as BindingRecord[]).map((binding) => binding.id);
}

export function deleteApiKey(orgId: OrgId, id: string): CompiledQuery {
	return query.deleteFrom("api_keys").where("org_id", "=", orgId).where("id", "=", id).compile();
}
