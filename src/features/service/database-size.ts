/**
 * Warns of a database that fills up, because a D1 database can never be enlarged, and no reports of
 * devices are stored above the limit.
 */
import { sql } from "kysely";
import { openDb, query } from "../../db/client";
import type { Deps } from "../../deps";

/** Shares of TELEMETRY_MAX_BYTES at which the log warns. */
const FILLING = 0.7;
const NEARLY_FULL = 0.9;

/** @throws {Error} if a database does not answer; the others were looked at */
export async function watchDatabaseSizes(deps: Deps): Promise<void> {
	const databases = [["DB", deps.d1] as const, ...Object.entries(deps.telemetry)];
	const results = await Promise.allSettled(databases.map(([binding, d1]) => watchDatabaseSize(deps, binding, d1)));
	for (const result of results) if (result.status === "rejected") throw result.reason;
}

async function watchDatabaseSize(deps: Deps, binding: string, d1: D1Database): Promise<void> {
	const db = openDb(d1, "first-primary");
	await db.batch([sql`SELECT 1`.compile(query)]);
	const { telemetryMaxBytes: limitBytes } = deps.config;
	const sizeBytes = db.sizeBytes ?? 0;
	const level =
		sizeBytes >= NEARLY_FULL * limitBytes ? "error" : sizeBytes >= FILLING * limitBytes ? "warn" : undefined;
	if (level !== undefined) deps.log(level, "database_filling", { database: binding, sizeBytes, limitBytes });
}
