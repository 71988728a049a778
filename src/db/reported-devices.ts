/**
 * Devices of an app whose reports are in a telemetry database. That database has the devices, the main one has their overrides and the names of
 * channels and bundles, so a list asks one after the other. src/db/devices.ts has the statements for apps whose reports are in the main one.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { AppId } from "../authz/decide";
import { jsonList, query } from "./client";
import { conditionsOf, type DeviceFilter, type DeviceRow, MOST_SAME_CUSTOM_ID, rowsOfPairs } from "./devices";

type JoinedColumn = "channel" | "override_version" | "override_channel_id" | "override_version_id";
export type ReportedRow = Omit<DeviceRow, JoinedColumn>;

/** Overrides that a list by channel takes into account. */
const MOST_OVERRIDES = 20_000;

/** The channel that a list is narrowed to. */
export interface ChannelPlaces {
	/** Null: there is no such channel. */
	readonly channelId: number | null;
	/** Devices whose override names the channel, and those whose override names any channel. */
	readonly set: readonly string[];
	readonly overridden: readonly string[];
}

/** In the main database. */
export function channelPlaces(
	appId: AppId,
	channel: string,
): CompiledQuery<{ channel_id: number | null; places: string }> {
	const channelId = sql`(SELECT id FROM channels WHERE app_id = ${appId} AND name = ${channel})`;
	return sql<{ channel_id: number | null; places: string }>`SELECT ${channelId} AS channel_id,
		(SELECT json_group_array(json_array(device_id, channel_id IS ${channelId})) FROM (SELECT device_id, channel_id FROM device_overrides
			WHERE app_id = ${appId} AND channel_id IS NOT NULL LIMIT ${MOST_OVERRIDES})) AS places`.compile(query);
}

export function placesOf(
	row: { readonly channel_id: number | null; readonly places: string } | undefined,
): ChannelPlaces {
	const places = JSON.parse(row?.places ?? "[]") as [string, 0 | 1][];
	return {
		channelId: row?.channel_id ?? null,
		set: places.filter(([, isSet]) => isSet === 1).map(([id]) => id),
		overridden: places.map(([id]) => id),
	};
}

const sameCustomId = sql<number>`(SELECT count(*) FROM (SELECT 1 FROM devices same INDEXED BY devices_by_custom_id
	WHERE same.app_id = d.app_id AND same.custom_id = d.custom_id LIMIT ${sql.lit(MOST_SAME_CUSTOM_ID)}))`;

const rowsOf = (appId: AppId, index: string | undefined, condition: RawBuilder<unknown>) =>
	sql`SELECT d.*, ${sameCustomId} AS custom_id_devices
		FROM devices d ${index === undefined ? sql`` : sql`INDEXED BY ${sql.ref(index)}`} WHERE d.app_id = ${appId} AND ${condition}`;

export function reportedDevice(appId: AppId, deviceId: string): CompiledQuery<ReportedRow> {
	return sql<ReportedRow>`${rowsOf(appId, undefined, sql`d.device_id = ${deviceId}`)}`.compile(query);
}

/** A page of devices by id, as `devicesPage`. */
export function reportedDevices(
	appId: AppId,
	filter: DeviceFilter,
	places: ChannelPlaces | undefined,
	limit: number,
	offset: number,
): CompiledQuery<ReportedRow> {
	const { customId, version, keyId } = filter;
	const [set, overridden] = [places?.set, places?.overridden].map((ids = []) => JSON.stringify(ids));
	const isSet = sql`d.device_id IN ${jsonList(overridden ?? "[]")}`;
	if (customId === undefined && (places !== undefined || version !== undefined)) {
		const setDevices = sql`json_each(${set}) CROSS JOIN devices d ON d.app_id = ${appId} AND d.device_id = json_each.value`;
		const pairs = {
			app: sql`${appId}`,
			channelId: sql`${places?.channelId}`,
			isSet,
			setDevices,
			setId: sql`d.device_id`,
		};
		return sql<ReportedRow>`SELECT d.*, ${sameCustomId} AS custom_id_devices
			FROM (${rowsOfPairs(pairs, filter, limit, offset)}) AS d ORDER BY place`.compile(query);
	}
	const isOfChannel =
		places === undefined
			? sql`true`
			: sql`(d.device_id IN ${jsonList(set ?? "[]")} OR d.channel_id = ${places.channelId} AND NOT ${isSet})`;
	const conditions = sql`${conditionsOf("d", filter)} AND ${isOfChannel}
		${customId === undefined ? sql`` : sql`AND d.custom_id = ${customId}`} ${version === undefined ? sql`` : sql`AND d.version_name = ${version}`}`;
	const index = customId !== undefined ? "devices_by_custom_id" : keyId !== undefined ? "devices_by_key" : undefined;
	return sql<ReportedRow>`${rowsOf(appId, index, conditions)} ORDER BY d.device_id LIMIT ${limit} OFFSET ${offset}`.compile(
		query,
	);
}

/** In the main database: what it knows about the devices. */
export function joinedColumns(
	appId: AppId,
	devices: readonly ReportedRow[],
): CompiledQuery<Pick<DeviceRow, JoinedColumn>> {
	const list = JSON.stringify(devices.map(({ device_id, channel_id }) => [device_id, channel_id]));
	return sql<
		Pick<DeviceRow, JoinedColumn>
	>`SELECT c.name AS channel, b.name AS override_version, o.channel_id AS override_channel_id,
			o.version_id AS override_version_id
		FROM json_each(${list}) LEFT JOIN device_overrides o ON o.app_id = ${appId} AND o.device_id = value ->> 0
			LEFT JOIN channels c ON c.app_id = ${appId} AND c.id = coalesce(o.channel_id, value ->> 1)
			LEFT JOIN bundles b ON b.id = o.version_id ORDER BY key`.compile(query);
}

/** Creates the row of a device that was only named, so that lists have it; the override itself is in the main database. */
export function insertNamedDevices(
	devices: readonly { readonly appId: string; readonly deviceId: string }[],
	nowMs: number,
): CompiledQuery {
	const list = JSON.stringify(devices.map(({ appId, deviceId }) => [appId, deviceId]));
	return sql`INSERT INTO devices (app_id, device_id, created_at_ms, updated_at_ms)
		SELECT apps.id, value ->> 1, ${nowMs}, ${nowMs} FROM json_each(${list}) CROSS JOIN apps ON apps.id = value ->> 0 WHERE true
		ON CONFLICT (app_id, device_id) DO NOTHING`.compile(query);
}
