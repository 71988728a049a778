/**
 * Runs one of our TypeScript programs: `node src/operator/launch.js src/operator/start.ts --lan`. It first checks the Node version and that
 * `npm ci` was run, because without either the program fails to load with a stack instead of a remedy.
 *
 * Plain JavaScript that Node 12 parses, and no import but Node's own.
 */
import fs from "node:fs";
import path from "node:path";
import url from "node:url";

const PROJECT = url.fileURLToPath(new URL("../..", import.meta.url));

function fail(message) {
	console.error(message);
	process.exit(1);
}

// npm writes this file last, so an installation that was cut short has none.
if (!fs.existsSync(path.join(PROJECT, "node_modules/.package-lock.json"))) {
	fail("The dependencies are not installed; run npm ci first.");
}
// npm scripts find the Node that the project brings (optionalDependencies of package.json) before the machine's own.
const [major, minor] = process.versions.node.split(".").map(Number);
if (major < 22 || major === 23 || (major === 22 && minor < 12)) {
	const brought = fs.existsSync(path.join(PROJECT, "node_modules/.bin/node"));
	fail(
		brought
			? `Node ${process.versions.node} is too old; use the npm script, which runs the Node that npm ci installed.`
			: `Node ${process.versions.node} is too old, and the project brings none for this machine; install Node 24 or 22.12.`,
	);
}

const name = process.argv[2] || "";
const program = path.resolve(PROJECT, name);
process.argv.splice(1, 2, program);
const isQuiet = process.argv.includes("--json") || process.argv.includes("--help") || process.send !== undefined;
if (path.basename(program) === "start.ts" && !isQuiet) {
	// Loading what starts the server takes a second; on a terminal the progress line takes this one's place.
	process.stdout.write(process.stdout.isTTY ? "Starting Capstan…" : "Starting Capstan:\n");
}
// Programs of the tests and measurements use packages that npm ci leaves out.
const isOfTests = /^(test|bench)\//.test(name);
const ready = isOfTests
	? import("../../test/install.js").then((tests) => tests.installTestPackages())
	: Promise.resolve();
ready.then(() => import("tsx")).then(() => import(url.pathToFileURL(program).href));
