/**
 * Reads of telemetry databases, for requests and jobs whose decision is in the main database. Each
 * names the app by an id that a decision or the main database returned. Only devices and statistics
 * need an answer; everything else does without one rather than wait.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { AppId } from "../authz/decide";
import type { Deps } from "../deps";
import { causeText } from "../errors";
import { type Database, lastResult, openDb, query } from "./client";
import { telemetryD1 } from "./telemetry-databases";

/** The database of the reports of an app. */
export function openTelemetry(deps: Pick<Deps, "telemetry">, binding: string): Database {
	return openDb(telemetryD1(deps, binding), "first-primary");
}

/**
 * Reads reports of several apps: at the same time from each database, which gets the ids of its
 * apps.
 */
export function readOfApps<Result>(
	deps: Pick<Deps, "telemetry">,
	apps: readonly { readonly id: string; readonly telemetry_binding: string }[],
	read: (reports: Database, appIds: readonly string[]) => Promise<Result>,
): Promise<Result[]> {
	const byBinding = Map.groupBy(apps, ({ telemetry_binding }) => telemetry_binding);
	const reads = [...byBinding].map(([binding, own]) =>
		read(
			openTelemetry(deps, binding),
			own.map(({ id }) => id),
		),
	);
	return Promise.all(reads);
}

/** How long requests wait that also have an answer without the database. */
const DEADLINE_MS = 500;

/**
 * @returns the rows of the last statement; undefined if the database fails, or does not answer in
 * time
 */
export async function tryTelemetry<Row>(
	deps: Pick<Deps, "telemetry" | "deadline" | "log">,
	binding: string,
	...statements: readonly [...CompiledQuery[], CompiledQuery<Row>]
): Promise<readonly Row[] | undefined> {
	const read = async () => lastResult(await openTelemetry(deps, binding).batch(statements)).rows;
	try {
		return await Promise.race([read(), deps.deadline(DEADLINE_MS).then(() => undefined)]);
	} catch (error) {
		deps.log("warn", "telemetry_not_read", { binding, cause: causeText(error) });
		return undefined;
	}
}

interface VersionDevices {
	readonly name: string;
	/** Devices that reported the version last. */
	readonly devices: number;
}

const reporting = (appId: AppId, names: readonly string[], columns: RawBuilder<unknown>) =>
	sql`SELECT value AS name, ${columns} FROM json_each(${JSON.stringify(names)})
		WHERE EXISTS (SELECT 1 FROM devices INDEXED BY devices_by_version WHERE app_id = ${appId} AND version_name = value)`;

/** Versions that devices of the app reported last. */
export function reportedVersions(appId: AppId, names: readonly string[]): CompiledQuery<VersionDevices> {
	const devices = sql`(SELECT count(*) FROM devices INDEXED BY devices_by_version WHERE app_id = ${appId} AND version_name = value)`;
	return sql<VersionDevices>`${reporting(appId, names, sql`${devices} AS devices`)}`.compile(query);
}

/** Versions whose devices were seen after the time. */
export function versionsSeenSince(
	appId: AppId,
	names: readonly string[],
	sinceMs: number,
): CompiledQuery<{ name: string }> {
	return sql<{ name: string }>`SELECT value AS name FROM json_each(${JSON.stringify(names)})
		WHERE EXISTS (SELECT 1 FROM devices INDEXED BY devices_by_version
			WHERE app_id = ${appId} AND version_name = value AND last_seen_at_ms > ${sinceMs})`.compile(query);
}

/** When devices that run the versions were last seen, by a sample of them. */
export function lastSeenRunning(
	appId: AppId,
	names: readonly string[],
	sampled: number,
): CompiledQuery<{ name: string; last_seen_at_ms: number }> {
	const seen = sql`(SELECT max(last_seen_at_ms) FROM (SELECT last_seen_at_ms FROM devices INDEXED BY devices_by_version
		WHERE app_id = ${appId} AND version_name = value LIMIT ${sampled})) AS last_seen_at_ms`;
	return sql<{ name: string; last_seen_at_ms: number }>`${reporting(appId, names, seen)}`.compile(query);
}
