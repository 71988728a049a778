/**
 * Overrides of single devices, in the main database: an operator may name a device before it
 * reports. Each statement has the tenant in its WHERE.
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

/** The override of a device, if it has one. */
export function overrideOf(publicAppId: string, deviceId: string): CompiledQuery<OverrideRow> {
	return query
		.selectFrom("device_overrides as o")
		.leftJoin("channels as c", "c.id", "o.channel_id")
		.leftJoin("bundles as b", "b.id", "o.version_id")
		.select(["o.device_id", "o.channel_id", "o.version_id", "o.created_at_ms", "o.updated_at_ms"])
		.select(["c.name as channel", "b.name as version"])
		.where("o.app_id", "=", appIdOf(publicAppId))
		.where("o.device_id", "=", deviceId)
		.compile();
}

/** Null keeps the stored value. */
export function setOverride(
	appId: AppId,
	override: Pick<DeviceOverridesTable, "device_id" | "channel_id" | "version_id" | "created_by">,
	nowMs: number,
): CompiledQuery {
	const { device_id, channel_id, version_id, created_by } = override;
	return query
		.insertInto("device_overrides")
		.values({
			app_id: appId,
			device_id,
			channel_id,
			version_id,
			created_by,
			created_at_ms: nowMs,
			updated_at_ms: nowMs,
		})
		.onConflict((conflict) =>
			conflict.columns(["app_id", "device_id"]).doUpdateSet((eb) => ({
				channel_id: eb.fn.coalesce("excluded.channel_id", "device_overrides.channel_id"),
				version_id: eb.fn.coalesce("excluded.version_id", "device_overrides.version_id"),
				updated_at_ms: nowMs,
			})),
		)
		.compile();
}

export function deleteOverride(appId: AppId, deviceId: string): CompiledQuery {
	return query.deleteFrom("device_overrides").where("app_id", "=", appId).where("device_id", "=", deviceId).compile();
}

/** Guard: the device has an override. */
export function hasOverride(appId: AppId, deviceId: string) {
	return sql<boolean>`EXISTS (SELECT 1 FROM device_overrides WHERE app_id = ${appId} AND device_id = ${deviceId})`;
}

/**
 * In the telemetry database: creates the rows of devices that were only named, so that lists have
 * them.
 */
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
