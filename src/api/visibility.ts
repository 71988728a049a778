/**
 * When a change is told to devices. The isolate that made it tells it at once; every other one believes its memory for a moment, and no
 * check asks the database whether that is right. A reader that never asks can be sure only when the writer waits, so a request may ask
 * for that: its answer then comes when no isolate can answer from before the change any more.
 */
import { STALE_MS } from "../db/snapshot-cache";
import { invalidRequest } from "../errors";
import type { AnyEndpoint, HeaderDescription } from "./endpoint";

export const WAIT_HEADER = "x-capstan-wait";
const WAITS = "visible";

/** For the declaration of an endpoint whose changes devices are told of. */
export const MAY_WAIT: Readonly<Record<string, HeaderDescription>> = {
	[WAIT_HEADER]: {
		description:
			"`visible`: the answer comes four seconds later, when every device's next check is answered with the change, wherever it is asked. Without it the isolate that took the request knows at once and all others within four seconds.",
		example: WAITS,
	},
};

/** @throws {ApiError} for another value: whoever sends the header counts on it */
export function wantsToWait(endpoint: Pick<AnyEndpoint, "headers">, headers: Headers): boolean {
	const wish = endpoint.headers?.[WAIT_HEADER] === undefined ? null : headers.get(WAIT_HEADER);
	if (wish === null || wish === WAITS) return wish === WAITS;
	throw invalidRequest([
		{ path: `headers.${WAIT_HEADER}`, message: `must be ${WAITS}, or left out`, received: wish.slice(0, 80) },
	]);
}

/** From then on nobody answers from what was read before. */
export const SEEN_EVERYWHERE_AFTER_MS = STALE_MS;
