/**
 * Statements about devices and what operators set for single ones. Each takes ids that a decision gave out and carries the tenant in
 * its own WHERE; a statement that loads beside the decision names the app by its public id, and its rows are dropped when it is no.
 */
import { type AliasedRawBuilder, type CompiledQuery, type RawBuilder, type Selectable, sql } from "kysely";
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
	readonly index: "devices_by_custom_id" | "devices_by_version" | "devices_by_channel" | "devices_by_key";
	readonly column: "custom_id" | "version_name" | "channel_id" | "key_id";
	readonly value: string | RawBuilder<number>;
}

interface PlacedDevices extends DevicesTable {
	/** The id, as the index has it that finds them: SQLite sorts a list by it without reading more than the page. */
	readonly place: string;
}
type Devices = AliasedRawBuilder<PlacedDevices, "devices">;

/**
 * The devices of one app, or those of them that an index finds. It has to be named: SQLite does not know how many devices an app has, and
 * would read all of them, in the order of their ids, rather than look up each that the index has.
 */
function devicesOf(publicAppId: string, found: FoundBy | undefined): Devices {
	return sql<PlacedDevices>`(SELECT *, device_id AS place FROM devices ${found === undefined ? sql`` : sql`INDEXED BY ${sql.ref(found.index)}`}
		WHERE app_id = ${appIdOf(publicAppId)}
			${found === undefined ? sql`` : sql`AND ${sql.ref(found.column)} = ${found.value}`})`.as("devices");
}

/** Those for which an operator set the channel. */
function devicesSetTo(publicAppId: string, channelId: RawBuilder<number>): Devices {
	return sql<PlacedDevices>`(SELECT devices.*, device_overrides.device_id AS place FROM device_overrides INDEXED BY device_overrides_by_channel
		CROSS JOIN devices ON devices.app_id = device_overrides.app_id AND devices.device_id = device_overrides.device_id
		WHERE device_overrides.channel_id = ${channelId}
			AND device_overrides.app_id = ${appIdOf(publicAppId)})`.as("devices");
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

/** One device; for loading beside the decision. */
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
}

/** A custom id is of few devices, a channel of a test too, a version of many. */
function foundBy({ customId, version, keyId }: DeviceFilter): FoundBy | undefined {
	if (customId !== undefined) return { index: "devices_by_custom_id", column: "custom_id", value: customId };
	if (version !== undefined) return { index: "devices_by_version", column: "version_name", value: version };
	if (keyId !== undefined) return { index: "devices_by_key", column: "key_id", value: keyId };
	return undefined;
}

/**
 * A page of devices by their id; for loading beside the decision. Those of a channel are the ones that were seen on it, where nothing else
 * was set for them, and the ones for which it was set: each list in the order of an index and no longer than the page may need, because a
 * channel may have three devices or a million. Whatever else is asked is looked for among what the one index finds.
 */
export function devicesPage(
	publicAppId: string,
	filter: DeviceFilter,
	limit: number,
	offset: number,
): CompiledQuery<DeviceRow> {
	const { channel, customId } = filter;
	if (channel === undefined || customId !== undefined) {
		return matching(devicesOf(publicAppId, foundBy(filter)), filter)
			.$if(channel !== undefined, (rows) => rows.where("c.name", "=", channel ?? ""))
			.limit(limit)
			.offset(offset)
			.compile();
	}
	const channelId = sql<number>`(SELECT id FROM channels WHERE app_id = ${appIdOf(publicAppId)} AND name = ${channel})`;
	const seenOn: FoundBy = { index: "devices_by_channel", column: "channel_id", value: channelId };
	const most = limit + offset;
	const seen = matching(devicesOf(publicAppId, seenOn), filter).where("o.channel_id", "is", null).limit(most);
	const set = matching(devicesSetTo(publicAppId, channelId), filter).limit(most);
	return query
		.selectFrom(
			query
				.selectFrom(seen.as("seen"))
				.selectAll()
				.unionAll(query.selectFrom(set.as("set_by_hand")).selectAll())
				.as("found"),
		)
		.selectAll()
		.orderBy("place")
		.limit(limit)
		.offset(offset)
		.compile();
}

/** Of these devices those that the filter lets through, whatever it says of channels. */
function matching(devices: Devices, { version, platform, keyId, seenFromMs, seenToMs }: DeviceFilter) {
	return deviceRows(devices)
		.$if(version !== undefined, (rows) => rows.where("devices.version_name", "=", version ?? ""))
		.$if(keyId !== undefined, (rows) => rows.where("devices.key_id", "=", keyId ?? ""))
		.$if(platform !== undefined, (rows) => rows.where("devices.platform", "=", platform ?? ""))
		.$if(seenFromMs !== undefined, (rows) => rows.where("devices.last_seen_at_ms", ">=", seenFromMs ?? 0))
		.$if(seenToMs !== undefined, (rows) => rows.where("devices.last_seen_at_ms", "<=", seenToMs ?? 0))
		.orderBy("devices.place");
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
	/** Whether the bundle that it runs is there and ready. */
	readonly runs_ready_bundle: Flag;
}

/** The devices after the given one by their id, with all that a decision asks of them; at most three rows are read for each. */
export function fleetPage(appId: AppId, afterDeviceId: string, limit: number): CompiledQuery<FleetDevice> {
	return sql<FleetDevice>`SELECT d.device_id, d.platform, d.version_name, d.version_build, d.plugin_version, d.is_prod, d.is_emulator,
			d.key_id, d.default_channel, d.last_seen_at_ms, d.created_at_ms, o.channel_id AS override_channel_id, o.version_id AS override_version_id,
			EXISTS (SELECT 1 FROM bundles b WHERE b.app_id = ${appId} AND b.name = d.version_name AND b.status = 'ready'
				AND b.deleted_at_ms IS NULL) AS runs_ready_bundle
		FROM devices d LEFT JOIN device_overrides o ON o.app_id = d.app_id AND o.device_id = d.device_id
		WHERE d.app_id = ${appId} AND d.device_id > ${afterDeviceId} ORDER BY d.device_id LIMIT ${limit}`.compile(query);
}

/** A device that nobody has seen yet may be given a channel too. */
export function insertNamedDevice(appId: AppId, deviceId: string, nowMs: number): CompiledQuery {
	return sql`INSERT INTO devices (app_id, device_id, created_at_ms, updated_at_ms)
		VALUES (${appId}, ${deviceId}, ${nowMs}, ${nowMs})
		ON CONFLICT (app_id, device_id) DO UPDATE SET updated_at_ms = ${nowMs}`.compile(query);
}

/** Sets what is given; null keeps what is set. */
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

/** For guards: something is set for the device. */
export function hasOverride(appId: AppId, deviceId: string) {
	return sql<boolean>`EXISTS (SELECT 1 FROM device_overrides WHERE app_id = ${appId} AND device_id = ${deviceId})`;
}

/** Sizes of the files of one bundle, by what devices know them by. */
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
