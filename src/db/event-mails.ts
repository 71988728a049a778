/**
 * Statements about the mails that a person chose: a webhook of the format `mail` for each
 * organization, which fans out as the others do. Roles that may read the audit log may have them; a
 * choice without such a role is kept, and nothing is sent.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { jsonList, query } from "./client";

/** Condition: the person has one of the roles on the whole organization. */
const holds = (userId: RawBuilder<unknown>, orgId: RawBuilder<unknown>, roles: readonly string[], nowMs: number) =>
	sql<boolean>`EXISTS (SELECT 1 FROM role_bindings b INNER JOIN organizations o ON o.id = b.org_id
		WHERE b.user_id = ${userId} AND b.org_id = ${orgId} AND b.scope_type = 'org' AND o.deleted_at_ms IS NULL
			AND b.role_name IN ${jsonList(JSON.stringify(roles))} AND (b.expires_at_ms IS NULL OR b.expires_at_ms > ${nowMs}))`;

/**
 * The organizations that may send the person mails, with the choice; `events` is null without one.
 */
export function eventMailsOf(
	userId: string,
	roles: readonly string[],
	nowMs: number,
	limit: number,
): CompiledQuery<{ id: string; name: string; events: string | null }> {
	return query
		.selectFrom("organizations as o")
		.leftJoin("webhooks as w", (join) => join.onRef("w.org_id", "=", "o.id").on("w.user_id", "=", userId))
		.select(["o.id", "o.name", "w.events"])
		.where("o.id", "in", query.selectFrom("role_bindings").select("org_id").where("user_id", "=", userId))
		.where(holds(sql`${userId}`, sql.ref("o.id"), roles, nowMs))
		.orderBy("o.name")
		.orderBy("o.id")
		.limit(limit)
		.compile();
}

/** For guards: the person may choose mails of the organization. */
export function mayHaveMails(userId: string, orgId: string, roles: readonly string[], nowMs: number) {
	return holds(sql`${userId}`, sql`${orgId}`, roles, nowMs);
}

/** For SELECT: the person has a verified address and chose mails about the event. */
export function getsMailsAbout(
	user: { readonly id: RawBuilder<unknown>; readonly emailVerifiedAt: RawBuilder<unknown> },
	orgId: string,
	event: string,
	roles: readonly string[],
	nowMs: number,
): RawBuilder<0 | 1> {
	return sql<0 | 1>`(${user.emailVerifiedAt} IS NOT NULL AND ${holds(user.id, sql`${orgId}`, roles, nowMs)}
		AND EXISTS (SELECT 1 FROM webhooks w CROSS JOIN json_each(w.events) AS chosen
			WHERE w.user_id = ${user.id} AND w.org_id = ${orgId} AND w.disabled_at_ms IS NULL AND chosen.value = ${event}))`;
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
	const chosen = { events: JSON.stringify(events), updated_at_ms: nowMs };
	return query
		.insertInto("webhooks")
		.values({
			id,
			org_id: orgId,
			user_id: userId,
			format: "mail",
			description: "Mail",
			shown_url: "",
			sealed: "",
			...chosen,
			created_at_ms: nowMs,
		})
		.onConflict((conflict) =>
			conflict
				.columns(["user_id", "org_id"])
				.where("user_id", "is not", null)
				.doUpdateSet({ ...chosen, disabled_at_ms: null, disabled_reason: null, failing_since_ms: null }),
		)
		.compile();
}

/**
 * The verified address of the person; no row if the person may not have mails of the organization
 * any more.
 */
export function mailRecipient(
	userId: string,
	orgId: string,
	roles: readonly string[],
	nowMs: number,
): CompiledQuery<{ email: string; organization: string }> {
	return query
		.selectFrom(["users as u", "organizations as o"])
		.select(["u.email", "o.name as organization"])
		.where("u.id", "=", userId)
		.where("o.id", "=", orgId)
		.where("u.email_verified_at_ms", "is not", null)
		.where(holds(sql`${userId}`, sql`${orgId}`, roles, nowMs))
		.compile();
}
