/**
 * `npm run docs`: writes what documents derive from the code: the table of roles in
 * src/docs/access.md and the definitions of figures in src/docs/statistics.md. A test fails if one
 * of them is out of date.
 */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DEFINITIONS } from "../features/statistics/definitions";
import { withFigures, withRoleTable } from "./guide";
import { PROJECT_DIRECTORY } from "./project";

const DERIVED = {
	"src/docs/access.md": withRoleTable,
	"src/docs/statistics.md": (text: string) => withFigures(text, DEFINITIONS),
} as const;

for (const [name, derived] of Object.entries(DERIVED)) {
	const path = join(PROJECT_DIRECTORY, name);
	await writeFile(path, derived(await readFile(path, "utf8")));
}
