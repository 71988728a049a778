/**
 * Rows of the telemetry database that every test uses, for tests that write or read reports without
 * a request.
 */
import type { QueryCreator } from "kysely";
import { openDb, query } from "../../../src/db/client";
import type { TelemetrySchema } from "../../../src/db/schema";
import { insertReportedApps } from "../../../src/db/telemetry-databases";
import { testEnv } from "./world";

export const REPORTS = testEnv.TELEMETRY;

const OF_REPORTS = /\b(devices|daily_(counts|totals|install_times|health)|device_events|device_sketches|counted_ids)\b/;

/** The database of the tables that a statement names. */
export const databaseOf = (statement: string) => (OF_REPORTS.test(statement) ? REPORTS : testEnv.DB);

/** `query` for the tables of a telemetry database. */
export const reportQuery = query as unknown as QueryCreator<TelemetrySchema>;

export const openReports = () => openDb(REPORTS, "first-primary");

/** The database with rows of the apps, which the consumer stores before their first report. */
export async function reportsOf(...appUuids: readonly string[]): Promise<D1Database> {
	await openReports().batch([insertReportedApps(appUuids)]);
	return REPORTS;
}
