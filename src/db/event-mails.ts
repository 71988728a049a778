/**
 * Statements about the mails that a person chose: a webhook of the format `mail` for each organization, which fans out as the others do.
 * Roles that may read the audit log may have them; a choice without such a role is kept, and nothing is sent.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { jsonList, query } from "./client";

/** Condition: the person has one of the roles on the whole organization. */
const holds = (userId: RawBuilder<unknown>, orgId: RawBuilder<unknown>, roles: readonly string[], nowMs: number) =>
	sql<boolean>`EXISTS (SELECT 1 FROM role_bindings b INNER JOIN organizations o ON o.id = b.org_id
		WHERE b.user_id = ${userId} AND b.org_id = ${orgId} AND b.scope_type = 'org' AND o.deleted_at_ms IS NULL
			AND b.role_name IN ${jsonList(JSON.stringify(roles))} AND (b.expires_at_ms IS NULL OR b.expires_at_ms > ${nowMs}))`;

/** The organizations that may send the person mails, with the choice; `events` is null without one. */
export function eventMailsOf(
	userId: string,
	roles: readonly string[],
	nowMs: number,
	limit: number,
): CompiledQuery<{ id: string; name: string; events: string | null }> {
	return sql<{ id: string; name: string; events: string | null }>`SELECT o.id, o.name, w.events FROM organizations o
			LEFT JOIN webhooks w ON w.org_id = o.id AND w.user_id = ${userId}
		WHERE o.id IN (SELECT org_id FROM role_bindings WHERE user_id = ${userId})
			AND ${holds(sql`${userId}`, sql.ref("o.id"), roles, nowMs)}
		ORDER BY o.name, o.id LIMIT ${limit}`.compile(query);
}

/** For guards: the person may choose mails of the organization. */
export function mayHaveMails(userId: string, orgId: string, roles: readonly string[], nowMs: number) {
	return holds(sql`${userId}`, sql`${orgId}`, roles, nowMs);
}

/** Replaces the choice; no events remove it with what waits. */
export function chooseEventMails(
	userId: string,
	orgId: string,
	id: string,
	events: readonly string[],
	nowMs: number,
): CompiledQuery {
	if (events.length === 0) {
		return query.deleteFrom("webhooks").where("user_id", "=", userId).where("org_id", "=", orgId).compile();
	}
	return sql`INSERT INTO webhooks (id, org_id, user_id, format, description, shown_url, sealed, events, created_at_ms, updated_at_ms)
		VALUES (${id}, ${orgId}, ${userId}, 'mail', 'Mail', '', '', ${JSON.stringify(events)}, ${nowMs}, ${nowMs})
		ON CONFLICT (user_id, org_id) WHERE user_id IS NOT NULL
		DO UPDATE SET events = excluded.events, updated_at_ms = excluded.updated_at_ms, disabled_at_ms = NULL, disabled_reason = NULL,
			failing_since_ms = NULL`.compile(query);
}

/** The verified address of the person; no row if the person may not have mails of the organization any more. */
export function mailRecipient(
	userId: string,
	orgId: string,
	roles: readonly string[],
	nowMs: number,
): CompiledQuery<{ email: string; organization: string }> {
	return sql<{ email: string; organization: string }>`SELECT u.email, o.name AS organization
		FROM users u, organizations o WHERE u.id = ${userId} AND o.id = ${orgId} AND u.email_verified_at_ms IS NOT NULL
			AND ${holds(sql`${userId}`, sql`${orgId}`, roles, nowMs)}`.compile(query);
}
