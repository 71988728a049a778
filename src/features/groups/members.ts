/**
 * The people in a group. Only members of the organization are in its groups, and a person who
 * leaves the organization leaves them. A caller who adds a person gives them the group's roles, so
 * the caller must hold all of them.
 */
import { sql } from "kysely";
import * as v from "valibot";
import { auditStatement } from "../../db/audit/entries";
import { guard } from "../../db/client";
import { customRolesAre, customRolesOf, rolesFrom } from "../../db/custom-roles";
import {
	bindingsOfGroup,
	deleteGroupMember,
	groupById,
	groupIs,
	groupMember,
	groupMembers,
	insertGroupMember,
	organizationOfGroup,
	touchGroup,
} from "../../db/groups";
import { lossByEndOf } from "../../db/lowered-keys";
import { emailOf, membershipByEmail, membershipIs } from "../../db/members";
import { invalidRequest } from "../../errors";
import { endpoint, Reply } from "../../http/endpoint";
import { pageBounds, pageReply } from "../../http/paging";
import { booleanText, emailAddress, itemsPerPage, optional, pageNumber, rfc3339, time, uuid } from "../../http/schemas";
import { promoterGuards } from "../keys/promoter-guards";
import { loweredKeySchema } from "../organizations/member-change";
import { EXAMPLE_UID, memberChanged, memberNotFound, namesOf } from "../organizations/member-rules";
import {
	bindingFields,
	bindingsOf,
	EXAMPLE_GROUP,
	endRoles,
	groupChanged,
	groupNotFound,
	groupScope,
	MOST_MEMBERS,
	refuseStrongerGroup,
	shownBinding,
} from "./rules";

const memberFields = { user_id: v.string(), email: v.string(), added_at: time };
const EXAMPLE_MEMBER = { user_id: EXAMPLE_UID, email: "ada@example.com", added_at: "2026-11-21T08:00:00.000Z" };

export const listGroupMembers = endpoint({
	method: "GET",
	path: "/organization/groups/:id/members",
	tag: "Members",
	summary: "List the members of a group, by e-mail address",
	access: { permission: "org.read_members", scope: groupScope },
	query: v.object({ page: pageNumber, limit: itemsPerPage }),
	response: v.array(v.strictObject(memberFields)),
	errors: ["group_not_found"],
	example: { query: {}, response: [EXAMPLE_MEMBER] },
	async handle({ db, input, request, origin }) {
		const { page, limit: size } = input.query;
		const { limit, offset } = pageBounds(page, size);
		const [found] = await db.batch([groupMembers(input.params.id.toLowerCase(), limit, offset)]);
		const shown = ({ added_at_ms, ...member }: (typeof found.rows)[number]) => ({
			...member,
			added_at: rfc3339(added_at_ms),
		});
		return pageReply({ request, origin }, page, found.rows, shown, size);
	},
});

export const addGroupMember = endpoint({
	method: "POST",
	path: "/organization/groups/:id/members",
	tag: "Members",
	summary: "Add a member of the organization to a group",
	description: [
		"Send `email` or `user_id`.",
		"The member gets the roles of the group, none of which",
		"is stronger than the caller; `bindings` lists them.",
		"`dry_run: true` lists them and changes nothing.",
		"A person who is in the group already is answered with 200.",
	],
	access: { permission: "org.update_user_roles", scope: groupScope },
	refusesUnknown: true,
	recentSignIn: ({ body }) => body.dry_run !== true,
	body: v.object({ email: optional(emailAddress), user_id: optional(uuid), dry_run: optional(v.boolean()) }),
	status: [200, 201],
	response: v.strictObject({
		...memberFields,
		dry_run: v.boolean(),
		bindings: v.array(v.strictObject(bindingFields)),
	}),
	errors: ["group_changed", "group_not_found", "member_changed", "member_not_found"],
	example: {
		body: { email: EXAMPLE_MEMBER.email },
		response: { ...EXAMPLE_MEMBER, dry_run: false, bindings: EXAMPLE_GROUP.bindings },
	},
	load: ({ params, body }, nowMs) => {
		const id = params.id.toLowerCase();
		const orgId = organizationOfGroup(id);
		const { email, user_id = "" } = body;
		return {
			group: groupById(id),
			customRoles: customRolesOf(orgId),
			member: membershipByEmail(orgId, email ?? emailOf(user_id), nowMs),
			membership: groupMember(id, email === undefined ? { id: user_id } : { email }),
		};
	},
	async handle({ db, principal, scope: { orgId }, input, loaded, nowMs, actor }) {
		const { email, user_id, dry_run: dryRun = false } = input.body;
		if ((email === undefined) === (user_id === undefined)) {
			throw invalidRequest([{ path: "email", message: "must be sent, or user_id instead of it" }]);
		}
		const [row] = loaded.group;
		const [member] = loaded.member;
		if (row === undefined) throw groupNotFound();
		if (member === undefined || namesOf(member.roles).length === 0) throw memberNotFound();
		const customRoles = rolesFrom(loaded.customRoles);
		const bindings = bindingsOf(row);
		refuseStrongerGroup(principal, orgId, bindings, customRoles);
		const [before] = loaded.membership;
		const answer = { user_id: member.user_id, email: member.email, bindings: bindings.map(shownBinding) };
		if (before !== undefined) return { ...answer, added_at: rfc3339(before.added_at_ms), dry_run: dryRun };
		if (row.members >= MOST_MEMBERS) {
			throw invalidRequest([{ path: "email", message: `The group has ${MOST_MEMBERS} members, which is the most.` }]);
		}
		if (!dryRun) {
			await db.batch([
				guard(groupIs(orgId, row), groupChanged),
				guard(membershipIs(orgId, member), memberChanged),
				guard(customRolesAre(orgId, customRoles), groupChanged),
				...promoterGuards(
					principal,
					orgId,
					bindings.map(({ role_name, app_uuid, channel_id }) => ({
						role: role_name,
						appId: app_uuid,
						channelId: channel_id,
					})),
				),
				insertGroupMember(row.id, member.user_id, nowMs),
				touchGroup(row, nowMs),
				auditStatement(actor, nowMs, {
					orgId,
					action: "group.add_member",
					target: { type: "group", id: row.id, name: row.name },
					after: { user_id: member.user_id, email: member.email },
				}),
			]);
		}
		return new Reply(dryRun ? 200 : 201, { ...answer, added_at: rfc3339(nowMs), dry_run: dryRun });
	},
});

export const removeGroupMember = endpoint({
	method: "DELETE",
	path: "/organization/groups/:id/members/:user_id",
	tag: "Members",
	summary: "Remove a person from a group",
	description: [
		"No role of the group is stronger than the caller.",
		"What only a role of the group allowed is taken from",
		"the person's API keys as well: `lowered_api_keys`.",
		"`dry_run=true` lists them and changes nothing.",
	],
	access: { permission: "org.update_user_roles", scope: groupScope },
	recentSignIn: ({ query }) => query.dry_run !== true,
	query: v.object({ dry_run: optional(booleanText) }),
	queryOrBody: true,
	response: v.strictObject({ ...memberFields, dry_run: v.boolean(), lowered_api_keys: v.array(loweredKeySchema) }),
	errors: ["group_changed", "group_not_found", "member_not_found"],
	example: {
		query: {},
		response: { ...EXAMPLE_MEMBER, dry_run: false, lowered_api_keys: [] },
	},
	load: ({ params }) => {
		const id = params.id.toLowerCase();
		const orgId = organizationOfGroup(id);
		return {
			group: groupById(id),
			customRoles: customRolesOf(orgId),
			membership: groupMember(id, { id: params.user_id.toLowerCase() }),
		};
	},
	async handle({ db, principal, scope: { orgId }, input, loaded, nowMs, actor }) {
		const dryRun = input.query.dry_run === true;
		const [row] = loaded.group;
		const [member] = loaded.membership;
		if (row === undefined) throw groupNotFound();
		if (member === undefined) throw memberNotFound();
		const customRoles = rolesFrom(loaded.customRoles);
		refuseStrongerGroup(principal, orgId, bindingsOf(row), customRoles);
		const { user_id, email } = member;
		const because = { lowered_member: user_id };
		const loss = lossByEndOf(orgId, sql`(${user_id})`, bindingsOfGroup(row.id), customRoles, because);
		const lowered_api_keys = await endRoles({ db, actor, nowMs }, row, loss, {
			dryRun,
			change: [
				deleteGroupMember(row.id, user_id),
				touchGroup(row, nowMs),
				auditStatement(actor, nowMs, {
					orgId,
					action: "group.remove_member",
					target: { type: "group", id: row.id, name: row.name },
					before: { user_id, email },
				}),
			],
		});
		return {
			user_id,
			email,
			added_at: rfc3339(member.added_at_ms),
			dry_run: dryRun,
			lowered_api_keys,
		};
	},
});
