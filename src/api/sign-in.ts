/**
 * What every way of signing in ends with: a new session, with a token that was never seen before, in the place of whatever session the
 * browser had. And what they begin with: a request of our own page, to an address that can keep a cookie.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { hashKey, isWellFormedSessionToken, mintSessionToken } from "../authz/keys";
import { SESSION_LIFETIME_MS } from "../authz/session";
import { guard } from "../db/client";
import { hasAnotherWayIn, type WayOut } from "../db/identities";
import { type AccountEvent, type AccountId, deleteSessionByToken, insertSession, logAccount } from "../db/sessions";
import type { AccountRow } from "../db/sign-in";
import { ApiError, type RefusedAccount } from "../errors";
import { refuseCrossSite } from "./cross-site";
import type { Context } from "./endpoint";
import { readSessionToken, requireCookies, sessionCookie } from "./session-cookie";

export type SignInContext = Pick<
	Context<string, undefined, undefined, undefined, readonly []>,
	"deps" | "request" | "origin" | "nowMs" | "actor"
>;

const USER_AGENT_LENGTH = 256;

/** What the browser says it is; for its owner to tell sessions apart, and believed for nothing. */
export function userAgentOf(request: Request): string | null {
	const text = request.headers.get("user-agent")?.slice(0, USER_AGENT_LENGTH) ?? "";
	return text === "" ? null : text.toWellFormed();
}

/** From where something happens to an account. */
export function accountOrigin({ request, actor }: Pick<SignInContext, "request" | "actor">) {
	return { requestId: actor.requestId, ipAddress: actor.ipAddress, userAgent: userAgentOf(request) };
}

/** @throws {ApiError} `cross_site_request`, `https_required` */
export function requireOwnPage({ request, origin }: Pick<SignInContext, "request" | "origin">): void {
	requireCookies(origin);
	refuseCrossSite(request, origin);
}

/** The hash of the token of the session that the browser has, good or not. */
export function currentTokenHash({ request, origin }: Pick<SignInContext, "request" | "origin">): string | undefined {
	const token = readSessionToken(request.headers, origin);
	return token !== undefined && isWellFormedSessionToken(token) ? hashKey(token) : undefined;
}

/** The statements of a new session, for the batch that uses up what proved who it is, and its cookie. On the condition, if there is one. */
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
			// Last, because the condition may be that this very session is there.
			...(current === undefined ? [] : [deleteSessionByToken(current, condition)]),
		],
		cookie: sessionCookie(origin, token.text, SESSION_LIFETIME_MS),
		tokenHash: token.hash,
	};
}

/** How people sign in to this deployment: a code by mail is for every account, the rest for whoever has it. */
export function waysIn({ deps: { config }, origin }: Pick<SignInContext, "deps" | "origin">) {
	return {
		code: config.mail !== undefined,
		// Authenticators know hosts by name alone.
		passkeys: !/^(\[|[\d.]+$)/.test(new URL(origin).hostname),
		providers: config.providers.map(({ identity }) => identity),
	};
}

/** The guard `way_in_left`, where what goes is a way to sign in and may be the last: see `lastWayIn`. */
export function leavesAWayIn(
	context: Pick<SignInContext, "deps" | "origin">,
	userId: string,
	gone: WayOut,
): CompiledQuery[] {
	const ways = waysIn(context);
	const isWayIn = "passkey" in gone ? ways.passkeys : ways.providers.some((id) => id === gone.provider);
	if (ways.code || !isWayIn) return [];
	return [guard("way_in_left", hasAnotherWayIn(userId, ways, gone))];
}

export function lastWayIn(): ApiError {
	return new ApiError(
		"last_sign_in_method",
		"Nothing else would be left for you to sign in with; add a passkey or sign in with another provider first.",
	);
}

/** The same answer for a proof that is wrong, used, expired, or of no account. */
export function signInFailed(account?: RefusedAccount): ApiError {
	return new ApiError(
		"sign_in_failed",
		"This link, code or passkey is not valid: it is wrong, has expired or was already used. Request a new one.",
		account === undefined ? {} : { account },
	);
}

export const signedIn = ({ id, email }: AccountRow) => ({ status: "ok" as const, uid: id, email });
