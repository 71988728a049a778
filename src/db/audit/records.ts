/**
 * Audit entries about records, with the table of each and what happened to it:
 * src/domain/webhooks/audit-records.ts has the rules, which the triggers of webhooks share.
 */
import { type CompiledQuery, type Selectable, sql } from "kysely";
import { OPERATION_OF_ACTION, RECORD_OF_TARGET } from "../../domain/webhooks/audit-records";
import { query } from "../client";
import type { AuditLogTable } from "../schema";

interface RecordFilter {
	readonly tableName: string | undefined;
	readonly operation: string | undefined;
}

type RecordEntry = Selectable<AuditLogTable> & {
	readonly table_name: string;
	readonly operation: "INSERT" | "UPDATE" | "DELETE";
};

const TABLE_NAME = sql.raw<string>(RECORD_OF_TARGET("target_type", "action"));
const OPERATION = sql.raw<RecordEntry["operation"]>(OPERATION_OF_ACTION("action"));

function entries(orgId: string, { tableName, operation }: RecordFilter) {
	return query
		.selectFrom("audit_log")
		.where("org_id", "=", orgId)
		.where(sql<boolean>`${TABLE_NAME} IS NOT NULL`)
		.$if(tableName !== undefined, (rows) => rows.where(sql<boolean>`${TABLE_NAME} = ${tableName}`))
		.$if(operation !== undefined, (rows) => rows.where(sql<boolean>`${OPERATION} = ${operation}`));
}

/** Newest first; for `load`. */
export function entriesPage(
	orgId: string,
	filter: RecordFilter,
	limit: number,
	offset: number,
): CompiledQuery<RecordEntry> {
	return entries(orgId, filter)
		.selectAll()
		.select([TABLE_NAME.as("table_name"), OPERATION.as("operation")])
		.orderBy("at_ms", "desc")
		.orderBy("id", "desc")
		.limit(limit)
		.offset(offset)
		.compile();
}

/** Their number, up to a limit. */
export function countEntries(orgId: string, filter: RecordFilter, most: number): CompiledQuery<{ total: number }> {
	return query
		.selectFrom(entries(orgId, filter).select("id").limit(most).as("counted"))
		.select((eb) => eb.fn.countAll<number>().as("total"))
		.compile();
}
