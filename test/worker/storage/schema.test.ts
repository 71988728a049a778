/**
 * schema.sql, the migrations and the row types of src/db/schema.ts say the same. The migrated
 * databases are compared with schema.sql by what SQLite itself makes of both, and with the row
 * types column by column.
 */
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import schemaSql from "../../../schema.sql?raw";
import delivery from "../../../src/db/schema/delivery.ts?raw";
import people from "../../../src/db/schema/people.ts?raw";
import telemetry from "../../../src/db/schema/telemetry.ts?raw";
import webhooks from "../../../src/db/schema/webhooks.ts?raw";
import tables from "../../../src/db/schema.ts?raw";
import type { DatabaseKind } from "../../../src/operator/migrate";
import { statementsOf } from "../../../src/operator/schema-text";
import { testEnv } from "../support/world";

const rowTypes = [tables, people, delivery, telemetry, webhooks].join("\n");

interface Column {
	readonly name: string;
	readonly type: string;
	readonly nullable: boolean;
}

/** Tables and indexes as SQLite keeps them, without comments and layout. */
async function schemaOf(db: D1Database): Promise<string[]> {
	const { results } = await db
		.prepare(
			"SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND type <> 'trigger' AND name NOT LIKE 'd1_%' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE '\\_cf%' ESCAPE '\\'",
		)
		.all<{ sql: string }>();
	return results.map((row) => normalised(row.sql)).sort();
}

function normalised(sql: string): string {
	return sql
		.replace(/--.*$/gm, "")
		.replace(/\s+/g, " ")
		.replace(/\s*([(),])\s*/g, "$1")
		.trim();
}

/** Applies schema.sql to the second database, which is empty before and afterwards. */
async function schemaOfText(kind: DatabaseKind, ...more: readonly string[]): Promise<string[]> {
	const statements = statementsOf(schemaSql, kind)
		.split(";")
		.map((statement) => statement.trim())
		.filter((statement) => statement !== "");
	const tables = statements.flatMap((statement) => /^CREATE TABLE (\w+)/.exec(statement)?.[1] ?? []);
	const run = (texts: readonly string[]) => SECOND_DB.batch(texts.map((text) => SECOND_DB.prepare(text)));
	await run([...statements, ...more]);
	const schema = await schemaOf(SECOND_DB);
	await run(["PRAGMA defer_foreign_keys = on", ...tables.reverse().map((table) => `DROP TABLE ${table}`)]);
	return schema;
}

async function columnsOf(db: D1Database, table: string): Promise<Column[]> {
	const { results } = await db.prepare(`PRAGMA table_info(${table})`).all<{
		name: string;
		type: string;
		notnull: number;
		pk: number;
	}>();
	return results.map(({ name, type, notnull, pk }) => ({ name, type, nullable: notnull === 0 && pk === 0 }));
}

const bodyOf = (type: string) => new RegExp(`export interface ${type} \\{([^}]*)\\}`).exec(rowTypes)?.[1] ?? "";

/** The columns of a table's interface in src/db/schema/, in the form of `columnsOf`. */
function typedColumnsOf(source: string, type: string, table: string): Column[] {
	const name = new RegExp(`\\b${table}: (\\w+);`).exec(bodyOf(type))?.[1];
	const body = new RegExp(`export interface ${name} \\{([^}]*)\\}`).exec(source)?.[1];
	if (body === undefined) throw new Error(`no interface for ${table}`);
	return [...body.matchAll(/^\s*(\w+): (.+);$/gm)].map(([, column = "", type = ""]) => ({
		name: column,
		type: /number|Flag/.test(type) ? "INTEGER" : "TEXT",
		nullable: type.includes("| null"),
	}));
}

const { SECOND_DB } = env as unknown as { SECOND_DB: D1Database };

describe("the schema", () => {
	test.each([
		["main", testEnv.DB],
		["telemetry", testEnv.TELEMETRY],
	] as const)("of schema.sql is that of the migrations: %s databases", async (kind, db) => {
		const migrated = await schemaOf(db);
		expect(migrated.length).toBeGreaterThan(10);
		expect(await schemaOfText(kind)).toEqual(migrated);
		const more = await schemaOfText(kind, "CREATE INDEX one_too_many ON apps (id)");
		expect(more, "the comparison does not see a difference").not.toEqual(migrated);
	});

	test("belongs to a database: a part of schema.sql with another heading is an error", () => {
		const renamed = schemaSql.replace("-- == The main database ==", "-- == Another database ==");
		expect(() => statementsOf(renamed, "main")).toThrow("schema.sql has the headings Another database");
	});

	test.each([
		["Schema", testEnv.DB],
		["TelemetrySchema", testEnv.TELEMETRY],
	] as const)(
		"the row types have the columns of the tables, their types and whether they may be null: %s",
		async (type, db) => {
			const { results } = await db
				.prepare(
					"SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'd1_%' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE '\\_cf%' ESCAPE '\\'",
				)
				.all<{ name: string }>();
			expect(results.length).toBeGreaterThan(10);
			const typed = [...bodyOf(type).matchAll(/^\s*(\w+):/gm)];
			expect(typed.map(([, table]) => table).sort(), "a row type without a table, or a table without one").toEqual(
				results.map((row) => row.name).sort(),
			);
			for (const { name } of results) {
				expect(typedColumnsOf(rowTypes, type, name), name).toEqual(await columnsOf(db, name));
			}
		},
	);

	test("the comparison of columns sees a difference", async () => {
		const broken = rowTypes.replace("created_at_ms: number;", "created_at_ms: string;");
		expect(typedColumnsOf(broken, "Schema", "users")).not.toEqual(await columnsOf(testEnv.DB, "users"));
	});
});
