/**
 * Creates invitations. The response contains the link; only the hash of its token is stored. A
 * caller can invite only to a role that it holds itself, and its account must be a member, because
 * it becomes the inviter.
 */

import * as v from "valibot";
import { refuseMoreAddresses, refuseStronger } from "../../authz/granting";
import { MEMBER_ROLES, WEAKEST_MEMBER_ROLE } from "../../authz/member-roles";
import type { RoleName } from "../../authz/permissions";
import { mintInvitationToken } from "../../authz/secrets";
import { auditStatement } from "../../db/audit/entries";
import { guard } from "../../db/client";
import { customRolesAre, customRolesOf, rolesFrom } from "../../db/custom-roles";
import { invitationByEmail, invitationIsAsRead, replaceInvitation } from "../../db/invitations";
import { isNoMember, type Membership, memberHoldsAll, membershipByEmail } from "../../db/members";
import { invitationsOfOrganization } from "../../db/quotas";
import { INVITATION_DAYS } from "../../domain/defaults";
import { DAY_MS } from "../../domain/time";
import { plainLines } from "../../domain/words/plain-text";
import { ApiError, fieldError, invalidRequest } from "../../errors";
import { endpoint, Reply } from "../../http/endpoint";
import { batchInQuotas } from "../../http/quotas";
import { optional, personsAddress, rfc3339, text, time, uuid } from "../../http/schemas";
import { orgScope } from "../../http/scope";
import { promoterGuards } from "../keys/promoter-guards";
import { changeMemberRole } from "./member-change";
import {
	EXAMPLE_ORG_ID,
	EXAMPLE_TOKEN,
	invitationLink,
	inviterMustBeMember,
	keySchema,
	memberChanged,
	memberRole,
	memberRoleNamed,
	named,
	namesOf,
	neededToInvite,
	refuseToTake,
	shownInvitation,
} from "./member-rules";

const INVITATION_LIFETIME_MS = INVITATION_DAYS * DAY_MS;

const MOST_NOTE_LETTERS = 500;

/** Values of `invite_type`, an alternative to `role`: role names that similar services use. */
export const INVITE_TYPES: ReadonlyMap<string, RoleName> = new Map(
	[
		...MEMBER_ROLES.flatMap((role): [string, RoleName][] => [
			[role, role],
			[role.replace(/^org_/, ""), role],
		]),
		...["read", "upload", "write"].flatMap((name): [string, RoleName][] =>
			WEAKEST_MEMBER_ROLE === undefined ? [] : [[name, WEAKEST_MEMBER_ROLE]],
		),
	].flatMap(([name, role]): [string, RoleName][] => [
		[name, role],
		[`invite_${name}`, role],
	]),
);

export const inviteMember = endpoint({
	method: "POST",
	path: "/organization/members",
	tag: "Members",
	summary: "Invite a person by their e-mail address",
	description: [
		`The response contains a single-use link that is valid for ${INVITATION_DAYS} days.`,
		"The service stores no copy of the link and sends no mail.",
		"A second invitation of the same address replaces the first.",
		"For somebody who is a member the request changes the role as PUT /organization/members does, with",
		"its permission, and answers 200 with `uid` and `lowered_api_keys`.",
		"The page of the link shows `note`.",
		"`invite_type` is an alternative to `role`.",
	],
	body: v.object({
		orgId: uuid,
		email: personsAddress,
		role: optional(memberRole),
		note: optional(v.pipe(text(MOST_NOTE_LETTERS), v.transform(plainLines))),
		invite_type: optional(v.picklist([...INVITE_TYPES.keys()], `must be one of ${MEMBER_ROLES.join(", ")}`)),
	}),
	load: ({ body }, nowMs) => ({
		invitation: invitationByEmail(body.orgId, body.email),
		member: membershipByEmail(body.orgId, body.email, nowMs),
		customRoles: customRolesOf(body.orgId),
	}),
	access: {
		permissions: ["org.invite_user", "org.update_user_roles"],
		scope: orgScope("body.orgId"),
		choose: ({ loaded }) => [isMember(loaded.member[0]) ? "org.update_user_roles" : "org.invite_user"],
	},
	refusesUnknown: true,
	recentSignIn: true,
	status: [201, 200],
	response: v.union([
		v.strictObject({
			status: v.literal("ok"),
			invitation_id: v.string(),
			email: v.string(),
			role: v.string(),
			expires_at: time,
			link: v.string(),
		}),
		v.strictObject({
			status: v.literal("ok"),
			uid: v.string(),
			email: v.string(),
			role: v.string(),
			lowered_api_keys: v.array(keySchema),
		}),
	]),
	errors: [
		"quota_exceeded",
		"already_member",
		"invitation_changed",
		"member_changed",
		"cannot_remove_higher_role",
		"cannot_remove_last_super_admin",
	],
	example: {
		body: { orgId: EXAMPLE_ORG_ID, email: "ada@example.com", role: WEAKEST_MEMBER_ROLE },
		response: {
			status: "ok",
			invitation_id: "5d0c7f3a-7c2e-4a2b-9f60-2f4f1c9f7a31",
			email: "ada@example.com",
			role: WEAKEST_MEMBER_ROLE,
			expires_at: "2026-11-28T08:00:00.000Z",
			link: `https://updates.example.com/invitation#token=${EXAMPLE_TOKEN}`,
		},
	},
	async handle({ db, deps, principal, scope, input, loaded, nowMs, actor, origin }) {
		const { email } = input.body;
		const customRoles = rolesFrom(loaded.customRoles);
		const role = memberRoleNamed(roleOf(input.body), customRoles);
		const [member] = loaded.member;
		if (member !== undefined && isMember(member)) {
			const caller = { db, deps, principal, nowMs, actor };
			const { lowered } = await changeMemberRole(caller, scope.orgId, member, {
				role,
				customRoles,
				keepKeys: false,
				dryRun: false,
			});
			return new Reply(200, {
				status: "ok" as const,
				uid: member.user_id,
				email: member.email,
				role: role.name,
				lowered_api_keys: lowered.map(named),
			});
		}
		refuseStronger(principal, role, { orgId: scope.orgId });
		// The invitee's first key has no address limit.
		refuseMoreAddresses(principal, []);

		const [replaced] = loaded.invitation;
		if (replaced !== undefined && replaced.expires_at_ms > nowMs) {
			refuseToTake(principal, [replaced.role_name], customRoles, scope.orgId, "The invitation that this would replace");
		}
		const id = deps.newId();
		const token = mintInvitationToken(deps.randomBytes);
		const expiresAtMs = nowMs + INVITATION_LIFETIME_MS;
		await batchInQuotas(
			db,
			deps.config.quotas,
			[invitationsOfOrganization(scope.orgId, nowMs)],
			[
				guard(isNoMember(scope.orgId, email, nowMs), () =>
					fieldError(
						"already_member",
						"email",
						"this person is already a member. Change their role with PUT /organization/members.",
					),
				),
				guard(
					invitationIsAsRead(scope.orgId, email, replaced),
					() =>
						new ApiError(
							"invitation_changed",
							"Another request invited this person. Read GET /organization/members and retry.",
						),
				),
				guard(customRolesAre(scope.orgId, customRoles), memberChanged),
				...promoterGuards(principal, scope.orgId, [{ role: role.name, appId: null, channelId: null }]),
				guard(memberHoldsAll(scope.orgId, principal.userId, neededToInvite(role), nowMs), () =>
					inviterMustBeMember(role),
				),
				...replaceInvitation(scope.orgId, {
					id,
					email,
					role_name: role.name,
					token_hash: token.hash,
					invited_by: principal.userId,
					note: input.body.note?.trim() || null,
					expires_at_ms: expiresAtMs,
					created_at_ms: nowMs,
				}),
				auditStatement(actor, nowMs, {
					orgId: scope.orgId,
					action: "invitation.create",
					target: { type: "invitation", id, name: email },
					...(replaced === undefined ? {} : { before: shownInvitation(replaced.role_name, replaced.expires_at_ms) }),
					after: shownInvitation(role.name, expiresAtMs),
				}),
			],
		);
		return new Reply(201, {
			status: "ok" as const,
			invitation_id: id,
			email,
			role: role.name,
			expires_at: rfc3339(expiresAtMs),
			link: invitationLink(origin, token.text),
		});
	},
});

/** Somebody with only a role on an app holds nothing in the organization yet. */
const isMember = (member: Membership | undefined) => member !== undefined && namesOf(member.roles).length > 0;

function roleOf(body: { readonly role?: string | undefined; readonly invite_type?: string | undefined }): string {
	const type = body.invite_type === undefined ? undefined : INVITE_TYPES.get(body.invite_type);
	const role = body.role ?? type;
	if (role === undefined)
		throw invalidRequest([{ path: "role", message: `must be one of ${MEMBER_ROLES.join(", ")}` }]);
	if (type !== undefined && type !== role) {
		throw invalidRequest([{ path: "invite_type", message: "differs from role; send role only" }]);
	}
	return role;
}
