/**
 * Counts of what happened on devices, of bytes that went out, and of how long installs took. An event's id is written in the very batch
 * that counts it, and nothing is counted whose id is there: so messages may come again, in any order, and twice at once.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { query } from "../db/client";
import { BUCKET_GROWTH } from "../domain/duration-histogram";
import { DAY_MS } from "../domain/time";
import { chunksOf } from "./chunks";
import type { BytesServed, CountedEvent, EventsLost } from "./messages";

/** The days on which the id of an event may stand. */
export interface RememberedDays {
	readonly first: number;
	readonly last: number;
}

/** In the order in which they must run, in one batch. */
export function countStatements(
	events: readonly (CountedEvent | BytesServed | EventsLost)[],
	remembered: RememberedDays,
): CompiledQuery[] {
	const once = [...new Map(events.map((event) => [event.id, event])).values()];
	const isNew = notCounted(remembered);
	return [
		...chunksOf(once.filter((event) => event.type === "count")).flatMap((part) => {
			const counted = JSON.stringify(part.filter(({ metric }) => metric !== "start"));
			const steps = part.filter(({ metric, timed }) => timed && (metric === "start" || metric === "install"));
			return [
				...(counted === "[]" ? [] : [addByBundle(counted, isNew), addTotals(counted, isNew)]),
				...(steps.length === 0 ? [] : installTimes(JSON.stringify(steps), isNew)),
				remember(part, isNew),
			];
		}),
		...chunksOf(once.filter((event) => event.type === "served")).flatMap((part) => {
			const served = JSON.stringify(part);
			return [addBytesByBundle(served, isNew), addBytes(served, isNew), remember(part, isNew)];
		}),
		...chunksOf(once.filter((event) => event.type === "lost")).flatMap((part) => [
			addLost(JSON.stringify(part), isNew),
			remember(part, isNew),
		]),
	];
}

/** The days are listed, because the key begins with the day: so many look-ups, and no index to write. */
function notCounted({ first, last }: RememberedDays): RawBuilder<boolean> {
	const days = Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => sql.lit(first + index));
	return sql`NOT EXISTS (SELECT 1 FROM counted_events c WHERE c.day IN (${sql.join(days)}) AND c.id = event.value ->> 'id')`;
}

function remember(events: readonly { readonly id: string; readonly atMs: number }[], isNew: RawBuilder<boolean>) {
	const ids = JSON.stringify(events.map(({ id, atMs }) => ({ id, atMs })));
	return sql`INSERT INTO counted_events (day, id)
		SELECT (event.value ->> 'atMs') / ${sql.lit(DAY_MS)}, event.value ->> 'id' FROM json_each(${ids}) AS event WHERE ${isNew}
		ON CONFLICT (day, id) DO NOTHING`.compile(query);
}

const DAY = sql`(event.value ->> 'atMs') / ${sql.lit(DAY_MS)}`;

/** A version that the app never had counts for the app alone. */
const VERSION = sql`CASE WHEN EXISTS (SELECT 1 FROM bundles WHERE bundles.app_id = apps.id
	AND bundles.name = event.value ->> 'versionName' AND bundles.status <> 'pending') THEN event.value ->> 'versionName' ELSE '' END`;

const ADD_TO_COUNT = sql`ON CONFLICT (app_id, day, version_name, channel_name, metric) DO UPDATE SET amount = amount + excluded.amount`;

function addByBundle(events: string, isNew: RawBuilder<boolean>): CompiledQuery {
	return sql`INSERT INTO daily_counts (app_id, day, version_name, channel_name, metric, amount)
		SELECT apps.id, ${DAY}, ${VERSION}, coalesce(event.value ->> 'channelName', ''), event.value ->> 'metric', count(*)
		FROM json_each(${events}) AS event CROSS JOIN apps ON apps.app_id = event.value ->> 'appId'
		WHERE ${isNew} GROUP BY 1, 2, 3, 4, 5 ${ADD_TO_COUNT}`.compile(query);
}

function addTotals(events: string, isNew: RawBuilder<boolean>): CompiledQuery {
	const countOf = (metric: string) => sql`count(*) FILTER (WHERE event.value ->> 'metric' = ${sql.lit(metric)})`;
	return sql`INSERT INTO daily_totals (app_id, day, get_count, install_count, fail_count)
		SELECT apps.id, ${DAY}, ${countOf("get")}, ${countOf("install")}, ${countOf("fail")}
		FROM json_each(${events}) AS event CROSS JOIN apps ON apps.app_id = event.value ->> 'appId'
		WHERE ${isNew} GROUP BY 1, 2
		ON CONFLICT (app_id, day) DO UPDATE SET get_count = get_count + excluded.get_count,
			install_count = install_count + excluded.install_count, fail_count = fail_count + excluded.fail_count`.compile(
		query,
	);
}

function addLost(lost: string, isNew: RawBuilder<boolean>): CompiledQuery {
	return sql`INSERT INTO daily_totals (app_id, day, lost_event_count)
		SELECT apps.id, ${DAY}, sum(event.value ->> 'events')
		FROM json_each(${lost}) AS event CROSS JOIN apps ON apps.app_id = event.value ->> 'appId'
		WHERE ${isNew} GROUP BY 1, 2
		ON CONFLICT (app_id, day) DO UPDATE SET lost_event_count = lost_event_count + excluded.lost_event_count`.compile(
		query,
	);
}

/** Counts events that are not stored. Their ids are not stored either, so a message that comes again is counted again. */
export function countLosses(
	events: readonly (CountedEvent | BytesServed | EventsLost)[],
	day: number,
): CompiledQuery | undefined {
	if (events.length === 0) return undefined;
	const byApp = new Map<string, number>();
	for (const event of events) {
		const app = event.type === "served" ? event.appUuid : event.appId;
		byApp.set(app, (byApp.get(app) ?? 0) + (event.type === "lost" ? event.events : 1));
	}
	return sql`INSERT INTO daily_totals (app_id, day, lost_event_count)
		SELECT apps.id, ${day}, value ->> 1
		FROM json_each(${JSON.stringify([...byApp])}) 
		CROSS JOIN apps ON apps.id = coalesce((SELECT id FROM apps WHERE app_id = value ->> 0), value ->> 0) WHERE true
		ON CONFLICT (app_id, day) DO UPDATE SET lost_event_count = lost_event_count + excluded.lost_event_count`.compile(
		query,
	);
}

/** Of the bundle whose whole file it is; files of the delta store belong to many, so to none. */
function addBytesByBundle(served: string, isNew: RawBuilder<boolean>): CompiledQuery {
	return sql`INSERT INTO daily_counts (app_id, day, version_name, channel_name, metric, amount)
		SELECT apps.id, ${DAY}, coalesce(bundles.name, ''), '', 'bandwidth', sum(object.value)
		FROM json_each(${served}) AS event CROSS JOIN apps ON apps.id = event.value ->> 'appUuid'
		CROSS JOIN json_each(event.value, '$.bytes') AS object
		LEFT JOIN bundles ON bundles.object_key = object.key AND bundles.app_id = apps.id
		WHERE ${isNew} GROUP BY 1, 2, 3 ${ADD_TO_COUNT}`.compile(query);
}

function addBytes(served: string, isNew: RawBuilder<boolean>): CompiledQuery {
	return sql`INSERT INTO daily_totals (app_id, day, bandwidth_bytes)
		SELECT apps.id, ${DAY}, sum(object.value)
		FROM json_each(${served}) AS event CROSS JOIN apps ON apps.id = event.value ->> 'appUuid'
		CROSS JOIN json_each(event.value, '$.bytes') AS object
		WHERE ${isNew} GROUP BY 1, 2
		ON CONFLICT (app_id, day) DO UPDATE SET bandwidth_bytes = bandwidth_bytes + excluded.bandwidth_bytes`.compile(
		query,
	);
}

/**
 * An install takes from a start of its download to the `set` that follows it, with no other step of that device and bundle between. A
 * step that comes late can part two that were neighbours, so what the steps say with the new ones replaces what they said without. By
 * the device's own clock where it told both times, else by when they arrived.
 */
function installTimes(steps: string, isNew: RawBuilder<boolean>): CompiledQuery[] {
	const added = sql`SELECT apps.id AS app_id, event.value ->> 'deviceId' AS device_id, event.value ->> 'versionName' AS version_name,
			CASE event.value ->> 'metric' WHEN 'start' THEN 'start' ELSE 'set' END AS step, event.value ->> 'atMs' AS at_ms,
			max(event.value ->> 'deviceAtMs') AS device_at_ms
		FROM json_each(${steps}) AS event CROSS JOIN apps ON apps.app_id = event.value ->> 'appId'
		WHERE ${isNew} AND EXISTS (SELECT 1 FROM bundles WHERE bundles.app_id = apps.id
				AND bundles.name = event.value ->> 'versionName' AND bundles.status <> 'pending')
			AND NOT EXISTS (SELECT 1 FROM install_steps s WHERE s.app_id = apps.id AND s.device_id = event.value ->> 'deviceId'
				AND s.version_name = event.value ->> 'versionName' AND s.at_ms = event.value ->> 'atMs'
				AND s.step = CASE event.value ->> 'metric' WHEN 'start' THEN 'start' ELSE 'set' END)
		GROUP BY 1, 2, 3, 4, 5`;
	const columns = sql`app_id, device_id, version_name, step, at_ms, device_at_ms`;
	const bucket = sql`CASE WHEN duration_ms <= 1 THEN 0
		ELSE CAST(ceil(ln(duration_ms) / ln(${sql.lit(BUCKET_GROWTH)}) - 1e-9) AS INTEGER) END`;
	return [
		sql`WITH added AS MATERIALIZED (${added}),
				known AS MATERIALIZED (SELECT s.app_id, s.device_id, s.version_name, s.step, s.at_ms, s.device_at_ms
					FROM (SELECT DISTINCT app_id, device_id, version_name FROM added) AS key
					CROSS JOIN install_steps s ON s.app_id = key.app_id AND s.device_id = key.device_id AND s.version_name = key.version_name),
				sequences AS (
					SELECT -1 AS amount, ${columns} FROM known UNION ALL SELECT 1, ${columns} FROM known UNION ALL SELECT 1, ${columns} FROM added),
				pairs AS (
					SELECT amount, app_id, version_name, at_ms, step, lag(step) OVER earlier AS step_before,
						coalesce(device_at_ms - lag(device_at_ms) OVER earlier, at_ms - lag(at_ms) OVER earlier) AS duration_ms
					FROM sequences
					WINDOW earlier AS (PARTITION BY amount, app_id, device_id, version_name ORDER BY at_ms, step DESC))
			INSERT INTO daily_install_times (app_id, day, version_name, bucket, amount)
			SELECT app_id, at_ms / ${sql.lit(DAY_MS)}, version_name, ${bucket}, sum(amount) FROM pairs
			WHERE step = 'set' AND step_before = 'start' AND duration_ms >= 0 GROUP BY 1, 2, 3, 4 HAVING sum(amount) <> 0
			ON CONFLICT (app_id, day, version_name, bucket) DO UPDATE SET amount = amount + excluded.amount`.compile(query),
		sql`INSERT INTO install_steps (${columns}) ${added}`.compile(query),
	];
}
