/**
 * `wrangler rollback` puts the Worker of the release before on the present schema, and each
 * deployment runs it there for a moment: migrations come first. So a migration only adds, until a
 * later release removes what no Worker uses any more. Compared are the schema of the release before
 * and the present one, as SQLite describes them, and the text of the migrations in between.
 */
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { testEnv } from "../support/world";

/**
 * The last migration of the release before; the first one until there is a release. A release that
 * has been deployed moves this on.
 */
const RELEASED = "0001_schema.sql";
/**
 * Migrations that remove what the Worker of the release before did not use any more, with the
 * reason.
 */
const CONTRACTIONS: Readonly<Record<string, string>> = {};

const { SECOND_DB, TEST_MIGRATIONS } = env as unknown as {
	readonly SECOND_DB: D1Database;
	readonly TEST_MIGRATIONS: readonly { readonly name: string; readonly queries: readonly string[] }[];
};

interface Column {
	readonly name: string;
	readonly type: string;
	readonly isRequired: boolean;
	readonly hasDefault: boolean;
	readonly key: number;
}

interface Table {
	readonly columns: readonly Column[];
	/** Column lists of unique indexes. */
	readonly unique: readonly string[];
}

type Schema = Readonly<Record<string, Table>>;

async function schemaOf(db: D1Database): Promise<Schema> {
	const rows = async <Row>(sql: string) => (await db.prepare(sql).all<Row>()).results;
	const tables = await rows<{ name: string }>(
		"SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE '\\_cf%' ESCAPE '\\'",
	);
	const described = tables.map(async ({ name }): Promise<[string, Table]> => {
		const columns = await rows<{ name: string; type: string; notnull: number; dflt_value: unknown; pk: number }>(
			`PRAGMA table_info(${name})`,
		);
		const unique = await rows<{ columns: string }>(
			`SELECT (SELECT group_concat(coalesce(name, 'expression'), ', ') FROM pragma_index_info(i.name)) AS columns
				FROM pragma_index_list('${name}') i WHERE i."unique" = 1 ORDER BY 1`,
		);
		return [
			name,
			{
				columns: columns.map((column) => ({
					name: column.name,
					type: column.type,
					isRequired: column.notnull === 1,
					hasDefault: column.dflt_value !== null,
					key: column.pk,
				})),
				unique: unique.map((index) => index.columns),
			},
		];
	});
	return Object.fromEntries(await Promise.all(described));
}

/** Operations of a Worker of the schema `before` that fail on the schema `after`. */
function obstacles(before: Schema, after: Schema): string[] {
	return Object.entries(before).flatMap(([name, old]) => {
		const table = after[name];
		if (table === undefined) return [`${name}: the table is gone`];
		const columns = new Map(table.columns.map((column) => [column.name, column]));
		return [
			...old.columns.flatMap((column) => {
				const now = columns.get(column.name);
				if (now === undefined) return [`${name}.${column.name}: the column is gone`];
				if (now.type !== column.type || now.key !== column.key) return [`${name}.${column.name}: another type or key`];
				if (now.isRequired && !column.isRequired) return [`${name}.${column.name}: must not be null any more`];
				if (column.hasDefault && !now.hasDefault) return [`${name}.${column.name}: the default is gone`];
				return [];
			}),
			...table.columns
				.filter((column) => !old.columns.some((one) => one.name === column.name))
				.filter((column) => column.isRequired && !column.hasDefault)
				.map((column) => `${name}.${column.name}: new, required and without a default`),
			...table.unique
				.filter((columns) => !old.unique.includes(columns))
				.map((columns) => `${name}: unique (${columns})`),
		];
	});
}

const REMOVES = /\bDROP\s+(?:TABLE|COLUMN|VIEW)\b|\bRENAME\b/i;
/**
 * Statements that read or write every row of a table: D1 ends a migration after 30 seconds, so
 * back-fills run in steps in the clean-up.
 */
const FILLS = /^\s*(?:UPDATE|DELETE|REPLACE)\b|^\s*INSERT\b[\s\S]*\bSELECT\b[\s\S]*\bFROM\b/i;

function refused(queries: readonly string[]): string[] {
	return queries.flatMap((query) => {
		const text = query.replace(/--.*$/gm, "");
		// The statements of a trigger run for one row each.
		if (/^\s*CREATE\s+TRIGGER\b/i.test(text)) return [];
		return [
			...(REMOVES.test(text) ? [`removes: ${text.trim()}`] : []),
			...(FILLS.test(text) ? [`fills: ${text.trim()}`] : []),
		];
	});
}

describe("the Worker of the previous release", () => {
	test("finds its tables, columns and keys in the current schema, and can insert its rows", async () => {
		const released = TEST_MIGRATIONS.filter(({ name }) => name <= RELEASED).flatMap(({ queries }) => queries);
		await SECOND_DB.batch(released.map((query) => SECOND_DB.prepare(query)));
		const [before, after] = [await schemaOf(SECOND_DB), await schemaOf(testEnv.DB)];
		expect(Object.keys(before).length).toBeGreaterThan(20);
		expect(obstacles(before, after)).toEqual([]);
		for (const statement of [
			"ALTER TABLE apps ADD COLUMN one_too_many TEXT",
			"CREATE UNIQUE INDEX apps_by_name ON apps (name)",
			"DROP TABLE dead_messages",
			"ALTER TABLE users ADD COLUMN harmless TEXT NOT NULL DEFAULT ''",
		]) {
			await SECOND_DB.prepare(statement).run();
		}
		const changed = await schemaOf(SECOND_DB);
		expect(obstacles(changed, before).sort()).toEqual([
			"apps.one_too_many: the column is gone",
			"users.harmless: the column is gone",
		]);
		expect(obstacles(before, changed).sort()).toEqual(["apps: unique (name)", "dead_messages: the table is gone"]);
	});

	test("works after every later migration statement", () => {
		const since = TEST_MIGRATIONS.filter(({ name }) => name > RELEASED && CONTRACTIONS[name] === undefined);
		expect(since.flatMap(({ name, queries }) => refused(queries).map((text) => `${name} ${text}`))).toEqual([]);
	});

	test.each([
		["ALTER TABLE apps DROP COLUMN name", 1],
		["DROP TABLE devices", 1],
		["ALTER TABLE apps RENAME TO applications", 1],
		["UPDATE devices SET channel = NULL", 1],
		["INSERT INTO changes (app_id) SELECT id FROM apps", 1],
		["ALTER TABLE apps ADD COLUMN name_2 TEXT -- DROP TABLE is a comment here", 0],
		["CREATE TRIGGER changed AFTER UPDATE ON apps BEGIN UPDATE installation SET id = 1; END", 0],
		["INSERT INTO counters (id, seq) VALUES (1, 0)", 0],
		["DROP INDEX devices_by_version", 0],
	])("the rule for migrations finds `%s` %i times", (statement, times) => {
		expect(refused([statement])).toHaveLength(times);
	});
});
