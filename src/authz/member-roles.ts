/**
 * Roles of whole organizations, for members and invitations, computed from the role table: which can be assigned, which is strongest, which
 * hold a permission. No role is named here.
 */
import { administersOrganization, type Permission, ROLE_NAMES, ROLES, type RoleName } from "./permissions";

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
export function memberRolesHolding(permissions: readonly Permission[]): RoleName[] {
	return MEMBER_ROLES.filter((role) => permissions.every((permission) => ROLES[role].permissions.includes(permission)));
}

/** Roles that exceed a role of a whole organization: the keys of its holder must not keep them. */
export interface RolesBeyond {
	readonly role: RoleName;
	/** Roles of whole organizations. */
	readonly ofOrganization: readonly RoleName[];
	/** Roles of apps and channels. */
	readonly below: readonly RoleName[];
	/** Pairs of such a role and another role of its app or channel that, together with `role`, holds all its permissions. */
	readonly covered: readonly (readonly [RoleName, RoleName])[];
}

export function rolesBeyond(role: RoleName): RolesBeyond {
	const isWithin = (name: RoleName, own?: RoleName) =>
		ROLES[name].permissions.every(
			(permission) =>
				ROLES[role].permissions.includes(permission) ||
				(own !== undefined && ROLES[own].ownWorkOnly !== true && ROLES[own].permissions.includes(permission)),
		);
	const isBelow = (name: RoleName) => ROLES[name].scopeType !== "org";
	const beyond = ROLE_NAMES.filter((name) => !isWithin(name));
	const below = beyond.filter(isBelow);
	const ownRoles = ROLE_NAMES.filter(isBelow);
	return {
		role,
		ofOrganization: beyond.filter((name) => !isBelow(name)),
		below,
		covered: below.flatMap((name) =>
			ownRoles.filter((own) => isWithin(name, own)).map((own): [RoleName, RoleName] => [name, own]),
		),
	};
}

/** Whether a member with these roles loses a permission when the role replaces them. */
export function isLowered(before: readonly string[], role: RoleName): boolean {
	const { ofOrganization } = rolesBeyond(role);
	return before.some((name) => ofOrganization.some((beyond) => beyond === name));
}

/** Roles that may delete the organization. One member always keeps such a role. */
export const OWNING_ROLES: readonly RoleName[] = memberRolesHolding(["org.delete"]);

/** Roles that may offer the organization's apps to another one. */
export const GIVING_ROLES: readonly RoleName[] = memberRolesHolding(["app.delete", "org.update_settings"]);

/** Roles that make global permissions effective. */
export const ADMINISTERING_ROLES: readonly RoleName[] = ROLE_NAMES.filter(administersOrganization);
