/**
 * Rows of devices, and how many devices there were on each day under each version. A device counts once a day, under the version that it
 * was last seen with on that day; its row remembers on which days it was counted and as what, so messages may come again and in any
 * order. A row is written when something changed or a day has passed, never for a device that is as it was. What comes after a message of
 * a later day can still count its device, under the version of whichever of its own day's messages comes first.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { query } from "../db/client";
import { BUILTIN } from "../domain/update-decision";
import { DAY_MS, dayOf, startOfDayMs } from "./days";
import type { DeviceSeen } from "./messages";
import { partsOf } from "./parts";

/** Bits that `seen_days` keeps; the consumer takes nothing that is older (src/config.ts). */
const REMEMBERED_DAYS = 31;
const EVERY_REMEMBERED_DAY = 2 ** REMEMBERED_DAYS - 1;

/** In the order in which they must run, in one batch. */
export function deviceStatements(seen: readonly DeviceSeen[]): CompiledQuery[] {
	return [...latestOfEachDay(seen)]
		.sort(([left], [right]) => left - right)
		.flatMap(([day, devices]) =>
			partsOf(devices).flatMap((part) => {
				const known = seenWith(JSON.stringify(part), day);
				return [
					countVersions(known, day),
					countDevices(known, day),
					touchDevices(known, day),
					upsertDevices(known, day),
					noteLateDays(known, day),
					...(part.some(({ moved }) => moved) ? [noteMoves(known)] : []),
				];
			}),
		);
}

/**
 * An update and the way back within a day leave the row as it was; the time of the way back stays, or a message of the update that comes
 * after it would count.
 */
function noteMoves(known: Known): CompiledQuery {
	return sql`${known} UPDATE devices SET last_seen_at_ms = seen.at_ms FROM seen
		WHERE devices.app_id = seen.app AND devices.device_id = seen.device AND seen.late_days = 0
			AND event ->> 'moved' AND seen.at_ms > last_seen_at_ms`.compile(query);
}

function latestOfEachDay(seen: readonly DeviceSeen[]): Map<number, DeviceSeen[]> {
	const days = new Map<number, Map<string, DeviceSeen>>();
	for (const told of seen) {
		const day = dayOf(told.atMs);
		// One that does not say what the device runs shows that it was there, and must not outdo an earlier one that does.
		const event = told.versionName === "" ? { ...told, atMs: startOfDayMs(day) } : told;
		const devices = days.get(day) ?? new Map<string, DeviceSeen>();
		days.set(day, devices);
		const key = `${event.appId} ${event.deviceId}`;
		const known = devices.get(key);
		if (known === undefined) devices.set(key, event);
		else devices.set(key, event.atMs >= known.atMs ? together(known, event) : together(event, known));
	}
	return new Map([...days].map(([day, devices]) => [day, [...devices.values()]]));
}

/** A report says less than a check; what the later one leaves out stays. */
function together(earlier: DeviceSeen, later: DeviceSeen): DeviceSeen {
	return {
		...earlier,
		...later,
		channelId: later.channelId ?? earlier.channelId,
		platform: later.platform || earlier.platform,
		versionName: later.versionName || earlier.versionName,
		versionBuild: later.versionBuild || earlier.versionBuild,
		osVersion: later.osVersion || earlier.osVersion,
		pluginVersion: later.pluginVersion || earlier.pluginVersion,
		customId: later.customId || earlier.customId,
		installSource: later.installSource || earlier.installSource,
		keyId: later.keyId || earlier.keyId,
	};
}

type Known = RawBuilder<unknown>;

/**
 * The devices of one day beside what is known of them. `version` is what they count under: a bundle's name, `builtin`, or nothing for a
 * version that the app never had; `first` is true on the first message of a device and day.
 */
function seenWith(devices: string, day: number): Known {
	const name = sql`(value ->> 'versionName')`;
	const late = sql`(d.last_seen_at_ms / ${sql.lit(DAY_MS)} - ${sql.lit(day)})`;
	return sql`WITH seen AS MATERIALIZED (
		SELECT apps.id AS app, value AS event, value ->> 'deviceId' AS device, value ->> 'atMs' AS at_ms,
			d.last_seen_at_ms AS last_at_ms, ${late} AS late_days, coalesce(d.counted_version, '') AS before,
			CASE WHEN d.last_seen_at_ms IS NULL OR ${late} < 0 THEN 1
				WHEN ${late} < ${sql.lit(REMEMBERED_DAYS)} THEN (d.seen_days >> ${late}) & 1 = 0 ELSE 0 END AS first,
			CASE WHEN ${name} = '' THEN coalesce(d.counted_version, '')
				WHEN EXISTS (SELECT 1 FROM bundles WHERE bundles.app_id = apps.id AND bundles.name = ${name}
					AND bundles.status <> 'pending') THEN ${name}
				WHEN ${name} IN (${sql.lit(BUILTIN)}, value ->> 'versionBuild') THEN ${sql.lit(BUILTIN)}
				ELSE '' END AS version
		FROM json_each(${devices}) CROSS JOIN apps ON apps.app_id = value ->> 'appId'
		LEFT JOIN devices d ON d.app_id = apps.id AND d.device_id = value ->> 'deviceId')`;
}

function countVersions(known: Known, day: number): CompiledQuery {
	const changed = sql`first = 0 AND late_days = 0 AND at_ms >= last_at_ms AND version <> before`;
	return sql`${known}, changes AS (
			SELECT app, version, 1 AS amount FROM seen WHERE first = 1
			UNION ALL SELECT app, version, 1 FROM seen WHERE ${changed}
			UNION ALL SELECT app, before, -1 FROM seen WHERE ${changed})
		INSERT INTO daily_counts (app_id, day, version_name, channel_name, metric, amount)
		SELECT app, ${sql.lit(day)}, version, '', 'devices', sum(amount) FROM changes WHERE true
		GROUP BY app, version HAVING sum(amount) <> 0
		ON CONFLICT (app_id, day, version_name, channel_name, metric) DO UPDATE SET amount = amount + excluded.amount`.compile(
		query,
	);
}

function countDevices(known: Known, day: number): CompiledQuery {
	return sql`${known} INSERT INTO daily_totals (app_id, day, device_count)
		SELECT app, ${sql.lit(day)}, count(*) FROM seen WHERE first = 1 GROUP BY app
		ON CONFLICT (app_id, day) DO UPDATE SET device_count = device_count + excluded.device_count`.compile(query);
}

/** Texts that a message may leave out, by their column. */
const TEXTS: Readonly<Record<string, string>> = {
	platform: "platform",
	version_name: "versionName",
	version_build: "versionBuild",
	os_version: "osVersion",
	plugin_version: "pluginVersion",
	custom_id: "customId",
	install_source: "installSource",
	key_id: "keyId",
};

/** The first message of a day from a device that is as it was: one row, where the whole statement would write its indexes, too. */
function touchDevices(known: Known, day: number): CompiledQuery {
	const same = [
		...Object.entries(TEXTS).map(
			([column, name]) =>
				sql`coalesce(nullif(event ->> ${sql.lit(name)}, ''), ${sql.ref(column)}) IS ${sql.ref(column)}`,
		),
		sql`coalesce(event ->> 'channelId', channel_id) IS channel_id`,
		sql`nullif(event ->> 'defaultChannel', '') IS default_channel`,
		sql`event ->> 'isProd' IS is_prod AND event ->> 'isEmulator' IS is_emulator`,
	];
	return sql`${known} UPDATE devices SET last_seen_at_ms = seen.at_ms, updated_at_ms = seen.at_ms,
			seen_days = ${seenDaysOn(day)}, counted_version = seen.version
		FROM seen WHERE devices.app_id = seen.app AND devices.device_id = seen.device AND seen.late_days < 0
			AND ${sql.join(same, sql` AND `)}`.compile(query);
}

function seenDaysOn(day: number): RawBuilder<number> {
	const passed = sql`(${sql.lit(day)} - last_seen_at_ms / ${sql.lit(DAY_MS)})`;
	return sql`CASE WHEN last_seen_at_ms IS NULL OR ${passed} >= ${sql.lit(REMEMBERED_DAYS)} THEN 1
		ELSE (seen_days << ${passed} | 1) & ${sql.lit(EVERY_REMEMBERED_DAY)} END`;
}

function upsertDevices(known: Known, day: number): CompiledQuery {
	const text = (name: string) => sql`nullif(event ->> ${sql.lit(name)}, '')`;
	const passed = sql`(${sql.lit(day)} - last_seen_at_ms / ${sql.lit(DAY_MS)})`;
	return sql`${known}
		INSERT INTO devices (app_id, device_id, platform, version_name, version_build, os_version, plugin_version, is_prod,
			is_emulator, custom_id, install_source, key_id, default_channel, channel_id, last_seen_at_ms, created_at_ms, updated_at_ms,
			seen_days, counted_version)
		SELECT app, device, ${text("platform")}, ${text("versionName")}, ${text("versionBuild")}, ${text("osVersion")},
			${text("pluginVersion")}, event ->> 'isProd', event ->> 'isEmulator', ${text("customId")}, ${text("installSource")},
			${text("keyId")}, ${text("defaultChannel")}, event ->> 'channelId', at_ms, at_ms, at_ms, 1, version
		FROM seen WHERE true
		ON CONFLICT (app_id, device_id) DO UPDATE SET platform = coalesce(excluded.platform, platform),
			version_name = coalesce(excluded.version_name, version_name), version_build = coalesce(excluded.version_build, version_build),
			os_version = coalesce(excluded.os_version, os_version), plugin_version = coalesce(excluded.plugin_version, plugin_version),
			is_prod = excluded.is_prod, is_emulator = excluded.is_emulator, custom_id = coalesce(excluded.custom_id, custom_id),
			install_source = coalesce(excluded.install_source, install_source), key_id = coalesce(excluded.key_id, key_id),
			default_channel = excluded.default_channel, channel_id = coalesce(excluded.channel_id, channel_id),
			last_seen_at_ms = excluded.last_seen_at_ms, updated_at_ms = excluded.updated_at_ms,
			seen_days = ${seenDaysOn(day)},
			counted_version = excluded.counted_version
		WHERE excluded.last_seen_at_ms >= coalesce(last_seen_at_ms, 0) AND (
			last_seen_at_ms IS NULL OR ${passed} > 0 OR seen_days & 1 = 0
			OR coalesce(excluded.version_name, version_name) IS NOT version_name
			OR coalesce(excluded.version_build, version_build) IS NOT version_build
			OR coalesce(excluded.os_version, os_version) IS NOT os_version
			OR coalesce(excluded.plugin_version, plugin_version) IS NOT plugin_version
			OR coalesce(excluded.custom_id, custom_id) IS NOT custom_id
			OR coalesce(excluded.channel_id, channel_id) IS NOT channel_id
			OR excluded.default_channel IS NOT default_channel OR excluded.is_prod IS NOT is_prod
			OR excluded.counted_version IS NOT counted_version)`.compile(query);
}

/** A device that was seen later already was there on this day, too. */
function noteLateDays(known: Known, day: number): CompiledQuery {
	return sql`${known} UPDATE devices SET seen_days = seen_days | (1 << seen.late_days),
			counted_version = CASE WHEN seen.late_days = 0 THEN seen.version ELSE counted_version END
		FROM seen WHERE devices.app_id = seen.app AND devices.device_id = seen.device AND seen.first = 1
			AND seen.late_days >= 0 AND last_seen_at_ms / ${sql.lit(DAY_MS)} - ${sql.lit(day)} = seen.late_days`.compile(
		query,
	);
}
