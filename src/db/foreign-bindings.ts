/**
 * Removes the bindings that keys of other organizations have in one organization. A key that
 * thereby loses its last administering role also loses its global permissions.
 */
import { type CompiledQuery, type RawBuilder, type SqlBool, sql } from "kysely";
import type { OrgId } from "../authz/decide";
import type { RoleName } from "../authz/permissions";
import { auditBindingsTaken, elsewhere } from "./audit/bindings";
import { type Actor, auditEach } from "./audit/entries";
import { jsonList, query } from "./client";

/**
 * Includes the audit entries: in the organization's log, and for a lost global permission in the
 * log of the key's organization.
 * @param keys SQL condition on a key `k` of another organization
 * @param because details of the entries in the organization's log
 */
export function removeForeignBindings(
	orgId: OrgId,
	keys: RawBuilder<SqlBool>,
	administering: readonly RoleName[],
	actor: Actor,
	nowMs: number,
	because: Readonly<Record<string, unknown>> = {},
): CompiledQuery[] {
	const bindings = query
		.selectFrom("role_bindings as b")
		.innerJoin("api_keys as k", "k.id", "b.api_key_id")
		.select("b.id")
		// The unary + keeps SQLite from reading all bindings of the organization.
		.where(sql<boolean>`+b.org_id = ${orgId}`)
		.where("k.org_id", "<>", orgId)
		.where(keys);
	const losing = sql`${keys} AND ${administers(administering, nowMs, sql`b.org_id = ${orgId}`)}`;
	return [
		auditBindingsTaken(actor, nowMs, orgId, sql`k.org_id <> ${orgId} AND ${keys}`, because),
		...takeGlobalPermissions(orgId, losing, administering, actor, nowMs),
		query.deleteFrom("role_bindings").where("id", "in", bindings).compile(),
	];
}

/**
 * Removes the global permissions of foreign keys whose last administering role is among the
 * bindings that a purge is about to delete. Run before the DELETE.
 * @param going SQL that selects the ids of these bindings
 */
export function takeGlobalPermissionsWith(
	orgId: string,
	going: RawBuilder<unknown>,
	administering: readonly RoleName[],
	actor: Actor,
	nowMs: number,
): CompiledQuery[] {
	const losing = sql`k.id IN (SELECT b.api_key_id FROM role_bindings b WHERE b.id IN ${going} AND b.org_id = ${orgId}
		AND b.scope_type = 'org' AND b.role_name IN ${jsonList(JSON.stringify(administering))})`;
	return takeGlobalPermissions(orgId, losing, administering, actor, nowMs);
}

/** @param losing SQL condition: key `k` loses a role that administers the organization */
function takeGlobalPermissions(
	orgId: string,
	losing: RawBuilder<unknown>,
	administering: readonly RoleName[],
	actor: Actor,
	nowMs: number,
): CompiledQuery[] {
	const losesGlobals = sql<boolean>`${losing} AND k.org_id <> ${orgId} AND k.global_permissions <> '[]'
		AND NOT ${administers(administering, nowMs, sql`b.org_id <> ${orgId}`)}`;
	return [
		auditEach(
			elsewhere(actor),
			nowMs,
			{ action: "api_key.update", targetType: "api_key" },
			sql`SELECT k.org_id, k.id AS target_id, k.name AS target_name,
				json_object('global_permissions', json(k.global_permissions)) AS before,
				json_object('global_permissions', json('[]')) AS after FROM api_keys k WHERE ${losesGlobals} ORDER BY k.id`,
		),
		query
			.updateTable("api_keys as k")
			.set({ global_permissions: "[]", updated_at_ms: nowMs })
			.where(losesGlobals)
			.compile(),
	];
}

/**
 * SQL condition: key `k` has a live binding `b` that administers an organization that is not
 * deleted.
 */
function administers(administering: readonly RoleName[], nowMs: number, organization: RawBuilder<unknown>) {
	return sql`EXISTS (SELECT 1 FROM role_bindings b
		INNER JOIN organizations o ON o.id = b.org_id AND o.deleted_at_ms IS NULL
		WHERE b.api_key_id = k.id AND b.scope_type = 'org' AND b.role_name IN ${jsonList(JSON.stringify(administering))}
			AND (b.expires_at_ms IS NULL OR b.expires_at_ms > ${nowMs}) AND ${organization})`;
}
