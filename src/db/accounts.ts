/**
 * Statements about an account as a whole. Deleting one does in every organization what removing the member does there, in one batch, and
 * leaves every organization somebody who may end it.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { OrgId } from "../authz/decide";
import type { RoleName } from "../authz/permissions";
import { type Actor, auditEach, auditStatement } from "./audit";
import { jsonList, query } from "./client";
import { deleteKeysOfMember, removeMember } from "./members";
import type { Flag } from "./schema";

/** For loading beside the decision: the account of a session. */
const accountOf = (tokenHash: string) => sql<string>`(SELECT user_id FROM sessions WHERE token_hash = ${tokenHash})`;

export interface AccountDetails {
	readonly id: string;
	readonly email: string;
	readonly created_at_ms: number;
	readonly email_verified_at_ms: number | null;
	readonly passkeys: number;
	/** 1: owns the first organization. */
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

/** An organization that an account has a part in. */
export interface Part {
	readonly id: string;
	readonly name: string;
	readonly deleted_at_ms: number | null;
	/** Nobody else may end the organization for good. */
	readonly is_last_owner: 0 | 1;
	/** JSON array of the names of the account's roles on the whole organization. */
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

/** Every organization that the account has a part in, deleted ones that can be restored included. */
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

/** For guards: the account is nobody's last owner. */
export function isNoLastOwner(userId: string, owning: readonly RoleName[]) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM organizations o WHERE ${isLastOwnerOf(sql`o.id`, sql`${userId}`, owning)})`;
}

/** For guards: the account has a part in these organizations and in no other. */
export function partsAre(userId: string, orgIds: readonly string[]) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM organizations o WHERE ${isPartOf(sql`o.id`, sql`${userId}`)}
		AND o.id NOT IN ${jsonList(JSON.stringify(orgIds))})`;
}

/** Deletes the account, after `isNoLastOwner` and `partsAre`: what it held and made in each organization, then itself. */
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
	// The organization that a deleted app is in has no members, nor has one that is being removed: it is named after somebody who stays.
	const heir = sql`coalesce(${heirOf(sql`organizations.id`)},
		${heirOf(sql`(SELECT d.org_id FROM apps a INNER JOIN deleted_apps d ON d.app_id = a.id WHERE a.owner_org = organizations.id)`)},
		${heirOf(sql`(SELECT first_org_id FROM installation)`)},
		(SELECT u.id FROM users u WHERE u.id = (SELECT first_user_id FROM installation) AND u.id <> ${id}), created_by)`;
	return [
		...parts.flatMap((part) => {
			// Whoever leaves needs nobody's permission.
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
		// The account that an organization's first key acts for; who created it stands in the audit log.
		sql`UPDATE organizations SET created_by = ${heir} WHERE created_by = ${id}`.compile(query),
		query.deleteFrom("users").where("id", "=", id).compile(),
	];
}

/** Entries in every organization of the account, on the condition: its address is another one now. Before `changeEmail`. */
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

/** On the condition: the address, which was proved by it, and a new token for this session in the place of all others. */
export function changeEmail(
	account: { readonly userId: string; readonly sessionId: string },
	email: string,
	newTokenHash: string,
	condition: RawBuilder<boolean>,
	nowMs: number,
): CompiledQuery[] {
	const { userId, sessionId } = account;
	return [
		sql`UPDATE users SET email = ${email}, email_verified_at_ms = ${nowMs} WHERE id = ${userId} AND ${condition}`,
		sql`DELETE FROM sessions WHERE user_id = ${userId} AND id <> ${sessionId} AND ${condition}`,
		sql`UPDATE sessions SET token_hash = ${newTokenHash} WHERE user_id = ${userId} AND id = ${sessionId} AND ${condition}`,
	].map((statement) => statement.compile(query));
}
