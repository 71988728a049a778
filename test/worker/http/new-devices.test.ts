/**
 * Limits of new devices and of requests of one address: strangers cannot fill the database, and
 * real fleets are never refused.
 */

import { describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { consume } from "../../../src/consumer";
import type { Deps } from "../../../src/deps";
import { REPORTS } from "../support/reports";
import { OWN_PAGE } from "../support/sessions";
import {
	about,
	check,
	counting,
	deviceList,
	from,
	install,
	newDevice,
	OFFICE,
	type Scene,
	STRANGER,
	scene,
	statistics,
	stats,
	TOO_MANY,
	tripsOf,
} from "../support/stranger-scene";
import {
	createTestApp,
	createWorld,
	NOW_MS,
	requestThrough,
	setTestChannel,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

const deliver = (world: World) => {
	const messages = world.deps.sent.splice(0).filter(({ kind }) => kind === "device_events");
	return consume(world.deps, { messages: messages.map((body) => ({ body })) });
};

describe("new device ids", () => {
	test("are limited by address and app before anything is stored; known devices and other addresses are not affected", async () => {
		const { world, app } = await scene({ config: { ADDRESS_LIMIT_SCALE: "0.1" } });
		const office = deviceList(20);
		for (const device of office) await check(world, app.appId, device, STRANGER);
		let refused = 0;
		for (const device of deviceList(320)) {
			const answer = await check(world, app.appId, device);
			if (answer.status !== 429) continue;
			refused += 1;
			expect(answer.headers.get("retry-after")).toBe("60");
		}
		expect(refused).toBe(40);
		await deliver(world);
		const { count } = (await REPORTS.prepare("SELECT count(*) AS count FROM devices WHERE app_id = ?")
			.bind(app.uuid)
			.first<{ count: number }>()) ?? { count: 0 };
		expect(count).toBe(300);
		expect(await stats(world, install(app.appId, newDevice()))).toMatchObject(TOO_MANY);
		for (const device of office) expect((await check(world, app.appId, device, STRANGER)).status).toBe(200);
		expect((await stats(world, install(app.appId, office[0] ?? ""))).status).toBe(200);
		expect((await check(world, app.appId, newDevice(), OFFICE)).status).toBe(200);
	});

	test("in one /stats are counted one by one", async () => {
		const { world, app } = await scene();
		const batch = () => deviceList(500).map((device) => ({ app_id: app.appId, device_id: device, action: "set" }));
		const statuses: number[] = [];
		for (let request = 0; request < 8; request += 1) statuses.push((await stats(world, batch())).status);
		expect(statuses).toEqual([200, 200, 200, 200, 200, 200, 429, 429]);
	});

	test("are counted by the platform from a tenth of the limit, and its refusal is cached", async () => {
		const newDevices = counting(10);
		const { world, app } = await scene({
			bindings: { requestLimits: { newDevices: { limiter: newDevices, periodSeconds: 60 } } },
		});
		const statuses = [];
		for (const device of deviceList(330)) statuses.push((await check(world, app.appId, device, OFFICE)).status);
		expect(statuses.indexOf(429)).toBe(310);
		expect([...newDevices.seen]).toEqual([[`${app.appId} ${OFFICE}`, 11]]);
		world.clock.nowMs += 5_000;
		await check(world, app.appId, newDevice(), OFFICE);
		expect(newDevices.seen.get(`${app.appId} ${OFFICE}`)).toBe(12);
	});

	test("are limited by the binding in wrangler.toml", async () => {
		const { world, app } = await scene({
			bindings: { requestLimits: { newDevices: { limiter: testEnv.NEW_DEVICES, periodSeconds: 60 } } },
		});
		const address = "2001:db8:61::1";
		const key = `${app.appId} ${address.replace(/::1$/, "::/64")}`;
		const devices = deviceList(330);
		for (const device of devices.slice(0, 300)) {
			expect((await check(world, app.appId, device, address)).status).toBe(200);
		}
		// Other isolates of the data center let so many through that the platform's window is full; a new
		// one may begin before the next check.
		const fillWindow = async () => {
			while ((await testEnv.NEW_DEVICES.limit({ key })).success) {
				await Promise.all(Array.from({ length: 500 }, () => testEnv.NEW_DEVICES.limit({ key })));
			}
		};
		const statuses = new Set<number>();
		for (const device of devices.slice(300)) {
			await fillWindow();
			statuses.add((await check(world, app.appId, device, address)).status);
			if (statuses.has(429)) break;
		}
		expect(statuses).toContain(429);
	});
});

describe("an office of 500 devices behind one address", () => {
	test("is never refused when all devices check on a cold isolate, launch three times, report and list channels", async () => {
		const { world, app } = await scene();
		const request = requestThrough(createApp(world.deps));
		const office = deviceList(500);
		const statuses = new Map<string, number>();
		const note = (what: string, { status }: { status: number }) =>
			statuses.set(`${what} ${status}`, (statuses.get(`${what} ${status}`) ?? 0) + 1);
		for (let launch = 0; launch < 3; launch += 1) {
			for (const device of office) {
				note("check", await check({ request }, app.appId, device, OFFICE));
				note("stats", await stats({ request }, [install(app.appId, device, { timestamp: NOW_MS + launch })], OFFICE));
				note(
					"channels",
					await request("PUT", "/channel_self", { body: about(app.appId, device), headers: from(OFFICE) }),
				);
			}
		}
		expect([...statuses]).toEqual([
			["check 200", 1_500],
			["stats 200", 1_500],
			["channels 200", 1_500],
		]);
		await deliver(world);
		expect(await statistics({ world, app })).toMatchObject({ mau: 500, install: 1_500 });
		expect(await statistics({ world, app })).not.toHaveProperty("lost_events");
	});

	test("is never refused when the app has too many overrides to cache", async () => {
		const { world, app } = await scene();
		const many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5001)";
		await testEnv.DB.batch([
			testEnv.DB.prepare(`${many} INSERT INTO device_overrides
				(app_id, device_id, version_id, created_by, created_at_ms, updated_at_ms)
				SELECT ?1, 'd' || i, (SELECT id FROM bundles WHERE app_id = ?1), ?2, 1, 1 FROM n`).bind(app.uuid, world.userId),
		]);
		const request = requestThrough(createApp(world.deps));
		const asked = { app_id: app.appId, platform: "electron", version_name: "builtin", version_build: "1.0.0" };
		const ask = async (device: string) => [
			await request("PUT", "/channel_self", { body: about(app.appId, device), headers: from(OFFICE) }),
			await request("POST", "/channel_self", {
				body: about(app.appId, device, { channel: "production" }),
				headers: from(OFFICE),
			}),
			await request("GET", "/channel_self", { query: { ...asked, device_id: device }, headers: from(OFFICE) }),
			await check({ request }, app.appId, device, OFFICE),
		];
		const statuses = new Set<number>();
		for (const device of deviceList(500)) for (const { status } of await ask(device)) statuses.add(status);
		expect([...statuses]).toEqual([200]);
		let refused = 0;
		const config = { ...world.deps.config, addressLimitScale: 0.1 };
		const narrow = requestThrough(createApp({ ...world.deps, config }));
		const flood = await tripsOf(async () => {
			for (const device of deviceList(310)) {
				const answer = await narrow("PUT", "/channel_self", {
					body: about(app.appId, device),
					headers: from(STRANGER),
				});
				if (answer.status === 429) refused += 1;
			}
		});
		// One more loads the app.
		expect([flood, refused]).toEqual([301, 10]);
	});

	test("is not refused by three isolates", async () => {
		const newDevices = counting(3_000);
		const questions = counting(120);
		const { world, app } = await scene({
			bindings: {
				requestLimits: {
					newDevices: { limiter: newDevices, periodSeconds: 60 },
					d1Reads: { limiter: questions, periodSeconds: 60 },
				},
			},
		});
		const isolates = [1, 2, 3].map(() => requestThrough(createApp(world.deps)));
		const office = deviceList(500);
		for (const request of isolates) {
			for (const device of office) expect((await check({ request }, app.appId, device, OFFICE)).status).toBe(200);
		}
	});
});

describe("ADDRESS_LIMIT_SCALE", () => {
	test("multiplies the limits, and 0 disables them", async () => {
		const newDevices = counting(310);
		const wide = await scene({
			bindings: { requestLimits: { newDevices: { limiter: newDevices, periodSeconds: 60 } } },
			config: { ADDRESS_LIMIT_SCALE: "2" },
		});
		// Twice the tenth that is free, and two counters of the platform's.
		for (const device of deviceList(1_200)) {
			expect((await check(wide.world, wide.app.appId, device)).status).toBe(200);
		}
		expect(newDevices.seen.size).toBe(2);
		const off = await scene({ config: { ADDRESS_LIMIT_SCALE: "0" } });
		for (let request = 0; request < 7; request += 1) {
			const batch = deviceList(500).map((device) => ({ app_id: off.app.appId, device_id: device, action: "set" }));
			expect((await stats(off.world, batch)).status).toBe(200);
		}
		expect((await check(off.world, off.app.appId, newDevice())).status).toBe(200);
	});

	test("refuses an invalid factor", async () => {
		for (const text of ["-1", "x", "1001", " "]) {
			await expect(createWorld({ config: { ADDRESS_LIMIT_SCALE: text } })).rejects.toThrow("ADDRESS_LIMIT_SCALE");
		}
	});
});

test("requests of one address are limited per ten seconds; other addresses and the next window are not affected", async () => {
	const { world, app } = await scene({ config: { ADDRESS_LIMIT_SCALE: "0.01" } });
	const device = newDevice();
	let answer = await check(world, app.appId, device);
	for (let request = 2; request <= 300; request += 1) answer = await check(world, app.appId, device);
	expect(answer.status).toBe(200);
	answer = await check(world, app.appId, device);
	expect(answer).toMatchObject(TOO_MANY);
	expect(answer.headers.get("retry-after")).toBe("10");
	expect(await world.as()("GET /updates", { headers: from(STRANGER) })).toMatchObject(TOO_MANY);
	const link = new URL((await check(world, app.appId, newDevice(), OFFICE)).body.url);
	expect((await world.request("GET", link.pathname + link.search, { headers: from(STRANGER) })).status).toBe(429);
	expect((await world.request("GET", link.pathname + link.search, { headers: from(OFFICE) })).status).toBe(200);
	world.clock.nowMs += 10_000;
	expect((await check(world, app.appId, device)).status).toBe(200);
});

describe("one device", () => {
	test("adds at most a hundred installs and failures per day; others are counted as lost", async () => {
		const { world, app } = await scene();
		const device = newDevice();
		for (let request = 0; request < 3; request += 1) {
			const reports = Array.from({ length: 100 }, (_, index) =>
				install(app.appId, device, { timestamp: NOW_MS + request * 100 + index + 1 }),
			);
			expect((await stats(world, reports)).status).toBe(200);
		}
		const honest = newDevice();
		await stats(world, [install(app.appId, honest)]);
		await deliver(world);
		expect(await statistics({ world, app })).toMatchObject({ mau: 2, install: 101, lost_events: 200 });
		world.clock.nowMs += 24 * 3_600_000;
		await stats(world, install(app.appId, device, { timestamp: NOW_MS * 2 }));
		await deliver(world);
		expect(await statistics({ world, app })).toMatchObject({ install: 102, lost_events: 200 });
	});
});

describe("NEW_DEVICES_PER_DAY", () => {
	test("limits new devices of an app, without effect on known devices, other apps and the next day", async () => {
		const { world, app } = await scene({ config: { NEW_DEVICES_PER_DAY: "30" } });
		const other = await createTestApp(world, "other");
		const known = deviceList(20);
		for (const device of known) await check(world, app.appId, device);
		await deliver(world);
		for (const device of deviceList(40)) await check(world, app.appId, device);
		for (const device of deviceList(30)) await stats(world, install(app.appId, device));
		for (const device of known) await stats(world, install(app.appId, device));
		for (const device of deviceList(10)) await check(world, other.appId, device);
		await deliver(world);
		const item = await statistics({ world, app });
		expect(item).toMatchObject({ mau: 30, install: 20, refused_devices: 60, lost_events: 30 });
		const other1 = await statistics({ world, app: other });
		expect(other1).toMatchObject({ mau: 10 });
		expect(other1).not.toHaveProperty("refused_devices");
		world.clock.nowMs += 24 * 3_600_000;
		await check(world, app.appId, newDevice());
		await deliver(world);
		expect(await statistics({ world, app })).toMatchObject({ mau: 31 });
	});
});

test("new devices of one address and app are limited per day, without effect on known devices, other addresses and the next day", async () => {
	const { world, app } = await scene({ config: { ADDRESS_LIMIT_SCALE: "0.01" } });
	const known = newDevice();
	await check(world, app.appId, known, OFFICE);
	await deliver(world);
	const madeUp = deviceList(150);
	for (const [index, device] of madeUp.entries()) {
		if (index % 30 === 0) world.clock.nowMs += 60_000;
		expect((await check(world, app.appId, device)).body.version).toBe("1.0.1");
	}
	await deliver(world);
	expect(await statistics({ world, app })).toMatchObject({ mau: 101, refused_devices: 50 });
	// A later report of one of them adds no device either.
	for (const device of madeUp.slice(-10)) await stats(world, install(app.appId, device));
	await stats(world, install(app.appId, known));
	await check(world, app.appId, newDevice(), OFFICE);
	await deliver(world);
	expect(await statistics({ world, app })).toMatchObject({ mau: 102, install: 1, refused_devices: 60 });
	world.clock.nowMs += 24 * 3_600_000;
	await check(world, app.appId, newDevice());
	await deliver(world);
	expect(await statistics({ world, app })).toMatchObject({ mau: 103 });
});

describe("a database that is nearly full, or a Queue that fails", () => {
	const managementWorks = async ({ world, app }: Scene) => {
		expect((await check(world, app.appId, newDevice(), OFFICE)).body.version).toBe("1.0.1");
		const signIn = await world.as()("POST /sign-in/code", { body: { email: world.adminEmail }, headers: OWN_PAGE });
		expect(signIn.status, JSON.stringify(signIn.body)).toBeLessThan(300);
		await uploadTestBundle(world, app, "1.0.2");
		await setTestChannel(world, app, "production", { version: "1.0.2" });
		expect((await check(world, app.appId, newDevice(), OFFICE)).body.version).toBe("1.0.2");
		const back = await world.admin("POST /channel/rollback", { body: { app_id: app.appId, channel: "production" } });
		expect(back.status, JSON.stringify(back.body)).toBe(200);
		expect((await check(world, app.appId, newDevice(), OFFICE)).body.version).toBe("1.0.1");
	};

	test("stores no new device and no event, counts the loss, and allows sign-in, publishing and rollback", async () => {
		const { world, app } = await scene();
		const known = newDevice();
		await check(world, app.appId, known);
		await deliver(world);
		const full = createApp({ ...world.deps, config: { ...world.deps.config, telemetryMaxBytes: 1 } });
		Object.assign(world.deps, { config: { ...world.deps.config, telemetryMaxBytes: 1 } });
		const limited = { world: { ...world, request: requestThrough(full) }, app };
		await check(limited.world, app.appId, newDevice());
		await stats(limited.world, install(app.appId, known));
		await deliver(world);
		expect(await statistics(limited)).toMatchObject({ mau: 1, install: 0, refused_devices: 1, lost_events: 1 });
		await managementWorks(limited);
	});

	test("does not fail requests that send events", async () => {
		const broken = await scene({
			bindings: { events: { send: () => Promise.reject(new Error("down")) } as unknown as Deps["events"] },
		});
		await managementWorks(broken);
	});
});

describe("a custom id", () => {
	test("is shown as unverified, with the number of devices that report it and the time of the first report", async () => {
		const { world, app } = await scene();
		const [alice = "", mallory = ""] = deviceList(2);
		const show = async (device: string) =>
			(await world.admin("GET /device", { query: { app_id: app.appId, device_id: device } })).body;
		await stats(world, install(app.appId, alice, { custom_id: "alice@victim.example" }));
		await deliver(world);
		expect(await show(alice)).toMatchObject({ custom_id: "alice@victim.example", custom_id_devices: 1 });
		world.clock.nowMs += 3_600_000;
		await stats(world, install(app.appId, mallory, { custom_id: "mallory" }));
		await deliver(world);
		world.clock.nowMs += 3_600_000;
		await stats(world, install(app.appId, mallory, { custom_id: "alice@victim.example" }));
		await deliver(world);
		expect(await show(mallory)).toMatchObject({
			custom_id: "alice@victim.example",
			custom_id_verified: false,
			custom_id_devices: 2,
			custom_id_first_reported_at: new Date(NOW_MS + 3_600_000).toISOString(),
			custom_id_last_changed_at: new Date(NOW_MS + 7_200_000).toISOString(),
		});
		expect(await show(alice)).toMatchObject({
			custom_id_devices: 2,
			custom_id_first_reported_at: new Date(NOW_MS).toISOString(),
			custom_id_last_changed_at: new Date(NOW_MS).toISOString(),
		});
		const byCustomId = await world.request("POST", "/device", {
			key: world.adminKey,
			body: { app_id: app.appId, custom_id: "alice@victim.example", channel: "production" },
		});
		expect(byCustomId).toMatchObject({ status: 400, body: { moreInfo: { issues: [{ path: "device_id" }] } } });
	});
});
