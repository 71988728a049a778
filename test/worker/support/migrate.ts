/** Brings the database of each test file to the current schema, by the same migrations that a deployment runs. */
import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll } from "vitest";

beforeAll(async () => {
	const { DB, TEST_MIGRATIONS } = env as unknown as { DB: D1Database; TEST_MIGRATIONS: never };
	await applyD1Migrations(DB, TEST_MIGRATIONS);
});
