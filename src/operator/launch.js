/**
 * Runs one of our TypeScript programs: `node src/operator/launch.js src/operator/start.ts --lan`. It first checks the Node version and that
 * `npm ci` was run, because without either the program fails to load with a stack instead of a remedy.
 *
 * Plain JavaScript that Node 12 parses, and no import but Node's own.
 */
import fs from "node:fs";
import path from "node:path";
import url from "node:url";

const OLDEST = [20, 19];
const PROJECT = url.fileURLToPath(new URL("../..", import.meta.url));

function fail(message) {
	console.error(message);
	process.exit(1);
}

const [major, minor] = process.versions.node.split(".").map(Number);
if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])) {
	fail(`Node ${process.versions.node} is too old; install Node ${OLDEST.join(".")} or newer.`);
}
// npm writes this file last, so an installation that was cut short has none.
if (!fs.existsSync(path.join(PROJECT, "node_modules/.package-lock.json"))) {
	fail("The dependencies are not installed; run npm ci first.");
}

const program = path.resolve(PROJECT, process.argv[2] || "");
process.argv.splice(1, 2, program);
const isQuiet = process.argv.includes("--json") || process.argv.includes("--help") || process.send !== undefined;
if (path.basename(program) === "start.ts" && !isQuiet) {
	// Loading what starts the server takes a second; on a terminal the progress line takes this one's place.
	process.stdout.write(process.stdout.isTTY ? "Starting Capstan…" : "Starting Capstan:\n");
}
import("tsx").then(() => import(url.pathToFileURL(program).href));
