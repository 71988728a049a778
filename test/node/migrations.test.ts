/**
 * Migrations of a local database: a further one is applied to the data of the release before, once.
 * Databases that another line of migrations made are refused before anything is written.
 */
import { copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { D1Database } from "@cloudflare/workers-types";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
	type DatabaseKind,
	DevelopmentDatabase,
	FIRST_MIGRATION,
	MIGRATION_DIRECTORIES,
	migrate,
	UnknownMigration,
} from "../../src/operator/migrate";

let directory: string;
let miniflare: Miniflare;
beforeAll(async () => {
	directory = await mkdtemp(join(tmpdir(), "capstan-migrations-"));
	const d1Databases = { MAIN: "main", TELEMETRY: "telemetry" };
	miniflare = new Miniflare(convertV4MiniflareOptions({ modules: true, script: "export default {}", d1Databases }));
});
afterAll(async () => {
	await miniflare.dispose();
	await rm(directory, { recursive: true, force: true });
});

describe.each([
	["main", "MAIN", "job_positions"],
	["telemetry", "TELEMETRY", "job_positions"],
] as const)("a %s database", (kind: DatabaseKind, binding, table) => {
	let db: D1Database;
	const names = async () => (await db.prepare("SELECT name FROM d1_migrations ORDER BY id").raw<[string]>()).flat();
	beforeAll(async () => {
		db = (await miniflare.getD1Database(binding)) as unknown as D1Database;
	});

	test("gets the first migration, and a further one after it, each once", async () => {
		expect(await migrate(db, kind)).toEqual([FIRST_MIGRATION]);
		expect(await migrate(db, kind)).toEqual([]);
		await db.prepare(`INSERT INTO ${table} VALUES ('a', '1')`).run();
		const later = await mkdtemp(join(directory, "later-"));
		await copyFile(join(MIGRATION_DIRECTORIES[kind], FIRST_MIGRATION), join(later, FIRST_MIGRATION));
		await writeFile(
			join(later, "0002_notes.sql"),
			`ALTER TABLE ${table} ADD COLUMN note TEXT;\nCREATE TABLE notes (id TEXT);\n`,
		);
		expect(await migrate(db, kind, later)).toEqual(["0002_notes.sql"]);
		expect(await migrate(db, kind, later)).toEqual([]);
		expect(await names()).toEqual([FIRST_MIGRATION, "0002_notes.sql"]);
		expect(await db.prepare(`SELECT * FROM ${table}`).first()).toEqual({ step: "a", position: "1", note: null });
		await expect(migrate(db, kind), "the release before").rejects.toThrow(UnknownMigration);
	});

	test("of a development build is refused", async () => {
		const other = await mkdtemp(join(directory, "other-"));
		const schema = await readFile(join(MIGRATION_DIRECTORIES[kind], FIRST_MIGRATION), "utf8");
		await writeFile(join(other, FIRST_MIGRATION), schema.replace("\n) STRICT", ",\n  note TEXT\n) STRICT"));
		await db.prepare("DELETE FROM d1_migrations WHERE name = '0002_notes.sql'").run();
		await expect(migrate(db, kind, other)).rejects.toThrow(DevelopmentDatabase);
		await db.prepare("INSERT INTO d1_migrations (name) VALUES ('0002_notes.sql')").run();
		await db.prepare(`UPDATE d1_migrations SET name = '0001_before.sql' WHERE name = '${FIRST_MIGRATION}'`).run();
		await expect(migrate(db, kind)).rejects.toThrow(DevelopmentDatabase);
		expect(await names()).toEqual(["0001_before.sql", "0002_notes.sql"]);
	});
});
