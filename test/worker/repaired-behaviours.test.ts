/**
 * The defects of the service whose clients we serve that its devices met, one test for each by the number that the project's reference
 * gives it, through the endpoints that devices call. The rules behind them are tried one by one in update-decision.test.ts.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { consume } from "../../src/events/consumer";
import { beforeEachTrip } from "./support/interleave";
import {
	createTestApp,
	createWorld,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "./support/world";

let world: World;
let app: TestApp;
beforeAll(async () => {
	world = await createWorld();
	app = await newApp();
});

/** With bundles 1.0.1 and 1.0.2, and a public channel that serves the first. */
async function newApp(of = world, fields: Record<string, unknown> = {}): Promise<TestApp> {
	const made = await createTestApp(of);
	await uploadTestBundle(of, made, "1.0.1");
	await uploadTestBundle(of, made, "1.0.2");
	await setTestChannel(of, made, "production", { public: true, version: "1.0.1", ...fields });
	return made;
}

const body = (fields: object = {}) => ({
	app_id: app.appId,
	device_id: crypto.randomUUID(),
	version_name: "builtin",
	version_build: "1.0.0",
	platform: "android",
	plugin_version: "8.51.23",
	...fields,
});
const check = async (fields: object = {}, of = world) =>
	(await of.request("POST", "/updates", { body: body(fields) })).body;
async function deliver(): Promise<void> {
	const messages = world.deps.sent.splice(0).map((message) => ({ body: message }));
	await consume(world.deps, { messages: messages as never });
}
const known = async (of: TestApp, device_id: string) =>
	(await world.request("GET", "/device", { key: world.adminKey, query: { app_id: of.appId, device_id } })).body;

/** A world whose database can be switched off; what the limiter of failed authentications was told. */
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

describe("what devices met", () => {
	test("U1: a channel on the store build brings a device home that runs a bundle, by the version alone", async () => {
		const own = await newApp(world, { version: null });
		expect(await check({ app_id: own.appId, version_name: "1.0.1" })).toEqual({ version: "builtin" });
		expect(await check({ app_id: own.appId })).toMatchObject({ error: "already_on_builtin", kind: "up_to_date" });
	});

	test("U2: an unknown app and a fault of the database are different answers, and a fault is not remembered as absence", async () => {
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

	test("U3: a fault of the database is 503 for a key too, never 401 or 403, and no failed authentication", async () => {
		const { brittle, state } = await brittleWorld();
		const own = await newApp(brittle);
		state.down = true;
		const answer = await brittle.request("GET", "/channel", { key: brittle.adminKey, query: { app_id: own.appId } });
		expect(answer).toMatchObject({ status: 503, body: { error: "service_unavailable" } });
		expect(answer.headers.get("retry-after")).not.toBeNull();
		expect(state.failures).toBe(0);
	});

	test.each([
		["absent", undefined],
		["private", { allow_device_self_set: false }],
		["off for its platform", { allow_device_self_set: true, android: false }],
	])("U4: a default channel that is %s falls through to the public one", async (_, fields) => {
		const own = await newApp();
		if (fields !== undefined) await setTestChannel(world, own, "beta", { version: "1.0.2", ...fields });
		expect((await check({ app_id: own.appId, defaultChannel: "beta" })).version).toBe("1.0.1");
	});

	test("U5: the first override of an app holds for the very next check, and is gone as fast", async () => {
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

	test("U6: PUT /channel_self tells the channel that really applies, not what the device sent", async () => {
		const own = await newApp();
		await setTestChannel(world, own, "beta", { version: "1.0.2" });
		const asked = async (fields: object) =>
			(await world.request("PUT", "/channel_self", { body: body({ app_id: own.appId, ...fields }) })).body;
		expect(await asked({ channel: "beta" })).toMatchObject({ channel: "production" });
		expect(await asked({ defaultChannel: "beta" })).toMatchObject({ channel: "production" });
		await setTestChannel(world, own, "production", { public: false });
		expect(await asked({})).toMatchObject({ status: "error", error: "channel_not_found" });
	});

	test("U7: a device that no channel serves is counted under none, however it reports", async () => {
		const own = await newApp(world, { android: false });
		const device_id = crypto.randomUUID();
		expect(await check({ app_id: own.appId, device_id })).toMatchObject({ error: "no_channel" });
		await world.request("POST", "/stats", { body: body({ app_id: own.appId, device_id, action: "set" }) });
		await deliver();
		expect(await known(own, device_id)).toMatchObject({ channel: null });
	});

	test("U8: a device on its store build may say so in a report", async () => {
		const device_id = crypto.randomUUID();
		const report = { device_id, version_name: "builtin", action: "app_moved_to_foreground" };
		const answer = await world.request("POST", "/stats", { body: body(report) });
		expect(answer).toMatchObject({ status: 200, body: { status: "ok" } });
		await deliver();
		expect(await known(app, device_id)).toMatchObject({ version_name: "builtin" });
	});

	test("U9: a channel that needs a minimum version and whose bundle has none is blocked, not failed", async () => {
		const own = await newApp(world, { disableAutoUpdate: "version_number" });
		expect(await check({ app_id: own.appId })).toMatchObject({ error: "misconfigured_channel", kind: "blocked" });
	});

	test("U10: every refusal that there is can be met: an unknown store build, and a platform that is off through an override", async () => {
		expect(await check({ version_build: "unknown" })).toMatchObject({ error: "unknown_version_build" });
		const own = await newApp();
		await setTestChannel(world, own, "desktop", { version: "1.0.2", android: false });
		const device = { app_id: own.appId, device_id: crypto.randomUUID() };
		await world.request("POST", "/device", { key: world.adminKey, body: { ...device, channel: "desktop" } });
		expect(await check(device)).toMatchObject({ error: "disabled_platform_android", kind: "blocked" });
	});

	test("U11: gates compare the store build, and a download is counted when it is whole, not when it is offered", async () => {
		const own = await newApp();
		await uploadTestBundle(world, own, "2.0.0");
		await setTestChannel(world, own, "production", { version: "2.0.0", disableAutoUpdate: "major" });
		expect(await check({ app_id: own.appId, version_name: "1.0.1", version_build: "1.0.0" })).toMatchObject({
			error: "disable_auto_update_to_major",
			old: "1.0.0",
		});
		world.deps.sent.length = 0;
		const device_id = crypto.randomUUID();
		const metrics = () =>
			[...JSON.stringify(world.deps.sent).matchAll(/"metric":"(\w+)"/g)].map(([, metric]) => metric);
		expect((await check({ app_id: own.appId, device_id, version_build: "2.0.0" })).error).toBe(
			"no_new_version_available",
		);
		await setTestChannel(world, own, "production", { disableAutoUpdate: "none" });
		expect((await check({ app_id: own.appId, device_id })).version).toBe("2.0.0");
		expect(metrics()).toEqual([]);
		const report = { app_id: own.appId, device_id, version_name: "2.0.0", action: "download_complete" };
		await world.request("POST", "/stats", { body: body(report) });
		expect(metrics()).toEqual(["get"]);
	});

	test("U12: a device on the rolled out bundle stays on it at 0 percent, and others do not get it", async () => {
		const rollout = { rolloutVersion: "1.0.2", rolloutPercentage: 0, rolloutEnabled: true };
		const own = await newApp(world, rollout);
		expect(await check({ app_id: own.appId, version_name: "1.0.2" })).toMatchObject({
			error: "no_new_version_available",
			kind: "up_to_date",
		});
		expect((await check({ app_id: own.appId })).version).toBe("1.0.1");
	});
});

describe("what phones call their store build", () => {
	const odd = "2024.01.05-beta (77)";

	test("a date with leading zeros and words after it is the version that it begins with", async () => {
		expect((await check({ version_build: odd })).error).toBe("disable_auto_update_under_native");
		const own = await newApp(world, { disableAutoUpdate: "none", disableAutoUpdateUnderNative: false });
		expect((await check({ app_id: own.appId, version_build: odd })).version).toBe("1.0.1");
	});

	test.each(["beta", "9999999999999999"])("%s is refused with a sentence that is true of it", async (text) => {
		const answer = await check({ version_build: text });
		expect(answer).toMatchObject({ error: "semver_error", kind: "failed" });
		expect(answer.message).toBe("The version of the store binary (version_build) cannot be read as a version number.");
	});

	test.each([odd, "beta", "7".repeat(300)])("a report from %s is heard", async (version_build) => {
		const device_id = crypto.randomUUID();
		const report = body({ device_id, version_build, version_os: "x".repeat(300), action: "set" });
		expect((await world.request("POST", "/stats", { body: report })).body).toEqual({ status: "ok" });
		const batch = await world.request("POST", "/stats", { body: [report] });
		expect(batch.body.results).toEqual([{ status: "ok", index: 0 }]);
		await deliver();
		expect((await known(app, device_id)).version_build).toBe(version_build.slice(0, 128));
	});
});
