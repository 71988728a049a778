/**
 * Global permissions of an account, currently `org.create`. They apply in every organization that
 * the account administers, so only the operator, an owner of the first organization, can change
 * them.
 */
import * as v from "valibot";
import type { OrgId } from "../../authz/decide";
import { ADMINISTERING_ROLES, strongestMemberRole } from "../../authz/member-roles";
import { isRoleName } from "../../authz/permissions";
import { auditStatement } from "../../db/audit/entries";
import { guard } from "../../db/client";
import {
	memberHolds,
	memberPermissionsAre,
	membershipByEmail,
	membershipIs,
	setMemberPermissions,
} from "../../db/members";
import { stillHoldsGlobally } from "../../db/organizations";
import { endpoint } from "../../http/endpoint";
import { emailAddress, uuid } from "../../http/schemas";
import { operatorScope } from "../../http/scope";
import { globalPermissionNames } from "../keys/record";
import { globalPermissionDenied, refuseGlobalPermissions, refuseGlobalPermissionsNotHeld } from "../keys/rules";
import { EXAMPLE_ORG_ID, EXAMPLE_UID, memberChanged, memberNotFound, namesOf } from "./member-rules";

export const updateMemberPermissions = endpoint({
	method: "PUT",
	path: "/organization/members/permissions",
	tag: "Members",
	summary: "Set whether an account may create organizations when signed in (operator)",
	description: [
		"`global_permissions` replaces the account's global permissions: `org.create` or none.",
		"Only for the operator: an owner of the first organization whose key or account holds the permission.",
		"`orgId` is any organization in which the account is a member.",
		"The permission takes effect while the account administers an organization.",
	],
	access: { permission: "org.delete", scope: operatorScope },
	refusesUnknown: true,
	recentSignIn: true,
	body: v.object({ orgId: uuid, email: emailAddress, global_permissions: globalPermissionNames }),
	response: v.strictObject({
		status: v.literal("ok"),
		uid: v.string(),
		email: v.string(),
		global_permissions: v.array(v.string()),
	}),
	errors: ["member_not_found", "member_changed", "invalid_global_permissions"],
	example: {
		body: {
			orgId: EXAMPLE_ORG_ID,
			email: "ada@example.com",
			global_permissions: ["org.create"],
		},
		response: {
			status: "ok",
			uid: EXAMPLE_UID,
			email: "ada@example.com",
			global_permissions: ["org.create"],
		},
	},
	load: ({ body }, nowMs) => ({ member: membershipByEmail(body.orgId, body.email, nowMs) }),
	async handle({ db, principal, input, loaded, nowMs, actor }) {
		// The operator scope authorizes the request for every organization.
		const orgId = input.body.orgId as OrgId;
		const [member] = loaded.member;
		const roles = namesOf(member?.roles ?? "[]");
		if (member === undefined || roles.length === 0) throw memberNotFound();
		const before = namesOf(member.global_permissions);
		const after = [...new Set<string>(input.body.global_permissions)];
		const given = after.filter((permission) => !before.includes(permission));
		const taken = before.filter((permission) => !after.includes(permission));
		refuseGlobalPermissionsNotHeld(principal, taken);
		refuseGlobalPermissions(principal, given, roles.filter(isRoleName));
		const answer = { status: "ok" as const, uid: member.user_id, email: member.email, global_permissions: after };
		const changed = [...given, ...taken];
		if (changed.length === 0) return answer;
		await db.batch([
			...changed.map((permission) =>
				guard(stillHoldsGlobally(principal, permission, ADMINISTERING_ROLES, nowMs), () =>
					globalPermissionDenied(changed[0] ?? ""),
				),
			),
			guard(membershipIs(orgId, member), memberChanged),
			guard(memberPermissionsAre(member), memberChanged),
			...(given.length === 0
				? []
				: [guard(memberHolds(orgId, member.user_id, ADMINISTERING_ROLES, nowMs), memberChanged)]),
			setMemberPermissions(orgId, member.user_id, after),
			auditStatement(actor, nowMs, {
				orgId,
				action: "member.update",
				target: { type: "user", id: member.user_id, name: member.email },
				before: { role: strongestMemberRole(roles) ?? roles[0], global_permissions: before },
				after: { role: strongestMemberRole(roles) ?? roles[0], global_permissions: after },
			}),
		]);
		return answer;
	},
});
