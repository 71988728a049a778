/**
 * Statistics compared with a known history, through real requests and the real consumer, with
 * messages that arrive twice and in any order.
 */

import { beforeEach, describe, expect, test } from "vitest";
import type { AppId, OrgId } from "../../../src/authz/decide";
import { consume } from "../../../src/consumer";
import { statisticsApps } from "../../../src/db/statistics";
import { DAY_MS } from "../../../src/domain/time";
import { bundleOf, storedKeys } from "../support/bytes";
import { plansOf, scansIn } from "../support/plans";
import { reportsOf } from "../support/reports";
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
} from "../support/world";
import { testBundle } from "../support/zip";

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
	world.request("GET", path, { key, query: path.includes("/installs") ? query : { ...query, strict: "true" } });
/** Size of the app's objects in the bucket. */
async function storedBytes(of = app): Promise<number> {
	const objects = await Promise.all(
		(await storedKeys(`${of.uuid}/`)).map(async (key) => (await testEnv.BUNDLES.head(key))?.size ?? 0),
	);
	return objects.reduce((sum, size) => sum + size, 0);
}
const NO_DAY = 'must be a day that exists, such as "2026-11-21", or an RFC 3339 time of it';
const day = (offset: number) => new Date(NOW_MS + offset * DAY_MS).toISOString().slice(0, 10);

describe("GET /statistics/app/:app_id", () => {
	test("returns figures by day and in total, with every device once", async () => {
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
		const now = { bandwidth: 0, storage: await storedBytes() };
		expect(daily.body).toEqual([
			{ date: `${day(-1)}T00:00:00.000Z`, mau: 0, get: 0, install: 0, fail: 0, ...none },
			{ date: `${day(0)}T00:00:00.000Z`, mau: 2, get: 1, install: 1, fail: 1, ...none },
			{ date: `${day(1)}T00:00:00.000Z`, mau: 2, get: 0, install: 0, fail: 0, ...now },
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

describe("today's storage", () => {
	const storageOf = async (path: string, query: Record<string, string> = {}) => {
		const { body, trips } = await get(path, { from: day(-1), to: day(0), ...query });
		expect(trips).toBe(2);
		return body;
	};
	const ofToday = async (path: string, query: Record<string, string> = {}): Promise<number> =>
		(await storageOf(path, query)).at(-1).storage;

	test.each([
		["totals", {}],
		["single days", { noAccumulate: "true" }],
	])(
		"has an upload and a deletion at once, of the app, the organization, the user and by app (%s)",
		async (_, query) => {
			const other = await createTestApp(world, "other");
			const paths = [`/statistics/org/${world.orgId}`, "/statistics/user"];
			const expectBytes = async (bytes: number, ofOther: number) => {
				expect(await ofToday(`/statistics/app/${app.appId}`, query)).toBe(bytes);
				for (const path of paths) expect(await ofToday(path, query), path).toBe(bytes + ofOther);
				const broken = await storageOf(paths[0] ?? "", { ...query, breakdown: "true" });
				expect(broken.global.at(-1).storage).toBe(bytes + ofOther);
				const byApp = (broken.byApp as { date: string; app_id: string; storage: number }[])
					.filter(({ date }) => date.startsWith(day(0)))
					.map(({ app_id, storage }) => [app_id, storage]);
				expect(Object.fromEntries(byApp)).toEqual({ [app.appId]: bytes, [other.appId]: ofOther });
			};
			const first = testBundle("1.0.1").length;
			await expectBytes(first, 0);
			const large = bundleOf(12_345);
			const second = large.length;
			await uploadTestBundle(world, app, "1.0.2", undefined, large);
			await expectBytes(first + second, 0);
			expect(first + second).toBe(await storedBytes());
			await uploadTestBundle(world, other, "1.0.1");
			await expectBytes(first + second, first);
			const query1 = { app_id: app.appId, version: "1.0.2" };
			expect((await world.request("DELETE", "/bundle", { key: world.adminKey, query: query1 })).status).toBe(200);
			await expectBytes(first, first);
			// Yesterday has what was measured: nothing.
			expect((await storageOf(`/statistics/app/${app.appId}`))[0].storage).toBe(null);
		},
	);

	test("includes each file of the delta store once, and no unfinished upload", async () => {
		await testEnv.DB.prepare("INSERT INTO delta_objects VALUES (?, 'a', 'k', 70, 0), (?, 'b', 'l', 5, 0)")
			.bind(app.uuid, app.uuid)
			.run();
		await world.request("POST", "/bundle", {
			key: world.adminKey,
			body: { app_id: app.appId, version: "7.0.0", size: 1_000_000 },
		});
		expect(await ofToday(`/statistics/app/${app.appId}`)).toBe(testBundle("1.0.1").length + 75);
	});

	test("is null without apps", async () => {
		const stranger = await createWorld();
		const { body } = await stranger.request("GET", "/statistics/user", {
			key: stranger.adminKey,
			query: { from: day(0), to: day(0), strict: "true" },
		});
		expect(body.at(-1).storage).toBe(null);
	});

	test("is read without a table scan, however many tenants there are", async () => {
		const { sql, parameters } = statisticsApps({ orgIds: [world.orgId as OrgId], appIds: [app.uuid as AppId] });
		const scans = scansIn(await plansOf([{ sql, parameters }]));
		expect(scans.filter((line) => !/^SCAN (app|json_each|apps VIRTUAL)/.test(line))).toEqual([]);
	});
});

describe("bundles", () => {
	test("adoption counts each device once a day, under its last version", async () => {
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
				{ label: "builtin", data: [50], metaCounts: [1] },
				{ label: "1.0.1", data: [50], metaCounts: [1] },
			],
		});
	});

	test("installs are counted by bundle and channel, with their times", async () => {
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
	});
});

describe("access", () => {
	test("a key of one app reads only that app: sums contain the apps that a key may read, and it cannot read the organization", async () => {
		const other = await createTestApp(world, "other");
		await check(newDevice());
		await world.request("POST", "/updates", { body: body(newDevice(), { app_id: other.appId }) });
		await deliver();
		const { text: key } = await createTestKey(world, "app_reader", app);
		const today = { from: day(0), to: day(0) };
		const mau = async (path: string, who = key) => (await get(path, today, who)).body[0]?.mau;
		expect(await mau(`/statistics/app/${app.appId}`)).toBe(1);
		expect(await mau("/statistics/user")).toBe(1);
		expect(await mau("/statistics/user", world.adminKey)).toBe(2);
		expect(await mau(`/statistics/org/${world.orgId}`, world.adminKey)).toBe(2);
		const missing = await get("/statistics/app/com.example.absent", {}, key);
		for (const path of ["", "/bundle_usage", "/installs"]) {
			const answer = await get(`/statistics/app/${other.appId}${path}`, {}, key);
			expect([answer.status, answer.body.message]).toEqual([404, missing.body.message]);
		}
		expect((await get(`/statistics/org/${world.orgId}`, {}, key)).status).toBe(403);
		const elsewhere = await createWorld();
		expect((await get(`/statistics/org/${elsewhere.orgId}`)).status).toBe(404);
		const emptied = await get("/statistics/user", today, elsewhere.adminKey);
		expect([emptied.status, emptied.body[0].mau]).toEqual([200, 0]);
	});
});

describe("ranges", () => {
	const items = async (query: Record<string, string>) => get(`/statistics/app/${app.appId}`, query);

	test("have 30 days by default, in UTC with both ends, without future days, and at most 366", async () => {
		const usual = await items({});
		expect([usual.body.length, usual.body[0].date, usual.body[29].date.slice(0, 10)]).toEqual([
			30,
			`${day(-29)}T00:00:00.000Z`,
			day(0),
		]);
		expect((await items({ from: day(0), to: day(0) })).body).toHaveLength(1);
		expect((await items({ from: day(-365), to: day(0) })).body).toHaveLength(366);
		expect((await items({ from: `${day(-1)}T23:59:59+00:00`, to: `${day(0)}T00:00:00Z` })).body).toHaveLength(2);
		expect((await items({ from: day(-1), to: day(9) })).body).toHaveLength(2);
		expect((await items({ from: day(3), to: day(9) })).body).toEqual([]);
		expect((await items({ from: day(3) })).body).toEqual([]);
		expect((await items({ to: day(-40) })).body).toHaveLength(30);
	});

	test("have null on days beyond the retention", async () => {
		const { body } = await items({ from: day(-401), to: day(-398) });
		expect(body.map(({ date: _, ...figures }: { date: string }) => Object.values(figures))).toEqual([
			[null, null, null, null, null, null],
			[null, null, null, null, null, null],
			[0, null, 0, 0, 0, 0],
			[0, null, 0, 0, 0, 0],
		]);
	});

	test.each([
		[{ from: "2026-11-02", to: "2026-11-01" }, "from: must not be later than to"],
		[
			{ from: "2025-11-20", to: "2026-11-21" },
			"from: makes a range of 367 days, but at most 366 are allowed; ask for one year at a time",
		],
		[{ from: "2026-02-30" }, `from: ${NO_DAY}`],
		[{ from: "yesterday" }, `from: ${NO_DAY}`],
		// Thirty days before it lie in a year that no RFC 3339 time has.
		[{ to: "0000-01-01T00:00:00Z" }, "to: must not be before 1970-01-01"],
		[{ from: "1969-12-31", to: "1970-01-01" }, "from: must not be before 1970-01-01"],
		[{ graph: "pie" }, "graph: must be one of mau, storage, bandwidth, get, install, fail"],
		[{ format: "xml" }, "format: must be json or csv"],
		[{ noAccumulate: "yes" }, "noAccumulate: must be true or false"],
	])("that are none are refused: %o", async (query, message) => {
		const answer = await items(query as Record<string, string>);
		expect([answer.status, answer.body.message]).toEqual([400, message]);
	});
});

describe("CSV and charts", () => {
	const text = (bytes: ArrayBuffer) => new TextDecoder().decode(bytes);
	test.each([
		["/statistics/user", { graph: "mau" }],
		["/statistics/org/ORG", { graph: "bandwidth", breakdown: "true" }],
		["/statistics/app/APP", { graph: "storage", from: day(-365), to: day(0) }],
		["/statistics/app/APP/bundle_usage", { graph: "stacked" }],
		["/statistics/app/APP/bundle_usage", { graph: "line", from: day(0), to: day(0) }],
		["/statistics/app/APP/installs", { graph: "success_rate" }],
		["/statistics/app/APP/installs", { graph: "install_time", from: day(3), to: day(4) }],
	] as [string, Record<string, string>][])("%s %o is an SVG without external references", async (path, query) => {
		const answer = await get(path.replace("APP", app.appId).replace("ORG", world.orgId), query);
		expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "image/svg+xml"]);
		const svg = text(answer.body);
		expect(svg).toMatch(/^<svg .*<title>/s);
		expect(svg).not.toMatch(/<script|href=|url\(|\bon\w+=/);
		expect(answer.headers.get("content-security-policy")).toContain("default-src 'none'");
	});

	test("a chart of an app has flags for the releases of its main channel", async () => {
		await setTestChannel(world, app, "beta", { version: null });
		world.clock.nowMs += 2 * 86_400_000;
		await uploadTestBundle(world, app, "1.1.0");
		await setTestChannel(world, app, "production", { version: "1.1.0" });
		await uploadTestBundle(world, app, "1.1.1");
		await setTestChannel(world, app, "production", { version: "1.1.1" });
		await uploadTestBundle(world, app, "1.2.0");
		await setTestChannel(world, app, "beta", { version: "1.2.0" });
		const flagsOf = async (path: string, query: Record<string, string>) => {
			const svg = text((await get(`/statistics/${path.replace("APP", app.appId)}`, query)).body);
			return [...svg.matchAll(/class="flag".*?>([^<>]+)<\/text>/g)].map(([, name]) => name);
		};
		const range = { from: day(-5), to: day(2) };
		expect(await flagsOf("app/APP", { ...range, graph: "install" })).toEqual(["1.0.1", "1.1.1 +1"]);
		expect(await flagsOf("app/APP/bundle_usage", { ...range, graph: "stacked" })).toEqual(["1.0.1", "1.1.1 +1"]);
		expect(await flagsOf("app/APP/installs", { ...range, graph: "success_rate", from: day(1) })).toEqual(["1.1.1 +1"]);
		expect(await flagsOf("user", { ...range, graph: "install" })).toEqual([]);
	});

	test("CSV has the same figures, and empty cells for null", async () => {
		await check(newDevice());
		await deliver();
		const query = { from: day(0), to: day(0), format: "csv" };
		expect(text((await get(`/statistics/app/${app.appId}`, query)).body)).toBe(
			`date,mau,storage,bandwidth,get,install,fail\r\n${day(0)},1,${await storedBytes()},0,0,0,0\r\n`,
		);
		expect(text((await get(`/statistics/org/${world.orgId}`, { ...query, breakdown: "true" })).body)).toBe(
			`app_id,date,mau,storage,bandwidth,get,install,fail\r\n${app.appId},${day(0)},1,${await storedBytes()},0,0,0,0\r\n`,
		);
		expect(text((await get(`/statistics/app/${app.appId}/bundle_usage`, query)).body)).toBe(
			`date,bundle,devices,share_percent\r\n${day(0)},builtin,1,100\r\n`,
		);
		const device = newDevice();
		await check(device);
		await report(device, "set");
		await deliver();
		expect(text((await get(`/statistics/app/${app.appId}/installs`, query)).body)).toBe(
			"bundle,channel,install,fail,success_rate_percent\r\n1.0.1,production,1,0,100\r\n",
		);
	});
});

describe("a range with more sketches than fit into memory", () => {
	test("is refused with a remedy, and works with noAccumulate", async () => {
		const full = "A".repeat(1_000_000);
		const today = Math.floor(NOW_MS / DAY_MS);
		const reports = await reportsOf(app.uuid);
		await reports.batch(
			Array.from({ length: 26 }, (_, index) =>
				reports
					.prepare("INSERT INTO device_sketches VALUES (?, ?, 'all', '', 0, ?, 1, 1)")
					.bind(...[app.uuid, today - index, full]),
			),
		);
		const refused = await get(`/statistics/app/${app.appId}`);
		expect(refused.status).toBe(400);
		expect(refused.body.message).toMatch(/24 MiB.*ask for fewer days, for one app, or with noAccumulate=true$/);
		expect((await get(`/statistics/app/${app.appId}`, { noAccumulate: "true" })).status).toBe(200);
	});
});
