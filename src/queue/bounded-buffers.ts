/**
 * Events of devices in the isolate's memory, in one buffer for each app. All buffers together are
 * bounded by bytes: when they are full, the largest one loses its oldest event, so an app that
 * floods costs no other app an event. Lost events are counted for their app.
 */
import { utf8Length } from "../db/chunks";
import type { DeviceEvent } from "../messages";

/** Events of all apps, as JSON; in memory they take about twice as much. */
const MOST_BUFFERED_BYTES = 4 * 1024 * 1024;

interface Buffered {
	/** Public id of the app; its UUID for bytes that were served. */
	readonly app: string;
	readonly event: DeviceEvent;
	readonly bytes: number;
}

/** First in, first out. Dropped events keep their place in the array until it is worth copying. */
interface Buffer {
	events: Buffered[];
	first: number;
	bytes: number;
}

export function createBoundedBuffers() {
	/** By app; no buffer is empty. */
	const buffers = new Map<string, Buffer>();
	let bytes = 0;
	/** By app, since they were taken. */
	let lost = new Map<string, number>();

	function addItem(item: Buffered): void {
		const own = buffers.get(item.app) ?? { events: [], first: 0, bytes: 0 };
		buffers.set(item.app, own);
		own.events.push(item);
		own.bytes += item.bytes;
		bytes += item.bytes;
		while (bytes > MOST_BUFFERED_BYTES) dropOldestOfLargest();
	}

	function dropOldestOfLargest(): void {
		let largest: readonly [string, Buffer] | undefined;
		for (const entry of buffers) if (largest === undefined || entry[1].bytes > largest[1].bytes) largest = entry;
		if (largest === undefined) return;
		const [app, own] = largest;
		const dropped = own.events[own.first];
		own.first += 1;
		own.bytes -= dropped?.bytes ?? 0;
		bytes -= dropped?.bytes ?? 0;
		if (own.first === own.events.length) buffers.delete(app);
		else if (own.first > 1_000 && own.first > own.events.length / 2) {
			own.events = own.events.slice(own.first);
			own.first = 0;
		}
		if (dropped?.event.type === "lost") countLost(app, dropped.event.events);
		// Bytes served are buffered by the app's UUID, under which no statistics are kept.
		else if (dropped !== undefined && dropped.event.type !== "served") countLost(app, 1);
	}

	function countLost(app: string, events: number): void {
		lost.set(app, (lost.get(app) ?? 0) + events);
	}

	return {
		add: (app: string, event: DeviceEvent): void =>
			addItem({ app, event, bytes: utf8Length(JSON.stringify(event)) + 1 }),
		/** Adds again what could not be sent. */
		addItem,
		countLost,
		bytes: () => bytes,
		isEmpty: () => buffers.size === 0 && lost.size === 0,

		/** Lost events by app, which are counted from zero afterwards. */
		takeLost(): ReadonlyMap<string, number> {
			const taken = lost;
			lost = new Map();
			return taken;
		},

		/** Everything, smallest app first: if the isolate ends while it sends, most apps lose nothing. */
		takeAll(): Buffered[] {
			const all = [...buffers.values()].sort((one, other) => one.bytes - other.bytes);
			buffers.clear();
			bytes = 0;
			return all.flatMap(({ events, first }) => events.slice(first));
		},
	};
}
