/**
 * Statements about an account as a whole. Deleting an account removes its member from every
 * organization in one batch; every organization keeps at least one owner.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { OrgId } from "../authz/decide";
import type { RoleName } from "../authz/permissions";
import { type Actor, auditEach, auditStatement } from "./audit/entries";
import { jsonList, onUnique, query, type Statement } from "./client";
import { deleteKeysOfMember, removeMember } from "./members";
import type { Flag } from "./schema";

/** SQL for the account of a session; for loads in the authorization batch. */
const accountOf = (tokenHash: string) => sql<string>`(SELECT user_id FROM sessions WHERE token_hash = ${tokenHash})`;

interface AccountDetails {
	readonly id: string;
	readonly email: string;
	readonly created_at_ms: number;
	readonly email_verified_at_ms: number | null;
	readonly passkeys: number;
	/** 1: the account owns the first organization. */
	readonly is_operator: Flag;
}

export function accountDetails(
	tokenHash: string,
	owning: readonly RoleName[],
	nowMs: number,
): CompiledQuery<AccountDetails> {
	return sql<AccountDetails>`SELECT id, email, created_at_ms, email_verified_at_ms,
		(SELECT count(*) FROM passkeys WHERE user_id = users.id) AS passkeys,
		EXISTS (SELECT 1 FROM installation i INNER JOIN role_bindings b ON b.org_id = i.first_org_id WHERE b.user_id = users.id
			AND b.scope_type = 'org' AND b.role_name IN ${jsonList(JSON.stringify(owning))}
			AND (b.expires_at_ms IS NULL OR b.expires_at_ms > ${nowMs})) AS is_operator
		FROM users WHERE id = ${accountOf(tokenHash)}`.compile(query);
}

/** An organization in which an account has a role, a key or an invitation that it sent. */
export interface Part {
	readonly id: string;
	readonly name: string;
	readonly deleted_at_ms: number | null;
	/** 1: no other account owns the organization permanently. */
	readonly is_last_owner: 0 | 1;
	/** JSON array of role names: the account's roles on the whole organization. */
	readonly roles: string;
	/** JSON array of `{ id, name }`: the account's keys that belong to the organization. */
	readonly keys: string;
}

const owns = (owning: readonly RoleName[]) => sql`b.scope_type = 'org' AND b.expires_at_ms IS NULL
	AND b.role_name IN ${jsonList(JSON.stringify(owning))}`;
const isPartOf = (org: RawBuilder<unknown>, user: RawBuilder<unknown>) => sql<boolean>`(
	EXISTS (SELECT 1 FROM role_bindings b WHERE b.org_id = ${org}
		AND (b.user_id = ${user} OR b.api_key_id IN (SELECT id FROM api_keys WHERE user_id = ${user})))
	OR EXISTS (SELECT 1 FROM api_keys k WHERE k.org_id = ${org} AND k.user_id = ${user})
	OR EXISTS (SELECT 1 FROM invitations i WHERE i.org_id = ${org} AND i.invited_by = ${user}))`;
const isLastOwnerOf = (
	org: RawBuilder<unknown>,
	user: RawBuilder<unknown>,
	owning: readonly RoleName[],
) => sql<boolean>`(
	EXISTS (SELECT 1 FROM role_bindings b WHERE b.org_id = ${org} AND b.user_id = ${user} AND ${owns(owning)})
	AND NOT EXISTS (SELECT 1 FROM role_bindings b WHERE b.org_id = ${org} AND b.user_id <> ${user} AND ${owns(owning)}))`;

/**
 * Every organization in which the account has a part, including deleted ones that can still be
 * restored.
 */
export function partsOf(tokenHash: string, owning: readonly RoleName[]): CompiledQuery<Part> {
	const user = accountOf(tokenHash);
	const org = sql`o.id`;
	return sql<Part>`SELECT o.id, o.name, o.deleted_at_ms, ${isLastOwnerOf(org, user, owning)} AS is_last_owner,
			(SELECT json_group_array(b.role_name) FROM role_bindings b
				WHERE b.org_id = o.id AND b.user_id = ${user} AND b.scope_type = 'org') AS roles,
			(SELECT json_group_array(json_object('id', id, 'name', name)) FROM (SELECT k.id, k.name FROM api_keys k
				WHERE k.org_id = o.id AND k.user_id = ${user} ORDER BY k.created_at_ms, k.id)) AS keys
		FROM organizations o WHERE ${isPartOf(org, user)} ORDER BY o.name, o.id`.compile(query);
}

/** Guard: no organization has this account as its last owner. */
export function isNoLastOwner(userId: string, owning: readonly RoleName[]) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM organizations o WHERE ${isLastOwnerOf(sql`o.id`, sql`${userId}`, owning)})`;
}

/** Guard: the account has a part in these organizations only. */
export function partsAre(userId: string, orgIds: readonly string[]) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM organizations o WHERE ${isPartOf(sql`o.id`, sql`${userId}`)}
		AND o.id NOT IN ${jsonList(JSON.stringify(orgIds))})`;
}

/**
 * Deletes what the account holds and created in each organization, then the account. Requires the
 * guards `isNoLastOwner` and `partsAre`.
 */
export function deleteAccountStatements(
	account: { readonly id: string; readonly email: string },
	parts: readonly Part[],
	roles: { readonly owning: readonly RoleName[]; readonly administering: readonly RoleName[] },
	actor: Actor,
	nowMs: number,
): CompiledQuery[] {
	const { id, email } = account;
	const heirOf = (org: RawBuilder<unknown>) => sql`(SELECT b.user_id FROM role_bindings b
		WHERE b.org_id = ${org} AND b.user_id <> ${id} AND ${owns(roles.owning)} ORDER BY b.created_at_ms, b.id LIMIT 1)`;
	// `created_by` must name an existing account. Organizations without members (of a deleted app, or
	// being purged) get another owner's.
	const heir = sql<string>`coalesce(${heirOf(sql`organizations.id`)},
		${heirOf(sql`(SELECT d.org_id FROM apps a INNER JOIN deleted_apps d ON d.app_id = a.id WHERE a.owner_org = organizations.id)`)},
		${heirOf(sql`(SELECT first_org_id FROM installation)`)},
		(SELECT u.id FROM users u WHERE u.id = (SELECT first_user_id FROM installation) AND u.id <> ${id}), created_by)`;
	return [
		...parts.flatMap((part) => {
			// Leaving an organization requires no permission in it.
			const orgId = part.id as OrgId;
			return [
				auditStatement(actor, nowMs, {
					orgId,
					action: "member.remove",
					target: { type: "user", id, name: email },
					before: { roles: JSON.parse(part.roles) },
					details: { account_deleted: true },
				}),
				...removeMember(orgId, id, roles.administering, actor, nowMs),
				deleteKeysOfMember(orgId, id),
			];
		}),
		// The first key of an organization acts for `created_by`. The audit log keeps the account that
		// created the organization.
		query.updateTable("organizations").set({ created_by: heir }).where("created_by", "=", id).compile(),
		query.deleteFrom("users").where("id", "=", id).compile(),
	];
}

/**
 * One audit entry per organization of the account about its new address, if the condition holds.
 * Run before `changeEmail`.
 */
export function auditEmailChange(
	userId: string,
	email: string,
	condition: RawBuilder<boolean>,
	actor: Actor,
	nowMs: number,
): CompiledQuery {
	return auditEach(
		actor,
		nowMs,
		{ action: "member.change_email", targetType: "user" },
		sql`SELECT o.id AS org_id, u.id AS target_id, ${email} AS target_name, json_object('email', u.email) AS before,
			json_object('email', ${email}) AS after FROM users u INNER JOIN organizations o ON ${isPartOf(sql`o.id`, sql`u.id`)}
			WHERE u.id = ${userId} AND ${condition}`,
	);
}

/**
 * If the condition holds: sets the verified address, ends all other sessions, and replaces this
 * session's token.
 */
export function changeEmail(
	account: { readonly userId: string; readonly sessionId: string },
	email: string,
	newTokenHash: string,
	condition: RawBuilder<boolean>,
	nowMs: number,
	taken: () => Error,
): Statement[] {
	const { userId, sessionId } = account;
	const setEmail = query
		.updateTable("users")
		.set({ email, email_verified_at_ms: nowMs })
		.where("id", "=", userId)
		.where(condition);
	return [
		onUnique(setEmail.compile(), "users.email", taken),
		query.deleteFrom("sessions").where("user_id", "=", userId).where("id", "<>", sessionId).where(condition).compile(),
		query
			.updateTable("sessions")
			.set({ token_hash: newTokenHash })
			.where("user_id", "=", userId)
			.where("id", "=", sessionId)
			.where(condition)
			.compile(),
	];
}
