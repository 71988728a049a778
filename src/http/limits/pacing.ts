/**
 * Spreads bytes over time: who sends or asks for many waits until the bytes before are through at a
 * fixed rate, so a burst costs others little and nothing is refused that comes at that rate.
 */
import type { Deps } from "../../deps";
import type { Counter } from "./addresses";
import { tooManyRequests } from "./requests";

/** Bytes that would wait longer are refused. */
const LONGEST_PAUSE_MS = 20_000;
const RETRY_SECONDS = 5;

interface Flow {
	readonly bytes: number;
	readonly bytesASecond: number;
	/** Begins the error of who sends faster for long. */
	readonly what: string;
}

/**
 * @returns undefined when these bytes need not wait
 * @throws {ApiError} `too_many_requests`, by the promise
 */
export function paced(
	{ delay }: Pick<Deps, "delay">,
	counter: Pick<Counter, "bytesThroughAtMs">,
	{ bytes, bytesASecond, what }: Flow,
	nowMs: number,
): Promise<void> | undefined {
	const startMs = Math.max(nowMs, counter.bytesThroughAtMs);
	if (startMs - nowMs > LONGEST_PAUSE_MS) return Promise.reject(tooManyRequests(what, RETRY_SECONDS));
	counter.bytesThroughAtMs = startMs + (bytes / bytesASecond) * 1_000;
	return startMs > nowMs ? delay(startMs - nowMs) : undefined;
}
