/**
 * Counters of the last minute by address, by network and by app with network, for the limits on
 * requests without a key. They are per isolate, and their memory is bounded: those that were not
 * used for the longest time go first, so many addresses end no limit of one that goes on.
 */
import { recentMap } from "../../domain/recent";
import { MINUTE_MS } from "../../domain/time";
import { addressKey } from "./requests";

/** Counters by network, alone and by app, at least; about 150 bytes each. */
const LEAST_COUNTERS = 10_000;
/**
 * Addresses whose network is cached, apart from the counters, because a network of IPv6 has more
 * addresses than there are counters.
 */
const LEAST_ADDRESSES = 10_000;

/** Cache lifetime of a refusal. */
export const REFUSED_MS = 5_000;

export interface Counter {
	readonly key: string;
	requests: number;
	requestWindow: number;
	d1Reads: number;
	newDevices: number;
	reports: number;
	/**
	 * When the bytes so far are through at the rate of the counter (pacing.ts), epoch milliseconds.
	 */
	bytesThroughAtMs: number;
	/**
	 * Until then the platform's counter, which refused, is not asked again; of failed credentials,
	 * only a few are looked up.
	 */
	refusedUntilMs: number;
}

export type AddressCounters = ReturnType<typeof createAddressCounters>;

export function createAddressCounters() {
	/** By network, and by a prefix with the network. */
	let counters = recentMap<Counter>(LEAST_COUNTERS);
	const networks = recentMap<string>(LEAST_ADDRESSES);
	let minute = -1;

	function counterOf(address: string | null, nowMs: number): Counter {
		startWindow(nowMs);
		const text = address ?? "unknown";
		const known = networks.get(text);
		if (known !== undefined) return counterBy(known);
		const key = addressKey(address);
		networks.set(text, key);
		return counterBy(key);
	}

	function counterBy(key: string): Counter {
		const known = counters.get(key);
		if (known !== undefined) return known;
		const counter = {
			key,
			requests: 0,
			requestWindow: 0,
			d1Reads: 0,
			newDevices: 0,
			reports: 0,
			bytesThroughAtMs: 0,
			refusedUntilMs: Number.NEGATIVE_INFINITY,
		};
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
		counters = recentMap(LEAST_COUNTERS);
	}

	return { counterOf, counterBy, counterFor };
}
