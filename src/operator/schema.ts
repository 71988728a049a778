/**
 * `npm run schema`: writes the first migration of each kind of database from schema.sql. A
 * migration that was released never changes, so the command refuses to write beside a second one.
 */
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { FIRST_MIGRATION, MIGRATION_DIRECTORIES } from "./migrate";
import { PROJECT_DIRECTORY } from "./project";
import { statementsOf } from "./schema-text";

const schema = await readFile(join(PROJECT_DIRECTORY, "schema.sql"), "utf8");
for (const kind of ["main", "telemetry"] as const) {
	const directory = MIGRATION_DIRECTORIES[kind];
	const later = (await readdir(directory)).filter((name) => name.endsWith(".sql") && name !== FIRST_MIGRATION);
	if (later.length > 0) {
		console.error(
			`${directory} has ${later.join(", ")}: write a further migration, because the first one was released.`,
		);
		process.exit(1);
	}
	const header = "-- Written by `npm run schema` from schema.sql, which explains each table.\n";
	await writeFile(join(directory, FIRST_MIGRATION), `${header}${statementsOf(schema, kind)}`);
}
