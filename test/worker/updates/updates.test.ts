/**
 * POST /updates on the live route: the answers as stock clients read them, and that one round trip
 * is enough.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { addTestFiles } from "../support/delta-files";
import {
	changedElsewhere,
	createTestApp,
	createWorld,
	setTestChannel,
	sha256Hex,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";
import { bundleOf } from "../support/zip";

let world: World;
let app: TestApp;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	await uploadTestBundle(world, app, "1.0.1");
	await setTestChannel(world, app, "production", { public: true, version: "1.0.1" });
});

const check = (fields: Record<string, unknown> = {}, through: World = world) =>
	through.request("POST", "/updates", {
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

const addFiles = (bundleId: number, names: readonly string[]) => addTestFiles(app, bundleId, names);

/** The database as it is, with the text of every statement noted. */
function recordingD1(prepared: string[]): D1Database {
	return {
		withSession: (constraint: string) => {
			const session = testEnv.DB.withSession(constraint);
			return {
				prepare: (text: string) => {
					prepared.push(text);
					return session.prepare(text);
				},
				batch: (statements: D1PreparedStatement[]) => session.batch(statements),
			};
		},
	} as unknown as D1Database;
}

describe("POST /updates", () => {
	test("answers a success with a download and neither error nor kind, in one round trip", async () => {
		const answer = await check();
		expect(answer).toMatchObject({ status: 200, trips: 1 });
		expect(Object.keys(answer.body).sort()).toEqual(["checksum", "session_key", "url", "version"]);
		const bytes = (await world.request("GET", answer.body.url)).body;
		expect(await sha256Hex(new Uint8Array(bytes))).toBe(answer.body.checksum);
	});

	test("answers no update with error, message and kind, and HTTP 200", async () => {
		expect(await check({ version_name: "1.0.1" })).toMatchObject({
			status: 200,
			body: { error: "no_new_version_available", kind: "up_to_date", message: expect.any(String) },
		});
	});

	test("answers an unknown app with HTTP 200 and kind failed", async () => {
		expect(await check({ app_id: "com.nobody.knows" })).toMatchObject({
			status: 200,
			body: { error: "app_not_found", kind: "failed" },
		});
	});

	test("answers a revert to the store build with only a version", async () => {
		await setTestChannel(world, app, "home", { allow_device_self_set: true });
		expect((await check({ defaultChannel: "home", version_name: "1.0.1" })).body).toEqual({ version: "builtin" });
	});

	test("answers without null and without a trace in every case", async () => {
		await setTestChannel(world, app, "home", { allow_device_self_set: true });
		const answers = [
			await check(),
			await check({ version_name: "1.0.1" }),
			await check({ defaultChannel: "home", version_name: "1.0.1" }),
			await check({ app_id: "com.nobody.knows" }),
		];
		expect(new Set(answers.map(({ body }) => Object.keys(body).join())).size).toBeGreaterThanOrEqual(3);
		for (const { body } of answers) {
			expect(JSON.stringify(body)).not.toContain("null");
			expect(body).not.toHaveProperty("trace");
		}
	});

	test("takes an empty version name for the store build, and a binary named builtin for older than every bundle", async () => {
		expect((await check({ version_name: "" })).body.version).toBe("1.0.1");
		expect((await check({ version_name: "", version_build: "1.0.1" })).body.error).toBe("no_new_version_available");
		expect((await check({ version_build: "builtin" })).body.error).toBe("disable_auto_update_to_major");
	});

	test("takes null for absent and ignores unknown fields, as stock clients send them", async () => {
		const answer = await check({ custom_id: null, defaultChannel: null, key_id: null, something_new: { deep: [1] } });
		expect(answer.body.version).toBe("1.0.1");
	});

	test("refuses a known field of the wrong type with 400 and its name", async () => {
		expect(await check({ device_id: "not-a-uuid", is_prod: "yes" })).toMatchObject({
			status: 400,
			body: { error: "invalid_request", moreInfo: { issues: [{ path: "device_id" }, { path: "is_prod" }] } },
		});
	});

	test.each([
		["app_id", "no-reverse-domain"],
		["device_id", "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61-and-more"],
		["version_name", null],
		["version_build", ""],
		["platform", "windows"],
		["plugin_version", "newest"],
		["key_id", "k".repeat(21)],
		["install_source", "s".repeat(65)],
	])("%s that is %j is 400 and named", async (field, value) => {
		expect(await check({ [field]: value })).toMatchObject({
			status: 400,
			body: { error: "invalid_request", moreInfo: { issues: [{ path: field }] } },
		});
	});

	test("skips a channel whose bundle is not ready, and answers no_channel without another one", async () => {
		const own = await createTestApp(world, "unready");
		const stable = await uploadTestBundle(world, own, "1.0.1");
		const preview = await uploadTestBundle(world, own, "1.0.2");
		await setTestChannel(world, own, "production", { public: true, version: "1.0.1" });
		await setTestChannel(world, own, "pr-2", { allow_device_self_set: true, version: "1.0.2" });
		const asked = async () => (await check({ app_id: own.appId, defaultChannel: "pr-2" })).body;
		const unready = (id: number) =>
			changedElsewhere(world, own, "UPDATE bundles SET status = 'pending' WHERE id = ?", id);
		expect((await asked()).version).toBe("1.0.2");
		await unready(preview);
		expect((await asked()).version).toBe("1.0.1");
		await unready(stable);
		expect(await asked()).toMatchObject({ error: "no_channel", kind: "failed" });
		// A new upload under the same name is not the bundle that the device runs.
		expect((await check({ app_id: own.appId, version_name: "1.0.1" })).body).toEqual({ version: "builtin" });
	});

	test("decides about a rollout by the device id, in any spelling", async () => {
		const own = await createTestApp(world, "rollout");
		await uploadTestBundle(world, own, "1.0.1");
		await uploadTestBundle(world, own, "1.0.2");
		const rollout = { rolloutVersion: "1.0.2", rolloutEnabled: true };
		const share = (bps: number) =>
			setTestChannel(world, own, "production", {
				public: true,
				version: "1.0.1",
				...rollout,
				rolloutPercentageBps: bps,
			});
		const ids = Array.from({ length: 24 }, (_, index) => `00000000-0000-4000-8000-${String(index).padStart(12, "a")}`);
		const takenIn = async (write = (id: string) => id) => {
			const bodies = await Promise.all(ids.map((id) => check({ app_id: own.appId, device_id: write(id) })));
			return ids.filter((_, index) => bodies[index]?.body.version === "1.0.2");
		};
		await share(0);
		expect(await takenIn()).toEqual([]);
		await share(5000);
		const half = await takenIn();
		expect(await takenIn((id) => id.toUpperCase())).toEqual(half);
		await share(10_000);
		expect(await takenIn()).toEqual(ids);
		await share(5000);
		expect(await takenIn()).toEqual(half);
	});

	test("serves a preview only to the device that names its channel; after its deletion the public channel serves the device", async () => {
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

	test("shows a change at the next check", async () => {
		await uploadTestBundle(world, app, "1.0.2");
		await setTestChannel(world, app, "production", { version: "1.0.2" });
		expect((await check()).body.version).toBe("1.0.2");
		await setTestChannel(world, app, "production", { version: "1.0.1" });
		expect((await check()).body.version).toBe("1.0.1");
	});

	test("contains link and comment if the app exposes them and the plugin reads them", async () => {
		await world.request("POST", "/bundle", {
			key: world.adminKey,
			body: { app_id: app.appId, version: "1.0.3", link: "https://example.com/pr/3", comment: "third" },
		});
		const { body } = await world.request("POST", "/bundle", {
			key: world.adminKey,
			body: { app_id: app.appId, version: "1.0.3", link: "https://example.com/pr/3", comment: "third" },
		});
		await world.request("PUT", body.upload_url, { rawBody: bundleOf(130), headers: { "content-length": "130" } });
		await setTestChannel(world, app, "notes", { version: "1.0.3", allow_device_self_set: true });
		expect((await check({ defaultChannel: "notes" })).body).not.toHaveProperty("link");
		await world.request("PUT", `/app/${app.appId}`, { key: world.adminKey, body: { expose_metadata: true } });
		expect((await check({ defaultChannel: "notes" })).body).toMatchObject({
			link: "https://example.com/pr/3",
			comment: "third",
		});
		expect((await check({ defaultChannel: "notes", plugin_version: "8.30.0" })).body).not.toHaveProperty("link");
	});

	test("offers an encrypted bundle as it was uploaded; Electron gets the SHA-256 of the stored bytes and its own spelling", async () => {
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

	test("an external bundle is fetched from where it is, and has no manifest", async () => {
		const id = await uploadTestBundle(world, app, "1.0.5");
		await addFiles(id, ["index.html"]);
		await setTestChannel(world, app, "external", { version: "1.0.5", allow_device_self_set: true });
		const elsewhere = "https://cdn.example.org/1.0.5.zip";
		expect((await check({ defaultChannel: "external" })).body.manifest).toHaveLength(1);
		await changedElsewhere(
			world,
			app,
			"UPDATE bundles SET storage_provider = 'external', object_key = NULL, external_url = ? WHERE id = ?",
			elsewhere,
			id,
		);
		const { body } = await check({ defaultChannel: "external" });
		expect(body).toMatchObject({ version: "1.0.5", url: elsewhere });
		expect(body).not.toHaveProperty("manifest");
	});

	describe("manifests", () => {
		beforeAll(async () => {
			await addFiles(await uploadTestBundle(world, app, "1.0.6"), ["index.html", "app.js.br"]);
			await setTestChannel(world, app, "delta", { version: "1.0.6", allow_device_self_set: true });
		});
		const files = async (fields: Record<string, unknown>) =>
			(await check({ defaultChannel: "delta", ...fields })).body.manifest;

		test("name each file with its hash and its link", async () => {
			const { body } = await check({ defaultChannel: "delta" });
			expect(body.url).not.toContain("no-zip");
			const file = { file_hash: "abc", download_url: expect.stringMatching(/^https:\/\/.+[?&]signature=/) };
			expect(body.manifest).toEqual([
				{ file_name: "app.js.br", ...file },
				{ file_name: "index.html", ...file },
			]);
			expect(new Set(body.manifest.map((entry: { download_url: string }) => entry.download_url)).size).toBe(2);
		});

		test.each([
			["5.9.9", "5.10.0"],
			["6.24.9", "6.25.0"],
			["7.0.34", "7.0.35"],
			["4.99.0", "8.0.0"],
		])("plugin %s reads none, %s does", async (old, new_) => {
			expect(await files({ plugin_version: old })).toBeUndefined();
			expect(await files({ plugin_version: new_ })).toHaveLength(2);
		});

		test("are not offered to Electron, and not read for clients that read none", async () => {
			const prepared: string[] = [];
			const spied = await createWorld({ bindings: { d1: recordingD1(prepared) } });
			const asked = async (fields: Record<string, unknown>) => {
				prepared.length = 0;
				const { body } = await check({ defaultChannel: "delta", ...fields }, spied);
				expect(body.version).toBe("1.0.6");
				return [prepared.filter((text) => text.includes("delta_objects")).length, body.manifest?.length];
			};
			expect(await asked({})).toEqual([1, 2]);
			expect(await asked({ plugin_version: "6.20.0" })).toEqual([0, undefined]);
			expect(await asked({ platform: "electron", plugin_version: "0.0.1" })).toEqual([0, undefined]);
			expect(await asked({ platform: "electron", plugin_version: "8.51.23" })).toEqual([0, undefined]);
		});
	});

	test("answers 503 with Retry-After and without the cause when D1 fails and no snapshot of the app is stored", async () => {
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
				app_id: `${app.appId}.unknown`,
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

	test("GET reports that checks are answered", async () => {
		expect(await world.request("GET", "/updates")).toMatchObject({ status: 200, body: { status: "ok" } });
	});

	test("uses an index for every query, so a check costs the same in a large app", async () => {
		const { changesFrom } = await import("../../../src/db/changes");
		const { manifestOf, overrideOf, readyBundle, snapshotStatements } = await import("../../../src/db/snapshot-load");
		const statements = [
			changesFrom(1),
			...snapshotStatements(app.appId),
			overrideOf(app.uuid, "device"),
			readyBundle(app.uuid, "1.0.1"),
			manifestOf(app.uuid, 1),
		];
		for (const { sql, parameters } of statements) {
			const plan = await testEnv.DB.prepare(`EXPLAIN QUERY PLAN ${sql}`)
				.bind(...parameters)
				.all<{ detail: string }>();
			const scans = plan.results
				.map((row) => row.detail)
				.filter((step) => /^SCAN (?!served|wanted|CONSTANT)|AUTOMATIC|TEMP B-TREE FOR ORDER/.test(step));
			expect(plan.results.length).toBeGreaterThan(0);
			expect(scans, sql).toEqual([]);
		}
	});
});
