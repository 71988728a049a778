/**
 * Store versions that devices reported last, in the telemetry database that has the devices.
 */
import { type CompiledQuery, sql } from "kysely";
import type { AppId } from "../authz/decide";
import { DAY_MS } from "../domain/time";
import { query, reportQuery } from "./client";
import type { Flag } from "./schema";

/** Device ids are random, so the first ones are a fair sample of a bounded cost. */
export const MOST_SAMPLED_DEVICES = 20_000;

export interface StoreVersionRow {
	/** Null for devices that reported none. */
	readonly version_build: string | null;
	/** Day of the first report. */
	readonly first_day: number;
	/** Day of the last stored report; a device that changes nothing stores one a week. */
	readonly last_day: number;
	readonly devices: number;
}

export function devicesByStoreVersion(appId: AppId): CompiledQuery<StoreVersionRow> {
	const dayOf = (column: "created_at_ms" | "last_seen_at_ms") => sql<number>`${sql.ref(column)} / ${sql.lit(DAY_MS)}`;
	return reportQuery
		.selectFrom(
			reportQuery
				.selectFrom("devices")
				.select(["version_build", "created_at_ms", "last_seen_at_ms"])
				.where("app_id", "=", appId)
				.orderBy("device_id")
				.limit(MOST_SAMPLED_DEVICES)
				.as("sample"),
		)
		.select((eb) => [
			"version_build",
			dayOf("created_at_ms").as("first_day"),
			dayOf("last_seen_at_ms").as("last_day"),
			eb.fn.countAll<number>().as("devices"),
		])
		.where("last_seen_at_ms", "is not", null)
		.groupBy(["version_build", "first_day", "last_day"])
		.compile();
}

/** Devices of the sample from which the problems of channels are derived: a constant cost. */
const SAMPLED_DEVICES = 100;

interface StoreBuildsRow {
	/** JSON array of `[version_build, last_seen_at_ms]`. */
	readonly store_builds: string;
	/** The app has at least as many devices as the sample. */
	readonly is_full: Flag;
}

export function storeBuildsOf(appId: AppId): CompiledQuery<StoreBuildsRow> {
	return sql<StoreBuildsRow>`WITH sample AS MATERIALIZED (SELECT version_build, last_seen_at_ms FROM devices
			WHERE app_id = ${appId} ORDER BY device_id LIMIT ${sql.lit(SAMPLED_DEVICES)})
		SELECT (SELECT json_group_array(json_array(version_build, seen_at_ms)) FROM (
				SELECT version_build, max(last_seen_at_ms) AS seen_at_ms FROM sample
				WHERE version_build IS NOT NULL AND last_seen_at_ms IS NOT NULL GROUP BY version_build)) AS store_builds,
			(SELECT count(*) FROM sample) = ${sql.lit(SAMPLED_DEVICES)} AS is_full`.compile(query);
}
