/**
 * Gives each test file empty databases of the current schemas, and an empty second one. The files
 * of one worker share its workerd: the first file runs the statements of the migrations in one
 * batch, and each later file deletes the rows of the files before it.
 */
import { env } from "cloudflare:workers";
import { beforeAll } from "vitest";
import { FEED_ROWS } from "../../../src/db/change-triggers";
import { installation } from "../../../src/db/triggers";

type Migrations = readonly { readonly queries: readonly string[] }[];

interface Databases {
	readonly DB: D1Database;
	readonly TELEMETRY: D1Database;
	readonly SECOND_DB: D1Database;
	readonly TEST_MIGRATIONS: Migrations;
	readonly TELEMETRY_MIGRATIONS: Migrations;
}

/** Names of the tables in the order of their creation. */
async function tablesOf(db: D1Database): Promise<string[]> {
	const { results } = await db
		.prepare(
			"SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE '\\_cf%' ESCAPE '\\' ORDER BY rowid",
		)
		.all<{ name: string }>();
	return results.map(({ name }) => name);
}

const deletionOf = (tables: readonly string[]) => [
	"PRAGMA defer_foreign_keys = on",
	...tables.map((table) => `DELETE FROM ${table}`),
];

/** The table exists where a table counts its ids. */
const FORGET_SEQUENCES = "DELETE FROM sqlite_sequence";

const runBatch = (db: D1Database, statements: readonly string[]) =>
	db.batch(statements.map((statement) => db.prepare(statement)));

beforeAll(async () => {
	const { DB, TELEMETRY, SECOND_DB, TEST_MIGRATIONS, TELEMETRY_MIGRATIONS } = env as unknown as Databases;
	const [tables, telemetry, other] = [await tablesOf(DB), await tablesOf(TELEMETRY), await tablesOf(SECOND_DB)];
	const queriesOf = (migrations: Migrations) => migrations.flatMap(({ queries }) => queries);
	const schema = [...queriesOf(TEST_MIGRATIONS), ...installation([]), ...FEED_ROWS];
	await runBatch(DB, tables.length === 0 ? schema : [...deletionOf(tables), FORGET_SEQUENCES, ...FEED_ROWS]);
	await runBatch(TELEMETRY, telemetry.length === 0 ? queriesOf(TELEMETRY_MIGRATIONS) : deletionOf(telemetry));
	if (other.length > 0) {
		// Children were created after their parents.
		const drops = other.reverse().map((table) => `DROP TABLE ${table}`);
		await runBatch(SECOND_DB, [...deletionOf(other), ...drops]);
	}
});
