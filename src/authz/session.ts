/**
 * A person with a session as a principal: the account's own role bindings under the rules of keys.
 * Organizations' key policies do not apply. A session ends after a while without use, and after its
 * lifetime in any case.
 */
import { RECENT_SIGN_IN_MINUTES } from "../domain/defaults";
import { DAY_MS, MINUTE_MS } from "../domain/time";
import { ApiError } from "../errors";
import { bindingsFrom, type Flag, globalPermissionsFrom, invalidSession, type SessionPrincipal } from "./principal";

/** A session ends after this time without use. */
export const SESSION_IDLE_MS = 7 * DAY_MS;
/** A session ends after this time in any case. */
export const SESSION_LIFETIME_MS = 30 * DAY_MS;
/** A sign-in counts as recent for this time. */
export const RECENT_SIGN_IN_MS = RECENT_SIGN_IN_MINUTES * MINUTE_MS;

/** `sessions.method` of a sign-in with a passkey; no provider has this id. */
export const PASSKEY_METHOD = "passkey";
/** `"passkey"`: the recent sign-in must be one with a passkey. */
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

/** @throws {ApiError} `invalid_session` for an unknown or ended session */
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
 * Every sign-in creates a session, so the age of the session is the age of the sign-in.
 * @throws {ApiError} `recent_sign_in_required`; `passkey_required` when a passkey is required and
 * the account has none
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
