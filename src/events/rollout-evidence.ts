/**
 * The consumer's work on staged rollouts: which devices count. A device counts only when an update check was answered with the bundle,
 * and only one that cannot have been made up for the purpose: it was known before the day on which the rollout began, and no network
 * brings more than a few of them. What came of the bundle on them is written by src/events/rollout-outcomes.ts.
 *
 * Times of a row only grow and its outcome is read from them, so a batch may be delivered again, late, or twice at once.
 */
import { type CompiledQuery, sql } from "kysely";
import { openDb, query } from "../db/client";
import type { Deps } from "../deps";
import type { DeviceEvent, RolloutEvent, RolloutServed } from "./messages";
import { partsOf } from "./parts";
import { outcomeStatements, rolloutsUnderWay } from "./rollout-outcomes";
import { mayCount, type NetworkPseudonyms, networkPseudonyms } from "./rollout-trust";

/** Devices of one step that are enough to judge by; no more are written down. */
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
	const pseudonymOf = networkPseudonyms(deps);
	const served = events.filter((event) => event.type === "rollout_served");
	const told = events.filter((event) => event.type !== "rollout_served");
	const underWay = told.length === 0 ? [] : (await db.batch([rolloutsUnderWay(told)]))[0].rows;
	const statements = [
		...partsOf(byDevice(served, pseudonymOf)).flatMap((rows) => [
			writeServed(rows),
			...(rows.length < MANY_SERVED ? [] : [endSamples(rows)]),
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
	// A device that told before it was served has a row already, without a network; the limit holds for it, too. What it told counts
	// only when it came from where it was served: who knows its id may have been faster.
	const isElsewhere = sql`first_served_at_ms IS NULL AND told_network IS NOT excluded.network`;
	// What the device ran, it says itself; from elsewhere anybody may say so.
	const isNewer = sql`excluded.last_served_at_ms >= coalesce(last_served_at_ms, 0) AND excluded.network = coalesce(network, excluded.network)`;
	return sql`WITH served AS MATERIALIZED (
			SELECT r.id AS rollout_id, d.device_id, value ->> 'network' AS network, value ->> 'fromVersion' AS from_version,
				value ->> 'firstAtMs' AS first_at_ms, value ->> 'lastAtMs' AS last_at_ms, c.rollout_devices_per_network AS most,
				known.first_served_at_ms IS NOT NULL AS is_known
			FROM json_each(${JSON.stringify(rows)}) CROSS JOIN rollouts r ON r.id = value ->> 'rolloutId' AND r.ended_at_ms IS NULL
				CROSS JOIN apps a ON a.id = r.app_id AND a.app_id = value ->> 'appId'
				CROSS JOIN channels c ON c.id = r.channel_id
				CROSS JOIN devices d ON d.app_id = r.app_id AND d.device_id = value ->> 'deviceId'
				LEFT JOIN rollout_devices known ON known.rollout_id = r.id AND known.device_id = d.device_id
			WHERE known.first_served_at_ms IS NOT NULL OR (${mayCount})),
		placed AS (SELECT *, row_number() OVER (PARTITION BY rollout_id, network, is_known ORDER BY first_at_ms, device_id) AS rank
			FROM served)
		INSERT INTO rollout_devices (rollout_id, device_id, network, from_version, first_served_at_ms, last_served_at_ms)
		SELECT rollout_id, device_id, network, from_version, first_at_ms, last_at_ms FROM placed
		WHERE is_known = 1 OR most IS NULL OR rank + (SELECT count(*) FROM rollout_devices n
			WHERE n.rollout_id = placed.rollout_id AND n.network = placed.network) <= most
		ON CONFLICT (rollout_id, device_id) DO UPDATE SET network = coalesce(network, excluded.network),
			told_network = CASE WHEN ${isElsewhere} THEN NULL ELSE told_network END,
			installed_at_ms = CASE WHEN ${isElsewhere} THEN NULL ELSE installed_at_ms END,
			failed_at_ms = CASE WHEN ${isElsewhere} THEN NULL ELSE failed_at_ms END,
			from_version = CASE WHEN ${isNewer} THEN excluded.from_version ELSE from_version END,
			first_served_at_ms = min(coalesce(first_served_at_ms, excluded.first_served_at_ms), excluded.first_served_at_ms),
			last_served_at_ms = max(coalesce(last_served_at_ms, 0), excluded.last_served_at_ms)
		WHERE first_served_at_ms IS NULL OR excluded.first_served_at_ms < first_served_at_ms
			OR excluded.last_served_at_ms >= last_served_at_ms + ${sql.lit(SERVED_AGAIN_MS)}
			OR (${isNewer} AND excluded.from_version <> from_version)`.compile(query);
}

/** A step that sees very many devices at once has enough of them before the gate looks again. */
function endSamples(rows: readonly ServedRow[]): CompiledQuery {
	const rollouts = new Map(rows.map(({ appId, rolloutId }) => [rolloutId, [appId, rolloutId]]));
	return sql`UPDATE rollouts SET sampling = 0 WHERE sampling = 1 AND ended_at_ms IS NULL
		AND id IN (SELECT r.id FROM json_each(${JSON.stringify([...rollouts.values()])}) CROSS JOIN rollouts r ON r.id = value ->> 1
			CROSS JOIN apps a ON a.id = r.app_id AND a.app_id = value ->> 0)
		AND (SELECT count(*) FROM rollout_devices d WHERE d.rollout_id = rollouts.id AND d.first_served_at_ms >= rollouts.step_at_ms)
			>= ${sql.lit(MOST_SAMPLED)}`.compile(query);
}
