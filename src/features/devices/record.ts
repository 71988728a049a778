/**
 * The answer about a device, shared by the endpoints that show devices. A custom id is never
 * verified, because any device can report any id.
 */
import * as v from "valibot";
import type { DeviceRow } from "../../db/devices";
import { readEvent, type StoryEvent } from "../../domain/statistics/device-story";
import { storyIn } from "../../domain/statistics/recent-reports";
import { ApiError } from "../../errors";
import { nullableRfc3339, nullableTime, rfc3339, time } from "../../http/schemas";

export const deviceSchema = v.strictObject({
	app_id: v.string(),
	device_id: v.string(),
	platform: v.nullable(v.string()),
	version_name: v.nullable(v.string()),
	version_build: v.nullable(v.string()),
	os_version: v.nullable(v.string()),
	plugin_version: v.nullable(v.string()),
	is_prod: v.nullable(v.boolean()),
	is_emulator: v.nullable(v.boolean()),
	custom_id: v.nullable(v.string()),
	custom_id_verified: v.literal(false),
	custom_id_first_reported_at: nullableTime,
	custom_id_last_changed_at: nullableTime,
	custom_id_devices: v.number(),
	channel: v.nullable(v.string()),
	override_channel: v.nullable(v.string()),
	override_version: v.nullable(v.string()),
	key_id: v.nullable(v.string()),
	last_seen_at: nullableTime,
	created_at: time,
	updated_at: time,
});

/** A device of the list with totals. */
export const listedDeviceSchema = v.strictObject({
	...deviceSchema.entries,
	last_failure: v.nullable(v.strictObject({ version: v.nullable(v.string()), at: time })),
});

/** The last install or failure that the device reported, if it is a failure. */
export function lastFailure({ recent_reports }: Pick<DeviceRow, "recent_reports">) {
	const events = storyIn(recent_reports)?.events ?? [];
	const outcomes = events.flatMap((stored) => {
		const event = readEvent(stored);
		return event?.kind === "install" || event?.kind === "fail" ? [event] : [];
	});
	const last = outcomes.reduce<StoryEvent | undefined>(
		(latest, event) => (latest === undefined || event.atMs >= latest.atMs ? event : latest),
		undefined,
	);
	if (last?.kind !== "fail") return null;
	return { version: last.version === "" ? null : last.version, at: rfc3339(last.atMs) };
}

const flagOf = (value: number | null) => (value === null ? null : value === 1);

export function deviceAnswer(appId: string, row: DeviceRow): v.InferOutput<typeof deviceSchema> {
	return {
		app_id: appId,
		device_id: row.device_id,
		platform: row.platform,
		version_name: row.version_name,
		version_build: row.version_build,
		os_version: row.os_version,
		plugin_version: row.plugin_version,
		is_prod: flagOf(row.is_prod),
		is_emulator: flagOf(row.is_emulator),
		custom_id: row.custom_id,
		custom_id_verified: false,
		custom_id_first_reported_at: row.custom_id === null ? null : nullableRfc3339(row.custom_id_first_at_ms),
		custom_id_last_changed_at: row.custom_id === null ? null : nullableRfc3339(row.custom_id_changed_at_ms),
		custom_id_devices: row.custom_id === null ? 0 : row.custom_id_devices,
		channel: row.channel,
		override_channel: row.override_channel_id === null ? null : row.channel,
		override_version: row.override_version,
		key_id: row.key_id,
		last_seen_at: nullableRfc3339(row.last_seen_at_ms),
		created_at: rfc3339(row.created_at_ms),
		updated_at: rfc3339(row.updated_at_ms),
	};
}

export const deviceNotFound = () =>
	new ApiError("device_not_found", "The app has no device with this id; check device_id against GET /device.");

export const EXAMPLE_DEVICE_RECORD: v.InferInput<typeof deviceSchema> = {
	app_id: "com.example.app",
	device_id: "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61",
	platform: "android",
	version_name: "1.4.0",
	version_build: "1.0.0",
	os_version: "15",
	plugin_version: "8.51.23",
	is_prod: true,
	is_emulator: false,
	custom_id: null,
	custom_id_verified: false,
	custom_id_first_reported_at: null,
	custom_id_last_changed_at: null,
	custom_id_devices: 0,
	channel: "production",
	override_channel: null,
	override_version: null,
	key_id: null,
	last_seen_at: "2026-11-21T08:00:00.000Z",
	created_at: "2026-11-01T08:00:00.000Z",
	updated_at: "2026-11-21T08:00:00.000Z",
};
