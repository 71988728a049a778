/**
 * Builds dashboard/ with Vite. The build is cached in dist/dashboard beside a hash of its sources,
 * so that a second start builds nothing.
 */
import { execFile } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import type { Manifest } from "./dashboard-preloads";

/** Folder of the static assets that browsers may cache forever. */
const DASHBOARD_ASSETS = "dashboard-assets";

/** Sources of the build outside of dashboard/. */
const OTHER_SOURCES = [
	"package.json",
	"package-lock.json",
	"tsconfig.json",
	"src/client/client.ts",
	"src/authz/permissions.ts",
	"src/authz/member-roles.ts",
];
const STAMP = "source-hash.txt";

interface DashboardBuild {
	/** By their paths below the static assets. */
	readonly files: Readonly<Record<string, Buffer>>;
	readonly manifest: Manifest;
}

export async function dashboardBuild(projectDirectory: string): Promise<DashboardBuild> {
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
	const manifest = JSON.parse(await readFile(join(directory, DASHBOARD_ASSETS, "manifest.json"), "utf8"));
	return { files, manifest };
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
 * Builds into a temporary folder and renames it, because another process may be reading or building
 * the same. Runs in its own process, because the environment of this one (a test, say) would change
 * the build.
 */
async function build(projectDirectory: string, directory: string, hash: string): Promise<void> {
	const output = `${directory}.${randomUUID()}`;
	const old = `${output}.old`;
	const vite = join(dirname(createRequire(import.meta.url).resolve("vite/package.json")), "bin/vite.js");
	await run(
		process.execPath,
		[vite, "build", "--config", join(projectDirectory, "dashboard/vite.config.ts"), "--outDir", output],
		{ env: { ...process.env, NODE_ENV: "production" } },
	);
	await writeFile(join(output, STAMP), hash);
	await rename(directory, old).catch(() => undefined);
	await rename(output, directory).catch(() => undefined);
	await rm(old, { recursive: true, force: true });
	await rm(output, { recursive: true, force: true });
}
