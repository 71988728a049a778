/** GET /device: pages and filters of the list, whose cost does not depend on other devices. */

import { beforeAll, describe, expect, test } from "vitest";
import type { AppId } from "../../../src/authz/decide";
import { consume } from "../../../src/consumer";
import { openDb } from "../../../src/db/client";
import { channelPlaces, type DeviceFilter, deviceById, devicesPage, placesOf } from "../../../src/db/devices";
import { plansOf } from "../support/plans";
import { REPORTS, reportsOf } from "../support/reports";
import {
	createTestApp,
	createWorld,
	NOW_MS,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;

beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	await uploadTestBundle(world, app, "1.0.1");
	await uploadTestBundle(world, app, "1.0.2");
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

const ANY_DEVICE: DeviceFilter = {
	channel: undefined,
	version: undefined,
	platform: undefined,
	customId: undefined,
	keyId: undefined,
	seenFromMs: undefined,
	seenToMs: undefined,
	search: undefined,
	searchesCustomIds: true,
};
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

const show = (query: Record<string, string>, key = world.adminKey) => showOf(app, query, key);

/** A list of the devices of a channel reads their overrides first. */
const showOf = (of: TestApp, query: Record<string, string>, key = world.adminKey) =>
	world.request("GET", "/device", {
		key,
		query: { app_id: of.appId, ...query },
		mostTrips: query.channel === undefined ? 2 : 3,
	});

async function deliver(): Promise<void> {
	await consume(world.deps, { messages: world.deps.sent.map((message) => ({ body: message })) as never });
}

describe("the list", () => {
	test("is ordered by id, has fifty devices per page, and is filtered by channel, version, platform and last seen", async () => {
		const own = await createTestApp(world);
		await uploadTestBundle(world, own, "1.0.1");
		await setTestChannel(world, own, "production", { public: true, version: "1.0.1" });
		await setTestChannel(world, own, "beta", { allow_device_self_set: true });
		world.deps.sent.length = 0;
		const ids = Array.from({ length: 60 }, () => newDevice());
		for (const [index, device_id] of ids.entries()) {
			await world.request("POST", "/updates", {
				body: body(device_id, {
					app_id: own.appId,
					platform: index < 10 ? "ios" : "android",
					version_name: index < 20 ? "1.0.1" : "builtin",
					defaultChannel: index < 5 ? "beta" : "",
				}),
			});
		}
		await deliver();
		const list = (query: Record<string, string> = {}) => showOf(own, query);
		const first = await list();
		expect(first.body).toHaveLength(50);
		expect(first).toMatchObject({ trips: 2 });
		expect(first.headers.get("link")).toContain("page=1");
		const second = await list({ page: "1" });
		expect([...first.body, ...second.body].map((row: { device_id: string }) => row.device_id)).toEqual([...ids].sort());
		expect((await list({ page: "2" })).body).toEqual([]);
		expect((await list({ platform: "ios" })).body).toHaveLength(10);
		expect((await list({ version: "1.0.1" })).body).toHaveLength(20);
		expect((await list({ channel: "beta" })).body).toHaveLength(5);
		expect((await list({ channel: "beta", platform: "android" })).body).toHaveLength(0);
		expect((await list({ seen_from: new Date(NOW_MS + 1).toISOString() })).body).toHaveLength(0);
		expect((await list({ seen_to: new Date(NOW_MS).toISOString() })).body).toHaveLength(50);
		expect((await list({ device_id: newDevice() })).status).toBe(404);
		expect(second.body[9]).toEqual({
			app_id: own.appId,
			device_id: ids[59],
			platform: "android",
			version_name: "builtin",
			version_build: "1.0.0",
			os_version: null,
			plugin_version: "8.51.23",
			is_prod: true,
			is_emulator: false,
			custom_id: null,
			custom_id_verified: false,
			custom_id_first_reported_at: null,
			custom_id_last_changed_at: null,
			custom_id_devices: 0,
			channel: "production",
			override_channel: null,
			override_version: null,
			key_id: null,
			version: null,
			install_source: null,
			country_code: null,
			created_at: "2026-11-21T08:00:00.000Z",
			last_seen_at: new Date(NOW_MS).toISOString(),
			updated_at: new Date(NOW_MS).toISOString(),
		});
	});
});

describe("the list of a custom id", () => {
	test("has only the devices that report exactly this one now", async () => {
		const own = await createTestApp(world);
		await setTestChannel(world, own, "production", { public: true });
		const [phone, tablet, other, nameless] = [newDevice(), newDevice(), newDevice(), newDevice()];
		const report = async (device_id: string, custom_id: string | undefined, fields: object = {}) => {
			world.deps.sent.length = 0;
			await check(device_id, { app_id: own.appId, custom_id, ...fields });
			await deliver();
		};
		await report(phone, "Ada 50% O'Neill");
		await report(tablet, "Ada 50% O'Neill", { platform: "ios" });
		await report(other, "ada 50% o'neill");
		await report(nameless, undefined);
		const found = async (custom_id: string, more: Record<string, string> = {}) => {
			const { body: devices, trips } = await show({ app_id: own.appId, custom_id, ...more });
			expect(trips).toBeLessThanOrEqual(more.channel === undefined ? 2 : 3);
			return devices.map(({ device_id }: { device_id: string }) => device_id);
		};
		expect(await found("Ada 50% O'Neill")).toEqual([phone, tablet]);
		expect(await found("Ada 50% O'Neill", { platform: "ios" })).toEqual([tablet]);
		expect(await found("Ada 50% O'Neill", { version: "builtin" })).toEqual([phone, tablet]);
		expect(await found("Ada 50% O'Neill", { version: "1.0.1" })).toEqual([]);
		expect(await found("Ada 50% O'Neill", { channel: "production" })).toEqual([phone, tablet]);
		expect(await found("Ada 50% O'Neill", { channel: "beta" })).toEqual([]);
		expect(await found("Ada 50%")).toEqual([]);
		expect(await found("null")).toEqual([]);
		// Another id on the same day is found at once, and the one before it no longer.
		world.clock.nowMs += 1000;
		await report(phone, "Grace");
		world.clock.nowMs = NOW_MS;
		expect(await found("Grace")).toEqual([phone]);
		expect(await found("Ada 50% O'Neill")).toEqual([tablet]);
		expect((await show({ app_id: own.appId, custom_id: "" })).status).toBe(400);
	});

	test("finds devices by a part of the id or of the custom id, unless the app hides custom ids", async () => {
		const own = await createTestApp(world);
		await setTestChannel(world, own, "production", { public: true });
		const [named, nameless] = [newDevice(), newDevice()];
		world.deps.sent.length = 0;
		await check(named, { app_id: own.appId, custom_id: "Customer-2410_100%" });
		await check(nameless, { app_id: own.appId });
		await deliver();
		const found = async (search: string, more: Record<string, string> = {}) => {
			const { body: devices } = await show({ app_id: own.appId, search, ...more });
			return devices.map(({ device_id }: { device_id: string }) => device_id);
		};
		expect(await found("ER-2410_")).toEqual([named]);
		expect(await found("0%")).toEqual([named]);
		expect(await found(nameless.slice(-6).toUpperCase())).toEqual([nameless]);
		expect(await found(nameless.slice(-6), { version: "builtin" })).toEqual([nameless]);
		expect(await found("2410", { channel: "production" })).toEqual([named]);
		expect(await found("r_2410")).toEqual([]);
		expect(await found(nameless.slice(0, 20))).toEqual([named, nameless]);
		await world.request("PUT", `/app/${own.appId}`, { key: world.adminKey, body: { allow_device_custom_id: false } });
		expect(await found("2410")).toEqual([]);
		expect(await found(named.slice(-6))).toEqual([named]);
	});
});

describe("the list of a channel", () => {
	test("has the devices seen on it and those with an override, page by page in one order", async () => {
		const own = await createTestApp(world);
		await uploadTestBundle(world, own, "1.0.1");
		await setTestChannel(world, own, "production", { public: true, version: "1.0.1" });
		await setTestChannel(world, own, "beta", { version: "1.0.1", allow_device_self_set: true });
		const ids = Array.from({ length: 120 }, newDevice);
		world.deps.sent.length = 0;
		for (const [index, device_id] of ids.entries()) {
			const defaultChannel = index % 2 === 0 ? "beta" : "";
			await check(device_id, { app_id: own.appId, defaultChannel, platform: index % 3 === 0 ? "ios" : "android" });
		}
		await deliver();
		// Some devices on beta have an override to production, some others one to beta; one has an
		// override of the bundle only.
		for (const [index, device_id] of ids.entries()) {
			const channel = index % 10 === 0 ? "production" : index % 10 === 1 ? "beta" : undefined;
			if (channel !== undefined)
				expect((await set(device_id, { app_id: own.appId, channel })).status).toBeLessThan(300);
		}
		const isOnBeta = (index: number) => (index % 2 === 0 && index % 10 !== 0) || index % 10 === 1;
		const expected = (keep: (index: number) => boolean) => ids.filter((_, index) => keep(index));
		const found = async (query: Record<string, string>) => {
			const names: string[] = [];
			for (let page = 0; ; page++) {
				const { body: devices } = await show({ app_id: own.appId, ...query, page: String(page) });
				if (devices.length === 0) return names;
				expect(devices.length).toBeLessThanOrEqual(50);
				names.push(...devices.map(({ device_id }: { device_id: string }) => device_id));
			}
		};
		expect(await found({ channel: "beta" })).toEqual(expected(isOnBeta));
		expect(await found({ channel: "production" })).toEqual(expected((index) => !isOnBeta(index)));
		expect(await found({ channel: "beta", platform: "ios" })).toEqual(
			expected((index) => isOnBeta(index) && index % 3 === 0),
		);
		expect(await found({ channel: "beta", version: "builtin" })).toEqual(expected(isOnBeta));
		expect(await found({ channel: "absent" })).toEqual([]);
	});

	test("costs as much as its page, however many other devices there are", async () => {
		const own = await createTestApp(world);
		await setTestChannel(world, own, "beta");
		await setTestChannel(world, own, "production", { public: true });
		await setTestChannel(world, own, "set");
		const many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)";
		const ids = await testEnv.DB.prepare("SELECT name, id FROM channels WHERE app_id = ?")
			.bind(own.uuid)
			.all<{ name: string; id: number }>();
		const idOf = (name: string) => ids.results.find((row) => row.name === name)?.id ?? null;
		const setTo = "(SELECT id FROM channels WHERE app_id = ?1 AND name = 'set')";
		const reports = await reportsOf(own.uuid);
		await reports
			.prepare(`${many} INSERT INTO devices (app_id, device_id, channel_id, version_name, created_at_ms, updated_at_ms)
				SELECT ?1, printf('device-%05d', i), CASE WHEN i % 1000 = 0 THEN ?2 ELSE ?3 END, CASE WHEN i % 3 THEN '1.0.' || (i % 3) END, 0, 0 FROM n`)
			.bind(own.uuid, idOf("beta"), idOf("production"))
			.run();
		// More than half of those that were seen on production were set to another.
		await testEnv.DB.prepare(
			`${many} INSERT INTO device_overrides (app_id, device_id, channel_id, created_by, created_at_ms, updated_at_ms)
				SELECT ?1, printf('device-%05d', i), ${setTo}, 'test', 0, 0 FROM n WHERE i > 1000 AND i % 1000 > 0`,
		)
			.bind(own.uuid)
			.run();
		const read = async (filtered: Partial<DeviceFilter>) => {
			const filter = { ...ANY_DEVICE, ...filtered };
			const db = openDb(testEnv.DB, "first-primary");
			const places =
				filter.channel === undefined
					? undefined
					: placesOf((await db.batch([channelPlaces(own.uuid as AppId, filter.channel)]))[0].rows[0]);
			const { sql, parameters } = devicesPage(own.uuid as AppId, filter, places, 50, 0);
			const { results, meta } = await REPORTS.prepare(sql)
				.bind(...parameters)
				.all();
			// Besides the lists of devices with an override.
			const listed = (places?.overridden.length ?? 0) + 2 * (places?.set.length ?? 0);
			expect(meta.rows_read - listed, JSON.stringify(filtered)).toBeLessThan(700);
			return results.map(({ device_id }) => Number(String(device_id).slice(-5)));
		};
		expect(await read({ channel: "beta" })).toEqual([1_000, 2_000, 3_000]);
		expect(await read({ channel: "beta", version: "1.0.1" })).toEqual([1_000]);
		expect(await read({ version: "9.9.9" })).toEqual([]);
		expect(await read({ channel: "absent", version: "1.0.1" })).toEqual([]);
		const first = (keep: (device: number) => boolean, from = 1) =>
			Array.from({ length: 3_000 }, (_, index) => from + index)
				.filter(keep)
				.slice(0, 50);
		expect(await read({ channel: "production" })).toEqual(first(() => true));
		expect(await read({ version: "1.0.2" })).toEqual(first((device) => device % 3 === 2));
		expect(await read({ channel: "set" })).toEqual(first((device) => device % 1_000 > 0, 1_001));
	});
});

describe("the list by an index", () => {
	test("is ordered by id with every other filter: custom id, channel, version, none", async () => {
		const others = [{}, { platform: "ios" }, { seenFromMs: NOW_MS, seenToMs: NOW_MS }];
		const found = async (filter: Partial<DeviceFilter>, ...by: readonly string[]) => {
			const places =
				filter.channel === undefined ? undefined : { channelId: 1, set: ["device"], overridden: ["device"] };
			const page = devicesPage(app.uuid as AppId, { ...ANY_DEVICE, ...filter }, places, 50, 0);
			const steps = await plansOf([page]);
			// Without another filter, the index has everything.
			const plan = steps.map((step) => step.replace("COVERING ", ""));
			for (const step of by) expect(plan, JSON.stringify(filter)).toContain(`SEARCH ${step}`);
			// Devices with the same custom id are counted up to ten. Lists of pairs and ids are short.
			const isShort = /^SCAN (CONSTANT ROW|\(subquery-\d+\)|pairs|found|(ids|json_each) VIRTUAL TABLE INDEX 1:)$/;
			const isBad = (step: string) => /^SCAN|AUTOMATIC/.test(step) && !isShort.test(step);
			expect(plan.filter(isBad)).toEqual([]);
		};
		const customId = "d USING INDEX devices_by_custom_id (app_id=? AND custom_id=?)";
		const set = "d USING PRIMARY KEY (app_id=? AND device_id=?)";
		const pair = "d USING INDEX devices_by_version (app_id=? AND version_name=? AND channel_id=?)";
		const ofChannel = "d USING INDEX devices_by_channel (app_id=? AND channel_id=?)";
		const channels = "d USING INDEX devices_by_version (app_id=? AND version_name=? AND channel_id>?)";
		for (const other of others) {
			await found({ ...other, version: "1.0.1", channel: "beta", customId: "somebody" }, customId);
			await found({ ...other, version: "1.0.1", channel: "beta" }, pair, set);
			await found({ ...other, channel: "beta" }, ofChannel, set);
			await found({ ...other, version: "1.0.1" }, channels, pair);
			await found(other, "d USING PRIMARY KEY (app_id=?)");
		}
		expect(await plansOf([deviceById(app.uuid as AppId, "device")])).toContain(
			"SEARCH d USING PRIMARY KEY (app_id=? AND device_id=?)",
		);
	});
});
