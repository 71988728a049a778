/**
 * Takes from the keys of members what their accounts no longer hold. A key outlives no right of its
 * account when that right ends, because it could otherwise undo the change. Rights are compared
 * permission by permission at the place of each role, as they are after the change, so the
 * statements run in its batch, before those that write it.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { OrgId } from "../authz/decide";
import { ADMINISTERING_ROLES } from "../authz/member-roles";
import { ROLE_NAMES, ROLES, type Role } from "../authz/permissions";
import { ACCOUNT_BINDINGS } from "./account-bindings";
import { auditBindingsTaken, auditedBinding } from "./audit/bindings";
import { type Actor, auditEach } from "./audit/entries";
import { jsonList, query, RANDOM_UUID } from "./client";

/** A change that takes permissions from members. */
export interface Loss {
	readonly orgId: OrgId;
	/** SQL list: the members' ids. */
	readonly users: RawBuilder<unknown>;
	/** SQL condition: the change touches the place of binding `b`. */
	readonly isThere: RawBuilder<unknown>;
	/** SQL condition: binding `own` of a member remains after the change. */
	readonly remains: RawBuilder<unknown>;
	/** The role on the whole organization that each of the members gets. */
	readonly gained: Role | undefined;
	/**
	 * The role on the whole organization that a key gets instead of one that holds all of it and
	 * more.
	 */
	readonly cap: Role | undefined;
	/** The custom roles of the organization after the change. */
	readonly customRoles: readonly Role[];
	/** In the audit entries. */
	readonly because: Readonly<Record<string, unknown>>;
}

/** SQL condition: binding `left` covers the place of binding `right`. */
const coversPlaceOf = (left: string, right: string) =>
	sql.raw(`(${left}.app_id IS NULL OR (${left}.app_id = ${right}.app_id
		AND (${left}.channel_id IS NULL OR ${left}.channel_id = ${right}.channel_id)))`);

/** A member gets this role instead of all roles on the whole organization. */
export const lossByNewRole = (orgId: OrgId, userId: string, role: Role, customRoles: readonly Role[]): Loss => ({
	orgId,
	users: sql`(${userId})`,
	isThere: sql`1`,
	remains: sql`own.scope_type <> 'org'`,
	gained: role,
	cap: role,
	customRoles,
	because: { lowered_member: userId },
});

/**
 * Roles of members on apps or channels end.
 * @param users SQL list: the members' ids
 * @param ending SQL list: the ids of the bindings, theirs or of a group
 */
export const lossByEndOf = (
	orgId: OrgId,
	users: RawBuilder<unknown>,
	ending: RawBuilder<unknown>,
	customRoles: readonly Role[],
	because: Loss["because"],
): Loss => ({
	orgId,
	users,
	remains: sql`own.id NOT IN ${ending}`,
	isThere: sql`EXISTS (SELECT 1 FROM ${ACCOUNT_BINDINGS} h WHERE h.user_id = k.user_id AND h.id IN ${ending} AND ${coversPlaceOf("h", "b")})`,
	gained: undefined,
	cap: undefined,
	customRoles,
	because,
});

/** A custom role gets other permissions, or its holders get another role instead. */
export const lossByChangedRole = (orgId: OrgId, before: Role, after: Role, customRoles: readonly Role[]): Loss => ({
	orgId,
	users: sql`(SELECT user_id FROM ${ACCOUNT_BINDINGS} WHERE org_id = ${orgId} AND role_name = ${before.name})`,
	isThere: sql`EXISTS (SELECT 1 FROM ${ACCOUNT_BINDINGS} h WHERE h.user_id = k.user_id AND h.org_id = ${orgId}
		AND h.role_name = ${before.name} AND ${coversPlaceOf("h", "b")})`,
	remains: sql`1`,
	gained: undefined,
	cap: before.scopeType === "org" ? after : undefined,
	customRoles: [...customRoles.filter(({ name }) => name !== before.name), { ...after, name: before.name }],
	because: { changed_role: before.name },
});

/** SQL table: the permissions of the role of the binding, after the change. */
function permissionsOf(binding: string, customRoles: readonly Role[]): RawBuilder<unknown> {
	const roles = [...ROLE_NAMES.map((name) => ROLES[name]), ...customRoles];
	const permissions = JSON.stringify(Object.fromEntries(roles.map((role) => [role.name, role.permissions])));
	return sql`json_each(json_extract(${permissions}, '$."' || ${sql.ref(`${binding}.role_name`)} || '"'))`;
}

/**
 * SQL condition: binding `b` of key `k` grants what the key's account does not hold at its place. A
 * binding with a parent ends with it.
 */
function exceeds({ orgId, users, isThere, remains, gained, customRoles }: Loss, nowMs: number): RawBuilder<boolean> {
	const limited = ROLE_NAMES.filter((name) => ROLES[name].ownWorkOnly === true);
	const grantedBy = (binding: string) => permissionsOf(binding, customRoles);
	return sql<boolean>`+b.org_id = ${orgId} AND +b.parent_binding_id IS NULL AND k.user_id IN ${users} AND ${isThere}
		AND EXISTS (SELECT 1 FROM ${grantedBy("b")} AS wanted
			WHERE wanted.value NOT IN ${jsonList(JSON.stringify(gained?.permissions ?? []))}
				AND NOT EXISTS (SELECT 1 FROM ${ACCOUNT_BINDINGS} own WHERE own.user_id = k.user_id AND own.org_id = ${orgId}
					AND coalesce(own.expires_at_ms, ${nowMs} + 1) > ${nowMs} AND ${coversPlaceOf("own", "b")} AND ${remains}
					AND (own.role_name = b.role_name OR own.role_name NOT IN ${jsonList(JSON.stringify(limited))})
					AND wanted.value IN (SELECT value FROM ${grantedBy("own")})))`;
}

const bindingsBeyond = (loss: Loss, nowMs: number) =>
	query
		.selectFrom("role_bindings as b")
		.innerJoin("api_keys as k", "k.id", "b.api_key_id")
		.select("b.id")
		.where(exceeds(loss, nowMs));

export interface LoweredKey {
	readonly id: string;
	readonly name: string;
	/** JSON array of `{ role_name, app_id, channel_id }`: the bindings that the key loses. */
	readonly lost: string;
}

/** The keys that the loss lowers, oldest first. */
export function keysLowered(loss: Loss, nowMs: number): CompiledQuery<LoweredKey> {
	return sql<LoweredKey>`SELECT k.id, k.name, json_group_array(json_object('role_name', b.role_name, 'app_id', a.app_id,
			'channel_id', b.channel_id)) AS lost
		FROM role_bindings b INNER JOIN api_keys k ON k.id = b.api_key_id LEFT JOIN apps a ON a.id = b.app_id
		WHERE ${exceeds(loss, nowMs)} GROUP BY k.id ORDER BY k.created_at_ms, k.id`.compile(query);
}

/**
 * Lowers the keys: a role is removed, and one on the whole organization that holds all of the cap
 * becomes the cap, so that no key gains by it. A key that no longer administers any organization
 * loses its global permissions. Includes the audit entries.
 */
export function lowerKeys(loss: Loss, actor: Actor, nowMs: number): CompiledQuery[] {
	const { orgId, users, cap, because } = loss;
	const going = sql<boolean>`b.id IN ${bindingsBeyond(loss, nowMs)}`;
	const losesGlobals = sql<boolean>`k.org_id = ${orgId} AND k.user_id IN ${users} AND k.global_permissions <> '[]' AND NOT EXISTS (
		SELECT 1 FROM role_bindings b INNER JOIN organizations o ON o.id = b.org_id AND o.deleted_at_ms IS NULL
		WHERE b.api_key_id = k.id AND b.scope_type = 'org' AND b.role_name IN ${jsonList(JSON.stringify(ADMINISTERING_ROLES))})`;
	return [
		auditBindingsTaken(actor, nowMs, orgId, going, because),
		...(cap === undefined ? [] : capKeys(loss, cap, going, actor, nowMs)),
		query.deleteFrom("role_bindings").where("id", "in", bindingsBeyond(loss, nowMs)).compile(),
		auditEach(
			actor,
			nowMs,
			{ action: "api_key.update", targetType: "api_key", details: because },
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
 * Gives the cap to the keys that lose a role on the whole organization, with the longest life of
 * those.
 */
function capKeys(
	{ orgId, customRoles, because }: Loss,
	cap: Role,
	going: RawBuilder<unknown>,
	actor: Actor,
	nowMs: number,
): CompiledQuery[] {
	const capped = sql`FROM role_bindings b WHERE ${going} AND b.scope_type = 'org' AND NOT EXISTS (
		SELECT 1 FROM json_each(${JSON.stringify(cap.permissions)}) AS of_cap
			WHERE of_cap.value NOT IN (SELECT value FROM ${permissionsOf("b", customRoles)}))`;
	return [
		sql`INSERT INTO role_bindings (id, api_key_id, role_name, scope_type, org_id, expires_at_ms, created_at_ms)
			SELECT ${RANDOM_UUID}, b.api_key_id, ${cap.name}, 'org', ${orgId},
				iif(count(*) > count(b.expires_at_ms), NULL, max(b.expires_at_ms)), ${nowMs}
			${capped} GROUP BY b.api_key_id
			ON CONFLICT (coalesce(api_key_id, user_id), role_name, org_id, coalesce(app_id, ''), coalesce(channel_id, 0))
			DO NOTHING`.compile(query),
		auditEach(
			actor,
			nowMs,
			{ action: "binding.create", targetType: "api_key", details: because },
			sql`SELECT b.org_id, k.id AS target_id, k.name AS target_name, NULL AS before, ${auditedBinding} AS after
				FROM role_bindings b INNER JOIN api_keys k ON k.id = b.api_key_id
				WHERE b.org_id = ${orgId} AND b.scope_type = 'org' AND b.role_name = ${cap.name} AND b.created_at_ms = ${nowMs}
					AND b.api_key_id IN (SELECT b.api_key_id ${capped}) ORDER BY k.created_at_ms, k.id`,
		),
	];
}
