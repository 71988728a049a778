/**
 * The statements that write what the devices of a sample app reported: their rows, daily figures
 * and the log of events, as batches of the consumer would have written them.
 */
import type { AppId } from "../../../authz/decide";
import type { LoggedEvent } from "../../../db/device-events";
import { insertSample, insertSampleReports } from "../../../db/sample-app";
import type { Deps } from "../../../deps";
import { countDistinct, encodeSketch, type Sketch } from "../../../domain/statistics/distinct-count";
import { DAY_MS } from "../../../domain/time";
import { SAMPLE_BUNDLES } from "./bundles";
import type { SampleFleet } from "./devices";
import { BETA } from "./releases";

const PLUGIN = "8.51.23";
/** The log of events reaches back so far. */
const LOGGED_MS = 5 * DAY_MS;
const EVENTS_A_ROW = 50;

export function deviceStatements(appId: AppId, { devices }: SampleFleet, channelIds: ReadonlyMap<string, number>) {
	const rows = devices.map((device) => {
		const { id, platform, version, build, osVersion, customId, channel, createdAtMs, lastSeenAtMs } = device;
		const story = { events: device.events, decision: device.decision, decidedAtMs: lastSeenAtMs };
		return [
			id,
			platform,
			version,
			build,
			osVersion,
			PLUGIN,
			1,
			0,
			customId,
			channel === BETA ? BETA : null,
			channelIds.get(channel) ?? null,
			lastSeenAtMs,
			createdAtMs,
			lastSeenAtMs,
			customId === null ? null : createdAtMs,
			JSON.stringify({ ids: {}, steps: {}, story }),
		];
	});
	return insertSampleReports(
		appId,
		"devices",
		[
			"device_id",
			"platform",
			"version_name",
			"version_build",
			"os_version",
			"plugin_version",
			"is_prod",
			"is_emulator",
			"custom_id",
			"default_channel",
			"channel_id",
			"last_seen_at_ms",
			"created_at_ms",
			"updated_at_ms",
			"custom_id_first_at_ms",
			"recent_reports",
		],
		rows,
	);
}

export function storageStatements(
	appId: AppId,
	today: number,
	sizes: ReadonlyMap<string, number>,
	{ days }: SampleFleet,
) {
	const stored = days
		.filter(({ day }) => day < today)
		.map(({ day }) => {
			const known = SAMPLE_BUNDLES.filter(({ daysAgo }) => today - daysAgo <= day);
			return [day, known.reduce((sum, { version }) => sum + (sizes.get(version) ?? 0), 0)];
		});
	return insertSample(appId, "daily_storage", { day: "value", size_bytes: "value" }, stored);
}

export function figureStatements(appId: AppId, { days }: SampleFleet) {
	const sketch = (day: number, kind: string, version: string, all: Sketch) => [
		day,
		kind,
		version,
		0,
		encodeSketch(all),
		countDistinct(all),
		1,
	];
	const sketches = days.flatMap(({ day, all, byVersion }) => [
		sketch(day, "all", "", all),
		...[...byVersion].map(([version, own]) => sketch(day, "version", version, own)),
	]);
	const totals = days.map(({ day, all, bytes }) => [day, countDistinct(all), bytes]);
	return [
		...insertSampleReports(
			appId,
			"device_sketches",
			["day", "kind", "version_name", "slot", "sketch", "devices", "revision"],
			sketches,
		),
		...insertSampleReports(appId, "daily_totals", ["day", "device_count", "bandwidth_bytes"], totals),
	];
}

/** The events of the last days, as batches of the consumer would have logged them. */
export function logStatements({ newId }: Pick<Deps, "newId">, appId: AppId, nowMs: number, { devices }: SampleFleet) {
	const logged = devices
		.flatMap(({ id, events }) => events.map((event): LoggedEvent => [id, ...event]))
		.filter(([, atMs]) => atMs > nowMs - LOGGED_MS)
		.sort(([, one], [, other]) => one - other);
	const rows = Array.from({ length: Math.ceil(logged.length / EVENTS_A_ROW) }, (_, index) => {
		const part = logged.slice(index * EVENTS_A_ROW, (index + 1) * EVENTS_A_ROW);
		return [part.at(-1)?.[1] ?? nowMs, newId(), JSON.stringify(part)];
	});
	return insertSampleReports(appId, "device_events", ["at_ms", "id", "events"], rows);
}
