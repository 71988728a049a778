/**
 * POST /updates on the live route: the answers as stock clients read them, and that one round trip is enough.
 */
import { beforeAll, describe, expect, test } from "vitest";
import {
	createTestApp,
	createWorld,
	setTestChannel,
	sha256Hex,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "./support/world";

let world: World;
let app: TestApp;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	await uploadTestBundle(world, app, "1.0.1");
	await setTestChannel(world, app, "production", { public: true, version: "1.0.1" });
});

const check = (fields: Record<string, unknown> = {}) =>
	world.request("POST", "/updates", {
		body: {
			app_id: app.appId,
			device_id: "B5A3F9D2-6A60-4F2E-9A57-9F1F1F5A2D61",
			version_name: "builtin",
			version_build: "1.0.0",
			platform: "android",
			plugin_version: "8.51.23",
			is_emulator: false,
			is_prod: true,
			...fields,
		},
	});

describe("POST /updates", () => {
	test("a success carries what to download and neither error nor kind, in one round trip", async () => {
		const answer = await check();
		expect(answer).toMatchObject({ status: 200, trips: 1 });
		expect(Object.keys(answer.body).sort()).toEqual(["checksum", "session_key", "url", "version"]);
		const bytes = (await world.request("GET", answer.body.url)).body;
		expect(await sha256Hex(new Uint8Array(bytes))).toBe(answer.body.checksum);
	});

	test("no update carries error, message and kind with HTTP 200", async () => {
		expect(await check({ version_name: "1.0.1" })).toMatchObject({
			status: 200,
			body: { error: "no_new_version_available", kind: "up_to_date", message: expect.any(String) },
		});
	});

	test("an unknown app is told so with HTTP 200 and kind failed", async () => {
		expect(await check({ app_id: "com.nobody.knows" })).toMatchObject({
			status: 200,
			body: { error: "app_not_found", kind: "failed" },
		});
	});

	test("back to the store build is a version alone", async () => {
		await setTestChannel(world, app, "home", { allow_device_self_set: true });
		expect((await check({ defaultChannel: "home", version_name: "1.0.1" })).body).toEqual({ version: "builtin" });
	});

	test("null is absent and unknown fields are ignored, as stock clients send them", async () => {
		const answer = await check({ custom_id: null, defaultChannel: null, key_id: null, something_new: { deep: [1] } });
		expect(answer.body.version).toBe("1.0.1");
	});

	test("a known field of the wrong type is 400 and named", async () => {
		expect(await check({ device_id: "not-a-uuid", is_prod: "yes" })).toMatchObject({
			status: 400,
			body: { error: "invalid_request", moreInfo: { issues: [{ path: "device_id" }, { path: "is_prod" }] } },
		});
	});

	test("a preview reaches the device that names its channel, and nobody else; deleted, the device goes to the public channel", async () => {
		await uploadTestBundle(world, app, "1.1.0-pr.1");
		await setTestChannel(world, app, "pr-1", { version: "1.1.0-pr.1", allow_device_self_set: true });
		expect((await check({ defaultChannel: "pr-1" })).body.version).toBe("1.1.0-pr.1");
		expect((await check()).body.version).toBe("1.0.1");
		await world.request("DELETE", "/channel", {
			key: world.adminKey,
			query: { app_id: app.appId, channel: "pr-1", delete_bundle: "true" },
		});
		expect((await check({ defaultChannel: "pr-1", version_name: "1.1.0-pr.1" })).body.version).toBe("1.0.1");
	});

	test("a change is seen by the very next check", async () => {
		await uploadTestBundle(world, app, "1.0.2");
		await setTestChannel(world, app, "production", { version: "1.0.2" });
		expect((await check()).body.version).toBe("1.0.2");
		await setTestChannel(world, app, "production", { version: "1.0.1" });
		expect((await check()).body.version).toBe("1.0.1");
	});

	test("link and comment are told when the app exposes them and the plugin reads them", async () => {
		await world.request("POST", "/bundle", {
			key: world.adminKey,
			body: { app_id: app.appId, version: "1.0.3", link: "https://example.com/pr/3", comment: "third" },
		});
		const { body } = await world.request("POST", "/bundle", {
			key: world.adminKey,
			body: { app_id: app.appId, version: "1.0.3", link: "https://example.com/pr/3", comment: "third" },
		});
		await world.request("PUT", body.upload_url, { rawBody: "zip", headers: { "content-length": "3" } });
		await setTestChannel(world, app, "notes", { version: "1.0.3", allow_device_self_set: true });
		expect((await check({ defaultChannel: "notes" })).body).not.toHaveProperty("link");
		await world.request("PUT", `/app/${app.appId}`, { key: world.adminKey, body: { expose_metadata: true } });
		expect((await check({ defaultChannel: "notes" })).body).toMatchObject({
			link: "https://example.com/pr/3",
			comment: "third",
		});
		expect((await check({ defaultChannel: "notes", plugin_version: "8.30.0" })).body).not.toHaveProperty("link");
	});

	test("an encrypted bundle goes out as it came in; Electron gets the SHA-256 of the stored bytes and its own spelling", async () => {
		const opaque = "ab".repeat(256);
		const { body } = await world.request("POST", "/bundle", {
			key: world.adminKey,
			body: { app_id: app.appId, version: "1.0.4", checksum: opaque, session_key: "iv:key", key_id: "MIIBCg" },
		});
		await world.request("PUT", body.upload_url, { rawBody: "sealed", headers: { "content-length": "6" } });
		await setTestChannel(world, app, "sealed", { version: "1.0.4", allow_device_self_set: true });
		expect((await check({ defaultChannel: "sealed" })).body).toMatchObject({ checksum: opaque, session_key: "iv:key" });
		const electron = await check({ defaultChannel: "sealed", platform: "electron", plugin_version: "0.0.1" });
		expect(electron.body).toMatchObject({
			checksum: await sha256Hex(new TextEncoder().encode("sealed")),
			session_key: "iv:key",
			sessionKey: "iv:key",
		});
		expect((await check({ defaultChannel: "sealed", key_id: "other" })).body).toMatchObject({
			error: "key_id_mismatch",
			kind: "blocked",
		});
	});

	test("with D1 out of order the answer is 503 with Retry-After, and says nothing of the fault", async () => {
		const broken = await createWorld({
			bindings: {
				d1: {
					withSession: () => ({
						prepare: (text: string) => testEnv.DB.prepare(text),
						batch: async () => {
							throw new Error("D1_ERROR: Network connection lost. secret-host-17");
						},
					}),
				} as unknown as D1Database,
			},
		});
		const answer = await broken.request("POST", "/updates", {
			body: {
				app_id: app.appId,
				device_id: crypto.randomUUID(),
				version_name: "builtin",
				version_build: "1.0.0",
				platform: "ios",
				plugin_version: "8.51.23",
			},
		});
		expect(answer).toMatchObject({ status: 503, body: { error: "service_unavailable" } });
		expect(answer.headers.get("retry-after")).toBe("5");
		expect(JSON.stringify(answer.body)).not.toContain("secret-host");
	});

	test("GET says that checks are answered", async () => {
		expect(await world.request("GET", "/updates")).toMatchObject({ status: 200, body: { status: "ok" } });
	});

	test("every look-up goes by an index, so a check costs the same in a large app", async () => {
		const { checkedApp, checkedChannels, checkedFiles } = await import("../../src/db/updates");
		const statements = [
			checkedApp(app.appId, "1.0.1"),
			checkedChannels(app.appId, "android", "pr-1"),
			checkedFiles(app.appId, "android", "pr-1", "1.0.1"),
		];
		for (const { sql, parameters } of statements) {
			const plan = await testEnv.DB.prepare(`EXPLAIN QUERY PLAN ${sql}`)
				.bind(...parameters)
				.all<{ detail: string }>();
			const scans = plan.results
				.map((row) => row.detail)
				.filter((step) => /^SCAN (?!served|wanted|CONSTANT)/.test(step));
			expect(scans, sql).toEqual([]);
		}
	});
});
