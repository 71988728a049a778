/**
 * Devices as lists show them. A telemetry database has the devices of an app, the main one has
 * their overrides and the names of channels and bundles, so a list asks one after the other. Each
 * statement takes ids that a decision returned and has the tenant in its WHERE.
 */
import { type CompiledQuery, type RawBuilder, type Selectable, type SqlBool, sql } from "kysely";
import type { AppId } from "../authz/decide";
import { jsonList, query, reportQuery } from "./client";
import type { DevicesTable } from "./schema";

export interface DeviceRow extends Omit<Selectable<DevicesTable>, "app_id"> {
	/** Name of the channel that an operator set, else of the one that decided the last check. */
	readonly channel: string | null;
	/** Name of the bundle that an operator set. */
	readonly override_version: string | null;
	readonly override_channel_id: number | null;
	readonly override_version_id: number | null;
	/**
	 * Devices of the app that report the same custom id, this one included; no more than
	 * `MOST_SAME_CUSTOM_ID` are counted.
	 */
	readonly custom_id_devices: number;
}

const MOST_SAME_CUSTOM_ID = 10;

export interface DeviceFilter {
	readonly channel: string | undefined;
	readonly version: string | undefined;
	readonly platform: string | undefined;
	readonly customId: string | undefined;
	readonly keyId: string | undefined;
	readonly seenFromMs: number | undefined;
	readonly seenToMs: number | undefined;
	/** In lower case: a part of the device id or of the custom id. */
	readonly search: string | undefined;
	/** False where custom ids are hidden, because a search must not find them either. */
	readonly searchesCustomIds: boolean;
}

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

/** In the main database, after the decision: it reads a row for each override. */
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

export function deviceById(appId: AppId, deviceId: string): CompiledQuery<ReportedRow> {
	return sql<ReportedRow>`${rowsOf(appId, undefined, sql`d.device_id = ${deviceId}`)}`.compile(query);
}

/**
 * A page of devices by id. The devices of a channel are found by its index, those of a version by
 * the index of versions and channels. It has the devices of each pair of them in the order of their
 * ids, so each pair is read no further than the page needs: an app has many devices and few pairs.
 * The devices of a channel are those seen on it without an override, and those whose override names
 * it.
 */
export function devicesPage(
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
	const conditions = sql`${conditionsOf("d", filter)} AND ${isOfChannel} ${isSearched(appId, filter)}
		${customId === undefined ? sql`` : sql`AND d.custom_id = ${customId}`} ${version === undefined ? sql`` : sql`AND d.version_name = ${version}`}`;
	const index = customId !== undefined ? "devices_by_custom_id" : keyId !== undefined ? "devices_by_key" : undefined;
	return sql<ReportedRow>`${rowsOf(appId, index, conditions)} ORDER BY d.device_id LIMIT ${limit} OFFSET ${offset}`.compile(
		query,
	);
}

/** Devices that a search for a part of an id reads: those that reported last. */
export const MOST_SEARCHED = 2_500;

/**
 * A search among all devices looks at those that reported last, and at those whose id begins with
 * the text.
 */
function isSearched(appId: AppId, { search, customId, keyId }: DeviceFilter): RawBuilder<unknown> {
	if (search === undefined || customId !== undefined || keyId !== undefined) return sql``;
	return sql`AND d.device_id IN (
		SELECT * FROM (SELECT device_id FROM devices INDEXED BY devices_by_last_seen WHERE app_id = ${appId}
			ORDER BY last_seen_at_ms DESC LIMIT ${sql.lit(MOST_SEARCHED)})
		UNION SELECT device_id FROM ${idsFrom(appId, "device_id", search)})`;
}

/** Devices that an index finds by the beginning of the column. */
const MOST_PREFIXED = 50;
/**
 * Their ids, with the first ones of the column. The highest character of Unicode ends the range.
 */
export const idsFrom = (appId: AppId, column: "device_id" | "custom_id", search: string) =>
	reportQuery
		.selectFrom((eb) =>
			eb
				.selectFrom("devices")
				.select("device_id")
				.where("app_id", "=", appId)
				.where(column, ">=", search)
				.where(column, "<", `${search}\u{10ffff}`)
				.orderBy(column)
				.limit(sql.lit(MOST_PREFIXED))
				.as("first"),
		)
		.select("first.device_id");

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

interface PairsOf {
	readonly app: RawBuilder<unknown>;
	readonly channelId: RawBuilder<unknown>;
	/** Condition on `d`: an override names a channel for the device. */
	readonly isSet: RawBuilder<unknown>;
	/**
	 * The devices `d` whose override names the channel, and their ids as an index has them in
	 * order.
	 */
	readonly setDevices: RawBuilder<unknown>;
	readonly setId: RawBuilder<unknown>;
}

/** Their rows, with the id of each as `place`. */
function rowsOfPairs(
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
	const index = sql.ref(version === undefined ? "devices_by_channel" : "devices_by_version");
	const pairs =
		channel === undefined
			? { values: valuesOf("channel_id", ofVersion), own: sql`AND d.channel_id IS pairs.value` }
			: { values: sql`SELECT NULL`, own: sql`` };
	const set = sql`UNION ALL SELECT * FROM (SELECT ${setId} FROM ${setDevices}
		WHERE true ${ofVersion} AND ${conditionsOf("d", filter)} ORDER BY ${setId} ${most})`;
	return sql`WITH RECURSIVE pairs (value) AS (${pairs.values}),
			found (device_id) AS (
				SELECT ids.value FROM pairs CROSS JOIN json_each((SELECT json_group_array(device_id) FROM (
					SELECT d.device_id FROM devices d INDEXED BY ${index}
					WHERE d.app_id = ${app} ${ofVersion} ${ofChannel} ${pairs.own} AND ${conditionsOf("d", filter)}
						${channel === undefined ? sql`` : sql`AND NOT ${isSet}`}
					ORDER BY d.device_id ${most}))) AS ids
				${channel === undefined ? sql`` : set}
				ORDER BY 1 LIMIT ${limit} OFFSET ${offset})
		SELECT d.*, found.device_id AS place FROM found CROSS JOIN devices d ON d.app_id = ${app} AND d.device_id = found.device_id`;
}

/**
 * All filters except for the version, the channel and the custom id. The + keeps their indexes out,
 * which have another order than the lists.
 */
export function conditionsOf(
	table: string,
	{ platform, keyId, seenFromMs, seenToMs, search, searchesCustomIds }: DeviceFilter,
): RawBuilder<SqlBool> {
	const condition = (column: string, operator: RawBuilder<unknown>, value: string | number | undefined) =>
		value === undefined ? [] : [sql<SqlBool>`+${sql.ref(`${table}.${column}`)} ${operator} ${value}`];
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
							${searchesCustomIds ? sql`OR instr(lower(${sql.ref(`${table}.custom_id`)}), ${search}) > 0` : sql``})`,
					]),
		],
		sql` AND `,
	);
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
