/**
 * A page of an app's devices from the telemetry database, with all of their reports that a decision
 * needs. What the main database knows about them is read apart (decided-channels.ts).
 */
import type { CompiledQuery } from "kysely";
import type { AppId } from "../authz/decide";
import { reportQuery } from "./client";

/** The last report of a device, as the telemetry database has it. */
export interface ReportedDevice {
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
}

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
