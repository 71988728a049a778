/**
 * Figures beside the rows of lists, compared with what devices and people did: the devices of each
 * channel, the last failure of a device, and who uploaded a bundle.
 */
import { beforeEach, expect, test } from "vitest";
import { consume } from "../../../src/consumer";
import { MOST_COUNTED } from "../../../src/db/device-list";
import {
	createTestApp,
	createTestKey,
	createWorld,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
let production: number;
let beta: number;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	await uploadTestBundle(world, app, "1.0.1");
	production = await setTestChannel(world, app, "production", { version: "1.0.1", public: true });
	beta = await setTestChannel(world, app, "beta", { version: "1.0.1", allow_device_self_set: true });
	world.deps.sent.length = 0;
});

const deviceId = (index: number) => `00000000-0000-4000-8000-${String(index).padStart(12, "0")}`;
const body = (index: number, fields: object = {}) => ({
	app_id: app.appId,
	device_id: deviceId(index),
	platform: "android",
	version_name: "builtin",
	version_build: "1.0.0",
	plugin_version: "8.51.23",
	...fields,
});
const check = (index: number, fields = {}) => world.request("POST", "/updates", { body: body(index, fields) });
const report = (index: number, action: string, version_name = "1.0.1") =>
	world.request("POST", "/stats", {
		body: body(index, { action, version_name, timestamp: world.clock.nowMs }),
	});
async function deliver(): Promise<void> {
	const messages = world.deps.sent.splice(0).filter(({ kind }) => kind === "device_events");
	await consume(world.deps, { messages: messages.map((message) => ({ body: message })) });
}
const get = async (path: string, query: Record<string, string> = {}, key = world.adminKey) =>
	(await world.request("GET", path, { key, query })).body;
const channels = (ids: readonly unknown[] = [production, beta]) =>
	get(`/statistics/app/${app.appId}/channels`, { channel_ids: ids.join(",") });

test("a device counts for the channel of its last check, and for no other", async () => {
	expect(await channels()).toEqual([
		{ channel_id: production, devices: 0, more: false },
		{ channel_id: beta, devices: 0, more: false },
	]);
	for (const index of [1, 2, 3]) await check(index);
	await check(4, { defaultChannel: "beta" });
	await deliver();
	expect(await channels()).toEqual([
		{ channel_id: production, devices: 3, more: false },
		{ channel_id: beta, devices: 1, more: false },
	]);
	world.clock.nowMs += 60_000;
	await check(3, { defaultChannel: "beta" });
	await deliver();
	expect(await channels()).toEqual([
		{ channel_id: production, devices: 2, more: false },
		{ channel_id: beta, devices: 2, more: false },
	]);
	// The number is that of the list to which the row leads.
	const query = { app_id: app.appId, totals: "true", channel: "beta" };
	const listed = await world.request("GET", "/device", { key: world.adminKey, query, mostTrips: 3 });
	expect(listed.body.total).toBe(2);
});

test("more devices than are counted are named as more, and the ids are checked", async () => {
	for (let index = 0; index <= MOST_COUNTED; index++) await check(index);
	await deliver();
	expect(await channels([production])).toEqual([{ channel_id: production, devices: MOST_COUNTED, more: true }]);
	const many = Array.from({ length: 51 }, (_, index) => index + 1);
	for (const ids of [[], ["production"], [0], many])
		expect(await channels(ids), ids.join()).toMatchObject({ error: "invalid_request" });
});

test("the list of devices has the last failure, until an install succeeds", async () => {
	const failureOf = async (index: number) => {
		const { devices } = await get("/device", { app_id: app.appId, totals: "true" });
		return devices.find(({ device_id }: { device_id: string }) => device_id === deviceId(index)).last_failure;
	};
	for (const index of [1, 2]) await check(index);
	await report(1, "set_fail");
	await report(2, "set");
	await deliver();
	expect(await failureOf(1)).toEqual({ version: "1.0.1", at: new Date(world.clock.nowMs).toISOString() });
	expect(await failureOf(2)).toBeNull();
	world.clock.nowMs += 60_000;
	await report(1, "set");
	await report(2, "download_fail");
	await deliver();
	expect(await failureOf(1)).toBeNull();
	expect(await failureOf(2)).toMatchObject({ version: "1.0.1" });
});

test("the list of bundles names who uploaded each, to readers of the audit log alone", async () => {
	const uploaderFor = async (key: string) => {
		const { bundles } = await get("/bundle", { app_id: app.appId, totals: "true" }, key);
		return bundles[0].uploaded_by;
	};
	const { type, name } = await uploaderFor(world.adminKey);
	expect(type).toBe("api_key");
	expect(name).toEqual(expect.any(String));
	const reader = await createTestKey(world, "app_reader", app);
	expect(await uploaderFor(reader.text)).toEqual({ type, name });
	const uploader = await createTestKey(world, "app_preview", app);
	expect(await uploaderFor(uploader.text)).toEqual({ type: "api_key", name: null });
	// The array of stock clients keeps its fields.
	expect((await get("/bundle", { app_id: app.appId }))[0]).not.toHaveProperty("uploaded_by");
});
