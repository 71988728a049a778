/**
 * Reports of devices (POST /stats) update the device's row and the counts.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { consume } from "../../../src/consumer";
import { app, body, check, newApp, prepareUpdates, world } from "../support/update-scene";
import { setTestChannel, type TestApp, uploadTestBundle } from "../support/world";

beforeAll(prepareUpdates);

async function deliver(): Promise<void> {
	const messages = world.deps.sent.splice(0).map((message) => ({ body: message }));
	await consume(world.deps, { messages: messages as never });
}
const known = async (of: TestApp, device_id: string) =>
	(await world.request("GET", "/device", { key: world.adminKey, query: { app_id: of.appId, device_id } })).body;

const odd = "2024.01.05-beta (77)";

describe("POST /stats", () => {
	test("stores no channel for a device that no channel serves", async () => {
		const own = await newApp(world, { android: false });
		const device_id = crypto.randomUUID();
		expect(await check({ app_id: own.appId, device_id })).toMatchObject({ error: "no_channel" });
		await world.request("POST", "/stats", { body: body({ app_id: own.appId, device_id, action: "set" }) });
		await deliver();
		expect(await known(own, device_id)).toMatchObject({ channel: null });
	});
	test("accepts builtin as the version", async () => {
		const device_id = crypto.randomUUID();
		const report = { device_id, version_name: "builtin", action: "app_moved_to_foreground" };
		const answer = await world.request("POST", "/stats", { body: body(report) });
		expect(answer).toMatchObject({ status: 200, body: { status: "ok" } });
		await deliver();
		expect(await known(app, device_id)).toMatchObject({ version_name: "builtin" });
	});
	test("counts a download when it is complete, not when it is offered", async () => {
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
	test.each([odd, "beta", "7".repeat(300)])("accepts the store build %s", async (version_build) => {
		const device_id = crypto.randomUUID();
		const report = body({ device_id, version_build, version_os: "x".repeat(300), action: "set" });
		expect((await world.request("POST", "/stats", { body: report })).body).toEqual({ status: "ok" });
		const batch = await world.request("POST", "/stats", { body: [report] });
		expect(batch.body.results).toEqual([{ status: "ok", index: 0 }]);
		await deliver();
		expect((await known(app, device_id)).version_build).toBe(version_build.slice(0, 128));
	});
});
