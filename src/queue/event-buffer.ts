/**
 * Events of devices on their way to the Queue. Requests add events to the isolate's memory; later
 * all of them are sent in as few messages as possible, because each message costs: a second after a
 * failure, a rollout event or one of an app's first installs of an hour; everything else when
 * nothing else came for 25 seconds, after three minutes at the latest, or at once when a message is
 * half full. Messages that cannot be sent are sent again a few times, and then with the next
 * events.
 *
 * A device that reports what it reported before on the same day adds no event
 * (repeated-reports.ts). Memory is bounded, and an app that floods costs no other app an event
 * (bounded-buffers.ts). Lost events are counted in their app's statistics.
 */
import { chunk } from "../db/chunks";
import type { Deps } from "../deps";
import { recentMap } from "../domain/recent";
import { dayOf } from "../domain/statistics/days";
import type { Signal } from "../domain/statistics/health-signals";
import { HOUR_MS, MINUTE_MS } from "../domain/time";
import type { BytesServed, CountedMetric, DeviceEvent, DeviceEvents, EventsLost } from "../messages";
import { createBoundedBuffers } from "./bounded-buffers";
import { createRepeatedReports } from "./repeated-reports";
import { type SignalSource, signalSample } from "./signal-sample";

const FLUSH_AFTER_MS = 1_000;
/**
 * Events that may wait are sent after this time without news: work after an answer may last 30
 * seconds, retries included.
 */
const FLUSH_SEEN_AFTER_MS = 25_000;
const LONGEST_WAIT_MS = 3 * MINUTE_MS;
/**
 * Each request may postpone the flush. A timer per request is too expensive, so the flush is
 * postponed at most this often and may come this much early.
 */
const POSTPONE_EVERY_MS = 2_000;
const RETRY_AFTER_MS = [500, 1_000, 2_000];
/**
 * Installs of an app that do not wait, by isolate and hour. People watch the first installs of a
 * release. An isolate of a large fleet has more, and a message for each of them would cost as much
 * as those of all checks.
 */
export const URGENT_INSTALLS_AN_HOUR = 6;
/** Apps whose urgent installs are counted. */
const MOST_APPS = 1_000;
/** The Queue bills 64 kB as one operation. */
const FLUSH_AT_BYTES = 64_000;
/** A flush that is due, or sending, for so long has ended with its request. */
const FLUSH_LIFETIME_MS = 15_000;
/** The Queue takes 128 KB a message. */
const LONGEST_MESSAGE = 100_000;
/** About a hundred bytes each. */
const MOST_OBJECTS_PER_EVENT = 500;

type WaitUntil = (work: Promise<unknown>) => void;

interface Flush {
	readonly dueAtMs: number;
	/** A later one may send the events instead. */
	readonly mayWait: boolean;
}

/** Metrics that people wait for, and on which rollouts depend. */
const URGENT: ReadonlySet<CountedMetric> = new Set(["install", "fail", "cause"]);

/** One for each isolate. */
export function createEventBuffer(
	deps: Pick<Deps, "events" | "log" | "now" | "delay" | "newId"> & {
		readonly config: Pick<Deps["config"], "localRun">;
	},
) {
	// A person who tries the service waits for the first device.
	const flushSeenAfterMs = deps.config.localRun === undefined ? FLUSH_SEEN_AFTER_MS : FLUSH_AFTER_MS;
	const buffers = createBoundedBuffers();
	const seed = Number.parseInt(deps.newId().slice(0, 8), 16);
	const repeated = createRepeatedReports(seed);
	const signals = signalSample(seed);
	const urgentInstalls = recentMap<{ readonly sinceMs: number; readonly installs: number }>(MOST_APPS);
	let flushes: Flush[] = [];
	/** Since when the oldest event waits. */
	let waitingSinceMs = 0;
	let sendingSinceMs = Number.NEGATIVE_INFINITY;
	/** A flush came due while another one was sending. */
	let isDueAgain = false;

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
				buffers.add(appUuid, event);
			}
		}
		served = new Map();
	}

	function bufferLost(): void {
		for (const [appId, events] of buffers.takeLost()) {
			deps.log("error", "events_lost", { app: appId, events });
			const event: EventsLost = { type: "lost", id: deps.newId(), appId, atMs: deps.now(), events };
			buffers.add(appId, event);
		}
	}

	/** @returns whether everything was sent */
	async function sendAll(): Promise<boolean> {
		let isSent = true;
		bufferServed();
		bufferLost();
		for (const items of chunk(buffers.takeAll(), ({ bytes }) => bytes, { bytes: LONGEST_MESSAGE })) {
			const events = items.map(({ event }) => event);
			const message: DeviceEvents = { kind: "device_events", id: deps.newId(), events };
			try {
				await deps.events.send(message);
			} catch (error) {
				isSent = false;
				deps.log("warn", "queue_send_failed", { kind: message.kind, events: items.length, cause: String(error) });
				for (const item of items) buffers.addItem(item);
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

	function mayWait(event: DeviceEvent): boolean {
		if (event.type === "seen") return true;
		if (event.type !== "count" || event.metric !== "install")
			return event.type === "count" && !URGENT.has(event.metric);
		const nowMs = deps.now();
		const before = urgentInstalls.get(event.appId);
		const hour = before === undefined || nowMs - before.sinceMs >= HOUR_MS ? { sinceMs: nowMs, installs: 0 } : before;
		if (hour.installs >= URGENT_INSTALLS_AN_HOUR) return true;
		urgentInstalls.set(event.appId, { ...hour, installs: hour.installs + 1 });
		return false;
	}

	function beginWaiting(): void {
		if (buffers.isEmpty() && served.size === 0) waitingSinceMs = deps.now();
	}

	/** Whether a later flush comes in time. One that is overdue ended with its request. */
	function isPostponed(): boolean {
		const [afterMs, untilMs] = [deps.now(), waitingSinceMs + LONGEST_WAIT_MS];
		return flushes.some(({ mayWait, dueAtMs }) => mayWait && dueAtMs > afterMs && dueAtMs <= untilMs);
	}

	function scheduleFlush(waitUntil: WaitUntil, withinMs: number): void {
		const nowMs = deps.now();
		const afterMs = buffers.bytes() >= FLUSH_AT_BYTES ? 0 : withinMs;
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
				const event =
					added.type === "seen"
						? repeated.withoutRepeat(added)
						: added.type === "count"
							? repeated.downloadInOrder(added)
							: added;
				if (event === undefined) continue;
				if ((event.type === "rollout_served" || event.type === "rollout_runs") && repeated.isRepeatedRollout(event))
					continue;
				withinMs = Math.min(withinMs, mayWait(event) ? flushSeenAfterMs : FLUSH_AFTER_MS);
				if (event.type === "count" && repeated.exceedsLimit(event)) buffers.countLost(event.appId, 1);
				else buffers.add(event.type === "served" ? event.appUuid : event.appId, event);
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
			buffers.countLost(appId, events);
			scheduleFlush(waitUntil, flushSeenAfterMs);
		},

		/** Whether a health signal is to be counted; false if it repeats one. */
		takesSignal: (signal: Signal, source: SignalSource, atMs: number): boolean => signals.takes(signal, source, atMs),

		/** Whether this isolate has received a report of the device lately. */
		knows: repeated.knows,

		/** Sends everything now, for the end of a local run. */
		flush: sendAll,
	};
}

export type EventBuffer = ReturnType<typeof createEventBuffer>;
