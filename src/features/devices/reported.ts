/**
 * Reads devices of an app from its telemetry database, with their overrides from the main one.
 */
import type { AppId } from "../../authz/decide";
import type { Database } from "../../db/client";
import { type DeviceOrder, type ListedRow, listedDevices, type PlatformCounts } from "../../db/device-list";
import type { OverrideRow } from "../../db/device-overrides";
import {
	type ChannelPlaces,
	type DeviceFilter,
	type DeviceRow,
	deviceById,
	devicesPage,
	joinedColumns,
	type ReportedRow,
} from "../../db/devices";
import { openTelemetry } from "../../db/telemetry-reads";
import type { Deps } from "../../deps";

export interface Reading {
	readonly deps: Pick<Deps, "telemetry">;
	readonly db: Database;
	readonly appId: AppId;
	readonly binding: string;
}

/** @param override of the device: a device that was only named may have no row yet */
export async function readDevice(
	reading: Reading,
	deviceId: string,
	override: OverrideRow | undefined,
): Promise<DeviceRow[]> {
	const { deps, binding, appId } = reading;
	const [{ rows }] = await openTelemetry(deps, binding).batch([deviceById(appId, deviceId)]);
	if (rows.length > 0) return joined(reading, rows);
	return override === undefined ? [] : joined(reading, [namedDevice(override)]);
}

export async function readDevices(
	reading: Reading,
	filter: DeviceFilter,
	places: ChannelPlaces | undefined,
	limit: number,
	offset: number,
): Promise<DeviceRow[]> {
	const { deps, binding, appId } = reading;
	const [{ rows }] = await openTelemetry(deps, binding).batch([devicesPage(appId, filter, places, limit, offset)]);
	return joined(reading, rows);
}

interface Listed {
	readonly devices: readonly DeviceRow[];
	readonly total: number;
	readonly isComplete: boolean;
	/** Null: too many to count. */
	readonly platforms: PlatformCounts | null;
}

/**
 * Devices that `listedDevices` finds, the number of all that it finds, and whether it read all of
 * the app.
 */
export async function readListedDevices(
	reading: Reading,
	filter: DeviceFilter,
	channelId: number | null | undefined,
	order: DeviceOrder,
	limit: number,
	offset: number,
): Promise<Listed> {
	const { deps, binding, appId } = reading;
	const page = listedDevices(appId, filter, channelId, order, limit, offset);
	const [{ rows }] = await openTelemetry(deps, binding).batch([page]);
	const { total = 0, is_complete = 1, platforms = null } = rows[0] ?? {};
	const found = rows.filter((row): row is ListedRow & ReportedRow => row.device_id !== null);
	return {
		devices: await joined(reading, found),
		total,
		isComplete: is_complete === 1,
		platforms: platforms === null ? null : JSON.parse(platforms),
	};
}

async function joined({ db, appId }: Reading, devices: readonly ReportedRow[]): Promise<DeviceRow[]> {
	if (devices.length === 0) return [];
	const [{ rows }] = await db.batch([joinedColumns(appId, devices)]);
	return devices.flatMap((device, index) => {
		const columns = rows[index];
		return columns === undefined ? [] : [{ ...device, ...columns }];
	});
}

const namedDevice = ({ device_id, created_at_ms, updated_at_ms }: OverrideRow): ReportedRow => ({
	device_id,
	created_at_ms,
	updated_at_ms,
	last_seen_at_ms: null,
	revision: 0,
	custom_id_devices: 0,
	platform: null,
	version_name: null,
	version_build: null,
	os_version: null,
	plugin_version: null,
	is_prod: null,
	is_emulator: null,
	custom_id: null,
	install_source: null,
	key_id: null,
	default_channel: null,
	channel_id: null,
	reported_at: null,
	counted_days: null,
	recent_reports: null,
	custom_id_first_at_ms: null,
	custom_id_changed_at_ms: null,
});
