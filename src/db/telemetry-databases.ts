/**
 * Telemetry databases have the reports of apps: devices, counts and statistics. The database of an
 * app is chosen when the app is created and stored in its row, so that databases can be added
 * later; no app moves.
 */
import { type CompiledQuery, sql } from "kysely";
import type { Deps } from "../deps";
import { serviceUnavailable } from "../errors";
import { query } from "./client";

export type TelemetryDeps = Pick<Deps, "d1" | "telemetry">;

/**
 * The telemetry database of a new app, by a hash of its UUID.
 * @throws {ApiError} `service_unavailable` if the deployment has none
 */
export function bindingFor(appUuid: string, telemetry: Deps["telemetry"]): string {
	const bindings = Object.keys(telemetry).sort();
	let hash = 0x811c9dc5;
	for (const character of appUuid) hash = Math.imul(hash ^ character.charCodeAt(0), 0x01000193) >>> 0;
	const binding = bindings[hash % Math.max(1, bindings.length)];
	if (binding === undefined) throw serviceUnavailable(new Error("wrangler.toml has no database TELEMETRY"));
	return binding;
}

/** @throws {ApiError} `service_unavailable` if the deployment lacks the binding */
export function telemetryD1({ telemetry }: Pick<Deps, "telemetry">, binding: string): D1Database {
	const found = telemetry[binding];
	if (found === undefined) throw serviceUnavailable(new Error(`wrangler.toml has no database ${binding}`));
	return found;
}

/**
 * Tables of reports with an app, and the columns that identify a row within the app, in the order
 * of the primary key.
 */
export const REPORT_TABLES = [
	{ name: "devices", key: ["device_id"] },
	{ name: "daily_counts", key: ["day", "version_name", "channel_name", "metric"] },
	{ name: "daily_totals", key: ["day"] },
	{ name: "daily_install_times", key: ["day", "version_name", "bucket"] },
	{ name: "daily_health", key: ["day", "version_name", "signal", "bucket"] },
	{ name: "device_events", key: ["at_ms", "id"] },
	{ name: "device_sketches", key: ["day", "kind", "version_name", "slot"] },
] as const;

/** Lets a telemetry database know apps, so that it takes their reports. */
export function insertReportedApps(appIds: readonly string[]): CompiledQuery {
	return sql`INSERT INTO apps (id) SELECT value FROM json_each(${JSON.stringify(appIds)}) WHERE true
		ON CONFLICT DO NOTHING`.compile(query);
}

/** Telemetry databases that have, or will have, reports. */
export function usedBindings(): CompiledQuery<{ binding: string }> {
	// One step of the index for each binding, instead of a row for each app.
	return sql<{ binding: string }>`WITH RECURSIVE used (binding) AS (SELECT min(telemetry_binding) FROM apps
			UNION ALL SELECT (SELECT min(telemetry_binding) FROM apps WHERE telemetry_binding > used.binding) FROM used WHERE used.binding IS NOT NULL)
		SELECT binding FROM used WHERE binding IS NOT NULL UNION SELECT telemetry_binding FROM report_removals ORDER BY binding`.compile(
		query,
	);
}
