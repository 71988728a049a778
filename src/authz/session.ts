/**
 * A person with a session as a principal: the account's own role bindings, and every rule of keys. What organizations demand of keys
 * does not concern a session; it ends when nobody used it for a while, and after its time however busy it is.
 */
import { type CompiledQuery, sql } from "kysely";
import { query } from "../db/client";
import { ApiError } from "../errors";
import { bindingsFrom, globalPermissionsFrom, invalidSession, liveBindings, type SessionPrincipal } from "./principal";

const DAY_MS = 24 * 60 * 60 * 1000;
/** A session that nobody used for so long is over. */
export const SESSION_IDLE_MS = 7 * DAY_MS;
/** And any session after so long. */
export const SESSION_LIFETIME_MS = 30 * DAY_MS;
/** How long whoever signed in is taken to be the one who still sits there. */
export const RECENT_SIGN_IN_MS = 15 * 60 * 1000;

export interface SessionRow {
	readonly id: string;
	readonly user_id: string;
	readonly email: string;
	readonly token_hash: string;
	readonly created_at_ms: number;
	readonly last_seen_at_ms: number;
	readonly global_permissions: string;
	readonly bindings: string;
}

/** For SQL: the session `s` is good. */
export const sessionIsLive = (nowMs: number) =>
	sql<boolean>`s.expires_at_ms > ${nowMs} AND s.last_seen_at_ms > ${nowMs - SESSION_IDLE_MS}`;

/** The session with this hash, while it is good, and the live bindings of its account. */
export function sessionStatement(tokenHash: string, nowMs: number): CompiledQuery<SessionRow> {
	return sql<SessionRow>`
		SELECT s.id, s.user_id, u.email, s.token_hash, s.created_at_ms, s.last_seen_at_ms, u.global_permissions,
			${liveBindings(sql`ON o.id = b.org_id AND b.user_id = u.id`, nowMs)} AS bindings
		FROM sessions s INNER JOIN users u ON u.id = s.user_id
		WHERE s.token_hash = ${tokenHash} AND ${sessionIsLive(nowMs)}`.compile(query);
}

/** @throws {ApiError} `invalid_session` when there is no such session, or it is over */
export function sessionPrincipalFrom(row: SessionRow | undefined): SessionPrincipal {
	if (row === undefined) throw invalidSession();
	return {
		kind: "session",
		keyId: null,
		sessionId: row.id,
		email: row.email,
		userId: row.user_id,
		bindings: bindingsFrom(row.bindings, () => undefined),
		globalPermissions: globalPermissionsFrom(row.global_permissions),
		expiresAtMs: null,
		ipAllowList: null,
		secretHash: row.token_hash,
		signedInAtMs: row.created_at_ms,
		lastSeenAtMs: row.last_seen_at_ms,
	};
}

/** Signing in anew makes a new session, so the session's age is that of the proof. @throws {ApiError} `recent_sign_in_required` */
export function requireRecentSignIn({ signedInAtMs }: SessionPrincipal, nowMs: number): void {
	if (signedInAtMs > nowMs - RECENT_SIGN_IN_MS) return;
	throw new ApiError(
		"recent_sign_in_required",
		`This outlives the session, so it needs a sign-in of the last ${RECENT_SIGN_IN_MS / 60_000} minutes; sign in again and repeat it.`,
	);
}
