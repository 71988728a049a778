/**
 * Brings the database of each test file to the current schema, by the statements of the same migrations that a deployment runs, in one
 * batch: a round trip for each statement made every file wait for seconds.
 */
import { env } from "cloudflare:workers";
import { beforeAll } from "vitest";

beforeAll(async () => {
	const { DB, TEST_MIGRATIONS } = env as unknown as {
		DB: D1Database;
		TEST_MIGRATIONS: readonly { readonly queries: readonly string[] }[];
	};
	await DB.batch(TEST_MIGRATIONS.flatMap(({ queries }) => queries.map((query) => DB.prepare(query))));
});
