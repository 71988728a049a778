/**
 * The consumer's work on staged rollouts: which devices count. A device counts only when an update check was answered with the bundle,
 * when it was known before the day on which the rollout began, and when few devices of its network count already. A device that was
 * offered the bundle and does not count is written with the reason, so that people can see why a rollout has few reports. What came of
 * the bundle on devices is written by src/events/rollout-outcomes.ts.
 *
 * Times of a row only grow and its outcome is read from them, so a batch may be delivered again, late, or twice at once.
 */
import { type CompiledQuery, sql } from "kysely";
import { openDb, query } from "../db/client";
import { predatesRollout } from "../db/rollouts";
import type { Deps } from "../deps";
import { chunksOf } from "./chunks";
import type { DeviceEvent, RolloutEvent, RolloutServed } from "./messages";
import { outcomeStatements, rolloutsUnderWay } from "./rollout-outcomes";
import { type NetworkPseudonyms, networkPseudonyms } from "./rollout-trust";

/** Devices of one step that are enough to judge by, and devices of one rollout that do not count; no more are written down. */
export const MOST_SAMPLED = 5_000;
/** So many more may be too many; fewer wait for the gate to look. */
const MANY_SERVED = 500;
/** That a device is still served is written no more often. */
const SERVED_AGAIN_MS = 10 * 60 * 1000;

export function isRolloutEvent(event: DeviceEvent): event is RolloutEvent {
	return event.type === "rollout_served" || event.type === "rollout_told" || event.type === "rollout_runs";
}

/** One batch, after the devices themselves are known, and after a reading where anything was told. */
export async function consumeRolloutEvidence(deps: Deps, events: readonly RolloutEvent[]): Promise<void> {
	const db = openDb(deps.d1, "first-primary");
	const pseudonymOf = networkPseudonyms();
	const served = events.filter((event) => event.type === "rollout_served");
	const told = events.filter((event) => event.type !== "rollout_served");
	const underWay = told.length === 0 ? [] : (await db.batch([rolloutsUnderWay(told)]))[0].rows;
	const statements = [
		...chunksOf(byDevice(served, pseudonymOf)).flatMap((rows) => [
			writeServed(rows),
			...(rows.length < MANY_SERVED ? [] : endSamples(rows)),
		]),
		...outcomeStatements(told, underWay, pseudonymOf),
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
}

function byDevice(served: readonly RolloutServed[], pseudonymOf: NetworkPseudonyms): ServedRow[] {
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
		rows.set(key, { appId, rolloutId, deviceId, fromVersion, network, firstAtMs: atMs, lastAtMs: atMs });
	}
	return [...rows.values()];
}

function writeServed(rows: readonly ServedRow[]): CompiledQuery {
	const countsFromNow = sql`(not_counted IS NOT NULL AND excluded.not_counted IS NULL)`;
	// A device that reported before it was offered the bundle has a row already, without a network; the limit holds for it, too. Its
	// report counts only when it came from where the device is offered the bundle: anybody who knows the id may have been faster.
	const isElsewhere = sql`(first_served_at_ms IS NULL OR ${countsFromNow}) AND told_network IS NOT excluded.network`;
	// Only the device's own network can say what the device ran.
	const isNewer = sql`(${countsFromNow} OR excluded.last_served_at_ms >= coalesce(last_served_at_ms, 0)
		AND excluded.network = coalesce(network, excluded.network))`;
	return sql`WITH served AS MATERIALIZED (
			SELECT r.id AS rollout_id, d.device_id, value ->> 'network' AS network, value ->> 'fromVersion' AS from_version,
				value ->> 'firstAtMs' AS first_at_ms, value ->> 'lastAtMs' AS last_at_ms, c.rollout_devices_per_network AS most,
				known.first_served_at_ms IS NOT NULL AS is_known,
				known.first_served_at_ms IS NOT NULL AND known.not_counted IS NULL AS is_counted, known.not_counted AS reason_before,
				(${predatesRollout}) AS is_old_enough, r.sampling, r.noting_uncounted
			FROM json_each(${JSON.stringify(rows)}) CROSS JOIN rollouts r ON r.id = value ->> 'rolloutId' AND r.ended_at_ms IS NULL
				CROSS JOIN apps a ON a.id = r.app_id AND a.app_id = value ->> 'appId'
				CROSS JOIN channels c ON c.id = r.channel_id
				CROSS JOIN devices d ON d.app_id = r.app_id AND d.device_id = value ->> 'deviceId'
				LEFT JOIN rollout_devices known ON known.rollout_id = r.id AND known.device_id = d.device_id
			WHERE known.first_served_at_ms IS NOT NULL OR r.sampling = 1 OR r.noting_uncounted = 1),
		ranked AS (SELECT *, row_number() OVER (PARTITION BY rollout_id, network, is_counted, is_old_enough
			ORDER BY first_at_ms, device_id) AS rank FROM served),
		placed AS (SELECT *, CASE WHEN is_counted = 1 THEN NULL WHEN is_old_enough = 0 THEN 'newer' WHEN sampling = 0 THEN reason_before
			WHEN most IS NULL OR rank + (SELECT count(*) FROM rollout_devices n WHERE n.rollout_id = ranked.rollout_id
				AND n.network = ranked.network AND n.not_counted IS NULL) <= most THEN NULL ELSE 'network' END AS reason FROM ranked)
		INSERT INTO rollout_devices (rollout_id, device_id, network, from_version, first_served_at_ms, last_served_at_ms, not_counted)
		SELECT rollout_id, device_id, network, from_version, first_at_ms, last_at_ms, reason FROM placed
		WHERE is_known = 1 OR CASE WHEN reason IS NULL THEN sampling ELSE noting_uncounted END = 1
		ON CONFLICT (rollout_id, device_id) DO UPDATE SET
			network = CASE WHEN ${countsFromNow} THEN excluded.network ELSE coalesce(network, excluded.network) END,
			told_network = CASE WHEN ${isElsewhere} THEN NULL ELSE told_network END,
			installed_at_ms = CASE WHEN ${isElsewhere} THEN NULL ELSE installed_at_ms END,
			failed_at_ms = CASE WHEN ${isElsewhere} THEN NULL ELSE failed_at_ms END,
			from_version = CASE WHEN ${isNewer} THEN excluded.from_version ELSE from_version END,
			first_served_at_ms = CASE WHEN ${countsFromNow} THEN excluded.first_served_at_ms
				ELSE min(coalesce(first_served_at_ms, excluded.first_served_at_ms), excluded.first_served_at_ms) END,
			last_served_at_ms = max(coalesce(last_served_at_ms, 0), excluded.last_served_at_ms),
			not_counted = CASE WHEN first_served_at_ms IS NOT NULL AND not_counted IS NULL THEN NULL ELSE excluded.not_counted END
		WHERE first_served_at_ms IS NULL OR excluded.first_served_at_ms < first_served_at_ms
			OR excluded.last_served_at_ms >= last_served_at_ms + ${sql.lit(SERVED_AGAIN_MS)}
			OR (${isNewer} AND excluded.from_version <> from_version)
			OR (not_counted IS NOT NULL AND not_counted IS NOT excluded.not_counted)`.compile(query);
}

/** A batch with very many devices stops the noting of more at once, before the gate looks again. */
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
