/**
 * Events of devices on their way to the Queue. Requests add events to the isolate's memory; later all of them are sent in as few messages as
 * possible, because each message costs: a second after an install, a failure or a rollout event; everything else when nothing else came for 20
 * seconds, after two minutes at the latest, or at once when a message is half full. Messages that cannot be sent are sent again a few times,
 * and then with the next events.
 *
 * Repeated reports are dropped: a device that reports what it reported before on the same day adds no event.
 *
 * Each app has its own buffer, and all buffers together are bounded by bytes. When they are full, the largest buffer loses its oldest
 * event, so an app that floods costs no other app an event. Lost events are counted in their app's statistics.
 */
import { chunk, utf8Length } from "../db/chunks";
import type { Deps } from "../deps";
import { dayOf } from "../domain/days";
import { fieldsOf, runsBuild } from "../domain/device-record";
import type { Signal } from "../domain/health-signals";
import { hashOf, recentMap } from "../domain/recent";
import type {
	BytesServed,
	CountedMetric,
	DeviceEvent,
	DeviceEvents,
	DeviceSeen,
	EventsLost,
	RolloutRuns,
	RolloutServed,
} from "../messages";
import { type SignalSource, signalSample } from "./signal-sample";

const FLUSH_AFTER_MS = 1_000;
/** Events that may wait are sent when nothing else came for so long: work after an answer may last 30 seconds, retries included. */
const FLUSH_SEEN_AFTER_MS = 20_000;
const LONGEST_WAIT_MS = 2 * 60_000;
/** Requests that follow each other keep the flush waiting; each of them could, but a timer costs. */
const POSTPONE_EVERY_MS = 5_000;
const RETRY_AFTER_MS = [1_000, 2_000, 4_000];
/** The Queue bills 64 kB as one operation. */
const FLUSH_AT_BYTES = 64_000;
/** Rollout events of a device are repeated once a period: an offer soon, because health depends on it; that a bundle still runs, rarely. */
const ROLLOUT_PERIOD_MS = { rollout_served: 30 * 60 * 1000, rollout_runs: 24 * 60 * 60 * 1000 } as const;
/** Devices whose last report is cached; at most about 500 bytes each. */
const MOST_REPORTS = 20_000;
/** Devices whose last rollout event is cached; about 150 bytes each. */
const MOST_ROLLOUT_REPORTS = 20_000;
/** A flush that is due, or sending, for so long has ended with its request. */
const FLUSH_LIFETIME_MS = 15_000;
/** The Queue takes 128 KB a message. */
const LONGEST_MESSAGE = 100_000;
/** About a hundred bytes each. */
const MOST_OBJECTS_PER_EVENT = 500;
/** Events of all apps, as JSON; in memory they take about twice as much. */
export const MOST_BUFFERED_BYTES = 4 * 1024 * 1024;
/** Installs, downloads and failures of one device and day that an isolate accepts: no device installs so many bundles. */
export const MOST_REPORTS_A_DEVICE = 100;

type WaitUntil = (work: Promise<unknown>) => void;

interface Buffered {
	readonly event: DeviceEvent;
	readonly bytes: number;
}

/** First in, first out. Dropped events keep their place in the array until it is worth copying. */
interface Buffer {
	events: Buffered[];
	first: number;
	bytes: number;
}

interface Flush {
	readonly dueAtMs: number;
	/** A later one may send the events instead. */
	readonly mayWait: boolean;
}

/** Metrics that people wait for, and on which rollouts depend. */
const URGENT: ReadonlySet<CountedMetric> = new Set(["install", "fail"]);

/** One for each isolate. */
export function createEventBuffer(
	deps: Pick<Deps, "events" | "log" | "now" | "delay" | "newId"> & {
		readonly config: Pick<Deps["config"], "localRun">;
	},
) {
	// A person who tries the service waits for the first device.
	const flushSeenAfterMs = deps.config.localRun === undefined ? FLUSH_SEEN_AFTER_MS : FLUSH_AFTER_MS;
	/** By app; no buffer is empty. */
	const buffers = new Map<string, Buffer>();
	const seed = Number.parseInt(deps.newId().slice(0, 8), 16);
	let bufferedBytes = 0;
	/** By app, since the last flush. */
	let lost = new Map<string, number>();
	let flushes: Flush[] = [];
	/** Since when the oldest event waits. */
	let waitingSinceMs = 0;
	let sendingSinceMs = Number.NEGATIVE_INFINITY;
	/** A flush came due while another one was sending. */
	let isDueAgain = false;

	/** The last report of each device. */
	const reports = recentMap<LastReport>(MOST_REPORTS);

	/** The event to send; undefined if it repeats the device's last report of the day. */
	function withoutRepeat(event: DeviceSeen): DeviceSeen | undefined {
		const device = `${event.appId} ${event.deviceId}`;
		const hash = hashOf(contentOf(event), seed);
		const before = reports.get(device);
		// An event that starts a version is sent even so: another isolate may have received a report in between.
		if (before?.hash === hash && event.moved !== true) return undefined;
		// Reports of one request have the same time, but the consumer orders by time: the later one is a millisecond later.
		const isSameTime =
			before !== undefined && event.atMs <= before.atMs && dayOf(before.atMs + 1) === dayOf(event.atMs);
		const atMs = isSameTime ? before.atMs + 1 : event.atMs;
		const fields = [...fieldsOf(event), event.versionName === "" ? undefined : runsBuild(event)].map((value) =>
			value === undefined ? UNKNOWN : hashOf(`${typeof value} ${value}`, seed),
		);
		const isChanged = fields.some((value, index) => differ(value, before?.fields[index] ?? UNKNOWN));
		reports.set(device, {
			hash,
			atMs,
			fields: fields.map((value, index) => (value === UNKNOWN ? (before?.fields[index] ?? UNKNOWN) : value)),
			counted: before?.counted ?? 0,
		});
		return { ...event, atMs, ...(isChanged ? { moved: true } : {}) };
	}

	/** Whether the device has reported so much today that no more of its reports are counted. */
	function exceedsReportLimit({ appId, deviceId, atMs }: { appId: string; deviceId: string; atMs: number }): boolean {
		const device = reports.get(`${appId} ${deviceId}`);
		if (device === undefined) return false;
		// The day is the upper part of the number, so the count starts again at midnight.
		const day = dayOf(atMs) * 1_000;
		device.counted = Math.min(Math.max(device.counted, day), day + MOST_REPORTS_A_DEVICE) + 1;
		return device.counted > day + MOST_REPORTS_A_DEVICE;
	}

	const signals = signalSample(seed);

	/** Hash of the last rollout event of each device. */
	const rolloutReports = recentMap<number>(MOST_ROLLOUT_REPORTS);

	/** Rollout events are de-duplicated the same way: one per device and period. */
	function isRepeatedRollout({ atMs, ...event }: RolloutServed | RolloutRuns): boolean {
		const device = `${event.appId} ${event.deviceId}`;
		const hash = hashOf(JSON.stringify([Math.floor(atMs / ROLLOUT_PERIOD_MS[event.type]), event]), seed);
		if (rolloutReports.get(device) === hash) return true;
		rolloutReports.set(device, hash);
		return false;
	}

	/** Bytes sent, by app and day, so that many downloads become one event. */
	let served = new Map<
		string,
		{ readonly appUuid: string; readonly atMs: number; readonly bytes: Map<string, number> }
	>();

	function bufferServed(): void {
		for (const { appUuid, atMs, bytes } of served.values()) {
			const objects = [...bytes];
			for (let index = 0; index < objects.length; index += MOST_OBJECTS_PER_EVENT) {
				const chunk = Object.fromEntries(objects.slice(index, index + MOST_OBJECTS_PER_EVENT));
				const event: BytesServed = { type: "served", id: deps.newId(), appUuid, atMs, bytes: chunk };
				buffer(appUuid, measured(event));
			}
		}
		served = new Map();
	}

	function buffer(app: string, item: Buffered): void {
		const own = buffers.get(app) ?? { events: [], first: 0, bytes: 0 };
		buffers.set(app, own);
		own.events.push(item);
		own.bytes += item.bytes;
		bufferedBytes += item.bytes;
		while (bufferedBytes > MOST_BUFFERED_BYTES) dropOldestOfLargest();
	}

	function dropOldestOfLargest(): void {
		let largest: readonly [string, Buffer] | undefined;
		for (const entry of buffers) if (largest === undefined || entry[1].bytes > largest[1].bytes) largest = entry;
		if (largest === undefined) return;
		const [app, own] = largest;
		const dropped = own.events[own.first];
		own.first += 1;
		own.bytes -= dropped?.bytes ?? 0;
		bufferedBytes -= dropped?.bytes ?? 0;
		if (own.first === own.events.length) buffers.delete(app);
		else if (own.first > 1_000 && own.first > own.events.length / 2) {
			own.events = own.events.slice(own.first);
			own.first = 0;
		}
		if (dropped?.event.type === "lost") countLost(app, dropped.event.events);
		// Bytes served are buffered by the app's UUID, under which no statistics are kept.
		else if (dropped !== undefined && dropped.event.type !== "served") countLost(app, 1);
	}

	function countLost(appId: string, events: number): void {
		lost.set(appId, (lost.get(appId) ?? 0) + events);
	}

	function bufferLost(): void {
		const losses = lost;
		lost = new Map();
		for (const [appId, events] of losses) {
			deps.log("error", "events_lost", { app: appId, events });
			const event: EventsLost = { type: "lost", id: deps.newId(), appId, atMs: deps.now(), events };
			buffer(appId, measured(event));
		}
	}

	/** Everything, smallest app first: if the isolate ends while it sends, most apps lose nothing. */
	function takeAll(): { readonly app: string; readonly item: Buffered }[] {
		bufferServed();
		bufferLost();
		const all = [...buffers].sort(([, one], [, other]) => one.bytes - other.bytes);
		buffers.clear();
		bufferedBytes = 0;
		return all.flatMap(([app, { events, first }]) => events.slice(first).map((item) => ({ app, item })));
	}

	/** @returns whether everything was sent */
	async function sendAll(): Promise<boolean> {
		let isSent = true;
		for (const items of chunk(takeAll(), ({ item }) => item.bytes, { bytes: LONGEST_MESSAGE })) {
			const events = items.map(({ item }) => item.event);
			const message: DeviceEvents = { kind: "device_events", id: deps.newId(), events };
			try {
				await deps.events.send(message);
			} catch (error) {
				isSent = false;
				deps.log("warn", "queue_send_failed", { kind: message.kind, events: items.length, cause: String(error) });
				for (const { app, item } of items) buffer(app, item);
			}
		}
		return isSent;
	}

	async function run(flush: Flush, afterMs: number): Promise<void> {
		await deps.delay(afterMs);
		flushes = flushes.filter((other) => other !== flush);
		if (flush.mayWait && isPostponed()) return;
		if (deps.now() - sendingSinceMs < FLUSH_LIFETIME_MS) {
			isDueAgain = true;
			return;
		}
		sendingSinceMs = deps.now();
		for (let failures = 0; ; ) {
			isDueAgain = false;
			if (!(await sendAll())) {
				const retryAfterMs = RETRY_AFTER_MS[failures++];
				if (retryAfterMs === undefined) break;
				await deps.delay(retryAfterMs);
			} else if (!isDueAgain) break;
		}
		sendingSinceMs = Number.NEGATIVE_INFINITY;
	}

	function beginWaiting(): void {
		if (buffers.size === 0 && served.size === 0 && lost.size === 0) waitingSinceMs = deps.now();
	}

	/** Whether a later flush comes in time. One that is overdue ended with its request. */
	function isPostponed(): boolean {
		const [afterMs, untilMs] = [deps.now(), waitingSinceMs + LONGEST_WAIT_MS];
		return flushes.some(({ mayWait, dueAtMs }) => mayWait && dueAtMs > afterMs && dueAtMs <= untilMs);
	}

	function scheduleFlush(waitUntil: WaitUntil, withinMs: number): void {
		const nowMs = deps.now();
		const afterMs = bufferedBytes >= FLUSH_AT_BYTES ? 0 : withinMs;
		const flush = { dueAtMs: nowMs + afterMs, mayWait: afterMs > FLUSH_AFTER_MS };
		flushes = flushes.filter(({ dueAtMs }) => nowMs - dueAtMs < FLUSH_LIFETIME_MS);
		const isCovered = ({ dueAtMs, mayWait }: Flush) =>
			mayWait ? flush.mayWait && dueAtMs > flush.dueAtMs - POSTPONE_EVERY_MS : dueAtMs <= flush.dueAtMs;
		if (flushes.some(isCovered)) return;
		flushes.push(flush);
		waitUntil(run(flush, afterMs));
	}

	return {
		/** Buffers events, except for repeated ones, and sends them later. */
		add(events: readonly DeviceEvent[], waitUntil: WaitUntil): void {
			let withinMs = Number.POSITIVE_INFINITY;
			beginWaiting();
			for (const added of events) {
				const event = added.type === "seen" ? withoutRepeat(added) : added;
				if (event === undefined) continue;
				if ((event.type === "rollout_served" || event.type === "rollout_runs") && isRepeatedRollout(event)) continue;
				const mayWait = event.type === "seen" || (event.type === "count" && !URGENT.has(event.metric));
				withinMs = Math.min(withinMs, mayWait ? flushSeenAfterMs : FLUSH_AFTER_MS);
				if (event.type === "count" && exceedsReportLimit(event)) countLost(event.appId, 1);
				else buffer(event.type === "served" ? event.appUuid : event.appId, measured(event));
			}
			if (withinMs !== Number.POSITIVE_INFINITY) scheduleFlush(waitUntil, withinMs);
		},

		/** Bytes that an answer sends out. */
		addServed(appUuid: string, objectKey: string, bytes: number, waitUntil: WaitUntil): void {
			beginWaiting();
			const atMs = deps.now();
			const key = `${appUuid} ${dayOf(atMs)}`;
			const app = served.get(key) ?? { appUuid, atMs, bytes: new Map<string, number>() };
			served.set(key, app);
			app.bytes.set(objectKey, (app.bytes.get(objectKey) ?? 0) + bytes);
			scheduleFlush(waitUntil, flushSeenAfterMs);
		},

		/** Counts events that were refused before they reached the buffer. */
		addLost(appId: string, events: number, waitUntil: WaitUntil): void {
			if (events === 0) return;
			beginWaiting();
			countLost(appId, events);
			scheduleFlush(waitUntil, flushSeenAfterMs);
		},

		/** Whether a health signal is to be counted; false if it repeats one. */
		takesSignal: (signal: Signal, source: SignalSource, atMs: number): boolean => signals.takes(signal, source, atMs),

		/** Whether this isolate has received a report of the device lately. */
		knows: (appId: string, deviceId: string): boolean => reports.get(`${appId} ${deviceId}`) !== undefined,
	};
}

export type EventBuffer = ReturnType<typeof createEventBuffer>;

interface LastReport {
	/** Hash of the report's content. */
	readonly hash: number;
	readonly atMs: number;
	/** Hashes of the last value of each field and of whether the version is the store build's; not every report has all fields. */
	readonly fields: readonly number[];
	/** Counted reports of the device: the day times a thousand, plus their number on that day. */
	counted: number;
}

const UNKNOWN = -1;

function differ(value: number, before: number): boolean {
	return value !== UNKNOWN && before !== UNKNOWN && value !== before;
}

/**
 * Everything in the event except for the time of day. Not JSON, because this runs on every check. A device that sends the separator inside
 * a text can make two of its states look the same, but no other device's.
 */
function contentOf(event: DeviceSeen): string {
	const { platform, versionName, versionBuild, osVersion, pluginVersion, isProd, isEmulator, channelId } = event;
	const { customId, installSource, keyId, defaultChannel } = event;
	const decided = `${event.decision ?? ""} ${event.offered ?? ""}`;
	const own = `${decided}\0${customId}\0${installSource}\0${keyId}\0${defaultChannel}\0${versionName}\0${versionBuild}\0${osVersion}`;
	return `${dayOf(event.atMs)}\0${platform}\0${pluginVersion}\0${isProd}\0${isEmulator}\0${channelId}\0${own}`;
}

function measured(event: DeviceEvent): Buffered {
	return { event, bytes: utf8Length(JSON.stringify(event)) + 1 };
}
