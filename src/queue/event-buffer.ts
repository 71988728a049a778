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
import { dayOf } from "../domain/statistics/days";
import type { Signal } from "../domain/statistics/health-signals";
import type { BytesServed, DeviceEvent, DeviceEvents, EventsLost } from "../messages";
import { createBoundedBuffers } from "./bounded-buffers";
import { createFlushSchedule, FLUSH_AFTER_MS, FLUSH_SEEN_AFTER_MS, type WaitUntil } from "./flush-schedule";
import { createRepeatedReports } from "./repeated-reports";
import { type SignalSource, signalSample } from "./signal-sample";
import { createUrgency } from "./urgency";

/** The Queue bills 64 kB as one operation. */
const FLUSH_AT_BYTES = 64_000;
/** The Queue takes 128 KB a message. */
const LONGEST_MESSAGE = 100_000;
/** About a hundred bytes each. */
const MOST_OBJECTS_PER_EVENT = 500;

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
	const urgency = createUrgency(deps.now);
	const flushes = createFlushSchedule(deps, sendAll);

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

	function beginWaiting(): void {
		if (buffers.isEmpty() && served.size === 0) flushes.beginWaiting();
	}

	function scheduleFlush(waitUntil: WaitUntil, withinMs: number): void {
		flushes.schedule(waitUntil, buffers.bytes() >= FLUSH_AT_BYTES ? 0 : withinMs);
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
				withinMs = Math.min(withinMs, urgency.mayWait(event) ? flushSeenAfterMs : FLUSH_AFTER_MS);
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
