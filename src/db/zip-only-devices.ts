/**
 * Devices that are offered the zip of a bundle, because its single files failed on them twice.
 * Snapshots hold them, so a check reads nothing. Anybody can report in the name of a device, so the
 * marks are bounded: a mark is for one bundle; an app has at most `MOST_ZIP_ONLY`, of which the
 * devices that are known the longest stay, and so invented ones push none of them out; a network
 * has at most `MOST_PER_NETWORK` for a bundle; and a device is marked once in ten minutes, an app
 * is reloaded for at most thirty marks and their ends in that time.
 */
import { type CompiledQuery, sql } from "kysely";
import { MINUTE_MS } from "../domain/time";
import { query } from "./client";
import { MOST_ZIP_ONLY } from "./snapshot-load";

const MOST_PER_NETWORK = 50;
const PERIOD_MS = 10 * MINUTE_MS;
const MOST_PUBLISHED = 30;

/** App: its public id or its UUID. */
interface DeltaFailure {
	readonly appId: string;
	readonly deviceId: string;
	readonly version: string;
	/** As a hash. */
	readonly network: string;
	readonly knownSinceMs: number;
}

type InstalledBundle = Pick<DeltaFailure, "appId" | "deviceId" | "version">;

const NAMED_APP = sql`apps.id = coalesce((SELECT id FROM apps WHERE app_id = value ->> 0), value ->> 0)`;

/** Bundles without a zip keep their single files, because devices could load nothing else. */
function insertMarks(failures: readonly DeltaFailure[], nowMs: number): CompiledQuery {
	const list = failures.map((of) => [of.appId, of.deviceId, of.version, of.network, of.knownSinceMs]);
	return sql`WITH failed AS MATERIALIZED (
			SELECT apps.id AS app_id, value ->> 1 AS device_id, b.id AS version_id, value ->> 3 AS network, value ->> 4 AS known_since_ms,
				row_number() OVER (PARTITION BY apps.id, b.id, value ->> 3 ORDER BY value ->> 4, value ->> 1) AS rank
			FROM json_each(${JSON.stringify(list)}) CROSS JOIN apps ON ${NAMED_APP}
				CROSS JOIN bundles b ON b.app_id = apps.id AND b.name = value ->> 2 AND b.status = 'ready' AND b.deleted_at_ms IS NULL
					AND b.object_key IS NOT NULL AND EXISTS (SELECT 1 FROM bundle_files f WHERE f.bundle_id = b.id)),
		counted AS MATERIALIZED (SELECT failed.*, (SELECT count(*) FROM zip_only_devices z WHERE z.app_id = failed.app_id
			AND z.version_id = failed.version_id AND z.network = failed.network AND z.device_id <> failed.device_id) AS before FROM failed)
		INSERT INTO zip_only_devices (app_id, device_id, version_id, network, known_since_ms, marked_at_ms)
		SELECT app_id, device_id, version_id, network, known_since_ms, ${nowMs} FROM counted WHERE rank + before <= ${sql.lit(MOST_PER_NETWORK)}
		ON CONFLICT (app_id, device_id) DO UPDATE SET version_id = excluded.version_id, network = excluded.network,
			known_since_ms = min(known_since_ms, excluded.known_since_ms), marked_at_ms = excluded.marked_at_ms, published_at_ms = NULL,
			ended_at_ms = NULL
		WHERE (version_id <> excluded.version_id OR ended_at_ms IS NOT NULL)
			AND coalesce(published_at_ms, 0) <= ${nowMs - PERIOD_MS}`.compile(query);
}

/** @param appIds whose marks were added, by their public ids or UUIDs; undefined: of all apps */
function trim(appIds: readonly string[] | undefined, nowMs: number): readonly CompiledQuery[] {
	const apps =
		appIds === undefined
			? sql`SELECT DISTINCT app_id FROM zip_only_devices`
			: sql`SELECT apps.id FROM json_each(${JSON.stringify(appIds.map((id) => [id]))}) AS named
				CROSS JOIN apps ON apps.id = coalesce((SELECT id FROM apps WHERE app_id = named.value ->> 0), named.value ->> 0)`;
	const isServed = sql<boolean>`EXISTS (SELECT 1 FROM channels c WHERE c.app_id = z.app_id AND z.version_id IN (c.version_id, c.rollout_version_id))
		OR EXISTS (SELECT 1 FROM device_overrides o WHERE o.version_id = z.version_id)`;
	return [
		query
			.deleteFrom("zip_only_devices")
			.where((eb) =>
				eb(
					eb.refTuple("app_id", "device_id"),
					"in",
					eb
						.selectFrom("zip_only_devices as z")
						.select(["z.app_id", "z.device_id"])
						.where("z.app_id", "in", sql<string>`(${apps})`)
						.where("z.marked_at_ms", "<=", nowMs - PERIOD_MS)
						.where((mark) => mark.or([sql<boolean>`NOT (${isServed})`, mark("z.ended_at_ms", "<=", nowMs - PERIOD_MS)]))
						.$asTuple("app_id", "device_id"),
				),
			)
			.compile(),
		sql`DELETE FROM zip_only_devices WHERE (app_id, device_id) IN (SELECT app_id, device_id FROM (
			SELECT z.app_id, z.device_id, row_number() OVER (PARTITION BY z.app_id ORDER BY z.known_since_ms, z.device_id) AS place
			FROM zip_only_devices z WHERE z.app_id IN (${apps})) WHERE place > ${sql.lit(MOST_ZIP_ONLY)})`.compile(query),
	];
}

/**
 * Snapshots are loaded again, so that checks know the marks; beyond the bound with the next run.
 */
function publish(nowMs: number): readonly CompiledQuery[] {
	return [
		query
			.updateTable("zip_only_devices")
			.set({ published_at_ms: nowMs })
			.where("published_at_ms", "is", null)
			.where("app_id", "in", (eb) =>
				eb
					.selectFrom("zip_only_devices as waiting")
					.select("waiting.app_id")
					.where("waiting.published_at_ms", "is", null)
					.where(
						(mark) =>
							mark
								.selectFrom("zip_only_devices as z")
								.select((published) => published.fn.countAll<number>().as("marks"))
								.whereRef("z.app_id", "=", "waiting.app_id")
								.where("z.published_at_ms", ">", nowMs - PERIOD_MS),
						"<",
						MOST_PUBLISHED,
					),
			)
			.compile(),
		query
			.updateTable("apps")
			.set({ revision: sql<number>`revision + 1` })
			.where(sql<boolean>`changes() > 0`)
			.where(
				"id",
				"in",
				query
					.selectFrom("zip_only_devices")
					.select("app_id")
					.where("published_at_ms", "=", nowMs)
					.where("ended_at_ms", "is", null),
			)
			.compile(),
	];
}

export function markZipOnly(failures: readonly DeltaFailure[], nowMs: number): readonly CompiledQuery[] {
	const appIds = [...new Set(failures.map(({ appId }) => appId))];
	return [insertMarks(failures, nowMs), ...trim(appIds, nowMs), ...publish(nowMs)];
}

/**
 * An installed bundle ends the mark. Checks know only published marks, so the app is reloaded for
 * no others.
 */
export function endZipOnly(installed: readonly InstalledBundle[], nowMs: number): readonly CompiledQuery[] {
	const list = JSON.stringify(installed.map(({ appId, deviceId, version }) => [appId, deviceId, version]));
	const marked = sql`FROM json_each(${list}) CROSS JOIN apps ON ${NAMED_APP}
		CROSS JOIN zip_only_devices z ON z.app_id = apps.id AND z.device_id = value ->> 1 AND z.ended_at_ms IS NULL
		CROSS JOIN bundles b ON b.id = z.version_id AND b.name = value ->> 2`;
	return [
		query
			.updateTable("apps")
			.set({ revision: sql<number>`revision + 1` })
			.where("id", "in", sql<string>`(SELECT z.app_id ${marked} WHERE z.published_at_ms IS NOT NULL)`)
			.compile(),
		query
			.updateTable("zip_only_devices")
			.set({ ended_at_ms: nowMs })
			.where((eb) => sql<boolean>`${eb.refTuple("app_id", "device_id")} IN (SELECT z.app_id, z.device_id ${marked})`)
			.compile(),
	];
}

/** Job: publishes marks that had to wait, and removes those of bundles that no channel serves. */
export function settleZipOnly(nowMs: number): readonly CompiledQuery[] {
	return [...trim(undefined, nowMs), ...publish(nowMs)];
}
