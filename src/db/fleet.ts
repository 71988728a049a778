/**
 * A page of an app's devices with everything that a decision needs: their reports from the
 * telemetry database, and what the main one knows.
 */
import { type CompiledQuery, sql } from "kysely";
import type { AppId } from "../authz/decide";
import { query, reportQuery } from "./client";
import type { Flag } from "./schema";

export interface FleetDevice {
	readonly device_id: string;
	readonly platform: string | null;
	readonly version_name: string | null;
	readonly version_build: string | null;
	readonly plugin_version: string | null;
	readonly is_prod: number | null;
	readonly is_emulator: number | null;
	readonly key_id: string | null;
	readonly default_channel: string | null;
	readonly last_seen_at_ms: number | null;
	readonly created_at_ms: number;
	readonly override_channel_id: number | null;
	readonly override_version_id: number | null;
	/** 1: the bundle that the device runs exists and is ready. */
	readonly runs_ready_bundle: Flag;
}

/** Facts of the main database about devices. */
export interface DeviceFacts
	extends Pick<FleetDevice, "override_channel_id" | "override_version_id" | "runs_ready_bundle"> {
	/** Index of the device. */
	readonly position: number;
}

/** In the main database, about devices with the versions that they run. */
export function deviceFacts(
	appId: AppId,
	devices: readonly Pick<FleetDevice, "device_id" | "version_name">[],
): CompiledQuery<DeviceFacts> {
	const list = JSON.stringify(devices.map(({ device_id, version_name }) => [device_id, version_name]));
	return sql<DeviceFacts>`SELECT key AS position, o.channel_id AS override_channel_id, o.version_id AS override_version_id,
			EXISTS (SELECT 1 FROM bundles b WHERE b.app_id = ${appId} AND b.name = value ->> 1 AND b.status = 'ready'
				AND b.deleted_at_ms IS NULL) AS runs_ready_bundle
		FROM json_each(${list}) LEFT JOIN device_overrides o ON o.app_id = ${appId} AND o.device_id = value ->> 0`.compile(
		query,
	);
}

export type ReportedDevice = Omit<FleetDevice, keyof DeviceFacts>;

/** In the telemetry database: devices after the given id. */
export function fleetPage(appId: AppId, afterDeviceId: string, limit: number): CompiledQuery<ReportedDevice> {
	return reportQuery
		.selectFrom("devices")
		.select(["device_id", "platform", "version_name", "version_build", "plugin_version", "is_prod", "is_emulator"])
		.select(["key_id", "default_channel", "last_seen_at_ms", "created_at_ms"])
		.where("app_id", "=", appId)
		.where("device_id", ">", afterDeviceId)
		.orderBy("device_id")
		.limit(limit)
		.compile();
}
