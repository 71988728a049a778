/**
 * Reads devices of an app whose reports are in a telemetry database, with their overrides from the main one.
 */
import type { AppId } from "../../authz/decide";
import type { Database } from "../../db/client";
import type { DeviceFilter, DeviceRow } from "../../db/devices";
import {
	channelPlaces,
	joinedColumns,
	placesOf,
	type ReportedRow,
	reportedDevice,
	reportedDevices,
} from "../../db/reported-devices";
import { openTelemetry } from "../../db/telemetry-reads";
import type { Deps } from "../../deps";

interface Reading {
	readonly deps: Pick<Deps, "telemetry">;
	readonly db: Database;
	readonly appId: AppId;
	readonly binding: string;
}

/** @param named the row of the main database, which has a device that was only named */
export async function readDevice(
	reading: Reading,
	deviceId: string,
	named: DeviceRow | undefined,
): Promise<DeviceRow[]> {
	const { deps, binding, appId } = reading;
	const [{ rows }] = await openTelemetry(deps, binding).batch([reportedDevice(appId, deviceId)]);
	if (rows.length > 0) return joined(reading, rows);
	const isSet = named !== undefined && (named.override_channel_id !== null || named.override_version_id !== null);
	return isSet ? [named] : [];
}

export async function readDevices(
	reading: Reading,
	filter: DeviceFilter,
	limit: number,
	offset: number,
): Promise<DeviceRow[]> {
	const { deps, db, binding, appId } = reading;
	const places =
		filter.channel === undefined
			? undefined
			: placesOf((await db.batch([channelPlaces(appId, filter.channel)]))[0].rows[0]);
	const [{ rows }] = await openTelemetry(deps, binding).batch([reportedDevices(appId, filter, places, limit, offset)]);
	return joined(reading, rows);
}

async function joined({ db, appId }: Reading, devices: readonly ReportedRow[]): Promise<DeviceRow[]> {
	if (devices.length === 0) return [];
	const [{ rows }] = await db.batch([joinedColumns(appId, devices)]);
	return devices.flatMap((device, index) => {
		const columns = rows[index];
		return columns === undefined ? [] : [{ ...device, ...columns }];
	});
}
