/**
 * What happens on devices, on its way to the Queue. Requests put events into the isolate's memory; about a second later everything that
 * is buffered goes out in as few messages as it fits into, so the Queue is paid by the second and not by the request. What cannot be
 * sent is kept for the next time.
 *
 * Each app has a buffer of its own, and all of them together are bounded by bytes. When they are full, the largest loses its oldest
 * event, so an app that floods displaces nothing of another one. Lost events are counted in their app's statistics.
 */
import type { Deps } from "../deps";
import { hashOf, recentMap } from "../domain/recent";
import { dayOf } from "./days";
import { factsIn, runsBuild } from "./device-record";
import type {
	BytesServed,
	DeviceEvent,
	DeviceEvents,
	DeviceSeen,
	EventsLost,
	RolloutRuns,
	RolloutServed,
} from "./messages";

const GATHER_MS = 1_000;
/** How often the same is said again: what is served may have to be known soon, that a bundle still runs changes nothing. */
const ROLLOUT_PERIOD_MS = { rollout_served: 30 * 60 * 1000, rollout_runs: 24 * 60 * 60 * 1000 } as const;
/** Devices whose last report is known; about 500 bytes each, whatever they send. The rarest are forgotten first. */
const MOST_TOLD = 20_000;
/** The same of rollouts; about 150 bytes each. */
const MOST_TOLD_OF_ROLLOUTS = 20_000;
/** A flush that was promised so long ago has died with its request. */
const FLUSH_LIFETIME_MS = 10_000;
/** The Queue takes 128 KB a message. */
const LONGEST_MESSAGE = 100_000;
/** About a hundred bytes each. */
const MOST_OBJECTS_AN_EVENT = 500;
/** Events of all apps, as JSON; in memory they take about twice as much. */
export const MOST_BUFFERED_BYTES = 4 * 1024 * 1024;
/** Installs, downloads and failures of one device and day that an isolate takes: no app installs so many bundles. */
export const MOST_REPORTS_A_DEVICE = 100;

interface Buffered {
	readonly event: DeviceEvent;
	readonly bytes: number;
}

/** First in, first out; the place of what was taken is given back in large pieces. */
interface Buffer {
	events: Buffered[];
	first: number;
	bytes: number;
}

/** One for each isolate. */
export function createEventGatherer(deps: Pick<Deps, "events" | "log" | "now" | "delay" | "newId">) {
	/** By app; those that are empty are not there. */
	const buffers = new Map<string, Buffer>();
	const seed = Number.parseInt(deps.newId().slice(0, 8), 16);
	let bufferedBytes = 0;
	/** By app, since the last flush. */
	let lost = new Map<string, number>();
	let promisedAtMs = Number.NEGATIVE_INFINITY;

	/** What each device last said of itself, and on which day: what is said again is not sent again. */
	const told = recentMap<Told>(MOST_TOLD);

	/** The event as it is sent; undefined when it says nothing new. */
	function newsOf(event: DeviceSeen): DeviceSeen | undefined {
		const device = `${event.appId} ${event.deviceId}`;
		const said = hashOf(saidBy(event), seed);
		const before = told.get(device);
		// Another isolate may have been told of what was between.
		if (before?.said === said && event.moved !== true) return undefined;
		// The consumer tells by the time what came last; a list of reports comes all at once.
		const isAtOnce = before !== undefined && event.atMs <= before.atMs && dayOf(before.atMs + 1) === dayOf(event.atMs);
		const atMs = isAtOnce ? before.atMs + 1 : event.atMs;
		const facts = [...factsIn(event), event.versionName === "" ? undefined : runsBuild(event)].map((word) =>
			word === undefined ? UNKNOWN : hashOf(`${typeof word} ${word}`, seed),
		);
		const isOther = facts.some((value, index) => differ(value, before?.facts[index] ?? UNKNOWN));
		told.set(device, {
			said,
			atMs,
			facts: facts.map((value, index) => (value === UNKNOWN ? (before?.facts[index] ?? UNKNOWN) : value)),
			reports: before?.reports ?? 0,
		});
		return { ...event, atMs, ...(isOther ? { moved: true } : {}) };
	}

	/** Whether the device has reported so much today that no more is counted of it. */
	function isTooMuch({ appId, deviceId, atMs }: { appId: string; deviceId: string; atMs: number }): boolean {
		const device = told.get(`${appId} ${deviceId}`);
		if (device === undefined) return false;
		// The day in the upper part, so that it begins again at midnight.
		const day = dayOf(atMs) * 1_000;
		device.reports = Math.min(Math.max(device.reports, day), day + MOST_REPORTS_A_DEVICE) + 1;
		return device.reports > day + MOST_REPORTS_A_DEVICE;
	}

	/** The same of rollouts: that a device is served still, or runs the bundle still, is said once in its period. */
	const toldOfRollouts = recentMap<number>(MOST_TOLD_OF_ROLLOUTS);

	function isRolloutNews({ atMs, ...event }: RolloutServed | RolloutRuns): boolean {
		const device = `${event.appId} ${event.deviceId}`;
		const said = hashOf(JSON.stringify([Math.floor(atMs / ROLLOUT_PERIOD_MS[event.type]), event]), seed);
		if (toldOfRollouts.get(device) === said) return false;
		toldOfRollouts.set(device, said);
		return true;
	}

	/** Bytes of one app and day become one event, however many requests they were. */
	let served = new Map<
		string,
		{ readonly appUuid: string; readonly atMs: number; readonly bytes: Map<string, number> }
	>();

	function bufferServed(): void {
		for (const { appUuid, atMs, bytes } of served.values()) {
			const objects = [...bytes];
			for (let index = 0; index < objects.length; index += MOST_OBJECTS_AN_EVENT) {
				const part = Object.fromEntries(objects.slice(index, index + MOST_OBJECTS_AN_EVENT));
				const event: BytesServed = { type: "served", id: deps.newId(), appUuid, atMs, bytes: part };
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
		if (dropped?.event.type === "lost") lose(app, dropped.event.events);
		// Bytes that were served are known by the app's UUID.
		else if (dropped !== undefined && dropped.event.type !== "served") lose(app, 1);
	}

	function lose(appId: string, events: number): void {
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

	/** Everything, smallest app first: should the isolate end while it sends, most apps lose nothing. */
	function takeAll(): { readonly app: string; readonly item: Buffered }[] {
		bufferServed();
		bufferLost();
		const all = [...buffers].sort(([, one], [, other]) => one.bytes - other.bytes);
		buffers.clear();
		bufferedBytes = 0;
		return all.flatMap(([app, { events, first }]) => events.slice(first).map((item) => ({ app, item })));
	}

	async function flush(): Promise<void> {
		await deps.delay(GATHER_MS);
		promisedAtMs = Number.NEGATIVE_INFINITY;
		for (const part of chunksOf(takeAll())) {
			const events = part.map(({ item }) => item.event);
			const message: DeviceEvents = { kind: "device_events", id: deps.newId(), events };
			try {
				await deps.events.send(message);
			} catch (error) {
				deps.log("warn", "queue_send_failed", { kind: message.kind, events: part.length, cause: String(error) });
				for (const { app, item } of part) buffer(app, item);
			}
		}
	}

	function gather(events: readonly DeviceEvent[], waitUntil: (work: Promise<unknown>) => void): void {
		let isNews = false;
		for (const event of events) {
			const news = event.type === "seen" ? newsOf(event) : event;
			if (news === undefined) continue;
			if ((news.type === "rollout_served" || news.type === "rollout_runs") && !isRolloutNews(news)) continue;
			isNews = true;
			if (news.type === "count" && isTooMuch(news)) lose(news.appId, 1);
			else buffer(news.type === "served" ? news.appUuid : news.appId, measured(news));
		}
		if (isNews) promise(waitUntil);
	}

	function promise(waitUntil: (work: Promise<unknown>) => void): void {
		const nowMs = deps.now();
		if (nowMs - promisedAtMs < FLUSH_LIFETIME_MS) return;
		promisedAtMs = nowMs;
		waitUntil(flush());
	}

	return Object.assign(gather, {
		/** A hash of what the device says, for `wasTold`. */
		hashOf: (event: DeviceSeen): number => hashOf(saidBy(event), seed),

		/** Whether the device's last report was the same, so that buffering it would send nothing. */
		wasTold: (appId: string, deviceId: string, said: number): boolean =>
			told.get(`${appId} ${deviceId}`)?.said === said,

		/** Whether this isolate has events of the device. */
		knows: (appId: string, deviceId: string): boolean => told.get(`${appId} ${deviceId}`) !== undefined,

		/** Counts events that were refused before they came here. */
		lose(appId: string, events: number, waitUntil: (work: Promise<unknown>) => void): void {
			if (events === 0) return;
			lose(appId, events);
			promise(waitUntil);
		},

		/** Bytes that an answer sends out. */
		served(appUuid: string, objectKey: string, bytes: number, waitUntil: (work: Promise<unknown>) => void): void {
			const atMs = deps.now();
			const key = `${appUuid} ${dayOf(atMs)}`;
			const app = served.get(key) ?? { appUuid, atMs, bytes: new Map<string, number>() };
			served.set(key, app);
			app.bytes.set(objectKey, (app.bytes.get(objectKey) ?? 0) + bytes);
			promise(waitUntil);
		},
	});
}

interface Told {
	/** A hash of `saidBy`. */
	readonly said: number;
	readonly atMs: number;
	/** Hashes of the last word on each, and whether the version is the build's; some messages say less than others. */
	readonly facts: readonly number[];
	/** Reports of the device: the day times a thousand, plus their number on that day. */
	reports: number;
}

const UNKNOWN = -1;

function differ(value: number, before: number): boolean {
	return value !== UNKNOWN && before !== UNKNOWN && value !== before;
}

/**
 * All of the event but when in the day it was. Every check comes by here, so it is no JSON; a device that sends the
 * separator inside a text can make two of its own states look the same, and only its own.
 */
function saidBy(event: DeviceSeen): string {
	const { platform, versionName, versionBuild, osVersion, pluginVersion, isProd, isEmulator, channelId } = event;
	const { customId, installSource, keyId, defaultChannel } = event;
	const own = `${customId}\0${installSource}\0${keyId}\0${defaultChannel}\0${versionName}\0${versionBuild}\0${osVersion}`;
	return `${dayOf(event.atMs)}\0${platform}\0${pluginVersion}\0${isProd}\0${isEmulator}\0${channelId}\0${own}`;
}

export type GatherEvents = ReturnType<typeof createEventGatherer>;

const encoder = new TextEncoder();

function measured(event: DeviceEvent): Buffered {
	return { event, bytes: encoder.encode(JSON.stringify(event)).length + 1 };
}

function chunksOf<Item extends { readonly item: Buffered }>(items: readonly Item[]): Item[][] {
	const messages: Item[][] = [];
	let length = LONGEST_MESSAGE;
	for (const entry of items) {
		if (length + entry.item.bytes > LONGEST_MESSAGE) {
			messages.push([]);
			length = 0;
		}
		messages.at(-1)?.push(entry);
		length += entry.item.bytes;
	}
	return messages;
}
