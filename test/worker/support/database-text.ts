/**
 * The whole database as text, for tests that must show that a request changed nothing: the main
 * database and the telemetry database. SQLite lists the tables, so that a later table is included.
 */
import { FEED_ROWS } from "../../../src/db/change-triggers";
import { testEnv } from "./world";

const OWN_TABLES =
	"SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'd1\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE '\\_cf%' ESCAPE '\\' ORDER BY name";

export interface Table {
	readonly name: string;
	/**
	 * The name, for a telemetry database after `telemetry.`, because both have tables of some names.
	 */
	readonly label: string;
	/** Columns of the primary key. */
	readonly key: readonly string[];
}

export interface Tables {
	readonly d1: D1Database;
	readonly tables: readonly Table[];
	/** Statements that write every row as text. */
	readonly rowTexts: readonly string[];
}

let databases: Promise<readonly [main: Tables, telemetry: Tables]> | undefined;

/** The service's tables. */
export function tablesOfAll(): Promise<readonly [main: Tables, telemetry: Tables]> {
	databases ??= Promise.all([readTables(testEnv.DB, ""), readTables(testEnv.TELEMETRY, "telemetry.")]);
	return databases;
}

/** Names of the tables of the main database. */
export async function tableNames(): Promise<string[]> {
	const [main] = await tablesOfAll();
	return main.tables.map(({ name }) => name);
}

/** A statement costs more than the rows of most tables, and D1 takes five tables in one. */
const TABLES_PER_STATEMENT = 5;

async function readTables(d1: D1Database, prefix: string): Promise<Tables> {
	const { results: found } = await d1.prepare(OWN_TABLES).all<{ name: string }>();
	const columnsOf = await d1.batch<{ name: string; pk: number }>(
		found.map(({ name }) => d1.prepare(`SELECT name, pk FROM pragma_table_info('${name}')`)),
	);
	const ofTables = columnsOf.map(({ results: columns }, index) => {
		const fields = columns.map(({ name }) => `('"${name}":' || json_quote("${name}"))`);
		// D1 limits how deep an expression is nested, and a chain of operators is as deep as it is long.
		const groups: string[] = [];
		while (fields.length > 0) groups.push(`(${fields.splice(0, 10).join(" || ',' || ")})`);
		return `SELECT ${index} AS "table", '{' || ${groups.join(" || ',' || ")} || '}' AS row FROM "${found[index]?.name}"`;
	});
	const rowTexts: string[] = [];
	while (ofTables.length > 0) rowTexts.push(ofTables.splice(0, TABLES_PER_STATEMENT).join(" UNION ALL "));
	const tables = found.map(({ name }, index) => {
		const key = columnsOf[index]?.results.filter(({ pk }) => pk > 0).map((column) => column.name);
		return { name, label: prefix + name, key: key ?? [] };
	});
	return { d1, tables, rowTexts };
}

/**
 * Every row of every table, as JSON: `[[table, [row, …]], …]`. SQLite writes the rows, because
 * values one by one cost three times as much.
 */
export async function databaseText(): Promise<string> {
	const texts = await Promise.all((await tablesOfAll()).map(textsOfTables));
	return `[${texts.flat().join()}]`;
}

async function textsOfTables({ d1, tables, rowTexts }: Tables): Promise<string[]> {
	const texts = tables.map((): string[] => []);
	for (const { results } of await d1.batch<{ table: number; row: string }>(rowTexts.map((sql) => d1.prepare(sql)))) {
		for (const { table, row } of results) texts[table]?.push(row);
	}
	return tables.map(({ label }, index) => `["${label}",[${texts[index]?.join()}]]`);
}

/** Forgets everything, so that what a test compares stays small. */
export async function emptyDatabase(): Promise<void> {
	const [main, telemetry] = await tablesOfAll();
	const deletions = ({ d1, tables }: Tables) => [
		d1.prepare("PRAGMA defer_foreign_keys = on"),
		...tables.map(({ name }) => d1.prepare(`DELETE FROM "${name}"`)),
	];
	await Promise.all([
		main.d1.batch([...deletions(main), ...FEED_ROWS.map((statement) => main.d1.prepare(statement))]),
		telemetry.d1.batch(deletions(telemetry)),
	]);
}

/**
 * Describes the difference between two texts of the database: the number of rows added to and
 * removed from each table, and the changed columns. The description is the same for every run of
 * the same request. Audit entries are distinguished by their action.
 */
export async function changesBetween(before: string, after: string): Promise<string[]> {
	if (before === after) return [];
	const keysOf = new Map((await tablesOfAll()).flatMap(({ tables }) => tables.map(({ label, key }) => [label, key])));
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
