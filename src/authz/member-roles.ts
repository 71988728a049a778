/**
 * What the role table says about roles of whole organizations, for members and invitations: which can be given, which is the
 * strongest, which hold a permission. Everything here is computed from the table; no role is named.
 */
import { administersOrganization, type Permission, ROLE_NAMES, ROLES, type RoleName } from "./permissions";

/** Roles that a member can be given, strongest first. */
export const MEMBER_ROLES: readonly RoleName[] = ROLE_NAMES.filter(
	(name) => ROLES[name].assignable && ROLES[name].scopeType === "org",
).sort((left, right) => ROLES[right].permissions.length - ROLES[left].permissions.length);

/** The weakest of them. */
export const WEAKEST_MEMBER_ROLE: RoleName | undefined = MEMBER_ROLES.at(-1);

/** The strongest role of a whole organization among these names; undefined when there is none. */
export function strongestMemberRole(names: readonly string[]): RoleName | undefined {
	return MEMBER_ROLES.find((role) => names.includes(role));
}

/** Roles of a whole organization that hold all of these permissions. */
export function memberRolesHolding(permissions: readonly Permission[]): RoleName[] {
	return MEMBER_ROLES.filter((role) => permissions.every((permission) => ROLES[role].permissions.includes(permission)));
}

/** Roles that may end the organization. It always keeps a member who has one. */
export const OWNING_ROLES: readonly RoleName[] = memberRolesHolding(["org.delete"]);

/** Roles that global permissions hold beside. */
export const ADMINISTERING_ROLES: readonly RoleName[] = ROLE_NAMES.filter(administersOrganization);
