/**
 * GET /channel marks a channel whose settings refuse its bundle to every device. Each test checks a
 * refused device, then follows the remedy and sees the mark disappear.
 */

import { beforeAll, describe, expect, test } from "vitest";
import { consume } from "../../../src/consumer";
import { DAY_MS } from "../../../src/domain/time";
import { REPORTS, reportsOf } from "../support/reports";
import { createTestApp, createWorld, type TestApp, uploadTestBundle, type World } from "../support/world";

let world: World;
let app: TestApp;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	for (const version of ["0.9.0", "1.0.1", "2.3.4", "3.0.0"]) await uploadTestBundle(world, app, version);
});

const set = async (channel: string, fields: Record<string, unknown>, of = app) => {
	const body = { app_id: of.appId, channel, ...fields };
	const answer = await world.request("POST", "/channel", { key: world.adminKey, body });
	expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
};
const show = async (channel: string, of = app) => {
	const query = { app_id: of.appId, channel };
	return (await world.request("GET", "/channel", { key: world.adminKey, query })).body.misconfigured;
};
const check = async (build: string, fields: Record<string, unknown> = {}, of = app) =>
	(
		await world.request("POST", "/updates", {
			body: {
				app_id: of.appId,
				device_id: crypto.randomUUID(),
				platform: "ios",
				version_name: "builtin",
				version_build: build,
				plugin_version: "8.51.23",
				...fields,
			},
		})
	).body;

describe("GET /channel: misconfigured", () => {
	test.each<[string, Record<string, unknown>, string, Record<string, unknown>]>([
		[
			"no_platform",
			{ ios: false, android: false, electron: false },
			"Channel no_platform is off for every platform, so no device gets bundle 1.0.1. Turn on ios, android or electron.",
			{ ios: true },
		],
		[
			"no_device_kind",
			{ allow_device: false, allow_emulator: false },
			"Channel no_device_kind is off for physical devices and for emulators, so no device gets bundle 1.0.1. Turn on allow_device or allow_emulator.",
			{ allow_device: true },
		],
		[
			"no_build_kind",
			{ allow_prod: false, allow_dev: false },
			"Channel no_build_kind is off for production builds and for development builds, so no device gets bundle 1.0.1. Turn on allow_prod or allow_dev.",
			{ allow_prod: true },
		],
		[
			"no_min_update_version",
			{ disableAutoUpdate: "version_number" },
			"Channel no_min_update_version updates by min_update_version, and bundle 1.0.1 has none, so no device gets it. Upload it again with a min_update_version, or set disableAutoUpdate to major.",
			{ disableAutoUpdate: "major" },
		],
	])("names settings that refuse every device: %s", async (name, settings, message, remedy) => {
		await set(name, { version: "1.0.1", allow_device_self_set: true, ...settings });
		expect(await show(name)).toMatchObject([{ code: name, message }]);
		expect(await check("1.0.0", { defaultChannel: name })).toHaveProperty("error");
		await set(name, remedy);
		expect(await show(name)).toEqual([]);
		expect(await check("1.0.0", { defaultChannel: name })).toMatchObject({ version: "1.0.1", url: expect.any(String) });
	});

	test("is empty for the store build and for a rollout that is off", async () => {
		const off = { ios: false, android: false, electron: false };
		await set("empty", off);
		expect(await show("empty")).toEqual([]);
		await set("empty", { rolloutVersion: "1.0.1", rolloutPercentage: 10, rolloutEnabled: false });
		expect(await show("empty")).toEqual([]);
		await set("empty", { rolloutEnabled: true });
		expect(await show("empty")).toMatchObject([{ code: "no_platform", message: expect.stringContaining("1.0.1") }]);
	});

	test("is the same in a list and for one channel", async () => {
		await set("listed", { version: "1.0.1", allow_prod: false, allow_dev: false });
		const { body, trips } = await world.request("GET", "/channel", {
			key: world.adminKey,
			query: { app_id: app.appId },
		});
		const item = body.find(({ name }: { name: string }) => name === "listed");
		expect(item.misconfigured).toEqual(await show("listed"));
		expect(item.misconfigured).toMatchObject([{ code: "no_build_kind" }]);
		expect(trips).toBe(1);
	});
});

describe("GET /channel: a bundle that no store build accepts", () => {
	/** Records devices by their update checks. */
	async function withDevices(...builds: string[]): Promise<TestApp> {
		const own = await createTestApp(world);
		for (const version of ["0.9.0", "1.0.1", "2.3.4", "3.0.0"]) await uploadTestBundle(world, own, version);
		for (const build of builds) await check(build, {}, own);
		await consume(world.deps, { messages: world.deps.sent.splice(0).map((body) => ({ body })) });
		return own;
	}

	test("is misconfigured if it is older than every recent store build", async () => {
		const own = await withDevices("1.4.2", "2.3.0");
		await set("production", { public: true, version: "1.0.1" }, own);
		expect(await show("production", own)).toEqual([
			{
				code: "no_store_build",
				version: "1.0.1",
				settings: [{ disableAutoUpdateUnderNative: false }],
				refusal: "disable_auto_update_under_native",
				store_builds: ["2.3.0", "1.4.2"],
				message:
					"No recent store build (2.3.0, 1.4.2) accepts bundle 1.0.1: channel production offers no bundle older than the store build: 1.0.1 is older than 2.3.0. Release a bundle from 2.3.0 to below 3.0.0 to channel production, or turn off disableAutoUpdateUnderNative on channel production.",
			},
		]);
		for (const build of ["1.4.2", "2.3.0"]) {
			expect(await check(build, {}, own)).toMatchObject({ error: "disable_auto_update_under_native" });
		}
		await set("production", { version: "2.3.4" }, own);
		expect(await show("production", own)).toEqual([]);
		expect(await check("2.3.0", {}, own)).toMatchObject({ version: "2.3.4", url: expect.any(String) });
	});

	test("is misconfigured if its major version is newer than every store build, also in a rollout", async () => {
		const own = await withDevices("2.3.0");
		await set("production", { public: true, version: "3.0.0" }, own);
		expect(await show("production", own)).toMatchObject([
			{ code: "no_store_build", message: expect.stringContaining("ship store build 3.0.0") },
		]);
		const rollout = { version: "2.3.4", rolloutVersion: "3.0.0", rolloutPercentage: 10, rolloutEnabled: true };
		await set("production", rollout, own);
		expect(await show("production", own)).toMatchObject([
			{ code: "no_store_build", message: expect.stringContaining("bundle 3.0.0") },
		]);
	});

	test("is not misconfigured if one store build accepts it, or if there are none", async () => {
		const own = await withDevices("0.9.0", "2.3.0", "unknown", "beta");
		await set("production", { public: true, version: "2.3.4" }, own);
		expect(await show("production", own)).toEqual([]);
		const none = await withDevices();
		await set("production", { public: true, version: "0.9.0" }, none);
		expect(await show("production", none)).toEqual([]);
	});

	test("is not misconfigured if the store builds were last seen more than 30 days ago", async () => {
		const own = await withDevices("2.3.0");
		await set("production", { public: true, version: "1.0.1" }, own);
		const seenAt = async (timeMs: number) => {
			await REPORTS.prepare("UPDATE devices SET last_seen_at_ms = ? WHERE app_id = ?").bind(timeMs, own.uuid).run();
			// An isolate keeps what it read for a moment.
			world.clock.nowMs += 3_000;
		};
		await seenAt(world.clock.nowMs - 30 * DAY_MS + 3_001);
		expect(await show("production", own)).toMatchObject([{ code: "no_store_build" }]);
		await seenAt(world.clock.nowMs - 30 * DAY_MS + 3_000);
		expect(await show("production", own)).toEqual([]);
	});

	test("is judged only by devices of the same app", async () => {
		const [own, other] = [await withDevices(), await withDevices("2.3.0")];
		await set("production", { public: true, version: "1.0.1" }, own);
		await set("production", { public: true, version: "1.0.1" }, other);
		expect(await show("production", own)).toEqual([]);
		expect(await show("production", other)).toMatchObject([{ code: "no_store_build" }]);
	});

	test("costs the same number of read devices in a large app as in a small one", async () => {
		const own = await withDevices();
		await set("production", { public: true, version: "1.0.1" }, own);
		const reports = await reportsOf(own.uuid);
		await reports
			.prepare(
				`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
			INSERT INTO devices (app_id, device_id, version_build, last_seen_at_ms, created_at_ms, updated_at_ms)
			SELECT ?, printf('%08d', i), '2.' || i || '.0', ?, 0, 0 FROM n`,
			)
			.bind(own.uuid, world.clock.nowMs)
			.run();
		const [problem] = await show("production", own);
		expect(problem.message).toContain("(2.100.0, 2.99.0, 2.98.0 and 97 more)");
	});
});
