/**
 * Statements about the members of an organization: people with a role binding on it. Also lowers
 * and revokes a member's keys, because that happens in the batch that changes or removes the
 * member.
 */
import { type CompiledQuery, type RawBuilder, type SqlBool, sql } from "kysely";
import type { OrgId } from "../authz/decide";
import type { Permission, RoleName } from "../authz/permissions";
import { auditBindingsOfKeys, auditedBinding } from "./audit/bindings";
import { type Actor, auditEach } from "./audit/entries";
import { jsonList, query } from "./client";
import { grantsAll } from "./custom-roles";
import { removeForeignBindings } from "./foreign-bindings";

const live = (nowMs: number) => sql`(b.expires_at_ms IS NULL OR b.expires_at_ms > ${nowMs})`;

export interface MemberRow {
	/** The account's id, or the invitation's. */
	readonly id: string;
	readonly email: string;
	/** JSON array of role names. */
	readonly roles: string;
	readonly is_invitation: 0 | 1;
	/** JSON array of the account's global permissions. */
	readonly global_permissions: string;
}

/**
 * Members with a live role on the whole organization and unexpired invitations, ordered by e-mail
 * address; limited to one `id` if given. Roles are read for the page only.
 */
export function membersOf(
	orgId: OrgId,
	id: string | undefined,
	nowMs: number,
	limit: number,
	offset: number,
): CompiledQuery<MemberRow> {
	const held = sql`b.org_id = ${orgId} AND b.scope_type = 'org' AND ${live(nowMs)}`;
	const ofPerson = id === undefined ? sql`b.user_id IS NOT NULL` : sql`b.user_id = ${id}`;
	return sql<MemberRow>`SELECT page.id, page.email,
			iif(page.is_invitation, page.roles, (SELECT json_group_array(b.role_name) FROM role_bindings b WHERE ${held} AND b.user_id = page.id)) AS roles,
			page.is_invitation, page.global_permissions
		FROM (SELECT u.id, u.email, NULL AS roles, 0 AS is_invitation, u.global_permissions
				FROM (SELECT DISTINCT b.user_id FROM role_bindings b WHERE ${held} AND ${ofPerson}) AS members
				CROSS JOIN users u ON u.id = members.user_id
			UNION ALL
			SELECT id, email, json_array(role_name), 1, '[]' FROM invitations WHERE org_id = ${orgId} AND expires_at_ms > ${nowMs}
				${id === undefined ? sql`` : sql`AND id = ${id}`}
			ORDER BY email, id LIMIT ${limit} OFFSET ${offset}) AS page
		ORDER BY page.email, page.id`.compile(query);
}

/** The expressions of the unique index of bindings, for ON CONFLICT. */
export const SAME_BINDING = sql<string>`coalesce(api_key_id, user_id), role_name, org_id, coalesce(app_id, ''), coalesce(channel_id, 0)`;

interface NewMemberBinding {
	readonly id: string;
	readonly userId: string;
	readonly orgId: string;
	readonly role: string;
}

/**
 * Gives a person the role on the whole organization. Revives an expired binding of the same role.
 */
export function insertMemberBinding(binding: NewMemberBinding, nowMs: number): CompiledQuery {
	return query
		.insertInto("role_bindings")
		.values({
			id: binding.id,
			user_id: binding.userId,
			role_name: binding.role,
			scope_type: "org",
			org_id: binding.orgId,
			created_at_ms: nowMs,
		})
		.onConflict((conflict) => conflict.expression(SAME_BINDING).doUpdateSet({ expires_at_ms: null }))
		.compile();
}

/** A person's part in an organization: their own bindings and those of their keys. */
export interface Membership {
	readonly user_id: string;
	readonly email: string;
	/** JSON array of role names: live roles on the whole organization. */
	readonly roles: string;
	/** JSON array of KeyOfMember: keys that belong to the organization. */
	readonly keys: string;
	/** JSON array of KeyOfMember: keys of other organizations with a binding in this one. */
	readonly foreign_keys: string;
	/** Compared by `membershipIs`. */
	readonly fingerprint: string;
	/** JSON array of the account's global permissions. */
	readonly global_permissions: string;
}

export interface KeyOfMember {
	readonly id: string;
	readonly name: string;
	/** Names of the key's roles on the whole organization. */
	readonly roles: readonly string[];
}

/** The account has a binding or a key in the organization, or its keys have a binding there. */
const isThere = (orgId: string | RawBuilder<string>, user: RawBuilder<unknown>) => sql`(
	EXISTS (SELECT 1 FROM role_bindings b WHERE b.org_id = ${orgId} AND b.user_id = ${user})
	OR EXISTS (SELECT 1 FROM api_keys WHERE user_id = ${user} AND org_id = ${orgId})
	OR EXISTS (SELECT 1 FROM api_keys k CROSS JOIN role_bindings b ON b.api_key_id = k.id AND b.org_id = ${orgId}
		WHERE k.user_id = ${user}))`;
/**
 * Leaves out roles on apps and channels, because they are never stronger than the role that manages
 * members. Leaves out keys, because their owner could block their own removal by creating and
 * deleting keys in a loop.
 */
const fingerprint = (
	orgId: string | RawBuilder<string>,
	user: RawBuilder<unknown>,
) => sql`(SELECT json_group_array(id) FROM (
	SELECT b.id FROM role_bindings b WHERE b.org_id = ${orgId} AND b.user_id = ${user} AND b.scope_type = 'org' ORDER BY b.id))`;

/**
 * The person with this address, if they have a part in the organization; for loads in the
 * authorization batch.
 */
export function membershipByEmail(
	orgId: string | RawBuilder<string>,
	email: string | RawBuilder<string>,
	nowMs: number,
): CompiledQuery<Membership> {
	const user = sql`u.id`;
	const keys = (condition: RawBuilder<unknown>) => sql`(
		SELECT json_group_array(json_object('id', id, 'name', name, 'roles', json(roles))) FROM (
			SELECT k.id, k.name, (SELECT json_group_array(b.role_name) FROM role_bindings b
					WHERE b.api_key_id = k.id AND b.org_id = ${orgId} AND b.scope_type = 'org') AS roles
				FROM api_keys k WHERE k.user_id = u.id AND ${condition} ORDER BY k.created_at_ms, k.id))`;
	return sql<Membership>`
		SELECT u.id AS user_id, u.email,
			(SELECT json_group_array(b.role_name) FROM role_bindings b
				WHERE b.user_id = u.id AND b.org_id = ${orgId} AND b.scope_type = 'org' AND ${live(nowMs)}) AS roles,
			${keys(sql`k.org_id = ${orgId}`)} AS keys,
			${keys(sql`k.org_id <> ${orgId} AND EXISTS (
				SELECT 1 FROM role_bindings b WHERE b.api_key_id = k.id AND b.org_id = ${orgId})`)} AS foreign_keys,
			${fingerprint(orgId, user)} AS fingerprint, u.global_permissions
		FROM users u WHERE u.email = ${email} AND ${isThere(orgId, user)}`.compile(query);
}

/** Guard: the person still has a part in the organization. */
export function membershipExists(orgId: OrgId, userId: string) {
	return isThere(orgId, sql`${userId}`) as RawBuilder<boolean>;
}

/** Guard: the person's own roles on the whole organization are unchanged since they were read. */
export function membershipIs(orgId: OrgId, member: Membership) {
	return sql<boolean>`${fingerprint(orgId, sql`${member.user_id}`)} = ${member.fingerprint}`;
}

/** Guard: no key of the person holds one of the roles on the whole organization. */
export function keysHoldNone(orgId: OrgId, userId: string, roles: readonly string[]) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM api_keys k
		CROSS JOIN role_bindings b ON b.api_key_id = k.id AND b.org_id = ${orgId} AND b.scope_type = 'org'
		WHERE k.user_id = ${userId} AND +b.role_name IN ${jsonList(JSON.stringify(roles))})`;
}

/** Guard: the account's global permissions are unchanged since they were read. */
export function memberPermissionsAre({ user_id, global_permissions }: Membership) {
	return sql<boolean>`EXISTS (SELECT 1 FROM users WHERE id = ${user_id} AND global_permissions = ${global_permissions})`;
}

/** Sets the global permissions of a member of the organization. */
export function setMemberPermissions(orgId: OrgId, userId: string, permissions: readonly string[]): CompiledQuery {
	return query
		.updateTable("users")
		.set({ global_permissions: JSON.stringify(permissions) })
		.where("id", "=", userId)
		.where((eb) =>
			eb.exists(
				eb
					.selectFrom("role_bindings as b")
					.select("b.id")
					.whereRef("b.user_id", "=", "users.id")
					.where("b.org_id", "=", orgId)
					.where("b.scope_type", "=", "org"),
			),
		)
		.compile();
}

/** Guard: no account with this address has a role on the whole organization. */
export function isNoMember(orgId: OrgId, email: string, nowMs: number) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM role_bindings b INNER JOIN users u ON u.id = b.user_id
		WHERE u.email = ${email} AND b.org_id = ${orgId} AND b.scope_type = 'org' AND ${live(nowMs)})`;
}

/** Guard: the person holds one of the roles on the whole organization. */
export function memberHolds(
	orgId: string | RawBuilder<unknown>,
	userId: string | RawBuilder<unknown>,
	roles: readonly RoleName[],
	nowMs: number,
) {
	return sql<boolean>`EXISTS (SELECT 1 FROM role_bindings b WHERE b.user_id = ${userId} AND b.org_id = ${orgId}
		AND b.scope_type = 'org' AND b.role_name IN ${jsonList(JSON.stringify(roles))} AND ${live(nowMs)})`;
}

/** Guard: a role of the person on the whole organization holds all the permissions. */
export function memberHoldsAll(
	orgId: string | RawBuilder<unknown>,
	userId: string | RawBuilder<unknown>,
	permissions: readonly Permission[],
	nowMs: number,
) {
	return sql<boolean>`EXISTS (SELECT 1 FROM role_bindings b WHERE b.user_id = ${userId} AND b.org_id = ${orgId}
		AND b.scope_type = 'org' AND ${grantsAll(permissions)} AND ${live(nowMs)})`;
}

/** Guard: another member has one of the roles permanently, or this person has none of them. */
export function isNotTheLast(orgId: OrgId, userId: string, roles: readonly RoleName[]) {
	const holds = sql`SELECT 1 FROM role_bindings WHERE org_id = ${orgId} AND scope_type = 'org' AND expires_at_ms IS NULL
		AND role_name IN ${jsonList(JSON.stringify(roles))}`;
	return sql<boolean>`(NOT EXISTS (${holds} AND user_id = ${userId}) OR EXISTS (${holds} AND user_id <> ${userId}))`;
}

/** Removes a person's roles on the whole organization; roles on its apps stay. */
export function deleteMemberRoles(orgId: OrgId, userId: string): CompiledQuery {
	return query
		.deleteFrom("role_bindings")
		.where("org_id", "=", orgId)
		.where("user_id", "=", userId)
		.where("scope_type", "=", "org")
		.compile();
}

export interface RevokedKey {
	readonly id: string;
	readonly name: string;
	readonly created_at_ms: number;
}

/**
 * Revokes the person's keys that belong to the organization. Run after `removeMember`, which audits
 * them.
 */
export function deleteKeysOfMember(orgId: OrgId, userId: string): CompiledQuery<RevokedKey> {
	return query
		.deleteFrom("api_keys")
		.where("org_id", "=", orgId)
		.where("user_id", "=", userId)
		.returning(["id", "name", "created_at_ms"])
		.compile();
}

/**
 * Removes a person from an organization: their bindings and places in groups, the bindings of their
 * keys of other organizations (with `org.create`, if a key loses its last administering role), and
 * the invitations they sent or received. Includes the audit entries, also those of their keys that
 * belong to the organization; `deleteKeysOfMember` must follow.
 */
export function removeMember(
	orgId: OrgId,
	userId: string,
	administering: readonly RoleName[],
	actor: Actor,
	nowMs: number,
): CompiledQuery[] {
	const [user, org] = [sql`${userId}`, sql`${orgId}`];
	// By this index also if most keys of the deployment are of one person.
	const keysOfUser = sql<SqlBool>`k.id IN (SELECT id FROM api_keys INDEXED BY api_keys_by_user WHERE user_id = ${user})`;
	const ownKeys = sql`FROM api_keys k WHERE k.org_id = ${org} AND k.user_id = ${user}`;
	const invitations = sql<boolean>`org_id = ${org}
		AND (invited_by = ${user} OR email = (SELECT email FROM users WHERE id = ${user}))`;
	const because = { removed_member: userId };
	return [
		auditEach(
			actor,
			nowMs,
			{ action: "api_key.delete", targetType: "api_key", details: because },
			sql`SELECT k.org_id, k.id AS target_id, k.name AS target_name,
				json_object('name', k.name, 'user_id', k.user_id, 'is_hashed_key', json(iif(k.key_ciphertext IS NULL, 'true', 'false')),
					'expires_at', strftime('%Y-%m-%dT%H:%M:%fZ', k.expires_at_ms / 1000.0, 'unixepoch'), 'bindings', json((
					SELECT json_group_array(${auditedBinding} ORDER BY b.rowid) FROM role_bindings b WHERE b.api_key_id = k.id))) AS before,
				NULL AS after ${ownKeys} ORDER BY k.created_at_ms, k.id`,
		),
		...removeForeignBindings(orgId, keysOfUser, administering, actor, nowMs, because),
		auditEach(
			actor,
			nowMs,
			{ action: "invitation.delete", targetType: "invitation", details: because },
			sql`SELECT org_id, id AS target_id, email AS target_name,
				json_object('email', email, 'role', role_name) AS before, NULL AS after
				FROM invitations WHERE ${invitations} ORDER BY email`,
		),
		...auditBindingsOfKeys(actor, nowMs, orgId, keysOfUser, because),
		query.deleteFrom("role_bindings").where("org_id", "=", orgId).where("user_id", "=", userId).compile(),
		query
			.deleteFrom("group_members")
			.where("user_id", "=", userId)
			.where("group_id", "in", query.selectFrom("groups").select("id").where("org_id", "=", orgId))
			.compile(),
		query.deleteFrom("invitations").where(invitations).compile(),
	];
}

/** The address of an account, for an entry of the audit log. */
export function emailOf(userId: string) {
	return sql<string>`(SELECT email FROM users WHERE id = ${userId})`;
}
