/**
 * Read-your-writes for update checks. The isolate that made a change serves it immediately; others
 * serve their cache for up to STALE_MS. A request may wait for that time with the header
 * `x-capstan-wait: visible`: after its answer, no isolate serves the old state.
 */
import { invalidRequest } from "../../errors";
import { STALE_MS } from "../../snapshots/freshness";
import type { AnyEndpoint, HeaderDescription } from "../endpoint";

export const WAIT_HEADER = "x-capstan-wait";
const VISIBLE = "visible";

/** The `headers` of an endpoint whose changes devices see. */
export const MAY_WAIT: Readonly<Record<string, HeaderDescription>> = {
	[WAIT_HEADER]: {
		description: [
			"`visible`: the answer comes four seconds later, when every update check, at any location, is",
			"answered with the change.",
			"Without it, the change is visible in the isolate of the",
			"request immediately and everywhere within four seconds.",
		],
		example: VISIBLE,
	},
};

/** @throws {ApiError} for another value, because the caller relies on the header */
export function wantsToWait(endpoint: Pick<AnyEndpoint, "headers">, headers: Headers): boolean {
	const wish = endpoint.headers?.[WAIT_HEADER] === undefined ? null : headers.get(WAIT_HEADER);
	if (wish === null || wish === VISIBLE) return wish === VISIBLE;
	throw invalidRequest([
		{ path: `headers.${WAIT_HEADER}`, message: `must be ${VISIBLE}, or left out`, received: wish.slice(0, 80) },
	]);
}

/** After this time no isolate serves the old state. */
export const SEEN_EVERYWHERE_AFTER_MS = STALE_MS;
