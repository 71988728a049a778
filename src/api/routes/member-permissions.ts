/**
 * Global permissions of an account, at present `org.create`. They hold wherever the account administers an organization, so none of its
 * organizations changes them: the operator does, as an owner of the first organization.
 */
import * as v from "valibot";
import type { OrgId } from "../../authz/decide";
import { ADMINISTERING_ROLES, strongestMemberRole } from "../../authz/member-roles";
import { GLOBAL_PERMISSIONS, isRoleName } from "../../authz/permissions";
import { auditStatement } from "../../db/audit";
import { batchOrFail, guard } from "../../db/client";
import {
	memberHolds,
	memberPermissionsAre,
	membershipByEmail,
	membershipIs,
	setMemberPermissions,
} from "../../db/members";
import { stillHoldsGlobally } from "../../db/organizations";
import { endpoint } from "../endpoint";
import { globalPermissionDenied, refuseGlobalPermissions, refuseGlobalPermissionsNotHeld } from "../key-rules";
import { emailAddress, uuid } from "../schemas";
import { operatorScope } from "../scope";
import { memberChanged, memberNotFound } from "./member";

const permissionNames = v.array(v.picklist(GLOBAL_PERMISSIONS, `must be one of ${GLOBAL_PERMISSIONS.join(", ")}`));

export const updateMemberPermissions = endpoint({
	method: "PUT",
	path: "/organization/members/permissions",
	tag: "Members",
	summary: "Let an account create organizations when signed in, or not any more (operator)",
	description:
		"`global_permissions` are all that the account holds from now on: `org.create` or nothing. For the operator only: an owner of the first organization, with a key or an account that holds the permission. `orgId` is any organization in which the account is a member; the permission counts beside a role that administers an organization, in every one of them.",
	access: { permission: "org.delete", scope: operatorScope },
	recentSignIn: true,
	body: v.object({ orgId: uuid, email: emailAddress, global_permissions: permissionNames }),
	response: v.strictObject({
		status: v.literal("ok"),
		uid: v.string(),
		email: v.string(),
		global_permissions: v.array(v.string()),
	}),
	errors: ["member_not_found", "member_changed", "invalid_global_permissions"],
	example: {
		body: {
			orgId: "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21",
			email: "ada@example.com",
			global_permissions: ["org.create"],
		},
		response: {
			status: "ok",
			uid: "0c7f0c5e-34a5-4f5c-8b60-8a2f0b8c1d11",
			email: "ada@example.com",
			global_permissions: ["org.create"],
		},
	},
	load: ({ body }, nowMs) => [membershipByEmail(body.orgId, body.email, nowMs)] as const,
	async handle({ db, principal, input, loaded, nowMs, actor }) {
		// The operator's decision covers every organization.
		const orgId = input.body.orgId as OrgId;
		const [member] = loaded[0].rows;
		const roles: string[] = JSON.parse(member?.roles ?? "[]");
		if (member === undefined || roles.length === 0) throw memberNotFound();
		const before: string[] = JSON.parse(member.global_permissions);
		const after = [...new Set<string>(input.body.global_permissions)];
		const given = after.filter((permission) => !before.includes(permission));
		const taken = before.filter((permission) => !after.includes(permission));
		refuseGlobalPermissionsNotHeld(principal, taken);
		refuseGlobalPermissions(principal, given, roles.filter(isRoleName));
		const answer = { status: "ok" as const, uid: member.user_id, email: member.email, global_permissions: after };
		const changed = [...given, ...taken];
		if (changed.length === 0) return answer;
		await batchOrFail(
			db,
			[
				...changed.map((permission) =>
					guard("caller_holds", stillHoldsGlobally(principal, permission, ADMINISTERING_ROLES, nowMs)),
				),
				guard("member_as_read", membershipIs(orgId, member)),
				guard("permissions_as_read", memberPermissionsAre(member)),
				...(given.length === 0
					? []
					: [guard("member_administers", memberHolds(orgId, member.user_id, ADMINISTERING_ROLES, nowMs))]),
				setMemberPermissions(orgId, member.user_id, after),
				auditStatement(actor, nowMs, {
					orgId,
					action: "member.update",
					target: { type: "user", id: member.user_id, name: member.email },
					before: { role: strongestMemberRole(roles) ?? roles[0], global_permissions: before },
					after: { role: strongestMemberRole(roles) ?? roles[0], global_permissions: after },
				}),
			],
			{
				caller_holds: () => globalPermissionDenied(changed[0] ?? ""),
				member_as_read: memberChanged,
				permissions_as_read: memberChanged,
				member_administers: memberChanged,
			},
		);
		return answer;
	},
});
