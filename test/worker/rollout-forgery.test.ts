/**
 * What a script can do to a staged rollout. It knows the ids of real devices, makes up others, asks and reports in any name and any
 * order as often as it likes; what it has not got is many networks, which is the one thing here that has to be paid for.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { forgetEarlyOutcomes, forgetEndedRollouts } from "../../src/db/rollouts";
import { consumeRolloutEvidence, isRolloutEvent } from "../../src/events/rollout-evidence";
import { sweep } from "../../src/events/sweep";
import { notingStatements, plansOf, scansIn } from "./support/plans";
import {
	app,
	begin,
	check,
	deliver,
	deviceIds,
	fleetAsks,
	HOUR_MS,
	known,
	later,
	MINUTE_MS,
	messages,
	NEW,
	prepareRollout,
	report,
	STABLE,
	show,
	world,
} from "./support/rollout-scene";
import { testEnv } from "./support/world";

beforeEach(prepareRollout);

const SCRIPT = "203.0.113.9";

describe("a script that knows the ids of real devices", () => {
	test("cannot make them fail: of what one network says of devices of others only a little counts", async () => {
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

	test("cannot hide that they fail, neither by reports nor by checks", async () => {
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

	test("cannot hide a failed download by asking in a device's name from another version", async () => {
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

	test("cannot say it in advance: what was said before a device was served does not count", async () => {
		const ids = await known(30);
		await begin({ rolloutSteps: [100], rolloutDevicesPerNetwork: null });
		for (const id of ids) await report(id, "update_fail", NEW, SCRIPT);
		await deliver();
		later(MINUTE_MS);
		for (const id of ids) await check(id);
		await deliver();
		expect((await show()).devices).toEqual({ served: 30, installed: 0, failed: 0, silent: 30 });
	});

	test("cannot fill the database with reports of devices that were never served", async () => {
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
		await sweep(world.deps);
		expect(await rows(), "they are forgotten when no check can come any more").toBe(0);
	});
});

describe("a script that prepared ids of its own the day before", () => {
	test("cannot stop a healthy rollout from one machine, with the settings that a channel begins with", async () => {
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
		await sweep(world.deps);
		expect(await show()).toMatchObject({ state: "running", devices: { failed: 6 } });
	});
});

test("made-up devices take no place of known ones that ask from the same network at the same time", async () => {
	const ids = await known(2);
	await begin({ rolloutSteps: [100], rolloutDevicesPerNetwork: 3 });
	for (const id of [...deviceIds(20), ...ids]) await check(id, STABLE, SCRIPT);
	await deliver();
	expect((await show()).devices.served).toBe(2);
});

describe("devices that move", () => {
	test("are heard from another network than the one in which they were served", async () => {
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

	test("are heard from a busy network: those that were served in it take nobody's place", async () => {
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

	test("and reports that overtake the check in the Queue count all the same", async () => {
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

test("however many devices and rollouts there are: nothing that devices tell reads a table whole", async () => {
	const ids = await known(2);
	await begin({ rolloutSteps: [100] });
	for (const id of ids) await check(id);
	for (const id of ids) await report(id, "update_fail");
	for (const id of ids) await report(id, "download_fail", "");
	for (const id of ids) await check(id, NEW);
	const { d1, statements } = notingStatements();
	const told = messages().flatMap((message) => (message.kind === "device_events" ? message.events : []));
	await consumeRolloutEvidence({ ...world.deps, d1 }, told.filter(isRolloutEvent));
	expect(statements.length).toBe(5);
	expect(scansIn(await plansOf(statements), ["told", "served", "ranked", "placed"])).toEqual([]);
	// Rollouts are kept for a month; their devices are found by them.
	const early = [forgetEarlyOutcomes(0, 1), ...forgetEndedRollouts(0, 1)];
	expect(scansIn(await plansOf(early.map(({ sql, parameters }) => ({ sql, parameters }))))).toEqual([
		"SCAN rollout_devices USING INDEX rollout_devices_early",
		"SCAN r USING COVERING INDEX rollouts_by_channel",
		"SCAN rollouts USING COVERING INDEX rollouts_by_channel",
	]);
});
