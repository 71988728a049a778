/**
 * Rules of deliveries: when a failed one is attempted again, and which addresses may receive any.
 * The delays are those of Standard Webhooks.
 */
import ipaddr from "ipaddr.js";
import { isPrivateHost } from "../network/public-host";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../time";

/** Delay after each failed attempt; after the last one the delivery has failed. */
export const RETRY_DELAYS_MS = [
	5_000,
	5 * MINUTE_MS,
	30 * MINUTE_MS,
	2 * HOUR_MS,
	5 * HOUR_MS,
	10 * HOUR_MS,
	14 * HOUR_MS,
	20 * HOUR_MS,
	24 * HOUR_MS,
] as const;

/** Attempts fail for so long before an endpoint is disabled. */
export const DISABLED_AFTER_MS = 5 * DAY_MS;

/** Longest `Retry-After` that is respected. */
const LONGEST_WAIT_MS = DAY_MS;
/**
 * Random share of a delay that is added to it, so that endpoints that failed together do not come
 * back together.
 */
const MOST_JITTER = 0.1;

/**
 * Delay until the next attempt, or undefined after the last one.
 * @param attempts attempts so far, this one included
 * @param random from 0 to 1
 */
export function retryDelayMs(attempts: number, random: number, retryAfterMs = 0): number | undefined {
	const delay = RETRY_DELAYS_MS[attempts - 1];
	if (delay === undefined) return undefined;
	return Math.max(Math.round(delay * (1 + MOST_JITTER * random)), Math.min(retryAfterMs, LONGEST_WAIT_MS));
}

/** The header as milliseconds: seconds, or a date. */
export function retryAfterMs(header: string | null, nowMs: number): number {
	if (header === null) return 0;
	const ms = /^\d+$/.test(header.trim()) ? Number(header) * 1000 : Date.parse(header) - nowMs;
	return Number.isFinite(ms) && ms > 0 ? ms : 0;
}

/**
 * The reason to refuse the address of an endpoint; undefined if it may receive events. Names are
 * not resolved: on Cloudflare, `fetch` reaches no private network, and a local run that serves a
 * network reaches public addresses only (src/operator/serve.ts).
 * @param isLocal http and private addresses are allowed: the service runs on a developer's machine,
 * for this machine alone
 */
export function webhookUrlProblem(text: string, isLocal: boolean): string | undefined {
	if (!URL.canParse(text)) return "must be an https address";
	const { protocol, username, password, hostname, hash } = new URL(text);
	if (username !== "" || password !== "") return "must not contain a user name or password";
	if (hash !== "") return "must not contain a fragment (#…)";
	if (isLocal) return /^https?:$/.test(protocol) ? undefined : "must be an http or https address";
	if (protocol !== "https:") return "must be an https address";
	if (ipaddr.isValid(hostname.replace(/^\[|\]$/g, ""))) return "must name its host, not an IP address";
	return isPrivateHost(hostname) ? "must be a public address" : undefined;
}
