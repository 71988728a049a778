/**
 * Changes the role of a member or of a pending invitation. A lower role lowers the member's keys in
 * the same batch, because a key could otherwise undo the demotion. At least one member can always
 * delete the organization.
 */
import * as v from "valibot";
import { holdsAll } from "../../authz/custom-roles";
import type { OrgId } from "../../authz/decide";
import { refuseMoreAddresses, refuseStronger } from "../../authz/granting";
import { GIVING, isLowered, OWNING_ROLES, strongestMemberRole, WEAKEST_MEMBER_ROLE } from "../../authz/member-roles";
import type { Role } from "../../authz/permissions";
import { mintInvitationToken } from "../../authz/secrets";
import { keysRevealedTo } from "../../db/api-keys";
import { withdrawTransfersOf } from "../../db/app-transfers";
import { auditStatement } from "../../db/audit/entries";
import { guard } from "../../db/client";
import { customRolesAre, customRolesOf, rolesFrom } from "../../db/custom-roles";
import { changeInvitation, type InvitationRow, invitationByEmail, invitationIs } from "../../db/invitations";
import { keysLowered, type LoweredKey, lossByNewRole, lowerKeys } from "../../db/lowered-keys";
import {
	deleteMemberRoles,
	insertMemberBinding,
	isNotTheLast,
	keysHoldNone,
	type Membership,
	memberHoldsAll,
	membershipByEmail,
	membershipExists,
	membershipIs,
} from "../../db/members";
import { endpoint } from "../../http/endpoint";
import { emailAddress, optional, uuid } from "../../http/schemas";
import { orgScope } from "../../http/scope";
import { promoterGuards } from "../keys/promoter-guards";
import {
	type Caller,
	EXAMPLE_ORG_ID,
	EXAMPLE_UID,
	invitationLink,
	inviterMustBeMember,
	keySchema,
	keysOf,
	lastSuperAdmin,
	memberChanged,
	memberNotFound,
	memberRole,
	memberRoleNamed,
	named,
	namesOf,
	neededToInvite,
	pendingInvitation,
	refuseToTake,
	refuseToTakeFromKeys,
	rolesNotHeld,
} from "./member-rules";

export const loweredKeySchema = v.strictObject({
	...keySchema.entries,
	lost: v.array(
		v.strictObject({ role_name: v.string(), app_id: v.nullable(v.string()), channel_id: v.nullable(v.number()) }),
	),
});

export const shownKeys = (rows: readonly LoweredKey[]): v.InferOutput<typeof loweredKeySchema>[] =>
	rows.map(({ lost, ...key }) => ({ ...key, lost: JSON.parse(lost) }));

export const updateMember = endpoint({
	method: "PUT",
	path: "/organization/members",
	tag: "Members",
	summary: "Change the role of a member or of a pending invitation",
	description: [
		"Neither the old nor the new role may be stronger than the caller.",
		"A lower role immediately lowers the member's API keys in the organization: a role of a key that",
		"holds all of the new role and more becomes the new one, and any other stronger role is removed, on",
		"an app or a channel unless the member holds it there.",
		"`lowered_api_keys` lists these keys with the bindings that",
		"they lose; `dry_run: true` lists them and changes nothing.",
		"`keep_keys: true` keeps the keys unchanged; they still cannot manage keys, members and invitations",
		"if the account cannot.",
		"`api_keys` lists all keys of the member that belong to the organization.",
		"A pending invitation gets a new link for the new role (`link`), and the old link stops working.",
		"If the role is lowered, `revealed_api_keys` lists other members' keys whose secret this member has",
		"revealed or regenerated; they keep their rights, so regenerate them.",
	],
	access: { permission: "org.update_user_roles", scope: orgScope("body.orgId") },
	refusesUnknown: true,
	recentSignIn: ({ body }) => body.dry_run !== true,
	body: v.object({
		orgId: uuid,
		email: emailAddress,
		role: memberRole,
		keep_keys: optional(v.boolean()),
		dry_run: optional(v.boolean()),
	}),
	response: v.strictObject({
		status: v.literal("ok"),
		uid: v.string(),
		email: v.string(),
		role: v.string(),
		dry_run: v.boolean(),
		api_keys: v.array(keySchema),
		lowered_api_keys: v.array(loweredKeySchema),
		revealed_api_keys: v.array(keySchema),
		link: v.nullable(v.string()),
	}),
	errors: ["member_not_found", "member_changed", "cannot_remove_higher_role", "cannot_remove_last_super_admin"],
	example: {
		body: { orgId: EXAMPLE_ORG_ID, email: "ada@example.com", role: WEAKEST_MEMBER_ROLE },
		response: {
			status: "ok",
			uid: EXAMPLE_UID,
			email: "ada@example.com",
			role: WEAKEST_MEMBER_ROLE,
			dry_run: false,
			api_keys: [],
			lowered_api_keys: [],
			revealed_api_keys: [],
			link: null,
		},
	},
	load: ({ body }, nowMs) => ({
		member: membershipByEmail(body.orgId, body.email, nowMs),
		invitation: invitationByEmail(body.orgId, body.email),
		customRoles: customRolesOf(body.orgId),
	}),
	async handle({ db, deps, principal, scope, input, loaded, nowMs, actor, origin }) {
		const { keep_keys: keepKeys = false, dry_run: dryRun = false } = input.body;
		const customRoles = rolesFrom(loaded.customRoles);
		const role = memberRoleNamed(input.body.role, customRoles);
		const { orgId } = scope;
		const caller = { db, deps, principal, nowMs, actor };
		const [member] = loaded.member;
		const answer = { status: "ok" as const, role: role.name, dry_run: dryRun };
		if (member === undefined || namesOf(member.roles).length === 0) {
			const invitation = pendingInvitation(loaded.invitation[0], nowMs);
			const token = await changeInvitedRole(caller, orgId, invitation, { role, customRoles, dryRun });
			return {
				...answer,
				uid: invitation.id,
				email: invitation.email,
				api_keys: [],
				lowered_api_keys: [],
				revealed_api_keys: [],
				link: token === undefined ? null : invitationLink(origin, token),
			};
		}
		const changed = await changeMemberRole(caller, orgId, member, { role, customRoles, keepKeys, dryRun });
		return {
			...answer,
			uid: member.user_id,
			email: member.email,
			link: null,
			api_keys: keysOf(member.keys).map(named),
			lowered_api_keys: shownKeys(changed.lowered),
			revealed_api_keys: changed.revealed,
		};
	},
});

/** @returns the new token of the invitation; undefined: nothing was changed */
async function changeInvitedRole(
	{ db, deps, principal, nowMs, actor }: Caller,
	orgId: OrgId,
	invitation: InvitationRow,
	{
		role,
		customRoles,
		dryRun,
	}: { readonly role: Role; readonly customRoles: readonly Role[]; readonly dryRun: boolean },
): Promise<string | undefined> {
	refuseToTake(principal, [invitation.role_name], customRoles, orgId, `The invitation of ${invitation.email}`);
	refuseStronger(principal, role, { orgId });
	// The invitee's first key has no address limit.
	refuseMoreAddresses(principal, []);
	if (invitation.role_name === role.name || dryRun) return undefined;
	const token = mintInvitationToken(deps.randomBytes);
	await db.batch([
		guard(invitationIs(orgId, invitation), memberChanged),
		guard(customRolesAre(orgId, customRoles), memberChanged),
		...promoterGuards(principal, orgId, [{ role: role.name, appId: null, channelId: null }]),
		guard(memberHoldsAll(orgId, principal.userId, neededToInvite(role), nowMs), () => inviterMustBeMember(role)),
		// The caller becomes the inviter, so the link that the previous inviter sent must stop working.
		changeInvitation(orgId, invitation.id, {
			role_name: role.name,
			invited_by: principal.userId,
			// The page says that the inviter wrote it.
			note: invitation.invited_by === principal.userId ? invitation.note : null,
			token_hash: token.hash,
		}),
		auditStatement(actor, nowMs, {
			orgId,
			action: "invitation.update",
			target: { type: "invitation", id: invitation.id, name: invitation.email },
			before: { role: invitation.role_name },
			after: { role: role.name },
		}),
	]);
	return token.text;
}

/** @returns the keys that lose bindings, and other members' keys that a demoted member has seen */
export async function changeMemberRole(
	{ db, deps, principal, nowMs, actor }: Caller,
	orgId: OrgId,
	member: Membership,
	{
		role,
		customRoles,
		keepKeys,
		dryRun,
	}: {
		readonly role: Role;
		readonly customRoles: readonly Role[];
		readonly keepKeys: boolean;
		readonly dryRun: boolean;
	},
) {
	const roles = namesOf(member.roles);
	refuseToTake(principal, roles, customRoles, orgId, member.email);
	refuseStronger(principal, role, { orgId });
	const isDemotion = isLowered(roles, role, customRoles);
	const lowersKeys = isDemotion && !keepKeys;
	if (lowersKeys) refuseToTakeFromKeys(principal, member, customRoles, orgId);
	if (roles.length === 1 && roles[0] === role.name) return { lowered: [], revealed: [] };

	const uid = member.user_id;
	const loss = lossByNewRole(orgId, uid, role, customRoles);
	const guards = [
		guard(membershipExists(orgId, uid), memberNotFound),
		guard(membershipIs(orgId, member), memberChanged),
		guard(customRolesAre(orgId, customRoles), memberChanged),
		...(dryRun ? [] : promoterGuards(principal, orgId, [{ role: role.name, appId: null, channelId: null }])),
		...(lowersKeys
			? [guard(keysHoldNone(orgId, uid, rolesNotHeld(principal, orgId, customRoles)), memberChanged)]
			: []),
		...(OWNING_ROLES.some((name) => name === role.name)
			? []
			: [guard(isNotTheLast(orgId, uid, OWNING_ROLES), lastSuperAdmin)]),
	];
	const changes = [
		deleteMemberRoles(orgId, uid),
		insertMemberBinding({ id: deps.newId(), userId: uid, orgId, role: role.name }, nowMs),
		auditStatement(actor, nowMs, {
			orgId,
			action: "member.update",
			target: { type: "user", id: uid, name: member.email },
			before: { role: strongestMemberRole(roles) ?? roles[0] },
			after: { role: role.name },
			...(keepKeys ? { details: { kept_keys: true } } : {}),
		}),
		...(holdsAll(role, GIVING) ? [] : withdrawTransfersOf(orgId, uid, actor, nowMs)),
		...(lowersKeys ? lowerKeys(loss, actor, nowMs) : []),
	];
	const [revealed, lowered] = await db.batch([
		keysRevealedTo(orgId, uid),
		keysLowered(loss, nowMs),
		...guards,
		...(dryRun ? [] : changes),
	]);
	return { lowered: lowersKeys ? lowered.rows : [], revealed: isDemotion ? revealed.rows : [] };
}
