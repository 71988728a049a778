/**
 * The members of an organization. A removed member loses everything they hold in it at once, their API keys included. A lower role
 * lowers their keys as well, because a demotion that a key can undo is none. Some member always may end the organization.
 */
import * as v from "valibot";
import { mintInvitationToken } from "../../authz/keys";
import {
	ADMINISTERING_ROLES,
	GIVING_ROLES,
	isLowered,
	OWNING_ROLES,
	rolesBeyond,
	strongestMemberRole,
	WEAKEST_MEMBER_ROLE,
} from "../../authz/member-roles";
import type { Principal } from "../../authz/principal";
import { keysRevealedTo } from "../../db/api-keys";
import { withdrawTransfersOf } from "../../db/app-transfers";
import { auditStatement } from "../../db/audit";
import { batchOrFail, guard } from "../../db/client";
import {
	changeInvitation,
	deleteInvitation,
	type InvitationRow,
	invitationByEmail,
	invitationIs,
} from "../../db/invitations";
import {
	deleteKeysOfMember,
	deleteMemberRoles,
	insertMemberBinding,
	isNotTheLast,
	type KeyOfMember,
	keysBeyond,
	keysHoldNone,
	type LoweredKey,
	lowerKeysOfMember,
	type MemberRow,
	type Membership,
	memberHolds,
	membershipByEmail,
	membershipExists,
	membershipIs,
	membersOf,
	type RevokedKey,
	removeMember as removeMemberStatements,
} from "../../db/members";
import { organizationsOfKeys } from "../../db/organizations";
import { ApiError } from "../../errors";
import { endpoint } from "../endpoint";
import { refuseMoreAddresses, refuseStronger } from "../key-rules";
import {
	invitationLink,
	inviterMustBeMember,
	memberRole,
	refuseToTake,
	rolesNotHeld,
	rolesThatMayInvite,
} from "../member-rules";
import { otherOrganizations, otherOrganizationsSchema } from "../other-organizations";
import { pageBounds, pageReply } from "../page";
import { booleanText, emailAddress, optional, PAGE_SIZE, pageLimit, pageNumberIfAny, uuid } from "../schemas";
import { orgScope } from "../scope";

/** That one answer holds: the stock CLI reads one list. */
const MOST_MEMBERS = 1000;

const memberSchema = v.strictObject({
	uid: v.string(),
	email: v.string(),
	image_url: v.string(),
	role: v.string(),
	is_tmp: v.boolean(),
	global_permissions: v.array(v.string()),
});

function memberAnswer(row: MemberRow): v.InferOutput<typeof memberSchema> {
	const roles: string[] = JSON.parse(row.roles);
	return {
		uid: row.id,
		email: row.email,
		image_url: "",
		role: strongestMemberRole(roles) ?? roles[0] ?? "",
		is_tmp: row.is_invitation === 1,
		global_permissions: namesOf(row.global_permissions),
	};
}

const EXAMPLE_ORG_ID = "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21";
const EXAMPLE_UID = "0c7f0c5e-34a5-4f5c-8b60-8a2f0b8c1d11";

export const memberNotFound = () =>
	new ApiError(
		"member_not_found",
		"No member and no invitation of the organization has this e-mail address; check it against GET /organization/members.",
	);

export const memberChanged = () =>
	new ApiError(
		"member_changed",
		"The member was changed at the same moment; look at GET /organization/members and repeat.",
	);

const lastSuperAdmin = () =>
	new ApiError(
		"cannot_remove_last_super_admin",
		"This is the last member who may delete the organization; give that role to another member first.",
	);

const keySchema = v.strictObject({ id: v.string(), name: v.string() });
const keysOf = (json: string): KeyOfMember[] => JSON.parse(json);
const namesOf = (json: string): string[] => JSON.parse(json);
const named = ({ id, name }: { readonly id: string; readonly name: string }) => ({ id, name });

export const listMembers = endpoint({
	method: "GET",
	path: "/organization/members",
	tag: "Members",
	summary: "List the members of an organization and its pending invitations, by e-mail address",
	description:
		'`is_tmp` is true for an invitation that was not accepted yet; its `uid` is the invitation\'s id. Somebody with several roles is shown with the strongest. The answer holds everybody, up to 1,000, or the one whose `uid` is asked for; `page` and `limit` (50 unless it is said, 1,000 at most) take a part, and `Link: rel="next"` says that more follow.',
	access: { permission: "org.read_members", scope: orgScope("query.orgId") },
	query: v.object({
		orgId: uuid,
		uid: optional(uuid),
		page: optional(pageNumberIfAny),
		limit: optional(pageLimit(MOST_MEMBERS)),
	}),
	response: v.array(memberSchema),
	errors: [],
	example: {
		query: { orgId: EXAMPLE_ORG_ID },
		response: [
			{
				uid: EXAMPLE_UID,
				email: "ada@example.com",
				image_url: "",
				role: WEAKEST_MEMBER_ROLE,
				is_tmp: false,
				global_permissions: [],
			},
		],
	},
	async handle({ db, scope, input, request, origin, nowMs }) {
		const { uid, page, limit } = input.query;
		const size = limit ?? (page === undefined ? MOST_MEMBERS : PAGE_SIZE);
		const bounds = pageBounds(page ?? 0, size);
		const [members] = await db.batch([membersOf(scope.orgId, uid, nowMs, bounds.limit, bounds.offset)]);
		return pageReply({ request, origin }, page ?? 0, members.rows, memberAnswer, size);
	},
});

export const updateMember = endpoint({
	method: "PUT",
	path: "/organization/members",
	tag: "Members",
	summary: "Change the role of a member, or the one that a pending invitation offers",
	description:
		"Neither the old nor the new role may be stronger than the caller. A lower role lowers, at once, what the member's API keys may do in the organization: a stronger role of a key becomes the new role, a stronger role on an app is removed unless the member holds it there. `lowered_api_keys` lists these keys with what they lose, and `dry_run: true` lists them and changes nothing. `keep_keys: true` leaves the keys as they are; they still cannot manage keys, members and invitations when the account cannot. `api_keys` lists all keys of the member that belong to the organization. A pending invitation gets a new link with the new role (`link`), and the old link stops working. `revealed_api_keys` are, of somebody who is lowered, other people's keys whose secret they have revealed or regenerated: these keep what they hold, so regenerate them.",
	access: { permission: "org.update_user_roles", scope: orgScope("body.orgId") },
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
		lowered_api_keys: v.array(
			v.strictObject({
				...keySchema.entries,
				lost: v.array(v.strictObject({ role_name: v.string(), app_id: v.nullable(v.string()) })),
			}),
		),
		revealed_api_keys: v.array(keySchema),
		link: v.nullable(v.string()),
	}),
	errors: ["member_not_found", "member_changed", "cannot_remove_higher_role", "cannot_remove_last_super_admin"],
	example: {
		body: { orgId: EXAMPLE_ORG_ID, email: "ada@example.com", role: WEAKEST_MEMBER_ROLE },
		response: {
			...{ status: "ok", uid: EXAMPLE_UID, email: "ada@example.com", role: WEAKEST_MEMBER_ROLE, dry_run: false },
			...{ api_keys: [], lowered_api_keys: [], revealed_api_keys: [], link: null },
		},
	},
	load: ({ body }, nowMs) =>
		[membershipByEmail(body.orgId, body.email, nowMs), invitationByEmail(body.orgId, body.email)] as const,
	async handle({ db, deps, principal, scope, input, loaded, nowMs, actor, origin }) {
		const { role, keep_keys: keepKeys = false, dry_run: dryRun = false } = input.body;
		const { orgId } = scope;
		const [member] = loaded[0].rows;
		const roles = namesOf(member?.roles ?? "[]");
		if (member === undefined || roles.length === 0) {
			const invitation = goodInvitation(loaded[1].rows[0], nowMs);
			refuseToTake(principal, [invitation.role_name], orgId, `The invitation of ${invitation.email}`);
			refuseStronger(principal, role, { orgId });
			// Whoever accepts gets a key that works from everywhere.
			refuseMoreAddresses(principal, []);
			const token = mintInvitationToken(deps.randomBytes);
			const isChanged = invitation.role_name !== role && !dryRun;
			if (isChanged) {
				await batchOrFail(
					db,
					[
						guard("invitation_as_read", invitationIs(orgId, invitation)),
						guard("inviter_may", memberHolds(orgId, principal.userId, rolesThatMayInvite(role), nowMs)),
						// The member who changes the offer answers for it, so nobody who has the old link may accept it.
						changeInvitation(orgId, invitation.id, {
							...{ role_name: role, invited_by: principal.userId, token_hash: token.hash },
						}),
						auditStatement(actor, nowMs, {
							orgId,
							action: "invitation.update",
							target: { type: "invitation", id: invitation.id, name: invitation.email },
							before: { role: invitation.role_name },
							after: { role },
						}),
					],
					{
						invitation_as_read: memberChanged,
						inviter_may: () => inviterMustBeMember(role),
					},
				);
			}
			return {
				...{ status: "ok" as const, uid: invitation.id, email: invitation.email, role, dry_run: dryRun },
				...{
					api_keys: [],
					lowered_api_keys: [],
					revealed_api_keys: [],
					link: isChanged ? invitationLink(origin, token.text) : null,
				},
			};
		}

		refuseToTake(principal, roles, orgId, member.email);
		refuseStronger(principal, role, { orgId });
		const uid = member.user_id;
		const beyond = rolesBeyond(role);
		const isLess = isLowered(roles, role);
		const lowers = isLess && !keepKeys;
		if (lowers) refuseToTakeFromKeys(principal, member, orgId);
		let lowered: readonly LoweredKey[] = [];
		let revealed: readonly { id: string; name: string }[] = [];
		if (roles.length > 1 || roles[0] !== role) {
			const staysOwner = OWNING_ROLES.includes(role);
			const conditions = [
				guard("member_there", membershipExists(orgId, uid)),
				guard("member_as_read", membershipIs(orgId, member)),
				...(lowers ? [guard("member_as_read", keysHoldNone(orgId, uid, rolesNotHeld(principal, orgId)))] : []),
				...(staysOwner ? [] : [guard("owner_left", isNotTheLast(orgId, uid, OWNING_ROLES))]),
			];
			const changes = dryRun
				? []
				: [
						deleteMemberRoles(orgId, uid),
						insertMemberBinding({ id: deps.newId(), userId: uid, orgId, role }, nowMs),
						auditStatement(actor, nowMs, {
							orgId,
							action: "member.update",
							target: { type: "user", id: uid, name: member.email },
							before: { role: strongestMemberRole(roles) ?? roles[0] },
							after: { role },
							...(keepKeys ? { details: { kept_keys: true } } : {}),
						}),
						...(GIVING_ROLES.includes(role) ? [] : withdrawTransfersOf(orgId, uid, actor, nowMs)),
						...(lowers ? lowerKeysOfMember(orgId, uid, beyond, ADMINISTERING_ROLES, actor, nowMs) : []),
					];
			const results = await batchOrFail(
				db,
				[
					...conditions,
					keysRevealedTo(orgId, uid),
					...(lowers ? [keysBeyond(orgId, uid, beyond, nowMs)] : []),
					...changes,
				],
				{ member_there: memberNotFound, member_as_read: memberChanged, owner_left: lastSuperAdmin },
			);
			if (isLess) revealed = (results[conditions.length]?.rows ?? []) as unknown as { id: string; name: string }[];
			if (lowers) lowered = (results[conditions.length + 1]?.rows ?? []) as unknown as LoweredKey[];
		}
		return {
			...{ status: "ok" as const, uid, email: member.email, role, dry_run: dryRun, link: null },
			api_keys: keysOf(member.keys).map(named),
			lowered_api_keys: lowered.map(({ lost, ...key }) => ({ ...key, lost: JSON.parse(lost) })),
			revealed_api_keys: [...revealed],
		};
	},
});

export const removeMember = endpoint({
	method: "DELETE",
	path: "/organization/members",
	tag: "Members",
	summary: "Remove a member with everything they hold in the organization, or withdraw an invitation",
	description:
		"Every binding of theirs in the organization goes; their API keys that belong to it (`revoked_api_keys`) stop working at once, in other organizations as well (`other_organizations`: those that the caller may see, and how many others), and what their keys of other organizations hold in it goes as well, like the invitations they made. `revealed_api_keys` are other people's keys whose secret they have revealed or regenerated: they keep working, so regenerate them. `dry_run=true` shows the same and does nothing.",
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
	load: ({ query }, nowMs) =>
		[
			membershipByEmail(query.orgId, query.email, nowMs),
			invitationByEmail(query.orgId, query.email),
			organizationsOfKeys(query.orgId, query.email),
		] as const,
	async handle({ db, principal, scope, input, loaded, nowMs, actor }) {
		const { orgId } = scope;
		const dryRun = input.query.dry_run === true;
		const other_organizations = otherOrganizations(principal, loaded[2].rows);
		const [member] = loaded[0].rows;
		if (member === undefined) {
			const invitation = goodInvitation(loaded[1].rows[0], nowMs);
			refuseToTake(principal, [invitation.role_name], orgId, `The invitation of ${invitation.email}`);
			if (!dryRun) {
				await batchOrFail(
					db,
					[
						guard("invitation_as_read", invitationIs(orgId, invitation)),
						deleteInvitation(orgId, invitation.email),
						auditStatement(actor, nowMs, {
							orgId,
							action: "invitation.delete",
							target: { type: "invitation", id: invitation.id, name: invitation.email },
							before: { email: invitation.email, role: invitation.role_name },
						}),
					],
					{ invitation_as_read: memberChanged },
				);
			}
			return {
				...{ status: "ok" as const, dry_run: dryRun, revoked_api_keys: [], revealed_api_keys: [] },
				other_organizations,
			};
		}

		const roles = namesOf(member.roles);
		const keys = keysOf(member.keys);
		refuseToTake(principal, roles, orgId, member.email);
		refuseToTakeFromKeys(principal, member, orgId);
		const own = loaded[1].rows[0];
		if (own !== undefined) refuseToTake(principal, [own.role_name], orgId, `The invitation of ${own.email}`);
		const uid = member.user_id;
		const conditions = [
			guard("member_there", membershipExists(orgId, uid)),
			guard("member_as_read", membershipIs(orgId, member)),
			guard("member_as_read", keysHoldNone(orgId, uid, rolesNotHeld(principal, orgId))),
			guard("owner_left", isNotTheLast(orgId, uid, OWNING_ROLES)),
			keysRevealedTo(orgId, uid),
		];
		const results = await batchOrFail(
			db,
			dryRun
				? conditions
				: [
						...conditions,
						auditStatement(actor, nowMs, {
							orgId,
							action: "member.remove",
							target: { type: "user", id: uid, name: member.email },
							before: { role: strongestMemberRole(roles) ?? roles[0] ?? null },
						}),
						...withdrawTransfersOf(orgId, uid, actor, nowMs),
						...removeMemberStatements(orgId, uid, ADMINISTERING_ROLES, actor, nowMs),
						deleteKeysOfMember(orgId, uid),
					],
			{
				member_there: memberNotFound,
				member_as_read: memberChanged,
				owner_left: lastSuperAdmin,
			},
		);
		const revoked = dryRun
			? keys
			: ((results.at(-1)?.rows ?? []) as unknown as RevokedKey[]).sort(
					(left, right) => left.created_at_ms - right.created_at_ms || (left.id < right.id ? -1 : 1),
				);
		const revealed = (results[conditions.length - 1]?.rows ?? []) as unknown as { id: string; name: string }[];
		return {
			...{ status: "ok" as const, dry_run: dryRun, revoked_api_keys: revoked.map(named), revealed_api_keys: revealed },
			other_organizations,
		};
	},
});

/** @throws {ApiError} `cannot_remove_higher_role` when a key of the member holds what the caller does not */
function refuseToTakeFromKeys(principal: Principal, member: Membership, orgId: string): void {
	for (const key of [...keysOf(member.keys), ...keysOf(member.foreign_keys)]) {
		refuseToTake(principal, key.roles, orgId, `The API key "${key.name}" of ${member.email}`);
	}
}

function goodInvitation(invitation: InvitationRow | undefined, nowMs: number): InvitationRow {
	if (invitation === undefined || invitation.expires_at_ms <= nowMs) throw memberNotFound();
	return invitation;
}
