/**
 * Brings the database of each test file to the current schema, by the statements of the same migrations that a deployment runs, in one
 * batch: a round trip for each statement made every file wait for seconds.
 */
import { env } from "cloudflare:workers";
import { beforeAll } from "vitest";
import { STORAGE_TRIGGERS } from "../../../src/db/storage-triggers";

beforeAll(async () => {
	const { DB, TEST_MIGRATIONS } = env as unknown as {
		DB: D1Database;
		TEST_MIGRATIONS: readonly { readonly queries: readonly string[] }[];
	};
	const statements = TEST_MIGRATIONS.flatMap(({ queries }) => queries);
	await DB.batch([...statements, ...STORAGE_TRIGGERS].map((statement) => DB.prepare(statement)));
});
