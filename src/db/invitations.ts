/**
 * Statements about invitations. An invitation is found by the hash of its token. It is valid until
 * it expires, while its organization exists and its inviter is still a member whose role may
 * invite.
 */
import { type CompiledQuery, type Insertable, type Selectable, sql } from "kysely";
import type { OrgId } from "../authz/decide";
import type { Permission, Role } from "../authz/permissions";
import { query } from "./client";
import { CUSTOM_PERMISSIONS, rolesUnchanged } from "./custom-roles";
import { memberHoldsAll } from "./members";
import type { InvitationsTable } from "./schema";

export type InvitationRow = Omit<Selectable<InvitationsTable>, "token_hash">;

const INVITATION_COLUMNS = [
	"invitations.id",
	"invitations.org_id",
	"invitations.email",
	"invitations.role_name",
	"invitations.invited_by",
	"invitations.note",
	"invitations.expires_at_ms",
	"invitations.created_at_ms",
] as const;

/** The invitation of an address, expired or not; for loads in the authorization batch. */
export function invitationByEmail(orgId: string, email: string): CompiledQuery<InvitationRow> {
	return query
		.selectFrom("invitations")
		.select(INVITATION_COLUMNS)
		.where("org_id", "=", orgId)
		.where("email", "=", email)
		.compile();
}

/**
 * Guard: the invitation of the address is the one that was read, or there is still none if `read`
 * is undefined.
 */
export function invitationIsAsRead(orgId: OrgId, email: string, read: InvitationRow | undefined) {
	return read === undefined
		? sql<boolean>`NOT EXISTS (SELECT 1 FROM invitations WHERE org_id = ${orgId} AND email = ${email})`
		: sql<boolean>`EXISTS (SELECT 1 FROM invitations WHERE org_id = ${orgId} AND email = ${email} AND id = ${read.id}
			AND role_name = ${read.role_name})`;
}

export interface InvitationWithOrganization extends InvitationRow {
	readonly organization_name: string;
	readonly max_apikey_expiration_days: number | null;
	/** The existing account with this address. */
	readonly user_id: string | null;
	readonly inviter_email: string;
	/** JSON array: the permissions of a custom role that it offers. */
	readonly custom_permissions: string | null;
	/**
	 * JSON array of `{ role, customPermissions }`: the inviter's live roles on the whole organization.
	 */
	readonly inviter_roles: string;
}

/**
 * The unexpired invitation with this token, if its organization exists. The token authorizes
 * reading it.
 */
export function invitationByToken(tokenHash: string, nowMs: number): CompiledQuery<InvitationWithOrganization> {
	return query
		.selectFrom("invitations")
		.innerJoin("organizations", "organizations.id", "invitations.org_id")
		.innerJoin("users as inviter", "inviter.id", "invitations.invited_by")
		.leftJoin("users", "users.email", "invitations.email")
		.select([
			...INVITATION_COLUMNS,
			"organizations.name as organization_name",
			"organizations.max_apikey_expiration_days",
			"users.id as user_id",
			"inviter.email as inviter_email",
			sql<string | null>`(SELECT c.permissions FROM custom_roles c WHERE c.org_id = invitations.org_id
				AND c.name = invitations.role_name AND c.scope_type = 'org')`.as("custom_permissions"),
			sql<string>`(SELECT json_group_array(json_object('role', b.role_name, 'customPermissions', json(${CUSTOM_PERMISSIONS})))
				FROM role_bindings b WHERE b.user_id = invitations.invited_by
				AND b.org_id = invitations.org_id AND b.scope_type = 'org' AND (b.expires_at_ms IS NULL OR b.expires_at_ms > ${nowMs}))`.as(
				"inviter_roles",
			),
		])
		.where("invitations.token_hash", "=", tokenHash)
		.where("invitations.expires_at_ms", ">", nowMs)
		.where("organizations.deleted_at_ms", "is", null)
		.compile();
}

/**
 * Guard: the invitation and its role are unchanged since they were read, it is unexpired, its
 * organization exists, and a role of its inviter holds all the permissions.
 */
export function invitationIsGood(
	invitation: InvitationRow,
	tokenHash: string,
	role: Role,
	needed: readonly Permission[],
	nowMs: number,
) {
	const inviter = sql`i.invited_by`;
	return sql<boolean>`EXISTS (SELECT 1 FROM invitations i INNER JOIN organizations o ON o.id = i.org_id
		WHERE i.id = ${invitation.id} AND i.org_id = ${invitation.org_id} AND i.token_hash = ${tokenHash}
			AND i.role_name = ${invitation.role_name} AND i.expires_at_ms > ${nowMs} AND o.deleted_at_ms IS NULL
			AND ${memberHoldsAll(invitation.org_id, inviter, needed, nowMs)}
			AND ${rolesUnchanged([{ orgId: invitation.org_id, role }])})`;
}

/** Creates the invitation of an address and deletes its previous one, whose link stops working. */
export function replaceInvitation(orgId: OrgId, values: Omit<Insertable<InvitationsTable>, "org_id">): CompiledQuery[] {
	return [
		deleteInvitation(orgId, values.email),
		query
			.insertInto("invitations")
			.values({ ...values, org_id: orgId })
			.compile(),
	];
}

/**
 * Changes the role that an invitation offers, with a new token, because the previous inviter sent
 * the old link for the old role.
 */
export function changeInvitation(
	orgId: OrgId,
	id: string,
	values: {
		readonly role_name: string;
		readonly invited_by: string;
		readonly note: string | null;
		readonly token_hash: string;
	},
): CompiledQuery {
	return query.updateTable("invitations").set(values).where("org_id", "=", orgId).where("id", "=", id).compile();
}

/** Guard: the invitation exists and offers the role that was read. */
export function invitationIs(orgId: OrgId, invitation: InvitationRow) {
	return sql<boolean>`EXISTS (SELECT 1 FROM invitations WHERE org_id = ${orgId} AND id = ${invitation.id}
		AND role_name = ${invitation.role_name})`;
}

export function deleteInvitation(orgId: OrgId, email: string): CompiledQuery {
	return query.deleteFrom("invitations").where("org_id", "=", orgId).where("email", "=", email).compile();
}

/** Deleted per run of the clean-up. */
const MOST_EXPIRED = 200;

export function deleteExpiredInvitations(nowMs: number): CompiledQuery {
	const expired = query
		.selectFrom("invitations")
		.select("id")
		.where("expires_at_ms", "<=", nowMs)
		.orderBy("expires_at_ms")
		.orderBy("id")
		.limit(MOST_EXPIRED);
	return query.deleteFrom("invitations").where("id", "in", expired).compile();
}

export function insertAccount(id: string, email: string, nowMs: number): CompiledQuery {
	return query.insertInto("users").values({ id, email, created_at_ms: nowMs }).compile();
}
