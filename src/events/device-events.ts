/**
 * The consumer's work on what devices sent: device rows, the counts, and the sketches of who was there. A batch may be delivered again,
 * in another order, and twice at once: device rows take the latest, a count is added with the event's id, and sketches are unions. So
 * everything here may be repeated and nothing is counted twice; what is too old to be known as new is left out.
 */
import { type CompiledQuery, sql } from "kysely";
import { batchOrFail, type Database, guard, openDb, query } from "../db/client";
import type { Deps } from "../deps";
import {
	addDevice,
	decodeSketch,
	emptySketch,
	encodeSketch,
	mergeSketches,
	type Sketch,
} from "../domain/distinct-count";
import { countLosses, countStatements } from "./counts";
import { dayOf, firstCountedDay, firstRememberedDay } from "./days";
import { deviceKey, isFull, writeDevices } from "./device-rows";
import type { DeviceEvent, DeviceSeen, RolloutEvent } from "./messages";
import { inTurns, Overtaken } from "./turns";

export async function consumeDeviceEvents(
	deps: Deps,
	events: readonly Exclude<DeviceEvent, RolloutEvent>[],
): Promise<void> {
	// What is no event of this version is not thrown away as too old.
	if (!events.every(({ atMs }) => Number.isSafeInteger(atMs))) throw new Error("an event has no time");
	const nowMs = deps.now();
	const firstDay = firstCountedDay(deps.config, nowMs);
	const inTime = events.filter((event) => dayOf(event.atMs) >= firstDay);
	if (inTime.length < events.length) {
		deps.log("error", "events_too_old", { events: events.length - inTime.length, firstDay });
	}
	const seen = inTime.filter((event) => event.type === "seen");
	const counted = inTime.filter((event) => event.type !== "seen");
	const db = openDb(deps.d1, "first-primary");
	const refused = await writeDevices(deps, db, seen);
	const known = seen.filter((event) => !refused.has(deviceKey(event)));
	await writeCounts(deps, db, counted, refused);
	if (known.length > 0) await mergeDevices(db, known);
}

/** Reports of refused devices are lost, and all reports while the database is nearly full. */
async function writeCounts(
	deps: Deps,
	db: Database,
	counted: readonly Exclude<DeviceEvent, RolloutEvent | DeviceSeen>[],
	refused: ReadonlySet<string>,
): Promise<void> {
	if (counted.length === 0) return;
	// Every answer of the database says how large it is.
	if (db.sizeBytes === undefined) await db.batch([sql`SELECT 1`.compile(query)]);
	const full = isFull(deps, db);
	const isLost = (event: (typeof counted)[number]) => full || (event.type === "count" && refused.has(deviceKey(event)));
	const kept = counted.filter((event) => !isLost(event));
	const nowMs = deps.now();
	const lastDay = kept.reduce((latest, event) => Math.max(latest, dayOf(event.atMs)), dayOf(nowMs));
	const statements = countStatements(kept, { first: firstRememberedDay(deps.config, nowMs), last: lastDay });
	const losses = countLosses(counted.filter(isLost), dayOf(nowMs));
	if (losses !== undefined) deps.log("error", "events_not_stored", { events: counted.length - kept.length, full });
	const all = [...statements, ...(losses === undefined ? [] : [losses])];
	if (all.length > 0) await db.batch(all);
}

interface SketchRow {
	readonly public_app_id: string;
	readonly app_id: string;
	readonly day: number;
	readonly sketch: string | null;
	readonly revision: number | null;
}

/** Reads the sketches of the days, adds who was there, and writes them unless another consumer was faster; then it begins again. */
async function mergeDevices(db: Database, seen: readonly DeviceSeen[]): Promise<void> {
	const added = new Map<string, { readonly appId: string; readonly day: number; sketch: Sketch }>();
	for (const event of seen) {
		const day = dayOf(event.atMs);
		const key = `${event.appId} ${day}`;
		const entry = added.get(key) ?? { appId: event.appId, day, sketch: emptySketch() };
		entry.sketch = addDevice(entry.sketch, event.deviceId);
		added.set(key, entry);
	}
	const wanted = JSON.stringify([...added.values()].map(({ appId, day }) => [appId, day]));
	await inTurns(async () => {
		const [known] = await db.batch([
			sql<SketchRow>`SELECT apps.app_id AS public_app_id, apps.id AS app_id, value ->> 1 AS day, d.sketch, d.revision
				FROM json_each(${wanted}) CROSS JOIN apps ON apps.app_id = value ->> 0
				LEFT JOIN daily_devices d ON d.app_id = apps.id AND d.day = value ->> 1`.compile(query),
		]);
		const statements = known.rows.flatMap((row) => {
			const entry = added.get(`${row.public_app_id} ${row.day}`);
			return entry === undefined ? [] : sketchWrite(row, entry.sketch);
		});
		if (statements.length === 0) return;
		await batchOrFail(db, statements, {
			"daily_devices.app_id, daily_devices.day": () => new Overtaken(),
			sketch_changed: () => new Overtaken(),
		});
	});
}

function sketchWrite(row: SketchRow, added: Sketch): CompiledQuery[] {
	if (row.sketch === null || row.revision === null) {
		return [
			query
				.insertInto("daily_devices")
				.values({ app_id: row.app_id, day: row.day, sketch: encodeSketch(added), revision: 1 })
				.compile(),
		];
	}
	const merged = encodeSketch(mergeSketches(decodeSketch(row.sketch), added));
	// Everybody was known already.
	if (merged === row.sketch) return [];
	return [
		guard(
			"sketch_changed",
			sql<boolean>`EXISTS (SELECT 1 FROM daily_devices WHERE app_id = ${row.app_id} AND day = ${row.day} AND revision = ${row.revision})`,
		),
		query
			.updateTable("daily_devices")
			.set({ sketch: merged, revision: row.revision + 1 })
			.where("app_id", "=", row.app_id)
			.where("day", "=", row.day)
			.compile(),
	];
}
