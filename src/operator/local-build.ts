/**
 * The Worker's modules and bindings for local runs, kept in dist beside a hash of their sources, so
 * that a start without a change loads neither the bundler nor wrangler (two seconds of CPU). `npm
 * run build` writes it.
 */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import type { V4WorkerOptions } from "miniflare";
import type { WorkerModules } from "./build";
import { PROJECT_DIRECTORY } from "./project";
import { putFile } from "./put-file";

/**
 * Bindings of wrangler.toml as Miniflare takes them. Named, because wrangler's own type of them has
 * an index signature.
 */
export type Bindings = Pick<
	V4WorkerOptions,
	"bindings" | "compatibilityDate" | "compatibilityFlags" | "d1Databases" | "r2Buckets" | "ratelimits"
> & { readonly queueConsumers?: Exclude<V4WorkerOptions["queueConsumers"], readonly string[] | undefined> };

export interface LocalBuild {
	readonly modules: WorkerModules;
	readonly bindings: Bindings;
}

interface KeptBuild extends LocalBuild {
	readonly hash: string;
	/** Every file of dist/assets. */
	readonly assets: readonly string[];
}

const KEPT_FILE = join(PROJECT_DIRECTORY, "dist/local-build.json");
const ASSETS_DIRECTORY = join(PROJECT_DIRECTORY, "dist/assets");
const SOURCES = ["src", "dashboard", "cli", "wrangler.toml", "package.json", "package-lock.json", "tsconfig.json"];

/**
 * @param onBuild called if something changed and is built
 * @throws {Error} of the bundler, for sources that do not compile
 */
export async function localBuild(onBuild: () => void = () => undefined): Promise<LocalBuild> {
	const hash = await hashOfSources();
	const kept = await keptBuild();
	if (kept?.hash === hash && kept.assets.every((name) => existsSync(join(ASSETS_DIRECTORY, name)))) return kept;
	onBuild();
	const { unstable_getMiniflareWorkerOptions } = await import("wrangler");
	const { buildAssets, buildWorker } = await import("./build");
	await buildAssets();
	const { modules } = await buildWorker();
	const { workerOptions } = unstable_getMiniflareWorkerOptions(join(PROJECT_DIRECTORY, "wrangler.toml"));
	const { modulesRules: _, ...bindings } = workerOptions;
	const assets = (await filesBelow(ASSETS_DIRECTORY)).map((path) => relative(ASSETS_DIRECTORY, path));
	const built: KeptBuild = { hash, modules, bindings: bindings as Bindings, assets };
	await putFile(KEPT_FILE, Buffer.from(JSON.stringify(built)));
	return built;
}

async function keptBuild(): Promise<KeptBuild | undefined> {
	const text = await readFile(KEPT_FILE, "utf8").catch(() => undefined);
	return text === undefined ? undefined : JSON.parse(text);
}

async function hashOfSources(): Promise<string> {
	const hash = createHash("sha256").update(PROJECT_DIRECTORY);
	for (const source of SOURCES) {
		const path = join(PROJECT_DIRECTORY, source);
		for (const file of source.includes(".") ? [path] : await filesBelow(path))
			hash.update(file).update(await readFile(file));
	}
	return hash.digest("hex");
}

/** Sorted. Without what a build writes and what packages install. */
async function filesBelow(directory: string): Promise<string[]> {
	const entries = await readdir(directory, { withFileTypes: true });
	const files: string[] = [];
	for (const { name } of entries.filter((entry) => entry.isFile()).sort((a, b) => (a.name < b.name ? -1 : 1)))
		files.push(join(directory, name));
	for (const { name } of entries.filter((entry) => entry.isDirectory()).sort((a, b) => (a.name < b.name ? -1 : 1)))
		if (name !== "dist" && name !== "node_modules") files.push(...(await filesBelow(join(directory, name))));
	return files;
}

/** The modules as Miniflare takes them. */
export const miniflareModules = (modules: WorkerModules) =>
	modules.map(({ name, contents }) => ({ type: "ESModule" as const, path: `/${name}`, contents }));

if (process.argv[1] === fileURLToPath(import.meta.url)) {
	await localBuild();
	const page = await readFile(join(ASSETS_DIRECTORY, "openapi.json"));
	console.log(`dist/assets is ready (openapi.json: ${page.length} bytes)`);
}
