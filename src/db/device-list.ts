/**
 * Devices by their last report, found by parts of their ids. A list reads a bounded number of
 * devices of the app, whatever its size: all of them in a small app, otherwise the first ones of
 * the index that fits the request, and it says that there are more.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { AppId } from "../authz/decide";
import { PLATFORMS, type Platform } from "../domain/updates/model";
import { query } from "./client";
import { conditionsOf, type DeviceFilter, idsFrom, MOST_SEARCHED, type ReportedRow } from "./devices";

/**
 * Devices that a list counts without a filter, in the order of an index that has all that it needs.
 */
export const MOST_COUNTED = 400;
/** Devices that a list with a filter or another order reads, from an index and from the table. */
export const MOST_FILTERED = 150;
/** Orders of the list. */
export const DEVICE_ORDERS = ["last_seen", "name", "version", "platform"] as const;

export interface DeviceOrder {
	readonly sort?: (typeof DEVICE_ORDERS)[number] | undefined;
	readonly order?: "asc" | "desc" | undefined;
}

function columnOf(sort: (typeof DEVICE_ORDERS)[number], searchesCustomIds: boolean): RawBuilder<unknown> {
	switch (sort) {
		case "last_seen":
			return sql`coalesce(d.last_seen_at_ms, 0)`;
		case "name":
			// Hidden custom ids must not show in the order either.
			return searchesCustomIds ? sql`lower(coalesce(d.custom_id, d.device_id))` : sql`d.device_id`;
		case "version":
			return sql`coalesce(d.version_name, '')`;
		case "platform":
			return sql`coalesce(d.platform, '')`;
	}
}

/**
 * `total` and `is_complete` are the same in each row. A page without devices is one row without a
 * device.
 */
export type ListedRow = (ReportedRow | { readonly device_id: null }) & {
	/** Devices that the filter finds. */
	readonly total: number;
	/** 0: the app has more devices than were read. */
	readonly is_complete: 0 | 1;
	/** JSON of `PlatformCounts`; null: the app has more devices than were counted. */
	readonly platforms: string | null;
};

/** Devices that the filter finds with any platform, and with each. */
export interface PlatformCounts {
	readonly all: number;
	readonly ios: number;
	readonly android: number;
	readonly electron: number;
}

const platformCounts = (condition: RawBuilder<unknown>) => {
	const of = (platform: Platform) =>
		sql`${sql.lit(platform)}, count(*) FILTER (WHERE ${condition} AND d.platform = ${sql.lit(platform)})`;
	return sql`json_object('all', count(*) FILTER (WHERE ${condition}), ${sql.join(PLATFORMS.map(of))})`;
};

/**
 * A page of devices. Those last seen come first; names, versions and platforms go from A to Z.
 * @param channelId of the channel of the last check; null: there is no such channel
 */
export function listedDevices(
	app: AppId,
	filter: DeviceFilter,
	channelId: number | null | undefined,
	{ sort = "last_seen", order = sort === "last_seen" ? "desc" : "asc" }: DeviceOrder,
	limit: number,
	offset: number,
): CompiledQuery<ListedRow> {
	const conditionWith = (platform: string | undefined) =>
		sql.join(
			[
				conditionsOf("d", { ...filter, platform }),
				...(filter.customId === undefined ? [] : [sql`d.custom_id = ${filter.customId}`]),
				...(filter.version === undefined ? [] : [sql`d.version_name = ${filter.version}`]),
				...(channelId === undefined ? [] : [sql`d.channel_id = ${channelId}`]),
			],
			sql` AND `,
		);
	const direction = order === "desc" ? sql`DESC` : sql`ASC`;
	const isAll =
		channelId === undefined &&
		Object.entries(filter).every(([name, value]) => value === undefined || name === "searchesCustomIds");
	const found =
		isAll && sort === "last_seen"
			? counted(app, direction, limit, offset)
			: filtered(app, filter, channelId, {
					direction,
					isByLastSeen: sort === "last_seen",
					condition: conditionWith(filter.platform),
					ofAnyPlatform: conditionWith(undefined),
					key: sql`${columnOf(sort, filter.searchesCustomIds)} ${direction}, d.device_id`,
					skipped: offset,
				});
	return sql<ListedRow>`WITH found AS MATERIALIZED (${found})
		SELECT d.*, 0 AS custom_id_devices, found.total, found.is_complete, found.platforms
		FROM found LEFT JOIN (SELECT key, value FROM json_each((SELECT ids FROM found)) ORDER BY key LIMIT ${limit}
				OFFSET (SELECT skipped FROM found)) AS place ON true
			LEFT JOIN devices d ON d.app_id = ${app} AND d.device_id = place.value
		ORDER BY place.key`.compile(query);
}

// Both below are one row: `ids` is a JSON array in the order of the list, whose first `skipped`
// ones are before the page.

/** All devices. A deep page reads only the index for the devices before it. */
function counted(app: AppId, direction: RawBuilder<unknown>, limit: number, offset: number): RawBuilder<unknown> {
	const page = sql`(SELECT device_id FROM devices INDEXED BY devices_by_last_seen WHERE app_id = ${app}
		ORDER BY last_seen_at_ms ${direction}, device_id LIMIT ${limit} OFFSET ${offset})`;
	// Read only if the app has so few devices that a list of one platform is complete as well.
	const platforms = sql`CASE WHEN count(*) + ${offset} < ${sql.lit(MOST_FILTERED)} THEN (SELECT ${platformCounts(sql`true`)}
		FROM devices d INDEXED BY devices_by_last_seen WHERE d.app_id = ${app}) END`;
	return sql`SELECT (SELECT json_group_array(device_id) FROM ${page}) AS ids, 0 AS skipped,
			CASE WHEN count(*) = 0 THEN 0 ELSE count(*) + ${offset} END AS total,
			count(*) < ${sql.lit(MOST_COUNTED)} AS is_complete, ${platforms} AS platforms
		FROM (SELECT 1 FROM devices INDEXED BY devices_by_last_seen WHERE app_id = ${app}
			LIMIT ${sql.lit(MOST_COUNTED)} OFFSET ${offset})`;
}

interface Filtered {
	readonly direction: RawBuilder<unknown>;
	readonly isByLastSeen: boolean;
	/** On `d`. */
	readonly condition: RawBuilder<unknown>;
	/** The condition without that of a platform. */
	readonly ofAnyPlatform: RawBuilder<unknown>;
	readonly key: RawBuilder<unknown>;
	readonly skipped: number;
}

function filtered(
	app: AppId,
	{ customId, version, keyId, search, searchesCustomIds }: DeviceFilter,
	channelId: number | null | undefined,
	{ direction, isByLastSeen, condition, ofAnyPlatform, key, skipped }: Filtered,
): RawBuilder<unknown> {
	const most = sql.lit(search === undefined ? MOST_FILTERED : MOST_SEARCHED);
	const by = (index: string, narrowed: RawBuilder<unknown>, ordered = sql``) =>
		sql`SELECT d.* FROM devices d INDEXED BY ${sql.ref(index)} WHERE d.app_id = ${app} ${narrowed} ${ordered} LIMIT ${most}`;
	const ofChannel = channelId === undefined ? sql`` : sql`AND d.channel_id = ${channelId}`;
	const read =
		customId !== undefined
			? by("devices_by_custom_id", sql`AND d.custom_id = ${customId}`)
			: keyId !== undefined
				? by("devices_by_key", sql`AND d.key_id = ${keyId}`)
				: version !== undefined
					? by("devices_by_version", sql`AND d.version_name = ${version} ${ofChannel}`)
					: channelId !== undefined
						? by("devices_by_channel", ofChannel)
						: by(
								"devices_by_last_seen",
								sql``,
								sql`ORDER BY d.last_seen_at_ms ${isByLastSeen ? direction : sql`DESC`}`,
							);
	const prefixed = (column: "device_id" | "custom_id") =>
		search === undefined
			? sql``
			: sql` UNION SELECT d.* FROM devices d WHERE d.app_id = ${app} AND d.device_id IN ${idsFrom(app, column, search)}`;
	const begins = sql`${prefixed("device_id")}${searchesCustomIds ? prefixed("custom_id") : sql``}`;
	return sql`SELECT json_group_array(d.device_id ORDER BY ${key}) FILTER (WHERE ${condition}) AS ids, ${skipped} AS skipped,
			count(*) FILTER (WHERE ${condition}) AS total, count(*) < ${most} AS is_complete,
			CASE WHEN count(*) < ${most} THEN ${platformCounts(ofAnyPlatform)} END AS platforms
		FROM (SELECT * FROM (${read})${begins}) AS d`;
}
