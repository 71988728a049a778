/**
 * Defects that a review of the first version found, each shown by what it let happen. They stay mended.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { readThenWrite } from "./support/interleave";
import {
	createTestApp,
	createTestKey,
	createWorld,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "./support/world";
import { bundleOf } from "./support/zip";

let world: World;
let app: TestApp;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

const show = async (on: TestApp, channel: string) =>
	(await world.request("GET", "/channel", { key: world.adminKey, query: { app_id: on.appId, channel } })).body;
const check = (on: TestApp, fields: Record<string, unknown>) =>
	world.request("POST", "/updates", {
		body: {
			app_id: on.appId,
			device_id: "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61",
			version_name: "builtin",
			version_build: "1.0.0",
			platform: "android",
			plugin_version: "8.51.23",
			...fields,
		},
	});

describe("keys", () => {
	test("the text of a key that may create organizations is not shown to a manager that may not", async () => {
		const strong = await world.request("POST", "/apikey", {
			key: world.adminKey,
			body: {
				name: "creator",
				hashed: false,
				global_permissions: ["org.create"],
				bindings: [{ role_name: "org_admin", scope_type: "org", org_id: world.orgId }],
			},
		});
		const manager = await createTestKey(world, "org_admin");
		const reveal = (key: string) =>
			world.request("GET", `/apikey/${strong.body.id}`, { key, query: { reveal: "true" } });
		const refused = await reveal(manager.text);
		expect(refused).toMatchObject({ status: 403, body: { moreInfo: { permission: "org.create" } } });
		expect(JSON.stringify(refused.body)).not.toContain(strong.body.key);
		expect((await reveal(world.adminKey)).body.key).toBe(strong.body.key);
	});

	test("a link to upload is worth no more than the key that asked for it", async () => {
		const put = (url: string) =>
			world.request("PUT", url, { rawBody: bundleOf(130), headers: { "content-length": "130" } });
		const registered = async (key: string, version: string) =>
			(await world.request("POST", "/bundle", { key, body: { app_id: app.appId, version } })).body.upload_url;
		const revoked = await createTestKey(world, "app_uploader", app);
		const link = await registered(revoked.text, "1.0.1");
		await world.request("DELETE", `/apikey/${revoked.id}`, { key: world.adminKey });
		expect(await put(link)).toMatchObject({ status: 404, body: { error: "upload_not_found" } });
		const expiring = await createTestKey(world, "app_uploader", app, { expires_at: "2026-11-21T08:00:00.010Z" });
		const late = await registered(expiring.text, "1.0.2");
		world.clock.nowMs += 10;
		expect((await put(late)).status).toBe(404);
		world.clock.nowMs -= 10;
		expect((await put(late)).status).toBe(200);
	});

	test("an unknown key is 401 whatever its body is, and an empty Bearer is no key", async () => {
		const unknown = `${world.adminKey.slice(0, 4)}${"0".repeat(38)}`;
		const broken = { rawBody: "{", headers: { "content-type": "application/json" } };
		expect((await world.request("POST", "/app", { key: unknown, ...broken })).status).toBe(401);
		expect((await world.request("POST", "/app", { key: world.adminKey, ...broken })).status).toBe(400);
		const headers = { authorization: "Bearer ", capgkey: world.adminKey };
		expect((await world.request("GET", "/app", { headers })).status).toBe(200);
	});

	test("a request for a key that names no organization is told which field is missing", async () => {
		expect(await world.request("POST", "/apikey", { key: world.adminKey, body: { name: "x" } })).toMatchObject({
			status: 400,
			body: { moreInfo: { issues: [{ path: "org_id" }] } },
		});
	});
});

describe("races on public channels", () => {
	test("a promotion that read the channel while it was public takes nothing from the one that became public since", async () => {
		const own = await createTestApp(world, "race");
		await uploadTestBundle(world, own, "1.0.1");
		await setTestChannel(world, own, "production", { public: true });
		await setTestChannel(world, own, "other");
		const promote = { app_id: own.appId, channel: "production", version: "1.0.1" };
		const promoted = await readThenWrite(
			world,
			(racing) => racing.request("POST", "/channel", { key: world.adminKey, body: promote }),
			() =>
				world.request("POST", "/channel", {
					key: world.adminKey,
					body: { app_id: own.appId, channel: "other", public: true },
				}),
		);
		expect(promoted.status).toBe(200);
		expect(await show(own, "other")).toMatchObject({ public: true, ios: true, android: true });
	});

	test("two changes of platforms that cross are told so, and neither is an internal error", async () => {
		const own = await createTestApp(world, "cross");
		await setTestChannel(world, own, "production", { public: true, electron: false });
		const off = (platform: string) => ({
			key: world.adminKey,
			body: { app_id: own.appId, channel: "production", [platform]: false },
		});
		const crossed = await readThenWrite(
			world,
			(racing) => racing.request("POST", "/channel", off("ios")),
			() => world.request("POST", "/channel", off("android")),
		);
		expect(crossed).toMatchObject({ status: 409, body: { error: "channel_changed" } });
		expect(await show(own, "production")).toMatchObject({ public: true, ios: true, android: false });
	});
});

describe("devices", () => {
	test("a device whose preview was cleaned up goes home even where the public channel has nothing for it", async () => {
		const own = await createTestApp(world, "home");
		await uploadTestBundle(world, own, "1.0.0");
		await uploadTestBundle(world, own, "1.1.0-pr.5");
		await setTestChannel(world, own, "production", { public: true, version: "1.0.0" });
		const gone = { version_name: "1.1.0-pr.4", version_build: "1.0.5", defaultChannel: "pr-4" };
		expect((await check(own, gone)).body).toEqual({ version: "builtin" });
		expect((await check(own, { ...gone, version_name: "1.1.0-pr.5" })).body.error).toBe(
			"disable_auto_update_under_native",
		);
		await setTestChannel(world, own, "production", { allow_prod: false, version: null });
		expect((await check(own, gone)).body).toEqual({ version: "builtin" });
	});

	test("a bundle that is a manifest alone is not offered to clients that read none", async () => {
		const own = await createTestApp(world, "manifest");
		const path = `orgs/${world.orgId}/apps/${own.appId}/delta/abc_index.html`;
		await world.request("POST", "/files/upload/attachments", {
			key: world.adminKey,
			headers: { "tus-resumable": "1.0.0", "upload-length": "0", "upload-metadata": `filename ${btoa(path)}` },
		});
		const named = { app_id: own.appId, name: "1.0.1" };
		await world.request("POST", "/bundle", { key: world.adminKey, body: { app_id: own.appId, version: "1.0.1" } });
		const manifest = [{ file_name: "index.html", s3_path: path, file_hash: "abc" }];
		await world.request("POST", "/private/set_manifest", { key: world.adminKey, body: { ...named, manifest } });
		await world.request("POST", "/private/finalize_bundle_upload", { key: world.adminKey, body: named });
		await setTestChannel(world, own, "production", { public: true, version: "1.0.1" });
		expect((await check(own, {})).body.manifest).toHaveLength(1);
		for (const client of [{ platform: "electron", plugin_version: "0.0.1" }, { plugin_version: "6.20.0" }]) {
			expect((await check(own, client)).body).toMatchObject({ error: "no_bundle", kind: "failed" });
		}
	});

	test("a native version counts as the version that it means", async () => {
		const own = await createTestApp(world, "native");
		await uploadTestBundle(world, own, "2.0.0");
		await setTestChannel(world, own, "production", { public: true, version: "2.0.0" });
		for (const fields of [{ version_build: "2.0" }, { version_build: "2", version_name: "2" }]) {
			expect((await check(own, fields)).body.error).toBe("no_new_version_available");
		}
	});
});

describe("bundles", () => {
	test("a manifest is set before a channel uses the bundle, once, and never changes", async () => {
		const own = await createTestApp(world, "set-once");
		const ci = await createTestKey(world, "app_preview", own);
		const path = (name: string) => `orgs/${world.orgId}/apps/${own.appId}/delta/abc_${name}`;
		for (const name of ["index.html", "evil.js"]) {
			await world.request("POST", "/files/upload/attachments", {
				key: ci.text,
				headers: { "tus-resumable": "1.0.0", "upload-length": "0", "upload-metadata": `filename ${btoa(path(name))}` },
			});
		}
		const set = (version: string, ...names: string[]) =>
			world.request("POST", "/private/set_manifest", {
				key: ci.text,
				body: {
					app_id: own.appId,
					name: version,
					manifest: names.map((name) => ({ file_name: name, s3_path: path(name), file_hash: "abc" })),
				},
			});
		await uploadTestBundle(world, own, "1.0.1", ci.text);
		expect((await set("1.0.1", "index.html")).status).toBe(200);
		expect((await set("1.0.1", "index.html")).status).toBe(200);
		expect(await set("1.0.1", "index.html", "evil.js")).toMatchObject({
			status: 409,
			body: { error: "bundle_already_ready" },
		});
		expect(await set("1.0.1", "evil.js")).toMatchObject({ status: 422, body: { error: "bundle_invalid" } });
		await uploadTestBundle(world, own, "1.0.2", ci.text);
		await setTestChannel(world, own, "production", { public: true, version: "1.0.2" });
		expect(await set("1.0.2", "index.html")).toMatchObject({ status: 409, body: { error: "bundle_already_ready" } });
		expect((await check(own, {})).body).not.toHaveProperty("manifest");
	});

	test.each(["1.0.0 ", " 1.0.0", "1.0.0\n", "=1.0.0"])("%j is no version", async (version) => {
		expect(
			await world.request("POST", "/bundle", { key: world.adminKey, body: { app_id: app.appId, version } }),
		).toMatchObject({
			status: 400,
			body: { moreInfo: { issues: [{ path: "version" }] } },
		});
	});

	test("promoting the bundle that is rolled out ends the rollout and its pause, in both requests that promote", async () => {
		const own = await createTestApp(world, "rollout");
		const stable = await uploadTestBundle(world, own, "1.0.0");
		const next = await uploadTestBundle(world, own, "1.0.1");
		const ended = { rollout_version: null, rolloutPausedAt: null, rolloutPauseReason: null, rolloutEnabled: false };
		const begin = {
			version: "1.0.0",
			rolloutVersion: "1.0.1",
			rolloutEnabled: true,
			rolloutPaused: true,
			rolloutPauseReason: "bad",
		};
		const channelId = await setTestChannel(world, own, "production", begin);
		await world.request("PUT", "/bundle", {
			key: world.adminKey,
			body: { app_id: own.appId, version_id: next, channel_id: channelId },
		});
		expect(await show(own, "production")).toMatchObject({ ...ended, version: { id: next } });
		await setTestChannel(world, own, "production", begin);
		expect((await show(own, "production")).version.id).toBe(stable);
		await setTestChannel(world, own, "production", { version: "1.0.1" });
		expect(await show(own, "production")).toMatchObject({ ...ended, version: { id: next } });
	});
});

describe("requests", () => {
	test("a field that names the target and has the wrong type is 400, not 404", async () => {
		expect(
			await world.request("POST", "/app", { key: world.adminKey, body: { app_id: 5, name: {}, owner_org: 7 } }),
		).toMatchObject({
			status: 400,
			body: { moreInfo: { issues: [{ path: "app_id" }, { path: "name" }, { path: "owner_org" }] } },
		});
		expect(
			(await world.request("POST", "/channel", { key: world.adminKey, body: { app_id: 5, channel: "x" } })).status,
		).toBe(400);
	});

	test("a day that does not exist is refused", async () => {
		const body = { name: "x", expires_at: "2030-02-31T00:00:00Z" };
		expect(
			await world.request("POST", "/apikey", { key: world.adminKey, query: { org_id: world.orgId }, body }),
		).toMatchObject({
			status: 400,
			body: { moreInfo: { issues: [{ path: "expires_at" }] } },
		});
	});

	test("an unknown parameter may stand twice, a link without its signature is a link that nobody signed", async () => {
		expect((await world.request("GET", "/app?x=1&x=2", { key: world.adminKey })).status).toBe(200);
		expect(await world.request("GET", "/files/download/a/b/object")).toMatchObject({
			status: 403,
			body: { error: "invalid_signature" },
		});
	});

	test("OPTIONS tells what a path takes, and errors of TUS carry its version", async () => {
		const options = await world.request("OPTIONS", "/app");
		expect([options.status, options.headers.get("allow")]).toEqual([204, "GET, POST, HEAD, OPTIONS"]);
		const unversioned = await world.request("GET", `/files/upload/attachments/${crypto.randomUUID()}`, {
			key: world.adminKey,
		});
		expect(unversioned.headers.get("tus-resumable")).toBe("1.0.0");
	});
});
