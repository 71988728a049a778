/**
 * Limits on requests without a key, by address (IPv6: by /64), before they cost D1, the Queue or
 * memory. The counters are per isolate. The two most expensive limits are also counted by the
 * platform for all isolates of a data center, which is asked only after an address used a tenth of
 * the limit here, so ordinary devices do not wait for it. A refusal of the platform is cached.
 *
 * Known devices have the widest limit, because their checks are answered from memory. Device ids
 * that are new to this isolate have a narrow one, which an office of 500 devices does not reach.
 * `ADDRESS_LIMIT_SCALE` multiplies every limit; 0 disables them.
 */
import type { Database } from "../../db/batch";
import type { Deps, RequestLimit } from "../../deps";
import { recentMap } from "../../domain/recent";
import { dayOf } from "../../domain/statistics/days";
import { MINUTE_MS } from "../../domain/time";
import type { DeviceEvent } from "../../messages";
import { type Counter, createAddressCounters, REFUSED_MS } from "./addresses";
import { createCredentialLimits } from "./credentials";
import { paced } from "./pacing";
import { isWithinLimit, tooManyRequests } from "./requests";

export const REQUEST_WINDOW_MS = 10_000;
/** Requests of one address in ten seconds, of any kind. */
export const MOST_REQUESTS = 30_000;
/** New device ids of one address, per app and minute; wrangler.toml repeats the number. */
export const MOST_NEW_DEVICES = 3_000;
/**
 * New device ids per app and day. Beyond it checks are answered, but no new device of the address
 * is stored, so one address cannot use up the app's daily limit.
 */
const MOST_NEW_DEVICES_A_DAY = 10_000;
/** Addresses, by app, whose devices of the day are counted; about 150 bytes each. */
const MOST_DAY_COUNTERS = 10_000;
/** Reads of D1 by one address per minute; wrangler.toml repeats the number. */
export const MOST_D1_READS = 120;
/** Installs, downloads and failures that one address reports, per app and minute. */
const MOST_REPORTS = 20_000;
/** Answers above this size are large: nearly none, except manifests of many files. */
const LARGE_ANSWER = 64 * 1024;
/** Large answers of one address in a second: 40 devices of an office with 500 files each. */
export const ANSWER_BYTES_A_SECOND = 8 * 1024 * 1024;
/** Fraction of a limit after which the platform's counter is asked. */
const LOCAL_SHARE = 0.1;

export type CallerLimits = ReturnType<typeof createCallerLimits>;

/** One per isolate. */
export function createCallerLimits(deps: Deps) {
	const scale = deps.config.addressLimitScale;
	const counters = createAddressCounters();
	const { counterOf, counterBy, counterFor } = counters;
	/** By app and network. */
	const devicesOfDay = recentMap<{ readonly day: number; readonly devices: number }>(MOST_DAY_COUNTERS);

	/** The last day on which an address had more new devices than are stored. */
	let crowdedDay = -1;

	function devicesToday(key: string, nowMs: number): number {
		const counted = devicesOfDay.get(key);
		return counted?.day === dayOf(nowMs) ? counted.devices : 0;
	}

	/** @throws {ApiError} `too_many_requests` */
	async function askPlatform(limit: RequestLimit, counter: Counter, count: number, what: string): Promise<void> {
		const nowMs = deps.now();
		if (nowMs >= counter.refusedUntilMs) {
			// The platform's limit is constant, so a larger limit is split into several counters.
			const key = scale <= 1 ? counter.key : `${counter.key} ${count % Math.ceil(scale)}`;
			if (await isWithinLimit(deps, limit.limiter, key)) return;
			counter.refusedUntilMs = nowMs + REFUSED_MS;
		}
		throw tooManyRequests(what, limit.periodSeconds);
	}

	function limited(db: Database, counterNow: () => Counter, what: string): Database {
		if (scale === 0) return db;
		const admit = async () => {
			const counter = counterNow();
			counter.d1Reads += 1;
			const limit = MOST_D1_READS * scale;
			if (counter.d1Reads <= limit * LOCAL_SHARE) return;
			if (counter.d1Reads > limit) throw tooManyRequests(what, MINUTE_MS / 1_000);
			await askPlatform(deps.requestLimits.d1Reads, counter, counter.d1Reads, what);
		};
		return {
			get trips() {
				return db.trips;
			},
			unlimited: db,
			refund() {
				counterNow().d1Reads -= 1;
			},
			async batch(statements, guards) {
				await admit();
				return db.batch(statements, guards);
			},
		};
	}

	return {
		/** Counts a request; false when the address exceeds its limit. */
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

		/** The error for a request that `takeRequest` refused. */
		tooMany: () => tooManyRequests("This address has sent too many requests", REQUEST_WINDOW_MS / 1_000),

		/**
		 * Counts device ids that are new to this isolate, before anything is stored.
		 * @returns undefined when the platform need not be asked
		 * @throws {ApiError} `too_many_requests`, by the promise
		 */
		admitNewDevices(address: string | null, appId: string, devices: number, nowMs: number): Promise<void> | undefined {
			if (scale === 0 || devices === 0) return undefined;
			const counter = counterBy(`${appId} ${counterOf(address, nowMs).key}`);
			counter.newDevices += devices;
			const today = devicesToday(counter.key, nowMs) + devices;
			devicesOfDay.set(counter.key, { day: dayOf(nowMs), devices: today });
			if (today > MOST_NEW_DEVICES_A_DAY * scale) crowdedDay = dayOf(nowMs);
			const limit = MOST_NEW_DEVICES * scale;
			if (counter.newDevices <= limit * LOCAL_SHARE) return undefined;
			const what = "This address has sent too many new device ids";
			if (counter.newDevices > limit) return Promise.reject(tooManyRequests(what, MINUTE_MS / 1_000));
			return askPlatform(deps.requestLimits.newDevices, counter, counter.newDevices, what);
		},

		/** Marks the events of an address whose new devices of today are no longer stored. */
		markCrowded(events: readonly DeviceEvent[], address: string | null, nowMs: number): readonly DeviceEvent[] {
			if (crowdedDay !== dayOf(nowMs)) return events;
			const { key } = counterOf(address, nowMs);
			const isCrowded = ({ appId }: { readonly appId: string }) =>
				devicesToday(`${appId} ${key}`, nowMs) > MOST_NEW_DEVICES_A_DAY * scale;
			return events.map((event) =>
				(event.type === "seen" || event.type === "count") && isCrowded(event) ? { ...event, crowded: true } : event,
			);
		},

		/**
		 * Spreads the large answers of an address over time, because a request of some bytes may be
		 * answered with megabytes.
		 * @returns undefined when the answer need not wait
		 * @throws {ApiError} `too_many_requests`, by the promise
		 */
		paceAnswer(address: string | null, length: number, nowMs: number): Promise<void> | undefined {
			if (scale === 0 || length <= LARGE_ANSWER) return undefined;
			const counter = counterBy(`answers ${counterOf(address, nowMs).key}`);
			const what = "This address has asked for too many large answers";
			return paced(deps, counter, { bytes: length, bytesASecond: ANSWER_BYTES_A_SECOND * scale, what }, nowMs);
		},

		/** How many of these reports are counted. */
		takeReports(address: string | null, appId: string, reports: number, nowMs: number): number {
			if (scale === 0) return reports;
			const counter = counterBy(`${appId} ${counterOf(address, nowMs).key}`);
			const free = Math.max(0, MOST_REPORTS * scale - counter.reports);
			counter.reports += reports;
			return Math.min(free, reports);
		},

		...createCredentialLimits(deps, counters),

		/**
		 * The database for a request without a key: each batch is counted by address first. `unlimited` is
		 * for work that is bounded otherwise, such as reading an app that is cached.
		 * @param kind the name of the shared counter
		 */
		database(db: Database, address: string | null, kind: string): Database {
			const counterNow = () => counterBy(`${kind} ${counterOf(address, deps.now()).key}`);
			return limited(db, counterNow, "This address has requested too much that is not cached");
		},

		/**
		 * The same for a request that has proven where it comes from: counted by that, because many share
		 * an address.
		 */
		provenDatabase(db: Database, source: string, kind: string): Database {
			const counterNow = () => counterFor(`${kind} of ${source}`, deps.now());
			return limited(db, counterNow, `${source} has requested too much that is not cached`);
		},
	};
}
