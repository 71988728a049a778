/**
 * The consumer's work on what became of a rollout's bundle on devices. An id is no secret, so anybody can tell anything of any device:
 * what is told from the network in which the device was served counts, and from every other network only what it tells of a few
 * devices. A report is attributed to what the device was served, whatever version it names.
 *
 * Only the latest outcome of a device counts and times only grow, so a batch may be delivered again, late, or twice at once.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { query } from "../db/client";
import { predatesRollout } from "../db/rollouts";
import { chunksOf } from "./chunks";
import type { RolloutRuns, RolloutTold } from "./messages";
import type { NetworkPseudonyms } from "./rollout-trust";

/** A failed download that names another version belongs to what was served so shortly before. */
const DOWNLOAD_MS = 60 * 60 * 1000;

type Told = RolloutTold | RolloutRuns;

interface RolloutUnderWay {
	readonly id: string;
	readonly public_app_id: string;
	readonly version_name: string;
}

/** Which rollouts the events can be about: networks are known by another name in each. */
export function rolloutsUnderWay(told: readonly Told[]): CompiledQuery<RolloutUnderWay> {
	const appIds = JSON.stringify([...new Set(told.map(({ appId }) => appId))]);
	return sql<RolloutUnderWay>`SELECT r.id, a.app_id AS public_app_id, r.version_name
		FROM json_each(${appIds}) CROSS JOIN apps a ON a.app_id = value
			CROSS JOIN rollouts r ON r.app_id = a.id AND r.ended_at_ms IS NULL`.compile(query);
}

/** The latest that one network told of one device, as far as it counts in the same way. */
interface Outcome {
	readonly appId: string;
	readonly rolloutId: string;
	readonly deviceId: string;
	readonly network: string;
	readonly versionName: string;
	readonly installedAtMs: number | null;
	readonly failedAtMs: number | null;
}

/** In the order in which they must run, after what was served is written. */
export function outcomeStatements(
	told: readonly Told[],
	underWay: readonly RolloutUnderWay[],
	pseudonymOf: NetworkPseudonyms,
): CompiledQuery[] {
	const rollouts = Map.groupBy(underWay, ({ public_app_id }) => public_app_id);
	const named = new Map<string, Outcome>();
	const unnamed = new Map<string, Outcome>();
	const running = new Map<string, Outcome>();
	for (const event of told) {
		for (const { id: rolloutId, version_name } of rollouts.get(event.appId) ?? []) {
			const isNamed = event.versionName === version_name;
			if (!isNamed && (event.type === "rollout_runs" || event.outcome !== "download_failed")) continue;
			const outcomes = !isNamed ? unnamed : event.type === "rollout_runs" ? running : named;
			const network = pseudonymOf(rolloutId, event.network);
			const { appId, deviceId, versionName, atMs } = event;
			const key = JSON.stringify([rolloutId, deviceId, network, versionName]);
			const before = outcomes.get(key);
			const isInstalled = event.type === "rollout_runs" || event.outcome === "installed";
			outcomes.set(key, {
				...{ appId, rolloutId, deviceId, network, versionName },
				installedAtMs: isInstalled ? latest(before?.installedAtMs, atMs) : (before?.installedAtMs ?? null),
				failedAtMs: isInstalled ? (before?.failedAtMs ?? null) : latest(before?.failedAtMs, atMs),
			});
		}
	}
	const write = (outcomes: ReadonlyMap<string, Outcome>, counts: RawBuilder<unknown>) =>
		chunksOf([...outcomes.values()]).map((part) => writeOutcomes(part, counts));
	return [...write(named, NAMED), ...write(unnamed, UNNAMED), ...write(running, RUNNING)];
}

const latest = (one: number | null | undefined, other: number) => Math.max(one ?? other, other);

/** A report may be consumed before the check that was answered with the bundle; it counts when that check has come. */
const NAMED = sql`(r.sampling = 1 AND (${predatesRollout})) OR known.device_id IS NOT NULL`;
/**
 * Downloads that failed and were reported under what runs, or under no version: of what the device was served then, unless it has
 * installed that.
 */
const UNNAMED = sql`value ->> 'versionName' IN ('', known.from_version)
	AND value ->> 'failedAtMs' BETWEEN known.first_served_at_ms AND known.last_served_at_ms + ${sql.lit(DOWNLOAD_MS)}
	AND coalesce(known.installed_at_ms, 0) < known.first_served_at_ms`;
/** A check that the bundle itself made says that it runs, whether or not the device reports. Written where that is not known. */
const RUNNING = sql`known.device_id IS NOT NULL
	AND (coalesce(known.installed_at_ms, 0) < coalesce(known.first_served_at_ms, 1) OR known.failed_at_ms >= known.installed_at_ms)`;

function writeOutcomes(outcomes: readonly Outcome[], counts: RawBuilder<unknown>): CompiledQuery {
	const isOf = sql`n.rollout_id = placed.rollout_id AND n.told_network = placed.network`;
	// Devices that do not count take no place of those that do.
	const isAlike = sql`(n.not_counted IS NOT NULL) = placed.is_uncounted`;
	const toldAtMs = (row: string) =>
		sql`max(coalesce(${sql.ref(`${row}.installed_at_ms`)}, 0), coalesce(${sql.ref(`${row}.failed_at_ms`)}, 0))`;
	return sql`WITH told AS MATERIALIZED (
			SELECT r.id AS rollout_id, d.device_id, value ->> 'network' AS network, value ->> 'installedAtMs' AS installed_at_ms,
				value ->> 'failedAtMs' AS failed_at_ms, c.rollout_devices_per_network AS most, known.not_counted IS NOT NULL AS is_uncounted,
				CASE WHEN value ->> 'network' IN (known.network, known.told_network) THEN 'known'
					WHEN known.first_served_at_ms IS NULL THEN 'early' ELSE 'abroad' END AS place
			FROM json_each(${JSON.stringify(outcomes)}) CROSS JOIN rollouts r ON r.id = value ->> 'rolloutId' AND r.ended_at_ms IS NULL
				CROSS JOIN apps a ON a.id = r.app_id AND a.app_id = value ->> 'appId'
				CROSS JOIN channels c ON c.id = r.channel_id
				CROSS JOIN devices d ON d.app_id = r.app_id AND d.device_id = value ->> 'deviceId'
				LEFT JOIN rollout_devices known ON known.rollout_id = r.id AND known.device_id = d.device_id
			WHERE ${counts}),
		placed AS (SELECT *, count(*) OVER (PARTITION BY rollout_id, network, place, is_uncounted ORDER BY device_id) AS rank FROM told)
		INSERT INTO rollout_devices (rollout_id, device_id, told_network, installed_at_ms, failed_at_ms)
		SELECT rollout_id, device_id, network, installed_at_ms, failed_at_ms FROM placed
		WHERE place = 'known' OR most IS NULL OR rank + CASE place
			WHEN 'early' THEN (SELECT count(*) FROM rollout_devices n WHERE ${isOf} AND n.first_served_at_ms IS NULL)
			ELSE (SELECT count(*) FROM rollout_devices n WHERE ${isOf} AND n.told_network <> n.network AND ${isAlike}) END <= most
		ON CONFLICT (rollout_id, device_id) DO UPDATE SET
			told_network = CASE WHEN ${toldAtMs("excluded")} >= ${toldAtMs("rollout_devices")} THEN excluded.told_network
				ELSE told_network END,
			installed_at_ms = coalesce(max(installed_at_ms, excluded.installed_at_ms), installed_at_ms, excluded.installed_at_ms),
			failed_at_ms = coalesce(max(failed_at_ms, excluded.failed_at_ms), failed_at_ms, excluded.failed_at_ms)
		WHERE coalesce(excluded.installed_at_ms, 0) > coalesce(rollout_devices.installed_at_ms, 0)
			OR coalesce(excluded.failed_at_ms, 0) > coalesce(rollout_devices.failed_at_ms, 0)`.compile(query);
}
