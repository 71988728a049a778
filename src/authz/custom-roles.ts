/**
 * Roles that an organization defines itself: a named subset of the permissions. A custom role
 * grants nothing until it is bound, its name is never that of a built-in role, and a binding with a
 * name that the organization does not define grants nothing. Its owners are never counted: an
 * organization is owned and administered by built-in roles only.
 */
import {
	isRoleName,
	PERMISSIONS_AT,
	type Permission,
	ROLE_NAMES,
	ROLES,
	type Role,
	type ScopeType,
} from "./permissions";

/**
 * Without underscores, which all built-in names have, and shorter than the ids of keys and
 * accounts.
 */
export const CUSTOM_ROLE_NAME = /^[a-z][a-z0-9-]{1,29}$/;

/**
 * Names that built-in roles have without their prefix, and the modes of keys.
 */
const RESERVED: readonly string[] = [
	...ROLE_NAMES.map((name) => name.replace(/^[a-z]+_/, "").replaceAll("_", "-")),
	"read",
	"upload",
	"write",
	"all",
	"owner",
];

export const isReservedRoleName = (name: string): boolean => RESERVED.includes(name);

/**
 * The role of a binding, an invitation or a request; undefined: the name stands for no role there,
 * so it grants nothing.
 */
export function resolvedRole(
	name: string,
	scopeType: ScopeType,
	customPermissions: readonly string[] | null,
): Role | undefined {
	if (isRoleName(name)) return ROLES[name];
	return customPermissions === null ? undefined : customRole(name, scopeType, customPermissions);
}

/** Ignores permissions that only a newer version knows. */
export function customRole(name: string, scopeType: ScopeType, permissions: readonly string[]): Role {
	return {
		name,
		scopeType,
		assignable: true,
		isCustom: true,
		permissions: PERMISSIONS_AT[scopeType].filter((permission) => permissions.includes(permission)),
	};
}

/** The role with the name among the built-in roles and those of an organization. */
export function roleNamed(name: string, customRoles: readonly Role[]): Role | undefined {
	return isRoleName(name) ? ROLES[name] : customRoles.find((role) => role.name === name);
}

export const holdsAll = (role: Role, permissions: readonly Permission[]): boolean =>
	permissions.every((permission) => role.permissions.includes(permission));
