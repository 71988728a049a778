/**
 * Statistics against what is known to have happened: through the real requests and the real consumer, with messages that come twice and
 * in any order, the answers say what was done and nothing else.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { consume } from "../../src/events/consumer";
import {
	createTestApp,
	createTestKey,
	createWorld,
	NOW_MS,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "./support/world";

const DAY_MS = 86_400_000;
let world: World;
let app: TestApp;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	await uploadTestBundle(world, app, "1.0.1");
	await setTestChannel(world, app, "production", { version: "1.0.1", public: true });
	world.deps.sent.length = 0;
});

let devices = 0;
const newDevice = () => `00000000-0000-4000-8000-${String(++devices).padStart(12, "0")}`;
const body = (device_id: string, fields: Record<string, unknown> = {}) => ({
	app_id: app.appId,
	device_id,
	platform: "android",
	version_name: "builtin",
	version_os: "15",
	version_build: "1.0.0",
	plugin_version: "8.51.23",
	is_emulator: false,
	is_prod: true,
	...fields,
});
const check = (device: string, fields = {}) => world.request("POST", "/updates", { body: body(device, fields) });
const report = (device: string, action: string, fields = {}) =>
	world.request("POST", "/stats", {
		body: body(device, { action, version_name: "1.0.1", timestamp: world.clock.nowMs, ...fields }),
	});
const deliver = (messages = world.deps.sent) =>
	consume(world.deps, { messages: messages.filter((m) => m.kind === "device_events").map((body) => ({ body })) });
const get = (path: string, query: Record<string, string> = {}, key = world.adminKey) =>
	world.request("GET", path, { key, query });
const day = (offset: number) => new Date(NOW_MS + offset * DAY_MS).toISOString().slice(0, 10);

describe("GET /statistics/app/:app_id", () => {
	test("says what happened, by day and in total, and every device once", async () => {
		const [one, two, three] = [newDevice(), newDevice(), newDevice()];
		for (const device of [one, two]) await check(device);
		await report(one, "download_complete");
		await report(one, "set");
		await report(two, "download_fail");
		world.clock.nowMs += DAY_MS;
		for (const device of [one, three]) await check(device, { version_name: "1.0.1" });
		await deliver();
		await deliver([...world.deps.sent].reverse());
		const range = { from: day(-1), to: day(1) };
		const daily = await get(`/statistics/app/${app.appId}`, { ...range, noAccumulate: "true" });
		expect(daily.status, JSON.stringify(daily.body)).toBe(200);
		const none = { bandwidth: 0, storage: null };
		expect(daily.body).toEqual([
			{ date: `${day(-1)}T00:00:00.000Z`, mau: 0, get: 0, install: 0, fail: 0, ...none },
			{ date: `${day(0)}T00:00:00.000Z`, mau: 2, get: 1, install: 1, fail: 1, ...none },
			{ date: `${day(1)}T00:00:00.000Z`, mau: 2, get: 0, install: 0, fail: 0, ...none },
		]);
		const total = await get(`/statistics/app/${app.appId}`, range);
		expect(total.body.map((item: { mau: number }) => item.mau)).toEqual([0, 2, 3]);
		expect(total.body[2]).toMatchObject({ get: 1, install: 1, fail: 1 });
		expect(total.trips).toBe(2);
		for (const path of [`/statistics/org/${world.orgId}`, "/statistics/user"]) {
			const answer = await get(path, range);
			expect(answer.body, path).toEqual(total.body);
			expect(answer.trips).toBe(2);
		}
		const { body: broken } = await get(`/statistics/org/${world.orgId}`, { ...range, breakdown: "true" });
		expect(broken.global).toEqual(total.body);
		expect(broken.byApp).toEqual(total.body.map((item: object) => ({ ...item, app_id: app.appId })));
	});
});

describe("bundles", () => {
	test("adoption counts each device once a day, under what it ran last", async () => {
		const [one, two] = [newDevice(), newDevice()];
		await check(one);
		await check(two);
		world.clock.nowMs += 1000;
		await report(one, "set");
		await deliver([...world.deps.sent].reverse());
		await deliver();
		const { body } = await get(`/statistics/app/${app.appId}/bundle_usage`, { from: day(0), to: day(0) });
		expect(body).toEqual({
			labels: [day(0)],
			datasets: [
				{ label: "1.0.1", data: [50], metaCounts: [1] },
				{ label: "builtin", data: [50], metaCounts: [1] },
			],
		});
	});

	test("installs by bundle and channel, and how long they took", async () => {
		const device = newDevice();
		await check(device);
		await report(device, "download_zip_start", { timestamp: undefined });
		world.clock.nowMs += 4_000;
		await report(device, "set");
		await deliver([...world.deps.sent].reverse());
		await deliver();
		const { body } = await get(`/statistics/app/${app.appId}/installs`, { from: day(0), to: day(0) });
		expect(body.byBundleAndChannel).toEqual([
			{ version: "1.0.1", channel: "production", install: 1, fail: 0, success_rate: 100 },
		]);
		expect(body.total.timed).toBe(1);
		expect(body.total.p50_ms / 4_000).toBeGreaterThan(0.975);
		expect(body.total.p50_ms / 4_000).toBeLessThan(1.025);
		void createTestKey;
		void testEnv;
	});
});
