/**
 * Limits on requests without a key, by address (IPv6: by /64), before they cost D1, the Queue or memory. The counters are per isolate. The
 * two most expensive limits are also counted by the platform for all isolates of a data center, which is asked only after an address used a
 * tenth of the limit here, so ordinary devices do not wait for it. A refusal of the platform is cached.
 *
 * Known devices have the widest limit, because their checks are answered from memory. Device ids that are new to this isolate have a narrow
 * one, which an office of 500 devices does not reach. `ADDRESS_LIMIT_SCALE` multiplies every limit; 0 disables them.
 */
import type { Database } from "../db/batch";
import type { Deps, RequestLimit } from "../deps";
import { dayOf } from "../domain/days";
import { recentMap } from "../domain/recent";
import type { DeviceEvent } from "../messages";
import { addressKey, isWithinLimit, tooManyFailures, tooManyRequests } from "./request-limits";

const MINUTE_MS = 60_000;
const REQUEST_WINDOW_MS = 10_000;
/** Requests of one address in ten seconds, of any kind. */
const MOST_REQUESTS = 30_000;
/** New device ids of one address, per app and minute; wrangler.toml repeats the number. */
const MOST_NEW_DEVICES = 3_000;
/**
 * New device ids per app and day. Beyond it checks are answered, but no new device of the address is stored, so one address cannot use up
 * the app's daily limit.
 */
const MOST_NEW_DEVICES_A_DAY = 10_000;
/** Addresses, by app, whose devices of the day are counted; about 150 bytes each. */
const MOST_DAY_COUNTERS = 10_000;
/** Reads of D1 by one address per minute; wrangler.toml repeats the number. */
const MOST_QUESTIONS = 120;
/** Installs, downloads and failures that one address reports, per app and minute. */
const MOST_REPORTS = 20_000;
/** Fraction of a limit after which the platform's counter is asked. */
const LOCAL_SHARE = 0.1;
/** Counted addresses, alone and by app; about 150 bytes each. All counters restart above this number. */
const MOST_COUNTERS = 20_000;
/** Cache lifetime of a refusal by the platform. */
const REFUSED_MS = 5_000;
/** Unknown keys that are still looked up for an address with too many failures, because one may be valid. */
const MOST_LOOK_UPS = 40;
/** Hashes of keys and sessions that were valid recently. */
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

/** One per isolate. */
export function createStrangerLimits(deps: Deps) {
	const scale = deps.config.addressLimitScale;
	/** By address, by network, and by a prefix with the network. */
	const counters = new Map<string, Counter>();
	let minute = -1;
	/** Credentials that were valid here recently; false: the last request exceeded their own limit. */
	const good = recentMap<boolean>(MOST_GOOD);
	/** By app and network. */
	const devicesOfDay = recentMap<{ readonly day: number; readonly devices: number }>(MOST_DAY_COUNTERS);

	/** The last day on which an address had more new devices than are stored. */
	let crowdedDay = -1;

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
			// The platform's limit is constant, so a larger limit is split into several counters.
			const key = scale <= 1 ? counter.key : `${counter.key} ${count % Math.ceil(scale)}`;
			if (await isWithinLimit(deps, limit.limiter, key)) return;
			counter.refusedUntilMs = nowMs + REFUSED_MS;
		}
		throw tooManyRequests(what, limit.periodSeconds);
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

		/** How many of these reports are counted. */
		takeReports(address: string | null, appId: string, reports: number, nowMs: number): number {
			if (scale === 0) return reports;
			const counter = counterBy(`${appId} ${counterOf(address, nowMs).key}`);
			const free = Math.max(0, MOST_REPORTS * scale - counter.reports);
			counter.reports += reports;
			return Math.min(free, reports);
		},

		/**
		 * Refuses an unknown key or session of an address with too many failed authentications, before D1 is read. A credential that was
		 * valid here is never refused for failures of its address.
		 * @throws {ApiError} `too_many_requests`
		 */
		admitCredential(address: string | null, hash: string, nowMs: number): void {
			if (scale === 0 || good.get(hash) !== undefined) return;
			const counter = failuresOf(address, nowMs);
			if (nowMs >= counter.refusedUntilMs) return;
			counter.questions += 1;
			if (counter.questions > MOST_LOOK_UPS) throw tooManyFailures(deps);
		},

		/** Records a valid key or session. */
		noteValid: (hash: string): void => good.set(hash, true),

		/** Records that a key or session exceeded its own limit. */
		noteLimited(hash: string): void {
			if (good.get(hash) !== undefined) good.set(hash, false);
		},

		/** Whether D1 may be read before the limit of the key or session is known. A refused caller thus reads at most once. */
		mayReadEarly: (hash: string): boolean => good.get(hash) === true,

		/** Records that the address has failed to authenticate too often. */
		noteFailing(address: string | null): void {
			const nowMs = deps.now();
			const counter = failuresOf(address, nowMs);
			if (nowMs < counter.refusedUntilMs) return;
			counter.refusedUntilMs = nowMs + REFUSED_MS;
			counter.questions = 0;
		},

		/**
		 * The database for a request without a key: each batch is counted by address first. `unlimited` is for work that is bounded
		 * otherwise, such as reading an app that is cached.
		 * @param kind the name of the shared counter
		 */
		database(db: Database, address: string | null, kind: string): Database {
			if (scale === 0) return db;
			const counterNow = () => counterBy(`${kind} ${counterOf(address, deps.now()).key}`);
			const admit = async () => {
				const counter = counterNow();
				counter.questions += 1;
				const limit = MOST_QUESTIONS * scale;
				if (counter.questions <= limit * LOCAL_SHARE) return;
				const what = "This address has requested too much that is not cached";
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
				async batch(statements, guards) {
					await admit();
					return db.batch(statements, guards);
				},
			};
		},
	};
}
