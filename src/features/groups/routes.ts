/**
 * Lists, creates, renames and deletes groups. A new group holds nothing. A deleted one takes its
 * roles from its members, and in the same batch from their keys what only those roles allowed.
 */
import * as v from "valibot";
import { auditStatement } from "../../db/audit/entries";
import { guard, onUnique } from "../../db/client";
import { customRolesOf, rolesFrom } from "../../db/custom-roles";
import {
	bindingsOfGroup,
	deleteGroup as deleteGroupStatement,
	type GroupRow,
	groupById,
	groupIs,
	groupsOf,
	hasFewerGroups,
	insertGroup,
	organizationOfGroup,
	touchGroup,
	usersOfGroup,
} from "../../db/groups";
import { lossByEndOf } from "../../db/lowered-keys";
import { ApiError, fieldError, invalidRequest } from "../../errors";
import { endpoint, Reply } from "../../http/endpoint";
import { pageBounds, pageReply } from "../../http/paging";
import { booleanText, itemsPerPage, optional, pageNumber, uuid } from "../../http/schemas";
import { orgScope } from "../../http/scope";
import { loweredKeySchema } from "../organizations/member-change";
import { EXAMPLE_ORG_ID } from "../organizations/member-rules";
import {
	bindingsOf,
	EXAMPLE_GROUP,
	endRoles,
	groupChanged,
	groupDescription,
	groupName,
	groupNotFound,
	groupSchema,
	groupScope,
	MOST_GROUPS,
	refuseStrongerGroup,
	shownBinding,
	shownGroup,
} from "./rules";

export const listGroups = endpoint({
	method: "GET",
	path: "/organization/groups",
	tag: "Members",
	summary: "List the groups of an organization with their roles, by name",
	description: [
		"A group's roles on apps and channels are roles of each of its members, beside their own.",
		"They are not roles of their API keys.",
		"`user_id` limits the list to the groups of one person.",
	],
	access: { permission: "org.read_members", scope: orgScope("query.orgId") },
	query: v.object({ orgId: uuid, user_id: optional(uuid), page: pageNumber, limit: itemsPerPage }),
	response: v.array(groupSchema),
	errors: [],
	example: { query: { orgId: EXAMPLE_ORG_ID }, response: [EXAMPLE_GROUP] },
	async handle({ db, scope, input, request, origin }) {
		const { user_id, page, limit: size } = input.query;
		const { limit, offset } = pageBounds(page, size);
		const [found] = await db.batch([groupsOf(scope.orgId, user_id, limit, offset)]);
		return pageReply({ request, origin }, page, found.rows, shownGroup, size);
	},
});

export const createGroup = endpoint({
	method: "POST",
	path: "/organization/groups",
	tag: "Members",
	summary: "Create a group",
	description: `A new group has no members and no roles. An organization has at most ${MOST_GROUPS} groups.`,
	access: { permission: "org.update_user_roles", scope: orgScope("body.orgId") },
	refusesUnknown: true,
	recentSignIn: true,
	body: v.object({ orgId: uuid, name: groupName, description: optional(groupDescription) }),
	status: [201],
	response: groupSchema,
	errors: ["group_already_exists", "quota_exceeded"],
	example: {
		body: { orgId: EXAMPLE_ORG_ID, name: EXAMPLE_GROUP.name, description: EXAMPLE_GROUP.description },
		response: { ...EXAMPLE_GROUP, member_count: 0, bindings: [] },
	},
	async handle({ db, deps, scope: { orgId }, input, nowMs, actor }) {
		const { name, description = "" } = input.body;
		const times = { created_at_ms: nowMs, updated_at_ms: nowMs };
		const row: GroupRow = { id: deps.newId(), name, description, ...times, members: 0, bindings: "[]" };
		await db.batch([
			guard(hasFewerGroups(orgId, MOST_GROUPS), tooMany),
			onUnique(insertGroup(orgId, row), "groups.org_id, groups.name", nameTaken),
			auditStatement(actor, nowMs, {
				orgId,
				action: "group.create",
				target: { type: "group", id: row.id, name },
				after: { name, description },
			}),
		]);
		return new Reply(201, shownGroup(row));
	},
});

export const updateGroup = endpoint({
	method: "PUT",
	path: "/organization/groups/:id",
	tag: "Members",
	summary: "Change the name or the description of a group",
	access: { permission: "org.update_user_roles", scope: groupScope },
	refusesUnknown: true,
	recentSignIn: true,
	body: v.object({ name: optional(groupName), description: optional(groupDescription) }),
	response: groupSchema,
	errors: ["group_already_exists", "group_changed", "group_not_found"],
	example: {
		body: { name: "Beta testers" },
		response: { ...EXAMPLE_GROUP, name: "Beta testers" },
	},
	load: ({ params }) => ({ group: groupById(params.id.toLowerCase()) }),
	async handle({ db, scope: { orgId }, input, loaded, nowMs, actor }) {
		const [row] = loaded.group;
		if (row === undefined) throw groupNotFound();
		const { name = row.name, description = row.description } = input.body;
		if (input.body.name === undefined && input.body.description === undefined) {
			throw invalidRequest([{ path: "", message: "The body changes nothing; send name or description." }]);
		}
		const changed = { ...row, name, description, updated_at_ms: Math.max(nowMs, row.updated_at_ms + 1) };
		await db.batch([
			guard(groupIs(orgId, row), groupChanged),
			onUnique(touchGroup(row, nowMs, { name, description }), "groups.org_id, groups.name", nameTaken),
			auditStatement(actor, nowMs, {
				orgId,
				action: "group.update",
				target: { type: "group", id: row.id, name },
				before: { name: row.name, description: row.description },
				after: { name, description },
			}),
		]);
		return shownGroup(changed);
	},
});

export const deleteGroup = endpoint({
	method: "DELETE",
	path: "/organization/groups/:id",
	tag: "Members",
	summary: "Delete a group, which takes its roles from its members",
	description: [
		"No role of the group is stronger than the caller.",
		"What only a role of the group allowed is taken from",
		"the members' API keys as well: `lowered_api_keys`.",
		"`dry_run=true` lists them and changes nothing.",
	],
	access: { permission: "org.update_user_roles", scope: groupScope },
	recentSignIn: ({ query }) => query.dry_run !== true,
	query: v.object({ dry_run: optional(booleanText) }),
	queryOrBody: true,
	response: v.strictObject({
		status: v.literal("ok"),
		dry_run: v.boolean(),
		lowered_api_keys: v.array(loweredKeySchema),
	}),
	errors: ["group_changed", "group_not_found"],
	example: {
		query: {},
		response: { status: "ok", dry_run: false, lowered_api_keys: [] },
	},
	load: ({ params }) => {
		const id = params.id.toLowerCase();
		return { group: groupById(id), customRoles: customRolesOf(organizationOfGroup(id)) };
	},
	async handle({ db, principal, scope: { orgId }, input, loaded, nowMs, actor }) {
		const dryRun = input.query.dry_run === true;
		const [row] = loaded.group;
		if (row === undefined) throw groupNotFound();
		const customRoles = rolesFrom(loaded.customRoles);
		refuseStrongerGroup(principal, orgId, bindingsOf(row), customRoles);
		const because = { deleted_group: row.id };
		const loss = lossByEndOf(orgId, usersOfGroup(row.id), bindingsOfGroup(row.id), customRoles, because);
		const lowered_api_keys = await endRoles({ db, actor, nowMs }, row, loss, {
			dryRun,
			change: [
				deleteGroupStatement(row.id),
				auditStatement(actor, nowMs, {
					orgId,
					action: "group.delete",
					target: { type: "group", id: row.id, name: row.name },
					before: {
						name: row.name,
						description: row.description,
						member_count: row.members,
						bindings: bindingsOf(row).map(shownBinding),
					},
				}),
			],
		});
		return { status: "ok" as const, dry_run: dryRun, lowered_api_keys };
	},
});

const tooMany = () =>
	new ApiError("quota_exceeded", `An organization has at most ${MOST_GROUPS} groups; delete unused ones.`, {
		moreInfo: { quota: "groups_per_organization", limit: MOST_GROUPS, used: MOST_GROUPS },
	});

const nameTaken = () =>
	fieldError("group_already_exists", "name", "the organization has a group of this name; choose another one.");
