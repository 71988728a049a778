/**
 * Devices as operators see and steer them: an override applies to one device from its next check
 * on. The answers of /channel_self agree with the next check.
 */
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { consume } from "../../../src/consumer";
import { beforeSecondTrip } from "../support/interleave";
import {
	createTestApp,
	createTestKey,
	createWorld,
	requestThrough,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
let bundleId: number;

beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	await uploadTestBundle(world, app, "1.0.1");
	bundleId = await uploadTestBundle(world, app, "1.0.2");
	await uploadTestBundle(world, app, "1.0.3");
	await setTestChannel(world, app, "production", { public: true, version: "1.0.1" });
	await setTestChannel(world, app, "beta", { version: "1.0.3" });
	await setTestChannel(world, app, "open", { version: "1.0.3", allow_device_self_set: true });
	await setTestChannel(world, app, "ios-only", {
		version: "1.0.3",
		allow_device_self_set: true,
		android: false,
		electron: false,
	});
});
let devices = 0;
const newDevice = () => `00000000-0000-4000-9000-${String(++devices).padStart(12, "0")}`;

const body = (device_id: string, fields: object = {}) => ({
	app_id: app.appId,
	device_id,
	version_name: "builtin",
	version_build: "1.0.0",
	platform: "android",
	plugin_version: "8.51.23",
	...fields,
});

const check = async (device_id: string, fields: object = {}) =>
	(await world.request("POST", "/updates", { body: body(device_id, fields) })).body;

const set = (device_id: string, fields: object, key = world.adminKey) =>
	world.request("POST", "/device", { key, body: { app_id: app.appId, device_id, ...fields } });

const unset = (device_id: string) =>
	world.request("DELETE", "/device", { key: world.adminKey, query: { app_id: app.appId, device_id } });

const show = (query: Record<string, string>, key = world.adminKey) =>
	world.request("GET", "/device", { key, query: { app_id: app.appId, ...query } });

async function deliver(): Promise<void> {
	await consume(world.deps, { messages: world.deps.sent.map((message) => ({ body: message })) as never });
}

describe("an override", () => {
	test("of the channel, of the bundle, and of both applies to the next check, and so does its removal", async () => {
		const [device, other] = [newDevice(), newDevice()];
		expect((await check(device)).version).toBe("1.0.1");
		expect(await set(device.toUpperCase(), { channel: "beta" })).toMatchObject({
			status: 200,
			body: { status: "ok" },
			trips: 2,
		});
		expect((await check(device)).version).toBe("1.0.3");
		await set(device, { version_id: bundleId });
		expect((await check(device)).version).toBe("1.0.2");
		const both = { channel: "beta", override_channel: "beta", override_version: "1.0.2" };
		expect((await show({ device_id: device })).body).toMatchObject(both);
		expect((await check(other)).version).toBe("1.0.1");
		expect((await unset(device)).body).toEqual({ status: "ok" });
		expect((await check(device)).version).toBe("1.0.1");
		expect((await show({ device_id: device })).body).toMatchObject({ device_id: device, override_version: null });
		for (const id of [device, newDevice()]) {
			expect(await unset(id)).toMatchObject({ status: 200, body: { status: "ok" } });
		}
	});

	test("is listed apart from the channel that served the last check", async () => {
		const own = await createTestApp(world);
		const version_id = await uploadTestBundle(world, own, "1.0.1");
		await setTestChannel(world, own, "production", { public: true, version: "1.0.1" });
		await setTestChannel(world, own, "beta", { version: "1.0.1" });
		const [follows, inBeta, pinned] = [newDevice(), newDevice(), newDevice()];
		world.deps.sent.length = 0;
		for (const device_id of [follows, inBeta, pinned]) await check(device_id, { app_id: own.appId });
		await deliver();
		await set(inBeta, { app_id: own.appId, channel: "beta" });
		await set(pinned, { app_id: own.appId, version_id });
		const listed = await show({ app_id: own.appId });
		expect(listed.body).toMatchObject([
			{ device_id: follows, channel: "production", override_channel: null, override_version: null },
			{ device_id: inBeta, channel: "beta", override_channel: "beta", override_version: null },
			{ device_id: pinned, channel: "production", override_channel: null, override_version: "1.0.1" },
		]);
	});

	test("is removed with its channel, and with its bundle", async () => {
		const device = newDevice();
		await setTestChannel(world, app, "doomed", { version: "1.0.3" });
		await set(device, { channel: "doomed" });
		expect((await check(device)).version).toBe("1.0.3");
		await world.request("DELETE", "/channel", { key: world.adminKey, query: { app_id: app.appId, channel: "doomed" } });
		expect((await check(device)).version).toBe("1.0.1");
		const id = await uploadTestBundle(world, app, "1.0.4");
		await set(device, { version_id: id });
		expect((await check(device)).version).toBe("1.0.4");
		await world.request("DELETE", "/bundle", { key: world.adminKey, query: { app_id: app.appId, version: "1.0.4" } });
		expect((await check(device)).version).toBe("1.0.1");
		expect((await show({ device_id: device })).body).toMatchObject({ override_version: null });
	});

	test.each<[string, object, number, string]>([
		["nothing", {}, 400, "invalid_request"],
		["a channel that is not there", { channel: "absent" }, 404, "channel_not_found"],
		["a bundle that is not there", { version_id: 999_999 }, 404, "bundle_not_found"],
		["a device id with a space", { device_id: "device 456", channel: "beta" }, 400, "invalid_request"],
		["a device id that is too long", { device_id: "d".repeat(65), channel: "beta" }, 400, "invalid_request"],
	])("of %s is refused", async (_, fields, status, error) => {
		expect(await set(newDevice(), fields)).toMatchObject({ status, body: { error } });
	});

	test("cannot name a bundle or a channel of another app", async () => {
		const elsewhere = await createTestApp(world);
		const foreign = await uploadTestBundle(world, elsewhere, "1.0.1");
		await setTestChannel(world, elsewhere, "theirs");
		expect((await set(newDevice(), { version_id: foreign })).status).toBe(404);
		expect((await set(newDevice(), { channel: "theirs" })).status).toBe(404);
	});

	test("requires app.manage_devices; the list requires app.read_devices", async () => {
		const device = newDevice();
		for (const [role, statuses] of [
			["app_reader", [200, 403, 403]],
			["app_developer", [200, 200, 200]],
			["app_preview", [403, 403, 403]],
		] as const) {
			const key = (await createTestKey(world, role, app)).text;
			const got = [
				(await show({}, key)).status,
				(await set(device, { channel: "beta" }, key)).status,
				(await world.request("DELETE", "/device", { key, query: { app_id: app.appId, device_id: device } })).status,
			];
			expect(got, role).toEqual(statuses);
		}
	});
});

describe("/channel_self", () => {
	const choose = async (fields: object) =>
		(await world.request("POST", "/channel_self", { body: body(newDevice(), { version_name: "", ...fields }) })).body;
	const ask = async (device: string, fields: object = {}) =>
		(await world.request("PUT", "/channel_self", { body: body(device, fields) })).body;

	test("POST accepts a channel that devices may choose, and stores nothing", async () => {
		expect(await choose({ channel: "open" })).toEqual({ status: "ok", allowSet: true, allow_set: true });
		expect(await choose({ channel: "production" })).toMatchObject({ status: "ok", unset: true });
		expect(await choose({ action: "unset", platform: "electron", plugin_version: "0.0.1" })).toEqual({ status: "ok" });
	});

	test.each<[object, string]>([
		[{}, "missing_channel"],
		[{ channel: "absent" }, "channel_not_found"],
		[{ channel: "beta" }, "channel_not_found"],
		[{ channel: "ios-only" }, "channel_not_found"],
		[{ channel: "open", plugin_version: "7.27.8" }, "channel_self_server_storage_unavailable"],
		[{ channel: "open", app_id: "com.example.absent" }, "app_not_found"],
	])("POST %j is 200 %s, with the status that Electron needs", async (fields, error) => {
		expect(await choose(fields)).toMatchObject({ status: "error", error, message: expect.any(String) });
	});

	test("PUT returns the channel that serves the next check, first the device's own", async () => {
		expect(await ask(newDevice())).toEqual({
			channel: "production",
			status: "default",
			allowSet: false,
			allow_set: false,
		});
		expect(await ask(newDevice(), { defaultChannel: "open" })).toMatchObject({ channel: "open", status: "default" });
		expect(await ask(newDevice(), { defaultChannel: "beta" })).toMatchObject({ channel: "production" });
		expect(await ask(newDevice(), { defaultChannel: "absent" })).toMatchObject({ channel: "production" });
		const device = newDevice();
		await set(device, { channel: "beta" });
		expect(await ask(device, { defaultChannel: "open" })).toMatchObject({ channel: "beta", status: "override" });
		const refused = await world.request("POST", "/channel_self", { body: body(device, { channel: "open" }) });
		expect(refused.body).toMatchObject({ status: "error", error: "cannot_override" });
	});

	test("PUT reports that no channel serves the device", async () => {
		const bare = await createTestApp(world);
		const answer = await world.request("PUT", "/channel_self", { body: body(newDevice(), { app_id: bare.appId }) });
		expect(answer).toMatchObject({ status: 200, body: { status: "error", error: "channel_not_found" } });
	});

	test("GET returns an array to native plugins, and two kinds of objects to Electron", async () => {
		const list = async (query: Record<string, string>) =>
			(await world.request("GET", "/channel_self", { query: { app_id: app.appId, ...query } })).body;
		const names = (items: { name: string }[]) => items.map((item) => item.name);
		expect(names(await list({ platform: "android" }))).toEqual(["open", "production"]);
		expect(names(await list({ platform: "ios", is_emulator: "false", is_prod: "true", info: "x" }))).toEqual([
			"ios-only",
			"open",
			"production",
		]);
		expect((await list({ platform: "android" }))[0]).toEqual({
			id: expect.any(Number),
			name: "open",
			public: false,
			allow_self_set: true,
		});
		expect(names((await list({ platform: "electron", action: "list" })).channels)).toEqual(["open", "production"]);
		expect(await list({ platform: "electron", device_id: newDevice(), defaultChannel: "open" })).toMatchObject({
			channel: "open",
			allow_set: true,
			status: "default",
		});
	});

	test("DELETE accepts a query or a body", async () => {
		const device_id = newDevice();
		const query = await world.request("DELETE", "/channel_self", { query: { app_id: app.appId, device_id } });
		const inBody = await world.request("DELETE", "/channel_self", { body: body(device_id) });
		expect([query.body, inBody.body]).toEqual([{ status: "ok" }, { status: "ok" }]);
	});
});

describe("a warm check", () => {
	test("makes no database call, with one channel and with a thousand, and shows every change of its isolate immediately", async () => {
		const large = await createTestApp(world);
		await uploadTestBundle(world, large, "1.0.1");
		await setTestChannel(world, large, "production", { public: true, version: "1.0.1" });
		const trips = async (fields: object = {}) =>
			(await world.request("POST", "/updates", { body: body(newDevice(), { app_id: large.appId, ...fields }) })).trips;
		expect([await trips(), await trips(), await trips({ defaultChannel: "c-700" })]).toEqual([1, 0, 0]);
		await world.deps.d1
			.prepare(
				`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
				INSERT INTO channels (app_id, name, allow_device_self_set, created_by, created_at_ms, updated_at_ms)
				SELECT ?, 'c-' || i, 1, 'x', 0, 0 FROM n`,
			)
			.bind(large.uuid)
			.run();
		await setTestChannel(world, large, "one-more");
		// The isolate published its change, and read the change feed with it.
		expect([await trips(), await trips(), await trips({ defaultChannel: "c-700" })]).toEqual([0, 0, 0]);
	});
});

describe("GET /device/explain", () => {
	const explain = (query: Record<string, string>, key = world.adminKey) =>
		world.request("GET", "/device/explain", { key, query: { app_id: app.appId, ...query } });

	test("gives the answer of the update check, for any device and any state of the channel", async () => {
		const own = await createTestApp(world);
		for (const version of ["1.0.1", "1.1.0", "2.0.0"]) await uploadTestBundle(world, own, version);
		const channels = fc.record({
			version: fc.constantFrom("1.0.1", "1.1.0", "2.0.0", "builtin"),
			public: fc.boolean(),
			ios: fc.boolean(),
			allow_device_self_set: fc.boolean(),
			allow_emulator: fc.boolean(),
			allow_prod: fc.boolean(),
			disableAutoUpdate: fc.constantFrom("major", "minor", "patch", "version_number", "none"),
			disableAutoUpdateUnderNative: fc.boolean(),
		});
		const asked = fc.record({
			platform: fc.constantFrom("ios", "android", "electron"),
			version_name: fc.constantFrom("builtin", "1.0.1", "2.0.0", "9.9.9"),
			version_build: fc.constantFrom("1.0.0", "1.2.0", "3.0.0", "unknown"),
			plugin_version: fc.constantFrom("8.51.23", "6.0.0", "4.1.0"),
			is_emulator: fc.boolean(),
			is_prod: fc.boolean(),
			defaultChannel: fc.constantFrom("", "main", "absent"),
			device_id: fc.uuid(),
		});
		const outcomes = new Set<string>();
		await fc.assert(
			fc.asyncProperty(channels, fc.array(asked, { minLength: 1, maxLength: 4 }), async (fields, questions) => {
				const set = await world.request("POST", "/channel", {
					key: world.adminKey,
					body: { app_id: own.appId, channel: "main", android: true, ...fields },
				});
				if (set.status > 201) throw new Error(JSON.stringify(set.body));
				for (const question of questions) {
					const live = await world.request("POST", "/updates", { body: { app_id: own.appId, ...question } });
					const query = Object.fromEntries(Object.entries(question).map(([name, value]) => [name, String(value)]));
					const why = await explain({ ...query, app_id: own.appId });
					expect(why.status, JSON.stringify(why.body)).toBe(200);
					expect(why.body.answer).toEqual(live.body);
					expect(
						why.body.trace.filter((step: { outcome: string }) => step.outcome === "decided").length,
					).toBeGreaterThan(0);
					outcomes.add(live.body.error ?? (live.body.url === undefined ? "builtin" : "update"));
				}
			}),
			{ numRuns: 60 },
		);
		expect(outcomes.size, "the cases are all alike").toBeGreaterThan(5);
	});

	test("uses the last report of a known device, and names the missing fields of an unknown one", async () => {
		const device = newDevice();
		world.deps.sent.length = 0;
		await check(device, { platform: "ios", version_name: "1.0.2", defaultChannel: "open" });
		await deliver();
		expect((await explain({ device_id: device })).body).toMatchObject({
			outcome: "update",
			channel: "open",
			answer: { version: "1.0.3" },
			device: { platform: "ios", version_name: "1.0.2", defaultChannel: "open" },
		});
		expect((await explain({ device_id: device, defaultChannel: "" })).body).toMatchObject({ channel: "production" });
		const unknown = await explain({ device_id: newDevice(), platform: "ios" });
		expect(unknown).toMatchObject({
			status: 400,
			body: { moreInfo: { issues: [{ path: "version_build" }, { path: "plugin_version" }] } },
		});
	});

	test("reads everything in one batch, even while the app changes", async () => {
		const own = await createTestApp(world);
		const racing = beforeSecondTrip(world.deps.d1, async () => {
			const body = { app_id: own.appId, channel: "production" };
			expect((await request("POST", "/channel", { key: world.adminKey, body })).status).toBe(201);
		});
		const request = requestThrough(createApp({ ...world.deps, d1: racing.d1 }));
		const query = {
			app_id: own.appId,
			platform: "ios",
			version_name: "9.9.9",
			version_build: "1.0.0",
			plugin_version: "8.51.23",
		};
		const why = await request("GET", "/device/explain", { key: world.adminKey, query });
		expect(why).toMatchObject({ status: 200, trips: 3, body: { outcome: "builtin" } });
	});

	test("names the rule and the remedy", async () => {
		const { body: why } = await explain({ platform: "android", version_build: "0.9.0", plugin_version: "8.51.23" });
		expect(why).toMatchObject({ outcome: "none", answer: { error: "disable_auto_update_to_major", kind: "blocked" } });
		expect(why.trace.at(-1)).toMatchObject({
			rule: "disable_auto_update_to_major",
			outcome: "decided",
			remedy: expect.stringContaining("disableAutoUpdate"),
		});
	});
});
