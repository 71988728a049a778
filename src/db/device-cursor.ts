/**
 * Pages of devices after a cursor. By id and by custom id an index has the order, so a page reads
 * only its rows; by the time of the last change none has, so that order is for apps with fewer than
 * `MOST_SORTED` devices.
 */
import { type CompiledQuery, sql } from "kysely";
import type { AppId } from "../authz/decide";
import { query } from "./client";
import type { ReportedRow } from "./devices";

export const MOST_SORTED = 20_000;

export interface DeviceCursor {
	/** The custom id of the last device. */
	readonly place: string;
	/** The time of its last change. */
	readonly atMs: number | undefined;
	readonly deviceId: string;
}

export interface DevicesAfter {
	readonly order: "id" | "custom id" | "asc" | "desc";
	readonly hasCustomId: boolean;
	/** Custom ids are not shown. */
	readonly isHidden: boolean;
	readonly updatedAfterMs: number | undefined;
	readonly after: DeviceCursor | undefined;
	readonly limit: number;
	readonly offset: number;
}

/** With an order by time each row has `total`, the devices that were read. */
export function devicesAfter(
	app: AppId,
	{ order, hasCustomId, updatedAfterMs, after, limit, offset }: DevicesAfter,
): CompiledQuery<ReportedRow> {
	const changed = updatedAfterMs === undefined ? sql`true` : sql`d.updated_at_ms > ${updatedAfterMs}`;
	const named = hasCustomId ? sql`d.custom_id IS NOT NULL` : sql`true`;
	if (order === "id" || order === "custom id") {
		const isById = order === "id";
		const key = isById ? sql`d.device_id` : sql`d.custom_id, d.device_id`;
		const beyond =
			after === undefined
				? sql`true`
				: isById
					? sql`d.device_id > ${after.deviceId}`
					: sql`(d.custom_id, d.device_id) > (${after.place}, ${after.deviceId})`;
		return sql<ReportedRow>`SELECT d.*, 0 AS custom_id_devices
			FROM devices d ${isById ? sql`` : sql`INDEXED BY devices_by_custom_id`}
			WHERE d.app_id = ${app} AND ${named} AND ${beyond} AND ${changed}
			ORDER BY ${key} LIMIT ${limit} OFFSET ${offset}`.compile(query);
	}
	const [direction, beyond] = order === "asc" ? [sql`ASC`, sql`>`] : [sql`DESC`, sql`<`];
	const page =
		after?.atMs === undefined
			? sql`true`
			: sql`(d.updated_at_ms ${beyond} ${after.atMs} OR d.updated_at_ms = ${after.atMs} AND d.device_id > ${after.deviceId})`;
	return sql<ReportedRow>`WITH listed AS MATERIALIZED (
			SELECT device_id, custom_id, updated_at_ms FROM devices WHERE app_id = ${app} LIMIT ${sql.lit(MOST_SORTED)}),
			found AS (SELECT d.device_id FROM listed d WHERE ${named} AND ${changed} AND ${page}
				ORDER BY d.updated_at_ms ${direction}, d.device_id LIMIT ${limit} OFFSET ${offset})
		SELECT d.*, 0 AS custom_id_devices, (SELECT count(*) FROM listed) AS total
		FROM found CROSS JOIN devices d ON d.app_id = ${app} AND d.device_id = found.device_id
		ORDER BY d.updated_at_ms ${direction}, d.device_id`.compile(query);
}
