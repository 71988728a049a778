/**
 * Statements about roles that members hold on single apps and channels, beside their role on the
 * whole organization. Every statement names the organization, and a binding that came from another
 * one is never listed, because it ends with that one.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { OrgId } from "../authz/decide";
import { ACCOUNT_BINDINGS } from "./account-bindings";
import { auditedBinding } from "./audit/bindings";
import { type Actor, auditEach } from "./audit/entries";
import { query } from "./client";
import { appIdOf } from "./public-app-id";

export interface MemberBindingRow {
	readonly id: string;
	readonly user_id: string;
	readonly email: string;
	readonly role_name: string;
	readonly scope_type: "app" | "channel";
	readonly app_uuid: string;
	/** The public id, also of a deleted app: its roles come back with it. */
	readonly app_id: string;
	readonly channel_id: number | null;
	readonly channel: string | null;
	/** Null: the role is the person's own. */
	readonly group_id: string | null;
	readonly created_at_ms: number;
}

const rowsWhere = (orgId: string, condition: RawBuilder<unknown>) => sql<MemberBindingRow>`
	SELECT b.id, b.user_id, u.email, b.role_name, b.scope_type, b.app_id AS app_uuid,
		coalesce(d.public_app_id, a.app_id) AS app_id, b.channel_id, c.name AS channel, b.group_id, b.created_at_ms
	FROM ${ACCOUNT_BINDINGS} b INNER JOIN users u ON u.id = b.user_id INNER JOIN apps a ON a.id = b.app_id
		LEFT JOIN deleted_apps d ON d.app_id = a.id LEFT JOIN channels c ON c.id = b.channel_id
	WHERE b.org_id = ${orgId} AND b.scope_type <> 'org' AND b.parent_binding_id IS NULL AND ${condition}`;

interface MemberBindingFilter {
	readonly uid: string | undefined;
	readonly publicAppId: string | undefined;
}

/** Roles of members' own on apps and channels, by address. */
export function memberBindings(
	orgId: OrgId,
	{ uid, publicAppId }: MemberBindingFilter,
	limit: number,
	offset: number,
): CompiledQuery<MemberBindingRow> {
	const ofPerson = uid === undefined ? sql`b.user_id IS NOT NULL` : sql`b.user_id = ${uid}`;
	const ofApp = publicAppId === undefined ? sql`1` : sql`+b.app_id = ${appIdOf(publicAppId)}`;
	// Apps and channels of the page only.
	return sql<MemberBindingRow>`SELECT b.id, b.user_id, b.email, b.role_name, b.scope_type, b.app_id AS app_uuid,
			coalesce(d.public_app_id, a.app_id) AS app_id, b.channel_id, c.name AS channel, NULL AS group_id, b.created_at_ms
		FROM (SELECT b.*, u.email FROM role_bindings b INNER JOIN users u ON u.id = b.user_id
			WHERE b.org_id = ${orgId} AND b.scope_type IN ('app', 'channel') AND +b.parent_binding_id IS NULL AND ${ofPerson} AND ${ofApp}
			ORDER BY u.email, b.created_at_ms, b.id LIMIT ${limit} OFFSET ${offset}) b
			CROSS JOIN apps a ON a.id = b.app_id LEFT JOIN deleted_apps d ON d.app_id = a.id LEFT JOIN channels c ON c.id = b.channel_id
		ORDER BY b.email, b.created_at_ms, b.id`.compile(query);
}

/**
 * All such roles of the person with the address, also by groups; for loads in the authorization
 * batch.
 */
export function bindingsOfEmail(orgId: string, email: string): CompiledQuery<MemberBindingRow> {
	return rowsWhere(orgId, sql`b.user_id = (SELECT id FROM users WHERE email = ${email})`).compile(query);
}

/**
 * All such roles of the person who holds the binding, also by groups; for loads in the
 * authorization batch.
 */
export function bindingsBeside(orgId: string, id: string): CompiledQuery<MemberBindingRow> {
	return rowsWhere(
		orgId,
		sql`b.user_id = (SELECT user_id FROM role_bindings WHERE id = ${id} AND org_id = ${orgId})`,
	).compile(query);
}

export interface RoleBelow {
	readonly role_name: string;
	readonly app_id: string;
	readonly channel_id: number | null;
}

/**
 * All roles on apps and channels that the person with the address holds, also by groups and by
 * their keys, without those of the service.
 */
export function rolesBelow(orgId: string, email: string): CompiledQuery<RoleBelow> {
	const user = sql`(SELECT id FROM users WHERE email = ${email})`;
	return sql<RoleBelow>`SELECT role_name, app_id, channel_id FROM ${ACCOUNT_BINDINGS}
			WHERE user_id = ${user} AND org_id = ${orgId} AND scope_type <> 'org' AND parent_binding_id IS NULL
		UNION SELECT b.role_name, b.app_id, b.channel_id FROM api_keys k CROSS JOIN role_bindings b
			ON b.api_key_id = k.id AND b.org_id = ${orgId} AND b.scope_type <> 'org' AND +b.parent_binding_id IS NULL
			WHERE k.user_id = ${user}`.compile(query);
}

/** The address of the person who holds the binding. */
export const emailOfHolder = (orgId: string, id: string) =>
	sql<string>`(SELECT u.email FROM role_bindings b INNER JOIN users u ON u.id = b.user_id WHERE b.id = ${id} AND b.org_id = ${orgId})`;

interface PlaceRow {
	readonly app_uuid: string;
	readonly app_id: string;
	/** Null: the app has no channel of this name, or none was named. */
	readonly channel_id: number | null;
}

/** An app of the organization, and a channel of it; for loads in the authorization batch. */
export function placeNamed(
	orgId: string | RawBuilder<string>,
	publicAppId: string,
	channel: string | undefined,
): CompiledQuery<PlaceRow> {
	return query
		.selectFrom("apps as a")
		.leftJoin("channels as c", (join) =>
			join.onRef("c.app_id", "=", "a.id").on("c.name", "=", sql<string>`${channel ?? null}`),
		)
		.select(["a.id as app_uuid", "a.app_id", "c.id as channel_id"])
		.where("a.id", "=", appIdOf(publicAppId))
		.where("a.owner_org", "=", orgId)
		.compile();
}

/** Guard: the person still holds the binding. */
export function memberHoldsBinding(orgId: OrgId, userId: string, id: string) {
	return sql<boolean>`EXISTS (SELECT 1 FROM role_bindings WHERE id = ${id} AND org_id = ${orgId} AND user_id = ${userId})`;
}

/** Guard: the person holds fewer bindings in the organization. */
export function holdsFewerBindings(orgId: OrgId, userId: string, most: number) {
	return sql<boolean>`(SELECT count(*) FROM role_bindings WHERE org_id = ${orgId} AND user_id = ${userId}) < ${most}`;
}

/** Removes the role, with an audit entry. */
export function deleteMemberBinding(
	orgId: OrgId,
	userId: string,
	id: string,
	actor: Actor,
	nowMs: number,
): CompiledQuery[] {
	return [
		auditEach(
			actor,
			nowMs,
			{ action: "binding.delete", targetType: "user" },
			sql`SELECT b.org_id, u.id AS target_id, u.email AS target_name, ${auditedBinding} AS before, NULL AS after
				FROM role_bindings b INNER JOIN users u ON u.id = b.user_id
				WHERE b.id = ${id} AND b.org_id = ${orgId} AND b.user_id = ${userId}`,
		),
		query
			.deleteFrom("role_bindings")
			.where("id", "=", id)
			.where("org_id", "=", orgId)
			.where("user_id", "=", userId)
			.compile(),
	];
}
