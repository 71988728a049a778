/**
 * Checks of `npm run doctor -- --deep` on the databases themselves: each has the tables and indexes
 * of this release, and no row refers to one that is gone. A dropped index lets duplicates in or
 * makes every request read the whole table, and nothing else shows it.
 */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Finding } from "./doctor-types";
import { MIGRATION_DIRECTORIES } from "./migrate";
import type { Place, PlaceDatabase } from "./place";
import { PROJECT_DIRECTORY } from "./project";
import { statementsOf } from "./schema-text";

const DEFINED = /^CREATE (TABLE|(?:UNIQUE )?INDEX) (\w+)[^;]*/gm;
const RESTORE = "Return to a minute before it happened (docs: Deploying, Time Travel), or restore a backup.";

export async function databaseFindings(place: Pick<Place, "databases" | "query">): Promise<Finding[]> {
	const schema = await readFile(join(PROJECT_DIRECTORY, "schema.sql"), "utf8");
	const findings: Finding[] = [];
	for (const database of place.databases) {
		findings.push(await definitions(place, database, schema), await references(place, database));
	}
	return findings;
}

async function definitions(
	place: Pick<Place, "query">,
	{ binding, kind }: PlaceDatabase,
	schema: string,
): Promise<Finding> {
	const check = `tables of ${binding}`;
	const present = await place.query<{ name: string }>(
		binding,
		"SELECT name FROM sqlite_schema WHERE type IN ('table', 'index')",
	);
	const names = new Set(present.map(({ name }) => name));
	const applied = names.has("d1_migrations")
		? await place.query<{ name: string }>(binding, "SELECT max(name) AS name FROM d1_migrations")
		: [];
	const newest = (await readdir(MIGRATION_DIRECTORIES[kind]))
		.filter((name) => name.endsWith(".sql"))
		.sort()
		.at(-1);
	if (applied[0]?.name !== newest) return { check, state: "skipped", detail: "the database has another schema" };
	const defined = [...statementsOf(schema, kind).matchAll(DEFINED)];
	const missing = defined.filter(([, , name = ""]) => !names.has(name));
	if (missing.length === 0) return { check, state: "ok", detail: `all ${defined.length} tables and indexes are there` };
	const detail = `the database lacks ${missing.map(([, type, name]) => `the ${type?.toLowerCase()} ${name}`).join(", ")}`;
	const hasTable = missing.some(([, type]) => type === "TABLE");
	const texts = missing.map(([text]) => text.replace(/\s+/g, " ").trim());
	const remedy = hasTable ? RESTORE : `Create it again with npx wrangler d1 execute: ${texts.join("; ")}`;
	return { check, state: "failed", detail, remedy };
}

async function references(place: Pick<Place, "query">, { binding }: PlaceDatabase): Promise<Finding> {
	const check = `references of ${binding}`;
	let broken: readonly { readonly table: string; readonly parent: string }[];
	try {
		broken = await place.query(binding, "PRAGMA foreign_key_check");
	} catch {
		return { check, state: "skipped", detail: "the database is too large for one statement" };
	}
	if (broken.length === 0) return { check, state: "ok", detail: "every row has what it refers to" };
	const pairs = [...new Set(broken.map(({ table, parent }) => `${table} without their row of ${parent}`))];
	const detail = `${broken.length} rows: ${pairs.join(", ")}`;
	return { check, state: "failed", detail, remedy: RESTORE };
}
