/**
 * What the sweep does for statistics: it looks at how much every app stores, and removes what is older than the configuration keeps. Each
 * run removes a bounded number of rows and the next goes on, so that a large backlog never stops the database.
 */
import { type CompiledQuery, sql } from "kysely";
import { openDb, query } from "../db/client";
import type { Deps } from "../deps";
import { DAY_MS } from "../domain/time";
import { dayOf, firstRememberedDay, firstStatisticsDay, startOfDayMs } from "./days";

/** Of the ids of events: forty times a quarter of an hour of a hundred events a second would be too much for one statement. */
const MOST_EVENTS_A_STATEMENT = 10_000;
const MOST_EVENT_STATEMENTS = 10;
const MOST_STATISTICS_ROWS = 5_000;
/** Rows that are looked at in one run. */
const MOST_DEVICES = 5_000;
/** Longer than the consumer takes events for, so no step comes any more between two that are gone. */
const INSTALL_STEP_LIFETIME_MS = 31 * DAY_MS;
/** Cron comes every fifteen minutes: the first run of a day sees what the day before ended with. */
const SWEEP_PERIOD_MS = 15 * 60 * 1000;

const STATISTICS_TABLES = {
	daily_counts: ["app_id", "day", "version_name", "channel_name", "metric"],
	daily_totals: ["app_id", "day"],
	daily_install_times: ["app_id", "day", "version_name", "bucket"],
	daily_devices: ["app_id", "day"],
	daily_storage: ["app_id", "day"],
} as const;

/** Reads a row for every app, stored bundle and file, and writes one for every app whose storage is another than at the last look. */
export async function measureStorage(deps: Deps): Promise<void> {
	const nowMs = deps.now();
	const today = dayOf(nowMs);
	const days = nowMs - startOfDayMs(today) < SWEEP_PERIOD_MS ? [today - 1, today] : [today];
	await openDb(deps.d1, "first-primary").batch(
		days.map((day) =>
			sql`INSERT INTO daily_storage (app_id, day, size_bytes)
				SELECT apps.id, ${day}, (SELECT coalesce(sum(size_bytes), 0) FROM bundles
						WHERE app_id = apps.id AND status = 'ready' AND object_key IS NOT NULL)
					+ (SELECT coalesce(sum(size_bytes), 0) FROM delta_objects WHERE app_id = apps.id)
				FROM apps WHERE created_at_ms < ${startOfDayMs(day + 1)}
				ON CONFLICT (app_id, day) DO UPDATE SET size_bytes = excluded.size_bytes WHERE size_bytes <> excluded.size_bytes`.compile(
				query,
			),
		),
	);
}

/** The consumer counts nothing of these days any more (src/events/days.ts). */
export async function forgetEvents(deps: Deps): Promise<void> {
	const db = openDb(deps.d1, "first-primary");
	const firstDay = firstRememberedDay(deps.config, deps.now());
	for (let statement = 0; statement < MOST_EVENT_STATEMENTS; statement++) {
		const [removed] = await db.batch([
			sql`DELETE FROM counted_events WHERE (day, id) IN
				(SELECT day, id FROM counted_events WHERE day < ${firstDay} LIMIT ${MOST_EVENTS_A_STATEMENT})`.compile(query),
		]);
		if (removed.changes < MOST_EVENTS_A_STATEMENT) return;
	}
}

export async function forgetStatistics(deps: Deps): Promise<void> {
	const firstDay = firstStatisticsDay(deps.config, deps.now());
	const removals = Object.entries(STATISTICS_TABLES).map(([table, key]): CompiledQuery => {
		const columns = sql.join(key.map((column) => sql.ref(column)));
		const old = sql.join(key.map((column) => sql.ref(`old.${column}`)));
		// By app, because the keys begin with it: one look at each, whatever there is.
		return sql`DELETE FROM ${sql.table(table)} WHERE (${columns}) IN (SELECT ${old} FROM apps
			CROSS JOIN ${sql.table(table)} AS old ON old.app_id = apps.id AND old.day < ${firstDay} LIMIT ${MOST_STATISTICS_ROWS})`.compile(
			query,
		);
	});
	await openDb(deps.d1, "first-primary").batch(removals);
}

export async function forgetDevices(deps: Deps): Promise<void> {
	const unseenSinceMs = deps.now() - deps.config.deviceDays * DAY_MS;
	await removeFromPart(
		deps,
		"devices",
		sql`coalesce(last_seen_at_ms, updated_at_ms) < ${unseenSinceMs} AND NOT EXISTS (SELECT 1 FROM device_overrides o
			WHERE o.app_id = devices.app_id AND o.device_id = devices.device_id)`,
	);
}

export async function forgetInstallSteps(deps: Deps): Promise<void> {
	await removeFromPart(deps, "install_steps", sql`at_ms < ${deps.now() - INSTALL_STEP_LIFETIME_MS}`);
}

/**
 * Goes through a table without an index by age, a part in each run. An index would cost a written row with every device and install; a
 * look costs a thousandth of that.
 */
async function removeFromPart(
	deps: Deps,
	table: "devices" | "install_steps",
	condition: ReturnType<typeof sql>,
): Promise<void> {
	const db = openDb(deps.d1, "first-primary");
	const position = sql`coalesce((SELECT position FROM sweep_positions WHERE step = ${table}), '["",""]')`;
	const start = sql`(${position} ->> 0, ${position} ->> 1)`;
	const [end] = await db.batch([
		sql<{ position: string }>`SELECT json_array(app_id, device_id) AS position FROM ${sql.table(table)}
			WHERE (app_id, device_id) > ${start} ORDER BY app_id, device_id LIMIT 1 OFFSET ${MOST_DEVICES - 1}`.compile(
			query,
		),
	]);
	const next = end.rows[0]?.position;
	const until = next === undefined ? sql`true` : sql`(app_id, device_id) <= (${next} ->> 0, ${next} ->> 1)`;
	await db.batch([
		sql`DELETE FROM ${sql.table(table)} WHERE (app_id, device_id) > ${start} AND ${until} AND ${condition}`.compile(
			query,
		),
		// After the last part comes the first.
		sql`INSERT INTO sweep_positions (step, position) VALUES (${table}, ${next ?? '["",""]'})
			ON CONFLICT (step) DO UPDATE SET position = excluded.position WHERE position <> excluded.position`.compile(query),
	]);
}
