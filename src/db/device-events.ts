/**
 * The log of an app's device events: one row for each batch of the consumer, written in one batch
 * with the rows of the devices, so an event is logged exactly once. Events are read newest first by
 * the time at which they were stored.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { AppId } from "../authz/decide";
import { EVENT_KINDS, type EventKind, type StoredEvent } from "../domain/statistics/device-story";
import { jsonChunks } from "./chunks";
import { query, reportQuery } from "./client";

/** The device and its event. */
export type LoggedEvent = readonly [deviceId: string, ...StoredEvent];

/** Apps by UUID. */
export function logEvents(
	events: ReadonlyMap<string, readonly LoggedEvent[]>,
	atMs: number,
	newId: () => string,
): CompiledQuery[] {
	return [...events].flatMap(([app, own]) =>
		jsonChunks(own).map(({ json }) =>
			reportQuery
				.insertInto("device_events")
				.columns(["app_id", "at_ms", "id", "events"])
				.expression((eb) =>
					eb
						.selectFrom("apps")
						.select(["apps.id", eb.val(atMs).as("at_ms"), eb.val(newId()).as("row"), eb.val(json).as("events")])
						.where("apps.id", "=", app),
				)
				.compile(),
		),
	);
}

/** Place of an event in the log. */
export interface LogPlace {
	readonly atMs: number;
	readonly id: string;
	/** Within its row. */
	readonly index: number;
}

export interface LogFilter {
	readonly kinds: readonly EventKind[] | undefined;
	readonly version: string | undefined;
	readonly device: string | undefined;
	/** The platform that the device reported last. */
	readonly platform?: string | undefined;
	/** The channel of the device's last check; undefined: every one. */
	readonly channelId?: number | undefined;
	readonly fromMs: number | undefined;
	readonly toMs: number | undefined;
}

export interface LogRow {
	readonly at_ms: number;
	readonly id: string;
	readonly place: number;
	readonly event: string;
}

/** Rows that one request reads. */
export const MOST_LOG_ROWS = 1_000;

const after = (sinceMs: number | undefined) => (sinceMs === undefined ? sql`true` : sql`at_ms >= ${sinceMs}`);

const scanned = (appId: AppId, before: LogPlace | undefined, sinceMs: number | undefined): RawBuilder<unknown> =>
	sql`(SELECT at_ms, id, events FROM device_events WHERE app_id = ${appId} AND ${after(sinceMs)}
		AND ${before === undefined ? sql`true` : sql`(at_ms, id) <= (${before.atMs}, ${before.id})`}
		ORDER BY at_ms DESC, id DESC LIMIT ${sql.lit(MOST_LOG_ROWS)})`;

/**
 * Events before a place, newest first, out of at most `MOST_LOG_ROWS` rows.
 * @param sinceMs rows stored before it are left out
 */
export function loggedEvents(
	appId: AppId,
	{ kinds, version, device, platform, channelId, fromMs, toMs }: LogFilter,
	{
		before,
		sinceMs,
		limit,
	}: { readonly before: LogPlace | undefined; readonly sinceMs: number | undefined; readonly limit: number },
): CompiledQuery<LogRow> {
	const codes = (kinds ?? EVENT_KINDS).map((kind) => EVENT_KINDS.indexOf(kind));
	const conditions = [
		sql`e.value ->> 2 IN (SELECT value FROM json_each(${JSON.stringify(codes)}))`,
		...(before === undefined ? [] : [sql`(r.at_ms, r.id, e.key) < (${before.atMs}, ${before.id}, ${before.index})`]),
		...(version === undefined ? [] : [sql`e.value ->> 3 = ${version}`]),
		...(device === undefined ? [] : [sql`instr(e.value ->> 0, ${device}) > 0`]),
		...(platform === undefined && channelId === undefined
			? []
			: [
					sql`EXISTS (SELECT 1 FROM devices d WHERE d.app_id = ${appId} AND d.device_id = e.value ->> 0
						${platform === undefined ? sql`` : sql`AND d.platform = ${platform}`}
						${channelId === undefined ? sql`` : sql`AND d.channel_id = ${channelId}`})`,
				]),
		...(fromMs === undefined ? [] : [sql`e.value ->> 1 >= ${fromMs}`]),
		...(toMs === undefined ? [] : [sql`e.value ->> 1 <= ${toMs}`]),
	];
	return sql<LogRow>`SELECT r.at_ms, r.id, e.key AS place, e.value AS event
		FROM ${scanned(appId, before, sinceMs ?? fromMs)} AS r CROSS JOIN json_each(r.events) AS e
		WHERE ${sql.join(conditions, sql` AND `)} ORDER BY r.at_ms DESC, r.id DESC, e.key DESC LIMIT ${limit}`.compile(
		query,
	);
}

/** The last row that `loggedEvents` reads, and their number. */
export function lastScanned(
	appId: AppId,
	before: LogPlace | undefined,
	sinceMs: number | undefined,
): CompiledQuery<{ at_ms: number; id: string; scanned: number }> {
	return sql<{ at_ms: number; id: string; scanned: number }>`SELECT at_ms, id, count(*) OVER () AS scanned
		FROM ${scanned(appId, before, sinceMs)} AS r ORDER BY at_ms, id LIMIT 1`.compile(query);
}

/** The telemetry of a device as it is stored, for its story. */
export function recentReportsOf(appId: AppId, deviceId: string): CompiledQuery<{ recent_reports: string | null }> {
	return reportQuery
		.selectFrom("devices")
		.select("recent_reports")
		.where("app_id", "=", appId)
		.where("device_id", "=", deviceId)
		.compile();
}

/** Deletes at most `limit` rows of the log that were stored before the time. */
export function deleteLogBefore(atMs: number, limit: number): CompiledQuery {
	return sql`DELETE FROM device_events WHERE (app_id, at_ms, id) IN (SELECT old.app_id, old.at_ms, old.id FROM apps
		CROSS JOIN device_events AS old ON old.app_id = apps.id AND old.at_ms < ${atMs} LIMIT ${limit})`.compile(query);
}
