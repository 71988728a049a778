/**
 * Overrides of single devices, in the main database: an operator may name a device before it reports. Each statement has the tenant in its
 * WHERE.
 */
import { type CompiledQuery, sql } from "kysely";
import type { AppId } from "../authz/decide";
import { query } from "./client";
import { appIdOf } from "./public-app-id";
import type { DeviceOverridesTable } from "./schema";
import { insertReportedApps } from "./telemetry-databases";

export interface OverrideRow
	extends Pick<DeviceOverridesTable, "device_id" | "channel_id" | "version_id" | "created_at_ms" | "updated_at_ms"> {
	readonly channel: string | null;
	readonly version: string | null;
}

/** The override of a device, if it has one; for loading beside the decision. */
export function overrideOf(publicAppId: string, deviceId: string): CompiledQuery<OverrideRow> {
	return sql<OverrideRow>`SELECT o.device_id, o.channel_id, o.version_id, o.created_at_ms, o.updated_at_ms, c.name AS channel, b.name AS version
		FROM device_overrides o LEFT JOIN channels c ON c.id = o.channel_id LEFT JOIN bundles b ON b.id = o.version_id
		WHERE o.app_id = ${appIdOf(publicAppId)} AND o.device_id = ${deviceId}`.compile(query);
}

/** Null keeps the stored value. */
export function setOverride(
	appId: AppId,
	override: Pick<DeviceOverridesTable, "device_id" | "channel_id" | "version_id" | "created_by">,
	nowMs: number,
): CompiledQuery {
	return sql`INSERT INTO device_overrides (app_id, device_id, channel_id, version_id, created_by, created_at_ms, updated_at_ms)
		VALUES (${appId}, ${override.device_id}, ${override.channel_id}, ${override.version_id}, ${override.created_by}, ${nowMs}, ${nowMs})
		ON CONFLICT (app_id, device_id) DO UPDATE SET channel_id = coalesce(excluded.channel_id, channel_id),
			version_id = coalesce(excluded.version_id, version_id), updated_at_ms = ${nowMs}`.compile(query);
}

export function deleteOverride(appId: AppId, deviceId: string): CompiledQuery {
	return query.deleteFrom("device_overrides").where("app_id", "=", appId).where("device_id", "=", deviceId).compile();
}

/** Guard: the device has an override. */
export function hasOverride(appId: AppId, deviceId: string) {
	return sql<boolean>`EXISTS (SELECT 1 FROM device_overrides WHERE app_id = ${appId} AND device_id = ${deviceId})`;
}

/** In the telemetry database: creates the rows of devices that were only named, so that lists have them. */
export function insertNamedDevices(
	devices: readonly { readonly appId: string; readonly deviceId: string }[],
	nowMs: number,
): readonly [CompiledQuery, CompiledQuery] {
	const list = JSON.stringify(devices.map(({ appId, deviceId }) => [appId, deviceId]));
	return [
		insertReportedApps([...new Set(devices.map(({ appId }) => appId))]),
		sql`INSERT INTO devices (app_id, device_id, created_at_ms, updated_at_ms)
			SELECT apps.id, value ->> 1, ${nowMs}, ${nowMs} FROM json_each(${list}) CROSS JOIN apps ON apps.id = value ->> 0 WHERE true
			ON CONFLICT (app_id, device_id) DO NOTHING`.compile(query),
	];
}
