/**
 * The whole database as text, for tests that must show that a request changed nothing. Tables are asked of SQLite, so that one added
 * later cannot be forgotten.
 */
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
