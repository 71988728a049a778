/**
 * What happens on devices, on its way to the Queue. Requests put events into the isolate's memory; about a second later everything that
 * has gathered goes out in as few messages as it fits into, so the Queue is paid by the second and not by the request. What cannot be
 * sent is kept for the next time.
 */
import type { Deps } from "../deps";
import { dayOf } from "./days";
import { factsIn, runsBuild } from "./device-record";
import type { BytesServed, DeviceEvent, DeviceEvents, DeviceSeen, RolloutRuns, RolloutServed } from "./messages";

const GATHER_MS = 1_000;
/** How often the same is said again: what is served may have to be known soon, that a bundle still runs changes nothing. */
const ROLLOUT_PERIOD_MS = { rollout_served: 30 * 60 * 1000, rollout_runs: 24 * 60 * 60 * 1000 } as const;
/** Devices that are remembered; less than a kilobyte each. */
const MOST_TOLD = 20_000;
/** A flush that was promised so long ago has died with its request. */
const FLUSH_LIFETIME_MS = 10_000;
/** The Queue takes 128 KB a message. */
const LONGEST_MESSAGE = 100_000;
/** About a hundred bytes each. */
const MOST_OBJECTS_AN_EVENT = 500;
/** Beyond this the oldest are dropped: memory is for answering. */
const MOST_WAITING = 20_000;

/** One for each isolate. */
export function createEventGatherer(deps: Pick<Deps, "events" | "log" | "now" | "delay" | "newId">) {
	let waiting: DeviceEvent[] = [];
	let promisedAtMs = Number.NEGATIVE_INFINITY;

	/** What each device last said of itself, and on which day: what is said again is not sent again. */
	let told = new Map<string, Told>();

	/** The event as it is sent; undefined when it says nothing new. */
	function newsOf(event: DeviceSeen): DeviceSeen | undefined {
		const device = `${event.appId} ${event.deviceId}`;
		const said = saidBy(event);
		const before = told.get(device);
		// Another isolate may have been told of what was between.
		if (before?.said === said && event.moved !== true) return undefined;
		// The consumer tells by the time what came last; a list of reports comes all at once.
		const isAtOnce = before !== undefined && event.atMs <= before.atMs && dayOf(before.atMs + 1) === dayOf(event.atMs);
		const atMs = isAtOnce ? before.atMs + 1 : event.atMs;
		const facts = [...factsIn(event), event.versionName === "" ? undefined : runsBuild(event)];
		const isOther = facts.some((value, index) => differ(value, before?.facts[index]));
		if (told.size >= MOST_TOLD) told = new Map();
		told.set(device, {
			said,
			atMs,
			facts: facts.map((value, index) => (value === undefined ? before?.facts[index] : value)),
		});
		return { ...event, atMs, ...(isOther ? { moved: true } : {}) };
	}

	/** The same of rollouts: that a device is served still, or runs the bundle still, is said once in its period. */
	let toldOfRollouts = new Map<string, string>();

	function isRolloutNews({ atMs, ...event }: RolloutServed | RolloutRuns): boolean {
		const device = `${event.appId} ${event.deviceId}`;
		const said = JSON.stringify([Math.floor(atMs / ROLLOUT_PERIOD_MS[event.type]), event]);
		if (toldOfRollouts.get(device) === said) return false;
		if (toldOfRollouts.size >= MOST_TOLD) toldOfRollouts = new Map();
		toldOfRollouts.set(device, said);
		return true;
	}

	/** Bytes of one app and day become one event, however many requests they were. */
	let served = new Map<
		string,
		{ readonly appUuid: string; readonly atMs: number; readonly bytes: Map<string, number> }
	>();

	function servedEvents(): BytesServed[] {
		const events = [...served.values()].flatMap(({ appUuid, atMs, bytes }) => {
			const objects = [...bytes];
			const parts: BytesServed[] = [];
			for (let index = 0; index < objects.length; index += MOST_OBJECTS_AN_EVENT) {
				const part = Object.fromEntries(objects.slice(index, index + MOST_OBJECTS_AN_EVENT));
				parts.push({ type: "served", id: deps.newId(), appUuid, atMs, bytes: part });
			}
			return parts;
		});
		served = new Map();
		return events;
	}

	async function flush(): Promise<void> {
		await deps.delay(GATHER_MS);
		promisedAtMs = Number.NEGATIVE_INFINITY;
		const events = [...waiting, ...servedEvents()];
		waiting = [];
		for (const part of parts(events)) {
			const message: DeviceEvents = { kind: "device_events", id: deps.newId(), events: part };
			try {
				await deps.events.send(message);
			} catch (error) {
				deps.log("warn", "queue_send_failed", { kind: message.kind, events: part.length, cause: String(error) });
				waiting.push(...part);
			}
		}
	}

	function gather(events: readonly DeviceEvent[], waitUntil: (work: Promise<unknown>) => void): void {
		const fresh = events.flatMap((event) => {
			if (event.type === "seen") return newsOf(event) ?? [];
			const isRollouts = event.type === "rollout_served" || event.type === "rollout_runs";
			return !isRollouts || isRolloutNews(event) ? event : [];
		});
		if (fresh.length === 0) return;
		waiting.push(...fresh);
		if (waiting.length > MOST_WAITING) {
			deps.log("error", "events_dropped", { events: waiting.length - MOST_WAITING });
			waiting = waiting.slice(-MOST_WAITING);
		}
		promise(waitUntil);
	}

	function promise(waitUntil: (work: Promise<unknown>) => void): void {
		const nowMs = deps.now();
		if (nowMs - promisedAtMs < FLUSH_LIFETIME_MS) return;
		promisedAtMs = nowMs;
		waitUntil(flush());
	}

	return Object.assign(gather, {
		/** Whether this is what the device said last (`saidBy`): gathering it would send nothing. */
		wasTold: (appId: string, deviceId: string, said: string): boolean =>
			told.get(`${appId} ${deviceId}`)?.said === said,

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
	readonly said: string;
	readonly atMs: number;
	/** The last word on each, and whether the version is the build's; some messages say less than others. */
	readonly facts: readonly Word[];
}

type Word = ReturnType<typeof factsIn>[number] | boolean;

function differ(value: Word, before: Word): boolean {
	return value !== undefined && before !== undefined && value !== before;
}

/**
 * All of the event but when in the day it was. Every check comes by here, so it is no JSON; a device that sends the separator inside a
 * text can make two of its own states look the same, and only its own.
 */
export function saidBy(event: DeviceSeen): string {
	const { platform, versionName, versionBuild, osVersion, pluginVersion, isProd, isEmulator, channelId } = event;
	const { customId, installSource, keyId, defaultChannel } = event;
	const own = `${customId}\0${installSource}\0${keyId}\0${defaultChannel}\0${versionName}\0${versionBuild}\0${osVersion}`;
	return `${dayOf(event.atMs)}\0${platform}\0${pluginVersion}\0${isProd}\0${isEmulator}\0${channelId}\0${own}`;
}

export type GatherEvents = ReturnType<typeof createEventGatherer>;

function parts(events: readonly DeviceEvent[]): DeviceEvent[][] {
	const messages: DeviceEvent[][] = [];
	let length = LONGEST_MESSAGE;
	for (const event of events) {
		// Three bytes a character at most, and most texts here are ASCII.
		const size = new TextEncoder().encode(JSON.stringify(event)).length + 1;
		if (length + size > LONGEST_MESSAGE) {
			messages.push([]);
			length = 0;
		}
		messages.at(-1)?.push(event);
		length += size;
	}
	return messages;
}
