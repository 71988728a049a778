/**
 * Counts of bytes served and of lost events. Counting is idempotent: the batch that counts an event
 * also stores its id, and an event whose id is stored is not counted. So messages may be delivered
 * twice, in any order and at the same time.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { chunksOf } from "../../db/chunks";
import { query } from "../../db/client";
import { isCounted, storeIds } from "../../db/counted-ids";
import { DAY_MS } from "../../domain/time";
import type { BytesServed, EventsLost } from "../../messages";

/** In the order in which they must run, in one batch. */
export function countStatements(events: readonly (BytesServed | EventsLost)[]): CompiledQuery[] {
	const once = [...new Map(events.map((event) => [event.id, event])).values()];
	const isNew = sql<boolean>`NOT ${isCounted(sql`event.value ->> 'id'`, sql`(event.value ->> 'atMs')`)}`;
	return [
		...chunksOf(once.filter((event) => event.type === "served")).flatMap((chunk) => {
			const served = JSON.stringify(chunk);
			return [addBytesByBundle(served, isNew), addBytes(served, isNew), storeIds(chunk)];
		}),
		...chunksOf(once.filter((event) => event.type === "lost")).flatMap((chunk) => [
			addLost(JSON.stringify(chunk), isNew),
			storeIds(chunk),
		]),
	];
}

const DAY = sql`(event.value ->> 'atMs') / ${sql.lit(DAY_MS)}`;

const ADD_TO_COUNT = sql`ON CONFLICT (app_id, day, version_name, channel_name, metric) DO UPDATE SET amount = amount + excluded.amount`;

function addLost(lost: string, isNew: RawBuilder<boolean>): CompiledQuery {
	return sql`INSERT INTO daily_totals (app_id, day, lost_event_count)
		SELECT apps.id, ${DAY}, sum(event.value ->> 'events')
		FROM json_each(${lost}) AS event CROSS JOIN apps ON apps.id = event.value ->> 'appId'
		WHERE ${isNew} GROUP BY 1, 2
		ON CONFLICT (app_id, day) DO UPDATE SET lost_event_count = lost_event_count + excluded.lost_event_count`.compile(
		query,
	);
}

/**
 * Counts events that are not stored. Their ids are not stored either, so a message that comes again
 * is counted again.
 */
export function countLosses(events: readonly (BytesServed | EventsLost)[], day: number): CompiledQuery {
	const byApp = new Map<string, number>();
	for (const event of events) {
		const app = event.type === "served" ? event.appUuid : event.appId;
		byApp.set(app, (byApp.get(app) ?? 0) + (event.type === "lost" ? event.events : 1));
	}
	return sql`INSERT INTO daily_totals (app_id, day, lost_event_count)
		SELECT apps.id, ${day}, value ->> 1
		FROM json_each(${JSON.stringify([...byApp])}) CROSS JOIN apps ON apps.id = value ->> 0 WHERE true
		ON CONFLICT (app_id, day) DO UPDATE SET lost_event_count = lost_event_count + excluded.lost_event_count`.compile(
		query,
	);
}

/**
 * Bytes of zips by bundle. Files of the delta store belong to several bundles, so they count for
 * the app only.
 */
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
