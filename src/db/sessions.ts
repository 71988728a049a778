/**
 * Statements about sessions and the activity log of an account. A session is found by the hash of
 * its token. Every statement names the account of the session, except the one that ends a session
 * by its token.
 */
import { type CompiledQuery, type Insertable, type RawBuilder, type Selectable, sql } from "kysely";
import { SESSION_IDLE_MS } from "../authz/session";
import { insertIf, query } from "./client";
import { sessionIsLive } from "./principals";
import type { AccountLogTable, SessionsTable } from "./schema";

type SessionListRow = Omit<Selectable<SessionsTable>, "user_id" | "token_hash">;

/** The live sessions of an account, most recently used first. */
export function sessionsOf(userId: string, nowMs: number): CompiledQuery<SessionListRow> {
	return query
		.selectFrom("sessions")
		.select(["id", "method", "user_agent", "ip_address", "created_at_ms", "last_seen_at_ms", "expires_at_ms"])
		.where("user_id", "=", userId)
		.where("expires_at_ms", ">", nowMs)
		.where("last_seen_at_ms", ">", nowMs - SESSION_IDLE_MS)
		.orderBy("last_seen_at_ms", "desc")
		.orderBy("id")
		.compile();
}

/** An account id, or SQL that finds the id within the batch. */
export type AccountId = string | RawBuilder<string>;

/** Adds a session, if the condition holds. */
export function insertSession(
	values: Omit<Insertable<SessionsTable>, "user_id"> & { readonly user_id: AccountId },
	condition: RawBuilder<boolean>,
): CompiledQuery {
	return insertIf("sessions", values, condition).compile();
}

export function markSessionSeen(userId: string, id: string, nowMs: number): CompiledQuery {
	return query
		.updateTable("sessions")
		.set({ last_seen_at_ms: nowMs })
		.where("user_id", "=", userId)
		.where("id", "=", id)
		.where("last_seen_at_ms", "<", nowMs)
		.compile();
}

/** Ends one session of the account. */
export function deleteSession(userId: string, id: string): CompiledQuery<{ id: string }> {
	return query.deleteFrom("sessions").where("user_id", "=", userId).where("id", "=", id).returning("id").compile();
}

/** Ends all sessions of the account, except `exceptId`. */
export function deleteSessions(userId: string, exceptId: string | undefined): CompiledQuery<{ id: string }> {
	return query
		.deleteFrom("sessions")
		.where("user_id", "=", userId)
		.$if(exceptId !== undefined, (rows) => rows.where("id", "<>", exceptId ?? ""))
		.returning("id")
		.compile();
}

/**
 * Ends the session with this token, of any account, if the condition holds: a browser that signs in
 * again replaces its session.
 */
export function deleteSessionByToken(tokenHash: string, condition: RawBuilder<boolean>): CompiledQuery {
	return query.deleteFrom("sessions").where("token_hash", "=", tokenHash).where(condition).compile();
}

/** Guard: the account has the session. */
export function sessionExists(userId: string, id: string) {
	return sql<boolean>`EXISTS (SELECT 1 FROM sessions WHERE user_id = ${userId} AND id = ${id})`;
}

/** SQL condition: the session with this token is live and belongs to the account. */
export function hasSession(userId: AccountId, tokenHash: string | undefined, nowMs: number) {
	return sql<boolean>`EXISTS (SELECT 1 FROM sessions s WHERE s.user_id = ${userId} AND s.token_hash = ${tokenHash ?? null}
		AND ${sessionIsLive(nowMs)})`;
}

/** An entry of an account's activity log. */
export interface AccountEvent {
	readonly userId: AccountId;
	/** E.g. `sign_in`. */
	readonly action: string;
	readonly details?: Readonly<Record<string, unknown>>;
}

/** The request that caused an entry. */
interface AccountOrigin {
	readonly requestId: string;
	readonly ipAddress: string | null;
	readonly userAgent: string | null;
}

/** Adds an entry to the activity log, if the condition holds. */
export function logAccount(
	{ userId, action, details = {} }: AccountEvent,
	{ requestId, ipAddress, userAgent }: AccountOrigin,
	nowMs: number,
	condition: RawBuilder<boolean> = sql<boolean>`true`,
): CompiledQuery {
	const entry = {
		user_id: userId,
		at_ms: nowMs,
		action,
		details: JSON.stringify(details),
		request_id: requestId,
		ip_address: ipAddress,
		user_agent: userAgent,
	};
	return insertIf("account_log", entry, condition).compile();
}

/** The activity log of an account, newest first. */
export function accountLogPage(
	userId: string,
	limit: number,
	offset: number,
): CompiledQuery<Omit<Selectable<AccountLogTable>, "user_id">> {
	return query
		.selectFrom("account_log")
		.select(["id", "at_ms", "action", "details", "request_id", "ip_address", "user_agent"])
		.where("user_id", "=", userId)
		.orderBy("id", "desc")
		.limit(limit)
		.offset(offset)
		.compile();
}
