/**
 * Programs that the guides use and that not every machine with the tests has.
 */
import { chmod, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { IS_PROOF } from "../../proof-sample";

const NPX_DIRECTORY = fileURLToPath(new URL("npx", import.meta.url));
/** The programs of this machine, with its npx. */
export const MACHINE_PATH = process.env.PATH ?? "";
/** The programs of this machine with our npx; `npm run test:proof` uses npm's. */
export const FAST_PATH = IS_PROOF ? MACHINE_PATH : `${NPX_DIRECTORY}${delimiter}${MACHINE_PATH}`;

/** `jq` as the pages use it: a path such as `.[0].id`, and `-r` for the bare text. */
const JQ = `#!${process.execPath}
const given = process.argv.slice(2);
const [path, file] = given.filter((option) => option !== "-r");
let value = JSON.parse(require("node:fs").readFileSync(file ?? 0, "utf8"));
for (const [, name, index] of path.matchAll(/\\.(\\w+)|\\[(\\d+)\\]/g)) value = value[name ?? Number(index)];
console.log(given.includes("-r") && typeof value === "string" ? value : JSON.stringify(value));
`;

/** `zip` as the pages use it: `zip -q ARCHIVE FILE`. */
const ZIP = `#!${process.execPath}
const { zipSync } = require(${JSON.stringify(createRequire(import.meta.url).resolve("fflate"))});
const { readFileSync, writeFileSync } = require("node:fs");
const [archive, file] = process.argv.slice(3);
writeFileSync(archive, zipSync({ [file]: readFileSync(file) }));
`;

/** Writes the programs into a directory of a PATH. */
export async function writeTools(directory: string): Promise<void> {
	for (const [name, script] of [
		["jq", JQ],
		["zip", ZIP],
	] as const) {
		await writeFile(join(directory, name), script);
		await chmod(join(directory, name), 0o755);
	}
}
