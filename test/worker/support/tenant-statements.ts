/**
 * Statements run against the rows of two tenants: entries of the catalogues, each of which reads or
 * writes the rows of its tenant and no others, and the rows, values and changes of any statement.
 * Each batch runs in the database that has its tables, as in the product.
 */
import { type CompiledQuery, type Expression, type RawBuilder, type SqlBool, sql } from "kysely";
import { expect } from "vitest";
import { type Database, openDb, query } from "../../../src/db/client";
import { REPORT_TABLES } from "../../../src/db/telemetry-databases";
import { type Tables, tablesOfAll } from "./database-text";
import { A, B, type TenantRows, WRONG_PAIRS } from "./tenants";
import { testEnv } from "./world";

export type Row = Record<string, unknown>;
/**
 * A statement about a tenant, and the rows that it answers with, by the columns that distinguish
 * them.
 */
export type Read = readonly [(of: TenantRows) => CompiledQuery, (of: TenantRows) => readonly Row[]];

/**
 * A statement, its changes when it runs for the second tenant's own thing, and statements that run
 * before. One that takes the tenant and the thing apart must change nothing when the thing belongs
 * to the other tenant or does not exist.
 */
export type Change = readonly [
	(of: TenantRows, thing: TenantRows) => CompiledQuery | readonly CompiledQuery[],
	readonly string[],
	(readonly RawBuilder<unknown>[])?,
];

const nameOf = (row: Row) => String(row.id ?? row.device_id ?? row.target_id);
const idsOf = (text: unknown) => (JSON.parse(String(text)) as { id: string }[]).map(({ id }) => id).sort();

/** The statement answers with exactly these rows, for each tenant. */
export async function expectReads([read, expected]: Read): Promise<void> {
	const [ofA, ofB] = await rowsOfAll([read(A), read(B)]);
	const shown = (rows: readonly Row[] = []) =>
		rows
			.map((row) => (typeof row.bindings === "string" ? { ...row, bindings: idsOf(row.bindings) } : row))
			// Not every statement has an order, nor do these tests ask for one.
			.toSorted((one, other) => nameOf(one).localeCompare(nameOf(other)));
	expect(shown(ofA)).toMatchObject(shown(expected(A)));
	expect(shown(ofB)).toMatchObject(shown(expected(B)));
}

/** The statement changes exactly these rows, and nothing if the thing is not the tenant's. */
export async function expectChanges([statement, expected, arranged = []]: Change): Promise<void> {
	if (arranged.length > 0) await rowsOfAll(arranged.map((each) => each.compile(query)));
	for (const [of, thing] of statement.length === 2 ? WRONG_PAIRS : []) {
		expect(await changesBy(statement(of, thing)), `${of.org} with ${thing.org}`).toEqual([]);
	}
	expect(await changesBy(statement(B, B))).toEqual(expected);
}

/** Tables that only telemetry databases have. */
const REPORTED = [...REPORT_TABLES.map(({ name }) => name), "counted_ids"];
const NAMES_REPORTS = new RegExp(`\\b(?:from|join|into|update)\\s+"?(?:${REPORTED.join("|")})\\b`, "i");

export const isReportTable = (table: string) => REPORTED.includes(table);

/**
 * The database of a batch. If one statement is about reports, all are: the main database has no
 * reports and the other one little else.
 */
function openDbOf(statements: readonly CompiledQuery[]): Database {
	const isOfReports = statements.some((statement) => NAMES_REPORTS.test(statement.sql));
	return openDb(isOfReports ? testEnv.TELEMETRY : testEnv.DB, "first-primary");
}

/** Runs statements in one batch and gives the rows of each. */
export async function rowsOfAll(statements: readonly CompiledQuery[]): Promise<Record<string, unknown>[][]> {
	const results = await openDbOf(statements).batch(statements);
	return results.map(({ rows }) => rows as Record<string, unknown>[]);
}

/** The value of an SQL expression. */
export async function readValue(expression: Expression<unknown>): Promise<unknown> {
	const [[row] = []] = await rowsOfAll([sql`SELECT ${expression} AS value`.compile(query)]);
	return row?.value;
}

export async function holds(condition: Expression<SqlBool>): Promise<boolean> {
	return (await readValue(condition)) === 1;
}

/**
 * Runs the statements and lists the changes of the tenants' rows, one per line: `- table key`, `~
 * table key column=value`, and for new rows `+ table` with the values that name the owner.
 */
export async function changesBy(statements: CompiledQuery | readonly CompiledQuery[]): Promise<string[]> {
	const before = await allRows();
	const batch = [statements].flat();
	await openDbOf(batch).batch(batch);
	const after = await allRows();
	const lines: string[] = [];
	for (const [name, row] of after) {
		const then = before.get(name);
		// The token is random; the revision beside it shows the change.
		const columns = Object.entries(row).filter(
			([column, value]) => value !== then?.[column] && column !== "revision_token",
		);
		if (then === undefined) lines.push(`+ ${name.split(" ")[0]} ${ownerValues(row)}`);
		else if (columns.length > 0) lines.push(`~ ${name} ${columns.map((each) => each.join("=")).join(" ")}`);
	}
	for (const name of before.keys()) if (!after.has(name)) lines.push(`- ${name}`);
	return lines.sort();
}

const TELLING =
	/^(object_prefix|org_id|owner_org|action|target_id|before|after|app_uuid|app_id|channel_id|bundle_id|path)$/;

function ownerValues(row: Readonly<Record<string, unknown>>): string {
	const values = Object.entries(row).filter(([column, value]) => TELLING.test(column) && value !== null);
	const shown = values.map(([column, value]) => (/^(before|after)$/.test(column) ? abbreviate(String(value)) : value));
	return shown.length === 0 ? String(row.id) : shown.join(" ");
}

/** JSON without quotes, with each object that has an id replaced by that id. */
function abbreviate(json: string): string {
	const short: unknown = JSON.parse(json, (_, value) => value?.id ?? value);
	return JSON.stringify(short).replaceAll('"', "");
}

async function allRows(): Promise<ReadonlyMap<string, Readonly<Record<string, unknown>>>> {
	const rows = await Promise.all((await tablesOfAll()).map(rowsOfTables));
	return new Map(rows.flat());
}

/** The rows with their names: the table and the primary key. */
async function rowsOfTables({ d1, tables }: Tables): Promise<[name: string, row: Row][]> {
	const results = await d1.batch<Row>(tables.map(({ name }) => d1.prepare(`SELECT * FROM "${name}"`)));
	return tables.flatMap(({ label, key }, index) =>
		(results[index]?.results ?? []).map((row): [string, Row] => [
			[label, ...key.map((column) => row[column])].join(" "),
			row,
		]),
	);
}
