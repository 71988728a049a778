/**
 * Deleting an app: it is gone for everyone at once, however large it is, and its name is free; the sweep removes what it leaves behind in
 * bounded steps. A dry run of a deletion deletes nothing, and where there is none, asking for one is refused.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { allEndpoints } from "../../src/app";
import { query } from "../../src/db/client";
import { collectGarbage, sweep } from "../../src/events/sweep";
import { downloadUrl, putBytes, register, rows, run, storedKeys } from "./support/bytes";
import { databaseText } from "./support/database-text";
import { readThenWrite } from "./support/interleave";
import { violations } from "./support/invariants";
import { REQUESTS } from "./support/requests";
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
} from "./support/world";
import { bundleOf, testBundle } from "./support/zip";

const DEVICES = 2_500;

let world: World;
let app: TestApp;
beforeEach(async () => {
	// What other tests deleted would take its turn in the sweep.
	await run(query.deleteFrom("organizations").where("deleted_at_ms", "is not", null));
	world = await createWorld();
	app = await createTestApp(world);
});

const by = (method: string, path: string, options: object = {}): Promise<Answer<never>> =>
	world.request(method, path, { key: world.adminKey, ...options });
const removeApp = (through: Pick<World, "request"> = world) =>
	through.request("DELETE", `/app/${app.appId}`, { key: world.adminKey });
const check = (appId: string) =>
	world.request("POST", "/updates", {
		body: {
			...{ app_id: appId, device_id: crypto.randomUUID(), platform: "android", version_name: "builtin" },
			...{ version_build: "1.0.0", plugin_version: "8.51.23", is_emulator: false, is_prod: true },
		},
	});

async function fill(): Promise<void> {
	await uploadTestBundle(world, app, "1.0.1");
	await setTestChannel(world, app, "production", { version: "1.0.1", public: true });
	await testEnv.DB.prepare(
		`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO devices (app_id, device_id, created_at_ms, updated_at_ms) SELECT ?, 'device-' || i, 0, 0 FROM n`,
	)
		.bind(DEVICES, app.uuid)
		.run();
}

const countOf = async (table: string) =>
	(
		await testEnv.DB.prepare(`SELECT count(*) AS n FROM ${table} WHERE app_id = ?`)
			.bind(app.uuid)
			.first<{ n: number }>()
	)?.n;

describe("an app that is deleted", () => {
	test("is gone for every reader at once, and none of its rows is removed in the request", async () => {
		await fill();
		const key = await createTestKey(world, "app_admin", app);
		expect((await check(app.appId)).body).toMatchObject({ version: "1.0.1" });
		expect(await removeApp()).toMatchObject({ status: 200, body: { status: "ok" }, trips: 2 });
		expect([await countOf("devices"), await countOf("channels"), await countOf("bundles")]).toEqual([DEVICES, 1, 1]);

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
		expect((await by("GET", `/apikey/${key.id}`)).body).toMatchObject({ bindings: [] });
		expect((await by("GET", `/organization`)).body).toHaveLength(1);
		const announced = await by("DELETE", "/organization", { query: { orgId: world.orgId, dry_run: "true" } });
		expect(announced.body).toMatchObject({ removes: { apps: 0, channels: 0, bundles: 0, bundle_bytes: 0 } });
		const log = await by("GET", "/organization/audit", { query: { orgId: world.orgId, action: "app.delete" } });
		expect(log.body).toMatchObject([{ target: { id: app.uuid, name: app.appId }, before: { channel_count: 1 } }]);
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("leaves its name free at once, and nothing of it to the app that takes the name", async () => {
		await fill();
		await removeApp();
		const body = { app_id: app.appId, name: "again", owner_org: world.orgId };
		const again = await by("POST", "/app", { body });
		expect(again).toMatchObject({ status: 201 });
		expect((await check(app.appId)).body).toMatchObject({ error: "no_channel" });
		for (const path of ["/channel", "/bundle", "/device"]) {
			expect((await by("GET", path, { query: { app_id: app.appId } })).body).toEqual([]);
		}
		expect(await removeApp()).toMatchObject({ status: 200 });
		await sweep(world.deps);
		expect(await rows(query.selectFrom("apps").select("id").where("owner_org", "=", world.orgId))).toEqual([]);
	});

	test("can be restored by nobody", async () => {
		await removeApp();
		const [grave] = await rows(query.selectFrom("apps").select("owner_org").where("id", "=", app.uuid));
		const orgId = grave?.owner_org ?? "";
		expect(orgId).not.toBe(world.orgId);
		expect(await by("POST", "/organization/restore", { body: { orgId } })).toMatchObject({ status: 404 });
		expect(await by("GET", "/organization", { query: { orgId } })).toMatchObject({ status: 404 });
	});

	test("is removed by the sweep in steps of a thousand rows, and so are its objects", async () => {
		await fill();
		await removeApp();
		const batches: number[] = [];
		const d1 = {
			withSession(constraint: D1SessionConstraint) {
				const session = testEnv.DB.withSession(constraint);
				return {
					prepare: (text: string) => session.prepare(text),
					async batch(statements: D1PreparedStatement[]) {
						const before = (await countOf("devices")) ?? 0;
						const results = await session.batch(statements);
						batches.push(before - ((await countOf("devices")) ?? 0));
						return results;
					},
				};
			},
		} as unknown as D1Database;
		await sweep({ ...world.deps, d1 });
		expect(batches.filter((removed) => removed > 0)).toEqual([1000, 1000, 500]);
		expect(await rows(query.selectFrom("apps").select("id").where("id", "=", app.uuid))).toEqual([]);
		expect(await rows(query.selectFrom("organizations").select("id").where("name", "=", "Deleted app"))).toEqual([]);
		expect(await storedKeys(`${app.uuid}/`)).toEqual([]);
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("stops its download links when its objects are let go of, without waiting for its rows", async () => {
		await fill();
		const [bundle] = await rows(query.selectFrom("bundles").select("object_key").where("app_id", "=", app.uuid));
		const url = downloadUrl(world, bundle?.object_key ?? "");
		expect(await world.request("GET", url)).toMatchObject({ status: 200, trips: 0 });
		await removeApp();
		expect(world.deps.sent).toContainEqual({ kind: "collect_garbage" });
		await collectGarbage(world.deps);
		expect(await world.request("GET", url)).toMatchObject({ status: 404, body: { error: "not_found" } });
		expect(await countOf("devices")).toBe(DEVICES);
	});

	test("takes no upload that came in while it was deleted", async () => {
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
		await sweep(world.deps);
		world.clock.nowMs += 2 * 86_400_000;
		await sweep(world.deps);
		expect(await storedKeys(`${app.uuid}/`)).toEqual([]);
	});
});

describe("a dry run", () => {
	test("of the deletion of an app tells what would go, and deletes nothing", async () => {
		await fill();
		await createTestKey(world, "app_reader", app);
		const before = await databaseText();
		expect(await by("DELETE", `/app/${app.appId}`, { query: { dry_run: "true" } })).toMatchObject({
			status: 200,
			body: {
				...{ status: "ok", dry_run: true, id: app.uuid, app_id: app.appId },
				removes: { channels: 1, bundles: 1, bundle_bytes: testBundle("1.0.1").length, api_key_bindings: 1 },
			},
		});
		expect(await databaseText()).toBe(before);
		expect(await by("DELETE", `/app/${app.appId}`, { query: { dry_run: "false" } })).toMatchObject({
			status: 200,
			body: { status: "ok" },
		});
		expect(await by("GET", `/app/${app.appId}`)).toMatchObject({ status: 404 });
	});

	test("of the deletion of a key tells what it holds, and deletes nothing", async () => {
		const key = await createTestKey(world, "app_reader", app);
		const before = await databaseText();
		const dry = await by("DELETE", `/apikey/${key.id}`, { query: { dry_run: "true" } });
		expect(dry).toMatchObject({
			status: 200,
			body: { status: "ok", dry_run: true, id: key.id, name: "app_reader", removes_key: true },
		});
		expect(dry.body).toMatchObject({ bindings: [{ role_name: "app_reader", app_id: app.uuid }] });
		expect(await databaseText()).toBe(before);
		expect(await by("DELETE", `/apikey/${world.adminKeyId}`, { query: { dry_run: "true" } })).toMatchObject({
			status: 409,
			body: { error: "cannot_delete_own_api_key" },
		});
		expect(await by("DELETE", `/apikey/${key.id}`)).toMatchObject({ status: 200, body: { status: "ok" } });
	});

	const offered = (schema: unknown) =>
		Object.hasOwn((schema as { entries?: object } | undefined)?.entries ?? {}, "dry_run");
	// Those for a person's own session are refused to a key before their fields are looked at.
	const without = allEndpoints.filter(
		({ method, access, query: inQuery, body }) =>
			method !== "GET" && !("public" in access || "ownSession" in access) && !offered(inQuery) && !offered(body),
	);
	test.each(without.map(({ method, path }) => `${method} ${path}`))(
		"is refused by %s, which has none, before anything is done",
		async (name) => {
			const { path, thing: _, ...request } = (await REQUESTS[name]?.(world, app)) ?? { path: "" };
			const before = await databaseText();
			const asked = { ...request, query: { ...request.query, dry_run: "true" } };
			const { status, body } = await world.request(name.split(" ")[0] ?? "", path, { key: world.adminKey, ...asked });
			expect({ status, error: body.error }).toEqual({ status: 400, error: "invalid_request" });
			expect(body.moreInfo.issues).toContainEqual(expect.objectContaining({ path: "dry_run" }));
			expect(await databaseText()).toBe(before);
		},
	);

	test("is offered by every deletion that takes more than one thing along", () => {
		const deletions = allEndpoints.filter(({ method, query: inQuery }) => method === "DELETE" && offered(inQuery));
		expect(deletions.map(({ path }) => path).sort()).toEqual([
			"/account",
			"/apikey/:id",
			"/app/:app_id",
			"/bundle",
			"/channel",
			"/organization",
			"/organization/members",
		]);
	});
});
