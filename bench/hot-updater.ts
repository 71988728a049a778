/**
 * The Cloudflare Worker that the hot-updater package ships, with as many bundles as Capstan. The
 * bench fetches the package, checks its digest and installs nothing.
 */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { unstable_splitSqlQuery } from "wrangler";
import { singleModule, type WorkerDefinition } from "./runtime";

export const HOT_UPDATER = "@hot-updater/cloudflare@0.35.8";
const INTEGRITY = "sha512-EUG2zs9+Pvbek6w7e0xcNFiehtljWvMZXdiY21Ky90BGSjEyU1G7KCrYYmWccCEIhWtv+8L+qyArn+BdyEvo5w==";
const FETCH_LIMIT_MS = 60_000;

export interface HotUpdaterPackage {
	readonly script: string;
	/** In order. */
	readonly migrations: readonly string[];
	readonly options: Record<string, unknown>;
}

export interface HotUpdaterFacts {
	/** Paths for a device without a bundle and for one with the newest. */
	readonly checkPath: string;
	readonly currentPath: string;
	readonly newestId: string;
}

/** @throws {Error} with the remedy if the registry is unreachable or the digest differs */
export async function fetchHotUpdater(): Promise<HotUpdaterPackage> {
	const directory = await mkdtemp(join(tmpdir(), "capstan-bench-"));
	const run = promisify(execFile);
	try {
		const arguments_ = ["pack", HOT_UPDATER, "--prefer-offline", "--pack-destination", directory, "--ignore-scripts"];
		await run("npm", arguments_, { cwd: directory, timeout: FETCH_LIMIT_MS }).catch(() => {
			throw new Error(`npm could not fetch ${HOT_UPDATER}. Its rows are left out`);
		});
		const archive = (await readdir(directory)).find((name) => name.endsWith(".tgz"));
		if (archive === undefined) throw new Error(`npm pack ${HOT_UPDATER} left no archive`);
		const digest = createHash("sha512")
			.update(await readFile(join(directory, archive)))
			.digest("base64");
		if (`sha512-${digest}` !== INTEGRITY) throw new Error(`${HOT_UPDATER} has a different digest than expected`);
		await run("tar", ["-xzf", archive], { cwd: directory });
		const worker = join(directory, "package/worker");
		const read = (path: string) => readFile(join(worker, path), "utf8");
		const { compatibility_date, compatibility_flags } = JSON.parse(await read("wrangler.json"));
		const migrations = (await readdir(join(worker, "migrations"))).filter((name) => name.endsWith(".sql")).sort();
		return {
			script: await read("dist/index.js"),
			migrations: await Promise.all(migrations.map((name) => read(`migrations/${name}`))),
			options: {
				compatibilityDate: compatibility_date,
				compatibilityFlags: compatibility_flags,
				d1Databases: { DB: "DB" },
				r2Buckets: { BUCKET: "BUCKET" },
				bindings: { JWT_SECRET: "a secret of the bench's own" },
			},
		};
	} finally {
		await rm(directory, { recursive: true, force: true });
	}
}

/** Its bundle ids are UUIDs that sort by time. */
const bundleId = (number: number) => `0195a000-0000-7000-8000-${number.toString(16).padStart(12, "0")}`;
const NO_BUNDLE = "00000000-0000-0000-0000-000000000000";

export function hotUpdater(shipped: HotUpdaterPackage, bundles: number): WorkerDefinition<HotUpdaterFacts> {
	return {
		script: singleModule(shipped.script),
		options: shipped.options,
		async seed(open) {
			const database = await open("DB");
			for (const migration of shipped.migrations) {
				await database.batch(unstable_splitSqlQuery(migration).map((statement) => database.prepare(statement)));
			}
			const insert = database.prepare(
				`INSERT INTO bundles (id, platform, should_force_update, enabled, file_hash, message, channel, storage_uri, target_app_version)
				VALUES (?, 'ios', 0, 1, ?, NULL, 'production', ?, '1.x')`,
			);
			const ids = Array.from({ length: bundles }, (_, index) => bundleId(index + 1));
			await database.batch(ids.map((id) => insert.bind(id, "9f".repeat(32), `r2://bundles/${id}/bundle.zip`)));
			const newestId = bundleId(bundles);
			const path = (current: string) => `/api/check-update/app-version/ios/1.0.0/production/${NO_BUNDLE}/${current}`;
			return { checkPath: path(NO_BUNDLE), currentPath: path(newestId), newestId };
		},
	};
}
