/**
 * Health samples of staged rollouts: records which devices count. A device counts if an update
 * check offered it the bundle, if it predates the rollout by a day, and if few devices of its
 * network count already, so forged ids cannot steer a rollout. An excluded device is recorded with
 * the reason, because people must see why a rollout has few reports.
 * src/features/rollouts/outcomes.ts records outcomes.
 *
 * Times of a row only grow and its outcome is derived from them, so a batch may be delivered again,
 * late, or concurrently.
 */

import { type CompiledQuery, sql } from "kysely";
import { chunksOf } from "../../db/chunks";
import { openDb, query } from "../../db/client";
import { predatesRollout } from "../../db/rollouts";
import type { Deps } from "../../deps";
import { MINUTE_MS } from "../../domain/time";
import { type RolloutEvent, type RolloutServed, rolloutDeviceKey } from "../../messages";
import {
	activeRollouts,
	CREATED_AT_MS,
	type NetworkPseudonyms,
	networkPseudonyms,
	OUTCOME_TIMES,
	outcomeStatements,
} from "./outcomes";

/** Limit of recorded devices: those of one step that count, and the excluded ones of a rollout. */
export const MOST_SAMPLED = 5_000;
/**
 * A batch with this many devices checks the limits itself; the health gate checks them otherwise.
 */
const MANY_OFFERED = 500;
/** Minimum time between two writes of the last offer to a device. */
const OFFERED_AGAIN_MS = 10 * MINUTE_MS;

/**
 * Records the events in one batch, after the rows of their devices. Reports need one more round
 * trip, to read the active rollouts.
 * @param knownSince when the devices were first seen, by `rolloutDeviceKey`; devices that are not
 * known do not count
 */
export async function recordSamples(
	deps: Deps,
	events: readonly RolloutEvent[],
	knownSince: ReadonlyMap<string, number>,
): Promise<void> {
	const db = openDb(deps.d1, "first-primary");
	const pseudonymOf = networkPseudonyms();
	const served = events.filter((event) => event.type === "rollout_served");
	const reports = events.filter((event) => event.type !== "rollout_served");
	const rollouts = reports.length === 0 ? [] : (await db.batch([activeRollouts(reports)]))[0].rows;
	const statements = [
		...chunksOf(byDevice(served, pseudonymOf, knownSince)).flatMap((rows) => [
			writeServed(rows),
			...(rows.length < MANY_OFFERED ? [] : endSamples(rows)),
		]),
		...outcomeStatements(reports, rollouts, pseudonymOf, knownSince),
	];
	if (statements.length > 0) await db.batch(statements);
}

interface ServedRow {
	readonly appId: string;
	readonly rolloutId: string;
	readonly deviceId: string;
	readonly fromVersion: string;
	readonly network: string;
	readonly firstAtMs: number;
	readonly lastAtMs: number;
	readonly knownSinceMs: number | null;
}

function byDevice(
	served: readonly RolloutServed[],
	pseudonymOf: NetworkPseudonyms,
	knownSince: ReadonlyMap<string, number>,
): ServedRow[] {
	const rows = new Map<string, ServedRow>();
	for (const event of served) {
		const key = `${event.rolloutId} ${event.deviceId}`;
		const known = rows.get(key);
		if (known !== undefined) {
			const isLater = event.atMs >= known.lastAtMs;
			rows.set(key, {
				...known,
				fromVersion: isLater ? event.fromVersion : known.fromVersion,
				firstAtMs: Math.min(known.firstAtMs, event.atMs),
				lastAtMs: Math.max(known.lastAtMs, event.atMs),
			});
			continue;
		}
		const network = pseudonymOf(event.rolloutId, event.network);
		const { appId, rolloutId, deviceId, fromVersion, atMs } = event;
		const knownSinceMs = knownSince.get(rolloutDeviceKey(event)) ?? null;
		rows.set(key, { appId, rolloutId, deviceId, fromVersion, network, firstAtMs: atMs, lastAtMs: atMs, knownSinceMs });
	}
	return [...rows.values()];
}

function writeServed(rows: readonly ServedRow[]): CompiledQuery {
	const countsFromNow = sql`(not_counted IS NOT NULL AND excluded.not_counted IS NULL)`;
	// A report may arrive before the offer; its row has no network yet and still counts against the
	// limit. It is kept only if it came from the network of the offer, because anybody who knows the
	// id can report early.
	const isElsewhere = sql`(first_served_at_ms IS NULL OR ${countsFromNow}) AND reporting_network IS NOT excluded.network`;
	// Only the device's own network may change the version from which it updates.
	const isNewer = sql`(${countsFromNow} OR excluded.last_served_at_ms >= coalesce(last_served_at_ms, 0)
		AND excluded.network = coalesce(network, excluded.network))`;
	return sql`WITH served AS MATERIALIZED (
			SELECT r.id AS rollout_id, value ->> 'deviceId' AS device_id, ${CREATED_AT_MS} AS created_at_ms,
				value ->> 'network' AS network, value ->> 'fromVersion' AS from_version,
				value ->> 'firstAtMs' AS first_at_ms, value ->> 'lastAtMs' AS last_at_ms, c.rollout_devices_per_network AS most,
				known.first_served_at_ms IS NOT NULL AS is_known,
				known.first_served_at_ms IS NOT NULL AND known.not_counted IS NULL AS is_counted, known.not_counted AS reason_before,
				(${predatesRollout(CREATED_AT_MS)}) AS is_old_enough, r.sampling, r.noting_uncounted
			FROM json_each(${JSON.stringify(rows)}) CROSS JOIN rollouts r ON r.id = value ->> 'rolloutId' AND r.ended_at_ms IS NULL
				CROSS JOIN apps a ON a.id = r.app_id AND a.app_id = value ->> 'appId'
				CROSS JOIN channels c ON c.id = r.channel_id
				LEFT JOIN rollout_devices known ON known.rollout_id = r.id AND known.device_id = value ->> 'deviceId'
			WHERE ${CREATED_AT_MS} IS NOT NULL AND (known.first_served_at_ms IS NOT NULL OR r.sampling = 1 OR r.noting_uncounted = 1)),
		ranked AS (SELECT *, row_number() OVER (PARTITION BY rollout_id, network, is_counted, is_old_enough
			ORDER BY first_at_ms, device_id) AS rank FROM served),
		placed AS (SELECT *, CASE WHEN is_counted = 1 THEN NULL WHEN is_old_enough = 0 THEN 'newer' WHEN sampling = 0 THEN reason_before
			WHEN most IS NULL OR rank + (SELECT count(*) FROM rollout_devices n WHERE n.rollout_id = ranked.rollout_id
				AND n.network = ranked.network AND n.not_counted IS NULL) <= most THEN NULL ELSE 'network' END AS reason FROM ranked)
		INSERT INTO rollout_devices (rollout_id, device_id, network, from_version, first_served_at_ms, last_served_at_ms, not_counted,
			device_created_at_ms)
		SELECT rollout_id, device_id, network, from_version, first_at_ms, last_at_ms, reason, created_at_ms FROM placed
		WHERE is_known = 1 OR CASE WHEN reason IS NULL THEN sampling ELSE noting_uncounted END = 1
		ON CONFLICT (rollout_id, device_id) DO UPDATE SET
			network = CASE WHEN ${countsFromNow} THEN excluded.network ELSE coalesce(network, excluded.network) END,
			reporting_network = CASE WHEN ${isElsewhere} THEN NULL ELSE reporting_network END,
			${sql.join(OUTCOME_TIMES.map((time) => sql`${sql.ref(time)} = CASE WHEN ${isElsewhere} THEN NULL ELSE ${sql.ref(time)} END`))},
			from_version = CASE WHEN ${isNewer} THEN excluded.from_version ELSE from_version END,
			first_served_at_ms = CASE WHEN ${countsFromNow} THEN excluded.first_served_at_ms
				ELSE min(coalesce(first_served_at_ms, excluded.first_served_at_ms), excluded.first_served_at_ms) END,
			last_served_at_ms = max(coalesce(last_served_at_ms, 0), excluded.last_served_at_ms),
			device_created_at_ms = min(coalesce(device_created_at_ms, excluded.device_created_at_ms), excluded.device_created_at_ms),
			not_counted = CASE WHEN first_served_at_ms IS NOT NULL AND not_counted IS NULL THEN NULL ELSE excluded.not_counted END
		WHERE first_served_at_ms IS NULL OR excluded.first_served_at_ms < first_served_at_ms
			OR excluded.last_served_at_ms >= last_served_at_ms + ${sql.lit(OFFERED_AGAIN_MS)}
			OR (${isNewer} AND excluded.from_version <> from_version)
			OR (not_counted IS NOT NULL AND not_counted IS NOT excluded.not_counted)`.compile(query);
}

/**
 * Stops recording more devices immediately, because a large batch may exceed the limits before the
 * next check of the gate.
 */
function endSamples(rows: readonly ServedRow[]): CompiledQuery[] {
	const rollouts = new Map(rows.map(({ appId, rolloutId }) => [rolloutId, [appId, rolloutId]]));
	const isServed = sql`ended_at_ms IS NULL
		AND id IN (SELECT r.id FROM json_each(${JSON.stringify([...rollouts.values()])}) CROSS JOIN rollouts r ON r.id = value ->> 1
			CROSS JOIN apps a ON a.id = r.app_id AND a.app_id = value ->> 0)`;
	return [
		sql`UPDATE rollouts SET sampling = 0 WHERE sampling = 1 AND ${isServed}
			AND (SELECT count(*) FROM rollout_devices d WHERE d.rollout_id = rollouts.id AND d.first_served_at_ms >= rollouts.step_at_ms
				AND d.not_counted IS NULL) >= ${sql.lit(MOST_SAMPLED)}`,
		sql`UPDATE rollouts SET noting_uncounted = 0 WHERE noting_uncounted = 1 AND ${isServed}
			AND (SELECT count(*) FROM rollout_devices d WHERE d.rollout_id = rollouts.id AND d.not_counted IS NOT NULL)
				>= ${sql.lit(MOST_SAMPLED)}`,
	].map((statement) => statement.compile(query));
}
