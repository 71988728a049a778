/**
 * The triggers that count the stored bytes of an app. A deployment gets them after its migrations, so
 * their installation counts what was stored before.
 */
import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { installStorageTriggers } from "../../../src/db/storage-triggers";

const { SECOND_DB, TEST_MIGRATIONS } = env as unknown as {
	SECOND_DB: D1Database;
	TEST_MIGRATIONS: Parameters<typeof applyD1Migrations>[1];
};

test("the first installation counts from scratch, a later one changes nothing", async () => {
	await applyD1Migrations(SECOND_DB, TEST_MIGRATIONS);
	const run = (statement: string) => SECOND_DB.prepare(statement).run();
	const stored = () => SECOND_DB.prepare("SELECT storage_bytes FROM apps").first("storage_bytes");
	await run("INSERT INTO users (id, email, created_at_ms) VALUES ('user', 'a@example.com', 1)");
	await run(
		"INSERT INTO organizations (id, name, created_by, created_at_ms, updated_at_ms) VALUES ('org', 'org', 'user', 1, 1)",
	);
	await run(
		"INSERT INTO apps (id, app_id, owner_org, name, created_at_ms, updated_at_ms) VALUES ('app', 'com.example.app', 'org', 'app', 1, 1)",
	);
	await run(`INSERT INTO bundles (app_id, name, status, storage_provider, object_key, size_bytes, created_by,
			deleted_at_ms, created_at_ms, updated_at_ms) VALUES
		('app', '1.0.0', 'ready', 'r2', 'app/1', 100, 'user', NULL, 1, 1),
		('app', '1.0.1', 'pending', 'r2', NULL, 20, 'user', NULL, 1, 1),
		('app', '1.0.2', 'deleted', 'r2', NULL, 1000, 'user', 2, 1, 1),
		('app', '1.0.3', 'ready', 'external', NULL, 5000, 'user', NULL, 1, 1)`);
	await run(
		"INSERT INTO delta_objects (app_id, path, object_key, size_bytes, last_claimed_at_ms) VALUES ('app', 'a', 'app/a', 4, 1)",
	);
	expect(await stored(), "without the triggers").toBe(0);
	await installStorageTriggers({ d1: SECOND_DB });
	expect(await stored()).toBe(124);
	await run("UPDATE bundles SET status = 'ready', object_key = 'app/2', size_bytes = 21 WHERE name = '1.0.1'");
	await run("DELETE FROM delta_objects");
	expect(await stored()).toBe(121);
	await run("UPDATE apps SET storage_bytes = 5");
	await installStorageTriggers({ d1: SECOND_DB });
	expect(await stored(), "triggers that are there are left as they are").toBe(5);
});
