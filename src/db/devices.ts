/**
 * Statements about devices and their overrides. Each takes ids that a decision returned and has the tenant in its WHERE. A statement that
 * runs in the batch of the decision names the app by its public id; if access is denied, its rows are dropped.
 */
import {
	type AliasedRawBuilder,
	type CompiledQuery,
	type RawBuilder,
	type Selectable,
	type SqlBool,
	sql,
} from "kysely";
import type { AppId } from "../authz/decide";
import { query } from "./client";
import { appIdOf } from "./public-app-id";
import type { DeviceOverridesTable, DevicesTable, Flag } from "./schema";

export interface DeviceRow extends Omit<Selectable<DevicesTable>, "app_id"> {
	/** Name of the channel that an operator set, else of the one that decided the last check. */
	readonly channel: string | null;
	/** Name of the bundle that an operator set. */
	readonly override_version: string | null;
	readonly override_channel_id: number | null;
	readonly override_version_id: number | null;
	/** Devices of the app that report the same custom id, this one included; no more than `MOST_SAME_CUSTOM_ID` are counted. */
	readonly custom_id_devices: number;
}

export const MOST_SAME_CUSTOM_ID = 10;

interface FoundBy {
	readonly index: "devices_by_custom_id" | "devices_by_key";
	readonly column: "custom_id" | "key_id";
	readonly value: string;
}

interface PlacedDevices extends DevicesTable {
	/** The device id as a column of the index that is used, so that SQLite sorts by it without reading more than the page. */
	readonly place: string;
}
type Devices = AliasedRawBuilder<PlacedDevices, "devices">;

/**
 * The devices of an app, or those that an index finds. The index is named, because SQLite does not know how many devices an app has and
 * would read all of them in the order of their ids.
 */
function devicesOf(publicAppId: string, found: FoundBy | undefined): Devices {
	return sql<PlacedDevices>`(SELECT *, device_id AS place FROM devices ${found === undefined ? sql`` : sql`INDEXED BY ${sql.ref(found.index)}`}
		WHERE app_id = ${appIdOf(publicAppId)}
			${found === undefined ? sql`` : sql`AND ${sql.ref(found.column)} = ${found.value}`})`.as("devices");
}

const deviceRows = (devices: Devices) =>
	query
		.selectFrom(devices)
		.leftJoin("device_overrides as o", (join) =>
			join.onRef("o.app_id", "=", "devices.app_id").onRef("o.device_id", "=", "devices.device_id"),
		)
		.leftJoin("channels as c", (join) =>
			join
				.onRef("c.app_id", "=", "devices.app_id")
				.on((eb) => eb("c.id", "=", eb.fn.coalesce("o.channel_id", "devices.channel_id"))),
		)
		.leftJoin("bundles as b", "b.id", "o.version_id")
		.selectAll("devices")
		.select([
			"c.name as channel",
			"b.name as override_version",
			"o.channel_id as override_channel_id",
			"o.version_id as override_version_id",
		])
		.select(
			sql<number>`(SELECT count(*) FROM (SELECT 1 FROM devices same INDEXED BY devices_by_custom_id
				WHERE same.app_id = devices.app_id AND same.custom_id = devices.custom_id LIMIT ${sql.lit(MOST_SAME_CUSTOM_ID)}))`.as(
				"custom_id_devices",
			),
		);

/** One device; runs in the batch of the decision. */
export function deviceById(publicAppId: string, deviceId: string): CompiledQuery<DeviceRow> {
	return deviceRows(devicesOf(publicAppId, undefined)).where("devices.device_id", "=", deviceId).compile();
}

export interface DeviceFilter {
	readonly channel: string | undefined;
	readonly version: string | undefined;
	readonly platform: string | undefined;
	readonly customId: string | undefined;
	readonly keyId: string | undefined;
	readonly seenFromMs: number | undefined;
	readonly seenToMs: number | undefined;
	/** A part of the device id or the custom id, in lower case. */
	readonly search: string | undefined;
}

/** The most selective index first: few devices share a custom id. */
function foundBy({ customId, keyId }: DeviceFilter): FoundBy | undefined {
	if (customId !== undefined) return { index: "devices_by_custom_id", column: "custom_id", value: customId };
	if (keyId !== undefined) return { index: "devices_by_key", column: "key_id", value: keyId };
	return undefined;
}

/**
 * A page of devices by id; runs in the batch of the decision. The filters that no index is used for apply to the rows that the index finds.
 */
export function devicesPage(
	publicAppId: string,
	filter: DeviceFilter,
	limit: number,
	offset: number,
): CompiledQuery<DeviceRow> {
	const { channel, version, customId } = filter;
	if (customId === undefined && (channel !== undefined || version !== undefined)) {
		return deviceRows(devicesOfPairs(publicAppId, filter, limit, offset))
			.orderBy("devices.place")
			.compile();
	}
	return deviceRows(devicesOf(publicAppId, foundBy(filter)))
		.where(conditionsOf("devices", filter))
		.$if(version !== undefined, (rows) => rows.where("devices.version_name", "=", version ?? ""))
		.$if(channel !== undefined, (rows) => rows.where("c.name", "=", channel ?? ""))
		.orderBy("devices.place")
		.limit(limit)
		.offset(offset)
		.compile();
}

/**
 * The devices of a version, of a channel or of both, by the index of versions and channels. It has the devices of each pair of them in the order
 * of their ids, so each pair is read no further than the page needs: an app has many devices and few pairs. The devices of a channel are those
 * seen on it without an override, and those whose override names it.
 */
function devicesOfPairs(publicAppId: string, filter: DeviceFilter, limit: number, offset: number): Devices {
	const app = appIdOf(publicAppId);
	const channelId = sql`(SELECT id FROM channels WHERE app_id = ${app} AND name = ${filter.channel})`;
	const isSet = sql`EXISTS (SELECT 1 FROM device_overrides o
		WHERE o.app_id = d.app_id AND o.device_id = d.device_id AND o.channel_id IS NOT NULL)`;
	const setDevices = sql`device_overrides o INDEXED BY device_overrides_by_channel
		CROSS JOIN devices d ON d.app_id = o.app_id AND d.device_id = o.device_id AND o.channel_id = ${channelId} AND o.app_id = ${app}`;
	return sql<PlacedDevices>`(${rowsOfPairs({ app, channelId, isSet, setDevices, setId: sql`o.device_id` }, filter, limit, offset)})`.as(
		"devices",
	);
}

interface PairsOf {
	readonly app: RawBuilder<unknown>;
	readonly channelId: RawBuilder<unknown>;
	/** Condition on `d`: an override names a channel for the device. */
	readonly isSet: RawBuilder<unknown>;
	/** The devices `d` whose override names the channel, and their ids as an index has them in order. */
	readonly setDevices: RawBuilder<unknown>;
	readonly setId: RawBuilder<unknown>;
}

/** Their rows, with the id of each as `place`. */
export function rowsOfPairs(
	{ app, channelId, isSet, setDevices, setId }: PairsOf,
	filter: DeviceFilter,
	limit: number,
	offset: number,
): RawBuilder<unknown> {
	const { channel, version } = filter;
	const most = sql`LIMIT ${limit + offset}`;
	const ofVersion = version === undefined ? sql`` : sql`AND d.version_name = ${version}`;
	const ofChannel = channel === undefined ? sql`` : sql`AND d.channel_id = ${channelId}`;
	/** Each value once, and NULL in the end, for the rows without one. */
	const valuesOf = (column: string, within: RawBuilder<unknown>) => {
		const next = (after: RawBuilder<unknown>) =>
			sql`(SELECT min(${sql.ref(`d.${column}`)}) FROM devices d INDEXED BY devices_by_version WHERE d.app_id = ${app} ${within} ${after})`;
		return sql`SELECT ${next(sql`AND ${sql.ref(`d.${column}`)} IS NOT NULL`)}
			UNION ALL SELECT ${next(sql`AND ${sql.ref(`d.${column}`)} > value`)} FROM pairs WHERE value IS NOT NULL`;
	};
	const pairs =
		channel === undefined
			? { values: valuesOf("channel_id", ofVersion), own: sql`AND d.channel_id IS pairs.value` }
			: version === undefined
				? { values: valuesOf("version_name", sql``), own: sql`AND d.version_name IS pairs.value` }
				: { values: sql`SELECT NULL`, own: sql`` };
	const set = sql`UNION ALL SELECT * FROM (SELECT ${setId} FROM ${setDevices}
		WHERE true ${ofVersion} AND ${conditionsOf("d", filter)} ORDER BY ${setId} ${most})`;
	return sql`WITH RECURSIVE pairs (value) AS (${pairs.values}),
			found (device_id) AS (
				SELECT ids.value FROM pairs CROSS JOIN json_each((SELECT json_group_array(device_id) FROM (
					SELECT d.device_id FROM devices d INDEXED BY devices_by_version
					WHERE d.app_id = ${app} ${ofVersion} ${ofChannel} ${pairs.own} AND ${conditionsOf("d", filter)}
						${channel === undefined ? sql`` : sql`AND NOT ${isSet}`}
					ORDER BY d.device_id ${most}))) AS ids
				${channel === undefined ? sql`` : set}
				ORDER BY 1 LIMIT ${limit} OFFSET ${offset})
		SELECT d.*, found.device_id AS place FROM found CROSS JOIN devices d ON d.app_id = ${app} AND d.device_id = found.device_id`;
}

/** All filters except for the version, the channel and the custom id. */
export function conditionsOf(
	table: string,
	{ platform, keyId, seenFromMs, seenToMs, search }: DeviceFilter,
): RawBuilder<SqlBool> {
	const condition = (column: string, operator: RawBuilder<unknown>, value: string | number | undefined) =>
		value === undefined ? [] : [sql<SqlBool>`${sql.ref(`${table}.${column}`)} ${operator} ${value}`];
	return sql.join(
		[
			sql<SqlBool>`true`,
			...condition("platform", sql`=`, platform),
			...condition("key_id", sql`=`, keyId),
			...condition("last_seen_at_ms", sql`>=`, seenFromMs),
			...condition("last_seen_at_ms", sql`<=`, seenToMs),
			...(search === undefined
				? []
				: [
						sql<SqlBool>`(instr(${sql.ref(`${table}.device_id`)}, ${search}) > 0
							OR instr(lower(${sql.ref(`${table}.custom_id`)}), ${search}) > 0)`,
					]),
		],
		sql` AND `,
	);
}

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

/** Devices after the given id, with everything that a decision needs; reads at most three rows for each. */
export function fleetPage(appId: AppId, afterDeviceId: string, limit: number): CompiledQuery<FleetDevice> {
	return sql<FleetDevice>`SELECT d.device_id, d.platform, d.version_name, d.version_build, d.plugin_version, d.is_prod, d.is_emulator,
			d.key_id, d.default_channel, d.last_seen_at_ms, d.created_at_ms, o.channel_id AS override_channel_id, o.version_id AS override_version_id,
			EXISTS (SELECT 1 FROM bundles b WHERE b.app_id = ${appId} AND b.name = d.version_name AND b.status = 'ready'
				AND b.deleted_at_ms IS NULL) AS runs_ready_bundle
		FROM devices d LEFT JOIN device_overrides o ON o.app_id = d.app_id AND o.device_id = d.device_id
		WHERE d.app_id = ${appId} AND d.device_id > ${afterDeviceId} ORDER BY d.device_id LIMIT ${limit}`.compile(query);
}

/** Facts of the main database about devices whose reports are elsewhere. */
export interface DeviceFacts
	extends Pick<FleetDevice, "override_channel_id" | "override_version_id" | "runs_ready_bundle"> {
	/** Index of the device. */
	readonly position: number;
}

/** For devices of a telemetry database, with the versions that they run. */
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

/** The page of `fleetPage` in a telemetry database. */
export function reportedPage(appId: AppId, afterDeviceId: string, limit: number): CompiledQuery<ReportedDevice> {
	return sql<ReportedDevice>`SELECT device_id, platform, version_name, version_build, plugin_version, is_prod, is_emulator, key_id,
			default_channel, last_seen_at_ms, created_at_ms
		FROM devices WHERE app_id = ${appId} AND device_id > ${afterDeviceId} ORDER BY device_id LIMIT ${limit}`.compile(
		query,
	);
}

/** Creates the row of a device that was not seen yet, so that it can have an override. */
export function insertNamedDevice(appId: AppId, deviceId: string, nowMs: number): CompiledQuery {
	return sql`INSERT INTO devices (app_id, device_id, created_at_ms, updated_at_ms)
		VALUES (${appId}, ${deviceId}, ${nowMs}, ${nowMs})
		ON CONFLICT (app_id, device_id) DO UPDATE SET updated_at_ms = ${nowMs}`.compile(query);
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

/** Sizes of a bundle's files, by name and hash as devices know them. */
export function manifestSizes(
	appId: string,
	version: string,
): CompiledQuery<{ file_name: string; file_hash: string; size_bytes: number }> {
	return query
		.selectFrom("bundles")
		.innerJoin("bundle_files", "bundle_files.bundle_id", "bundles.id")
		.innerJoin("delta_objects", (join) =>
			join
				.onRef("delta_objects.app_id", "=", "bundle_files.app_id")
				.onRef("delta_objects.path", "=", "bundle_files.path"),
		)
		.select(["bundle_files.file_name", "bundle_files.file_hash", "delta_objects.size_bytes"])
		.where("bundles.app_id", "=", appId)
		.where("bundles.name", "=", version)
		.where("bundles.status", "=", "ready")
		.where("bundles.deleted_at_ms", "is", null)
		.compile();
}
