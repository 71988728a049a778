/**
 * The whole database as text, for tests that must show that a request changed nothing. SQLite lists the tables, so that a later table
 * is included.
 */
import { FEED_ROWS } from "../../../src/db/change-triggers";
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

/** Every row of every table, as JSON: `[[table, [row, …]], …]`. SQLite writes the rows, because values one by one cost three times as much. */
export async function databaseText(): Promise<string> {
	rowTexts ??= readRowTexts();
	const statements = (await rowTexts).map((sql) => testEnv.DB.prepare(sql));
	const texts = (await tableNames()).map((): string[] => []);
	for (const { results } of await testEnv.DB.batch<{ table: number; row: string }>(statements)) {
		for (const { table, row } of results) texts[table]?.push(row);
	}
	return `[${(await tableNames()).map((name, index) => `["${name}",[${texts[index]?.join()}]]`).join()}]`;
}

/** A statement costs more than the rows of most tables, and D1 takes five tables in one. */
const TABLES_PER_STATEMENT = 5;
let rowTexts: Promise<readonly string[]> | undefined;

async function readRowTexts(): Promise<readonly string[]> {
	const names = await tableNames();
	const results = await testEnv.DB.batch<{ name: string }>(
		names.map((name) => testEnv.DB.prepare(`SELECT name FROM pragma_table_info('${name}')`)),
	);
	const ofTables = results.map((columns, index) => {
		const fields = columns.results.map(({ name }) => `('"${name}":' || json_quote("${name}"))`);
		// D1 limits how deep an expression is nested, and a chain of operators is as deep as it is long.
		const groups: string[] = [];
		while (fields.length > 0) groups.push(`(${fields.splice(0, 10).join(" || ',' || ")})`);
		return `SELECT ${index} AS "table", '{' || ${groups.join(" || ',' || ")} || '}' AS row FROM "${names[index]}"`;
	});
	const statements: string[] = [];
	while (ofTables.length > 0) statements.push(ofTables.splice(0, TABLES_PER_STATEMENT).join(" UNION ALL "));
	return statements;
}

/** Forgets everything, so that what a test compares stays small. */
export async function emptyDatabase(): Promise<void> {
	const names = await tableNames();
	await testEnv.DB.batch([
		testEnv.DB.prepare("PRAGMA defer_foreign_keys = on"),
		...names.map((name) => testEnv.DB.prepare(`DELETE FROM "${name}"`)),
		...FEED_ROWS.map((statement) => testEnv.DB.prepare(statement)),
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
