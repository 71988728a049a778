/**
 * Rules of groups: how a group is found and shown, and who may change one. A change of a group
 * gives or takes its roles, so nobody changes a group that holds at some place what they do not
 * hold there.
 */
import type { CompiledQuery } from "kysely";
import * as v from "valibot";
import { roleNamed } from "../../authz/custom-roles";
import type { OrgId } from "../../authz/decide";
import { refuseStronger } from "../../authz/granting";
import type { Role } from "../../authz/permissions";
import type { Principal } from "../../authz/principal";
import { guard, query } from "../../db/client";
import { customRolesAre } from "../../db/custom-roles";
import { type GroupBinding, type GroupRow, groupIs } from "../../db/groups";
import { keysLowered, type Loss, lowerKeys } from "../../db/lowered-keys";
import { prepared } from "../../db/prepared";
import { ApiError } from "../../errors";
import { label, rfc3339, text, time } from "../../http/schemas";
import { hiddenAs, type ScopeSource, textAt } from "../../http/scope";
import { placeOf } from "../keys/rules";
import { shownKeys } from "../organizations/member-change";
import type { Caller } from "../organizations/member-rules";
import { EXAMPLE_PLACED_ROLE } from "../organizations/placed-roles";

/** An organization has no more groups. */
export const MOST_GROUPS = 50;
/** A group has no more members, and no more roles. */
export const MOST_MEMBERS = 500;
export const MOST_BINDINGS = 20;
const LONGEST_DESCRIPTION = 500;

export const groupName = label();
export const groupDescription = v.union([v.literal(""), text(LONGEST_DESCRIPTION)]);

export const groupNotFound = hiddenAs(
	"group_not_found",
	"No group with this id is visible to the caller; list an organization's groups with GET /organization/groups.",
);

const groupStatement = prepared<{ id: string }, { org_id: string }>((value) =>
	query
		.selectFrom("groups")
		.innerJoin("organizations", "organizations.id", "groups.org_id")
		.select("groups.org_id")
		.where("groups.id", "=", value("id"))
		.where("organizations.deleted_at_ms", "is", null)
		.compile(),
);

/** The organization of the group in the path. */
export const groupScope: ScopeSource<{ org_id: string }> = {
	statement: (raw) => {
		const id = textAt(raw, "params.id");
		return id === undefined ? undefined : groupStatement({ id: id.toLowerCase() });
	},
	target: (row) => ({ orgId: row.org_id }),
	hidden: groupNotFound,
};

export const bindingFields = {
	id: v.string(),
	role_name: v.string(),
	scope_type: v.picklist(["app", "channel"]),
	app_id: v.string(),
	channel_id: v.nullable(v.number()),
	channel: v.nullable(v.string()),
	created_at: time,
};

export const groupSchema = v.strictObject({
	id: v.string(),
	name: v.string(),
	description: v.string(),
	member_count: v.number(),
	bindings: v.array(v.strictObject(bindingFields)),
	created_at: time,
	updated_at: time,
});

export const EXAMPLE_GROUP_BINDING = {
	id: "0f0e5a64-2b8b-4f0e-8b66-5a9d0f3f6a11",
	role_name: EXAMPLE_PLACED_ROLE,
	scope_type: "channel" as const,
	app_id: "com.example.app",
	channel_id: 7,
	channel: "beta",
	created_at: "2026-11-21T08:00:00.000Z",
};

export const EXAMPLE_GROUP = {
	id: "4a1c0f5e-9d57-4f2e-9f0a-3c6e2b7d8f21",
	name: "Testers",
	description: "People who test every release.",
	member_count: 4,
	bindings: [EXAMPLE_GROUP_BINDING],
	created_at: "2026-11-21T08:00:00.000Z",
	updated_at: "2026-11-21T08:00:00.000Z",
};

export const bindingsOf = ({ bindings }: Pick<GroupRow, "bindings">): GroupBinding[] => JSON.parse(bindings);

export const shownBinding = ({
	id,
	role_name,
	scope_type,
	app_id,
	channel_id,
	channel,
	created_at_ms,
}: GroupBinding) => ({
	id,
	role_name,
	scope_type,
	app_id,
	channel_id,
	channel,
	created_at: rfc3339(created_at_ms),
});

export const shownGroup = (row: GroupRow): v.InferOutput<typeof groupSchema> => ({
	id: row.id,
	name: row.name,
	description: row.description,
	member_count: row.members,
	bindings: bindingsOf(row).map(shownBinding),
	created_at: rfc3339(row.created_at_ms),
	updated_at: rfc3339(row.updated_at_ms),
});

/**
 * Ends roles of members by the group, with the change that ends them, and takes from their keys
 * what only these roles allowed.
 * @returns the keys that it lowers, or would lower in a dry run
 */
export async function endRoles(
	{ db, actor, nowMs }: Pick<Caller, "db" | "actor" | "nowMs">,
	row: GroupRow,
	loss: Loss,
	{ dryRun, change }: { readonly dryRun: boolean; readonly change: readonly CompiledQuery[] },
) {
	const [lowered] = await db.batch([
		keysLowered(loss, nowMs),
		guard(groupIs(loss.orgId, row), groupChanged),
		guard(customRolesAre(loss.orgId, loss.customRoles), groupChanged),
		...(dryRun ? [] : [...lowerKeys(loss, actor, nowMs), ...change]),
	]);
	return shownKeys(lowered.rows);
}

/**
 * @throws {ApiError} `permission_denied` where a role of the group holds what the caller does not
 * hold at its place
 */
export function refuseStrongerGroup(
	principal: Principal,
	orgId: OrgId,
	bindings: readonly GroupBinding[],
	customRoles: readonly Role[],
): void {
	for (const { role_name, app_uuid, channel_id } of bindings) {
		const role = roleNamed(role_name, customRoles);
		if (role !== undefined) refuseStronger(principal, role, placeOf(orgId, app_uuid, channel_id));
	}
}

export function groupChanged(): ApiError {
	return new ApiError(
		"group_changed",
		"The group, its members or its roles were changed by another request. Read GET /organization/groups and retry.",
	);
}
