/**
 * Devices that were offered a rollout's bundle and do not count towards its health: `GET
 * /channel/rollout` has their number by reason, for every order and repetition of messages, and
 * looser rules of the channel count them.
 */

import { beforeEach, describe, expect, test } from "vitest";
import { HOUR_MS, MINUTE_MS } from "../../../src/domain/time";
import { MOST_SAMPLED } from "../../../src/features/rollouts/samples";
import type { QueueMessage } from "../../../src/messages";
import { runJobs } from "../../../src/schedule";
import { reportsOf } from "../support/reports";
import {
	app,
	begin,
	change,
	check,
	deliver,
	deviceIds,
	known,
	later,
	messages,
	NEW,
	prepareRollout,
	report,
	STABLE,
	show,
	world,
} from "../support/rollout-scene";
import { testEnv } from "../support/world";

beforeEach(prepareRollout);

const OFFICE = "192.0.2.77";
const NOBODY = { served: 0, installed: 0, failed: 0, silent: 0 };

describe("GET /channel/rollout on the first day of an app", () => {
	test("counts the devices as newer than the rollout, and the bundle that they run", async () => {
		const ids = deviceIds(12);
		await begin({ rolloutSteps: [100] });
		for (const id of ids) expect((await check(id)).version).toBe(NEW);
		later(MINUTE_MS);
		for (const id of ids.slice(0, 8)) await report(id, "set");
		await report(ids[8] ?? "", "update_fail");
		await deliver();
		expect(await show()).toMatchObject({
			state: "running",
			devices: NOBODY,
			running: 8,
			notCounted: { newer: 12, sharedNetwork: 0, more: false },
			sampleFull: false,
			health: { failureRate: null },
		});
	});

	test("counts them with their reports once new devices count, three for each network", async () => {
		const [alone, ...office] = deviceIds(6);
		await begin({ rolloutSteps: [100] });
		await check(alone ?? "");
		for (const id of office) await check(id, STABLE, OFFICE);
		later(MINUTE_MS);
		await report(alone ?? "", "update_fail");
		for (const id of office) await report(id, "set", NEW, OFFICE);
		await deliver();
		expect(await show()).toMatchObject({ devices: NOBODY, notCounted: { newer: 6 } });

		await change({ rolloutCountNewDevices: true });
		expect(await show()).toMatchObject({
			devices: { served: 4, installed: 3, failed: 1, silent: 0 },
			running: 5,
			notCounted: { newer: 0, sharedNetwork: 2 },
			health: { failureRate: 0.25 },
		});
		await change({ rolloutDevicesPerNetwork: 4 });
		expect(await show()).toMatchObject({ devices: { served: 5 }, notCounted: { newer: 0, sharedNetwork: 1 } });
		await change({ rolloutDevicesPerNetwork: null });
		expect(await show()).toMatchObject({ devices: { served: 6 }, notCounted: { newer: 0, sharedNetwork: 0 } });
		// Stricter rules keep the devices that count already.
		await change({ rolloutDevicesPerNetwork: 1, rolloutCountNewDevices: false });
		expect(await show()).toMatchObject({ devices: { served: 6 }, notCounted: { newer: 0, sharedNetwork: 0 } });
	});
});

describe("excluded devices", () => {
	test("are counted by their reason", async () => {
		const old = await known(7);
		await begin({ rolloutSteps: [100] });
		const [alone = "", ...office] = old;
		await check(alone);
		for (const id of [...deviceIds(4), ...office]) await check(id, STABLE, OFFICE);
		await deliver();
		// New devices use up no place of their network.
		expect(await show()).toMatchObject({
			devices: { served: 4, silent: 4 },
			running: 0,
			notCounted: { newer: 4, sharedNetwork: 3, more: false },
		});
	});

	test("are counted once, for every order and repetition of messages", async () => {
		const old = await known(5);
		await begin({ rolloutSteps: [100] });
		const young = deviceIds(3);
		for (const id of old) await check(id, STABLE, OFFICE);
		for (const id of young) await check(id);
		later(MINUTE_MS);
		for (const id of old) await report(id, "set", NEW, OFFICE);
		for (const id of young) await report(id, "update_fail");
		const all = messages().flatMap((message) => (message.kind === "device_events" ? message.events : []));
		const one = (event: (typeof all)[number]): QueueMessage => ({ kind: "device_events", id: "m", events: [event] });
		const inOrder = [...all, ...all];
		await deliver(inOrder.map(one));
		const expected = {
			devices: { served: 3, installed: 3, failed: 0, silent: 0 },
			running: 5,
			notCounted: { newer: 3, sharedNetwork: 2, more: false },
		};
		expect(await show()).toMatchObject(expected);
		for (const event of inOrder.reverse()) await deliver([one(event)]);
		await Promise.all([deliver(all.map(one)), deliver(all.map(one))]);
		expect(await show()).toMatchObject(expected);
	});

	test("count from the first check in a network that has a place, with the reports from there", async () => {
		const old = await known(4);
		await begin({ rolloutSteps: [100] });
		for (const id of old) await check(id, STABLE, OFFICE);
		await deliver();
		later(MINUTE_MS);
		const noted = await testEnv.DB.prepare(
			`SELECT device_id FROM rollout_devices JOIN rollouts ON rollouts.id = rollout_id
			WHERE app_id = ? AND not_counted = 'network'`,
		)
			.bind(app.uuid)
			.first<{ device_id: string }>();
		const left = noted?.device_id ?? "";
		expect(old).toContain(left);
		await report(left, "update_fail", NEW, OFFICE);
		await deliver();
		expect(await show()).toMatchObject({ devices: { served: 3, failed: 0 }, notCounted: { sharedNetwork: 1 } });
		later(HOUR_MS);
		await check(left);
		await deliver();
		expect(await show()).toMatchObject({
			devices: { served: 4, failed: 0, silent: 4 },
			notCounted: { sharedNetwork: 0 },
		});
		later(MINUTE_MS);
		await report(left, "set");
		await deliver();
		expect(await show()).toMatchObject({ devices: { served: 4, installed: 1 } });
	});

	test("use up no place of devices that count, if one network reports for both", async () => {
		const old = await known(2);
		await begin({ rolloutSteps: [100], rolloutDevicesPerNetwork: 2 });
		const young = deviceIds(6);
		for (const id of [...young, ...old]) await check(id);
		await deliver();
		later(MINUTE_MS);
		for (const id of young) await report(id, "set", NEW, OFFICE);
		await deliver();
		for (const id of old) await report(id, "set", NEW, OFFICE);
		await deliver();
		expect(await show()).toMatchObject({ devices: { served: 2, installed: 2 }, running: 4 });
	});

	test("are recorded up to a limit, beyond which `more` is true; devices that count are still recorded", async () => {
		const [old = ""] = await known(1);
		await begin({ rolloutSteps: [100], rolloutPercentage: 100 });
		later(MINUTE_MS);
		await testEnv.DB.prepare(
			`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
			INSERT INTO rollout_devices (rollout_id, device_id, network, first_served_at_ms, last_served_at_ms, not_counted)
			SELECT rollouts.id, 'd' || i, 'n' || i, ?2, ?2, 'newer' FROM n, rollouts WHERE app_id = ?3`,
		)
			.bind(MOST_SAMPLED, world.clock.nowMs, app.uuid)
			.run();
		await runJobs(world.deps);
		for (const id of [...deviceIds(3), old]) await check(id);
		await deliver();
		expect(await show()).toMatchObject({
			devices: { served: 1 },
			notCounted: { newer: MOST_SAMPLED, sharedNetwork: 0, more: true },
			sampleFull: false,
		});
	});

	test("stop being recorded within one large batch, without effect on the sample", async () => {
		await begin({ rolloutSteps: [100] });
		const rolloutId: string = (await show()).rollout_id;
		const reports = await reportsOf(app.uuid);
		await reports
			.prepare(
				`WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 11999)
			INSERT INTO devices (app_id, device_id, created_at_ms, updated_at_ms) SELECT ?1, 'wave-' || i, ?2, ?2 FROM n`,
			)
			.bind(app.uuid, world.clock.nowMs)
			.run();
		const wave = (first: number): QueueMessage => ({
			kind: "device_events",
			id: "m",
			events: Array.from({ length: 3_000 }, (_, index) => {
				const of = { appId: app.appId, deviceId: `wave-${first + index}`, atMs: world.clock.nowMs };
				return { type: "rollout_served" as const, ...of, rolloutId, fromVersion: STABLE, network: "192.0.2.0/24" };
			}),
		});
		await deliver([wave(0), wave(3_000), wave(6_000), wave(9_000)]);
		expect(await show()).toMatchObject({
			devices: NOBODY,
			notCounted: { newer: MOST_SAMPLED, more: true },
			sampleFull: false,
		});
	});
});

test("GET /channel/rollout reports a full sample", async () => {
	await begin({ rolloutSteps: [100] });
	expect(await show()).toMatchObject({ sampleFull: false });
	await testEnv.DB.prepare("UPDATE rollouts SET sampling = 0 WHERE app_id = ?").bind(app.uuid).run();
	expect(await show()).toMatchObject({ sampleFull: true });
});

test("GET /channel/rollout has no devices for a channel without a rollout", async () => {
	expect(await show()).toMatchObject({
		state: "none",
		devices: NOBODY,
		running: 0,
		notCounted: { newer: 0, sharedNetwork: 0, more: false },
		sampleFull: false,
	});
});
