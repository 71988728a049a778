/**
 * The reports that clean-up deletes from telemetry databases: those of an app whose row is deleted
 * in the main database, and those that are stored before their app, unless its creation ends.
 */
import { type CompiledQuery, type RawBuilder, type SqlBool, sql } from "kysely";
import { MINUTE_MS } from "../domain/time";
import { insertEach, jsonList, query, reportQuery } from "./client";
import { REPORT_TABLES } from "./telemetry-databases";

/**
 * A consumer that read the app before its removal has ended by then, and stores no more reports.
 */
const CONSUMER_MS = 20 * MINUTE_MS;
/** Rows of each table that one step deletes. */
export const MOST_DELETED_ROWS = 1_000;

/** @param which condition on `apps`, whose rows the same batch deletes */
export function removeReportsOf(which: RawBuilder<SqlBool>, nowMs: number): CompiledQuery {
	return insertEach("report_removals", query.selectFrom("apps").where(which), (eb) => ({
		app_id: eb.ref("id"),
		telemetry_binding: eb.ref("telemetry_binding"),
		due_at_ms: nowMs + CONSUMER_MS,
	}))
		.orReplace()
		.compile();
}

/** For reports that are stored before their app; the batch that creates the app takes it back. */
export function removeReportsLater(appId: string, binding: string, dueAtMs: number): CompiledQuery {
	return query
		.insertInto("report_removals")
		.values({ app_id: appId, telemetry_binding: binding, due_at_ms: dueAtMs })
		.compile();
}

/** The reports are deleted, or stay. */
export function endReportRemoval(appId: string): CompiledQuery {
	return query.deleteFrom("report_removals").where("app_id", "=", appId).compile();
}

export interface ReportRemoval {
	readonly app_id: string;
	readonly telemetry_binding: string;
}

/** The one that is due the longest. */
export function nextReportRemoval(nowMs: number, exceptBindings: readonly string[]): CompiledQuery<ReportRemoval> {
	return query
		.selectFrom("report_removals")
		.select(["app_id", "telemetry_binding"])
		.where("due_at_ms", "<=", nowMs)
		.where("telemetry_binding", "not in", jsonList(JSON.stringify(exceptBindings)))
		.orderBy("due_at_ms")
		.orderBy("app_id")
		.limit(1)
		.compile();
}

/** Lets the other removals of a telemetry database go first. */
export function postponeReportRemoval(appId: string, nowMs: number): CompiledQuery {
	return query
		.updateTable("report_removals")
		.set({ due_at_ms: nowMs + CONSUMER_MS })
		.where("app_id", "=", appId)
		.compile();
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
	return reportQuery.deleteFrom("apps").where("id", "=", appId).compile();
}
