/**
 * Devices by their last report, found by parts of their ids. No index has this order, because it would cost a row for each report, so a list
 * reads at most `MOST_LISTED` devices of the app: all of them, except in large apps.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { AppId } from "../authz/decide";
import { query } from "./client";
import { conditionsOf, type DeviceFilter, type ReportedRow } from "./devices";

export const MOST_LISTED = 20_000;

/** Columns by which the list may be sorted. */
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

/** `total` and `listed` are the same in each row: devices that the filter finds, and devices that were read. */
export type ListedRow = ReportedRow & { readonly total: number; readonly listed: number };

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
	const { customId, version, searchesCustomIds } = filter;
	const key = sql`${columnOf(sort, searchesCustomIds)} ${order === "desc" ? sql`DESC` : sql`ASC`}, d.device_id`;
	const conditions = [
		conditionsOf("d", filter),
		...(customId === undefined ? [] : [sql`d.custom_id = ${customId}`]),
		...(version === undefined ? [] : [sql`d.version_name = ${version}`]),
		...(channelId === undefined ? [] : [sql`d.channel_id = ${channelId}`]),
	];
	return sql<ListedRow>`WITH listed AS MATERIALIZED (SELECT device_id, platform, version_name, channel_id, custom_id, key_id, last_seen_at_ms
				FROM devices WHERE app_id = ${app} LIMIT ${sql.lit(MOST_LISTED)}),
			found AS (SELECT d.device_id, count(*) OVER () AS total FROM listed d WHERE ${sql.join(conditions, sql` AND `)}
				ORDER BY ${key} LIMIT ${limit} OFFSET ${offset})
		SELECT d.*, 0 AS custom_id_devices, found.total, (SELECT count(*) FROM listed) AS listed
		FROM found CROSS JOIN devices d ON d.app_id = ${app} AND d.device_id = found.device_id
		ORDER BY ${key}`.compile(query);
}
