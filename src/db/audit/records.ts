/**
 * Audit entries about records, with the table of each and what happened to it: src/domain/webhooks/audit-records.ts has the rules, which the triggers
 * of webhooks share.
 */
import { type CompiledQuery, type RawBuilder, type Selectable, sql } from "kysely";
import { OPERATION_OF_ACTION, RECORD_OF_TARGET } from "../../domain/webhooks/audit-records";
import { query } from "../client";
import type { AuditLogTable } from "../schema";

export interface RecordFilter {
	readonly tableName: string | undefined;
	readonly operation: string | undefined;
}

export type RecordEntry = Selectable<AuditLogTable> & {
	readonly table_name: string;
	readonly operation: "INSERT" | "UPDATE" | "DELETE";
};

const TABLE_NAME = sql.raw(RECORD_OF_TARGET("target_type", "action"));
const OPERATION = sql.raw(OPERATION_OF_ACTION("action"));

function entries(orgId: string, { tableName, operation }: RecordFilter): RawBuilder<unknown> {
	return sql`FROM audit_log WHERE org_id = ${orgId} AND ${TABLE_NAME} IS NOT NULL
		${tableName === undefined ? sql`` : sql`AND ${TABLE_NAME} = ${tableName}`}
		${operation === undefined ? sql`` : sql`AND ${OPERATION} = ${operation}`}`;
}

/** Newest first; for `load`. */
export function entriesPage(
	orgId: string,
	filter: RecordFilter,
	limit: number,
	offset: number,
): CompiledQuery<RecordEntry> {
	return sql<RecordEntry>`SELECT *, ${TABLE_NAME} AS table_name, ${OPERATION} AS operation ${entries(orgId, filter)}
		ORDER BY id DESC LIMIT ${limit} OFFSET ${offset}`.compile(query);
}

/** Their number, up to a limit. */
export function countEntries(orgId: string, filter: RecordFilter, most: number): CompiledQuery<{ total: number }> {
	return sql<{
		total: number;
	}>`SELECT count(*) AS total FROM (SELECT 1 ${entries(orgId, filter)} LIMIT ${most})`.compile(query);
}
