/**
 * Brings what only tests need, such as the published clients and the browser driver: `npm ci` leaves it out (.npmrc), because who starts or
 * deploys Capstan does not use it. Scripts of package.json run this program before those tools; it does nothing if they are there.
 *
 * Plain JavaScript that Node 12 parses, as src/operator/launch.js, which runs before the Node version is known to be new enough.
 */
import childProcess from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import url from "node:url";

const PROJECT = url.fileURLToPath(new URL("..", import.meta.url));

function read(name) {
	try {
		return JSON.parse(fs.readFileSync(path.join(PROJECT, name), "utf8"));
	} catch {
		return {};
	}
}

/** The names of development packages that are not installed in the version of package.json. */
export function missingPackages(manifest, installed) {
	const packages = installed.packages || {};
	return Object.keys(manifest.devDependencies || {}).filter((name) => {
		const found = packages[`node_modules/${name}`];
		return !found || found.version !== manifest.devDependencies[name].replace(/^npm:.*@/, "");
	});
}

/** Ends the program if they cannot be installed. */
export function installTestPackages() {
	// npm writes this file last, so an installation that was cut short does not list its packages.
	const missing = missingPackages(read("package.json"), read("node_modules/.package-lock.json"));
	if (missing.length === 0) return;
	console.error(`Installing what only the tests need (${missing.length} packages and theirs)…`);
	// With the lock file's versions, and beside what is installed; npm ci would delete the Node that runs this.
	const words = ["install", "--include=dev", "--no-save", "--prefer-offline", "--loglevel=error"];
	// As npm scripts name themselves; the machine's npm and Node otherwise.
	const { npm_execpath: npm, npm_node_execpath: node } = process.env;
	const [program, before] = npm && node && /\.[cm]?js$/.test(npm) ? [node, [npm]] : ["npm", []];
	const { status } = childProcess.spawnSync(program, [...before, ...words], {
		cwd: PROJECT,
		stdio: ["ignore", 2, 2],
		shell: program === "npm" && process.platform === "win32",
	});
	if (status === 0) return;
	console.error(
		"The packages of the tests are not installed; run npm ci --include=dev where the registry can be reached.",
	);
	process.exit(1);
}

if (process.argv[1] && path.resolve(process.argv[1]) === url.fileURLToPath(import.meta.url)) installTestPackages();
