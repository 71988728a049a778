/**
 * Statements about custom roles, and the SQL for the permissions of a role in other statements.
 * Every write that relied on a custom role is guarded by the permissions that were read, because a
 * role may be changed while a request runs.
 */
import { type CompiledQuery, type Insertable, type RawBuilder, type Selectable, sql } from "kysely";
import { customRole } from "../authz/custom-roles";
import type { OrgId } from "../authz/decide";
import { type Permission, ROLE_NAMES, ROLES, type Role } from "../authz/permissions";
import { jsonList, query } from "./client";
import type { CustomRolesTable } from "./schema";

export type CustomRoleRow = Selectable<CustomRolesTable>;

/**
 * SQL: the permissions of the custom role of a binding `b` as JSON; null: a built-in role, or none.
 */
export const CUSTOM_PERMISSIONS = sql<string>`(SELECT json(c.permissions) FROM custom_roles c
	WHERE c.org_id = b.org_id AND c.name = b.role_name AND c.scope_type = b.scope_type)`;

/**
 * SQL condition: the role of a binding `b` holds all the permissions, possibly for own work only.
 */
export function grantsAll(permissions: readonly Permission[]): RawBuilder<boolean> {
	const builtIn = ROLE_NAMES.filter((name) =>
		permissions.every((permission) => ROLES[name].permissions.includes(permission)),
	);
	return sql<boolean>`(b.role_name IN ${jsonList(JSON.stringify(builtIn))} OR ${customGrantsAll(permissions)})`;
}

/** SQL condition: the role of a binding `b` is a custom one that holds all the permissions. */
export function customGrantsAll(permissions: readonly Permission[]): RawBuilder<boolean> {
	return sql<boolean>`EXISTS (SELECT 1 FROM custom_roles c WHERE c.org_id = b.org_id AND c.name = b.role_name
		AND c.scope_type = b.scope_type AND NOT EXISTS (SELECT 1 FROM json_each(${JSON.stringify(permissions)}) AS wanted
			WHERE wanted.value NOT IN (SELECT held.value FROM json_each(c.permissions) AS held)))`;
}

/** The custom roles of an organization, by name. */
export function customRolesOf(orgId: string | RawBuilder<string>): CompiledQuery<CustomRoleRow> {
	return query.selectFrom("custom_roles").selectAll().where("org_id", "=", orgId).orderBy("name").compile();
}

/** The custom roles of the organization of the key. */
export const customRolesOfKey = (keyId: string): CompiledQuery<CustomRoleRow> =>
	customRolesOf(sql<string>`(SELECT org_id FROM api_keys WHERE id = ${keyId})`);

export const rolesFrom = (rows: readonly CustomRoleRow[]): Role[] =>
	rows.map(({ name, scope_type, permissions }) => customRole(name, scope_type, JSON.parse(permissions)));

/** The stored form of a role's permissions; equal permissions have one form. */
export const permissionsColumn = ({ permissions }: Pick<Role, "permissions">): string => JSON.stringify(permissions);

interface RoleOfOrganization {
	readonly orgId: string;
	readonly role: Role;
}

/**
 * Guard: each of the custom roles exists and has the permissions that were read; built-in roles
 * always do.
 */
export function rolesUnchanged(roles: readonly RoleOfOrganization[]): RawBuilder<boolean> {
	const read = roles
		.filter(({ role }) => role.isCustom === true)
		.map(({ orgId, role }) => ({ orgId, name: role.name, permissions: permissionsColumn(role) }));
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM json_each(${JSON.stringify(read)}) AS read
		LEFT JOIN custom_roles c ON c.org_id = read.value ->> 'orgId' AND c.name = read.value ->> 'name'
		WHERE c.permissions IS NOT read.value ->> 'permissions')`;
}

/** Guard: the organization has these custom roles and no other. */
export function customRolesAre(orgId: OrgId, roles: readonly Role[]): RawBuilder<boolean> {
	return sql<boolean>`((SELECT count(*) FROM custom_roles WHERE org_id = ${orgId}) = ${roles.length}
		AND ${rolesUnchanged(roles.map((role) => ({ orgId, role })))})`;
}

export function insertCustomRole(orgId: OrgId, values: Omit<Insertable<CustomRolesTable>, "org_id">): CompiledQuery {
	return query
		.insertInto("custom_roles")
		.values({ ...values, org_id: orgId })
		.compile();
}

export function updateCustomRole(
	orgId: OrgId,
	name: string,
	values: Pick<CustomRoleRow, "title" | "description" | "permissions" | "updated_at_ms">,
): CompiledQuery {
	return query.updateTable("custom_roles").set(values).where("org_id", "=", orgId).where("name", "=", name).compile();
}

/** Also deletes expired invitations with the role, which nobody can accept. */
export function deleteCustomRole(orgId: OrgId, name: string): CompiledQuery[] {
	return [
		query.deleteFrom("invitations").where("org_id", "=", orgId).where("role_name", "=", name).compile(),
		query.deleteFrom("custom_roles").where("org_id", "=", orgId).where("name", "=", name).compile(),
	];
}

/**
 * SQL: protected channels of the organization whose promoters name the role, also of deleted apps,
 * which can be restored.
 */
const channelsNaming = (orgId: string, name: string) => sql`apps a CROSS JOIN channels ch ON ch.app_id = a.id
	WHERE (a.owner_org = ${orgId} OR a.id IN (SELECT app_id FROM deleted_apps WHERE org_id = ${orgId}))
		AND ch.protected = 1 AND ${name} IN (SELECT value FROM json_each(ch.promoters))`;

export interface HolderRow {
	readonly type: "api_key" | "user" | "group" | "invitation" | "channel";
	readonly id: string;
	readonly name: string;
	readonly scope_type: "org" | "app" | "channel";
	/** The public id. */
	readonly app_id: string | null;
	readonly channel: string | null;
	/**
	 * JSON array of `{ role, scopeType, customPermissions }`: the holder's other live bindings that
	 * cover the same place.
	 */
	readonly others: string;
	/** Number of all holders, before the limit. */
	readonly holders: number;
}

/**
 * The holders of the role: keys, members and groups with a live binding, open invitations, and
 * protected channels that name it.
 */
export function holdersOfRole(orgId: string, name: string, nowMs: number, limit: number): CompiledQuery<HolderRow> {
	const live = (binding: string) => sql`coalesce(${sql.ref(`${binding}.expires_at_ms`)}, ${nowMs} + 1) > ${nowMs}`;
	// Other bindings of listed holders only, by the index of SAME_BINDING.
	const others = sql`(SELECT json_group_array(json_object('role', b.role_name, 'scopeType', b.scope_type,
			'customPermissions', json(${CUSTOM_PERMISSIONS})))
		FROM role_bindings h CROSS JOIN role_bindings b ON coalesce(b.api_key_id, b.user_id) = coalesce(h.api_key_id, h.user_id) AND +b.org_id = h.org_id
		WHERE h.id = listed.binding_id AND b.id <> h.id AND ${live("b")}
			AND (b.app_id IS NULL OR (b.app_id IS h.app_id AND (b.channel_id IS NULL OR b.channel_id IS h.channel_id))))`;
	return sql<HolderRow>`SELECT type, id, name, scope_type, app_id, channel, ${others} AS others, holders
		FROM (SELECT *, count(*) OVER () AS holders FROM (
		SELECT iif(h.api_key_id IS NULL, 'user', 'api_key') AS type, coalesce(k.id, u.id) AS id, coalesce(k.name, u.email) AS name,
			h.scope_type, a.app_id, ch.name AS channel, h.id AS binding_id
		FROM role_bindings h LEFT JOIN api_keys k ON k.id = h.api_key_id LEFT JOIN users u ON u.id = h.user_id
			LEFT JOIN apps a ON a.id = h.app_id LEFT JOIN channels ch ON ch.id = h.channel_id
		WHERE h.org_id = ${orgId} AND h.role_name = ${name} AND ${live("h")}
		UNION ALL SELECT 'group', g.id, g.name, b.scope_type, a.app_id, ch.name, NULL FROM group_bindings b
			INNER JOIN groups g ON g.id = b.group_id INNER JOIN apps a ON a.id = b.app_id LEFT JOIN channels ch ON ch.id = b.channel_id
			WHERE b.org_id = ${orgId} AND b.role_name = ${name}
		UNION ALL SELECT 'invitation', id, email, 'org', NULL, NULL, NULL FROM invitations
			WHERE org_id = ${orgId} AND role_name = ${name} AND expires_at_ms > ${nowMs}
		UNION ALL SELECT 'channel', cast(ch.id AS TEXT), ch.name, 'channel', a.app_id, ch.name, NULL FROM ${channelsNaming(orgId, name)}
	) ORDER BY type, name, id, app_id, channel LIMIT ${limit}) AS listed ORDER BY type, name, id, app_id, channel`.compile(
		query,
	);
}

/** Guard: no binding, also of a group, and no open invitation has the role. */
export function roleIsUnused(orgId: OrgId, name: string, nowMs: number): RawBuilder<boolean> {
	return sql<boolean>`(NOT EXISTS (SELECT 1 FROM role_bindings WHERE org_id = ${orgId} AND role_name = ${name})
		AND NOT EXISTS (SELECT 1 FROM group_bindings WHERE org_id = ${orgId} AND role_name = ${name})
		AND NOT EXISTS (SELECT 1 FROM invitations WHERE org_id = ${orgId} AND role_name = ${name} AND expires_at_ms > ${nowMs}))`;
}

/** Guard: no protected channel names the role as a promoter. */
export function promotesNowhere(orgId: OrgId, name: string): RawBuilder<boolean> {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM ${channelsNaming(orgId, name)})`;
}

/**
 * Gives the holders of a role another one of the same scope type. A holder that has it already
 * keeps the longer life of both.
 */
export function replaceRole(orgId: OrgId, name: string, by: string): CompiledQuery[] {
	const same = (left: string, right: string) =>
		sql.raw(`${left}.api_key_id IS ${right}.api_key_id
		AND ${left}.user_id IS ${right}.user_id AND ${left}.app_id IS ${right}.app_id AND ${left}.channel_id IS ${right}.channel_id`);
	const ofRole = (alias: string, role: string) =>
		sql<boolean>`${sql.ref(`${alias}.org_id`)} = ${orgId} AND ${sql.ref(`${alias}.role_name`)} = ${role}`;
	return [
		query
			.updateTable("role_bindings as kept")
			.set({
				expires_at_ms: sql<number | null>`(SELECT nullif(max(
				coalesce(kept.expires_at_ms, 9007199254740991), coalesce(old.expires_at_ms, 9007199254740991)), 9007199254740991)
				FROM role_bindings old WHERE ${ofRole("old", name)} AND ${same("old", "kept")})`,
			})
			.where(ofRole("kept", by))
			.where(
				sql<boolean>`EXISTS (SELECT 1 FROM role_bindings old WHERE ${ofRole("old", name)} AND ${same("old", "kept")})`,
			),
		query
			.deleteFrom("role_bindings as old")
			.where(ofRole("old", name))
			.where(
				sql<boolean>`EXISTS (SELECT 1 FROM role_bindings kept WHERE ${ofRole("kept", by)} AND ${same("old", "kept")})`,
			),
		query.updateTable("role_bindings").set({ role_name: by }).where("org_id", "=", orgId).where("role_name", "=", name),
		query
			.deleteFrom("group_bindings as old")
			.where(ofRole("old", name))
			.where((eb) =>
				eb.exists(
					eb
						.selectFrom("group_bindings as kept")
						.select("kept.id")
						.where(ofRole("kept", by))
						.whereRef("kept.group_id", "=", "old.group_id")
						.whereRef("kept.app_id", "=", "old.app_id")
						.whereRef("kept.channel_id", "is", "old.channel_id"),
				),
			),
		query
			.updateTable("group_bindings")
			.set({ role_name: by })
			.where("org_id", "=", orgId)
			.where("role_name", "=", name),
		query.updateTable("invitations").set({ role_name: by }).where("org_id", "=", orgId).where("role_name", "=", name),
	].map((statement) => statement.compile());
}
