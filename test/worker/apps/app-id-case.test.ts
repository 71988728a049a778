/**
 * App ids ignore case, for people, devices and the stock CLI. An older installation with two ids that differ only in case keeps both: an exact
 * spelling finds its app, any other spelling the older one.
 */
import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { sql } from "kysely";
import { beforeEach, describe, expect, test } from "vitest";
import { consume } from "../../../src/consumer";
import { openDb, query } from "../../../src/db/client";
import { appIdOf } from "../../../src/db/public-app-id";
import { installStorageTriggers } from "../../../src/db/storage-triggers";
import { locationOf, run, tusCreate } from "../support/bytes";
import {
	createTestApp,
	createTestKey,
	createWorld,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
/** The same id in another spelling. */
let other: string;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	other = app.appId.replace("com.example", "Com.EXAMPLE");
});

const by = (method: string, path: string, options: object = {}) =>
	world.request(method, path, { key: world.adminKey, ...options });
const deviceOf = (appId: string) => ({
	...{ app_id: appId, device_id: crypto.randomUUID(), platform: "android", version_name: "builtin" },
	...{ version_build: "1.0.0", plugin_version: "8.51.23", is_emulator: false, is_prod: true },
});
const check = (appId: string) => world.request("POST", "/updates", { body: deviceOf(appId) });

describe("an app id in another case", () => {
	test("is taken by the app that has the id", async () => {
		const stranger = await createWorld();
		for (const caller of [stranger, world]) {
			const body = { app_id: other, name: "twin", owner_org: caller.orgId };
			const answer = await caller.request("POST", "/app", { key: caller.adminKey, body });
			expect(answer).toMatchObject({ status: 409, body: { error: "app_id_already_exists" } });
		}
		const free = { app_id: `${other}x`, name: "free", owner_org: stranger.orgId };
		expect(await stranger.request("POST", "/app", { key: stranger.adminKey, body: free })).toMatchObject({
			status: 201,
		});
	});

	test("is registered by one of 20 concurrent requests", async () => {
		const id = `com.example.race.t${crypto.randomUUID().slice(0, 8)}`;
		const answers = await Promise.all(
			Array.from({ length: 20 }, (_, index) =>
				by("POST", "/app", {
					body: { app_id: index % 2 === 0 ? id : id.toUpperCase(), name: "race", owner_org: world.orgId },
				}),
			),
		);
		expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
		expect(answers.filter(({ status }) => status === 409)).toHaveLength(19);
	});

	test("names the app in every management request, and answers show the stored spelling", async () => {
		await uploadTestBundle(world, { ...app, appId: other }, "1.0.1");
		await setTestChannel(world, { ...app, appId: other }, "production", { version: "1.0.1", public: true });
		expect(await by("GET", `/app/${other}`)).toMatchObject({ status: 200, body: { app_id: app.appId } });
		expect(await by("PUT", `/app/${other}`, { body: { name: "renamed" } })).toMatchObject({
			status: 200,
			body: { app_id: app.appId, name: "renamed" },
		});
		for (const path of ["/channel", "/bundle", "/device"]) {
			expect(await by("GET", path, { query: { app_id: other } }), path).toMatchObject({ status: 200 });
		}
		const log = await by("GET", `/app/${other}/audit`);
		expect(new Set((log.body as { app_id: string }[]).map(({ app_id }) => app_id))).toEqual(new Set([app.appId]));
		const stranger = await createWorld();
		expect(await stranger.request("GET", `/app/${other}`, { key: stranger.adminKey })).toMatchObject({ status: 404 });
	});

	test("gets devices the app's bundle, from the database and the cache, and counts them for the app", async () => {
		await uploadTestBundle(world, app, "1.0.1");
		await setTestChannel(world, app, "production", { version: "1.0.1", public: true });
		const sent = deviceOf(other);
		for (const attempt of ["database", "memory"]) {
			const answer = await world.request("POST", "/updates", { body: sent });
			expect(answer.body, attempt).toMatchObject({ version: "1.0.1" });
		}
		await world.request("POST", "/stats", { body: { ...sent, action: "set", version_name: "1.0.1" } });
		expect(
			await world.request("GET", "/channel_self", { query: { app_id: other, platform: "android" } }),
		).toMatchObject({
			status: 200,
		});
		for (const body of world.deps.sent) await consume(world.deps, { messages: [{ body }] } as never);
		const devices = await by("GET", "/device", { query: { app_id: app.appId } });
		expect(devices.body).toMatchObject([{ device_id: sent.device_id, app_id: app.appId }]);
		// A change under one spelling shows in the next check of the same isolate under the other.
		await setTestChannel(world, app, "production", { version: null });
		expect((await check(other)).body).not.toHaveProperty("version");
	});

	test("is accepted from the stock CLI", async () => {
		const rpc = "/compat/capgo-cli/rest/v1";
		expect(
			(await by("GET", `${rpc}/apps`, { query: { app_id: `eq.${other}`, select: "app_id" } })).status,
		).toBeLessThan(300);
		expect(
			await by("POST", `${rpc}/rpc/cli_check_permission`, {
				body: { permission_key: "app.upload_bundle", app_id: other },
			}),
		).toMatchObject({ status: 200, body: true });
		await by("POST", "/bundle", { body: { app_id: other, version: "3.0.0" } });
		locationOf(await tusCreate(world, world.adminKey, `orgs/${world.orgId}/apps/${other}/3.0.0.zip`, 10));
		const key = await createTestKey(world, "app_admin", app);
		expect(await by("DELETE", `/app/${other}`, { key: key.text })).toMatchObject({ status: 200 });
		expect((await check(app.appId)).body).toMatchObject({ error: "app_not_found" });
	});
});

describe("two ids of an older installation that differ only in case", () => {
	let twin: TestApp;
	beforeEach(async () => {
		const second = await createTestApp(world);
		await run(
			query
				.updateTable("apps")
				.set({ app_id: other, created_at_ms: world.clock.nowMs + 1 })
				.where("id", "=", second.uuid),
		);
		twin = { appId: other, uuid: second.uuid };
	});

	test("are found by their exact spelling, and the older one by any other", async () => {
		expect((await by("GET", `/app/${app.appId}`)).body).toMatchObject({ id: app.uuid });
		expect((await by("GET", `/app/${twin.appId}`)).body).toMatchObject({ id: twin.uuid });
		expect((await by("GET", `/app/${app.appId.toUpperCase()}`)).body).toMatchObject({ id: app.uuid });
	});

	test("are never confused by the cache of an isolate", async () => {
		for (const [each, version] of [
			[app, "1.0.1"],
			[twin, "2.0.1"],
		] as const) {
			await uploadTestBundle(world, each, version);
			await setTestChannel(world, each, "production", { version, public: true, disableAutoUpdate: "none" });
		}
		for (let round = 0; round < 3; round++) {
			expect((await check(twin.appId)).body).toMatchObject({ version: "2.0.1" });
			expect((await check(app.appId)).body).toMatchObject({ version: "1.0.1" });
			expect((await check(app.appId.toUpperCase())).body).toMatchObject({ version: "1.0.1" });
		}
		await by("DELETE", `/app/${app.appId}`);
		world.clock.nowMs += 4_000;
		for (let round = 0; round < 2; round++) {
			expect((await check(app.appId)).body).toMatchObject({ version: "2.0.1" });
			expect((await check(twin.appId)).body).toMatchObject({ version: "2.0.1" });
		}
	});
});

describe("two such ids of different organizations", () => {
	test("can both be restored after both were deleted, and no third spelling can be registered", async () => {
		const stranger = await createWorld();
		const second = await createTestApp(stranger);
		await run(query.updateTable("apps").set({ app_id: other }).where("id", "=", second.uuid));
		const own = [
			[world, app.appId, app.uuid],
			[stranger, other, second.uuid],
		] as const;
		const ask = (of: World, method: string, path: string, body?: object) =>
			of.request(method, path, { key: of.adminKey, ...(body === undefined ? {} : { body }) });
		for (const [of, appId] of own) expect((await ask(of, "DELETE", `/app/${appId}`)).status).toBe(200);
		const take = { app_id: other.toUpperCase(), name: "third", owner_org: world.orgId };
		expect(await ask(world, "POST", "/app", take), "a new one").toMatchObject({ status: 409 });
		for (const [of, appId] of own) {
			expect(await ask(of, "POST", "/app/restore", { app_id: appId })).toMatchObject({ status: 200 });
		}
		for (const [of, appId, uuid] of own) {
			expect((await ask(of, "GET", `/app/${appId}`)).body).toMatchObject({ id: uuid, app_id: appId });
		}
	});
});

const { SECOND_DB, TEST_MIGRATIONS } = env as unknown as {
	SECOND_DB: D1Database;
	TEST_MIGRATIONS: Parameters<typeof applyD1Migrations>[1];
};

test("the migration accepts ids that differ only in case, and counts the stored bytes of each app", async () => {
	await applyD1Migrations(
		SECOND_DB,
		TEST_MIGRATIONS.filter(({ name }) => name < "0022"),
	);
	const times = "1, 1";
	await SECOND_DB.batch(
		[
			"INSERT INTO users (id, email, created_at_ms) VALUES ('user', 'a@example.com', 1)",
			`INSERT INTO organizations (id, name, created_by, created_at_ms, updated_at_ms) VALUES ('org', 'org', 'user', ${times})`,
			`INSERT INTO apps (id, app_id, owner_org, name, created_at_ms, updated_at_ms) VALUES
				('later', 'com.Example.app', 'org', 'later', 2, 2), ('older', 'com.example.app', 'org', 'older', ${times})`,
			`INSERT INTO bundles (app_id, name, status, storage_provider, object_key, size_bytes, created_by, deleted_at_ms, created_at_ms, updated_at_ms) VALUES
				('older', '1.0.0', 'ready', 'r2', 'older/1', 100, 'user', NULL, ${times}),
				('older', '1.0.1', 'pending', 'r2', NULL, 20, 'user', NULL, ${times}),
				('older', '1.0.2', 'deleted', 'r2', NULL, 1000, 'user', 2, ${times}),
				('older', '1.0.3', 'ready', 'external', NULL, 5000, 'user', NULL, ${times}),
				('later', '1.0.0', 'ready', 'r2', 'later/1', 7, 'user', NULL, ${times})`,
			"INSERT INTO delta_objects (app_id, path, object_key, size_bytes, last_claimed_at_ms) VALUES ('older', 'a', 'older/a', 3, 1)",
		].map((statement) => SECOND_DB.prepare(statement)),
	);
	await applyD1Migrations(SECOND_DB, TEST_MIGRATIONS);
	const { results } = await SECOND_DB.prepare("SELECT id, storage_bytes FROM apps ORDER BY id").all();
	expect(results).toEqual([
		{ id: "later", storage_bytes: 7 },
		{ id: "older", storage_bytes: 123 },
	]);
	const found = async (publicAppId: string) => {
		const [answer] = await openDb(SECOND_DB, "first-primary").batch([
			sql<{ id: string }>`SELECT ${appIdOf(publicAppId)} AS id`.compile(query),
		]);
		return answer.rows[0]?.id;
	};
	expect([await found("com.example.app"), await found("com.Example.app"), await found("COM.EXAMPLE.APP")]).toEqual([
		"older",
		"later",
		"older",
	]);
	expect(await found("com.example.none")).toBe(null);
	// The first clean-up counts writes from before this migration; later ones are counted immediately.
	await SECOND_DB.prepare("UPDATE delta_objects SET size_bytes = 4").run();
	await installStorageTriggers({ d1: SECOND_DB });
	await SECOND_DB.prepare(
		"UPDATE bundles SET status = 'ready', object_key = 'older/2', size_bytes = 21 WHERE name = '1.0.1'",
	).run();
	await SECOND_DB.prepare("DELETE FROM delta_objects").run();
	const after = await SECOND_DB.prepare("SELECT storage_bytes FROM apps WHERE id = 'older'").first();
	expect(after).toEqual({ storage_bytes: 121 });
	await SECOND_DB.prepare("UPDATE apps SET storage_bytes = 5 WHERE id = 'older'").run();
	await installStorageTriggers({ d1: SECOND_DB });
	const again = await SECOND_DB.prepare("SELECT storage_bytes FROM apps WHERE id = 'older'").first();
	expect(again, "triggers that are there are left as they are").toEqual({ storage_bytes: 5 });
});
