/**
 * Groups by the paths of Capgo's scripts, which name the organization or the group in the path.
 * They are the same groups, and the rights, limits and effects are those of this server's own
 * paths.
 */
import * as v from "valibot";
import { addGroupMember, listGroupMembers, removeGroupMember } from "../../features/groups/members";
import { createGroup, deleteGroup, listGroups, updateGroup } from "../../features/groups/routes";
import { groupDescription, groupName } from "../../features/groups/rules";
import { itemsPerPage, optional, pageNumber, time } from "../../http/schemas";
import { orgScope, type ScopeSource } from "../../http/scope";
import { type Asked, alias, type Fields } from "./form";

const groupSchema = v.strictObject({
	id: v.string(),
	org_id: v.string(),
	name: v.string(),
	description: v.string(),
	is_system: v.literal(false),
	created_by: v.null(),
	created_at: time,
});

const groupOf = (own: unknown, { scope }: Asked): Fields => {
	const { id, name, description, created_at } = own as Fields;
	return { id, org_id: scope.orgId, name, description, is_system: false, created_by: null, created_at };
};

const ofOrganization = orgScope("params.id") as unknown as ScopeSource<never>;
const list = {
	...alias(listGroups, "GET", "/private/groups/:id", {
		summary: "List the groups of an organization",
		scope: ofOrganization,
		response: () => v.array(groupSchema),
		answer: (own, asked) => (own as readonly unknown[]).map((group) => groupOf(group, asked)),
		example: { query: {} },
	}),
	query: v.object({ page: pageNumber, limit: itemsPerPage }),
};

const creation = {
	...alias(createGroup, "POST", "/private/groups/:id", {
		summary: "Create a group",
		scope: ofOrganization,
		response: () => groupSchema,
		answer: groupOf,
		example: { body: { name: "Testers", description: "" } },
	}),
	body: v.object({ name: groupName, description: optional(groupDescription) }),
};

export const groupEndpoints = [
	list,
	creation,
	alias(updateGroup, "PUT", "/private/groups/:id", {
		summary: "Change the name or the description of a group",
		response: () => groupSchema,
		answer: groupOf,
	}),
	alias(deleteGroup, "DELETE", "/private/groups/:id", {
		summary: "Delete a group, which takes its roles from its members",
	}),
	alias(listGroupMembers, "GET", "/private/groups/:id/members", {
		summary: "List the members of a group",
	}),
	alias(addGroupMember, "POST", "/private/groups/:id/members", {
		summary: "Add a member of the organization to a group",
	}),
	alias(removeGroupMember, "DELETE", "/private/groups/:id/members/:user_id", {
		summary: "Remove a person from a group",
	}),
] as const;
