/**
 * Attacks on a staged rollout by a script that knows the ids of real devices and makes up others,
 * and sends any number of checks and reports in any order. It has only a few networks, because
 * networks cost money.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { deleteEarlyOutcomes, deleteEndedRollouts } from "../../../src/db/rollouts";
import { HOUR_MS, MINUTE_MS } from "../../../src/domain/time";
import { recordSamples } from "../../../src/features/rollouts/samples";
import { isRolloutEvent, rolloutDeviceKey } from "../../../src/messages";
import { runJobs } from "../../../src/schedule";
import { notingStatements, plansOf, scansIn } from "../support/plans";
import {
	app,
	begin,
	check,
	deliver,
	deviceIds,
	fleetAsks,
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

const SCRIPT = "203.0.113.9";

describe("a script that knows the ids of real devices", () => {
	test("cannot report failures for them: a network may report for only a few devices of other networks", async () => {
		const ids = await known(60);
		await begin({ rolloutSteps: [100], rolloutDevicesPerNetwork: 2, autoPauseMinAttempts: 1, autoPauseMinFailures: 1 });
		await fleetAsks(ids, new Map());
		later(MINUTE_MS);
		for (const id of ids) await report(id, "update_fail", NEW, SCRIPT);
		await deliver();
		for (const id of ids) await report(id, "download_fail", "", SCRIPT);
		await deliver();
		expect((await show()).devices).toEqual({ served: 60, installed: 58, failed: 2, silent: 0 });
	});

	test("cannot hide their failures, neither by reports nor by checks", async () => {
		const ids = await known(60);
		await begin({ rolloutSteps: [100], rolloutDevicesPerNetwork: 2, autoPauseMinAttempts: 1_000 });
		await fleetAsks(ids, new Map(), "update_fail");
		later(MINUTE_MS);
		for (const id of ids) await report(id, "set", NEW, SCRIPT);
		await deliver();
		for (const id of ids) await check(id, NEW, SCRIPT);
		await deliver();
		expect((await show()).devices).toEqual({ served: 60, installed: 2, failed: 58, silent: 0 });
	});

	test("cannot hide a failed download by a check in the device's name from another version", async () => {
		const [device = ""] = await known(1);
		await begin({ rolloutSteps: [100] });
		await check(device);
		await deliver();
		later(MINUTE_MS);
		await check(device, "0.9.0", SCRIPT);
		await deliver();
		later(MINUTE_MS);
		await report(device, "download_fail", STABLE);
		await deliver();
		expect((await show()).devices).toEqual({ served: 1, installed: 0, failed: 1, silent: 0 });
	});

	test("cannot report in advance: a report from before the offer does not count", async () => {
		const ids = await known(30);
		await begin({ rolloutSteps: [100], rolloutDevicesPerNetwork: null });
		for (const id of ids) await report(id, "update_fail", NEW, SCRIPT);
		await deliver();
		later(MINUTE_MS);
		for (const id of ids) await check(id);
		await deliver();
		expect((await show()).devices).toEqual({ served: 30, installed: 0, failed: 0, silent: 30 });
	});

	test("cannot fill the database with reports for devices that were never offered the bundle", async () => {
		const ids = await known(60);
		await begin({ rolloutSteps: [100], rolloutPercentage: 0, rolloutDevicesPerNetwork: 2 });
		for (const id of ids) await report(id, "update_fail", NEW, SCRIPT);
		await deliver();
		const rows = async () =>
			(
				await testEnv.DB.prepare(
					"SELECT count(*) AS n FROM rollout_devices JOIN rollouts ON rollouts.id = rollout_id WHERE app_id = ?",
				)
					.bind(app.uuid)
					.first<{ n: number }>()
			)?.n;
		expect(await rows()).toBe(2);
		later(25 * HOUR_MS);
		await runJobs(world.deps);
		expect(await rows(), "they are deleted when no check can come any more").toBe(0);
	});
});

describe("a script that invented device ids the day before", () => {
	test("cannot stop a healthy rollout from one machine with the default settings", async () => {
		const ids = await known(60);
		const own = deviceIds(60);
		const from = (index: number) => (index % 2 === 0 ? SCRIPT : "2001:db8:5::9");
		const each = async (ask: (id: string, address: string) => Promise<unknown>) => {
			for (const [index, id] of own.entries()) await ask(id, from(index));
			await deliver();
		};
		await each((id, address) => check(id, STABLE, address));
		later(24 * HOUR_MS);
		await begin({ rolloutSteps: [99.99, 100], autoPauseFailureRateBps: 200 });
		await each((id, address) => check(id, STABLE, address));
		await each((id, address) => report(id, "update_fail", NEW, address));
		later(2 * MINUTE_MS);
		await fleetAsks(ids, new Map());
		later(2 * MINUTE_MS);
		await runJobs(world.deps);
		expect(await show()).toMatchObject({ state: "running", devices: { failed: 6 } });
	});
});

test("invented devices do not displace known devices that check from the same network at the same time", async () => {
	const ids = await known(2);
	await begin({ rolloutSteps: [100], rolloutDevicesPerNetwork: 3 });
	for (const id of [...deviceIds(20), ...ids]) await check(id, STABLE, SCRIPT);
	await deliver();
	expect((await show()).devices.served).toBe(2);
});

describe("devices that change their network", () => {
	test("count with reports from another network than that of the offer", async () => {
		const [device = "", other = ""] = await known(2);
		await begin({ rolloutSteps: [100] });
		for (const id of [device, other]) await check(id);
		await deliver();
		later(MINUTE_MS);
		await report(device, "update_fail", NEW, "198.51.100.1");
		await check(other, NEW, "198.51.100.2");
		await deliver();
		expect((await show()).devices).toEqual({ served: 2, installed: 1, failed: 1, silent: 0 });
	});

	test("count with reports from a busy network, even if many devices were offered the bundle there", async () => {
		const [moved = "", ...busy] = await known(12);
		const busyNetwork = "198.51.100.1";
		await begin({ rolloutSteps: [100], rolloutDevicesPerNetwork: 3 });
		await check(moved);
		for (const id of busy) await check(id, STABLE, busyNetwork);
		await deliver();
		later(MINUTE_MS);
		for (const id of busy) await report(id, "set", NEW, busyNetwork);
		await report(moved, "set", NEW, busyNetwork);
		await deliver();
		expect((await show()).devices).toEqual({ served: 4, installed: 4, failed: 0, silent: 0 });
	});

	test("count with reports that the Queue delivers before the check", async () => {
		const [device = ""] = await known(1);
		await begin({ rolloutSteps: [100] });
		await check(device);
		const served = messages();
		later(1_000);
		await report(device, "update_fail");
		await deliver();
		await deliver(served);
		expect((await show()).devices).toEqual({ served: 1, installed: 0, failed: 1, silent: 0 });
	});
});

test("events of devices never scan a table, for any number of devices and rollouts", async () => {
	const ids = await known(2);
	await begin({ rolloutSteps: [100] });
	for (const id of ids) await check(id);
	for (const id of ids) await report(id, "update_fail");
	for (const id of ids) await report(id, "download_fail", "");
	for (const id of ids) await check(id, NEW);
	const { d1, statements } = notingStatements();
	const events = messages().flatMap((message) => (message.kind === "device_events" ? message.events : []));
	const rolloutEvents = events.filter(isRolloutEvent);
	const knownSince = new Map(rolloutEvents.map((event) => [rolloutDeviceKey(event), 1]));
	await recordSamples({ ...world.deps, d1 }, rolloutEvents, knownSince);
	expect(statements.length).toBe(5);
	expect(scansIn(await plansOf(statements), ["reported", "served", "ranked", "placed"])).toEqual([]);
	// A scan of `rollouts` is expected: it has one month of rollouts, and their devices are found by
	// an index.
	const early = [deleteEarlyOutcomes(0, 1), ...deleteEndedRollouts(0, 1)];
	expect(scansIn(await plansOf(early.map(({ sql, parameters }) => ({ sql, parameters }))))).toEqual([
		"SCAN rollout_devices USING INDEX rollout_devices_early",
		"SCAN r USING COVERING INDEX rollouts_by_channel",
		"SCAN rollouts USING COVERING INDEX rollouts_by_channel",
	]);
});
