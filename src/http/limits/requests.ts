/**
 * Limits by Cloudflare's Rate Limiting binding, with the numbers in wrangler.toml: failed
 * authentications by address (IPv6: by network, because a host can use any of its addresses),
 * requests by key, and requests of this server to addresses that callers choose. A key that this
 * isolate knows to be valid is never refused for failures of its address (credential-limits.ts),
 * and a limiter that fails refuses nothing.
 */
import type { Deps, Limiter } from "../../deps";
import { networkOf } from "../../domain/network/ip-allow-list";
import { ApiError, causeText, type ErrorCode } from "../../errors";
import type { Credential } from "../pipeline/credential-headers";

/**
 * Errors that reveal whether a secret is valid. `missing_api_key` is not one: stock clients probe
 * without a key.
 */
const FAILED_AUTHENTICATIONS: ReadonlySet<ErrorCode> = new Set([
	"invalid_api_key",
	"expired_api_key",
	"api_key_violates_policy",
	"ip_address_not_allowed",
	"invitation_not_found",
	// Guesses at ids in preview links.
	"preview_not_found",
	"sign_in_failed",
	"invalid_identity_token",
]);

/**
 * Counts a request with this key or session.
 * @throws {ApiError} `too_many_requests`
 */
export async function countCallerRequest(deps: Deps, { kind, hash }: Credential): Promise<void> {
	const { limiter, periodSeconds } = deps.requestLimits.perKey;
	if (await isWithinLimit(deps, limiter, hash)) return;
	throw tooManyRequests(`This ${kind === "key" ? "API key" : "session"} has sent too many requests`, periodSeconds);
}

/**
 * Counts a sign-in that this address begins.
 * @throws {ApiError} `too_many_requests`
 */
export async function countSignIn(deps: Deps, ipAddress: string | null): Promise<void> {
	const { limiter, periodSeconds } = deps.requestLimits.signIns;
	if (await isWithinLimit(deps, limiter, addressKey(ipAddress))) return;
	throw tooManyRequests("This address has begun too many sign-ins", periodSeconds);
}

/**
 * Counts a request of this server to an address that the caller chose.
 * @param key what the limit is for: the caller, or the webhook
 * @throws {ApiError} `too_many_requests`
 */
export async function countFetch(deps: Deps, key: string, what: string): Promise<void> {
	const { limiter, periodSeconds } = deps.requestLimits.fetches;
	if (await isWithinLimit(deps, limiter, key)) return;
	throw tooManyRequests(what, periodSeconds);
}

/**
 * Counts a failed authentication. Returns the given error, or `too_many_requests` when this address
 * has failed too often.
 */
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

/** The smallest IPv6 network that one customer gets. */
const CUSTOMER_BITS = { ipv4: 32, ipv6: 64 };
const LONGEST_ADDRESS = 64;

/** The counter key of an address. */
export const addressKey = (ipAddress: string | null) =>
	ipAddress === null ? "unknown" : (networkOf(ipAddress, CUSTOMER_BITS) ?? ipAddress.slice(0, LONGEST_ADDRESS));

/** One person may control many smaller networks. */
const NETWORK_BITS = { ipv4: 24, ipv6: 48 };

/** The network of an address, for bounds that an owner of many addresses must not multiply. */
export const networkKey = (ipAddress: string | null) =>
	ipAddress === null ? "unknown" : (networkOf(ipAddress, NETWORK_BITS) ?? ipAddress.slice(0, LONGEST_ADDRESS));

export async function isWithinLimit(deps: Deps, limiter: Limiter, key: string): Promise<boolean> {
	try {
		return (await limiter.limit({ key })).success;
	} catch (error) {
		deps.log("warn", "rate_limiter_failed", { cause: causeText(error) });
		return true;
	}
}

export function tooManyRequests(what: string, periodSeconds: number): ApiError {
	return new ApiError("too_many_requests", `${what}; try again after the seconds in Retry-After.`, {
		headers: { "Retry-After": String(periodSeconds) },
		moreInfo: { retryAfterSeconds: periodSeconds },
	});
}
