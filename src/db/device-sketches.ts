/**
 * Sketches of the devices of a day (src/domain/statistics/distinct-count.ts), in slots: a consumer
 * adds devices to a slot that it draws, so consumers that run at the same time do not wait for each
 * other, and readers merge the slots. Clean-up merges them into slot 0, together with the number of
 * devices, so that figures of past days need no sketch.
 */
import { type CompiledQuery, sql } from "kysely";
import type { AppId } from "../authz/decide";
import { guard, query, reportQuery } from "./client";
import { conflict } from "./optimistic";

/** A consumer draws one of the slots from 1 to this. */
export const SLOTS = 16;

/**
 * Sketches by version that no event can change any more: their number is kept. Reads a few rows per
 * app, of the last days before that.
 * @param before the first day whose events are counted
 */
export function closeVersionSketches(before: number): CompiledQuery[] {
	const ended = (alias: string) =>
		sql`apps.id = ${sql.ref(`${alias}.app_id`)} AND ${sql.ref(`${alias}.day`)} BETWEEN ${before - CLOSED_DAYS} AND ${before - 1}`;
	const key = sql`(app_id, day, kind, version_name, slot)`;
	return [
		sql`DELETE FROM device_sketches WHERE ${key} IN (SELECT s.app_id, s.day, s.kind, s.version_name, s.slot
			FROM apps CROSS JOIN device_sketches s ON ${ended("s")} WHERE s.kind = 'moved')`.compile(query),
		sql`UPDATE device_sketches SET sketch = '' WHERE ${key} IN (SELECT s.app_id, s.day, s.kind, s.version_name, s.slot
			FROM apps CROSS JOIN device_sketches s ON ${ended("s")} WHERE s.kind = 'version' AND s.slot = 0 AND s.sketch <> '')`.compile(
			query,
		),
	];
}

/**
 * `all`: devices of the day. `version`: those that reported the version and no other. `moved`:
 * those among them that turned out to have changed their version on the day; they are counted in
 * `daily_counts` under their last version.
 */
type SketchKind = "all" | "version" | "moved";

/**
 * Days that a run of the clean-up looks at; more are left until their statistics are removed, if
 * none runs for so long.
 */
const CLOSED_DAYS = 3;

export interface SketchKey {
	/** Public id. */
	readonly appId: string;
	readonly day: number;
	readonly kind: SketchKind;
	/** Empty for `all`. */
	readonly version: string;
}

interface SlotRow {
	/** Index of the key. */
	readonly position: number;
	/** UUID of the app. */
	readonly app: string;
	/** Null if there is no row. */
	readonly sketch: string | null;
	readonly revision: number | null;
}

/** The rows of the keys in their slots; no row for apps that do not exist. */
export function slotRows(keys: readonly SketchKey[], slots: readonly number[]): CompiledQuery<SlotRow> {
	const wanted = JSON.stringify(
		keys.map(({ appId, day, kind, version }, index) => [appId, day, kind, version, slots[index]]),
	);
	return sql<SlotRow>`SELECT key AS position, apps.id AS app, s.sketch, s.revision
		FROM json_each(${wanted}) CROSS JOIN apps ON apps.id = value ->> 0
		LEFT JOIN device_sketches s ON s.app_id = apps.id AND s.day = value ->> 1 AND s.kind = value ->> 2
			AND s.version_name = value ->> 3 AND s.slot = value ->> 4`.compile(query);
}

/** Changes one row, or none if another consumer wrote the slot since `row` was read. */
export function writeSlot(
	{ day, kind, version }: SketchKey,
	slot: number,
	{ app, revision }: SlotRow,
	sketch: string,
): CompiledQuery {
	if (revision === null) {
		return reportQuery
			.insertInto("device_sketches")
			.values({ app_id: app, day, kind, version_name: version, slot, sketch, revision: 1 })
			.onConflict((conflict) => conflict.columns(["app_id", "day", "kind", "version_name", "slot"]).doNothing())
			.compile();
	}
	return reportQuery
		.updateTable("device_sketches")
		.set((eb) => ({ sketch, revision: eb("revision", "+", 1) }))
		.where((eb) => eb.and({ app_id: app, day, kind, version_name: version, slot, revision }))
		.compile();
}

interface OpenDay {
	readonly app_id: AppId;
	readonly day: number;
}

/** Days with slots to merge. */
export function openDays(limit: number): CompiledQuery<OpenDay> {
	return sql<OpenDay>`SELECT DISTINCT app_id, day FROM device_sketches INDEXED BY device_sketches_open
		WHERE slot > 0 ORDER BY app_id, day LIMIT ${limit}`.compile(query);
}

export interface SketchRow {
	readonly kind: SketchKind;
	readonly version_name: string;
	readonly slot: number;
	readonly sketch: string;
	readonly revision: number;
}

/** Every sketch of a day. */
export function sketchesOfDay({ app_id, day }: OpenDay): CompiledQuery<SketchRow> {
	return reportQuery
		.selectFrom("device_sketches")
		.select(["kind", "version_name", "slot", "sketch", "revision"])
		.where("app_id", "=", app_id)
		.where("day", "=", day)
		.compile();
}

export interface MergedSketch {
	readonly kind: SketchKind;
	readonly version_name: string;
	readonly sketch: string;
	/** Null for `moved`. */
	readonly devices: number | null;
}

/**
 * Replaces the slots of a day by their union. Only the given rows are removed, and only as they
 * were read.
 * @throws {Conflict} from the batch, if another run merged the day since
 */
export function mergeSlots(
	{ app_id, day }: OpenDay,
	merged: readonly MergedSketch[],
	rows: readonly SketchRow[],
): CompiledQuery[] {
	const read = JSON.stringify(
		rows
			.filter(({ slot }) => slot > 0)
			.map(({ kind, version_name, slot, revision }) => [kind, version_name, slot, revision]),
	);
	const written = JSON.stringify(
		merged.map(({ kind, version_name, sketch, devices }) => [kind, version_name, sketch, devices]),
	);
	const isUnmerged = sql<boolean>`(SELECT coalesce(sum(revision), 0) FROM device_sketches
		WHERE app_id = ${app_id} AND day = ${day} AND slot = 0) = ${rows.reduce((sum, { slot, revision }) => sum + (slot === 0 ? revision : 0), 0)}`;
	return [
		guard(isUnmerged, conflict),
		sql`INSERT INTO device_sketches (app_id, day, kind, version_name, slot, sketch, devices, revision)
			SELECT apps.id, ${day}, value ->> 0, value ->> 1, 0, value ->> 2, value ->> 3, 1
			FROM json_each(${written}) CROSS JOIN apps ON apps.id = ${app_id} WHERE true
			ON CONFLICT (app_id, day, kind, version_name, slot) DO UPDATE SET sketch = excluded.sketch, devices = excluded.devices,
				revision = revision + 1`.compile(query),
		// Figures of merged days are read from the totals.
		sql`INSERT INTO daily_totals (app_id, day, device_count)
			SELECT apps.id, ${day}, value ->> 3 FROM json_each(${written}) CROSS JOIN apps ON apps.id = ${app_id} WHERE value ->> 0 = 'all'
			ON CONFLICT (app_id, day) DO UPDATE SET device_count = excluded.device_count
				WHERE device_count <> excluded.device_count`.compile(query),
		// A slot that changed since stays, and is merged by the next run.
		sql`DELETE FROM device_sketches WHERE app_id = ${app_id} AND day = ${day} AND (kind, version_name, slot, revision) IN (
			SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(${read}))`.compile(query),
	];
}
