/**
 * Reading statistics. What one statement reads is bounded by its range: a row a day and app of the totals, of storage and of the
 * sketches, and by what happened on those days for the tables by bundle. Sums are made by the database; sketches and histograms are
 * merged by the caller, because SQLite cannot.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { AppId, OrgId } from "../authz/decide";
import { guard, jsonList, query } from "./client";

/** Days since 1970-01-01, UTC, both inclusive. */
export interface DayRange {
	readonly firstDay: number;
	readonly lastDay: number;
}

/** Whole organizations and single apps; the ids were decided. */
export interface StatisticsOf {
	readonly orgIds: readonly OrgId[];
	readonly appIds: readonly AppId[];
}

export interface StatisticsApp {
	readonly id: string;
	readonly app_id: string;
}

export interface TotalsRow {
	/** UUID of the app; null where the apps are added up. */
	readonly app: string | null;
	readonly day: number;
	readonly get_count: number;
	readonly install_count: number;
	readonly fail_count: number;
	readonly bandwidth_bytes: number;
	readonly device_count: number;
	readonly lost_event_count: number;
	readonly refused_device_count: number;
}

export interface StorageRow {
	readonly app: string | null;
	readonly day: number;
	readonly size_bytes: number;
}

export interface SketchOfDay {
	readonly app: string;
	readonly day: number;
	readonly sketch: string;
}

/** A Worker has 128 MB for everything; a sketch is 22 kB at most, so these are a thousand of the largest. */
export const MOST_SKETCH_BYTES = 24 * 1024 * 1024;
export const TOO_MANY_SKETCHES = "sketches_fit_into_memory";

const appsOf = ({ orgIds, appIds }: StatisticsOf): RawBuilder<unknown> =>
	sql`(SELECT id, app_id FROM apps WHERE owner_org IN ${jsonList(JSON.stringify(orgIds))}
		UNION SELECT id, app_id FROM apps WHERE id IN ${jsonList(JSON.stringify(appIds))} AND app_id <> id)`;

const within = (table: string, { firstDay, lastDay }: DayRange) =>
	sql`${sql.ref(`${table}.app_id`)} = app.id AND ${sql.ref(`${table}.day`)} BETWEEN ${firstDay} AND ${lastDay}`;

export function statisticsApps(of: StatisticsOf): CompiledQuery<StatisticsApp> {
	return sql<StatisticsApp>`SELECT id, app_id FROM ${appsOf(of)} ORDER BY app_id`.compile(query);
}

/** A row a day, or a row a day and app. */
export function dailyTotals(of: StatisticsOf, range: DayRange, byApp: boolean): CompiledQuery<TotalsRow> {
	const app = byApp ? sql`app.id` : sql`NULL`;
	return sql<TotalsRow>`SELECT ${app} AS app, t.day, sum(t.get_count) AS get_count, sum(t.install_count) AS install_count,
			sum(t.fail_count) AS fail_count, sum(t.bandwidth_bytes) AS bandwidth_bytes, sum(t.device_count) AS device_count,
			sum(t.lost_event_count) AS lost_event_count, sum(t.refused_device_count) AS refused_device_count
		FROM ${appsOf(of)} AS app CROSS JOIN daily_totals t ON ${within("t", range)}
		GROUP BY 1, 2 ORDER BY 1, 2`.compile(query);
}

export function dailyStorage(of: StatisticsOf, range: DayRange, byApp: boolean): CompiledQuery<StorageRow> {
	const app = byApp ? sql`app.id` : sql`NULL`;
	return sql<StorageRow>`SELECT ${app} AS app, s.day, sum(s.size_bytes) AS size_bytes
		FROM ${appsOf(of)} AS app CROSS JOIN daily_storage s ON ${within("s", range)}
		GROUP BY 1, 2 ORDER BY 1, 2`.compile(query);
}

export interface StoredNowRow {
	/** UUID of the app. */
	readonly app: string;
	readonly size_bytes: number;
	/** Bundles and files that were added up. */
	readonly counted: number;
}

/** Bundles and files that one request adds up; two D1 rows each at most. */
export const MOST_STORED_NOW = 50_000;

/**
 * Current storage of apps, added up as in `measureStorage` (src/events/retention.ts); an app without bytes has no row. The query reads at
 * most `MOST_STORED_NOW` + 1 rows. If `counted` adds up to that number, the sums are incomplete.
 */
export function storedNow(of: StatisticsOf, most = MOST_STORED_NOW): CompiledQuery<StoredNowRow> {
	return sql<StoredNowRow>`SELECT app, sum(size_bytes) AS size_bytes, count(*) AS counted FROM (
			SELECT app.id AS app, b.size_bytes FROM ${appsOf(of)} AS app CROSS JOIN bundles b ON b.app_id = app.id
				AND b.deleted_at_ms IS NULL AND b.status = 'ready' AND b.object_key IS NOT NULL
			UNION ALL SELECT app.id, f.size_bytes FROM ${appsOf(of)} AS app CROSS JOIN delta_objects f ON f.app_id = app.id
			LIMIT ${most + 1}) GROUP BY app ORDER BY app`.compile(query);
}

/** Belongs before `dailySketches` in its batch, which then breaks off instead of filling the memory. */
export function sketchesFit(of: StatisticsOf, range: DayRange): CompiledQuery {
	return guard(
		TOO_MANY_SKETCHES,
		sql<boolean>`(SELECT coalesce(sum(octet_length(d.sketch)), 0) FROM ${appsOf(of)} AS app
			CROSS JOIN daily_devices d ON ${within("d", range)}) <= ${MOST_SKETCH_BYTES}`,
	);
}

export function dailySketches(of: StatisticsOf, range: DayRange): CompiledQuery<SketchOfDay> {
	return sql<SketchOfDay>`SELECT app.id AS app, d.day, d.sketch FROM ${appsOf(of)} AS app
		CROSS JOIN daily_devices d ON ${within("d", range)} ORDER BY 1, 2`.compile(query);
}

export interface VersionRow {
	readonly version_name: string;
	readonly day: number;
	readonly amount: number;
}

/** Devices by the version they ran. */
export function dailyVersions(appId: AppId, range: DayRange): CompiledQuery<VersionRow> {
	return sql<VersionRow>`SELECT version_name, day, amount FROM daily_counts
		WHERE app_id = ${appId} AND day BETWEEN ${range.firstDay} AND ${range.lastDay} AND metric = 'devices' AND amount > 0
		ORDER BY day, version_name`.compile(query);
}

export interface OutcomeRow {
	readonly version_name: string;
	readonly channel_name: string;
	readonly install: number;
	readonly fail: number;
}

/** Installs and failures by bundle and channel. */
export function outcomesByBundle(appId: AppId, range: DayRange): CompiledQuery<OutcomeRow> {
	return sql<OutcomeRow>`SELECT version_name, channel_name, coalesce(sum(amount) FILTER (WHERE metric = 'install'), 0) AS install,
			coalesce(sum(amount) FILTER (WHERE metric = 'fail'), 0) AS fail
		FROM daily_counts WHERE app_id = ${appId} AND day BETWEEN ${range.firstDay} AND ${range.lastDay} AND metric IN ('install', 'fail')
		GROUP BY version_name, channel_name ORDER BY version_name, channel_name`.compile(query);
}

export interface InstallTimeRow {
	readonly version_name: string;
	readonly bucket: number;
	readonly amount: number;
}

export function installTimesByBundle(appId: AppId, range: DayRange): CompiledQuery<InstallTimeRow> {
	return sql<InstallTimeRow>`SELECT version_name, bucket, sum(amount) AS amount FROM daily_install_times
		WHERE app_id = ${appId} AND day BETWEEN ${range.firstDay} AND ${range.lastDay} GROUP BY version_name, bucket`.compile(
		query,
	);
}

export interface InstallTimeOfDayRow {
	readonly day: number;
	readonly bucket: number;
	readonly amount: number;
}

export function installTimesByDay(appId: AppId, range: DayRange): CompiledQuery<InstallTimeOfDayRow> {
	return sql<InstallTimeOfDayRow>`SELECT day, bucket, sum(amount) AS amount FROM daily_install_times
		WHERE app_id = ${appId} AND day BETWEEN ${range.firstDay} AND ${range.lastDay} GROUP BY day, bucket`.compile(query);
}
