/**
 * The consumer's work on what devices sent: device rows, the sketches of who was there, and the counts. A batch may be delivered again,
 * in another order, and twice at once: device rows take the latest, sketches are unions, and a count is added in the very batch that
 * inserts the event's id for the first time. So everything here may be repeated and nothing is counted twice.
 */
import { type CompiledQuery, sql } from "kysely";
import { batchOrFail, guard, openDb, query } from "../db/client";
import type { Deps } from "../deps";
import {
	addDevice,
	decodeSketch,
	emptySketch,
	encodeSketch,
	mergeSketches,
	type Sketch,
} from "../domain/distinct-count";
import type { CountedEvent, DeviceEvent, DeviceSeen } from "./messages";

const DAY_MS = 24 * 60 * 60 * 1000;
/** Far enough below D1's longest value of 2,000,000 bytes. */
const MOST_ROWS_A_STATEMENT = 1_000;
/** Two consumers that write the same sketch take turns; one that never gets its turn leaves the batch to the Queue's retry. */
const MOST_ATTEMPTS = 5;

export async function consumeDeviceEvents(deps: Deps, events: readonly DeviceEvent[]): Promise<void> {
	const seen = events.filter((event) => event.type === "seen");
	const counted = events.filter((event) => event.type === "count");
	const db = openDb(deps.d1, "first-primary");
	const runId = deps.newId();
	const statements = [
		...partsOf(latestOfEach(seen)).map(upsertDevices),
		...partsOf(counted).map((part) => insertCounted(part, runId)),
		...(counted.length === 0 ? [] : [addCounts(runId)]),
	];
	if (statements.length > 0) await db.batch(statements);
	if (seen.length > 0) await mergeDevices(deps, seen);
}

function partsOf<Item>(items: readonly Item[]): Item[][] {
	const parts: Item[][] = [];
	for (let index = 0; index < items.length; index += MOST_ROWS_A_STATEMENT) {
		parts.push(items.slice(index, index + MOST_ROWS_A_STATEMENT));
	}
	return parts;
}

function latestOfEach(seen: readonly DeviceSeen[]): DeviceSeen[] {
	const latest = new Map<string, DeviceSeen>();
	for (const event of seen) {
		const key = `${event.appId} ${event.deviceId}`;
		const known = latest.get(key);
		if (known === undefined || event.atMs >= known.atMs) {
			// A report says nothing of the channel; what the last check said stays.
			latest.set(key, { ...event, channelId: event.channelId ?? known?.channelId ?? null });
		}
	}
	return [...latest.values()];
}

/** Writes a row only when something changed or a day has passed; a row that is as it was costs a read. */
function upsertDevices(seen: readonly DeviceSeen[]): CompiledQuery {
	const text = (name: string) => sql`nullif(value ->> ${sql.lit(name)}, '')`;
	return sql`INSERT INTO devices (app_id, device_id, platform, version_name, version_build, os_version, plugin_version, is_prod,
			is_emulator, custom_id, install_source, key_id, default_channel, channel_id, last_seen_at_ms, created_at_ms, updated_at_ms)
		SELECT apps.id, value ->> 'deviceId', ${text("platform")}, ${text("versionName")}, ${text("versionBuild")}, ${text("osVersion")},
			${text("pluginVersion")}, value ->> 'isProd', value ->> 'isEmulator', ${text("customId")}, ${text("installSource")},
			${text("keyId")}, ${text("defaultChannel")}, value ->> 'channelId', value ->> 'atMs', value ->> 'atMs', value ->> 'atMs'
		FROM json_each(${JSON.stringify(seen)}) CROSS JOIN apps ON apps.app_id = value ->> 'appId'
		WHERE true
		ON CONFLICT (app_id, device_id) DO UPDATE SET platform = coalesce(excluded.platform, platform),
			version_name = coalesce(excluded.version_name, version_name), version_build = coalesce(excluded.version_build, version_build),
			os_version = coalesce(excluded.os_version, os_version), plugin_version = coalesce(excluded.plugin_version, plugin_version),
			is_prod = excluded.is_prod, is_emulator = excluded.is_emulator, custom_id = coalesce(excluded.custom_id, custom_id),
			install_source = coalesce(excluded.install_source, install_source), key_id = coalesce(excluded.key_id, key_id),
			default_channel = excluded.default_channel, channel_id = coalesce(excluded.channel_id, channel_id),
			last_seen_at_ms = excluded.last_seen_at_ms, updated_at_ms = excluded.updated_at_ms
		WHERE excluded.last_seen_at_ms >= coalesce(last_seen_at_ms, 0) AND (
			last_seen_at_ms IS NULL OR excluded.last_seen_at_ms / ${sql.lit(DAY_MS)} > last_seen_at_ms / ${sql.lit(DAY_MS)}
			OR coalesce(excluded.version_name, version_name) IS NOT version_name
			OR coalesce(excluded.version_build, version_build) IS NOT version_build
			OR coalesce(excluded.os_version, os_version) IS NOT os_version
			OR coalesce(excluded.plugin_version, plugin_version) IS NOT plugin_version
			OR coalesce(excluded.custom_id, custom_id) IS NOT custom_id
			OR coalesce(excluded.channel_id, channel_id) IS NOT channel_id
			OR excluded.default_channel IS NOT default_channel OR excluded.is_prod IS NOT is_prod)`.compile(query);
}

/** Ids that were counted before are left alone. A version that the app never had counts for the app alone. */
function insertCounted(events: readonly CountedEvent[], runId: string): CompiledQuery {
	return sql`INSERT INTO counted_events (id, app_id, day, version_name, metric, amount, run_id)
		SELECT value ->> 'id', apps.id, (value ->> 'atMs') / ${sql.lit(DAY_MS)},
			CASE WHEN EXISTS (SELECT 1 FROM bundles WHERE bundles.app_id = apps.id AND bundles.name = value ->> 'versionName'
				AND bundles.status <> 'pending') THEN value ->> 'versionName' ELSE '' END,
			value ->> 'metric', value ->> 'amount', ${runId}
		FROM json_each(${JSON.stringify(events)}) CROSS JOIN apps ON apps.app_id = value ->> 'appId'
		WHERE true ON CONFLICT (id) DO NOTHING`.compile(query);
}

/** Adds what this run, in this batch, has inserted. */
function addCounts(runId: string): CompiledQuery {
	return sql`INSERT INTO daily_counts (app_id, day, version_name, metric, amount)
		SELECT app_id, day, version_name, metric, sum(amount) FROM counted_events WHERE run_id = ${runId}
		GROUP BY app_id, day, version_name, metric
		ON CONFLICT (app_id, day, version_name, metric) DO UPDATE SET amount = amount + excluded.amount`.compile(query);
}

interface SketchRow {
	readonly public_app_id: string;
	readonly app_id: string;
	readonly day: number;
	readonly sketch: string | null;
	readonly revision: number | null;
}

/** Reads the sketches of the days, adds who was there, and writes them unless another consumer was faster; then it begins again. */
async function mergeDevices(deps: Deps, seen: readonly DeviceSeen[]): Promise<void> {
	const db = openDb(deps.d1, "first-primary");
	const added = new Map<string, { readonly appId: string; readonly day: number; sketch: Sketch }>();
	for (const event of seen) {
		const day = Math.floor(event.atMs / DAY_MS);
		const key = `${event.appId} ${day}`;
		const entry = added.get(key) ?? { appId: event.appId, day, sketch: emptySketch() };
		entry.sketch = addDevice(entry.sketch, event.deviceId);
		added.set(key, entry);
	}
	const wanted = JSON.stringify([...added.values()].map(({ appId, day }) => [appId, day]));
	for (let attempt = 1; ; attempt++) {
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
		try {
			await batchOrFail(db, statements, {
				"daily_devices.app_id, daily_devices.day": () => new SketchChanged(),
				sketch_changed: () => new SketchChanged(),
			});
			return;
		} catch (error) {
			if (!(error instanceof SketchChanged) || attempt === MOST_ATTEMPTS) throw error;
		}
	}
}

class SketchChanged extends Error {
	override readonly name = "SketchChanged";
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
