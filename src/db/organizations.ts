/**
 * Statements about organizations, the tenants of the service. A deleted organization is hidden,
 * except from the statements that restore it; its rows stay until the clean-up purges them.
 */

import { type CompiledQuery, type Insertable, type Selectable, sql, type Updateable } from "kysely";
import type { OrgId } from "../authz/decide";
import type { RoleName } from "../authz/permissions";
import type { Principal } from "../authz/principal";
import { RESTORABLE_DAYS } from "../domain/defaults";
import { DAY_MS } from "../domain/time";
import { jsonList, query } from "./client";
import type { Flag, OrganizationsTable } from "./schema";

/** Time in which a deletion can be undone. */
export const RESTORABLE_MS = RESTORABLE_DAYS * DAY_MS;

export type OrganizationRow = Selectable<OrganizationsTable>;

/** A page of the organizations with these ids, oldest first. */
export function organizationsPage(
	orgIds: readonly OrgId[],
	limit: number,
	offset: number,
): CompiledQuery<OrganizationRow> {
	return query
		.selectFrom("organizations")
		.selectAll()
		.where("id", "in", jsonList(JSON.stringify(orgIds)))
		.where("deleted_at_ms", "is", null)
		.orderBy("created_at_ms")
		.orderBy("id")
		.limit(limit)
		.offset(offset)
		.compile();
}

interface DeletedOrganizationRow extends OrganizationRow {
	readonly deleted_at_ms: number;
}

/**
 * A page of the organizations with these ids that were deleted after the given time, most recently
 * deleted first.
 */
export function deletedOrganizationsPage(
	orgIds: readonly OrgId[],
	deletedAfterMs: number,
	limit: number,
	offset: number,
): CompiledQuery<DeletedOrganizationRow> {
	return query
		.selectFrom("organizations")
		.selectAll()
		.where("id", "in", jsonList(JSON.stringify(orgIds)))
		.where("deleted_at_ms", ">", deletedAfterMs)
		.orderBy("deleted_at_ms", "desc")
		.orderBy("id")
		.limit(limit)
		.offset(offset)
		.$narrowType<{ deleted_at_ms: number }>()
		.compile();
}

/** One organization that is not deleted; for loads in the authorization batch. */
export function organizationById(orgId: string): CompiledQuery<OrganizationRow> {
	return query
		.selectFrom("organizations")
		.selectAll()
		.where("id", "=", orgId)
		.where("deleted_at_ms", "is", null)
		.compile();
}

/** One deleted organization; for loads in the authorization batch of a restore. */
export function deletedOrganizationById(orgId: string): CompiledQuery<OrganizationRow> {
	return query
		.selectFrom("organizations")
		.selectAll()
		.where("id", "=", orgId)
		.where("deleted_at_ms", "is not", null)
		.compile();
}

export function insertOrganization(values: Insertable<OrganizationsTable>): CompiledQuery {
	return query.insertInto("organizations").values(values).compile();
}

export function updateOrganization(
	orgId: OrgId,
	values: Omit<Updateable<OrganizationsTable>, "id" | "created_by" | "created_at_ms" | "deleted_at_ms">,
): CompiledQuery {
	return query
		.updateTable("organizations")
		.set(values)
		.where("id", "=", orgId)
		.where("deleted_at_ms", "is", null)
		.compile();
}

export function markOrganizationDeleted(orgId: OrgId, nowMs: number): CompiledQuery {
	return query
		.updateTable("organizations")
		.set({ deleted_at_ms: nowMs })
		.where("id", "=", orgId)
		.where("deleted_at_ms", "is", null)
		.compile();
}

/** Undoes a deletion that happened after the given time. */
export function restoreOrganization(orgId: OrgId, deletedAfterMs: number): CompiledQuery {
	return query
		.updateTable("organizations")
		.set({ deleted_at_ms: null })
		.where("id", "=", orgId)
		.where("deleted_at_ms", ">", deletedAfterMs)
		.compile();
}

/** Guard: the organization exists and is not deleted. */
export function organizationIsLive(orgId: string) {
	return sql<boolean>`EXISTS (SELECT 1 FROM organizations WHERE id = ${orgId} AND deleted_at_ms IS NULL)`;
}

/** Guard: the organization was deleted after the given time. */
export function organizationIsRestorable(orgId: OrgId, deletedAfterMs: number) {
	return sql<boolean>`EXISTS (SELECT 1 FROM organizations WHERE id = ${orgId} AND deleted_at_ms > ${deletedAfterMs})`;
}

export type PolicyColumns = Pick<
	OrganizationRow,
	"enforce_hashed_api_keys" | "require_apikey_expiration" | "max_apikey_expiration_days"
>;

/** Guard: the organization is unchanged since it was read. */
export function organizationIsAsRead(
	orgId: OrgId,
	{ updated_at_ms, ...policies }: PolicyColumns & { readonly updated_at_ms: number },
) {
	return sql<boolean>`${policiesAre(orgId, policies)}
		AND EXISTS (SELECT 1 FROM organizations WHERE id = ${orgId} AND updated_at_ms = ${updated_at_ms})`;
}

/** Guard: the policies are unchanged since they were read, and the organization is not deleted. */
export function policiesAre(orgId: OrgId, policies: PolicyColumns) {
	return sql<boolean>`EXISTS (SELECT 1 FROM organizations WHERE id = ${orgId} AND deleted_at_ms IS NULL
		AND enforce_hashed_api_keys = ${policies.enforce_hashed_api_keys}
		AND require_apikey_expiration = ${policies.require_apikey_expiration}
		AND max_apikey_expiration_days IS ${policies.max_apikey_expiration_days})`;
}

/** Counts of what a deletion removes. */
interface OrganizationContents {
	readonly apps: number;
	readonly channels: number;
	readonly bundles: number;
	readonly bundle_bytes: number;
	readonly members: number;
	readonly api_keys: number;
	readonly invitations: number;
}

/** Counts of an organization's rows and stored bytes; for loads in the authorization batch. */
export function organizationContents(orgId: string, nowMs: number): CompiledQuery<OrganizationContents> {
	return sql<OrganizationContents>`SELECT count(*) AS apps, coalesce(sum(a.channel_count), 0) AS channels,
			coalesce(sum(a.bundle_count), 0) AS bundles, coalesce(sum(a.storage_bytes - a.pending_bytes), 0) AS bundle_bytes,
			(SELECT count(DISTINCT user_id) FROM role_bindings INDEXED BY role_bindings_of_members
				WHERE org_id = ${orgId} AND user_id IS NOT NULL) AS members,
			(SELECT api_key_count FROM organizations WHERE id = ${orgId}) AS api_keys,
			(SELECT count(*) FROM invitations WHERE org_id = ${orgId} AND expires_at_ms > ${nowMs}) AS invitations
		FROM apps a WHERE a.owner_org = ${orgId}`.compile(query);
}

/** An organization, and the number of another organization's keys with a binding in it. */
export interface OrganizationWithKeys {
	readonly id: string;
	readonly name: string;
	readonly api_keys: number;
}

/**
 * The other organizations in which the organization's keys have bindings; with `ownerEmail`, only
 * the keys of that account. For loads in the authorization batch.
 */
export function organizationsOfKeys(orgId: string, ownerEmail?: string): CompiledQuery<OrganizationWithKeys> {
	const owner = ownerEmail === undefined ? sql`1` : sql`k.user_id = (SELECT id FROM users WHERE email = ${ownerEmail})`;
	return sql<OrganizationWithKeys>`SELECT o.id, o.name, count(DISTINCT k.id) AS api_keys
		FROM api_keys k INNER JOIN role_bindings b ON b.api_key_id = k.id INNER JOIN organizations o ON o.id = b.org_id
		WHERE k.org_id = ${orgId} AND b.org_id <> ${orgId} AND ${owner} GROUP BY o.id ORDER BY o.name, o.id`.compile(query);
}

/**
 * A key that a policy of the organization can suspend, with the policies of the key's home
 * organization.
 */
export interface KeyUnderPolicy extends PolicyColumns {
	readonly id: string;
	readonly name: string;
	readonly org_id: string;
	readonly is_hashed_key: Flag;
	readonly expires_at_ms: number | null;
	/** 1: the key holds an administering role on the whole organization. */
	readonly administers: Flag;
	/** 1: the key holds an owning role on the whole organization. */
	readonly owns: Flag;
}

const liveBinding = (nowMs: number) => sql`(b.expires_at_ms IS NULL OR b.expires_at_ms > ${nowMs})`;

/**
 * The unexpired keys that belong to the organization or have a live binding in it, oldest first.
 * For loads in the authorization batch.
 */
export function keysUnderPolicy(
	orgId: string,
	administering: readonly RoleName[],
	owning: readonly RoleName[],
	nowMs: number,
): CompiledQuery<KeyUnderPolicy> {
	const holds = (roles: readonly RoleName[]) => sql`EXISTS (SELECT 1 FROM role_bindings b WHERE b.api_key_id = k.id
		AND b.org_id = ${orgId} AND b.scope_type = 'org' AND b.role_name IN ${jsonList(JSON.stringify(roles))} AND ${liveBinding(nowMs)})`;
	return sql<KeyUnderPolicy>`
		SELECT k.id, k.name, k.org_id, k.key_ciphertext IS NULL AS is_hashed_key, k.expires_at_ms, home.enforce_hashed_api_keys,
			home.require_apikey_expiration, home.max_apikey_expiration_days,
			${holds(administering)} AS administers, ${holds(owning)} AS owns
		FROM api_keys k INNER JOIN organizations home ON home.id = k.org_id
		WHERE k.id IN (
				SELECT id FROM api_keys WHERE org_id = ${orgId}
				UNION ALL SELECT b.api_key_id FROM role_bindings b
					WHERE b.org_id = ${orgId} AND b.api_key_id IS NOT NULL AND ${liveBinding(nowMs)})
			AND (k.expires_at_ms IS NULL OR k.expires_at_ms > ${nowMs})
		ORDER BY k.created_at_ms, k.id`.compile(query);
}

/**
 * Guard: at least one of these keys is unchanged since it was read and still administers the
 * organization.
 */
export function someKeyStillAdministers(
	orgId: OrgId,
	keys: readonly KeyUnderPolicy[],
	administering: readonly RoleName[],
	nowMs: number,
) {
	const asRead = JSON.stringify(
		keys.map((key) => ({ id: key.id, expires_at_ms: key.expires_at_ms, is_hashed_key: key.is_hashed_key })),
	);
	return sql<boolean>`EXISTS (SELECT 1 FROM json_each(${asRead}) AS read
		INNER JOIN api_keys k ON k.id = read.value ->> 'id'
		INNER JOIN role_bindings b ON b.api_key_id = k.id
		WHERE k.expires_at_ms IS (read.value ->> 'expires_at_ms') AND (k.key_ciphertext IS NULL) = (read.value ->> 'is_hashed_key')
			AND b.org_id = ${orgId} AND b.scope_type = 'org' AND b.role_name IN ${jsonList(JSON.stringify(administering))}
			AND ${liveBinding(nowMs)})`;
}

/**
 * Guard: the caller still has the global permission and an administering role on an organization
 * that is not deleted.
 */
export function stillHoldsGlobally(
	caller: Pick<Principal, "userId" | "keyId">,
	globalPermission: string,
	administering: readonly RoleName[],
	nowMs: number,
) {
	const [holders, isHolder, id] =
		caller.keyId === null
			? [sql`users`, sql`b.user_id = holder.id`, caller.userId]
			: [sql`api_keys`, sql`b.api_key_id = holder.id`, caller.keyId];
	return sql<boolean>`EXISTS (SELECT 1 FROM ${holders} AS holder
		INNER JOIN role_bindings b ON ${isHolder}
		INNER JOIN organizations o ON o.id = b.org_id AND o.deleted_at_ms IS NULL
		WHERE holder.id = ${id} AND EXISTS (SELECT 1 FROM json_each(holder.global_permissions) WHERE value = ${globalPermission})
			AND b.scope_type = 'org' AND b.role_name IN ${jsonList(JSON.stringify(administering))} AND ${liveBinding(nowMs)})`;
}
