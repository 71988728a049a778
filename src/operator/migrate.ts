/**
 * Applies migrations to a local database, with the files and the ledger table of `wrangler d1
 * migrations apply`. Migrations and their ledger entries are one batch, so interrupted migrations
 * are applied again.
 */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { D1Database } from "@cloudflare/workers-types";
import { FEED_ROWS } from "../db/change-triggers";
import { installation, TRIGGER_NAMES } from "../db/triggers";
import { PROJECT_DIRECTORY } from "./project";
import { literal } from "./sql-text";

/** The purpose of a database. */
export type DatabaseKind = "main" | "telemetry";

export const MIGRATION_DIRECTORIES = {
	main: join(PROJECT_DIRECTORY, "src/db/migrations"),
	telemetry: join(PROJECT_DIRECTORY, "src/db/telemetry-migrations"),
} as const;
/** The same name for each kind of database. */
export const FIRST_MIGRATION = "0001_schema.sql";
const LEDGER = `CREATE TABLE IF NOT EXISTS d1_migrations (
	id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL)`;

export class UnknownMigration extends Error {
	override readonly name = "UnknownMigration";
}

/**
 * The database has the migrations of a build from before the first release, which no release
 * continues.
 */
export class DevelopmentDatabase extends Error {
	override readonly name = "DevelopmentDatabase";
}

/** @param applied names of the migrations in a database's ledger */
export function isOfDevelopmentBuild(applied: readonly string[]): boolean {
	return applied.length > 0 && !applied.includes(FIRST_MIGRATION);
}

/** SQLite keeps the text of each CREATE TABLE. */
async function hasTablesOf(db: D1Database, migration: string): Promise<boolean> {
	const { results } = await db.prepare("SELECT sql FROM sqlite_master WHERE type = 'table'").all<{ sql: string }>();
	const present = new Set(results.map(({ sql }) => sql));
	return (migration.match(/^CREATE TABLE [^;]+/gm) ?? []).every((table) => present.has(table));
}

/**
 * @param directory of the migrations, for tests of a further one
 * @returns names of the migrations that this call applied
 * @throws {UnknownMigration} for a database of a newer version
 * @throws {DevelopmentDatabase} for a database of a development build
 */
export async function migrate(
	db: D1Database,
	kind: DatabaseKind = "main",
	directory: string = MIGRATION_DIRECTORIES[kind],
): Promise<string[]> {
	const textOf = (name: string) => readFile(join(directory, name), "utf8");
	const files = (await readdir(directory)).filter((name) => name.endsWith(".sql")).sort();
	await db.prepare(LEDGER).run();
	const ledger = await db.prepare("SELECT name FROM d1_migrations").all<{ name: string }>();
	const done = new Set(ledger.results.map((row) => row.name));
	if (isOfDevelopmentBuild([...done])) throw new DevelopmentDatabase();
	// The first migration had other tables before it was released.
	if (done.size === 1 && !(await hasTablesOf(db, await textOf(FIRST_MIGRATION)))) throw new DevelopmentDatabase();
	const unknown = [...done].find((name) => !files.includes(name));
	if (unknown !== undefined) throw new UnknownMigration(unknown);
	const applied = files.filter((file) => !done.has(file));
	// One text for each file, because each call through Miniflare's proxy costs milliseconds.
	const texts = applied.map(async (name) => {
		const text = await textOf(name);
		return `${text};\nINSERT INTO d1_migrations (name) VALUES (${literal(name)})`;
	});
	if (applied.length > 0) await db.batch((await Promise.all(texts)).map((text) => db.prepare(text)));
	if (kind === "main") {
		// After the migrations, because one that creates a table again drops its triggers.
		const installed = await db.prepare(TRIGGER_NAMES).all<{ name: string }>();
		const triggers = installation(installed.results.map(({ name }) => name));
		await db.prepare([...triggers, ...FEED_ROWS].join(";\n")).run();
	}
	return applied;
}
