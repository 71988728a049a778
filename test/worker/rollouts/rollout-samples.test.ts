/**
 * Health samples of rollouts: which devices count, with which outcome, and what they cost.
 */

import { beforeEach, describe, expect, test } from "vitest";
import { HOUR_MS, MINUTE_MS } from "../../../src/domain/time";
import { rolloutNetworkOf } from "../../../src/features/rollouts/reports";
import type { QueueMessage } from "../../../src/messages";
import { runJobs } from "../../../src/schedule";
import { reportsOf } from "../support/reports";
import {
	about,
	app,
	begin,
	change,
	check,
	deliver,
	deviceIds,
	fleetAsks,
	known,
	later,
	messages,
	NEW,
	newId,
	prepareRollout,
	report,
	STABLE,
	show,
	world,
} from "../support/rollout-scene";
import { testEnv } from "../support/world";

beforeEach(prepareRollout);

describe("the health samples of a rollout", () => {
	test("ignore failures of devices that were never offered the bundle", async () => {
		const ids = await known(60);
		await begin({ rolloutSteps: [90, 100] });
		await fleetAsks(ids, new Map());
		const before = await show();
		// Made-up devices, and real ones outside the share.
		for (const id of deviceIds(100)) await report(id, "update_fail");
		for (const id of ids) if ((await check(id)).version !== NEW) await report(id, "update_fail");
		await deliver();
		expect((await show()).devices).toEqual(before.devices);
		later(HOUR_MS);
		await runJobs(world.deps);
		expect((await show()).percentageBps).toBe(10_000);
	});

	test("exclude devices that are newer than the rollout, unless new devices count", async () => {
		await begin({ rolloutSteps: [100] });
		for (const id of deviceIds(25)) {
			// Before its check, in a report without a version, and after its check.
			await report(id, "download_fail", "");
			await deliver();
			expect((await check(id)).version).toBe(NEW);
			await report(id, "update_fail");
		}
		await deliver();
		later(2 * MINUTE_MS);
		await runJobs(world.deps);
		expect(await show()).toMatchObject({
			state: "running",
			devices: { served: 0, installed: 0, failed: 0, silent: 0 },
			notCounted: { newer: 25, sharedNetwork: 0, more: false },
		});

		await change({ rolloutCountNewDevices: true });
		for (const id of deviceIds(5)) await check(id);
		await deliver();
		expect(await show()).toMatchObject({ devices: { served: 30, failed: 25, silent: 5 }, notCounted: { newer: 0 } });
	});

	test("include only a few devices of one network, in one batch or in many, and store no addresses", async () => {
		const ids = await known(30);
		await begin({ rolloutSteps: [100], rolloutDevicesPerNetwork: 4 });
		for (const id of ids.slice(0, 10)) await check(id, STABLE, "192.0.2.77");
		await deliver();
		expect((await show()).devices.served).toBe(4);
		for (const id of ids.slice(10, 20)) await check(id, STABLE, "192.0.2.78");
		await deliver();
		expect((await show()).devices.served).toBe(4);
		for (const id of ids.slice(20, 23)) await check(id, STABLE, "2001:db8:7::1");
		for (const id of ids.slice(23, 30)) await check(id, STABLE, "2001:db8:7:9::2");
		await deliver();
		expect((await show()).devices.served).toBe(8);
		const { results } = await testEnv.DB.prepare(
			"SELECT DISTINCT network FROM rollout_devices JOIN rollouts ON rollouts.id = rollout_id WHERE app_id = ?",
		)
			.bind(app.uuid)
			.all<{ network: string }>();
		for (const { network } of results) expect(network).toMatch(/^[0-9a-f]{24}$/);
	});

	test("exclude a device with an override to the bundle", async () => {
		const [device = ""] = await known(1);
		await begin({ rolloutSteps: [100] });
		const set = await world.request("POST", "/device", {
			key: world.adminKey,
			body: { app_id: app.appId, device_id: device, version_id: newId },
		});
		expect(set.status).toBe(200);
		expect((await check(device)).version).toBe(NEW);
		await deliver();
		expect((await show()).devices.served).toBe(0);
	});

	test("include a device once, by its last outcome, for every order and repetition of reports", async () => {
		const [failing = "", recovered = "", silent = "", fine = ""] = await known(4);
		await begin({ rolloutSteps: [100] });
		for (const id of [failing, recovered, silent, fine]) await check(id);
		later(1_000);
		await report(recovered, "download_fail");
		await report(failing, "set");
		await report(fine, "set");
		later(1_000);
		await report(recovered, "set");
		await report(failing, "update_fail");
		await report(failing, "update_fail");
		const all = messages().flatMap((message) => (message.kind === "device_events" ? message.events : []));
		const one = (event: (typeof all)[number]): QueueMessage => ({ kind: "device_events", id: "m", events: [event] });
		const expected = { served: 4, installed: 2, failed: 1, silent: 1 };
		// In reverse order, and everything twice.
		for (const event of [...all, ...all].reverse()) await deliver([one(event)]);
		expect((await show()).devices).toEqual(expected);
		await Promise.all([deliver(all.map(one)), deliver(all.map(one))]);
		expect((await show()).devices).toEqual(expected);
	});

	test("follow the order of the reports in one request: a download that succeeds after a failure is installed", async () => {
		const [one = "", other = ""] = await known(2);
		await begin({ rolloutSteps: [100] });
		for (const id of [one, other]) await check(id);
		const sent = (id: string, action: string, version_name: string) => about(id, { action, version_name });
		await world.request("POST", "/stats", {
			body: [
				sent(one, "download_fail", STABLE),
				sent(one, "set", NEW),
				sent(other, "set", NEW),
				sent(other, "update_fail", NEW),
			],
		});
		await deliver();
		expect((await show()).devices).toEqual({ served: 2, installed: 1, failed: 1, silent: 0 });
	});

	test.each([
		["under what runs", STABLE],
		["under no version", ""],
		["under the bundle and a file of it", `${NEW}:index.html`],
	])("attribute a failed download to the bundle when it is reported %s", async (_, versionName) => {
		const [device = "", unserved = ""] = await known(2);
		await begin({ rolloutSteps: [100] });
		await check(device);
		await deliver();
		later(MINUTE_MS);
		await report(device, "download_fail", versionName);
		await report(unserved, "download_fail", versionName);
		await deliver();
		expect((await show()).devices).toEqual({ served: 1, installed: 0, failed: 1, silent: 0 });
	});

	test("do not attribute a download that failed under another version, much later, or after the installation", async () => {
		const [other = "", late = "", installed = ""] = await known(3);
		await begin({ rolloutSteps: [100] });
		for (const id of [other, late, installed]) await check(id);
		await report(installed, "set");
		await deliver();
		later(1_000);
		await report(other, "download_fail", "0.9.9");
		await report(installed, "download_fail", STABLE);
		later(HOUR_MS);
		await report(late, "download_fail", STABLE);
		await deliver();
		expect((await show()).devices).toEqual({ served: 3, installed: 1, failed: 0, silent: 2 });
	});

	test("include a silent device whose next check shows that it runs the bundle", async () => {
		const [device = ""] = await known(1);
		await begin({ rolloutSteps: [100] });
		await check(device);
		later(MINUTE_MS);
		await check(device, NEW);
		await deliver();
		expect((await show()).devices).toEqual({ served: 1, installed: 1, failed: 0, silent: 0 });
	});

	test("get one event a day from a device that runs the bundle, not one with each check", async () => {
		const [device = ""] = await known(1);
		await begin({ rolloutSteps: [100] });
		const sent = () =>
			messages().flatMap((message) => (message.kind === "device_events" ? message.events.map(({ type }) => type) : []));
		await check(device, NEW);
		expect(sent()).toContain("rollout_runs");
		for (let hour = 0; hour < 3; hour++) {
			later(HOUR_MS);
			await check(device, NEW);
		}
		expect(sent()).toEqual([]);
		await check(device);
		await check(device, NEW);
		expect(sent(), "taken back and installed again").toContain("rollout_runs");
	});

	test("are limited for each step; the next step starts a new sample", async () => {
		const [one = "", other = ""] = await known(2);
		await begin({ rolloutSteps: [100], rolloutPercentage: 100 });
		later(MINUTE_MS);
		await testEnv.DB.prepare(
			`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
			INSERT INTO rollout_devices (rollout_id, device_id, network, first_served_at_ms, last_served_at_ms)
			SELECT rollouts.id, 'd' || i, 'n' || i, ?1, ?1 FROM n, rollouts WHERE app_id = ?2`,
		)
			.bind(world.clock.nowMs, app.uuid)
			.run();
		await runJobs(world.deps);
		await check(one);
		await deliver();
		expect((await show()).devices.served).toBe(5_000);
		await change({ rolloutPercentage: 99 });
		await change({ rolloutPercentage: 100 });
		await check(other);
		await deliver();
		expect((await show()).devices.served).toBe(5_001);
	});

	test("are full after one large batch, before the next check of the gate", async () => {
		await begin({ rolloutSteps: [100], rolloutDevicesPerNetwork: null, rolloutCountNewDevices: true });
		const rolloutId: string = (await show()).rollout_id;
		const wave = (first: number): QueueMessage => ({
			kind: "device_events",
			id: "m",
			events: Array.from({ length: 3_000 }, (_, index) => {
				const of = { appId: app.appId, deviceId: `wave-${first + index}`, atMs: world.clock.nowMs };
				return { type: "rollout_served" as const, ...of, rolloutId, fromVersion: STABLE, network: "192.0.2.0/24" };
			}),
		});
		const reports = await reportsOf(app.uuid);
		await reports
			.prepare(
				`WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 11999)
			INSERT INTO devices (app_id, device_id, created_at_ms, updated_at_ms) SELECT ?1, 'wave-' || i, 0, 0 FROM n`,
			)
			.bind(app.uuid)
			.run();
		await deliver([wave(0), wave(3_000), wave(6_000), wave(9_000)]);
		expect((await show()).devices.served).toBe(5_000);
	});

	test.each([
		["192.0.2.77", "192.0.2.0/24"],
		["::ffff:192.0.2.77", "192.0.2.0/24"],
		["2001:db8:7:9::2", "2001:db8:7::/48"],
		["unknown", ""],
		["", ""],
	])("the network of %j is %j", (address, network) => expect(rolloutNetworkOf(address)).toBe(network));

	test("are the same from the fast path and from the router", async () => {
		const [first = "", second = ""] = await known(2);
		await begin({ rolloutSteps: [100] });
		const ask = (device: string, length: Record<string, string>) =>
			world.request("POST", "/updates", {
				rawBody: JSON.stringify(about(device)),
				headers: { "content-type": "application/json", "cf-connecting-ip": "192.0.2.77", ...length },
			});
		await ask(first, {});
		const short = await ask(second, { "content-length": String(JSON.stringify(about(second)).length) });
		expect(short.headers.get("server-timing")).toContain("memory");
		const served = messages().flatMap((message) => (message.kind === "device_events" ? message.events : []));
		const offers = served.filter((event) => event.type === "rollout_served");
		expect(offers.map(({ deviceId, ...rest }) => rest)).toEqual([
			expect.objectContaining({ network: "192.0.2.0/24", fromVersion: STABLE }),
			expect.objectContaining({ network: "192.0.2.0/24", fromVersion: STABLE }),
		]);
		expect(offers.map(({ deviceId }) => deviceId)).toEqual([first, second]);
	});

	test("cost a warm check no read and no written row", async () => {
		const [device = ""] = await known(1);
		await begin({ rolloutSteps: [100] });
		await check(device);
		const { trips } = await world.request("POST", "/updates", { body: about(device) });
		expect(trips).toBe(0);
	});
});
