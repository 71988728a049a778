/**
 * Brings a local database to the current schema, with the same files and the same ledger that `wrangler d1 migrations apply` uses.
 * A migration and its ledger entry are one batch: it happened whole, or it will be tried again.
 */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { D1Database } from "@cloudflare/workers-types";
import { unstable_splitSqlQuery } from "wrangler";
import { STORAGE_TRIGGERS } from "../db/storage-triggers";
import { PROJECT_DIRECTORY } from "./build";

const MIGRATIONS_DIRECTORY = join(PROJECT_DIRECTORY, "src/db/migrations");
const LEDGER = `CREATE TABLE IF NOT EXISTS d1_migrations (
	id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL)`;

export class UnknownMigration extends Error {
	override readonly name = "UnknownMigration";
}

/** Names of the migrations that were applied now. Throws UnknownMigration for a database of a newer version. */
export async function migrate(db: D1Database): Promise<string[]> {
	const files = (await readdir(MIGRATIONS_DIRECTORY)).filter((name) => name.endsWith(".sql")).sort();
	await db.prepare(LEDGER).run();
	const ledger = await db.prepare("SELECT name FROM d1_migrations").all<{ name: string }>();
	const done = new Set(ledger.results.map((row) => row.name));
	const unknown = [...done].find((name) => !files.includes(name));
	if (unknown !== undefined) throw new UnknownMigration(unknown);
	const applied: string[] = [];
	for (const name of files.filter((file) => !done.has(file))) {
		const text = await readFile(join(MIGRATIONS_DIRECTORY, name), "utf8");
		await db.batch([
			...unstable_splitSqlQuery(text).map((statement) => db.prepare(statement)),
			db.prepare("INSERT INTO d1_migrations (name) VALUES (?)").bind(name),
		]);
		applied.push(name);
	}
	await db.batch(STORAGE_TRIGGERS.map((statement) => db.prepare(statement)));
	return applied;
}
