/**
 * The apps list with the live bundle and figures of each app, compared with requests of devices.
 */
import { expect, test } from "vitest";
import { consume } from "../../../src/consumer";
import { DAY_MS } from "../../../src/domain/time";
import { createTestApp, createTestKey, createWorld, setTestChannel, uploadTestBundle } from "../support/world";

test("GET /statistics/apps shows live bundle, devices, failures and last release of each readable app in two round trips", async () => {
	const world = await createWorld();
	const app = await createTestApp(world);
	await uploadTestBundle(world, app, "1.0.1");
	await setTestChannel(world, app, "production", { version: "1.0.1", public: true });
	const empty = await createTestApp(world, "zero");
	const device = (device_id: string, version_name: string) => ({
		app_id: app.appId,
		device_id,
		platform: "android",
		version_name,
		version_os: "15",
		version_build: "1.0.0",
		plugin_version: "8.51.23",
		is_emulator: false,
		is_prod: true,
	});
	const check = (id: string) => world.request("POST", "/updates", { body: device(id, "builtin") });
	const report = (id: string, action: string) =>
		world.request("POST", "/stats", { body: { ...device(id, "1.0.1"), action, timestamp: world.clock.nowMs } });
	const list = (query: Record<string, string> = {}, key = world.adminKey) =>
		world.request("GET", "/statistics/apps", { key, query });
	const [earlier, first, second] = [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()];
	world.clock.nowMs -= DAY_MS;
	await check(earlier);
	world.clock.nowMs += DAY_MS;
	for (const id of [first, second]) await check(id);
	await report(first, "set");
	await report(second, "update_fail");
	const events = world.deps.sent.filter(({ kind }) => kind === "device_events");
	await consume(world.deps, { messages: events.map((message) => ({ body: message })) });
	await uploadTestBundle(world, app, "1.1.0");
	world.clock.nowMs += 1000;
	await setTestChannel(world, app, "production", {
		rolloutVersion: "1.1.0",
		rolloutPercentageBps: 2500,
		rolloutEnabled: true,
	});

	const { body: listed, trips, status } = await list({ org_id: world.orgId });
	expect(status, JSON.stringify(listed)).toBe(200);
	expect(trips).toBe(2);
	expect(listed).toMatchObject([
		{
			app_id: app.appId,
			live: {
				channel: "production",
				version: "1.0.1",
				rollout: { version: "1.1.0", percentage_bps: 2500, state: "running", pause_reason: null },
			},
			devices: 2,
			install: 1,
			fail: 1,
			last_release: {
				action: "rollout_started",
				version: "1.1.0",
				channel: { name: "production" },
				actor: { name: "admin" },
			},
		},
		{ app_id: empty.appId, live: null, devices: 0, install: 0, fail: 0, last_release: null },
	]);
	expect(listed[0].devices_by_day).toEqual([...Array(12).fill(0), 1, 2]);
	const reader = await createTestKey(world, "app_reader", empty);
	const names = (await list({}, reader.text)).body.map(({ app_id }: { app_id: string }) => app_id);
	expect(names).toEqual([empty.appId]);
	const stranger = await createWorld();
	expect((await list({ org_id: world.orgId }, stranger.adminKey)).body).toEqual([]);
});
