/**
 * The dashboard's files, as Vite makes them of dashboard/. A build is kept in dist/dashboard beside the hash of everything that it was made
 * of, so that starting the product again makes nothing anew.
 */
import { execFile } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

/** Below the static assets: what may be kept by browsers for ever. */
export const DASHBOARD_ASSETS = "dashboard-assets";

/** What the build depends on besides its own folder: versions of libraries, and what it takes from the Worker's sources. */
const OTHER_SOURCES = [
	"package.json",
	"package-lock.json",
	"tsconfig.json",
	"src/client/client.ts",
	"src/authz/permissions.ts",
	"src/authz/member-roles.ts",
];
const STAMP = "made-of.txt";

/** By their paths below the static assets. */
export async function dashboardFiles(projectDirectory: string): Promise<Readonly<Record<string, Buffer>>> {
	const directory = join(projectDirectory, "dist/dashboard");
	const hash = await hashOfSources(projectDirectory);
	const stamp = await readFile(join(directory, STAMP), "utf8").catch(() => "");
	if (stamp !== hash) await build(projectDirectory, directory, hash);
	const names = await readdir(join(directory, DASHBOARD_ASSETS));
	const files: Record<string, Buffer> = { "dashboard/index.html": await readFile(join(directory, "index.html")) };
	for (const name of names) {
		if (name.endsWith(".json")) continue;
		files[`${DASHBOARD_ASSETS}/${name}`] = await readFile(join(directory, DASHBOARD_ASSETS, name));
	}
	return files;
}

async function hashOfSources(projectDirectory: string): Promise<string> {
	const names = await readdir(join(projectDirectory, "dashboard"), { recursive: true, withFileTypes: true });
	const paths = names.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
	const hash = createHash("sha256");
	for (const path of [...paths.sort(), ...OTHER_SOURCES.map((name) => join(projectDirectory, name))]) {
		hash.update(`${path.slice(projectDirectory.length)}\n`).update(await readFile(path));
	}
	return hash.digest("hex");
}

const run = promisify(execFile);

/**
 * Made beside its place and moved there whole: another process may be reading, or making the same. In a process of its own, because what
 * this one is started for (a test, say) would change what is built.
 */
async function build(projectDirectory: string, directory: string, hash: string): Promise<void> {
	const made = `${directory}.${randomUUID()}`;
	const old = `${made}.old`;
	const vite = join(dirname(createRequire(import.meta.url).resolve("vite/package.json")), "bin/vite.js");
	await run(
		process.execPath,
		[vite, "build", "--config", join(projectDirectory, "dashboard/vite.config.ts"), "--outDir", made],
		{ env: { ...process.env, NODE_ENV: "production" } },
	);
	await writeFile(join(made, STAMP), hash);
	await rename(directory, old).catch(() => undefined);
	await rename(made, directory).catch(() => undefined);
	await rm(old, { recursive: true, force: true });
	await rm(made, { recursive: true, force: true });
}
