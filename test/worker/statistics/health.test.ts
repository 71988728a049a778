/**
 * Health signals of stock plugins: counted once per device, bundle and day, under the bundle that
 * ran when they happened, and shown by bundle and day, for the app's own people only.
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
	for (const version of ["1.0.1", "1.0.2"]) await uploadTestBundle(world, app, version);
	await setTestChannel(world, app, "production", { public: true, version: "1.0.2" });
	world.deps.sent.length = 0;
});

let devices = 0;
const newDevice = () => `00000000-0000-4000-8000-${String(++devices).padStart(12, "0")}`;
const event = (device: string, action: string, fields: Record<string, unknown> = {}) => ({
	app_id: app.appId,
	device_id: device,
	platform: "android",
	version_name: "1.0.1",
	version_build: "1.0.0",
	plugin_version: "8.51.23",
	action,
	timestamp: world.clock.nowMs,
	...fields,
});
const report = (...events: readonly object[]) => world.request("POST", "/stats", { body: events });
async function deliver(times = 1): Promise<void> {
	const messages = world.deps.sent.splice(0).map((body) => ({ body }));
	for (let time = 0; time < times; time++) await consume(world.deps, { messages: messages as never });
}
const health = async (query: Record<string, string> = {}, key = world.adminKey) =>
	world.request("GET", `/statistics/app/${app.appId}/health`, { key, query });

describe("health signals", () => {
	test("count each device once per signal, bundle and day, whatever it repeats", async () => {
		const [one, other] = [newDevice(), newDevice()];
		await report(
			event(one, "app_crash"),
			event(one, "app_crash_native"),
			event(one, "webview_javascript_error", { metadata: { message: "x is not a function", line: "3" } }),
			event(one, "webview_unhandled_rejection", { timestamp: world.clock.nowMs + 1 }),
			event(other, "app_anr"),
			event(other, "app_launch_timeout", { version_name: "1.0.2" }),
			event(other, "webview_javascript_error", { version_name: "9.9.9" }),
			event(other, "app_killed_low_memory"),
		);
		world.clock.nowMs += 3 * 60 * 60 * 1000;
		await report(event(one, "app_crash"), event(one, "webview_javascript_error"));
		await deliver(2);
		const { body } = await health();
		expect(body.total).toMatchObject({ crash: 1, anr: 1, js_error: 2, launch_timeout: 1, launches: 0 });
		expect(body.byBundle).toMatchObject([
			{ version: "unknown", js_error: 1 },
			{ version: "1.0.1", crash: 1, anr: 1, js_error: 1 },
			{ version: "1.0.2", crash: 0, launch_timeout: 1 },
		]);
		expect(body.byDay.at(-1)).toMatchObject({ crash: 1, anr: 1, js_error: 2 });

		world.clock.nowMs += 24 * 60 * 60 * 1000;
		await report(event(one, "app_crash"));
		await deliver();
		expect((await health({ version: "1.0.1" })).body.total).toMatchObject({ crash: 2, js_error: 1 });
	});

	test("count a crash for the bundle that ran when the app ended, also after the plugin rolled back", async () => {
		const device = newDevice();
		const aheadMs = 40 * 24 * 60 * 60 * 1000;
		const at = (ms: number) => ({ timestamp: world.clock.nowMs + aheadMs + ms });
		await report(event(device, "set", { version_name: "1.0.1", ...at(0) }));
		await deliver();
		world.clock.nowMs += 60 * 60 * 1000;
		await report(event(device, "set", { version_name: "1.0.2", ...at(0) }));
		await deliver();
		// 1.0.2 ends the app, the plugin rolls back, and the next start reports both under the old
		// bundle.
		world.clock.nowMs += 10_000;
		const exit = { metadata: { exit_timestamp: String(world.clock.nowMs + aheadMs - 5_000), pid: "12" } };
		await report(
			event(device, "update_fail", { version_name: "1.0.2", ...at(0) }),
			event(device, "app_launch_start", at(1)),
			event(device, "app_crash_native", { ...at(2), ...exit }),
		);
		await deliver(2);
		expect((await health()).body.byBundle).toMatchObject([{ version: "1.0.2", crash: 1 }]);
		// Later the old bundle crashes itself.
		world.clock.nowMs += 24 * 60 * 60 * 1000;
		const own = { metadata: { exit_timestamp: String(world.clock.nowMs + aheadMs - 60_000) } };
		await report(event(device, "app_anr", { ...at(0), ...own }));
		await deliver();
		expect((await health()).body.byBundle).toMatchObject([
			{ version: "1.0.1", anr: 1 },
			{ version: "1.0.2", crash: 1 },
		]);
	});

	test("give percentiles of launch times, one per device and bundle, as JSON, CSV and charts", async () => {
		for (let index = 1; index <= 10; index++) {
			const device = newDevice();
			const launch = event(device, "app_launch_ready", { metadata: { duration_ms: String(index * 100) } });
			await report(launch, { ...launch, timestamp: world.clock.nowMs + 5 });
		}
		await report(event(newDevice(), "app_launch_ready", { metadata: { duration_ms: "soon" } }));
		await deliver();
		const { body } = await health();
		expect(body.total.launches).toBe(10);
		expect(Math.abs(body.total.launch_p50_ms - 500)).toBeLessThan(500 * 0.026);
		expect(Math.abs(body.total.launch_p95_ms - 1_000)).toBeLessThan(1_000 * 0.026);
		const csv = await health({ format: "csv" });
		expect(new TextDecoder().decode(csv.body as unknown as ArrayBuffer)).toContain(
			"bundle,crash,anr,js_error,launch_timeout,launches,launch_p50_ms,launch_p95_ms",
		);
		for (const graph of ["signals", "launch_time"]) {
			const chart = await health({ graph });
			expect(new TextDecoder().decode(chart.body as unknown as ArrayBuffer)).toContain("<svg");
		}
	});

	test("write no row for a device whose app reports the same error again and again", async () => {
		const device = newDevice();
		await report(event(device, "webview_javascript_error"));
		await deliver();
		for (let hour = 0; hour < 3; hour++) {
			world.clock.nowMs += 60 * 1000;
			for (let index = 0; index < 50; index++) await report(event(device, "webview_javascript_error"));
		}
		const counted = world.deps.sent.flatMap((message) =>
			message.kind === "device_events" ? message.events.filter(({ type }) => type === "count") : [],
		);
		expect(counted).toEqual([]);
	});
});
