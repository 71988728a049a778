/**
 * The reports that clean-up deletes from telemetry databases: those of an app whose row is deleted in the main database, and those that are
 * stored before their app, unless its creation ends.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { MINUTE_MS } from "../domain/time";
import { jsonList, query } from "./client";
import { REPORT_TABLES } from "./telemetry-databases";

/** A consumer that read the app before its removal has ended by then, and stores no more reports. */
const CONSUMER_MS = 20 * MINUTE_MS;
/** Rows of each table that one step deletes. */
export const MOST_DELETED_ROWS = 1_000;

/** @param which condition on `apps`, whose rows the same batch deletes */
export function removeReportsOf(which: RawBuilder<unknown>, nowMs: number): CompiledQuery {
	return sql`INSERT OR REPLACE INTO report_removals (app_id, telemetry_binding, due_at_ms)
		SELECT id, telemetry_binding, ${nowMs + CONSUMER_MS} FROM apps WHERE ${which}`.compile(query);
}

/** For reports that are stored before their app; the batch that creates the app takes it back. */
export function removeReportsLater(appId: string, binding: string, dueAtMs: number): CompiledQuery {
	return sql`INSERT INTO report_removals (app_id, telemetry_binding, due_at_ms)
		VALUES (${appId}, ${binding}, ${dueAtMs})`.compile(query);
}

/** The reports are deleted, or stay. */
export function endReportRemoval(appId: string): CompiledQuery {
	return sql`DELETE FROM report_removals WHERE app_id = ${appId}`.compile(query);
}

export interface ReportRemoval {
	readonly app_id: string;
	readonly telemetry_binding: string;
}

/** The one that is due the longest. */
export function nextReportRemoval(nowMs: number, exceptBindings: readonly string[]): CompiledQuery<ReportRemoval> {
	return sql<ReportRemoval>`SELECT app_id, telemetry_binding FROM report_removals
		WHERE due_at_ms <= ${nowMs} AND telemetry_binding NOT IN ${jsonList(JSON.stringify(exceptBindings))}
		ORDER BY due_at_ms, app_id LIMIT 1`.compile(query);
}

/** Lets the other removals of a telemetry database go first. */
export function postponeReportRemoval(appId: string, nowMs: number): CompiledQuery {
	return sql`UPDATE report_removals SET due_at_ms = ${nowMs + CONSUMER_MS} WHERE app_id = ${appId}`.compile(query);
}

/** In the telemetry database: rows of an app, from each table a part. */
export function deleteSomeReports(appId: string): CompiledQuery[] {
	return REPORT_TABLES.map(({ name, key }) => {
		const columns = sql.join(key.map((column) => sql.ref(column)));
		return sql`DELETE FROM ${sql.table(name)} WHERE app_id = ${appId} AND (${columns}) IN (
			SELECT ${columns} FROM ${sql.table(name)} WHERE app_id = ${appId} LIMIT ${MOST_DELETED_ROWS})`.compile(query);
	});
}

/** In the telemetry database, after all reports of the app; its versions go with it. */
export function deleteReportedApp(appId: string): CompiledQuery {
	return sql`DELETE FROM apps WHERE id = ${appId}`.compile(query);
}
