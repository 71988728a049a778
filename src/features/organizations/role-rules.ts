/**
 * Rules for custom roles: who may define them, what a change of one does to its holders, and how
 * they are shown. A role grants nothing by itself: its binding is checked against the person who
 * gives it, and its change against the person who changes it.
 */
import * as v from "valibot";
import { customRole, isReservedRoleName, resolvedRole } from "../../authz/custom-roles";
import type { OrgId } from "../../authz/decide";
import { refuseStronger } from "../../authz/granting";
import { PERMISSIONS, PERMISSIONS_AT, type Permission, type Role, type ScopeType } from "../../authz/permissions";
import type { Principal } from "../../authz/principal";
import type { CustomRoleRow, HolderRow } from "../../db/custom-roles";
import { ApiError, fieldError, invalidRequest } from "../../errors";
import { customRoleName, label, nullableTime, text } from "../../http/schemas";
import { loweredKeySchema } from "./member-change";

/** The limit of one organization. */
export const MOST_CUSTOM_ROLES = 20;
export const MOST_HOLDERS = 100;
const LONGEST_DESCRIPTION = 500;
const SCOPE_TYPES = ["org", "app", "channel"] as const;

export const roleName = v.pipe(
	customRoleName,
	v.check((name) => !isReservedRoleName(name), "is the name of a built-in role or of a mode; choose another one"),
);
export const scopeType = v.picklist(SCOPE_TYPES, `must be one of ${SCOPE_TYPES.join(", ")}`);
export const roleTitle = label();
export const roleDescription = v.union([v.literal(""), text(LONGEST_DESCRIPTION)]);
export const permissionNames = v.pipe(
	v.array(v.picklist(PERMISSIONS, `must be one of ${PERMISSIONS.join(", ")}`)),
	v.minLength(1, "must name a permission"),
	v.transform((names) => PERMISSIONS.filter((permission) => names.includes(permission))),
);

export const roleSchema = v.strictObject({
	name: v.string(),
	title: v.string(),
	description: v.string(),
	scope_type: v.picklist(SCOPE_TYPES),
	permissions: v.array(v.string()),
	/** False: a built-in role. */
	is_custom: v.boolean(),
	/** False: only the service gives it. */
	assignable: v.boolean(),
	/** Null: a built-in role. */
	updated_at: nullableTime,
});

const holderSchema = v.strictObject({
	/** `channel`: a protected channel that names the role in `promoters`. */
	type: v.picklist(["api_key", "user", "group", "invitation", "channel"]),
	id: v.string(),
	name: v.string(),
	scope_type: v.picklist(SCOPE_TYPES),
	app_id: v.nullable(v.string()),
	channel: v.nullable(v.string()),
	/** Permissions at that scope that no other role of the holder gives there. */
	gains: v.array(v.string()),
	loses: v.array(v.string()),
});

export const effectFields = {
	dry_run: v.boolean(),
	holders: v.array(holderSchema),
	holder_count: v.number(),
	/**
	 * Keys of members who hold the role that exceed it afterwards, with the bindings that they lose.
	 */
	lowered_api_keys: v.array(loweredKeySchema),
};

export const EXAMPLE_ROLE = {
	name: "release-manager",
	title: "Release manager",
	description: "Uploads bundles and releases them.",
	scope_type: "app" as const,
	permissions: ["app.read", "app.read_bundles", "app.upload_bundle", "channel.read", "channel.promote_bundle"],
	is_custom: true,
	assignable: true,
	updated_at: "2026-11-21T08:00:00.000Z",
};

/**
 * Permissions whose use ends the protection of an app's channels, because the app's id goes to a
 * new app, which has none. So a role with one of them has the permission to change the protection
 * as well.
 */
const ENDS_PROTECTION: readonly Permission[] = ["app.delete", "org.delete"];
const CHANGES_PROMOTERS: Permission = "app.update_user_roles";

/**
 * @throws {ApiError} `invalid_request` for permissions that no role can hold, or none of this scope
 */
export function refuseForeignPermissions(permissions: readonly Permission[], scope: ScopeType): void {
	const ending = permissions.find((permission) => ENDS_PROTECTION.includes(permission));
	if (ending !== undefined && !permissions.includes(CHANGES_PROMOTERS)) {
		const message = `with ${ending} must name ${CHANGES_PROMOTERS} too, because a deleted app takes the protection of its channels with it; add it, or leave out ${ending}`;
		throw invalidRequest([{ path: "permissions", message, received: ending }]);
	}

	const foreign = permissions.find((permission) => !PERMISSIONS_AT[scope].includes(permission));
	if (foreign === undefined) return;
	const message = `must hold for a role of scope_type ${scope}; leave out ${foreign}, or use a wider scope_type`;
	throw invalidRequest([{ path: "permissions", message, received: foreign }]);
}

/**
 * Nobody defines, changes or deletes a role that holds more than they do on the whole organization,
 * before or after.
 * @throws {ApiError} `permission_denied`
 */
export function refuseStrongerRoles(principal: Principal, roles: readonly Role[], orgId: OrgId): void {
	for (const role of roles) refuseStronger(principal, role, { orgId });
}

/**
 * @throws {ApiError} `permission_denied` for a key whose own rights end or depend on its address,
 * because those of the holders do not
 */
export function refuseLimitedKey(principal: Principal): void {
	if (principal.expiresAtMs === null && principal.ipAllowList === null) return;
	throw new ApiError(
		"permission_denied",
		"This API key expires or is limited to addresses, so it cannot give permissions to the holders of a role. Sign in, or use a key without these limits.",
		{ moreInfo: { permission: "org.update_user_roles", scope: "org" } },
	);
}

export const roleOfRow = (row: CustomRoleRow): Role =>
	customRole(row.name, row.scope_type, JSON.parse(row.permissions));

export function roleNotFound(): ApiError {
	return fieldError(
		"role_not_found",
		"name",
		"the organization defines no role of this name. List the roles with GET /organization/roles.",
	);
}

export function roleChanged(): ApiError {
	return new ApiError(
		"role_changed",
		"A role of the organization was changed by another request. Read GET /organization/roles and retry.",
	);
}

/**
 * The holders, with what they gain and lose when `after` replaces `before`; a person with a
 * stronger role besides neither.
 */
export function holderAnswers(rows: readonly HolderRow[], before: Role, after: Role | undefined) {
	return rows.map((row) => {
		const others: { role: string; scopeType: ScopeType; customPermissions: string[] | null }[] = JSON.parse(row.others);
		const kept = others.flatMap(({ role: name, scopeType: level, customPermissions }) => {
			const role = resolvedRole(name, level, customPermissions);
			return role === undefined || role.ownWorkOnly === true ? [] : role.permissions;
		});
		const difference = (more: readonly Permission[], less: readonly Permission[]) =>
			row.type === "channel"
				? []
				: more.filter((permission) => !less.includes(permission) && !kept.includes(permission));
		return {
			type: row.type,
			id: row.id,
			name: row.name,
			scope_type: row.scope_type,
			app_id: row.app_id,
			channel: row.channel,
			gains: difference(after?.permissions ?? [], before.permissions),
			loses: difference(before.permissions, after?.permissions ?? []),
		};
	});
}
