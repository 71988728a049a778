/**
 * Devices by their last report, found by parts of their ids. No index has this order, because it would cost a row for each report, so a list
 * reads at most `MOST_LISTED` devices of the app: all of them, except in large apps.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { AppId } from "../authz/decide";
import { query } from "./client";
import type { ReportedRow } from "./devices";

export const MOST_LISTED = 20_000;

export interface ListFilter {
	/** In lower case: a part of the device's id or of its custom id. */
	readonly search: string | undefined;
	readonly searchesCustomIds: boolean;
	readonly platform: string | undefined;
	readonly version: string | undefined;
	readonly keyId: string | undefined;
	/** Channel of the last check; null: there is no such channel. */
	readonly channelId: number | null | undefined;
	readonly seenFromMs: number | undefined;
	readonly seenToMs: number | undefined;
}

/** Columns by which the list may be sorted. */
export const DEVICE_ORDERS = ["last_seen", "name", "version", "platform"] as const;
type DeviceOrder = (typeof DEVICE_ORDERS)[number];

function orderOf(order: DeviceOrder, searchesCustomIds: boolean): RawBuilder<unknown> {
	switch (order) {
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

export function listedDevices(
	app: AppId,
	{ search, searchesCustomIds, platform, version, keyId, channelId, seenFromMs, seenToMs }: ListFilter,
	{ order, isDescending }: { readonly order: DeviceOrder; readonly isDescending: boolean },
	limit: number,
	offset: number,
): CompiledQuery<ListedRow> {
	const key = sql`${orderOf(order, searchesCustomIds)} ${isDescending ? sql`DESC` : sql`ASC`}, d.device_id`;
	const inCustomId = searchesCustomIds ? sql`OR instr(lower(d.custom_id), ${search}) > 0` : sql``;
	const conditions = [
		sql`true`,
		...(search === undefined ? [] : [sql`(instr(d.device_id, ${search}) > 0 ${inCustomId})`]),
		...(platform === undefined ? [] : [sql`d.platform = ${platform}`]),
		...(version === undefined ? [] : [sql`d.version_name = ${version}`]),
		...(keyId === undefined ? [] : [sql`d.key_id = ${keyId}`]),
		...(channelId === undefined ? [] : [sql`d.channel_id = ${channelId}`]),
		...(seenFromMs === undefined ? [] : [sql`d.last_seen_at_ms >= ${seenFromMs}`]),
		...(seenToMs === undefined ? [] : [sql`d.last_seen_at_ms <= ${seenToMs}`]),
	];
	return sql<ListedRow>`WITH listed AS MATERIALIZED (SELECT device_id, platform, version_name, channel_id, custom_id, key_id, last_seen_at_ms
				FROM devices WHERE app_id = ${app} LIMIT ${sql.lit(MOST_LISTED)}),
			found AS (SELECT d.device_id, count(*) OVER () AS total FROM listed d WHERE ${sql.join(conditions, sql` AND `)}
				ORDER BY ${key} LIMIT ${limit} OFFSET ${offset})
		SELECT d.*, 0 AS custom_id_devices, found.total, (SELECT count(*) FROM listed) AS listed
		FROM found CROSS JOIN devices d ON d.app_id = ${app} AND d.device_id = found.device_id
		ORDER BY ${key}`.compile(query);
}
