/**
 * Builds and compiles the statements of management requests, including guards and the errors of
 * unique indexes. batch.ts runs them.
 */
import {
	type CompiledQuery,
	type Expression,
	type ExpressionBuilder,
	type InsertObject,
	Kysely,
	type RawBuilder,
	type SelectQueryBuilder,
	type SqlBool,
	sql,
} from "kysely";
import { D1Dialect } from "kysely-d1";
import type { AppId } from "../authz/decide";
import { OWN_INDEX, type Statement } from "./batch";
import type { Schema, TelemetrySchema } from "./schema";

export * from "./batch";

const NO_DATABASE = new Proxy({} as D1Database, {
	get() {
		throw new Error("query only builds statements: run them with Database.batch");
	},
});

/**
 * Builds and compiles statements. It cannot run any, so that every statement is part of a batch.
 */
export const query = new Kysely<Schema>({ dialect: new D1Dialect({ database: NO_DATABASE }) });

/** The same for a telemetry database. */
export const reportQuery = new Kysely<TelemetrySchema>({ dialect: new D1Dialect({ database: NO_DATABASE }) });

const columnsOf = (row: object) => Object.entries(row).map(([name, value]) => sql<unknown>`${value}`.as(name));

/** Inserts the row if the condition holds. */
export function insertIf<Table extends keyof Schema>(
	table: Table,
	row: InsertObject<Schema, Table>,
	condition: Expression<SqlBool>,
) {
	return query
		.insertInto(table)
		.columns(Object.keys(row) as (keyof Schema[Table] & string)[])
		.expression(query.selectNoFrom(columnsOf(row)).where(condition));
}

/**
 * Inserts a row for each one of the SELECT, which must have a WHERE: without one, SQLite reads ON
 * CONFLICT as a join.
 * @param row its columns, by those of the SELECT
 */
export function insertEach<Table extends keyof Schema, From extends Schema, Tables extends keyof From>(
	table: Table,
	rows: SelectQueryBuilder<From, Tables, object>,
	row: (eb: ExpressionBuilder<From, Tables>) => InsertObject<Schema, Table>,
) {
	let names: string[] = [];
	const selected = rows.select((eb) => {
		const values = row(eb);
		names = Object.keys(values);
		return columnsOf(values);
	});
	return query
		.insertInto(table)
		.columns(names as (keyof Schema[Table] & string)[])
		.expression(selected);
}

/**
 * Deletes the rows of the SELECT of ids: the first ones of a condition, because a DELETE of SQLite
 * has no ORDER BY and no LIMIT.
 */
export const deleteFirst = (table: keyof Schema, ids: Expression<{ id: string }>): CompiledQuery =>
	sql`DELETE FROM ${sql.table(table)} WHERE id IN ${ids}`.compile(query);

/**
 * A statement that aborts its batch with `failure` unless the condition holds. SQLite has no RAISE
 * outside triggers, so the statement fails on a bad JSON path, which CASE evaluates only when the
 * condition is false. The path is the statement's index in the batch, and SQLite's message repeats
 * it.
 */
export function guard(condition: Expression<SqlBool>, failure: () => Error): Statement<{ held: number }> {
	const statement = sql<{
		held: number;
	}>`SELECT CASE WHEN ${condition} THEN 1 ELSE json_extract('{}', ${OWN_INDEX}) END AS held`;
	return { ...statement.compile(query), failure };
}

/**
 * The statement, with the error for a row that a unique index refuses.
 * @param columns the columns of the index as SQLite names them, such as `channels.app_id,
 * channels.name`
 */
export function onUnique<Row>(statement: Statement<Row>, columns: string, failure: () => Error): Statement<Row> {
	return { ...statement, uniqueFailures: { ...statement.uniqueFailures, [columns]: failure } };
}

/** A random UUID per row, for INSERT … SELECT. */
export const RANDOM_UUID = sql<string>`lower(printf('%s-%s-4%s-8%s-%s', hex(randomblob(4)), hex(randomblob(2)),
	substr(hex(randomblob(2)), 2), substr(hex(randomblob(2)), 2), hex(randomblob(6))))`;

/**
 * Condition: the row is of the app. The + keeps the app's index out, or SQLite would read all rows
 * of the app.
 */
export const isOfApp = (appId: AppId) => sql<boolean>`+app_id = ${appId}`;

/** A JSON array as a list for IN: one parameter, because D1 allows at most a hundred. */
export function jsonList(json: string) {
	return sql<string>`(SELECT value FROM json_each(${json}))`;
}

/** With one more argument, below the 32 that the documentation of D1 allows a function. */
const MOST_MEMBERS = 15;

/**
 * SQL: a JSON object of any number of members. Values are columns, numbers, texts, or JSON by
 * SQLite's functions.
 */
export function jsonObject(
	members: readonly (readonly [name: string, value: Expression<unknown>])[],
): RawBuilder<string> {
	const part = (start: number, prefix = "") =>
		sql.join(
			members.slice(start, start + MOST_MEMBERS).map(([name, value]) => sql`${sql.lit(prefix + name)}, ${value}`),
		);
	let object = sql<string>`json_object(${part(0)})`;
	for (let start = MOST_MEMBERS; start < members.length; start += MOST_MEMBERS) {
		object = sql<string>`json_insert(${object}, ${part(start, "$.")})`;
	}
	return object;
}
