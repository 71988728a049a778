/**
 * A person with a session as a principal: the account's own role bindings, and every rule of keys. What organizations demand of keys
 * does not concern a session; it ends when nobody used it for a while, and after its time however busy it is.
 */
import { type CompiledQuery, sql } from "kysely";
import { query } from "../db/client";
import type { Flag } from "../db/schema";
import { DAY_MS } from "../domain/time";
import { ApiError } from "../errors";
import { bindingsFrom, globalPermissionsFrom, invalidSession, liveBindings, type SessionPrincipal } from "./principal";

/** A session that nobody used for so long is over. */
export const SESSION_IDLE_MS = 7 * DAY_MS;
/** And any session after so long. */
export const SESSION_LIFETIME_MS = 30 * DAY_MS;
/** How long a sign-in counts as recent. */
export const RECENT_SIGN_IN_MS = 15 * 60 * 1000;

/** `sessions.method` of a sign-in with a passkey; no provider has this id. */
export const PASSKEY_METHOD = "passkey";
/** `"passkey"`: the recent sign-in must have been made with a passkey. */
export type RecentSignIn = boolean | typeof PASSKEY_METHOD;

export interface SessionRow {
	readonly id: string;
	readonly user_id: string;
	readonly email: string;
	readonly token_hash: string;
	readonly created_at_ms: number;
	readonly last_seen_at_ms: number;
	readonly method: string;
	readonly has_passkey: Flag;
	readonly global_permissions: string;
	readonly bindings: string;
}

/** For SQL: the session `s` is good. */
export const sessionIsLive = (nowMs: number) =>
	sql<boolean>`s.expires_at_ms > ${nowMs} AND s.last_seen_at_ms > ${nowMs - SESSION_IDLE_MS}`;

/** The session with this hash, while it is good, and the live bindings of its account. */
export function sessionStatement(tokenHash: string, nowMs: number): CompiledQuery<SessionRow> {
	return sql<SessionRow>`
		SELECT s.id, s.user_id, u.email, s.token_hash, s.created_at_ms, s.last_seen_at_ms, s.method,
			EXISTS (SELECT 1 FROM passkeys WHERE user_id = u.id) AS has_passkey, u.global_permissions,
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
		signedInByPasskey: row.method === PASSKEY_METHOD,
		hasPasskey: row.has_passkey === 1,
		lastSeenAtMs: row.last_seen_at_ms,
	};
}

/**
 * Every sign-in creates a session, so the age of the session is the age of the proof.
 * @throws {ApiError} `recent_sign_in_required`; `passkey_required` when a passkey is wanted and the account has none
 */
export function requireRecentSignIn(session: SessionPrincipal, wanted: RecentSignIn, nowMs: number): void {
	if (wanted === false) return;
	const byPasskey = wanted === PASSKEY_METHOD;
	if (byPasskey && !session.hasPasskey) {
		throw new ApiError(
			"passkey_required",
			"This needs a sign-in with a passkey, and your account has none; add one with POST /account/passkeys or on your account's page, sign in with it and repeat the request.",
		);
	}
	const isRecent = session.signedInAtMs > nowMs - RECENT_SIGN_IN_MS;
	if (isRecent && (session.signedInByPasskey || !byPasskey)) return;
	throw new ApiError(
		"recent_sign_in_required",
		`This needs a sign-in${byPasskey ? " with a passkey" : ""} of the last ${RECENT_SIGN_IN_MS / 60_000} minutes; sign in again${byPasskey ? " with a passkey" : ""} and repeat the request.`,
		{ moreInfo: byPasskey ? { method: PASSKEY_METHOD } : {} },
	);
}
