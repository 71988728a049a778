/**
 * Limits on requests without a key, counted by address (of IPv6, by /64) before they cost D1, the Queue or memory. The counters are of this
 * isolate; the two limits on what costs most are also counted by the platform for all isolates of a data center, and asked only when an
 * address has used a tenth of a limit here, so ordinary devices wait for no limiter. A refusal of the platform is cached.
 *
 * Known devices have the widest limit, because their checks are answered from memory; device ids that this isolate has not seen have a
 * narrow one, which an office of 500 devices does not reach. `ADDRESS_LIMIT_SCALE` multiplies every limit; 0 switches them off.
 */
import type { Database } from "../db/client";
import type { Deps, RequestLimit } from "../deps";
import { recentMap } from "../domain/recent";
import { dayOf } from "../events/days";
import type { DeviceEvent } from "../events/messages";
import { addressKey, isWithinLimit, tooManyFailures, tooManyRequests } from "./request-limits";

const MINUTE_MS = 60_000;
const REQUEST_WINDOW_MS = 10_000;
/** Requests of one address in ten seconds, of whatever kind. */
const MOST_REQUESTS = 30_000;
/** Device ids that one address shows this isolate for the first time, by app and minute; wrangler.toml has the same number. */
const MOST_NEW_DEVICES = 3_000;
/**
 * The same by app and day. Beyond it checks are answered as before, but no new device of the address is stored: an address alone does not
 * use up what an app may add in a day.
 */
const MOST_NEW_DEVICES_A_DAY = 10_000;
/** Addresses by app whose devices of the day are counted; about 150 bytes each. */
const MOST_DAY_COUNTERS = 10_000;
/** Questions to D1 that requests of one address cause, by minute; wrangler.toml has the same number. */
const MOST_QUESTIONS = 120;
/** Installs, downloads and failures that one address reports, by app and minute. */
const MOST_REPORTS = 20_000;
/** The part of a limit that an address may use before the platform's counter is asked. */
const LOCAL_SHARE = 0.1;
/** Addresses, and addresses by app, that are counted; about 150 bytes each. The counters start again when there are more. */
const MOST_COUNTERS = 20_000;
/** A refusal of the platform's counter is believed for so long. */
const REFUSED_MS = 5_000;
/** Unknown keys of an address with too many failures that are still looked up in that time: one of them may be good. */
const MOST_LOOK_UPS = 40;
/** Hashes of keys and sessions that were good lately. */
const MOST_GOOD = 5_000;

interface Counter {
	readonly key: string;
	requests: number;
	requestWindow: number;
	questions: number;
	newDevices: number;
	reports: number;
	refusedUntilMs: number;
}

export type StrangerLimits = ReturnType<typeof createStrangerLimits>;

/** One for each isolate. */
export function createStrangerLimits(deps: Deps) {
	const scale = deps.config.addressLimitScale;
	/** By the address as it is written, by its network, and by a prefix and the network. */
	const counters = new Map<string, Counter>();
	let minute = -1;
	const good = recentMap<true>(MOST_GOOD);
	/** By app and network. */
	const devicesOfDay = recentMap<{ readonly day: number; readonly devices: number }>(MOST_DAY_COUNTERS);

	function devicesToday(key: string, nowMs: number): number {
		const counted = devicesOfDay.get(key);
		return counted?.day === dayOf(nowMs) ? counted.devices : 0;
	}

	const failuresOf = (address: string | null, nowMs: number) => counterBy(`keys ${counterOf(address, nowMs).key}`);

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
			...{ key, requests: 0, requestWindow: 0, questions: 0, newDevices: 0, reports: 0 },
			refusedUntilMs: Number.NEGATIVE_INFINITY,
		};
		if (counters.size >= MOST_COUNTERS) counters.clear();
		counters.set(key, counter);
		return counter;
	}

	function startWindow(nowMs: number): void {
		const current = Math.floor(nowMs / MINUTE_MS);
		if (current === minute) return;
		minute = current;
		counters.clear();
	}

	/** @throws {ApiError} `too_many_requests` */
	async function askPlatform(limit: RequestLimit, counter: Counter, count: number, what: string): Promise<void> {
		const nowMs = deps.now();
		if (nowMs >= counter.refusedUntilMs) {
			// The platform's limit is a constant; a larger one is so many counters of its size.
			const key = scale <= 1 ? counter.key : `${counter.key} ${count % Math.ceil(scale)}`;
			if (await isWithinLimit(deps, limit.limiter, key)) return;
			counter.refusedUntilMs = nowMs + REFUSED_MS;
		}
		throw tooManyRequests(what, limit.periodSeconds);
	}

	return {
		/** Counts a request; false when the address has sent too many. */
		takeRequest(address: string | null, nowMs: number): boolean {
			if (scale === 0) return true;
			const counter = counterOf(address, nowMs);
			const window = Math.floor(nowMs / REQUEST_WINDOW_MS);
			if (counter.requestWindow !== window) {
				counter.requestWindow = window;
				counter.requests = 0;
			}
			counter.requests += 1;
			return counter.requests <= MOST_REQUESTS * scale;
		},

		/** The answer to a request that `takeRequest` refused. */
		tooMany: () => tooManyRequests("This address has sent too many requests", REQUEST_WINDOW_MS / 1_000),

		/**
		 * Counts device ids that this isolate sees for the first time, before anything is kept of them.
		 * @returns undefined when no limiter had to be asked
		 * @throws {ApiError} `too_many_requests`, by the promise
		 */
		admitNewDevices(address: string | null, appId: string, devices: number, nowMs: number): Promise<void> | undefined {
			if (scale === 0 || devices === 0) return undefined;
			const counter = counterBy(`${appId} ${counterOf(address, nowMs).key}`);
			counter.newDevices += devices;
			devicesOfDay.set(counter.key, { day: dayOf(nowMs), devices: devicesToday(counter.key, nowMs) + devices });
			const limit = MOST_NEW_DEVICES * scale;
			if (counter.newDevices <= limit * LOCAL_SHARE) return undefined;
			const what = "This address has sent too many device ids that were never seen";
			if (counter.newDevices > limit) return Promise.reject(tooManyRequests(what, MINUTE_MS / 1_000));
			return askPlatform(deps.requestLimits.newDevices, counter, counter.newDevices, what);
		},

		/** The events of a request, marked where its address has shown so many device ids today that no more are stored. */
		markCrowded(events: readonly DeviceEvent[], address: string | null, nowMs: number): readonly DeviceEvent[] {
			if (scale === 0) return events;
			const { key } = counterOf(address, nowMs);
			const isCrowded = ({ appId }: { readonly appId: string }) =>
				devicesToday(`${appId} ${key}`, nowMs) > MOST_NEW_DEVICES_A_DAY * scale;
			return events.map((event) => (event.type === "seen" && isCrowded(event) ? { ...event, crowded: true } : event));
		},

		/** How many of the reports that the address sends now are counted. */
		takeReports(address: string | null, appId: string, reports: number, nowMs: number): number {
			if (scale === 0) return reports;
			const counter = counterBy(`${appId} ${counterOf(address, nowMs).key}`);
			const free = Math.max(0, MOST_REPORTS * scale - counter.reports);
			counter.reports += reports;
			return Math.min(free, reports);
		},

		/**
		 * Refuses an unknown key or session of an address with too many failed authentications, before D1 is asked. One that was good
		 * here is never refused for what others do from its address.
		 * @throws {ApiError} `too_many_requests`
		 */
		admitCredential(address: string | null, hash: string, nowMs: number): void {
			if (scale === 0 || good.get(hash) === true) return;
			const counter = failuresOf(address, nowMs);
			if (nowMs >= counter.refusedUntilMs) return;
			counter.questions += 1;
			if (counter.questions > MOST_LOOK_UPS) throw tooManyFailures(deps);
		},

		/** The key or session is good. */
		noteGood: (hash: string): void => good.set(hash, true),

		/** The address has failed to authenticate too often. */
		noteFailing(address: string | null): void {
			const nowMs = deps.now();
			const counter = failuresOf(address, nowMs);
			if (nowMs < counter.refusedUntilMs) return;
			counter.refusedUntilMs = nowMs + REFUSED_MS;
			counter.questions = 0;
		},

		/**
		 * The database for a request without a key: each batch is counted by address first. `unlimited` is for work that is bounded
		 * otherwise, such as looking at an app that is in memory already.
		 * @param kind what is counted together
		 */
		database(db: Database, address: string | null, kind: string): Database {
			if (scale === 0) return db;
			const counterNow = () => counterBy(`${kind} ${counterOf(address, deps.now()).key}`);
			const admit = async () => {
				const counter = counterNow();
				counter.questions += 1;
				const limit = MOST_QUESTIONS * scale;
				if (counter.questions <= limit * LOCAL_SHARE) return;
				const what = "This address has asked for too much that is not in memory";
				if (counter.questions > limit) throw tooManyRequests(what, MINUTE_MS / 1_000);
				await askPlatform(deps.requestLimits.questions, counter, counter.questions, what);
			};
			return {
				get trips() {
					return db.trips;
				},
				unlimited: db,
				refund() {
					counterNow().questions -= 1;
				},
				async batch(statements) {
					await admit();
					return db.batch(statements);
				},
			};
		},
	};
}
