/**
 * Roles of whole organizations, for members and invitations, computed from the role table: which
 * can be assigned, which is strongest, which hold a permission. No role is named here.
 */
import { holdsAll, roleNamed } from "./custom-roles";
import { administersOrganization, type Permission, ROLE_NAMES, ROLES, type Role, type RoleName } from "./permissions";

/** Roles that can be assigned to a member, strongest first. */
export const MEMBER_ROLES: readonly RoleName[] = ROLE_NAMES.filter(
	(name) => ROLES[name].assignable && ROLES[name].scopeType === "org",
).sort((left, right) => ROLES[right].permissions.length - ROLES[left].permissions.length);

/** The weakest role that sees the apps. */
export const WEAKEST_MEMBER_ROLE: RoleName | undefined = memberRolesHolding(["app.read"]).at(-1);

/** The strongest role of a whole organization among these names; undefined when there is none. */
export function strongestMemberRole(names: readonly string[]): RoleName | undefined {
	return MEMBER_ROLES.find((role) => names.includes(role));
}

/** Roles of a whole organization that hold all of these permissions. */
function memberRolesHolding(permissions: readonly Permission[]): RoleName[] {
	return MEMBER_ROLES.filter((role) => permissions.every((permission) => ROLES[role].permissions.includes(permission)));
}

/** Whether a member with these roles loses a permission when the role replaces them. */
export function isLowered(before: readonly string[], role: Role, customRoles: readonly Role[]): boolean {
	return before.some((name) => {
		const held = roleNamed(name, customRoles);
		return held !== undefined && !holdsAll(role, held.permissions);
	});
}

/** Roles that may read what happened, and so may have mails about it. */
export const AUDIT_READERS: readonly RoleName[] = memberRolesHolding(["org.read_audit"]);

/** Roles that may delete the organization. One member always keeps such a role. */
export const OWNING_ROLES: readonly RoleName[] = memberRolesHolding(["org.delete"]);

/** The permissions that allow a role to offer the organization's apps to another one. */
export const GIVING: readonly Permission[] = ["app.delete", "org.update_settings"];

/** Roles that make global permissions effective. */
export const ADMINISTERING_ROLES: readonly RoleName[] = ROLE_NAMES.filter(administersOrganization);
