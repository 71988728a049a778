/**
 * Counters of the last minute by address, by network and by app with network, for the limits on requests without a key. They are per isolate,
 * and their memory is bounded.
 */
import { MINUTE_MS } from "../domain/time";
import { addressKey } from "./request-limits";

/** Counted addresses, alone and by app; about 150 bytes each. All counters restart above this number. */
const MOST_COUNTERS = 20_000;

/** Cache lifetime of a refusal. */
export const REFUSED_MS = 5_000;

export interface Counter {
	readonly key: string;
	requests: number;
	requestWindow: number;
	questions: number;
	newDevices: number;
	reports: number;
	/** When the large answers so far are sent at the rate of an address, epoch milliseconds. */
	answersSentAtMs: number;
	/** Until then the platform's counter, which refused, is not asked again; of failed credentials, only a few are looked up. */
	refusedUntilMs: number;
}

export type AddressCounters = ReturnType<typeof createAddressCounters>;

export function createAddressCounters() {
	/** By address, by network, and by a prefix with the network. */
	const counters = new Map<string, Counter>();
	let minute = -1;

	function counterOf(address: string | null, nowMs: number): Counter {
		startWindow(nowMs);
		const text = address ?? "unknown";
		const known = counters.get(text);
		if (known !== undefined) return known;
		const key = addressKey(address);
		const counter = counterBy(key);
		if (key !== text) counters.set(text, counter);
		return counter;
	}

	function counterBy(key: string): Counter {
		const known = counters.get(key);
		if (known !== undefined) return known;
		const counter = {
			...{ key, requests: 0, requestWindow: 0, questions: 0, newDevices: 0, reports: 0, answersSentAtMs: 0 },
			refusedUntilMs: Number.NEGATIVE_INFINITY,
		};
		if (counters.size >= MOST_COUNTERS) counters.clear();
		counters.set(key, counter);
		return counter;
	}

	/** For a key that is no address. */
	function counterFor(key: string, nowMs: number): Counter {
		startWindow(nowMs);
		return counterBy(key);
	}

	function startWindow(nowMs: number): void {
		const current = Math.floor(nowMs / MINUTE_MS);
		if (current === minute) return;
		minute = current;
		counters.clear();
	}

	return { counterOf, counterBy, counterFor };
}
