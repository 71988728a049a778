/**
 * App settings about devices: custom ids, review networks and store URLs, tested by the answers to
 * devices, the stored devices and the app's record.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { consume } from "../../../src/consumer";
import {
	createTestApp,
	createWorld,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	await uploadTestBundle(world, app, "1.0.1");
	await setTestChannel(world, app, "production", { public: true, version: "1.0.1" });
});

const DEVICE = "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61";
const GOOGLE = { asn: 15_169 };
const set = (body: Record<string, unknown>) => world.request("PUT", `/app/${app.appId}`, { key: world.adminKey, body });
const body = (fields: Record<string, unknown> = {}) => ({
	app_id: app.appId,
	device_id: DEVICE,
	version_name: "builtin",
	version_build: "1.0.0",
	platform: "android",
	plugin_version: "8.51.23",
	is_emulator: false,
	is_prod: true,
	...fields,
});
const check = (fields: Record<string, unknown> = {}, cf?: Record<string, unknown>) =>
	world.request("POST", "/updates", { body: body(fields), ...(cf === undefined ? {} : { cf }) });
const deliver = () =>
	consume(world.deps, { messages: world.deps.sent.splice(0).map((message) => ({ body: message })) as never });
const devices = async (query: Record<string, string> = {}) =>
	(await world.request("GET", "/device", { key: world.adminKey, query: { app_id: app.appId, ...query } })).body;

describe("custom ids", () => {
	const ways: Record<string, () => Promise<unknown>> = {
		"an update check": () => check({ custom_id: "ada" }),
		"an update check on the fast path": async () => {
			await check();
			await check({ custom_id: "ada" });
		},
		"a report": () =>
			world.request("POST", "/stats", { body: body({ custom_id: "ada", action: "ping", version_name: "1.0.1" }) }),
		"a batch of reports": () =>
			world.request("POST", "/stats", { body: [body({ custom_id: "ada", action: "ping", version_name: "1.0.1" })] }),
	};

	test.each(Object.keys(ways))("of %s are stored only if the app allows them", async (way) => {
		await ways[way]?.();
		await deliver();
		expect(await devices({ custom_id: "ada" })).toMatchObject([{ device_id: DEVICE, custom_id: "ada" }]);

		const other = await createTestApp(world);
		await setTestChannel(world, other, "production", { public: true });
		app = other;
		expect((await set({ allow_device_custom_id: false })).body.allow_device_custom_id).toBe(false);
		await ways[way]?.();
		await deliver();
		expect(await devices()).toMatchObject([{ device_id: DEVICE, custom_id: null }]);
		await set({ allow_device_custom_id: true });
		expect(await devices(), "it was never stored").toMatchObject([{ custom_id: null }]);
	});

	test("are hidden while the setting is off, cannot be searched for, and are shown again afterwards", async () => {
		await check({ custom_id: "ada" });
		await deliver();
		await set({ allow_device_custom_id: false });
		expect(await devices()).toMatchObject([{ device_id: DEVICE, custom_id: null }]);
		expect(await devices({ device_id: DEVICE })).toMatchObject({ custom_id: null });
		expect(await devices({ custom_id: "ada" })).toEqual([]);
		await set({ allow_device_custom_id: true });
		expect(await devices({ custom_id: "ada" })).toMatchObject([{ custom_id: "ada" }]);
	});
});

describe("review networks", () => {
	const refused = {
		status: 200,
		body: { error: "provider_infrastructure_request_blocked", kind: "blocked", message: expect.any(String) },
	};

	test("get updates until the app blocks them, also on the fast path", async () => {
		for (let time = 0; time < 2; time += 1) expect((await check({}, GOOGLE)).body.version).toBe("1.0.1");
		expect((await set({ block_provider_infra_requests: true })).body.block_provider_infra_requests).toBe(true);
		for (const device of [DEVICE, DEVICE, "c5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61"]) {
			expect((await check({ device_id: device })).body.version, "the others are served").toBe("1.0.1");
			expect(await check({ device_id: device }, GOOGLE)).toMatchObject(refused);
			expect(await check({ device_id: device }, { asn: 714 }), "Apple").toMatchObject(refused);
			expect((await check({ device_id: device }, { asn: 3320 })).body.version).toBe("1.0.1");
		}
	});

	test("leave no device, event or rollout share while they are blocked", async () => {
		await set({ block_provider_infra_requests: true });
		await uploadTestBundle(world, app, "1.0.2");
		await setTestChannel(world, app, "production", {
			rolloutVersion: "1.0.2",
			rolloutEnabled: true,
			rolloutPercentage: 100,
		});
		world.deps.sent.length = 0;
		await check({}, GOOGLE);
		const event = body({ action: "set", version_name: "1.0.2" });
		const report = (sent: unknown) => world.request("POST", "/stats", { body: sent, cf: GOOGLE });
		expect(await report(event)).toMatchObject({
			status: 200,
			body: { status: "error", error: "provider_infrastructure_request_blocked" },
		});
		expect((await report([event, event])).body.results).toMatchObject([{ status: "error" }, { status: "error" }]);
		expect(world.deps.sent).toEqual([]);
		await check();
		expect(world.deps.sent, "the control: another device is noted").not.toEqual([]);
	});

	test("are those that REVIEW_NETWORKS lists", async () => {
		const own = await createWorld({ config: { REVIEW_NETWORKS: "3320, 64500" } });
		world = own;
		app = await createTestApp(own);
		await uploadTestBundle(own, app, "1.0.1");
		await setTestChannel(own, app, "production", { public: true, version: "1.0.1" });
		await set({ block_provider_infra_requests: true });
		expect(await check({}, { asn: 64_500 })).toMatchObject(refused);
		expect((await check({}, GOOGLE)).body.version).toBe("1.0.1");
		await expect(createWorld({ config: { REVIEW_NETWORKS: "AS15169" } })).rejects.toThrow("REVIEW_NETWORKS must be");
	});
});

describe("store URLs", () => {
	const IOS = "https://apps.apple.com/app/id1234567890";
	const ANDROID = "https://play.google.com/store/apps/details?id=com.example.app";

	test("are stored, shown, changed and removed, and must be https", async () => {
		expect((await set({ ios_store_url: IOS, android_store_url: ANDROID })).body).toMatchObject({
			ios_store_url: IOS,
			android_store_url: ANDROID,
		});
		for (const url of [
			"http://apps.apple.com/app",
			"javascript:alert(1)",
			"https://user:secret@apps.apple.com/",
			"apple",
		]) {
			expect(await set({ ios_store_url: url }), url).toMatchObject({ status: 400, body: { error: "invalid_request" } });
		}
		expect((await set({ ios_store_url: null })).body).toMatchObject({
			ios_store_url: null,
			android_store_url: ANDROID,
		});
		const { body: record } = await world.request("GET", `/app/${app.appId}`, { key: world.adminKey });
		expect(record).toMatchObject({ ios_store_url: null, android_store_url: ANDROID });
	});

	test("are shown to testers who need a newer store build", async () => {
		await uploadTestBundle(world, app, "2.0.0");
		await setTestChannel(world, app, "production", { version: "2.0.0" });
		await set({ android_store_url: ANDROID });
		const remedyFor = async (platform: string) => {
			const query = { app_id: app.appId, platform, version_build: "1.0.0", plugin_version: "8.51.23" };
			const { body: explained } = await world.request("GET", "/device/explain", { key: world.adminKey, query });
			return explained.trace.at(-1);
		};
		expect(await remedyFor("android")).toMatchObject({
			rule: "disable_auto_update_to_major",
			remedy: expect.stringContaining(`from ${ANDROID}`),
		});
		expect((await remedyFor("ios")).remedy).not.toContain("https");
	});
});

test("PUT /app refuses a body that is not an object", async () => {
	for (const sent of [[], [{ name: "x" }], "name", 7, null]) {
		expect(
			await world.request("PUT", `/app/${app.appId}`, { key: world.adminKey, body: sent }),
			JSON.stringify(sent),
		).toMatchObject({
			status: 400,
			body: { error: "invalid_request" },
		});
	}
	expect((await set({})).status, "an empty object changes nothing").toBe(200);
});
