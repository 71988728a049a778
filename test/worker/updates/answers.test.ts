/**
 * Which bundle, and which answer, a device gets over HTTP, one test for each promise to devices.
 * The rules behind the answers have their own tests in test/unit/update-decision.test.ts.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { beforeEachTrip } from "../support/interleave";
import { body, check, newApp, prepareUpdates, world } from "../support/update-scene";
import { createTestApp, createWorld, setTestChannel, testEnv, uploadTestBundle } from "../support/world";

beforeAll(prepareUpdates);

const odd = "2024.01.05-beta (77)";

/** A world whose database can be switched off. `failures` counts failed authentications. */
async function brittleWorld() {
	const state = { down: false, failures: 0 };
	const { d1 } = beforeEachTrip(testEnv.DB, () => {
		if (state.down) throw new Error("D1 DB is overloaded.");
	});
	const counting = {
		limiter: {
			limit: async () => {
				state.failures += 1;
				return { success: true };
			},
		},
		periodSeconds: 60,
	};
	const unlimited = { limiter: { limit: async () => ({ success: true }) }, periodSeconds: 1 };
	const brittle = await createWorld({
		bindings: { d1, requestLimits: { failedAuthentications: counting, perKey: unlimited, signIns: unlimited } },
	});
	return { brittle, state };
}

describe("POST /updates", () => {
	test("reverts a device to its store build when the channel has no bundle, with only the version", async () => {
		const own = await newApp(world, { version: null });
		expect(await check({ app_id: own.appId, version_name: "1.0.1" })).toEqual({ version: "builtin" });
		expect(await check({ app_id: own.appId })).toMatchObject({ error: "already_on_builtin", kind: "up_to_date" });
	});
	test("reverts a device of a deleted preview to its store build even if the public channel has nothing for it", async () => {
		const own = await createTestApp(world);
		await uploadTestBundle(world, own, "1.0.0");
		await uploadTestBundle(world, own, "1.1.0-pr.5");
		await setTestChannel(world, own, "production", { public: true, version: "1.0.0" });
		const gone = { version_name: "1.1.0-pr.4", version_build: "1.0.5", defaultChannel: "pr-4" };
		expect(await check({ app_id: own.appId, ...gone })).toEqual({ version: "builtin" });
		expect((await check({ app_id: own.appId, ...gone, version_name: "1.1.0-pr.5" })).error).toBe(
			"disable_auto_update_under_native",
		);
		await setTestChannel(world, own, "production", { allow_prod: false, version: null });
		expect(await check({ app_id: own.appId, ...gone })).toEqual({ version: "builtin" });
	});
	test("answers an unknown app and a database fault differently, and does not cache a fault as absence", async () => {
		const { brittle, state } = await brittleWorld();
		const own = await newApp(brittle);
		expect(await check({ app_id: "com.example.absent" }, brittle)).toMatchObject({ error: "app_not_found" });
		brittle.clock.nowMs += 10_000;
		state.down = true;
		const cold = await createTestApp(world);
		const fault = await brittle.request("POST", "/updates", { body: body({ app_id: cold.appId }) });
		expect(fault).toMatchObject({ status: 503, body: { error: "service_unavailable" } });
		expect(fault.headers.get("retry-after")).not.toBeNull();
		state.down = false;
		expect(await check({ app_id: cold.appId }, brittle)).toMatchObject({ error: "no_channel" });
		expect((await check({ app_id: own.appId }, brittle)).version).toBe("1.0.1");
	});
	test.each([
		["missing", undefined],
		["private", { allow_device_self_set: false }],
		["off for its platform", { allow_device_self_set: true, android: false }],
	])("serves the public channel if the default channel is %s", async (_, fields) => {
		const own = await newApp();
		if (fields !== undefined) await setTestChannel(world, own, "beta", { version: "1.0.2", ...fields });
		expect((await check({ app_id: own.appId, defaultChannel: "beta" })).version).toBe("1.0.1");
	});
	test("applies the first override of an app at the next check, and its removal too", async () => {
		const own = await newApp();
		await setTestChannel(world, own, "beta", { version: "1.0.2" });
		const device_id = crypto.randomUUID();
		const request = { app_id: own.appId, device_id };
		expect((await check(request)).version).toBe("1.0.1");
		await world.request("POST", "/device", { key: world.adminKey, body: { ...request, channel: "beta" } });
		expect((await check(request)).version).toBe("1.0.2");
		await world.request("DELETE", "/device", { key: world.adminKey, query: request });
		expect((await check(request)).version).toBe("1.0.1");
	});
	test("is blocked, not failed, if the channel compares minimum versions and its bundle has none", async () => {
		const own = await newApp(world, { disableAutoUpdate: "version_number" });
		expect(await check({ app_id: own.appId })).toMatchObject({ error: "misconfigured_channel", kind: "blocked" });
	});
	test("refuses an unknown store build, and a platform that is off on an override's channel", async () => {
		expect(await check({ version_build: "unknown" })).toMatchObject({ error: "unknown_version_build" });
		const own = await newApp();
		await setTestChannel(world, own, "desktop", { version: "1.0.2", android: false });
		const device = { app_id: own.appId, device_id: crypto.randomUUID() };
		await world.request("POST", "/device", { key: world.adminKey, body: { ...device, channel: "desktop" } });
		expect(await check(device)).toMatchObject({ error: "disabled_platform_android", kind: "blocked" });
	});
	test("keeps a device on the rollout bundle at 0 %, and gives it to no other device", async () => {
		const rollout = { rolloutVersion: "1.0.2", rolloutPercentage: 0, rolloutEnabled: true };
		const own = await newApp(world, rollout);
		expect(await check({ app_id: own.appId, version_name: "1.0.2" })).toMatchObject({
			error: "no_new_version_available",
			kind: "up_to_date",
		});
		expect((await check({ app_id: own.appId })).version).toBe("1.0.1");
	});
	test("does not offer a bundle without a zip to clients that read no manifest", async () => {
		const own = await createTestApp(world);
		const path = `orgs/${world.orgId}/apps/${own.appId}/delta/abc_index.html`;
		await world.request("POST", "/files/upload/attachments", {
			key: world.adminKey,
			headers: { "tus-resumable": "1.0.0", "upload-length": "0", "upload-metadata": `filename ${btoa(path)}` },
		});
		const named = { app_id: own.appId, name: "1.0.1" };
		await world.request("POST", "/bundle", { key: world.adminKey, body: { app_id: own.appId, version: "1.0.1" } });
		const manifest = [{ file_name: "index.html", s3_path: path, file_hash: "ab".repeat(32) }];
		await world.request("POST", "/private/set_manifest", { key: world.adminKey, body: { ...named, manifest } });
		await world.request("POST", "/private/finalize_bundle_upload", { key: world.adminKey, body: named });
		await setTestChannel(world, own, "production", { public: true, version: "1.0.1" });
		expect((await check({ app_id: own.appId })).manifest).toHaveLength(1);
		for (const client of [{ platform: "electron", plugin_version: "0.0.1" }, { plugin_version: "6.20.0" }]) {
			expect(await check({ app_id: own.appId, ...client })).toMatchObject({ error: "no_bundle", kind: "failed" });
		}
	});
	test("reads a short native version as the full version", async () => {
		const own = await createTestApp(world);
		await uploadTestBundle(world, own, "2.0.0");
		await setTestChannel(world, own, "production", { public: true, version: "2.0.0" });
		for (const fields of [{ version_build: "2.0" }, { version_build: "2", version_name: "2" }]) {
			expect((await check({ app_id: own.appId, ...fields })).error).toBe("no_new_version_available");
		}
	});
	test("reads a store build by the version that it begins with, past leading zeros and other text", async () => {
		expect((await check({ version_build: odd })).error).toBe("disable_auto_update_under_native");
		const own = await newApp(world, { disableAutoUpdate: "none", disableAutoUpdateUnderNative: false });
		expect((await check({ app_id: own.appId, version_build: odd })).version).toBe("1.0.1");
	});
	test.each(["beta", "9999999999999999"])(
		"refuses the store build %s with a message about version_build",
		async (text) => {
			const answer = await check({ version_build: text });
			expect(answer).toMatchObject({ error: "semver_error", kind: "failed" });
			expect(answer.message).toBe(
				"The version of the store binary (version_build) cannot be read as a version number.",
			);
		},
	);
});

describe("PUT /channel_self", () => {
	test("answers with the channel that applies, not with the one that the device sent", async () => {
		const own = await newApp();
		await setTestChannel(world, own, "beta", { version: "1.0.2" });
		const asked = async (fields: object) =>
			(await world.request("PUT", "/channel_self", { body: body({ app_id: own.appId, ...fields }) })).body;
		expect(await asked({ channel: "beta" })).toMatchObject({ channel: "production" });
		expect(await asked({ defaultChannel: "beta" })).toMatchObject({ channel: "production" });
		await setTestChannel(world, own, "production", { public: false });
		expect(await asked({})).toMatchObject({ status: "error", error: "channel_not_found" });
	});
});

describe("an endpoint for keys", () => {
	test("answers a database fault with 503 to a key, and counts no failed authentication", async () => {
		const { brittle, state } = await brittleWorld();
		const own = await newApp(brittle);
		state.down = true;
		const answer = await brittle.request("GET", "/channel", { key: brittle.adminKey, query: { app_id: own.appId } });
		expect(answer).toMatchObject({ status: 503, body: { error: "service_unavailable" } });
		expect(answer.headers.get("retry-after")).not.toBeNull();
		expect(state.failures).toBe(0);
	});
});
