/**
 * Two projects: `worker` runs inside workerd with real D1, R2 and Queues; `node` starts the whole product and drives it from outside,
 * with the stock clients among others.
 */
import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-pool-workers";
import { defineConfig } from "vitest/config";
import { unstable_readConfig } from "wrangler";
import { bundledLibraries } from "./bundled-libraries";

const root = new URL("..", import.meta.url).pathname;
/** What a deployment puts in the place of packages, the tests run with too. */
const standIns = Object.entries(unstable_readConfig({ config: `${root}wrangler.toml` }).alias ?? {}).map(
	([name, path]) => ({ find: name, replacement: `${root}${path}` }),
);

export default defineConfig({
	test: {
		silent: "passed-only",
		reporters: ["default", ["json", { outputFile: `${root}dist/test-results.json` }]],
		projects: [
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
							},
						},
					})),
				],
				test: {
					name: "worker",
					root,
					include: ["test/worker/**/*.test.ts"],
					setupFiles: ["test/worker/support/migrate.ts"],
					// A loaded machine is no defect; nothing here is a measure of speed.
					testTimeout: 60_000,
					hookTimeout: 60_000,
				},
			},
			{
				test: {
					name: "node",
					root,
					include: ["test/node/**/*.test.ts"],
					testTimeout: 120_000,
					hookTimeout: 120_000,
				},
			},
		],
	},
});
