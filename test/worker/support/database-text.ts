/**
 * The whole database as text, for tests that must show that a request changed nothing. SQLite lists the tables, so that a later table
 * is included.
 */
import { START_FEED } from "../../../src/db/change-triggers";
import { testEnv } from "./world";

const OWN_TABLES =
	"SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'd1\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE '\\_cf%' ESCAPE '\\' ORDER BY name";

let tables: Promise<string[]> | undefined;

/** Names of the service's tables. */
export function tableNames(): Promise<string[]> {
	tables ??= testEnv.DB.prepare(OWN_TABLES)
		.all<{ name: string }>()
		.then(({ results }) => results.map((row) => row.name));
	return tables;
}

/** Every row of every table. */
export async function databaseText(): Promise<string> {
	const names = await tableNames();
	const results = await testEnv.DB.batch(names.map((name) => testEnv.DB.prepare(`SELECT * FROM "${name}"`)));
	return JSON.stringify(results.map((result, index) => [names[index], result.results]));
}

/** Forgets everything, so that what a test compares stays small. */
export async function emptyDatabase(): Promise<void> {
	const names = await tableNames();
	await testEnv.DB.batch([
		testEnv.DB.prepare("PRAGMA defer_foreign_keys = on"),
		...names.map((name) => testEnv.DB.prepare(`DELETE FROM "${name}"`)),
		...START_FEED.map((statement) => testEnv.DB.prepare(statement)),
	]);
}

let primaryKeys: Promise<ReadonlyMap<string, readonly string[]>> | undefined;

/** The columns of each table's primary key. */
export function primaryKeysOf(): Promise<ReadonlyMap<string, readonly string[]>> {
	primaryKeys ??= readPrimaryKeys();
	return primaryKeys;
}

async function readPrimaryKeys(): Promise<ReadonlyMap<string, readonly string[]>> {
	const names = await tableNames();
	const results = await testEnv.DB.batch<{ name: string }>(
		names.map((name) => testEnv.DB.prepare(`SELECT name FROM pragma_table_info('${name}') WHERE pk > 0`)),
	);
	return new Map(results.map((result, index) => [names[index] ?? "", result.results.map((row) => row.name)]));
}

/**
 * Describes the difference between two texts of the database: the number of rows added to and removed from each table, and the changed
 * columns. The description is the same for every run of the same request. Audit entries are distinguished by their action.
 */
export async function changesBetween(before: string, after: string): Promise<string[]> {
	if (before === after) return [];
	const keysOf = await primaryKeysOf();
	type Row = Record<string, unknown>;
	const tablesOf = (text: string) => {
		const parsed: [string, Row[]][] = JSON.parse(text);
		return new Map(
			parsed.map(([table, tableRows]) => [
				table,
				new Map(
					tableRows.map(
						(row) => [JSON.stringify((keysOf.get(table) ?? []).map((column) => row[column])), row] as const,
					),
				),
			]),
		);
	};
	const [earlier, later] = [tablesOf(before), tablesOf(after)];
	const found: string[] = [];
	for (const [table, rowsNow] of later) {
		const rowsThen = earlier.get(table) ?? new Map<string, Row>();
		for (const [key, row] of rowsNow) {
			const then = rowsThen.get(key);
			if (then === undefined) found.push(`${table} + ${table === "audit_log" ? row.action : ""}`);
			else {
				const columns = Object.keys(row).filter((column) => row[column] !== then[column]);
				if (columns.length > 0) found.push(`${table} ~ ${columns.join(" ")}`);
			}
		}
		for (const key of rowsThen.keys()) if (!rowsNow.has(key)) found.push(`${table} -`);
	}
	return found.sort();
}
