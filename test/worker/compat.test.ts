/**
 * The stock CLI's own requests where the CLI itself cannot show it: shapes that are not on the list, the mark between the two calls of
 * its clean-up, registrations, and what a preview key is told.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { openDb, query } from "../../src/db/client";
import { sweep } from "../../src/events/sweep";
import {
	createTestApp,
	createTestKey,
	createWorld,
	NOW_MS,
	setTestChannel,
	type TestApp,
	type TestKey,
	testEnv,
	uploadTestBundle,
	type World,
} from "./support/world";

const PREFIX = "/compat/capgo-cli/rest/v1";
let world: World;
let app: TestApp;
let ci: TestKey;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	ci = await createTestKey(world, "app_preview", app);
});

const channels = (parameters: Record<string, string>, headers: Record<string, string> = {}) =>
	world.request("GET", `${PREFIX}/channels`, {
		key: world.adminKey,
		query: { app_id: `eq.${app.appId}`, ...parameters },
		headers,
	});
const markDeleted = (version: string, deleted: boolean, key: string = world.adminKey) =>
	world.request("PATCH", `${PREFIX}/app_versions`, {
		key,
		query: { app_id: `eq.${app.appId}`, deleted: "eq.false", name: `eq.${version}` },
		body: { deleted },
	});
const versions = async () =>
	(await world.request("GET", "/bundle", { key: world.adminKey, query: { app_id: app.appId } })).body.map(
		(bundle: { name: string }) => bundle.name,
	);
const served = async (defaultChannel: string) =>
	(
		await world.request("POST", "/updates", {
			body: {
				app_id: app.appId,
				device_id: crypto.randomUUID(),
				version_name: "builtin",
				version_build: "1.0.0",
				platform: "android",
				plugin_version: "8.51.23",
				defaultChannel,
			},
		})
	).body.version;

describe("table-shaped reads", () => {
	test("a known shape is answered as an array, or as the one object that is asked for", async () => {
		const id = await setTestChannel(world, app, "shape");
		expect((await channels({ select: "id, version", name: "eq.shape" })).body).toEqual([{ id, version: null }]);
		const single = { accept: "application/vnd.pgrst.object+json" };
		expect((await channels({ select: "id,version", name: "eq.shape" }, single)).body).toEqual({ id, version: null });
		expect(await channels({ select: "id,version", name: "eq.nowhere" }, single)).toMatchObject({
			status: 406,
			body: { code: "PGRST116" },
		});
	});

	test.each<[string, Record<string, string>]>([
		["another select", { select: "id,created_by_key" }],
		["every column of another table", { select: "*,app_versions(*)" }],
		["a prototype", { select: "__proto__" }],
		["another operator", { select: "id", name: "like.*" }],
		["another or", { select: "id", or: "(public.eq.true,id.gt.0)" }],
	])("%s is refused", async (_, parameters) => {
		expect(await channels(parameters)).toMatchObject({ status: 400, body: { error: "invalid_request" } });
	});
});

describe("permission questions", () => {
	const ask = async (key: string, permission_key: string, more: Record<string, unknown> = {}) =>
		(
			await world.request("POST", `${PREFIX}/rpc/cli_check_permission`, {
				key,
				body: { apikey: key, permission_key, org_id: null, app_id: app.appId, channel_id: null, ...more },
			})
		).body;

	test("a preview key is told what it may do, and that it may not delete bundles, so that the CLI cleans up in one call", async () => {
		const own = (
			await world.request("POST", "/channel", { key: ci.text, body: { app_id: app.appId, channel: "asked" } })
		).body.id;
		const foreign = await setTestChannel(world, app, "foreign");
		expect(await ask(ci.text, "app.upload_bundle")).toBe(true);
		expect(await ask(ci.text, "app.read_channels")).toBe(true);
		expect(await ask(ci.text, "bundle.delete")).toBe(false);
		expect(await ask(ci.text, "channel.delete", { channel_id: own })).toBe(true);
		expect(await ask(ci.text, "channel.delete", { channel_id: foreign })).toBe(false);
		expect(await ask(ci.text, "channel.update_settings", { channel_id: own })).toBe(false);
	});

	test("an unknown name, an unknown app and another organization are denied", async () => {
		expect(await ask(world.adminKey, "app.everything")).toBe(false);
		expect(await ask(world.adminKey, "toString")).toBe(false);
		expect(await ask(world.adminKey, "app.read", { app_id: "com.not.there" })).toBe(false);
		const other = await createWorld();
		expect(await ask(other.adminKey, "app.read")).toBe(false);
		expect(await ask(world.adminKey, "org.create_app", { app_id: null, org_id: world.orgId })).toBe(true);
	});
});

describe("the two calls of an administrator's clean-up", () => {
	test("between them the bundle is marked and devices keep it; the second call ends where the one atomic call ends", async () => {
		await uploadTestBundle(world, app, "1.0.1");
		await setTestChannel(world, app, "two-calls", { version: "1.0.1", allow_device_self_set: true });
		expect((await markDeleted("1.0.1", true)).status).toBe(204);
		expect(await served("two-calls")).toBe("1.0.1");
		const deleted = await world.request("DELETE", "/channel", {
			key: world.adminKey,
			body: { app_id: app.appId, channel: "two-calls", delete_bundle: false },
		});
		expect(deleted.status).toBe(200);
		expect(await versions()).not.toContain("1.0.1");
		await uploadTestBundle(world, app, "1.0.1");
	});

	test("a mark that is taken back leaves the bundle when its channel goes", async () => {
		await uploadTestBundle(world, app, "1.0.2");
		await setTestChannel(world, app, "taken-back", { version: "1.0.2" });
		await markDeleted("1.0.2", true);
		expect((await markDeleted("1.0.2", false)).status).toBe(204);
		await world.request("DELETE", "/channel", {
			key: world.adminKey,
			query: { app_id: app.appId, channel: "taken-back" },
		});
		expect(await versions()).toContain("1.0.2");
	});

	test("a marked bundle that another channel uses stays with it", async () => {
		await uploadTestBundle(world, app, "1.0.3");
		await setTestChannel(world, app, "first", { version: "1.0.3" });
		await setTestChannel(world, app, "second", { version: "1.0.3" });
		await markDeleted("1.0.3", true);
		await world.request("DELETE", "/channel", { key: world.adminKey, query: { app_id: app.appId, channel: "first" } });
		expect(await versions()).toContain("1.0.3");
		await world.request("DELETE", "/channel", { key: world.adminKey, query: { app_id: app.appId, channel: "second" } });
		expect(await versions()).not.toContain("1.0.3");
	});

	test("a mark whose second call never comes is taken back by the sweep", async () => {
		await uploadTestBundle(world, app, "1.0.4");
		await setTestChannel(world, app, "abandoned", { version: "1.0.4" });
		await markDeleted("1.0.4", true);
		world.clock.nowMs = NOW_MS + 2 * 60 * 60 * 1000;
		await sweep(world.deps);
		world.clock.nowMs = NOW_MS;
		await world.request("DELETE", "/channel", {
			key: world.adminKey,
			query: { app_id: app.appId, channel: "abandoned" },
		});
		expect(await versions()).toContain("1.0.4");
	});

	test("an unlinked bundle is deleted at once, and a key without bundle.delete changes nothing", async () => {
		await uploadTestBundle(world, app, "1.0.5", ci.text);
		expect((await markDeleted("1.0.5", true, ci.text)).status).toBe(403);
		expect(await versions()).toContain("1.0.5");
		await markDeleted("1.0.5", true);
		expect(await versions()).not.toContain("1.0.5");
	});
});

describe("registrations", () => {
	const upsert = (body: Record<string, unknown>, key: string) =>
		world.request("POST", `${PREFIX}/app_versions`, {
			key,
			query: { on_conflict: "name,app_id", app_id: `eq.${app.appId}` },
			body: { app_id: app.appId, storage_provider: "r2-direct", ...body },
		});

	test("a second upsert after the upload changes nothing, neither the creator nor the manifest", async () => {
		expect((await upsert({ name: "2.0.0", checksum: "ab".repeat(32) }, ci.text)).status).toBe(201);
		const link = await world.request("POST", "/files/upload_link", {
			key: ci.text,
			body: { app_id: app.appId, name: "2.0.0" },
		});
		const wrong = await world.request("PUT", link.body.url, { rawBody: "bytes", headers: { "content-length": "5" } });
		expect(wrong).toMatchObject({ status: 400, body: { error: "checksum_mismatch" } });
		await uploadTestBundle(world, app, "2.0.0", ci.text);
		expect((await upsert({ name: "2.0.0", storage_provider: "r2", manifest: null }, ci.text)).status).toBe(201);
		expect((await upsert({ name: "2.0.0", storage_provider: "r2", manifest: null }, world.adminKey)).status).toBe(403);
		const [row] = (
			await openDb(testEnv.DB, "first-primary").batch([
				query
					.selectFrom("bundles")
					.select(["created_by_key", "status"])
					.where("app_id", "=", app.uuid)
					.where("name", "=", "2.0.0")
					.compile(),
			])
		)[0].rows;
		expect(row).toEqual({ created_by_key: ci.id, status: "ready" });
	});

	test("an upload that failed is taken back by its own key, and by no other", async () => {
		await upsert({ name: "2.0.1" }, ci.text);
		const takeBack = (key: string) =>
			world.request("DELETE", "/private/delete_failed_version", { key, body: { app_id: app.appId, name: "2.0.1" } });
		expect((await takeBack(world.adminKey)).status).toBe(403);
		expect((await takeBack(ci.text)).status).toBe(200);
		expect((await upsert({ name: "2.0.1" }, world.adminKey)).status).toBe(201);
	});

	test("a manifest with a path out of the bundle, a repeated file or none at all is refused", async () => {
		await upsert({ name: "2.0.2" }, ci.text);
		const set = (manifest: unknown) =>
			world.request("POST", "/private/set_manifest", {
				key: ci.text,
				body: { app_id: app.appId, name: "2.0.2", manifest },
			});
		const file = (file_name: string) => ({ file_name, s3_path: "orgs/x", file_hash: "ab" });
		for (const name of ["../../etc/passwd", "/etc/passwd", "a/../../b", "C:\\x"]) {
			expect(await set([file(name)]), name).toMatchObject({
				status: 400,
				body: { moreInfo: { issues: [{ path: "manifest.0.file_name" }] } },
			});
		}
		expect((await set([file("a"), file("a")])).status).toBe(400);
		expect((await set([])).status).toBe(400);
		expect(await set([file("a")])).toMatchObject({ status: 400, body: { error: "missing_delta_files" } });
	});
});
