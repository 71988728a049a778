/**
 * The public keys of issuers. They are stored in D1 for all isolates and fetched at most once a
 * minute and issuer, only for issuers that a publisher names, within limits of size and time.
 * During an outage of the issuer the last known keys stay valid for a day.
 */

import type { Database } from "../../db/client";
import { claimFetch, type IssuerKeysRow, issuerKeysOf, noteFailedFetch, storeIssuerKeys } from "../../db/publishers";
import type { Deps } from "../../deps";
import { addressProblem } from "../../domain/ci/issuer-url";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../domain/time";
import { ApiError, causeText } from "../../errors";
import { type IssuerKey, invalidIdentityToken, type UnverifiedToken } from "./identity-token";
import { readJson } from "./read-json";

/** After this time the keys are fetched again, so that a key that the issuer removed ends. */
const FRESH_MS = HOUR_MS;
/** Known keys of an issuer that does not answer are valid for this time. */
const OUTAGE_MS = DAY_MS;
const FETCH_INTERVAL_MS = MINUTE_MS;
/** For the configuration and the keys together. */
const TIME_LIMIT_MS = 5_000;
/** A claim without keys ends after this time: its isolate has ended. */
const CLAIM_LIFETIME_MS = 2 * TIME_LIMIT_MS;
const MOST_KEYS = 32;
/** Base64url characters of an RSA modulus of 2,048 to 8,192 bits. */
const MODULUS = /^[\w-]{340,1370}$/;
const RETRY_AFTER_SECONDS = 5;
/** How long and how often a request looks for keys that another one fetches. */
const LOOK_AGAIN_MS = 500;
const MOST_LOOKS = 10;
/**
 * Keys in memory, so that a signature is verified before D1 is asked. Much shorter than `FRESH_MS`.
 */
const CACHED_MS = 5 * MINUTE_MS;
const MOST_CACHED = 100;

type Context = { readonly db: Database; readonly deps: Deps; readonly nowMs: number };

interface CachedKeys {
	readonly keys: readonly IssuerKey[];
	readonly untilMs: number;
}

/** One for each isolate. */
const CACHES = new WeakMap<Deps, Map<string, CachedKeys>>();

function cacheOf(deps: Deps): Map<string, CachedKeys> {
	const cache = CACHES.get(deps) ?? new Map<string, CachedKeys>();
	CACHES.set(deps, cache);
	return cache;
}

function cacheKeys({ deps, nowMs }: Context, issuer: string, keys: readonly IssuerKey[], fetchedAtMs: number): void {
	const cache = cacheOf(deps);
	cache.delete(issuer);
	cache.set(issuer, { keys, untilMs: Math.min(nowMs + CACHED_MS, fetchedAtMs + FRESH_MS) });
	const [oldest] = cache.keys();
	if (cache.size > MOST_CACHED && oldest !== undefined) cache.delete(oldest);
}

/** The key that the token names, if this isolate has it in memory. */
export function cachedIssuerKey(deps: Deps, { issuer, kid }: UnverifiedToken, nowMs: number): IssuerKey | undefined {
	const cached = cacheOf(deps).get(issuer);
	return cached === undefined || cached.untilMs <= nowMs ? undefined : keyNamed(cached.keys, kid);
}

/**
 * The key that the token names.
 * @param row as loaded with the candidates; undefined: never fetched
 * @throws {ApiError} `invalid_identity_token` for an unknown key, `issuer_unavailable` if the keys
 * cannot be known now
 */
export async function issuerKey(
	context: Context,
	{ issuer, kid }: UnverifiedToken,
	row: IssuerKeysRow | undefined,
): Promise<IssuerKey> {
	const { nowMs } = context;
	const known = row?.keys == null ? undefined : keyNamed(JSON.parse(row.keys), kid);
	const ageMs = nowMs - (row?.fetched_at_ms ?? Number.NEGATIVE_INFINITY);
	if (known !== undefined && ageMs < FRESH_MS) {
		cacheKeys(context, issuer, JSON.parse(row?.keys ?? "[]"), nowMs - ageMs);
		return known;
	}
	const attemptedAgoMs = nowMs - (row?.attempted_at_ms ?? Number.NEGATIVE_INFINITY);
	const mayFetch = attemptedAgoMs >= FETCH_INTERVAL_MS;
	const isFetching = !mayFetch && FETCH_INTERVAL_MS - attemptedAgoMs <= CLAIM_LIFETIME_MS;
	const own = mayFetch ? await fetchOnce(context, issuer) : undefined;
	const fetched = own === BUSY || (isFetching && known === undefined) ? await keysOfOther(context, issuer) : own;
	if (fetched !== undefined) {
		cacheKeys(context, issuer, fetched, nowMs);
		const current = keyNamed(fetched, kid);
		if (current === undefined) throw invalidIdentityToken();
		return current;
	}
	if (known !== undefined && ageMs < OUTAGE_MS) return known;
	// Keys were fetched within this minute, and this one was not among them.
	if (!mayFetch && ageMs <= attemptedAgoMs) throw invalidIdentityToken();
	const retryAfterSeconds = retryAfterOf(mayFetch ? 0 : attemptedAgoMs);
	throw new ApiError(
		"issuer_unavailable",
		"The keys of the token's issuer are not known yet, because the issuer does not answer or another request is fetching them; try again after the seconds in Retry-After.",
		{
			headers: { "Retry-After": String(retryAfterSeconds) },
			moreInfo: { retryAfterSeconds },
		},
	);
}

/**
 * Seconds until the keys may be fetched again; while another request fetches them, they are known
 * soon.
 */
function retryAfterOf(attemptedAgoMs: number): number {
	const waitMs = FETCH_INTERVAL_MS - attemptedAgoMs;
	return waitMs <= CLAIM_LIFETIME_MS ? RETRY_AFTER_SECONDS : Math.ceil(waitMs / 1000);
}

const keyNamed = (keys: readonly IssuerKey[], kid: string) => keys.find((key) => key.kid === kid);

const BUSY = "another request fetches";

/**
 * The keys that another request is fetching, as soon as they are stored. Jobs start together, and
 * their scripts do not repeat.
 */
async function keysOfOther({ db, deps, nowMs }: Context, issuer: string): Promise<IssuerKey[] | undefined> {
	for (let look = 0; look < MOST_LOOKS; look++) {
		await deps.delay(LOOK_AGAIN_MS);
		const [{ rows }] = await (db.unlimited ?? db).batch([issuerKeysOf(issuer)]);
		const [row] = rows;
		if (row?.keys != null && nowMs - (row.fetched_at_ms ?? 0) < FETCH_INTERVAL_MS) return JSON.parse(row.keys);
	}
	return undefined;
}

/** Undefined: the issuer does not answer. */
async function fetchOnce({ db, deps, nowMs }: Context, issuer: string): Promise<IssuerKey[] | typeof BUSY | undefined> {
	// Counts as an attempt that was long ago, so that it lapses if this isolate ends before the keys
	// are stored.
	const claim = claimFetch(issuer, nowMs - FETCH_INTERVAL_MS + CLAIM_LIFETIME_MS, nowMs - FETCH_INTERVAL_MS);
	const [{ rows }] = await db.batch([claim]);
	if (rows.length === 0) return BUSY;
	try {
		const keys = await fetchKeys(deps, issuer);
		await db.batch([storeIssuerKeys(issuer, JSON.stringify(keys), nowMs)]);
		return keys;
	} catch (error) {
		deps.log("warn", "issuer_keys_not_fetched", { issuer, cause: causeText(error) });
		await db.batch([noteFailedFetch(issuer, nowMs)]);
		return undefined;
	}
}

/** @throws {Error} with the reason, for the log */
async function fetchKeys(deps: Deps, issuer: string): Promise<IssuerKey[]> {
	const signal = AbortSignal.timeout(TIME_LIMIT_MS);
	const configuration = await fetchJson(deps, `${issuer}/.well-known/openid-configuration`, signal);
	if (configuration.issuer !== issuer) throw new Error("the configuration is of another issuer");
	if (typeof configuration.jwks_uri !== "string") throw new Error("the configuration has no jwks_uri");
	const { keys } = await fetchJson(deps, configuration.jwks_uri, signal);
	if (!Array.isArray(keys)) throw new Error("the key set has no keys");
	return keys
		.filter(isUsable)
		.slice(0, MOST_KEYS)
		.map(({ kid, n, e }) => ({ kid, n, e }));
}

function isUsable(value: unknown): value is IssuerKey {
	if (typeof value !== "object" || value === null) return false;
	const { kty, kid, n, e, alg = "RS256", use = "sig" } = value as Record<string, unknown>;
	if (kty !== "RSA" || alg !== "RS256" || use !== "sig" || typeof kid !== "string" || kid.length > 256) return false;
	return typeof n === "string" && MODULUS.test(n) && typeof e === "string" && /^[\w-]{2,8}$/.test(e);
}

async function fetchJson(deps: Deps, url: string, signal: AbortSignal): Promise<Record<string, unknown>> {
	const problem = addressProblem(url, deps.localFetch !== undefined);
	if (problem !== undefined) throw new Error(`${url} ${problem}`);
	const isLocal = addressProblem(url, false) !== undefined;
	const send = isLocal && deps.localFetch !== undefined ? deps.localFetch : deps.fetch;
	// A redirect could lead to a private address.
	const response = await send(url, { headers: { accept: "application/json" }, redirect: "manual", signal });
	if (response.status !== 200 || response.body === null) {
		await response.body?.cancel();
		throw new Error(`${url} answered ${response.status}`);
	}
	return readJson(response.body, url);
}
