/**
 * Which database has the reports of an app: devices, counts and statistics. An app without a row in `telemetry_homes` has them in the main
 * database, as one whose reports are still being copied. The database is chosen once and stored, so that databases can be added later.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { Deps } from "../deps";
import { serviceUnavailable } from "../errors";
import { FENCED, query } from "./client";

export type TelemetryDeps = Pick<Deps, "d1" | "telemetry">;

/** The telemetry database of an app that has none yet, by a hash of its UUID; undefined without such databases. */
export function bindingFor(appUuid: string, telemetry: Deps["telemetry"]): string | undefined {
	const bindings = Object.keys(telemetry).sort();
	let hash = 0x811c9dc5;
	for (const character of appUuid) hash = Math.imul(hash ^ character.charCodeAt(0), 0x01000193) >>> 0;
	return bindings[hash % Math.max(1, bindings.length)];
}

/** @throws {ApiError} `service_unavailable` if the deployment lacks the binding */
export function telemetryD1({ telemetry }: Pick<Deps, "telemetry">, binding: string): D1Database {
	const found = telemetry[binding];
	if (found === undefined) throw serviceUnavailable(new Error(`wrangler.toml has no database ${binding}`));
	return found;
}

/** The binding of the telemetry database that has the reports of the app; null: the main database has them. */
export const homeOf = (appId: RawBuilder<unknown>) =>
	sql<
		string | null
	>`(SELECT home.binding FROM telemetry_homes AS home WHERE home.app_id = ${appId} AND home.state <> 'copying')`;

/** Condition: the main database has the reports of the app. Between the copy and the deletion of the old rows, both databases have them. */
export const hasReportsHere = (appId: RawBuilder<unknown>) =>
	sql<boolean>`NOT EXISTS (SELECT 1 FROM telemetry_homes AS home WHERE home.app_id = ${appId} AND home.state <> 'copying')`;

/** Condition: the reports of the app may be written in the main database. */
export const mayChangeHere = (appId: RawBuilder<unknown>) =>
	sql<boolean>`NOT EXISTS (SELECT 1 FROM telemetry_homes AS home WHERE home.app_id = ${appId})`;

/** Tables of reports with an app, and the columns that identify a row within the app, in the order of the primary key. */
export const REPORT_TABLES = [
	{ name: "devices", key: ["device_id"] },
	{ name: "daily_counts", key: ["day", "version_name", "channel_name", "metric"] },
	{ name: "daily_totals", key: ["day"] },
	{ name: "daily_install_times", key: ["day", "version_name", "bucket"] },
	{ name: "daily_health", key: ["day", "version_name", "signal", "bucket"] },
	{ name: "device_events", key: ["at_ms", "id"] },
	{ name: "device_sketches", key: ["day", "kind", "version_name", "slot"] },
] as const;

/**
 * Refuse writes of reports whose app has a telemetry database, by this Worker and by the release before, which knows none. So the rows do not
 * change while they are copied. The row of a device that is only named, for its override, is no report.
 */
export const FENCE: readonly string[] = REPORT_TABLES.flatMap(({ name }) =>
	(["INSERT", "UPDATE"] as const).map((operation) => {
		const isReport = operation === "INSERT" ? "NEW.last_seen_at_ms IS NOT NULL" : "NEW.revision <> OLD.revision";
		return `CREATE TRIGGER IF NOT EXISTS ${name}_telemetry_${operation.toLowerCase()} BEFORE ${operation} ON ${name}
		WHEN ${name === "devices" ? `${isReport} AND ` : ""}EXISTS (SELECT 1 FROM telemetry_homes WHERE app_id = NEW.app_id)
		BEGIN
		  SELECT RAISE(ABORT, '${FENCED}');
		END`;
	}),
);

/** Triggers of the fence that exist. */
export const fenceTriggers = sql<number>`(SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND name GLOB '*_telemetry_*')`;

export interface TelemetryHome {
	readonly app_id: string;
	readonly binding: string;
	readonly state: "copying" | "moved" | "settled" | "removed";
	/** JSON; null at the start of a state. */
	readonly position: string | null;
}

/** Apps in the state, by id. */
export function homesIn(state: TelemetryHome["state"], limit: number): CompiledQuery<TelemetryHome> {
	return sql<TelemetryHome>`SELECT app_id, binding, state, position FROM telemetry_homes
		WHERE state = ${state} AND state <> 'settled' ORDER BY app_id LIMIT ${limit}`.compile(query);
}

/** Telemetry databases that have, or will have, reports. */
export function usedBindings(): CompiledQuery<{ binding: string }> {
	return sql<{ binding: string }>`SELECT DISTINCT binding FROM telemetry_homes ORDER BY binding`.compile(query);
}
