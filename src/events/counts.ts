/**
 * Counts of what happened on devices, of bytes that went out, and of how long installs took. An event's id is written in the very batch
 * that counts it, and nothing is counted whose id is there: so messages may come again, in any order, and twice at once.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { query } from "../db/client";
import { BUCKET_GROWTH } from "../domain/duration-histogram";
import { DAY_MS } from "./days";
import type { BytesServed, CountedEvent } from "./messages";
import { partsOf } from "./parts";

/** The days on which the id of an event may stand. */
export interface RememberedDays {
	readonly first: number;
	readonly last: number;
}

/** In the order in which they must run, in one batch. */
export function countStatements(
	events: readonly (CountedEvent | BytesServed)[],
	remembered: RememberedDays,
): CompiledQuery[] {
	const once = [...new Map(events.map((event) => [event.id, event])).values()];
	const isNew = notCounted(remembered);
	return [
		...partsOf(once.filter((event) => event.type === "count")).flatMap((part) => {
			const counted = JSON.stringify(part.filter(({ metric }) => metric !== "start"));
			const steps = part.filter(({ metric, timed }) => timed && (metric === "start" || metric === "install"));
			return [
				...(counted === "[]" ? [] : [addByBundle(counted, isNew), addTotals(counted, isNew)]),
				...(steps.length === 0 ? [] : installTimes(JSON.stringify(steps), isNew)),
				remember(part, isNew),
			];
		}),
		...partsOf(once.filter((event) => event.type === "served")).flatMap((part) => {
			const served = JSON.stringify(part);
			return [addBytesByBundle(served, isNew), addBytes(served, isNew), remember(part, isNew)];
		}),
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
 * The latest start of a download and the `set` after it wait for each other, whichever comes first; those that have found each other are
 * counted and go. By the device's own clock where it told both, else by when they arrived.
 */
function installTimes(steps: string, isNew: RawBuilder<boolean>): CompiledQuery[] {
	const pairs = sql`(SELECT DISTINCT begun.app_id, begun.device_id, begun.version_name, done.at_ms / ${sql.lit(DAY_MS)} AS day,
			CASE WHEN begun.device_at_ms IS NULL OR done.device_at_ms IS NULL THEN done.at_ms - begun.at_ms
				ELSE done.device_at_ms - begun.device_at_ms END AS duration_ms
		FROM json_each(${steps}) AS event CROSS JOIN apps ON apps.app_id = event.value ->> 'appId'
		JOIN install_steps begun ON begun.app_id = apps.id AND begun.device_id = event.value ->> 'deviceId'
			AND begun.version_name = event.value ->> 'versionName' AND begun.step = 'start'
		JOIN install_steps done ON done.app_id = begun.app_id AND done.device_id = begun.device_id
			AND done.version_name = begun.version_name AND done.step = 'set'
		WHERE duration_ms >= 0)`;
	const bucket = sql`CASE WHEN duration_ms <= 1 THEN 0
		ELSE CAST(ceil(ln(duration_ms) / ln(${sql.lit(BUCKET_GROWTH)}) - 1e-9) AS INTEGER) END`;
	return [
		sql`INSERT INTO install_steps (app_id, device_id, version_name, step, at_ms, device_at_ms)
			SELECT apps.id, event.value ->> 'deviceId', event.value ->> 'versionName',
				CASE event.value ->> 'metric' WHEN 'start' THEN 'start' ELSE 'set' END, event.value ->> 'atMs', event.value ->> 'deviceAtMs'
			FROM json_each(${steps}) AS event CROSS JOIN apps ON apps.app_id = event.value ->> 'appId'
			WHERE ${isNew} AND EXISTS (SELECT 1 FROM bundles WHERE bundles.app_id = apps.id
				AND bundles.name = event.value ->> 'versionName' AND bundles.status <> 'pending')
			ON CONFLICT (app_id, device_id, version_name, step) DO UPDATE
				SET at_ms = excluded.at_ms, device_at_ms = excluded.device_at_ms WHERE excluded.at_ms > at_ms`.compile(query),
		sql`INSERT INTO daily_install_times (app_id, day, version_name, bucket, amount)
			SELECT app_id, day, version_name, ${bucket}, count(*) FROM ${pairs} WHERE true GROUP BY 1, 2, 3, 4
			ON CONFLICT (app_id, day, version_name, bucket) DO UPDATE SET amount = amount + excluded.amount`.compile(query),
		sql`DELETE FROM install_steps WHERE (app_id, device_id, version_name) IN
			(SELECT app_id, device_id, version_name FROM ${pairs})`.compile(query),
	];
}
