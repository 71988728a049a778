/**
 * Deletion of an app: hidden immediately at any size, restorable for 30 days, its id reserved for
 * its organization. After 30 days the clean-up removes it in bounded steps. A dry run deletes
 * nothing; an endpoint without a dry run refuses the parameter.
 */

import { beforeEach, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import { DAY_MS } from "../../../src/domain/time";
import { runJobs } from "../../../src/schedule";
import { putBytes, register, rows, run, storedKeys } from "../support/bytes";
import { readThenWrite } from "../support/interleave";
import { violations } from "../support/invariants";
import {
	type Answer,
	createTestApp,
	createTestKey,
	createWorld,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";
import { bundleOf } from "../support/zip";

const DAYS = 2_500;
const RESTORABLE_DAYS = 30;
let world: World;
let app: TestApp;

beforeEach(async () => {
	// Deleted apps of other tests would delay this one in the clean-up.
	await run(query.deleteFrom("organizations").where("deleted_at_ms", "is not", null));
	world = await createWorld();
	app = await createTestApp(world);
});

const by = (method: string, path: string, options: object = {}): Promise<Answer<never>> =>
	world.request(method, path, { key: world.adminKey, ...options });
const restore = (key = world.adminKey) => by("POST", "/app/restore", { key, body: { app_id: app.appId } });
const deletedApps = async () => (await by("GET", "/app", { query: { deleted: "true" } })).body as { id: string }[];

const removeApp = (through: Pick<World, "request"> = world) =>
	through.request("DELETE", `/app/${app.appId}`, { key: world.adminKey });

const check = (appId: string) =>
	world.request("POST", "/updates", {
		body: {
			app_id: appId,
			device_id: crypto.randomUUID(),
			platform: "android",
			version_name: "builtin",
			version_build: "1.0.0",
			plugin_version: "8.51.23",
			is_emulator: false,
			is_prod: true,
		},
	});

async function fill(): Promise<void> {
	await uploadTestBundle(world, app, "1.0.1");
	await setTestChannel(world, app, "production", { version: "1.0.1", public: true });
	await testEnv.DB.prepare(
		`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO daily_storage (app_id, day, size_bytes) SELECT ?, 100000 + i, 1 FROM n`,
	)
		.bind(DAYS, app.uuid)
		.run();
}

const countOf = async (table: string) =>
	(
		await testEnv.DB.prepare(`SELECT count(*) AS n FROM ${table} WHERE app_id = ?`)
			.bind(app.uuid)
			.first<{ n: number }>()
	)?.n;

describe("a deleted app", () => {
	test("is hidden from every reader immediately, and the request removes none of its rows", async () => {
		await fill();
		const key = await createTestKey(world, "app_admin", app);
		expect((await check(app.appId)).body).toMatchObject({ version: "1.0.1" });
		expect(await removeApp()).toMatchObject({ status: 200, body: { status: "ok" }, trips: 2 });
		expect([await countOf("daily_storage"), await countOf("channels"), await countOf("bundles")]).toEqual([DAYS, 1, 1]);

		for (const named of [app.appId, app.uuid]) {
			for (const [method, path] of [
				["GET", `/app/${named}`],
				["GET", `/app/${named}/audit`],
				["GET", `/statistics/app/${named}`],
				["DELETE", `/app/${named}`],
			] as const) {
				expect(await by(method, path), `${method} ${path}`).toMatchObject({ status: 404 });
				expect(await by(method, path, { key: key.text }), `${method} ${path}`).toMatchObject({ status: 404 });
			}
			for (const path of ["/channel", "/bundle", "/device"]) {
				const { status } = await by("GET", path, { query: { app_id: named } });
				expect({ path, status }).toEqual({ path, status: 404 });
			}
			expect((await check(named)).body).not.toHaveProperty("version");
		}
		expect((await by("GET", "/app")).body).toEqual([]);
		// The binding is kept for a restoration, and shows its app.
		expect((await by("GET", `/apikey/${key.id}`)).body).toMatchObject({ bindings: [{ app_id: app.uuid }] });
		expect((await by("GET", "/app", { key: key.text })).body).toEqual([]);
		expect((await by("GET", `/organization`)).body).toHaveLength(1);
		const announced = await by("DELETE", "/organization", { query: { orgId: world.orgId, dry_run: "true" } });
		expect(announced.body).toMatchObject({ removes: { apps: 0, channels: 0, bundles: 0, bundle_bytes: 0 } });
		const log = await by("GET", "/organization/audit", { query: { orgId: world.orgId, action: "app.delete" } });
		expect(log.body).toMatchObject([{ target: { id: app.uuid, name: app.appId }, before: { channel_count: 1 } }]);
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("leaves its id to its organization, and none of its data to a new app with the id", async () => {
		await fill();
		const bound = await createTestKey(world, "app_admin", app);
		await removeApp();
		const body = { app_id: app.appId, name: "again", owner_org: world.orgId };
		const again = await by("POST", "/app", { body });
		expect(again).toMatchObject({ status: 201 });
		expect((await check(app.appId)).body).toMatchObject({ error: "no_channel" });
		for (const path of ["/channel", "/bundle", "/device"]) {
			expect((await by("GET", path, { query: { app_id: app.appId } })).body).toEqual([]);
			expect(await by("GET", path, { key: bound.text, query: { app_id: app.appId } })).toMatchObject({ status: 404 });
		}
		expect(await restore()).toMatchObject({
			status: 409,
			body: { error: "app_id_already_exists", message: expect.stringContaining("delete that app first") },
		});
		expect(await removeApp()).toMatchObject({ status: 200 });
		expect((await deletedApps()).map(({ id }: { id: string }) => id).sort()).toEqual(
			[app.uuid, (again.body as { id: string }).id].sort(),
		);
		const first = { app_id: app.appId, id: app.uuid };
		expect(await by("POST", "/app/restore", { body: first })).toMatchObject({ status: 200 });
		expect((await check(app.appId)).body).toMatchObject({ version: "1.0.1" });
	});

	test("has an id that only administrators may give to a new app", async () => {
		const member = await createTestKey(world, "org_member");
		const create = (appId: string, key = member.text, via: Pick<World, "request"> = world) =>
			via.request("POST", "/app", { key, body: { app_id: appId, name: "taken", owner_org: world.orgId } });
		const refused = {
			status: 409,
			body: { error: "app_id_already_exists", message: expect.stringContaining("Ask an administrator") },
		};
		const answer = await readThenWrite(
			world,
			(via) => create(app.appId, member.text, via),
			() => removeApp(),
		);
		expect(answer, "deleted at the same moment").toMatchObject(refused);
		for (const appId of [app.appId, app.appId.toUpperCase()]) expect(await create(appId)).toMatchObject(refused);
		expect(await create(`${app.appId}.other`), "a new id").toMatchObject({ status: 201 });
		const admin = await createTestKey(world, "org_admin");
		expect(await create(app.appId, admin.text), "the control").toMatchObject({ status: 201 });
	});

	test("has an id that no other organization can take, in any case, before and after its permanent removal", async () => {
		const stranger = await createWorld();
		const take = (appId: string, owner = stranger) =>
			owner.request("POST", "/app", {
				key: owner.adminKey,
				body: { app_id: appId, name: "take-over", owner_org: owner.orgId },
			});
		const isRefused = async () => {
			for (const appId of [app.appId, app.appId.toUpperCase()]) {
				expect(await take(appId)).toMatchObject({ status: 409, body: { error: "app_id_already_exists" } });
			}
		};
		await isRefused();
		await removeApp();
		await isRefused();
		world.clock.nowMs += RESTORABLE_DAYS * DAY_MS;
		await runJobs(world.deps);
		expect(await rows(query.selectFrom("apps").select("id").where("id", "=", app.uuid))).toEqual([]);
		await isRefused();
		expect(await take(app.appId, world)).toMatchObject({ status: 201 });
	});

	test("has an id that stays reserved when its organization is removed permanently", async () => {
		const stranger = await createWorld();
		await by("DELETE", "/organization", { query: { orgId: world.orgId } });
		world.clock.nowMs += RESTORABLE_DAYS * DAY_MS;
		await runJobs(world.deps);
		expect(await rows(query.selectFrom("organizations").select("id").where("id", "=", world.orgId))).toEqual([]);
		const body = { app_id: app.appId, name: "take-over", owner_org: stranger.orgId };
		expect(await stranger.request("POST", "/app", { key: stranger.adminKey, body })).toMatchObject({ status: 409 });
	});

	test("has an id that its organization can release, which ends the restoration", async () => {
		const stranger = await createWorld();
		const of = { query: { app_id: app.appId } };
		const release = (key: string, more: object = {}) =>
			by("DELETE", "/app/reservation", { key, query: { ...of.query, ...more } });
		expect(await release(world.adminKey), "while the app is there").toMatchObject({ status: 404 });
		await removeApp();
		const list = () => by("GET", "/app/reservation", { query: { orgId: world.orgId } });
		expect((await list()).body).toMatchObject([{ app_id: app.appId, restorable_until: "2026-12-21T08:00:00.000Z" }]);
		for (const key of [stranger.adminKey, (await createTestKey(world, "org_member")).text]) {
			expect((await release(key)).status).toBeGreaterThanOrEqual(403);
		}
		expect(await release(world.adminKey, { dry_run: "true" })).toMatchObject({
			status: 200,
			body: { dry_run: true, removes: { deleted_apps: 1 } },
		});
		expect((await list()).body).toHaveLength(1);
		expect(await release(world.adminKey)).toMatchObject({ status: 200, trips: 2 });
		expect((await list()).body).toEqual([]);
		expect(await restore()).toMatchObject({ status: 404 });
		const body = { app_id: app.appId, name: "taken", owner_org: stranger.orgId };
		expect(await stranger.request("POST", "/app", { key: stranger.adminKey, body })).toMatchObject({ status: 201 });
		await runJobs(world.deps);
		expect(await rows(query.selectFrom("apps").select("id").where("id", "=", app.uuid))).toEqual([]);
	});

	test("can be restored for 30 days with channels, bundles, devices, keys and history", async () => {
		await fill();
		const key = await createTestKey(world, "app_developer", app);
		const before = await by("GET", "/bundle", { query: { app_id: app.appId } });
		await removeApp();
		world.clock.nowMs += RESTORABLE_DAYS * DAY_MS - 1;
		await runJobs(world.deps);
		expect(await by("GET", "/channel", { key: key.text, query: { app_id: app.appId } })).toMatchObject({ status: 404 });
		expect(await deletedApps()).toMatchObject([
			{ id: app.uuid, app_id: app.appId, owner_org: world.orgId, restorable_until: "2026-12-21T08:00:00.000Z" },
		]);
		expect(await restore()).toMatchObject({ status: 200, body: { status: "ok" }, trips: 2 });
		expect((await check(app.appId)).body).toMatchObject({ version: "1.0.1" });
		expect(await by("GET", "/channel", { key: key.text, query: { app_id: app.appId } })).toMatchObject({
			body: [{ name: "production" }],
		});
		const after = await by("GET", "/bundle", { query: { app_id: app.appId } });
		expect((after.body as unknown[]).length).toBe((before.body as unknown[]).length);
		// The clean-up adds today.
		expect(await countOf("daily_storage")).toBe(DAYS + 1);
		expect((await by("GET", "/app")).body).toMatchObject([{ id: app.uuid, app_id: app.appId }]);
		expect(await deletedApps()).toEqual([]);
		expect((await by("GET", "/app/reservation", { query: { orgId: world.orgId } })).body).toEqual([]);
		const log = await by("GET", `/app/${app.appId}/audit`);
		expect((log.body as { action: string }[]).map(({ action }) => action)).toEqual(
			expect.arrayContaining(["app.restore", "app.delete", "app.create"]),
		);
		await runJobs(world.deps);
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("cannot be restored after 30 days, by a stranger, or by a role that may not delete it", async () => {
		const stranger = await createWorld();
		const developer = await createTestKey(world, "app_developer", app);
		const admin = await createTestKey(world, "app_admin", app);
		const expired = await createTestKey(world, "app_admin", app);
		await run(query.updateTable("api_keys").set({ expires_at_ms: 1 }).where("id", "=", expired.id));
		await removeApp();
		for (const key of [stranger.adminKey, developer.text, expired.text]) {
			expect((await restore(key)).status).toBeGreaterThanOrEqual(401);
			expect(await by("GET", "/app", { key, query: { deleted: "true" } })).not.toMatchObject({
				body: [{ app_id: app.appId }],
			});
		}
		expect(await restore(admin.text), "the control").toMatchObject({ status: 200 });
		await removeApp();
		world.clock.nowMs += RESTORABLE_DAYS * DAY_MS;
		expect(await restore()).toMatchObject({ status: 404, body: { error: "app_not_found" } });
	});

	test("leaves no organization that can be restored", async () => {
		await removeApp();
		const [grave] = await rows(query.selectFrom("apps").select("owner_org").where("id", "=", app.uuid));
		const orgId = grave?.owner_org ?? "";
		expect(orgId).not.toBe(world.orgId);
		expect(await by("POST", "/organization/restore", { body: { orgId } })).toMatchObject({ status: 404 });
		expect(await by("GET", "/organization", { query: { orgId } })).toMatchObject({ status: 404 });
		expect((await by("GET", "/organization", { query: { deleted: "true" } })).body).toEqual([]);
	});

	test("is restored once, and never beside a new app with its id", async () => {
		await removeApp();
		const body = { app_id: app.appId, name: "again", owner_org: world.orgId };
		const late = await readThenWrite(
			world,
			(racing) => racing.request("POST", "/app/restore", { key: world.adminKey, body: { app_id: app.appId } }),
			() => by("POST", "/app", { body }),
		);
		expect(late).toMatchObject({ status: 409, body: { error: "app_id_already_exists" } });
		await removeApp();
		const answers = await Promise.all(Array.from({ length: 5 }, () => restore()));
		expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
		expect(await rows(query.selectFrom("apps").select("id").where("app_id", "=", app.appId))).toHaveLength(1);
	});

	test("is removed by the clean-up in steps of a thousand rows, with its objects", async () => {
		await fill();
		await createTestKey(world, "app_admin", app);
		await removeApp();
		world.clock.nowMs += RESTORABLE_DAYS * DAY_MS;
		const batches: number[] = [];
		const d1 = {
			withSession(constraint: D1SessionConstraint) {
				const session = testEnv.DB.withSession(constraint);
				return {
					prepare: (text: string) => session.prepare(text),
					async batch(statements: D1PreparedStatement[]) {
						const before = (await countOf("daily_storage")) ?? 0;
						const results = await session.batch(statements);
						batches.push(before - ((await countOf("daily_storage")) ?? 0));
						return results;
					},
				};
			},
		} as unknown as D1Database;
		await runJobs({ ...world.deps, d1 });
		expect(batches.filter((removed) => removed > 0)).toEqual([1000, 1000, 500]);
		expect(await rows(query.selectFrom("apps").select("id").where("id", "=", app.uuid))).toEqual([]);
		expect(await rows(query.selectFrom("organizations").select("id").where("name", "=", "Deleted app"))).toEqual([]);
		expect(await storedKeys(`${app.uuid}/`)).toEqual([]);
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("accepts no upload that arrives during its deletion", async () => {
		const registered = await register(world, app, "2.0.0", world.adminKey);
		const answer = await readThenWrite(
			world,
			(racing) => putBytes(racing, registered.body.upload_url, bundleOf(130)),
			removeApp,
		);
		expect(answer).toMatchObject({ status: 404, body: { error: "upload_not_found" } });
		expect(await rows(query.selectFrom("bundles").select("status").where("app_id", "=", app.uuid))).toEqual([
			{ status: "pending" },
		]);
		expect(await putBytes(world, registered.body.upload_url, new Uint8Array(1))).toMatchObject({ status: 404 });
		world.clock.nowMs += RESTORABLE_DAYS * DAY_MS;
		await runJobs(world.deps);
		world.clock.nowMs += 2 * DAY_MS;
		await runJobs(world.deps);
		expect(await storedKeys(`${app.uuid}/`)).toEqual([]);
	});
});
