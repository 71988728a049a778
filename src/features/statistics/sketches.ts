/**
 * Adds devices to the sketches of their days, and merges the slots of past hours. Adding is
 * idempotent, because a sketch is a set.
 */
import type { Database } from "../../db/client";
import {
	closeVersionSketches,
	type MergedSketch,
	mergeSlots,
	openDays,
	type SketchRow,
	SLOTS,
	sketchesOfDay,
	slotRows,
	writeSlot,
} from "../../db/device-sketches";
import { Conflict, retryOnConflict } from "../../db/optimistic";
import type { Deps } from "../../deps";
import { firstRememberedDay } from "../../domain/statistics/days";
import {
	addDevice,
	countDistinct,
	decodeSketch,
	emptySketch,
	encodeSketch,
	type Sketch,
} from "../../domain/statistics/distinct-count";
import { unionsOf, unmoved } from "./active-devices";
import type { AddedDevices } from "./device-rows";

/** Slots drawn for a sketch before the Queue repeats its messages. */
const MOST_DRAWS = 8;
/** Days of apps that one run merges. */
const MOST_DAYS = 200;
/** Bytes of the sketches that one run merges; a Worker has 128 MB. */
const MOST_BYTES = 24 * 1024 * 1024;

/** @throws {Conflict} if every drawn slot was written by another consumer at the same time */
export async function addToSketches(
	deps: Pick<Deps, "randomBytes">,
	db: Database,
	added: readonly AddedDevices[],
): Promise<void> {
	let waiting = added;
	for (let draw = 0; draw < MOST_DRAWS && waiting.length > 0; draw++) {
		const slots = [...deps.randomBytes(waiting.length)].map((byte) => 1 + (byte % SLOTS));
		const [known] = await db.batch([slotRows(waiting, slots)]);
		const writes = known.rows.flatMap((row) => {
			const entry = waiting[row.position];
			const slot = slots[row.position];
			if (entry === undefined || slot === undefined) return [];
			const sketch = encodeSketch(withDevices(row.sketch, entry.devices));
			return sketch === row.sketch ? [] : [{ entry, statement: writeSlot(entry, slot, row, sketch) }];
		});
		if (writes.length === 0) return;
		const results = await db.batch(writes.map(({ statement }) => statement));
		waiting = writes.filter((_, index) => results[index]?.changes === 0).map(({ entry }) => entry);
	}
	if (waiting.length > 0) throw new Conflict();
}

function withDevices(known: string | null, devices: ReadonlySet<string>): Sketch {
	let sketch = known === null ? emptySketch() : decodeSketch(known);
	for (const device of devices) sketch = addDevice(sketch, device);
	return sketch;
}

/** Merges slots into slot 0, and counts. */
export async function mergeSketchSlots(deps: Deps, db: Database): Promise<void> {
	const [open] = await db.batch([
		openDays(MOST_DAYS),
		...closeVersionSketches(firstRememberedDay(deps.config, deps.now())),
	]);
	let bytes = 0;
	for (const day of open.rows) {
		if (bytes > MOST_BYTES) return;
		await retryOnConflict(async () => {
			const [rows] = await db.batch([sketchesOfDay(day)]);
			bytes += rows.rows.reduce((sum, { sketch }) => sum + sketch.length, 0);
			await db.batch(mergeSlots(day, mergedOf(rows.rows), rows.rows));
		});
	}
}

function mergedOf(rows: readonly SketchRow[]): MergedSketch[] {
	const unions = unionsOf(rows);
	return [...unions.values()].map(({ kind, version_name, sketch }) => {
		const devices = kind === "moved" ? null : kind === "all" ? countDistinct(sketch) : unmoved(unions, version_name);
		return { kind, version_name, sketch: encodeSketch(sketch), devices };
	});
}
