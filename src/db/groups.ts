/**
 * Statements about groups: their members, and their roles on apps and channels, which are roles of
 * each member (account-bindings.ts). Every change of a group, its members or its roles moves
 * `updated_at_ms`, so that a decision about a group holds only while it is as it was read.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { OrgId } from "../authz/decide";
import { query } from "./client";

export interface GroupBinding {
	readonly id: string;
	readonly role_name: string;
	readonly scope_type: "app" | "channel";
	readonly app_uuid: string;
	/** The public id, also of a deleted app: its roles come back with it. */
	readonly app_id: string;
	readonly channel_id: number | null;
	readonly channel: string | null;
	readonly created_at_ms: number;
}

export interface GroupRow {
	readonly id: string;
	readonly name: string;
	readonly description: string;
	readonly created_at_ms: number;
	readonly updated_at_ms: number;
	readonly members: number;
	/** JSON array of `GroupBinding`, oldest first. */
	readonly bindings: string;
}

const groupsWhere = (
	condition: RawBuilder<unknown>,
) => sql<GroupRow>`SELECT g.id, g.name, g.description, g.created_at_ms, g.updated_at_ms,
		(SELECT count(*) FROM group_members WHERE group_id = g.id) AS members,
		(SELECT json_group_array(json_object('id', id, 'role_name', role_name, 'scope_type', scope_type, 'app_uuid', app_uuid, 'app_id', app_id,
				'channel_id', channel_id, 'channel', channel, 'created_at_ms', created_at_ms)) FROM (
			SELECT b.id, b.role_name, b.scope_type, a.id AS app_uuid, coalesce(d.public_app_id, a.app_id) AS app_id, b.channel_id,
				c.name AS channel, b.created_at_ms
			FROM group_bindings b INNER JOIN apps a ON a.id = b.app_id LEFT JOIN deleted_apps d ON d.app_id = a.id
				LEFT JOIN channels c ON c.id = b.channel_id
			WHERE b.group_id = g.id ORDER BY b.created_at_ms, b.id)) AS bindings
	FROM groups g WHERE ${condition}`;

/** The groups of an organization, by name; with `userId` those of one person. */
export function groupsOf(
	orgId: OrgId,
	userId: string | undefined,
	limit: number,
	offset: number,
): CompiledQuery<GroupRow> {
	const ofPerson =
		userId === undefined ? sql`1` : sql`g.id IN (SELECT group_id FROM group_members WHERE user_id = ${userId})`;
	return sql<GroupRow>`${groupsWhere(sql`g.org_id = ${orgId} AND ${ofPerson}`)} ORDER BY g.name, g.id LIMIT ${limit} OFFSET ${offset}`.compile(
		query,
	);
}

/** The group; for loads in the authorization batch. */
export const groupById = (id: string): CompiledQuery<GroupRow> => groupsWhere(sql`g.id = ${id}`).compile(query);

/** The organization of the group. */
export const organizationOfGroup = (id: string) => sql<string>`(SELECT org_id FROM groups WHERE id = ${id})`;

/** Guard: the group, its members and its roles are as they were read. */
export function groupIs(orgId: OrgId, { id, updated_at_ms }: Pick<GroupRow, "id" | "updated_at_ms">) {
	return sql<boolean>`EXISTS (SELECT 1 FROM groups WHERE id = ${id} AND org_id = ${orgId} AND updated_at_ms = ${updated_at_ms})`;
}

/** Guard: the organization has fewer groups. */
export function hasFewerGroups(orgId: OrgId, most: number) {
	return sql<boolean>`(SELECT count(*) FROM groups WHERE org_id = ${orgId}) < ${most}`;
}

export function insertGroup(
	orgId: OrgId,
	{ id, name, description, created_at_ms }: Pick<GroupRow, "id" | "name" | "description" | "created_at_ms">,
): CompiledQuery {
	return query
		.insertInto("groups")
		.values({ id, org_id: orgId, name, description, created_at_ms, updated_at_ms: created_at_ms })
		.compile();
}

/** Writes a change of the group, or only that its members or its roles change. */
export function touchGroup(
	{ id, updated_at_ms }: Pick<GroupRow, "id" | "updated_at_ms">,
	nowMs: number,
	change: Partial<Pick<GroupRow, "name" | "description">> = {},
): CompiledQuery {
	return query
		.updateTable("groups")
		.set({ ...change, updated_at_ms: Math.max(nowMs, updated_at_ms + 1) })
		.where("id", "=", id)
		.compile();
}

/** Its members and its roles go with it. */
export const deleteGroup = (id: string): CompiledQuery => query.deleteFrom("groups").where("id", "=", id).compile();

export interface GroupMember {
	readonly user_id: string;
	readonly email: string;
	readonly added_at_ms: number;
}

const membersOf = (groupId: string) => sql<GroupMember>`SELECT m.user_id, u.email, m.added_at_ms
	FROM group_members m INNER JOIN users u ON u.id = m.user_id WHERE m.group_id = ${groupId}`;

/** The members of a group, by address. */
export function groupMembers(groupId: string, limit: number, offset: number): CompiledQuery<GroupMember> {
	return sql<GroupMember>`${membersOf(groupId)} ORDER BY u.email LIMIT ${limit} OFFSET ${offset}`.compile(query);
}

/** A member of the group; for loads in the authorization batch. */
export function groupMember(groupId: string, user: { readonly id: string } | { readonly email: string }) {
	const isUser = "id" in user ? sql`u.id = ${user.id}` : sql`u.email = ${user.email}`;
	return sql<GroupMember>`${membersOf(groupId)} AND ${isUser}`.compile(query);
}

export function insertGroupMember(groupId: string, userId: string, nowMs: number): CompiledQuery {
	return query
		.insertInto("group_members")
		.values({ group_id: groupId, user_id: userId, added_at_ms: nowMs })
		.onConflict((conflict) => conflict.doNothing())
		.compile();
}

export function deleteGroupMember(groupId: string, userId: string): CompiledQuery {
	return query.deleteFrom("group_members").where("group_id", "=", groupId).where("user_id", "=", userId).compile();
}

interface NewGroupBinding {
	readonly id: string;
	readonly group_id: string;
	readonly role_name: string;
	readonly scope_type: "app" | "channel";
	readonly app_id: string;
	readonly channel_id: number | null;
	readonly created_at_ms: number;
}

export function insertGroupBinding(orgId: OrgId, binding: NewGroupBinding): CompiledQuery {
	return query
		.insertInto("group_bindings")
		.values({ ...binding, org_id: orgId })
		.compile();
}

export const deleteGroupBinding = (id: string): CompiledQuery =>
	query.deleteFrom("group_bindings").where("id", "=", id).compile();

/** SQL list: the ids of the group's members. */
export const usersOfGroup = (groupId: string) => sql`(SELECT user_id FROM group_members WHERE group_id = ${groupId})`;

/** SQL list: the ids of the group's bindings. */
export const bindingsOfGroup = (groupId: string) => sql`(SELECT id FROM group_bindings WHERE group_id = ${groupId})`;
