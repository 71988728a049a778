/**
 * Clean-up of statistics: measures the storage of each app, and removes rows beyond their
 * retention. Each run removes a bounded number of rows and the next run continues, so a large
 * backlog never blocks the database.
 */
import { type CompiledQuery, sql } from "kysely";
import { type Database, openDb, query } from "../../db/client";
import { deleteIdsBefore } from "../../db/counted-ids";
import { deleteLogBefore } from "../../db/device-events";
import { type Walk, walk } from "../../db/table-walk";
import type { Deps } from "../../deps";
import {
	dayOf,
	firstEventMs,
	firstRememberedDay,
	firstStatisticsDay,
	startOfDayMs,
} from "../../domain/statistics/days";
import { DAY_MS, MINUTE_MS } from "../../domain/time";

const MOST_STATISTICS_ROWS = 5_000;
/**
 * Rows of a range. No index finds old rows, because it would cost a written row per device; a row
 * read costs a thousandth.
 */
const MOST_ROWS_LOOKED_AT = 500;
/** Cron runs every 15 minutes, so the first run of a day measures the end of the day before. */
const CLEAN_UP_PERIOD_MS = 15 * MINUTE_MS;

const STATISTICS_TABLES = {
	daily_counts: ["app_id", "day", "version_name", "channel_name", "metric"],
	daily_totals: ["app_id", "day"],
	daily_install_times: ["app_id", "day", "version_name", "bucket"],
	daily_health: ["app_id", "day", "version_name", "signal", "bucket"],
	device_sketches: ["app_id", "day", "kind", "version_name", "slot"],
} as const;

/**
 * Storage is what triggers count for the quota (src/db/usage-triggers.ts), without what is not
 * stored yet. Reads one row per app, and writes one per app whose storage changed since the last
 * run.
 */
export async function measureStorage(deps: Deps): Promise<void> {
	const nowMs = deps.now();
	const today = dayOf(nowMs);
	const days = nowMs - startOfDayMs(today) < CLEAN_UP_PERIOD_MS ? [today - 1, today] : [today];
	await openDb(deps.d1, "first-primary").batch(
		days.map((day) =>
			query
				.insertInto("daily_storage")
				.columns(["app_id", "day", "size_bytes"])
				.expression((eb) =>
					eb
						.selectFrom("apps")
						.select((app) => [
							"apps.id",
							app.val(day).as("day"),
							app("apps.storage_bytes", "-", app.ref("apps.pending_bytes")).as("size_bytes"),
						])
						.where("apps.created_at_ms", "<", startOfDayMs(day + 1)),
				)
				.onConflict((conflict) =>
					conflict
						.columns(["app_id", "day"])
						.doUpdateSet((eb) => ({ size_bytes: eb.ref("excluded.size_bytes") }))
						.whereRef("daily_storage.size_bytes", "<>", "excluded.size_bytes"),
				)
				.compile(),
		),
	);
}

export async function deleteOldStorage(deps: Deps): Promise<void> {
	const db = openDb(deps.d1, "first-primary");
	await db.batch([deleteBefore("daily_storage", ["app_id", "day"], firstStatisticsDay(deps.config, deps.now()))]);
}

/** The consumer does not count events of these days (src/domain/statistics/days.ts). */
export async function deleteOldEvents(deps: Deps, db: Database): Promise<void> {
	const firstDay = firstRememberedDay(deps.config, deps.now());
	await db.batch([deleteIdsBefore(startOfDayMs(firstDay))]);
}

export async function deleteOldStatistics(deps: Deps, db: Database): Promise<void> {
	const firstDay = firstStatisticsDay(deps.config, deps.now());
	await db.batch(Object.entries(STATISTICS_TABLES).map(([table, key]) => deleteBefore(table, key, firstDay)));
}

/** By app, because the primary keys begin with the app: one index lookup each. */
function deleteBefore(table: string, key: readonly string[], firstDay: number): CompiledQuery {
	const columns = sql.join(key.map((column) => sql.ref(column)));
	const old = sql.join(key.map((column) => sql.ref(`old.${column}`)));
	return sql`DELETE FROM ${sql.table(table)} WHERE (${columns}) IN (SELECT ${old} FROM apps
		CROSS JOIN ${sql.table(table)} AS old ON old.app_id = apps.id AND old.day < ${firstDay} LIMIT ${MOST_STATISTICS_ROWS})`.compile(
		query,
	);
}

/** Devices with an override stay; the main database has these. */
export async function deleteOldDevices(deps: Deps, db: Database): Promise<void> {
	const unseen = sql`coalesce(last_seen_at_ms, updated_at_ms) < ${deps.now() - deps.config.deviceDays * DAY_MS}`;
	const all: Walk = {
		step: "devices",
		table: "devices",
		key: ["app_id", "device_id"],
		first: '["",""]',
		rows: MOST_ROWS_LOOKED_AT,
	};
	await walk(db, all, async (range) => {
		const [found] = await db.batch([
			sql<{
				app_id: string;
				device_id: string;
			}>`SELECT app_id, device_id FROM devices WHERE ${range} AND ${unseen}`.compile(query),
		]);
		const list = JSON.stringify(found.rows.map(({ app_id, device_id }) => [app_id, device_id]));
		const [set] = await openDb(deps.d1, "first-primary").batch([
			sql<{ device: string }>`SELECT value AS device FROM json_each(${list})
				WHERE EXISTS (SELECT 1 FROM device_overrides o WHERE o.app_id = value ->> 0 AND o.device_id = value ->> 1)`.compile(
				query,
			),
		]);
		const kept = JSON.stringify(set.rows.map(({ device }) => JSON.parse(device)));
		return [
			sql`DELETE FROM devices WHERE ${range} AND ${unseen}
				AND (app_id, device_id) NOT IN (SELECT value ->> 0, value ->> 1 FROM json_each(${kept}))`.compile(query),
		];
	});
}

/** All of them if none is kept. */
export async function deleteOldDeviceEvents(deps: Deps, db: Database): Promise<void> {
	const nowMs = deps.now();
	const firstMs = firstEventMs(deps.config, nowMs) ?? nowMs;
	await db.batch([deleteLogBefore(firstMs, MOST_STATISTICS_ROWS)]);
}
