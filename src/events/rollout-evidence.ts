/**
 * The consumer's work on what devices told of staged rollouts. A device counts only when an update check was answered with the bundle,
 * and only one that cannot have been made up for the purpose: it was known before the day on which the rollout began, and no network brings more than a
 * few of them. What a device reports is attributed to what it was served, whatever version the report names.
 *
 * Times of a row only grow and its outcome is read from them, so a batch may be delivered again, late, or twice at once.
 */
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import { type CompiledQuery, sql } from "kysely";
import { openDb, query } from "../db/client";
import type { Deps } from "../deps";
import { DAY_MS } from "./days";
import type { DeviceEvent, RolloutEvent, RolloutRuns, RolloutServed, RolloutTold } from "./messages";
import { partsOf } from "./parts";

/** A failed download that names another version belongs to what was served so shortly before. */
const DOWNLOAD_MS = 60 * 60 * 1000;
/** That a device is still served is written no more often. */
const SERVED_AGAIN_MS = 10 * 60 * 1000;
const NETWORK_LENGTH = 24;

export function isRolloutEvent(event: DeviceEvent): event is RolloutEvent {
	return event.type === "rollout_served" || event.type === "rollout_told" || event.type === "rollout_runs";
}

/** One batch, after the devices themselves are known. */
export async function consumeRolloutEvidence(deps: Deps, events: readonly RolloutEvent[]): Promise<void> {
	const served = events.filter((event) => event.type === "rollout_served");
	const told = events.filter((event) => event.type === "rollout_told");
	const ran = events.filter((event) => event.type === "rollout_runs");
	const statements = [
		...partsOf(rankedByNetwork(deps, served)).map(writeServed),
		...partsOf(told).map(writeTold),
		...partsOf(told.filter((event) => event.outcome === "download_failed")).map(writeFailedDownloads),
		...partsOf(ran).map(writeRuns),
	];
	if (statements.length > 0) await openDb(deps.d1, "first-primary").batch(statements);
}

interface ServedRow {
	readonly appId: string;
	readonly rolloutId: string;
	readonly deviceId: string;
	readonly fromVersion: string;
	readonly network: string;
	readonly firstAtMs: number;
	readonly lastAtMs: number;
	/** How many devices of the network stand before it in this batch. */
	readonly rank: number;
}

function rankedByNetwork(deps: Deps, served: readonly RolloutServed[]): ServedRow[] {
	const rows = new Map<string, ServedRow>();
	const devices = new Map<string, number>();
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
		const network = pseudonym(deps, event);
		const rank = devices.get(network) ?? 0;
		devices.set(network, rank + 1);
		const { appId, rolloutId, deviceId, fromVersion, atMs } = event;
		rows.set(key, { appId, rolloutId, deviceId, fromVersion, network, firstAtMs: atMs, lastAtMs: atMs, rank });
	}
	return [...rows.values()];
}

/** The network, recognizable within its rollout and nowhere else. */
function pseudonym({ config }: Pick<Deps, "config">, { rolloutId, network }: RolloutServed): string {
	const hash = hmac(sha256, config.secret, utf8ToBytes(`rollout network\n${rolloutId}\n${network}`));
	return bytesToHex(hash).slice(0, NETWORK_LENGTH);
}

/**
 * Whether the device, as `r`, `c` and `d` name its rollout, channel and row, may count. The day, not the hour: of a device's first day the
 * row may have the time of a later message.
 */
const mayCount = sql`r.sampling = 1 AND (c.rollout_count_new_devices = 1
	OR d.created_at_ms < r.started_at_ms - r.started_at_ms % ${sql.lit(DAY_MS)})`;

function writeServed(rows: readonly ServedRow[]): CompiledQuery {
	// A device that was told of before it was served has a row already, without a network; the limit holds for it, too.
	return sql`INSERT INTO rollout_devices (rollout_id, device_id, network, from_version, first_served_at_ms, last_served_at_ms)
		SELECT r.id, d.device_id, value ->> 'network', value ->> 'fromVersion', value ->> 'firstAtMs', value ->> 'lastAtMs'
		FROM json_each(${JSON.stringify(rows)}) CROSS JOIN rollouts r ON r.id = value ->> 'rolloutId' AND r.ended_at_ms IS NULL
			CROSS JOIN apps a ON a.id = r.app_id AND a.app_id = value ->> 'appId'
			CROSS JOIN channels c ON c.id = r.channel_id
			CROSS JOIN devices d ON d.app_id = r.app_id AND d.device_id = value ->> 'deviceId'
			LEFT JOIN rollout_devices known ON known.rollout_id = r.id AND known.device_id = d.device_id
		WHERE known.first_served_at_ms IS NOT NULL OR (${mayCount} AND (c.rollout_devices_per_network IS NULL
			OR (SELECT count(*) FROM rollout_devices n WHERE n.rollout_id = r.id AND n.network = value ->> 'network') + (value ->> 'rank')
				< c.rollout_devices_per_network))
		ON CONFLICT (rollout_id, device_id) DO UPDATE SET network = coalesce(network, excluded.network),
			from_version = CASE WHEN excluded.last_served_at_ms >= coalesce(last_served_at_ms, 0) THEN excluded.from_version
				ELSE from_version END,
			first_served_at_ms = min(coalesce(first_served_at_ms, excluded.first_served_at_ms), excluded.first_served_at_ms),
			last_served_at_ms = max(coalesce(last_served_at_ms, 0), excluded.last_served_at_ms)
		WHERE first_served_at_ms IS NULL OR excluded.first_served_at_ms < first_served_at_ms
			OR excluded.last_served_at_ms >= last_served_at_ms + ${sql.lit(SERVED_AGAIN_MS)}
			OR (excluded.last_served_at_ms > last_served_at_ms AND excluded.from_version <> from_version)`.compile(query);
}

/** Reports that name the bundle. One may be consumed before the check that was answered with it; it counts when that has come. */
function writeTold(events: readonly RolloutTold[]): CompiledQuery {
	const isInstalled = sql`value ->> 'outcome' = 'installed'`;
	return sql`INSERT INTO rollout_devices (rollout_id, device_id, installed_at_ms, failed_at_ms)
		SELECT r.id, d.device_id, CASE WHEN ${isInstalled} THEN value ->> 'atMs' END, CASE WHEN NOT ${isInstalled} THEN value ->> 'atMs' END
		FROM json_each(${JSON.stringify(events)}) CROSS JOIN apps a ON a.app_id = value ->> 'appId'
			CROSS JOIN rollouts r ON r.app_id = a.id AND r.version_name = value ->> 'versionName' AND r.ended_at_ms IS NULL
			CROSS JOIN channels c ON c.id = r.channel_id
			CROSS JOIN devices d ON d.app_id = r.app_id AND d.device_id = value ->> 'deviceId'
		WHERE (${mayCount}) OR EXISTS (SELECT 1 FROM rollout_devices known WHERE known.rollout_id = r.id AND known.device_id = d.device_id)
		ON CONFLICT (rollout_id, device_id) DO UPDATE SET
			installed_at_ms = coalesce(max(installed_at_ms, excluded.installed_at_ms), installed_at_ms, excluded.installed_at_ms),
			failed_at_ms = coalesce(max(failed_at_ms, excluded.failed_at_ms), failed_at_ms, excluded.failed_at_ms)
		WHERE coalesce(excluded.installed_at_ms, 0) > coalesce(installed_at_ms, 0)
			OR coalesce(excluded.failed_at_ms, 0) > coalesce(failed_at_ms, 0)`.compile(query);
}

/**
 * Downloads that failed and were reported under what runs, or under no version: of what the device was served then, unless it has
 * installed that.
 */
function writeFailedDownloads(events: readonly RolloutTold[]): CompiledQuery {
	return sql`INSERT INTO rollout_devices (rollout_id, device_id, failed_at_ms)
		SELECT v.rollout_id, v.device_id, value ->> 'atMs'
		FROM json_each(${JSON.stringify(events)}) CROSS JOIN apps a ON a.app_id = value ->> 'appId'
			CROSS JOIN rollouts r ON r.app_id = a.id AND r.ended_at_ms IS NULL
			CROSS JOIN rollout_devices v ON v.rollout_id = r.id AND v.device_id = value ->> 'deviceId'
		WHERE value ->> 'versionName' <> r.version_name AND value ->> 'versionName' IN ('', v.from_version)
			AND value ->> 'atMs' BETWEEN v.first_served_at_ms AND v.last_served_at_ms + ${sql.lit(DOWNLOAD_MS)}
			AND v.installed_at_ms IS NULL
		ON CONFLICT (rollout_id, device_id) DO UPDATE SET failed_at_ms = max(coalesce(failed_at_ms, 0), excluded.failed_at_ms)`.compile(
		query,
	);
}

/** A check that the bundle itself made says that it runs, whether or not the device reports. */
function writeRuns(events: readonly RolloutRuns[]): CompiledQuery {
	return sql`INSERT INTO rollout_devices (rollout_id, device_id, installed_at_ms)
		SELECT v.rollout_id, v.device_id, value ->> 'atMs'
		FROM json_each(${JSON.stringify(events)}) CROSS JOIN apps a ON a.app_id = value ->> 'appId'
			CROSS JOIN rollouts r ON r.app_id = a.id AND r.version_name = value ->> 'versionName' AND r.ended_at_ms IS NULL
			CROSS JOIN rollout_devices v ON v.rollout_id = r.id AND v.device_id = value ->> 'deviceId'
		WHERE v.installed_at_ms IS NULL OR v.failed_at_ms >= v.installed_at_ms
		ON CONFLICT (rollout_id, device_id) DO UPDATE SET
			installed_at_ms = max(coalesce(installed_at_ms, 0), excluded.installed_at_ms)`.compile(query);
}
