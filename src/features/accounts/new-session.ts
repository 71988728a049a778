/**
 * Shared by all sign-in methods: the check that a request comes from our own page and can keep a
 * cookie, and the creation of a session with a new token that replaces the browser's previous
 * session.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { invalidSession, type Principal, type SessionPrincipal } from "../../authz/principal";
import { hashKey, isWellFormedSessionToken, mintSessionToken } from "../../authz/secrets";
import { SESSION_LIFETIME_MS } from "../../authz/session";
import { guard } from "../../db/client";
import { hasAnotherWayIn, type WayOut } from "../../db/identities";
import { type AccountEvent, type AccountId, deleteSessionByToken, insertSession, logAccount } from "../../db/sessions";
import type { AccountRow } from "../../db/sign-in";
import { ApiError, type RefusedAccount } from "../../errors";
import { readSessionToken, requireCookies, sessionCookie } from "../../http/cookies";
import { refuseCrossSite } from "../../http/cross-site";
import type { Context } from "../../http/endpoint";

export const ACCOUNT_TAG = "Account";
/**
 * The access rule of endpoints about the caller's own account: they require a session and no role.
 */
export const OWN_ACCOUNT = "Affects the account of the session only.";

export type SignInContext = Pick<
	Context<string, undefined, undefined, undefined, readonly []>,
	"deps" | "request" | "origin" | "nowMs" | "actor"
>;

export function sessionOf(principal: Principal): SessionPrincipal {
	if (principal.kind !== "session") throw invalidSession();
	return principal;
}

const USER_AGENT_LENGTH = 256;

/** The user agent of the request, unverified; helps people recognize their sessions. */
function userAgentOf(request: Request): string | null {
	const text = request.headers.get("user-agent")?.slice(0, USER_AGENT_LENGTH) ?? "";
	return text === "" ? null : text.toWellFormed();
}

/** The origin of a request, for the activity log of an account. */
export function accountOrigin({ request, actor }: Pick<SignInContext, "request" | "actor">) {
	return { requestId: actor.requestId, ipAddress: actor.ipAddress, userAgent: userAgentOf(request) };
}

/** @throws {ApiError} `cross_site_request`, `https_required` */
export function requireOwnPage({ request, origin }: Pick<SignInContext, "request" | "origin">): void {
	requireCookies(origin);
	refuseCrossSite(request, origin);
}

/** The hash of the browser's session token, valid or not. */
export function currentTokenHash({ request, origin }: Pick<SignInContext, "request" | "origin">): string | undefined {
	const token = readSessionToken(request.headers, origin);
	return token !== undefined && isWellFormedSessionToken(token) ? hashKey(token) : undefined;
}

/**
 * The cookie and the statements of a new session, for the batch that deletes the used proof. The
 * statements apply if the condition holds.
 */
export function newSession(
	context: SignInContext,
	userId: AccountId,
	method: string,
	details: AccountEvent["details"] = {},
	condition: RawBuilder<boolean> = sql<boolean>`true`,
): { readonly statements: CompiledQuery[]; readonly cookie: string; readonly tokenHash: string } {
	const { deps, origin, nowMs } = context;
	const token = mintSessionToken(deps.randomBytes);
	const current = currentTokenHash(context);
	const from = accountOrigin(context);
	return {
		statements: [
			insertSession(
				{
					id: deps.newId(),
					user_id: userId,
					token_hash: token.hash,
					method,
					user_agent: from.userAgent,
					ip_address: from.ipAddress,
					created_at_ms: nowMs,
					last_seen_at_ms: nowMs,
					expires_at_ms: nowMs + SESSION_LIFETIME_MS,
				},
				condition,
			),
			logAccount({ userId, action: "sign_in", details: { method, ...details } }, from, nowMs, condition),
			// Last, because the condition may require this session.
			...(current === undefined ? [] : [deleteSessionByToken(current, condition)]),
		],
		cookie: sessionCookie(origin, token.text, SESSION_LIFETIME_MS),
		tokenHash: token.hash,
	};
}

/**
 * The sign-in methods of this deployment. Every account can use mailed codes; the other methods
 * must be added to an account.
 */
export function waysIn({ deps: { config }, origin }: Pick<SignInContext, "deps" | "origin">) {
	return {
		code: config.mail !== undefined,
		// WebAuthn requires a domain name as its relying party id.
		passkeys: !/^(\[|[\d.]+$)/.test(new URL(origin).hostname),
		providers: config.providers.map(({ identity }) => identity),
	};
}

/** A guard for the removal of a way to sign in that may be the last one. */
export function leavesAWayIn(
	context: Pick<SignInContext, "deps" | "origin">,
	userId: string,
	gone: WayOut,
): CompiledQuery[] {
	const ways = waysIn(context);
	const isWayIn = "passkey" in gone ? ways.passkeys : ways.providers.some((id) => id === gone.provider);
	if (ways.code || !isWayIn) return [];
	return [guard(hasAnotherWayIn(userId, ways, gone), lastWayIn)];
}

function lastWayIn(): ApiError {
	return new ApiError(
		"last_sign_in_method",
		"This is your last way to sign in. Add a passkey or sign in with another provider first.",
	);
}

/**
 * The same error for a proof that is wrong, used, expired, or of no account, so that it reveals
 * nothing.
 */
export function signInFailed(account?: RefusedAccount): ApiError {
	return new ApiError(
		"sign_in_failed",
		"This link, code or passkey is invalid, has expired or was already used. Request a new one.",
		account === undefined ? {} : { account },
	);
}

export const signedIn = ({ id, email }: AccountRow) => ({ status: "ok" as const, uid: id, email });
