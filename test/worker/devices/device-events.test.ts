/**
 * The story of a device and the log of an app: what a person reads of what devices did, once,
 * newest first, for the app's own people, and nothing that costs a returning device a row.
 */

import { beforeEach, describe, expect, test } from "vitest";
import { consume } from "../../../src/consumer";
import { deleteOldDeviceEvents } from "../../../src/features/statistics/retention";
import { runJobs } from "../../../src/schedule";
import { openReports, REPORTS } from "../support/reports";
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
const prepare = async (options: Parameters<typeof createWorld>[0] = {}) => {
	world = await createWorld(options);
	app = await createTestApp(world);
	for (const version of ["1.0.1", "1.0.2"]) await uploadTestBundle(world, app, version);
	await setTestChannel(world, app, "production", { public: true, version: "1.0.1" });
	world.deps.sent.length = 0;
};
beforeEach(() => prepare());

let devices = 0;
const newDevice = () => `00000000-0000-4000-8000-${String(++devices).padStart(12, "0")}`;
const about = (device: string, fields: Record<string, unknown> = {}) => ({
	app_id: app.appId,
	device_id: device,
	platform: "android",
	version_name: "builtin",
	version_build: "1.0.0",
	plugin_version: "8.51.23",
	is_emulator: false,
	is_prod: true,
	...fields,
});
const pass = (ms: number) => {
	world.clock.nowMs += ms;
};
const check = (device: string, version_name = "builtin", fields = {}) =>
	world.request("POST", "/updates", { body: about(device, { version_name, ...fields }) });
const report = (device: string, action: string, version_name: string, fields = {}) =>
	world.request("POST", "/stats", {
		body: about(device, { action, version_name, timestamp: world.clock.nowMs, ...fields }),
	});
async function deliver(times = 1): Promise<void> {
	const messages = world.deps.sent.splice(0).map((body) => ({ body }));
	for (let time = 0; time < times; time++) await consume(world.deps, { messages: messages as never });
}
const events = async (query: Record<string, string> = {}) => {
	const { status, body } = await world.request("GET", "/device/events", {
		key: world.adminKey,
		query: { app_id: app.appId, ...query },
	});
	expect(status, JSON.stringify(body)).toBe(200);
	return body as {
		events: {
			id: string;
			device_id: string;
			kind: string;
			version: string | null;
			detail: string | null;
			by: string | null;
			channel: string | null;
		}[];
		next: string | null;
		newest: string | null;
	};
};
const kindsOf = (list: Awaited<ReturnType<typeof events>>) =>
	list.events.map(({ kind, version }) => `${kind} ${version}`);

/** A check with an offer, the download, and its installation. */
async function update(device: string, version: string): Promise<void> {
	await check(device);
	pass(1_000);
	await report(device, "download_complete", version);
	pass(1_000);
	await report(device, "set", version);
	pass(1_000);
	await deliver(2);
}

describe("GET /device/events", () => {
	test("lists each event of a device once, newest first", async () => {
		await prepare();
		const device = newDevice();
		await update(device, "1.0.1");
		await report(device, "app_crash_native", "1.0.1", { metadata: { exit_description: "SIGSEGV in libapp.so" } });
		pass(1_000);
		await report(device, "set_fail", "1.0.2");
		pass(1_000);
		await deliver(3);
		const body = { app_id: app.appId, device_id: device, channel: "production" };
		await world.request("POST", "/device", { key: world.adminKey, body });
		await deliver();
		const story = await events({ device_id: device });
		const expected = [
			"override null",
			"fail 1.0.2",
			"crash 1.0.1",
			"install 1.0.1",
			"download 1.0.1",
			"check 1.0.1",
			"first_seen builtin",
		];
		expect(kindsOf(story).sort()).toEqual(expected.toSorted());
		expect(kindsOf(story).slice(0, 5)).toEqual(expected.slice(0, 5));
		expect(story.events[0]).toMatchObject({ channel: "production", by: expect.stringMatching(/./) });
		expect(story.events.find(({ kind }) => kind === "crash")?.detail).toBe("SIGSEGV in libapp.so");
		expect(story.events.find(({ kind }) => kind === "check")?.detail).toBe("update");
		expect(kindsOf(await events()).sort(), "the log of the app").toEqual(expected.toSorted());
	});

	test("lists the start and end of a refusal, and writes no row for a returning device without news", async () => {
		const device = newDevice();
		await update(device, "1.0.1");
		const revision = async () =>
			(await REPORTS.prepare("SELECT revision FROM devices WHERE device_id = ?")
				.bind(device)
				.first("revision")) as number;
		const rows = async () =>
			(await REPORTS.prepare("SELECT count(*) AS rows FROM device_events WHERE app_id = ?")
				.bind(app.uuid)
				.first("rows")) as number;
		const before = [await revision(), await rows()];
		for (let day = 0; day < 3; day++) {
			pass(24 * 60 * 60 * 1000);
			await check(device, "1.0.1");
			await deliver();
		}
		expect([await revision(), await rows()]).toEqual(before);
		await setTestChannel(world, app, "production", { allow_device: false, version: "1.0.2" });
		for (let time = 0; time < 2; time++) {
			pass(60_000);
			await check(device, "1.0.1");
			await deliver();
		}
		await setTestChannel(world, app, "production", { allow_device: true, version: "1.0.1" });
		pass(60_000);
		await check(device, "1.0.1");
		await deliver();
		const checks = (await events({ device_id: device, kind: "check" })).events.map(({ detail }) => detail);
		expect(checks).toEqual(["no_new_version_available", "disable_device", "update"]);
	});

	test("pages through the log, filters it, and follows it", async () => {
		const ids = Array.from({ length: 6 }, newDevice);
		for (const id of ids) await update(id, "1.0.1");
		const all = await events({ limit: "200" });
		expect(all).toMatchObject({ next: null });
		const paged: string[] = [];
		let before: string | undefined;
		do {
			const page = await events({ limit: "5", ...(before === undefined ? {} : { before }) });
			paged.push(...page.events.map(({ id }) => id));
			before = page.next ?? undefined;
		} while (before !== undefined);
		expect(paged).toEqual(all.events.map(({ id }) => id));
		expect(kindsOf(await events({ kind: "install,fail" }))).toEqual(ids.map(() => "install 1.0.1"));
		expect(
			(await events({ search: (ids[2] ?? "").slice(-6) })).events.every(({ device_id }) => device_id === ids[2]),
		).toBe(true);
		expect((await events({ version: "9.9.9" })).events).toEqual([]);

		pass(60_000);
		const quiet = await events({ after: all.newest ?? "" });
		expect(quiet.events.every(({ id }) => all.events.some((known) => known.id === id))).toBe(true);
		const late = newDevice();
		await update(late, "1.0.1");
		const tail = await events({ after: quiet.newest ?? "" });
		const seen = new Set(all.events.map(({ id }) => id));
		expect(new Set(tail.events.filter(({ id }) => !seen.has(id)).map(({ device_id }) => device_id))).toEqual(
			new Set([late]),
		);
		expect(
			await world.request("GET", "/device/events", { key: world.adminKey, query: { app_id: app.appId, before: "x" } }),
		).toMatchObject({ status: 400 });
		const phone = newDevice();
		await check(phone, "builtin", { platform: "ios" });
		await deliver();
		const devicesOf = async (query: Record<string, string>) =>
			new Set((await events({ limit: "200", ...query })).events.map(({ device_id }) => device_id));
		expect(await devicesOf({ platform: "ios" })).toEqual(new Set([phone]));
		expect(await devicesOf({ platform: "android" })).toEqual(new Set([...ids, late]));
		await setTestChannel(world, app, "empty", {});
		expect(await devicesOf({ channel: "empty" })).toEqual(new Set());
		expect((await devicesOf({ channel: "production" })).size).toBeGreaterThanOrEqual(6);
		// A day counts as a whole.
		const today = new Date(world.clock.nowMs).toISOString().slice(0, 10);
		const yesterday = new Date(world.clock.nowMs - 24 * 60 * 60 * 1000).toISOString().slice(0, 10);
		expect(await devicesOf({ from: today, to: today, platform: "ios" })).toEqual(new Set([phone]));
		expect(await devicesOf({ to: yesterday, platform: "ios" })).toEqual(new Set());
		for (const [query, status] of [
			[{ channel: "nowhere" }, 404],
			[{ platform: "windows" }, 400],
		] as const) {
			const answer = await world.request("GET", "/device/events", {
				key: world.adminKey,
				query: { app_id: app.appId, ...query },
			});
			expect(answer.status).toBe(status);
		}
	});

	test("exports as lines of JSON and as CSV", async () => {
		const device = newDevice();
		await update(device, "1.0.1");
		const exported = async (format: string) => {
			const { body } = await world.request("GET", "/device/events", {
				key: world.adminKey,
				query: { app_id: app.appId, format },
			});
			return new TextDecoder().decode(body as unknown as ArrayBuffer);
		};
		const lines = (await exported("ndjson"))
			.trim()
			.split("\n")
			.map((line) => JSON.parse(line));
		expect(lines).toHaveLength((await events()).events.length);
		expect(await exported("csv")).toContain(`,${device},install,1.0.1,`);
	});

	test("keeps events for EVENT_DAYS, and none at 0", async () => {
		const device = newDevice();
		await update(device, "1.0.1");
		pass(31 * 24 * 60 * 60 * 1000);
		expect((await events()).events).toEqual([]);
		expect((await events({ device_id: device })).events).toEqual([]);
		await runJobs(world.deps);
		await deleteOldDeviceEvents(world.deps, openReports());
		const rows = "SELECT count(*) AS rows FROM device_events WHERE app_id = ?";
		expect(await REPORTS.prepare(rows).bind(app.uuid).first("rows")).toBe(0);

		await prepare({ config: { EVENT_DAYS: "0" } });
		await update(newDevice(), "1.0.1");
		expect(await REPORTS.prepare(rows).bind(app.uuid).first("rows")).toBe(0);
		expect((await events()).events).toEqual([]);
	});
});

describe("GET /device?totals=true", () => {
	const get = (path: string, query: Record<string, string>) =>
		world.request("GET", path, { key: world.adminKey, query: { app_id: app.appId, ...query } });
	/** The deprecated path answers alike. */
	const list = async (query: Record<string, string> = {}) => {
		const { body, headers } = await get("/device", { ...query, totals: "true" });
		expect(headers.get("x-ignored-fields")).toBeNull();
		expect((await get("/device/list", query)).body).toEqual(body);
		return body as {
			total: number;
			complete: boolean;
			devices: { device_id: string; channel: string | null }[];
		};
	};

	test("lists by the last report with the total, and finds parts of ids", async () => {
		await prepare();
		const ids = Array.from({ length: 55 }, newDevice);
		for (const [index, id] of ids.entries()) {
			await check(id, "builtin", { custom_id: index === 3 ? "Ada@Example.com" : "" });
			pass(1_000);
		}
		await deliver();
		const first = await list();
		const platforms = { all: 55, ios: 0, android: 55, electron: 0 };
		expect(first).toMatchObject({ total: 55, complete: true, platforms });
		// The numbers of the other platforms stay while one is chosen.
		expect(await list({ platform: "ios" })).toMatchObject({ total: 0, platforms });
		expect(await list({ sort: "name" })).toMatchObject({ platforms });
		expect(await list({ search: "ada@", platform: "ios" })).toMatchObject({
			platforms: { ...platforms, all: 1, android: 1 },
		});
		const second = await list({ page: "1" });
		expect([...first.devices, ...second.devices].map(({ device_id }) => device_id)).toEqual(ids.toReversed());
		expect(await list({ search: "ada@" })).toMatchObject({
			total: 1,
			devices: [{ device_id: ids[3], channel: "production" }],
		});
		expect(await list({ search: (ids[9] ?? "").slice(-7).toUpperCase(), platform: "android" })).toMatchObject({
			total: 1,
		});
		expect((await list({ channel: "production" })).total).toBe(55);
		const today = new Date(world.clock.nowMs).toISOString().slice(0, 10);
		expect((await list({ seen_from: today, seen_to: today })).total).toBe(55);
		const [oldest] = (await list({ sort: "last_seen", order: "asc" })).devices;
		expect(oldest?.device_id).toBe(ids[0]);
		const byName = (await list({ sort: "name", order: "desc" })).devices.map(({ device_id }) => device_id);
		// The custom id begins with a letter behind those of any UUID or not, so it counts as the name it
		// is.
		const nameOf = (id: string) => (id === ids[3] ? "ada@example.com" : id);
		expect(byName).toEqual(
			ids.toSorted((one, other) => (nameOf(one) < nameOf(other) ? 1 : -1)).slice(0, byName.length),
		);
		expect(await list({ platform: "ios" })).toEqual({ total: 0, complete: true, platforms, devices: [] });

		const none = { total: 0, complete: true, platforms: { all: 0, ios: 0, android: 0, electron: 0 }, devices: [] };
		const named = { totals: "true", custom_id: "Ada@Example.com" };
		expect((await get("/device", named)).body).toMatchObject({ total: 1, devices: [{ device_id: ids[3] }] });
		await world.request("PUT", `/app/${app.appId}`, { key: world.adminKey, body: { allow_device_custom_id: false } });
		expect((await get("/device", named)).body).toEqual(none);
		expect(await list({ search: "ada@" })).toEqual(none);
		expect((await list({ sort: "name" })).devices.map(({ device_id }) => device_id)).toEqual(
			ids.toSorted().slice(0, 50),
		);
	});

	test("sorts only with totals; the parameters of pages by cursor have no effect there", async () => {
		await prepare();
		await check(newDevice(), "builtin");
		await deliver();
		for (const query of [{ sort: "name" }, { sort: "name", order: "asc" }, { sort: "name", totals: "false" }]) {
			const { status, body } = await get("/device", query);
			expect([status, body.moreInfo?.issues[0].path], JSON.stringify(query)).toEqual([400, "sort"]);
		}
		expect((await get("/device", { order: "desc" })).body).toMatchObject({ data: [{}], hasMore: false });
		expect((await get("/device", {})).body).toBeInstanceOf(Array);
		const { body } = await get("/device", { totals: "true", order: "desc", limit: "1", cursor: "" });
		expect(body).toMatchObject({ total: 1, devices: [{}], ignored: ["cursor", "limit"] });
		expect(body.devices[0]).not.toHaveProperty("country_code");
	});
});
