/**
 * Three projects are `npm test`: `unit` needs no runtime; `worker` runs inside workerd with real
 * D1, R2 and Queues; `node` starts the whole product and drives it from outside. `proof` does the
 * same at length: every command of the stock clients, a fleet, limits of memory and size.
 */
import { accessSync, constants, existsSync, mkdirSync, readdirSync, rmSync, statfsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-plugin";
import { buildSync } from "esbuild";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { unstable_readConfig } from "wrangler";
import { PATIENCE_MS } from "./patience.ts";

const root = new URL("..", import.meta.url).pathname;
/**
 * Temporary directories, with the databases in them, are in memory where it has room: SQLite waits
 * for the disk after every write. They go with this process, or with the next run if this one is
 * killed.
 */
const MEMORY = "/dev/shm";
const LEAST_MEMORY_BYTES = 4 * 1024 ** 3;
const RUN = /^capstan-run-(\d+)$/;

function keepFilesInMemory(): void {
	try {
		accessSync(MEMORY, constants.W_OK);
		const { bavail, bsize } = statfsSync(MEMORY);
		if (bavail * bsize < LEAST_MEMORY_BYTES) return;
	} catch {
		return;
	}
	for (const name of readdirSync(MEMORY)) {
		const pid = RUN.exec(name)?.[1];
		if (pid !== undefined && !existsSync(`/proc/${pid}`)) rmSync(`${MEMORY}/${name}`, { recursive: true, force: true });
	}
	const directory = `${MEMORY}/capstan-run-${process.pid}`;
	mkdirSync(directory, { recursive: true, mode: 0o700 });
	process.env.TMPDIR = directory;
	process.once("exit", () => rmSync(directory, { recursive: true, force: true }));
}

keepFilesInMemory();

/** The tests run with the same replacements of packages as a deployment. */
const standIns = Object.entries(unstable_readConfig({ config: `${root}wrangler.toml` }).alias ?? {}).map(
	([name, path]) => ({ find: name, replacement: `${root}${path}` }),
);

/**
 * Libraries of many files, each bundled into one as a deployment bundles them: workerd fetches the
 * files again for every test file, one by one, which takes longer than the tests.
 */
const LIBRARIES = ["d3-scale", "d3-shape", "hono", "kysely", "valibot"];

const bundledLibraries = LIBRARIES.map((name) => {
	const replacement = `${root}dist/bundled/${name}.js`;
	buildSync({
		stdin: { contents: `export * from "${name}";`, resolveDir: root },
		outfile: replacement,
		bundle: true,
		format: "esm",
		platform: "neutral",
		mainFields: ["module", "main"],
		conditions: ["workerd", "worker", "import"],
	});
	return { find: new RegExp(`^${name}$`), replacement };
});

/**
 * Files that run long, the longest first. Without the durations of an earlier run, Vitest starts
 * the largest files first, and one of these at the end would run alone.
 */
const SLOW = [
	"fuzz.test.ts",
	"memory.test.ts",
	"demo.test.ts",
	"backup-sql.test.ts",
	"android-client.test.ts",
	"docs.test.ts",
	"start.test.ts",
	"dashboard-content.test.ts",
	"stop.test.ts",
	"isolation-matrix.test.ts",
	"faults.test.ts",
	"guarded-writes.test.ts",
	"crash-points.test.ts",
	"faults-background.test.ts",
];

class SlowFirst extends BaseSequencer {
	override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
		const sorted = await super.sort(files);
		const place = ({ moduleId }: TestSpecification) => SLOW.findIndex((name) => moduleId.endsWith(`/${name}`));
		const slow = sorted.filter((file) => place(file) >= 0).sort((one, other) => place(one) - place(other));
		return [...slow, ...sorted.filter((file) => place(file) < 0)];
	}
}

/** A project that starts the product in Node. */
const ofProduct = (name: string, include: string) => ({
	test: {
		name,
		root,
		include: [include],
		exclude: ["test/proof/mutation/canary/**"],
		// Files follow each other in one process: Miniflare and wrangler take two seconds to load, and
		// files share one product.
		isolate: false,
		sequence: { groupOrder: 1 },
		// Many files wait for the Queue's delays or for a program to end.
		maxWorkers: Math.max(4, availableParallelism() - 1),
		// Many start programs, several times in one test.
		testTimeout: 300_000,
		hookTimeout: 300_000,
		expect: { poll: { timeout: PATIENCE_MS } },
	},
});

export default defineConfig({
	test: {
		sequence: { sequencer: SlowFirst },
		// Also where there are two cores only: a test file waits for its workerd half of the time.
		maxWorkers: Math.max(2, availableParallelism() - 1),
		silent: "passed-only",
		reporters: ["default", ["json", { outputFile: `${root}dist/test-results.json` }]],
		projects: [
			{
				test: { name: "unit", root, include: ["test/unit/**/*.test.ts"], isolate: false, testTimeout: 60_000 },
			},
			{
				resolve: { alias: [...bundledLibraries, ...standIns] },
				plugins: [
					cloudflareTest(async () => ({
						wrangler: { configPath: `${root}wrangler.toml` },
						miniflare: {
							cf: false,
							// Empty; the schema test applies schema.sql to it.
							d1Databases: ["SECOND_DB"],
							bindings: {
								CAPSTAN_SECRET: "5e".repeat(32),
								CAPSTAN_DIAGNOSTICS: "true",
								TEST_MIGRATIONS: await readD1Migrations(`${root}src/db/migrations`),
								TELEMETRY_MIGRATIONS: await readD1Migrations(`${root}src/db/telemetry-migrations`),
							},
						},
					})),
				],
				test: {
					name: "worker",
					root,
					include: ["test/worker/**/*.test.ts"],
					setupFiles: ["test/worker/support/migrate.ts"],
					isolate: false,
					// A loaded machine is no defect; nothing here is a measure of speed.
					testTimeout: 180_000,
					hookTimeout: 180_000,
				},
			},
			ofProduct("node", "test/node/**/*.test.ts"),
			ofProduct("proof", "test/proof/**/*.test.ts"),
		],
	},
});
