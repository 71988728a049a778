/**
 * The installation of triggers: whatever a database has, of this release, of another one or none,
 * it has exactly those of this release afterwards, and what was missed meanwhile is made good.
 */
import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import fc from "fast-check";
import { expect, test } from "vitest";
import { installation, installTriggers, TRIGGER_NAMES } from "../../../src/db/triggers";
import { addWebhook } from "../support/webhook-scene";
import { createWorld, testEnv } from "../support/world";

const { SECOND_DB, TEST_MIGRATIONS } = env as unknown as {
	SECOND_DB: D1Database;
	TEST_MIGRATIONS: Parameters<typeof applyD1Migrations>[1];
};

const namesOf = async (db: D1Database) =>
	(await db.prepare(TRIGGER_NAMES).all<{ name: string }>()).results.map(({ name }) => name);

const CREATED = /^CREATE TRIGGER IF NOT EXISTS (\w+_[0-9a-f]{8}) /;
const WANTED = installation([]).flatMap((statement) => CREATED.exec(statement)?.[1] ?? []);

test("each trigger has a name of its own, which ends with the hash of its text", () => {
	expect(new Set(WANTED).size).toBe(42);
	expect(installation([]).filter((statement) => statement.includes("CREATE TRIGGER"))).toHaveLength(WANTED.length);
});

test("the first installation counts from scratch, a later one changes nothing", async () => {
	await applyD1Migrations(SECOND_DB, TEST_MIGRATIONS);
	const run = (statement: string) => SECOND_DB.prepare(statement).run();
	const stored = () => SECOND_DB.prepare("SELECT storage_bytes FROM apps").first("storage_bytes");
	await run("INSERT INTO users (id, email, created_at_ms) VALUES ('user', 'a@example.com', 1)");
	await run(
		"INSERT INTO organizations (id, name, created_by, created_at_ms, updated_at_ms) VALUES ('org', 'org', 'user', 1, 1)",
	);
	await run(
		`INSERT INTO apps (id, app_id, owner_org, name, created_at_ms, updated_at_ms, telemetry_binding)
			VALUES ('app', 'com.example.app', 'org', 'app', 1, 1, 'TELEMETRY')`,
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
	await run(
		"INSERT INTO channels (app_id, name, created_by, created_at_ms, updated_at_ms) VALUES ('app', 'production', 'user', 1, 1)",
	);
	const counts = () => SECOND_DB.prepare("SELECT channel_count, preview_count FROM apps").first();
	expect(await stored(), "without the triggers").toBe(0);
	await installTriggers({ d1: SECOND_DB });
	expect(await stored()).toBe(124);
	expect(await counts()).toEqual({ channel_count: 1, preview_count: 0 });
	await run(`INSERT INTO previews (id, app_id, repository, number, state, page_id, lifetime_ms, expires_at_ms, opened_at_ms, created_by, created_at_ms, updated_at_ms)
		VALUES ('one', 'app', 'acme/shop', 1, 'open', 'page-1', 1, 1, 1, 'user', 1, 1), ('two', 'app', 'acme/shop', 2, 'closed', 'page-2', 1, 1, NULL, 'user', 1, 1)`);
	expect(await counts(), "not closed before it was opened").toEqual({ channel_count: 1, preview_count: 1 });
	await run("UPDATE previews SET opened_at_ms = 2");
	await run("DELETE FROM channels");
	expect(await counts()).toEqual({ channel_count: 0, preview_count: 2 });
	await run("DELETE FROM previews WHERE id = 'one'");
	expect(await counts()).toEqual({ channel_count: 0, preview_count: 1 });
	await run("UPDATE bundles SET status = 'ready', object_key = 'app/2', size_bytes = 21 WHERE name = '1.0.1'");
	await run("DELETE FROM delta_objects");
	expect(await stored()).toBe(121);
	await run("UPDATE apps SET storage_bytes = 5");
	await installTriggers({ d1: SECOND_DB });
	expect(await stored(), "triggers that are there are left as they are").toBe(5);
});

test("a database with some triggers of this release and some of another one gets exactly those of this release", async () => {
	if ((await namesOf(SECOND_DB)).length === 0) {
		await applyD1Migrations(SECOND_DB, TEST_MIGRATIONS);
		await installTriggers({ d1: SECOND_DB });
	}
	expect(await namesOf(SECOND_DB)).toEqual(WANTED.toSorted());
	await fc.assert(
		fc.asyncProperty(fc.subarray(WANTED), fc.subarray(WANTED), async (gone, earlier) => {
			for (const name of gone) await SECOND_DB.prepare(`DROP TRIGGER ${name}`).run();
			for (const name of earlier) {
				const text = `CREATE TRIGGER ${name.slice(0, -8)}00000000 AFTER INSERT ON apps BEGIN SELECT 1; END`;
				await SECOND_DB.prepare(text).run();
			}
			await installTriggers({ d1: SECOND_DB });
			expect(await namesOf(SECOND_DB)).toEqual(WANTED.toSorted());
		}),
		{ numRuns: 12 },
	);
	expect(installation(await namesOf(SECOND_DB))).toEqual([]);
});

test("a database that lost triggers of the change feed begins the feed again, so that no isolate trusts what it holds", async () => {
	const world = await createWorld();
	const newest = () => testEnv.DB.prepare("SELECT max(seq) AS seq, count(*) AS rows FROM changes").first();
	const name = (await namesOf(testEnv.DB)).find((each) => each.startsWith("apps_change_update"));
	await testEnv.DB.prepare(`DROP TRIGGER ${name}`).run();
	const before = await newest();
	await installTriggers(world.deps);
	expect(await newest()).not.toEqual(before);
	expect(await newest()).toMatchObject({ rows: 1 });
});

test("a webhook gets its events although the database lacked the triggers, and no other job ran", async () => {
	const world = await createWorld();
	for (const name of await namesOf(testEnv.DB)) await testEnv.DB.prepare(`DROP TRIGGER ${name}`).run();
	await addWebhook(world);
	expect(await namesOf(testEnv.DB)).toEqual(WANTED.toSorted());
	const events = () =>
		testEnv.DB.prepare("SELECT count(*) AS events FROM webhook_events WHERE org_id = ?")
			.bind(world.orgId)
			.first("events");
	const before = Number(await events());
	const key = await world.admin("POST /apikey", {
		body: {
			name: "k",
			hashed: true,
			bindings: [{ role_name: "org_member", scope_type: "org", org_id: world.orgId }],
		},
	});
	expect(key.status).toBe(201);
	expect(Number(await events())).toBe(before + 1);
});
