/**
 * Devices by their last report, found by parts of their ids. No index has this order, because it would cost a row for each report, so a list
 * reads at most `MOST_LISTED` devices of the app: all of them, except in large apps.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { query } from "./client";
import type { ReportedRow } from "./reported-devices";

export const MOST_LISTED = 20_000;

export interface ListFilter {
	/** In lower case: a part of the device's id or of its custom id. */
	readonly search: string | undefined;
	readonly searchesCustomIds: boolean;
	readonly platform: string | undefined;
	readonly version: string | undefined;
	readonly keyId: string | undefined;
	/** Channel of the last check; null: there is no such channel. */
	readonly channelId: RawBuilder<unknown> | undefined;
	readonly seenFromMs: number | undefined;
	readonly seenToMs: number | undefined;
}

/** `total` and `listed` are the same in each row: devices that the filter finds, and devices that were read. */
export type ListedRow = ReportedRow & { readonly total: number; readonly listed: number };

export function listedDevices(
	app: RawBuilder<unknown>,
	{ search, searchesCustomIds, platform, version, keyId, channelId, seenFromMs, seenToMs }: ListFilter,
	limit: number,
	offset: number,
): CompiledQuery<ListedRow> {
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
			found AS (SELECT d.device_id, d.last_seen_at_ms, count(*) OVER () AS total FROM listed d WHERE ${sql.join(conditions, sql` AND `)}
				ORDER BY coalesce(d.last_seen_at_ms, 0) DESC, d.device_id LIMIT ${limit} OFFSET ${offset})
		SELECT d.*, 0 AS custom_id_devices, found.total, (SELECT count(*) FROM listed) AS listed
		FROM found CROSS JOIN devices d ON d.app_id = ${app} AND d.device_id = found.device_id
		ORDER BY coalesce(found.last_seen_at_ms, 0) DESC, found.device_id`.compile(query);
}
