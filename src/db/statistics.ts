/**
 * Queries of statistics. Each statement is bounded by its range of days: one row per day and app
 * for totals, storage and sketches, and the versions and channels in use for the tables by bundle.
 * The database adds up; the caller merges sketches and histograms, because SQLite cannot.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { AppId, OrgId } from "../authz/decide";
import type { Signal } from "../domain/statistics/health-signals";
import { guard, jsonList, query, reportQuery } from "./client";

/** Days since 1970-01-01, UTC, both inclusive. */
export interface DayRange {
	readonly firstDay: number;
	readonly lastDay: number;
}

/** Whole organizations and single apps, by ids that a decision returned. */
export interface StatisticsOf {
	readonly orgIds: readonly OrgId[];
	readonly appIds: readonly AppId[];
}

export interface StatisticsApp {
	readonly id: AppId;
	readonly app_id: string;
	/** Binding of the telemetry database that has its reports. */
	readonly telemetry_binding: string;
	/** Stored now, as in `measureStorage` (src/features/statistics/retention.ts). */
	readonly stored_bytes: number;
}

export interface TotalsRow {
	/** UUID of the app; null for the sum of all apps. */
	readonly app: string | null;
	readonly day: number;
	readonly get_count: number;
	readonly install_count: number;
	readonly fail_count: number;
	readonly bandwidth_bytes: number;
	/** Without days whose sketches are not merged yet: see openSketches. */
	readonly device_count: number;
	/** Those of such days when they were merged last. */
	readonly open_device_count: number;
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

/**
 * A Worker has 128 MB for everything; a sketch is 22 kB at most, so these are a thousand of the
 * largest.
 */
export const MOST_SKETCH_BYTES = 24 * 1024 * 1024;

/** In the main database. */
const appsOf = ({ orgIds, appIds }: StatisticsOf): RawBuilder<unknown> => {
	const ofOrganizations = sql`owner_org IN ${jsonList(JSON.stringify(orgIds))}`;
	// A single app may be one of an organization, too.
	const single = sql` OR (id IN ${jsonList(JSON.stringify(appIds))} AND app_id <> id)`;
	return sql`(SELECT id, app_id, telemetry_binding, storage_bytes - pending_bytes AS stored_bytes FROM apps
		WHERE ${ofOrganizations}${appIds.length === 0 ? sql`` : single})`;
};

/** In a telemetry database. */
const reportsOf = (appIds: readonly string[]): RawBuilder<unknown> =>
	sql`(SELECT value AS id FROM json_each(${JSON.stringify(appIds)}))`;

const within = (table: string, { firstDay, lastDay }: DayRange) =>
	sql`${sql.ref(`${table}.app_id`)} = app.id AND ${sql.ref(`${table}.day`)} BETWEEN ${firstDay} AND ${lastDay}`;

/** Days of an app whose slots are not merged yet: today, and days that messages came late for. */
const isOpen = (table: string) => sql`EXISTS (SELECT 1 FROM device_sketches slots INDEXED BY device_sketches_open
	WHERE slots.app_id = ${sql.ref(`${table}.app_id`)} AND slots.day = ${sql.ref(`${table}.day`)} AND slots.slot > 0)`;

export function statisticsApps(of: StatisticsOf): CompiledQuery<StatisticsApp> {
	return sql<StatisticsApp>`SELECT id, app_id, telemetry_binding, stored_bytes FROM ${appsOf(of)} AS found ORDER BY app_id`.compile(
		query,
	);
}

/** A row a day, or a row a day and app. */
export function dailyTotals(appIds: readonly string[], range: DayRange, byApp: boolean): CompiledQuery<TotalsRow> {
	const app = byApp ? sql`app.id` : sql`NULL`;
	return sql<TotalsRow>`SELECT ${app} AS app, t.day, sum(t.get_count) AS get_count, sum(t.install_count) AS install_count,
			sum(t.fail_count) AS fail_count, sum(t.bandwidth_bytes) AS bandwidth_bytes, 
			coalesce(sum(t.device_count) FILTER (WHERE NOT ${isOpen("t")}), 0) AS device_count,
			coalesce(sum(t.device_count) FILTER (WHERE ${isOpen("t")}), 0) AS open_device_count,
			sum(t.lost_event_count) AS lost_event_count, sum(t.refused_device_count) AS refused_device_count
		FROM ${reportsOf(appIds)} AS app CROSS JOIN daily_totals t ON ${within("t", range)}
		GROUP BY 1, 2 ORDER BY 1, 2`.compile(query);
}

export function dailyStorage(of: StatisticsOf, range: DayRange, byApp: boolean): CompiledQuery<StorageRow> {
	const app = byApp ? sql`app.id` : sql`NULL`;
	return sql<StorageRow>`SELECT ${app} AS app, s.day, sum(s.size_bytes) AS size_bytes
		FROM ${appsOf(of)} AS app CROSS JOIN daily_storage s ON ${within("s", range)}
		GROUP BY 1, 2 ORDER BY 1, 2`.compile(query);
}

const sketchesIn = (appIds: readonly string[], range: DayRange) =>
	sql`(SELECT app.id AS app, s.day, s.sketch FROM ${reportsOf(appIds)} AS app
		CROSS JOIN device_sketches s ON ${within("s", range)} AND s.kind = 'all')`;

/** Must precede `dailySketches` in its batch, which then fails instead of filling the memory. */
export function sketchesFit(appIds: readonly string[], range: DayRange, tooMany: () => Error): CompiledQuery {
	return guard(
		sql<boolean>`(SELECT coalesce(sum(octet_length(sketch)), 0) FROM ${sketchesIn(appIds, range)}) <= ${MOST_SKETCH_BYTES}`,
		tooMany,
	);
}

/** A day may have several, which the caller merges. */
export function dailySketches(appIds: readonly string[], range: DayRange): CompiledQuery<SketchOfDay> {
	return sql<SketchOfDay>`SELECT app, day, sketch FROM ${sketchesIn(appIds, range)} ORDER BY 1, 2`.compile(query);
}

/**
 * Sketches of days whose slots are not merged yet; `device_count` of dailyTotals has the other
 * days. None if there are too many to merge in one request: the last clean-up has counted these
 * days, too.
 */
export function openSketches(appIds: readonly string[], range: DayRange): CompiledQuery<SketchOfDay> {
	return sql<SketchOfDay>`WITH open AS MATERIALIZED (
			SELECT app.id AS app, s.day, s.sketch FROM ${reportsOf(appIds)} AS app
				CROSS JOIN device_sketches s ON ${within("s", range)} AND s.kind = 'all' AND ${isOpen("s")})
		SELECT app, day, sketch FROM open
		WHERE (SELECT sum(octet_length(sketch)) FROM open) <= ${MOST_SKETCH_BYTES} ORDER BY 1, 2`.compile(query);
}

export interface VersionSketchRow {
	readonly day: number;
	readonly kind: "version" | "moved";
	readonly version_name: string;
	/** Devices when the day was merged last. */
	readonly devices: number | null;
	/** Null unless the day has slots that are not merged yet. */
	readonly sketch: string | null;
}

/** Devices by version, without those that are in `dailyVersions`. */
export function versionSketches(appId: AppId, range: DayRange): CompiledQuery<VersionSketchRow> {
	return sql<VersionSketchRow>`WITH rows AS MATERIALIZED (SELECT s.day, s.kind, s.version_name, s.devices,
				CASE WHEN ${isOpen("s")} THEN s.sketch END AS sketch
			FROM device_sketches s WHERE s.app_id = ${appId} AND s.day BETWEEN ${range.firstDay} AND ${range.lastDay}
				AND s.kind IN ('version', 'moved'))
		SELECT day, kind, version_name, devices,
			CASE WHEN (SELECT sum(octet_length(sketch)) FROM rows) <= ${MOST_SKETCH_BYTES} THEN sketch END AS sketch FROM rows`.compile(
		query,
	);
}

export interface VersionRow {
	readonly version_name: string;
	readonly day: number;
	readonly amount: number;
}

/**
 * Devices whose version changed on the day, by their last one; of days before sketches by version,
 * all devices.
 */
export function dailyVersions(appId: AppId, range: DayRange): CompiledQuery<VersionRow> {
	return reportQuery
		.selectFrom("daily_counts")
		.select(["version_name", "day", "amount"])
		.where("app_id", "=", appId)
		.where((eb) => eb.between("day", range.firstDay, range.lastDay))
		.where("metric", "=", "devices")
		.where("amount", ">", 0)
		.orderBy("day")
		.orderBy("version_name")
		.compile();
}

export interface OutcomeRow {
	readonly version_name: string;
	readonly channel_name: string;
	readonly install: number;
	readonly fail: number;
}

/** Installs and failures by bundle and channel. */
export function outcomesByBundle(appId: AppId, range: DayRange): CompiledQuery<OutcomeRow> {
	return reportQuery
		.selectFrom("daily_counts")
		.select((eb) => [
			"version_name",
			"channel_name",
			eb.fn.coalesce(eb.fn.sum<number>("amount").filterWhere("metric", "=", "install"), eb.lit(0)).as("install"),
			eb.fn.coalesce(eb.fn.sum<number>("amount").filterWhere("metric", "=", "fail"), eb.lit(0)).as("fail"),
		])
		.where("app_id", "=", appId)
		.where((eb) => eb.between("day", range.firstDay, range.lastDay))
		.where("metric", "in", ["install", "fail"])
		.groupBy(["version_name", "channel_name"])
		.orderBy("version_name")
		.orderBy("channel_name")
		.compile();
}

export interface InstallTimeRow {
	readonly version_name: string;
	readonly bucket: number;
	readonly amount: number;
}

export function installTimesByBundle(appId: AppId, range: DayRange): CompiledQuery<InstallTimeRow> {
	return reportQuery
		.selectFrom("daily_install_times")
		.select((eb) => ["version_name", "bucket", eb.fn.sum<number>("amount").as("amount")])
		.where("app_id", "=", appId)
		.where((eb) => eb.between("day", range.firstDay, range.lastDay))
		.groupBy(["version_name", "bucket"])
		.compile();
}

export interface HealthRow {
	readonly version_name: string;
	readonly day: number;
	readonly signal: Signal;
	/** Bucket of a launch; 0 for the other signals. */
	readonly bucket: number;
	readonly amount: number;
}

/** The signal is the cause of a failure. */
const IS_CAUSE = sql<boolean>`(${sql.ref("signal")} LIKE 'failed~_%' ESCAPE '~')`;

/** @param version undefined: all of them */
export function dailyHealth(appId: AppId, range: DayRange, version: string | undefined): CompiledQuery<HealthRow> {
	return reportQuery
		.selectFrom("daily_health")
		.select((eb) => ["version_name", "day", "bucket", "amount", eb.ref("signal").$castTo<Signal>().as("signal")])
		.where("app_id", "=", appId)
		.where((eb) => eb.between("day", range.firstDay, range.lastDay))
		.$if(version !== undefined, (rows) => rows.where("version_name", "=", version ?? ""))
		.where(sql<boolean>`NOT ${IS_CAUSE}`)
		.orderBy("version_name")
		.orderBy("day")
		.compile();
}

interface FailureRow {
	readonly version_name: string;
	/** See `storedCause`. */
	readonly signal: string;
	/** Devices, each once a day. */
	readonly amount: number;
}

/** @param version undefined: all of them */
export function failuresByCause(
	appId: AppId,
	range: DayRange,
	version: string | undefined = undefined,
): CompiledQuery<FailureRow> {
	return reportQuery
		.selectFrom("daily_health")
		.select((eb) => ["version_name", "signal", eb.fn.sum<number>("amount").as("amount")])
		.where("app_id", "=", appId)
		.where((eb) => eb.between("day", range.firstDay, range.lastDay))
		.$if(version !== undefined, (rows) => rows.where("version_name", "=", version ?? ""))
		.where(IS_CAUSE)
		.groupBy(["version_name", "signal"])
		.compile();
}

export interface InstallTimeOfDayRow {
	readonly day: number;
	readonly bucket: number;
	readonly amount: number;
}

export function installTimesByDay(appId: AppId, range: DayRange): CompiledQuery<InstallTimeOfDayRow> {
	return reportQuery
		.selectFrom("daily_install_times")
		.select((eb) => ["day", "bucket", eb.fn.sum<number>("amount").as("amount")])
		.where("app_id", "=", appId)
		.where((eb) => eb.between("day", range.firstDay, range.lastDay))
		.groupBy(["day", "bucket"])
		.compile();
}
