/**
 * Removes a member or withdraws an invitation. A removed member immediately loses everything they
 * hold in the organization, including their API keys. At least one member can always delete the
 * organization.
 */
import * as v from "valibot";
import { roleNamed } from "../../authz/custom-roles";
import type { OrgId } from "../../authz/decide";
import { refuseStronger } from "../../authz/granting";
import { ADMINISTERING_ROLES, OWNING_ROLES, strongestMemberRole } from "../../authz/member-roles";
import type { Role } from "../../authz/permissions";
import { keysRevealedTo } from "../../db/api-keys";
import { withdrawTransfersOf } from "../../db/app-transfers";
import { auditStatement } from "../../db/audit/entries";
import { guard, lastResult } from "../../db/client";
import { customRolesAre, customRolesOf, rolesFrom } from "../../db/custom-roles";
import { deleteInvitation, type InvitationRow, invitationByEmail, invitationIs } from "../../db/invitations";
import { type RoleBelow, rolesBelow } from "../../db/member-bindings";
import {
	deleteKeysOfMember,
	isNotTheLast,
	keysHoldNone,
	type Membership,
	membershipByEmail,
	membershipExists,
	membershipIs,
	type RevokedKey,
	removeMember as removeMemberStatements,
} from "../../db/members";
import { organizationsOfKeys } from "../../db/organizations";
import { endpoint } from "../../http/endpoint";
import { booleanText, emailAddress, optional, uuid } from "../../http/schemas";
import { orgScope } from "../../http/scope";
import { placeOf } from "../keys/rules";
import { otherOrganizations, otherOrganizationsSchema } from "./deletion";
import {
	type Caller,
	EXAMPLE_ORG_ID,
	keySchema,
	keysOf,
	lastSuperAdmin,
	memberChanged,
	memberNotFound,
	named,
	namesOf,
	pendingInvitation,
	refuseToTake,
	refuseToTakeFromKeys,
	rolesNotHeld,
} from "./member-rules";

export const removeMember = endpoint({
	method: "DELETE",
	path: "/organization/members",
	tag: "Members",
	summary: "Remove a member with everything they hold in the organization, or withdraw an invitation",
	description: [
		"Removes the member's bindings in the organization, the bindings of their keys of other",
		"organizations, and the invitations that they sent.",
		"Their API keys that belong to the organization (`revoked_api_keys`) are revoked immediately, in",
		"other organizations as well (`other_organizations`:",
		"those that the caller can see, and the number of others).",
		"`revealed_api_keys` lists other members' keys whose secret this member has revealed or regenerated;",
		"they stay valid, so regenerate them.",
		"`dry_run=true` shows the same and changes nothing.",
	],
	access: { permission: "org.update_user_roles", scope: orgScope("query.orgId") },
	recentSignIn: ({ query }) => query.dry_run !== true,
	query: v.object({ orgId: uuid, email: emailAddress, dry_run: optional(booleanText) }),
	queryOrBody: true,
	response: v.strictObject({
		status: v.literal("ok"),
		dry_run: v.boolean(),
		revoked_api_keys: v.array(keySchema),
		revealed_api_keys: v.array(keySchema),
		other_organizations: otherOrganizationsSchema,
	}),
	errors: ["member_not_found", "member_changed", "cannot_remove_higher_role", "cannot_remove_last_super_admin"],
	example: {
		query: { orgId: EXAMPLE_ORG_ID, email: "ada@example.com" },
		response: {
			status: "ok",
			dry_run: false,
			revoked_api_keys: [{ id: "5d0c7f3a-7c2e-4a2b-9f60-2f4f1c9f7a31", name: "Nightly build" }],
			revealed_api_keys: [],
			other_organizations: { known: [], others: 1 },
		},
	},
	load: ({ query }, nowMs) => ({
		member: membershipByEmail(query.orgId, query.email, nowMs),
		invitation: invitationByEmail(query.orgId, query.email),
		keyOrganizations: organizationsOfKeys(query.orgId, query.email),
		customRoles: customRolesOf(query.orgId),
		below: rolesBelow(query.orgId, query.email),
	}),
	async handle({ db, deps, principal, scope, input, loaded, nowMs, actor }) {
		const { orgId } = scope;
		const dryRun = input.query.dry_run === true;
		const caller = { db, deps, principal, nowMs, actor };
		const [member] = loaded.member;
		const [invitation] = loaded.invitation;
		const customRoles = rolesFrom(loaded.customRoles);
		const { revoked, revealed } =
			member === undefined
				? await withdrawInvitation(caller, orgId, pendingInvitation(invitation, nowMs), { customRoles, dryRun })
				: await removeFromOrganization(caller, orgId, member, invitation, {
						customRoles,
						below: loaded.below,
						dryRun,
					});
		return {
			status: "ok" as const,
			dry_run: dryRun,
			revoked_api_keys: revoked.map(named),
			revealed_api_keys: revealed,
			other_organizations: otherOrganizations(principal, loaded.keyOrganizations),
		};
	},
});

async function withdrawInvitation(
	{ db, principal, nowMs, actor }: Caller,
	orgId: OrgId,
	invitation: InvitationRow,
	{ customRoles, dryRun }: { readonly customRoles: readonly Role[]; readonly dryRun: boolean },
) {
	refuseToTake(principal, [invitation.role_name], customRoles, orgId, `The invitation of ${invitation.email}`);
	if (!dryRun) {
		await db.batch([
			guard(invitationIs(orgId, invitation), memberChanged),
			guard(customRolesAre(orgId, customRoles), memberChanged),
			deleteInvitation(orgId, invitation.email),
			auditStatement(actor, nowMs, {
				orgId,
				action: "invitation.delete",
				target: { type: "invitation", id: invitation.id, name: invitation.email },
				before: { email: invitation.email, role: invitation.role_name },
			}),
		]);
	}
	return { revoked: [], revealed: [] };
}

/** @returns the revoked keys, oldest first, and other members' keys that the member has seen */
async function removeFromOrganization(
	{ db, principal, nowMs, actor }: Caller,
	orgId: OrgId,
	member: Membership,
	invitation: InvitationRow | undefined,
	{
		customRoles,
		below,
		dryRun,
	}: { readonly customRoles: readonly Role[]; readonly below: readonly RoleBelow[]; readonly dryRun: boolean },
) {
	const uid = member.user_id;
	const roles = namesOf(member.roles);
	refuseToTake(principal, roles, customRoles, orgId, member.email);
	refuseToTakeFromKeys(principal, member, customRoles, orgId);
	for (const { role_name, app_id, channel_id } of below) {
		const role = roleNamed(role_name, customRoles);
		if (role !== undefined) refuseStronger(principal, role, placeOf(orgId, app_id, channel_id));
	}
	if (invitation !== undefined) {
		refuseToTake(principal, [invitation.role_name], customRoles, orgId, `The invitation of ${invitation.email}`);
	}
	const conditions = [
		keysRevealedTo(orgId, uid),
		guard(membershipExists(orgId, uid), memberNotFound),
		guard(membershipIs(orgId, member), memberChanged),
		guard(customRolesAre(orgId, customRoles), memberChanged),
		guard(keysHoldNone(orgId, uid, rolesNotHeld(principal, orgId, customRoles)), memberChanged),
		guard(isNotTheLast(orgId, uid, OWNING_ROLES), lastSuperAdmin),
	] as const;
	if (dryRun) {
		const [revealed] = await db.batch(conditions);
		return { revoked: keysOf(member.keys), revealed: revealed.rows };
	}
	const removal = [
		auditStatement(actor, nowMs, {
			orgId,
			action: "member.remove",
			target: { type: "user", id: uid, name: member.email },
			before: { role: strongestMemberRole(roles) ?? roles[0] ?? null },
		}),
		...withdrawTransfersOf(orgId, uid, actor, nowMs),
		...removeMemberStatements(orgId, uid, ADMINISTERING_ROLES, actor, nowMs),
	];
	const results = await db.batch([...conditions, ...removal, deleteKeysOfMember(orgId, uid)]);
	const byAge = (left: RevokedKey, right: RevokedKey) =>
		left.created_at_ms - right.created_at_ms || (left.id < right.id ? -1 : 1);
	return { revoked: lastResult(results).rows.sort(byAge), revealed: results[0].rows };
}
