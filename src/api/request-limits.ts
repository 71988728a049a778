/**
 * Limits on requests: so many failed authentications from one address (of IPv6, from
 * one network, because a host takes any address of its own), so many requests with one key. The counting is Cloudflare's
 * Rate Limiting binding, whose limits stand in wrangler.toml. A request with a key that this isolate knows to be good is never refused for what
 * others do from its address (src/api/stranger-limits.ts), and a limiter that does not answer refuses nobody.
 */
import { CODE_LIFETIME_MS } from "../db/sign-in";
import type { Deps, Limiter } from "../deps";
import { networkOf } from "../domain/ip-allow-list";
import { ApiError, causeText, type ErrorCode } from "../errors";
import type { Credential } from "./credentials";

/** Answers that tell whether a secret is good. A request without any is no attempt: stock clients probe without one. */
const FAILED_AUTHENTICATIONS: ReadonlySet<ErrorCode> = new Set([
	"invalid_api_key",
	"expired_api_key",
	"api_key_violates_policy",
	"ip_address_not_allowed",
	"invitation_not_found",
	// Ids in preview links can be guessed.
	"preview_not_found",
	"sign_in_failed",
]);

/** Counts a request with this key or session. @throws {ApiError} `too_many_requests` */
export async function countCallerRequest(deps: Deps, { kind, hash }: Credential): Promise<void> {
	const { limiter, periodSeconds } = deps.requestLimits.perKey;
	if (await isWithinLimit(deps, limiter, hash)) return;
	throw tooManyRequests(`This ${kind === "key" ? "API key" : "session"} has sent too many requests`, periodSeconds);
}

/** Counts a sign-in that this address begins. @throws {ApiError} `too_many_requests` */
export async function countSignIn(deps: Deps, ipAddress: string | null): Promise<void> {
	const { limiter, periodSeconds } = deps.requestLimits.signIns;
	if (await isWithinLimit(deps, limiter, addressKey(ipAddress))) return;
	throw tooManyRequests("This address has begun too many sign-ins", periodSeconds);
}

/** The same for every address, whether it has an account or not. */
export function tooManyCodes(): ApiError {
	return tooManyRequests("Too many codes were asked for to this address", CODE_LIFETIME_MS / 1000);
}

/** The error to answer with: the one that happened, or `too_many_requests` when this address has failed too often. */
export async function countFailure(deps: Deps, error: unknown, ipAddress: string | null): Promise<unknown> {
	if (!(error instanceof ApiError) || !FAILED_AUTHENTICATIONS.has(error.code)) return error;
	const { limiter } = deps.requestLimits.failedAuthentications;
	if (await isWithinLimit(deps, limiter, addressKey(ipAddress))) return error;
	return tooManyFailures(deps);
}

export function tooManyFailures({ requestLimits }: Deps): ApiError {
	const { periodSeconds } = requestLimits.failedAuthentications;
	return tooManyRequests("This address has failed to authenticate too often", periodSeconds);
}

/** What one customer of a network has at least. */
const CUSTOMER_BITS = { ipv4: 32, ipv6: 64 };
const LONGEST_ADDRESS = 64;

/** The key that counts the requests of an address. */
export const addressKey = (ipAddress: string | null) =>
	ipAddress === null ? "unknown" : (networkOf(ipAddress, CUSTOMER_BITS) ?? ipAddress.slice(0, LONGEST_ADDRESS));

export async function isWithinLimit(deps: Deps, limiter: Limiter, key: string): Promise<boolean> {
	try {
		return (await limiter.limit({ key })).success;
	} catch (error) {
		deps.log("warn", "rate_limiter_failed", { cause: causeText(error) });
		return true;
	}
}

export function tooManyRequests(what: string, periodSeconds: number): ApiError {
	return new ApiError("too_many_requests", `${what}; try again after the given seconds.`, {
		headers: { "Retry-After": String(periodSeconds) },
		moreInfo: { retryAfterSeconds: periodSeconds },
	});
}
