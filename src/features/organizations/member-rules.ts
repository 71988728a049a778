/**
 * Rules for members and invitations: a caller cannot grant, change or remove a role that is
 * stronger than its own, and an invitation is valid only while its inviter may grant the role.
 */
import * as v from "valibot";
import { roleNamed } from "../../authz/custom-roles";
import { firstPermissionNotHeld } from "../../authz/decide";
import { MEMBER_ROLES } from "../../authz/member-roles";
import { type Permission, ROLE_NAMES, ROLES, type Role } from "../../authz/permissions";
import type { Principal } from "../../authz/principal";
import type { InvitationRow } from "../../db/invitations";
import type { KeyOfMember, Membership } from "../../db/members";
import { ApiError, fieldError, invalidRequest } from "../../errors";
import type { Context } from "../../http/endpoint";
import { customRoleName, rfc3339 } from "../../http/schemas";

/** The part of a request's context that changes of members use. */
export type Caller = Pick<
	Context<string, undefined, undefined, undefined, readonly []>,
	"db" | "deps" | "principal" | "nowMs" | "actor"
>;

export const EXAMPLE_ORG_ID = "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21";
export const EXAMPLE_UID = "0c7f0c5e-34a5-4f5c-8b60-8a2f0b8c1d11";

export const EXAMPLE_TOKEN = "inv_…";

const ROLE_OR_CUSTOM = `must be one of ${MEMBER_ROLES.join(", ")}, or the name of a custom role of the organization`;
export const memberRole = v.union([v.picklist(MEMBER_ROLES), customRoleName], ROLE_OR_CUSTOM);

/** @throws {ApiError} `invalid_request` unless it is a role of a whole organization */
export function memberRoleNamed(name: string, customRoles: readonly Role[]): Role {
	const role = roleNamed(name, customRoles);
	if (role?.scopeType === "org") return role;
	throw invalidRequest([{ path: "role", message: `${ROLE_OR_CUSTOM}; list them with GET /organization/roles` }]);
}

/** The token is in the fragment, because servers and logs never receive it. */
export const invitationLink = (origin: string, token: string) => `${origin}/invitation#token=${token}`;

/** An invitation in the audit log. */
export const shownInvitation = (role: string, expiresAtMs: number) => ({ role, expires_at: rfc3339(expiresAtMs) });

/** The permissions that a member needs to invite people with this role. */
export const neededToInvite = (role: Role): Permission[] => [...role.permissions, "org.invite_user"];

/** Roles that hold a permission which the caller does not hold on the organization. */
export function rolesNotHeld(principal: Principal, orgId: string, customRoles: readonly Role[]): string[] {
	return [...ROLE_NAMES.map((name) => ROLES[name]), ...customRoles]
		.filter((role) => firstPermissionNotHeld(principal, role, { orgId }) !== undefined)
		.map(({ name }) => name);
}

/**
 * @throws {ApiError} `cannot_remove_higher_role` when one of the roles to remove holds a permission
 * that the caller does not hold
 */
export function refuseToTake(
	principal: Principal,
	roles: readonly string[],
	customRoles: readonly Role[],
	orgId: string,
	whose: string,
): void {
	for (const name of roles) {
		const role = roleNamed(name, customRoles);
		const permission = role === undefined ? undefined : firstPermissionNotHeld(principal, role, { orgId });
		if (permission === undefined) continue;
		throw new ApiError(
			"cannot_remove_higher_role",
			`${whose} has the role ${name}, which holds ${permission}; use an API key or an account that holds it as well.`,
			{ moreInfo: { permission, scope: "org", role_name: name } },
		);
	}
}

/**
 * 403 because the account of the caller, which becomes the inviter, may not invite people with this
 * role.
 */
export function inviterMustBeMember({ name: role }: Role): ApiError {
	return new ApiError(
		"permission_denied",
		`The inviting account is not a member of the organization whose role may grant ${role}; ask a member who may.`,
		{ moreInfo: { permission: "org.invite_user", scope: "org", role_name: role } },
	);
}

/**
 * @throws {ApiError} `cannot_remove_higher_role` when a key of the member holds a permission that
 * the caller does not hold
 */
export function refuseToTakeFromKeys(
	principal: Principal,
	member: Membership,
	customRoles: readonly Role[],
	orgId: string,
): void {
	for (const key of [...keysOf(member.keys), ...keysOf(member.foreign_keys)]) {
		refuseToTake(principal, key.roles, customRoles, orgId, `The API key "${key.name}" of ${member.email}`);
	}
}

/** @throws {ApiError} `member_not_found` without an unexpired invitation */
export function pendingInvitation(invitation: InvitationRow | undefined, nowMs: number): InvitationRow {
	if (invitation === undefined || invitation.expires_at_ms <= nowMs) throw memberNotFound();
	return invitation;
}

export const memberNotFound = () =>
	fieldError(
		"member_not_found",
		"email",
		"no member and no invitation of the organization has this address. List them with GET /organization/members.",
	);

export const memberChanged = () =>
	new ApiError(
		"member_changed",
		"The member was changed by another request. Read GET /organization/members and retry.",
	);

export const lastSuperAdmin = () =>
	new ApiError(
		"cannot_remove_last_super_admin",
		"This is the last member who can delete the organization. Give that role to another member first.",
	);

export const keySchema = v.strictObject({ id: v.string(), name: v.string() });
export const keysOf = (json: string): KeyOfMember[] => JSON.parse(json);
export const namesOf = (json: string): string[] => JSON.parse(json);
export const named = ({ id, name }: { readonly id: string; readonly name: string }) => ({ id, name });
