/**
 * What holds for members and invitations alike: nobody gives, changes or takes away a role that is stronger than their own key, and
 * an invitation is worth what the member who made it may give.
 */
import * as v from "valibot";
import { firstPermissionNotHeld } from "../authz/decide";
import { MEMBER_ROLES, memberRolesHolding } from "../authz/member-roles";
import { isRoleName, ROLE_NAMES, ROLES, type RoleName } from "../authz/permissions";
import type { Principal } from "../authz/principal";
import { ApiError } from "../errors";

export const memberRole = v.picklist(MEMBER_ROLES, `must be one of ${MEMBER_ROLES.join(", ")}`);

/** Servers and logs never receive the part after #. */
export const invitationLink = (origin: string, token: string) => `${origin}/invitation#token=${token}`;

/** Roles whose holder may invite people with this role. */
export function rolesThatMayInvite(role: RoleName): RoleName[] {
	return memberRolesHolding([...ROLES[role].permissions, "org.invite_user"]);
}

/** Roles of a whole organization that hold what the caller does not. */
export function rolesNotHeld(principal: Principal, orgId: string): RoleName[] {
	return ROLE_NAMES.filter(
		(role) => ROLES[role].scopeType === "org" && firstPermissionNotHeld(principal, role, { orgId }) !== undefined,
	);
}

/** @throws {ApiError} `cannot_remove_higher_role` when one of the roles to be taken holds what the caller does not */
export function refuseToTake(principal: Principal, roles: readonly string[], orgId: string, whose: string): void {
	for (const role of roles) {
		const permission = isRoleName(role) ? firstPermissionNotHeld(principal, role, { orgId }) : undefined;
		if (permission === undefined) continue;
		throw new ApiError(
			"cannot_remove_higher_role",
			`${whose} has the role ${role}, which holds ${permission}; use an API key or an account that holds it as well.`,
			{ moreInfo: { permission, scope: "org", role_name: role } },
		);
	}
}

/** The account that the key acts for answers for the invitation, so it must be a member who could make it. */
export function inviterMustBeMember(role: RoleName): ApiError {
	return new ApiError(
		"permission_denied",
		`The account that invites is no member of the organization who may give the role ${role}; ask a member who may.`,
		{ moreInfo: { permission: "org.invite_user", scope: "org", role_name: role } },
	);
}
