/**
 * Records the outcomes of a rollout's bundle on devices. A device id is no secret, so anybody can
 * report for any device: reports from the network in which the device was offered the bundle count,
 * and every other network may report for only a few devices. A report is attributed to the bundle
 * that the device was offered, whatever version it names.
 *
 * Only the latest outcome of a device counts and times only grow, so a batch may be delivered
 * again, late, or concurrently.
 */

import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { chunksOf } from "../../db/chunks";
import { query } from "../../db/client";
import { predatesRollout } from "../../db/rollouts";
import { HOUR_MS } from "../../domain/time";
import { type RolloutReported, type RolloutRuns, rolloutDeviceKey } from "../../messages";

const NETWORK_LENGTH = 24;

export type NetworkPseudonyms = (rolloutId: string, network: string) => string;

/**
 * The network as a hash that differs in every rollout. The rollout's own random id is the salt, so
 * that a rotated secret does not make every network of a running rollout look new.
 */
export function networkPseudonyms(): NetworkPseudonyms {
	const cached = new Map<string, string>();
	return (rolloutId, network) => {
		const text = `${rolloutId}\n${network}`;
		const found = cached.get(text);
		if (found !== undefined) return found;
		const pseudonym = bytesToHex(sha256(utf8ToBytes(`capstan rollout network\n${text}`))).slice(0, NETWORK_LENGTH);
		cached.set(text, pseudonym);
		return pseudonym;
	};
}

/** A failed download under another version belongs to a bundle that was offered this recently. */
const DOWNLOAD_MS = HOUR_MS;

type Report = RolloutReported | RolloutRuns;

interface ActiveRollout {
	readonly id: string;
	readonly public_app_id: string;
	readonly version_name: string;
}

/** The active rollouts of the reported apps, because each has its own pseudonyms of networks. */
export function activeRollouts(reports: readonly Report[]): CompiledQuery<ActiveRollout> {
	const appIds = JSON.stringify([...new Set(reports.map(({ appId }) => appId))]);
	return sql<ActiveRollout>`SELECT r.id, a.app_id AS public_app_id, r.version_name
		FROM json_each(${appIds}) CROSS JOIN apps a ON a.app_id = value
			CROSS JOIN rollouts r ON r.app_id = a.id AND r.ended_at_ms IS NULL`.compile(query);
}

/** SQL: when the device of an event was first seen; null: it is not known. */
export const CREATED_AT_MS = sql`(value ->> 'knownSinceMs')`;

/** Latest install and failure for each device, network and way of attribution. */
interface Outcome {
	readonly appId: string;
	readonly rolloutId: string;
	readonly deviceId: string;
	readonly network: string;
	readonly versionName: string;
	readonly installedAtMs: number | null;
	readonly failedAtMs: number | null;
	readonly crashedAtMs: number | null;
	readonly erroredAtMs: number | null;
	/** When the bundle was set, and when the app that crashed ended, by the device's clock. */
	readonly setAtMs: number | null;
	readonly exitAtMs: number | null;
	readonly knownSinceMs: number | null;
}

/** Statements in their order; run them after the offers are written. */
export function outcomeStatements(
	reports: readonly Report[],
	active: readonly ActiveRollout[],
	pseudonymOf: NetworkPseudonyms,
	knownSince: ReadonlyMap<string, number>,
): CompiledQuery[] {
	const rollouts = Map.groupBy(active, ({ public_app_id }) => public_app_id);
	const named = new Map<string, Outcome>();
	const unnamed = new Map<string, Outcome>();
	const running = new Map<string, Outcome>();
	for (const event of reports) {
		for (const { id: rolloutId, version_name } of rollouts.get(event.appId) ?? []) {
			const isNamed = event.versionName === version_name;
			if (!isNamed && (event.type === "rollout_runs" || event.outcome !== "download_failed")) continue;
			const outcomes = !isNamed ? unnamed : event.type === "rollout_runs" ? running : named;
			const network = pseudonymOf(rolloutId, event.network);
			const { appId, deviceId, versionName } = event;
			const key = JSON.stringify([rolloutId, deviceId, network, versionName]);
			const before = outcomes.get(key);
			const next: Outcome = before ?? {
				appId,
				rolloutId,
				deviceId,
				network,
				versionName,
				...NOTHING_REPORTED,
				knownSinceMs: knownSince.get(rolloutDeviceKey(event)) ?? null,
			};
			outcomes.set(key, { ...next, ...timesOf(next, event) });
		}
	}
	const write = (outcomes: ReadonlyMap<string, Outcome>, counts: RawBuilder<unknown>) =>
		chunksOf([...outcomes.values()]).map((part) => writeOutcomes(part, counts));
	return [...write(named, NAMED), ...write(unnamed, UNNAMED), ...write(running, RUNNING)];
}

const NOTHING_REPORTED = {
	installedAtMs: null,
	failedAtMs: null,
	crashedAtMs: null,
	erroredAtMs: null,
	setAtMs: null,
	exitAtMs: null,
};

const latest = (one: number | null, other: number) => Math.max(one ?? other, other);

function timesOf(before: Outcome, event: Report): Partial<Outcome> {
	const { atMs } = event;
	if (event.type === "rollout_runs") return { installedAtMs: latest(before.installedAtMs, atMs) };
	const { outcome, deviceAtMs } = event;
	switch (outcome) {
		case "installed":
			return {
				installedAtMs: latest(before.installedAtMs, atMs),
				...(deviceAtMs === undefined ? {} : { setAtMs: latest(before.setAtMs, deviceAtMs) }),
			};
		case "crashed":
			return {
				crashedAtMs: latest(before.crashedAtMs, atMs),
				...(deviceAtMs === undefined ? {} : { exitAtMs: latest(before.exitAtMs, deviceAtMs) }),
			};
		case "errored":
			return { erroredAtMs: latest(before.erroredAtMs, atMs) };
		default:
			return { failedAtMs: latest(before.failedAtMs, atMs) };
	}
}

/**
 * Reports that name the rollout's version. One may be consumed before the offer; it counts once the
 * offer is consumed.
 */
const NAMED = sql`(r.sampling = 1 AND (${predatesRollout(CREATED_AT_MS)})) OR known.device_id IS NOT NULL`;
/**
 * Failed downloads that were reported under the running version or none belong to the bundle
 * offered then, unless it was installed.
 */
const UNNAMED = sql`value ->> 'versionName' IN ('', known.from_version)
	AND value ->> 'failedAtMs' BETWEEN known.first_served_at_ms AND known.last_served_at_ms + ${sql.lit(DOWNLOAD_MS)}
	AND coalesce(known.installed_at_ms, 0) < known.first_served_at_ms`;
/**
 * A check by the bundle itself proves that it runs, even if the device never reports. Written if no
 * install is known.
 */
const RUNNING = sql`known.device_id IS NOT NULL
	AND (coalesce(known.installed_at_ms, 0) < coalesce(known.first_served_at_ms, 1) OR known.failed_at_ms >= known.installed_at_ms)`;

/** Columns of times that only grow, and their fields. */
const TIMES = [
	["installed_at_ms", "installedAtMs"],
	["failed_at_ms", "failedAtMs"],
	["crashed_at_ms", "crashedAtMs"],
	["errored_at_ms", "erroredAtMs"],
	["set_at_device_ms", "setAtMs"],
	["exit_at_device_ms", "exitAtMs"],
] as const;
export const OUTCOME_TIMES = TIMES.map(([column]) => column);
/** Those of arrival. */
const REPORTED = ["installed_at_ms", "failed_at_ms", "crashed_at_ms", "errored_at_ms"];

function writeOutcomes(outcomes: readonly Outcome[], counts: RawBuilder<unknown>): CompiledQuery {
	const isOf = sql`n.rollout_id = placed.rollout_id AND n.reporting_network = placed.network`;
	// Excluded devices do not use up the limit of devices that count.
	const isAlike = sql`(n.not_counted IS NOT NULL) = placed.is_uncounted`;
	const reportedAtMs = (row: string) =>
		sql`max(${sql.join(REPORTED.map((column) => sql`coalesce(${sql.ref(`${row}.${column}`)}, 0)`))})`;
	const columns = sql.join(TIMES.map(([column]) => sql.ref(column)));
	const reported = sql.join(TIMES.map(([column, field]) => sql`value ->> ${sql.lit(field)} AS ${sql.ref(column)}`));
	const later = TIMES.map(
		([column]) =>
			sql`coalesce(${sql.ref(`excluded.${column}`)}, 0) > coalesce(${sql.ref(`rollout_devices.${column}`)}, 0)`,
	);
	const merged = TIMES.map(([column]) => {
		const [own, added] = [sql.ref(column), sql.ref(`excluded.${column}`)];
		return sql`${own} = coalesce(max(${own}, ${added}), ${own}, ${added})`;
	});
	return sql`WITH reported AS MATERIALIZED (
			SELECT r.id AS rollout_id, value ->> 'deviceId' AS device_id, value ->> 'network' AS network, ${reported},
				c.rollout_devices_per_network AS most, known.not_counted IS NOT NULL AS is_uncounted,
				CASE WHEN value ->> 'network' IN (known.network, known.reporting_network) THEN 'known'
					WHEN known.first_served_at_ms IS NULL THEN 'early' ELSE 'abroad' END AS place
			FROM json_each(${JSON.stringify(outcomes)}) CROSS JOIN rollouts r ON r.id = value ->> 'rolloutId' AND r.ended_at_ms IS NULL
				LEFT JOIN rollout_devices known ON known.rollout_id = r.id AND known.device_id = value ->> 'deviceId'
				CROSS JOIN apps a ON a.id = r.app_id AND a.app_id = value ->> 'appId'
				CROSS JOIN channels c ON c.id = r.channel_id
			WHERE ${CREATED_AT_MS} IS NOT NULL AND (${counts})),
		placed AS (SELECT *, count(*) OVER (PARTITION BY rollout_id, network, place, is_uncounted ORDER BY device_id) AS rank FROM reported)
		INSERT INTO rollout_devices (rollout_id, device_id, reporting_network, ${columns})
		SELECT rollout_id, device_id, network, ${columns} FROM placed
		WHERE place = 'known' OR most IS NULL OR rank + CASE place
			WHEN 'early' THEN (SELECT count(*) FROM rollout_devices n WHERE ${isOf} AND n.first_served_at_ms IS NULL)
			ELSE (SELECT count(*) FROM rollout_devices n WHERE ${isOf} AND n.reporting_network <> n.network AND ${isAlike}) END <= most
		ON CONFLICT (rollout_id, device_id) DO UPDATE SET
			reporting_network = CASE WHEN ${reportedAtMs("excluded")} >= ${reportedAtMs("rollout_devices")} THEN excluded.reporting_network
				ELSE reporting_network END,
			${sql.join(merged)}
		WHERE ${sql.join(later, sql` OR `)}`.compile(query);
}
