/**
 * Staged rollouts over the whole product: update checks and reports go in by requests, the Queue's messages are delivered by hand, the
 * clock stands still until it is moved, and what devices are told is asked of them.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { rolloutNetworkOf } from "../../src/device/rollout-evidence";
import { isInRollout } from "../../src/domain/rollout";
import type { QueueMessage } from "../../src/events/messages";
import { stepRollouts } from "../../src/events/rollout-steps";
import { sweep } from "../../src/events/sweep";
import { withFault } from "./support/faults";
import { beforeSecondTrip } from "./support/interleave";
import {
	about,
	app,
	audited,
	begin,
	change,
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
	newId,
	prepareRollout,
	report,
	STABLE,
	show,
	world,
} from "./support/rollout-scene";
import { createTestKey, testEnv, uploadTestBundle } from "./support/world";

beforeEach(prepareRollout);

describe("a rollout by itself", () => {
	test("goes from 1 to 5, 25 and 100 % while the bundle is well; those who had it keep it at each step", async () => {
		const ids = await known(250);
		// A draw that has some of so few devices among the first percent; one is enough here.
		const draws = Array.from({ length: 100 }, () => crypto.randomUUID());
		const draw = draws.find((id) => ids.filter((device) => isInRollout(id, device, 100)).length > 2) ?? "";
		const { newId: anyId } = world.deps;
		Object.assign(world.deps, { newId: () => draw });
		await begin({ rolloutStepMinDevices: 1, autoPauseFailureRateBps: 9_000 });
		Object.assign(world.deps, { newId: anyId });
		const running = new Map<string, string>();
		const shares: number[] = [];
		let before: string[] = [];
		for (let hour = 0; hour < 5; hour++) {
			await fleetAsks(ids, running);
			const state = await show();
			shares.push(state.percentageBps);
			const now = [...running.keys()];
			expect(before.every((id) => running.get(id) === NEW)).toBe(true);
			expect(state.devices).toEqual({ served: now.length, installed: now.length, failed: 0, silent: 0 });
			before = now;
			later(HOUR_MS);
			await sweep(world.deps);
		}
		expect(shares).toEqual([100, 500, 2_500, 10_000, 10_000]);
		expect(running.size).toBe(ids.length);
		expect(await show()).toMatchObject({ state: "running", next: null, reason: "The last step is reached." });

		const steps = await audited("channel.rollout_advance");
		expect(steps.map((step) => step.after)).toEqual([10_000, 2_500, 500].map((bps) => ({ rolloutPercentageBps: bps })));
		expect(steps[0]).toMatchObject({
			actor: { type: "system", name: "the service" },
			before: { rolloutPercentageBps: 2_500 },
			details: { version: NEW, failed: 0, limit_bps: 9_000, confidence: 0.95 },
		});
		expect(steps[0]?.details.upper_bound).toBeLessThan(0.9);

		await change({ promoteToStable: true });
		expect(await show()).toMatchObject({
			state: "none",
			stableVersion: NEW,
			previous: { version: NEW, endedAs: "promoted" },
		});
	});

	test("waits for the time, for devices and for certainty, and says so", async () => {
		const ids = await known(40);
		await begin({ rolloutSteps: [90, 100], autoPauseFailureRateBps: 3_000 });
		const served = await fleetAsks(ids.slice(0, 8), new Map());
		expect(served.length).toBeLessThan(10);
		expect(await show()).toMatchObject({
			verdict: "hold",
			next: {
				percentageBps: 10_000,
				waitingFor: [
					"the end of this step, which lasts 60 minutes",
					`${10 - served.length} more devices to report in this step`,
					expect.stringMatching(/^\d+ more devices to report without a failure, .* fewer than 30 % fail$/),
				],
			},
		});
		const { next } = await show();
		// At 95 % confidence, nine reports without a failure show that fewer than 30 % fail.
		expect(next.devicesNeeded).toBe(Math.max(10 - served.length, 9 - served.length));
		later(HOUR_MS);
		await sweep(world.deps);
		expect((await show()).percentageBps, "too few devices").toBe(9_000);
		later(MINUTE_MS);
		await fleetAsks(ids.slice(8), new Map());
		expect((await show()).percentageBps, "reports are acted upon without waiting for the sweep").toBe(10_000);
	});

	test("is paused when the bundle is shown to be bad; those who have it stay, no others get it", async () => {
		const ids = await known(60);
		await begin({ rolloutSteps: [90, 100] });
		later(2 * MINUTE_MS);
		const bad = await fleetAsks(ids, new Map(), "update_fail");
		expect(bad.length).toBeGreaterThan(30);
		const state = await show();
		expect(state).toMatchObject({ state: "paused", percentageBps: 9_000, devices: { failed: bad.length } });
		expect(state.pauseReason).toContain(`${bad.length} of ${bad.length} devices failed`);
		expect((await audited("channel.rollout_pause"))[0]).toMatchObject({
			actor: { name: "the service" },
			details: { failed: bad.length, installed: 0, reason: state.pauseReason },
		});
		later(10_000);
		for (const id of ids) expect((await check(id)).error).toBe("no_new_version_available");
		expect((await check(bad[0] ?? "", NEW)).error).toBe("no_new_version_available");
		later(HOUR_MS);
		await sweep(world.deps);
		expect((await audited("channel.rollout_pause")).length).toBe(1);
	});

	test("a person who resumes it has looked at what failed: only what comes after is judged", async () => {
		const ids = await known(60);
		await begin({ rolloutSteps: [90, 100] });
		later(2 * MINUTE_MS);
		const bad = await fleetAsks(ids, new Map(), "update_fail");
		later(1_000);
		await change({ rolloutPaused: false });
		later(2 * MINUTE_MS);
		await sweep(world.deps);
		expect(await show()).toMatchObject({ state: "running", devices: { served: bad.length, failed: 0 } });
		later(HOUR_MS);
		for (const id of bad) await report(id, "update_fail");
		await deliver();
		expect(await show()).toMatchObject({ state: "paused" });
	});

	test.each([
		["the stable bundle", { version: STABLE }, { version: STABLE }],
		["the store build", { version: null }, { version: "builtin" }],
	])("is taken back where that is set; devices that run it get %s at their next check", async (_, stable, answer) => {
		const ids = await known(60);
		await begin({ ...stable, rolloutSteps: [90, 100], autoPauseAction: "rollback" });
		later(2 * MINUTE_MS);
		const bad = await fleetAsks(ids, new Map(), "update_fail");
		expect(await show()).toMatchObject({ state: "none", previous: { version: NEW, endedAs: "rolled_back" } });
		expect((await audited("channel.rollout_rollback"))[0]).toMatchObject({
			before: { rolloutVersion: NEW, rolloutPercentageBps: 9_000, rolloutEnabled: true },
			after: { rolloutVersion: null, rolloutPercentageBps: 0, rolloutEnabled: false },
		});
		later(10_000);
		for (const id of bad.slice(0, 5)) expect(await check(id, NEW)).toMatchObject(answer);
	});

	test("only tells of it where that is set, once", async () => {
		const ids = await known(60);
		await begin({ rolloutSteps: [90, 100], autoPauseAction: "notify" });
		later(2 * MINUTE_MS);
		await fleetAsks(ids, new Map(), "update_fail");
		later(2 * MINUTE_MS);
		await sweep(world.deps);
		expect(await show()).toMatchObject({ state: "running", percentageBps: 9_000 });
		expect((await audited("channel.rollout_notify")).length).toBe(1);
	});

	describe("that only notifies", () => {
		const notice = async () =>
			(
				await world.request("GET", "/channel", {
					key: world.adminKey,
					query: { app_id: app.appId, channel: "production" },
				})
			).body.rolloutNotice;
		/** Runs a rollout that fails, with a gate that only notifies. */
		async function fail(): Promise<void> {
			const ids = await known(60);
			await begin({ rolloutSteps: [90, 100], autoPauseAction: "notify" });
			later(2 * MINUTE_MS);
			await fleetAsks(ids, new Map(), "update_fail");
		}

		test("leaves a notice on the channel until it is dismissed, by those who may promote", async () => {
			await fail();
			expect(await notice()).toEqual({ at: expect.any(String), reason: expect.stringMatching(/devices failed/) });
			const reader = (await createTestKey(world, "app_reader", app)).text;
			const dismiss = (key: string) =>
				world.request("POST", "/channel", {
					key,
					body: { app_id: app.appId, channel: "production", rolloutNotice: null },
				});
			expect((await dismiss(reader)).body.moreInfo).toMatchObject({ permission: "channel.promote_bundle" });
			expect((await dismiss(world.adminKey)).status).toBe(200);
			expect(await notice()).toBe(null);
			expect(await show(), "the rollout goes on").toMatchObject({ state: "running", percentageBps: 9_000 });
			expect((await dismiss(reader)).status, "nothing is left to dismiss").toBe(200);
		});

		test.each([
			["paused", { rolloutPaused: true }],
			["changed in its share", { rolloutPercentageBps: 100 }],
			["rolled back", { rollback: true }],
			["promoted", { promoteToStable: true }],
		])("takes the notice away when the rollout is %s", async (_, fields) => {
			await fail();
			await change({ allow_emulator: false });
			expect(await notice(), "another setting leaves it").not.toBe(null);
			expect((await change(fields)).status).toBe(200);
			expect(await notice()).toBe(null);
		});

		test("logs it and mails the management address, once for ten judges and two sweeps", async () => {
			const logged: unknown[] = [];
			await world.request("POST", "/organization", {
				key: world.adminKey,
				body: { orgId: world.orgId, management_email: "releases@example.com" },
			});
			await fail();
			expect(world.deps.printed).toEqual([
				expect.stringMatching(
					new RegExp(
						`^Mail to releases@example.com: The rollout of ${NEW} on the channel production of ${app.appId} fails`,
					),
				),
			]);
			const again = { ...world.deps, log: (...line: unknown[]) => void logged.push(line) };
			await Promise.all(Array.from({ length: 10 }, () => stepRollouts(again)));
			await sweep(again);
			expect(world.deps.printed).toHaveLength(1);
			expect(logged).toEqual([]);
			later(25 * HOUR_MS);
			await Promise.all(Array.from({ length: 10 }, () => stepRollouts(again)));
			expect(world.deps.printed, "the next day it fails still").toHaveLength(2);
			expect(logged).toEqual([
				["warn", "rollout_notice", expect.objectContaining({ app: app.appId, channel: "production", version: NEW })],
			]);
		});

		test("mails the super admins where no address is set, and nobody where no mail is configured", async () => {
			await fail();
			expect(world.deps.printed).toEqual([expect.stringContaining(`Mail to ${world.adminEmail}: `)]);
			later(25 * HOUR_MS);
			const silent = { ...world.deps, config: { ...world.deps.config, mail: undefined } };
			await stepRollouts(silent);
			expect(world.deps.printed).toHaveLength(1);
			expect((await audited("channel.rollout_notify")).length).toBe(2);
		});
	});

	test("takes one step when ten judge at once, and none over a person who was faster", async () => {
		const ids = await known(60);
		await begin({ rolloutSteps: [80, 90, 100], rolloutStepMinutes: 0 });
		await change({ rolloutPaused: true });
		await fleetAsks(ids, new Map());
		await change({ rolloutPaused: false });
		for (const id of ids) await check(id);
		for (const id of ids) await report(id, "set");
		const held = messages();
		// Deliver the evidence without a step: the last look was just now.
		await testEnv.DB.prepare("UPDATE rollouts SET checked_at_ms = ? WHERE app_id = ?")
			.bind(world.clock.nowMs, app.uuid)
			.run();
		await deliver(held);
		expect((await show()).verdict).toBe("advance");
		await Promise.all(Array.from({ length: 10 }, () => stepRollouts(world.deps)));
		expect((await show()).percentageBps).toBe(9_000);
		expect((await audited("channel.rollout_advance")).length).toBe(1);
	});

	test.each([
		["refused", 1],
		["refused", 2],
		["answer lost", 1],
		["answer lost", 2],
		["statement fails", 2],
	] as const)(
		"takes its step whole, and once, when D1 fails (%s, call %d) and the next run tries again",
		async (kind, call) => {
			const ids = await known(60);
			await begin({ rolloutSteps: [90, 95, 100] });
			await fleetAsks(ids, new Map());
			later(HOUR_MS);
			const faulty = withFault(world, call, kind);
			await expect(stepRollouts(faulty.deps)).rejects.toThrow();
			expect(faulty.failed).toBe("d1.batch");
			const percentage = async () => (await show()).percentageBps;
			expect(await percentage()).toBe(kind === "answer lost" && call === 2 ? 9_500 : 9_000);
			expect((await audited("channel.rollout_advance")).length).toBe((await percentage()) === 9_500 ? 1 : 0);
			await sweep(world.deps);
			expect(await percentage()).toBe(9_500);
			expect((await audited("channel.rollout_advance")).length).toBe(1);
		},
	);

	test("is not stepped over a change that came between the judgement and the step", async () => {
		const ids = await known(60);
		await begin({ rolloutSteps: [90, 100] });
		await fleetAsks(ids, new Map());
		later(HOUR_MS);
		const pause = { rolloutPaused: true, rolloutPauseReason: "a person looks" };
		const overtaken = beforeSecondTrip(world.deps.d1, () => change(pause));
		await stepRollouts({ ...world.deps, d1: overtaken.d1 });
		expect(overtaken.trips).toBe(2);
		expect(await show()).toMatchObject({ state: "paused", percentageBps: 9_000, pauseReason: "a person looks" });
		expect(await audited("channel.rollout_advance")).toEqual([]);
	});
});

describe("who counts", () => {
	test("failures of devices that were never served the bundle change nothing", async () => {
		const ids = await known(60);
		await begin({ rolloutSteps: [90, 100] });
		await fleetAsks(ids, new Map());
		const before = await show();
		// Invented ones, and real ones that are not in the share.
		for (const id of deviceIds(100)) await report(id, "update_fail");
		for (const id of ids) if ((await check(id)).version !== NEW) await report(id, "update_fail");
		await deliver();
		expect((await show()).devices).toEqual(before.devices);
		later(HOUR_MS);
		await sweep(world.deps);
		expect((await show()).percentageBps).toBe(10_000);
	});

	test("devices that were made up after the rollout began are served and count for nothing, unless that is wanted", async () => {
		await begin({ rolloutSteps: [100] });
		for (const id of deviceIds(25)) {
			// Before it asks, with a report that says nothing of what runs, and after.
			await report(id, "download_fail", "");
			await deliver();
			expect((await check(id)).version).toBe(NEW);
			await report(id, "update_fail");
		}
		await deliver();
		later(2 * MINUTE_MS);
		await sweep(world.deps);
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

	test("of one network only a few count, in one batch or in many; addresses are not kept", async () => {
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

	test("a device set to the bundle by an operator is no part of the rollout", async () => {
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

	test("a device counts once, by what came of it last, however often and in whatever order it is told", async () => {
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
		// The last first, and everything twice.
		for (const event of [...all, ...all].reverse()) await deliver([one(event)]);
		expect((await show()).devices).toEqual(expected);
		await Promise.all([deliver(all.map(one)), deliver(all.map(one))]);
		expect((await show()).devices).toEqual(expected);
	});

	test("in one request the order of the reports decides: a download that failed and was done again is done", async () => {
		const [one = "", other = ""] = await known(2);
		await begin({ rolloutSteps: [100] });
		for (const id of [one, other]) await check(id);
		const told = (id: string, action: string, version_name: string) => about(id, { action, version_name });
		await world.request("POST", "/stats", {
			body: [
				told(one, "download_fail", STABLE),
				told(one, "set", NEW),
				told(other, "set", NEW),
				told(other, "update_fail", NEW),
			],
		});
		await deliver();
		expect((await show()).devices).toEqual({ served: 2, installed: 1, failed: 1, silent: 0 });
	});

	test.each([
		["under what runs", STABLE],
		["under no version", ""],
		["under the bundle and a file of it", `${NEW}:index.html`],
	])("a failed download is the bundle's whether it is reported %s", async (_, versionName) => {
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

	test("a download that failed under another version, long after, or once the bundle was installed, is not the bundle's", async () => {
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

	test("a device that reports nothing shows by its next check that it runs the bundle", async () => {
		const [device = ""] = await known(1);
		await begin({ rolloutSteps: [100] });
		await check(device);
		later(MINUTE_MS);
		await check(device, NEW);
		await deliver();
		expect((await show()).devices).toEqual({ served: 1, installed: 1, failed: 0, silent: 0 });
	});

	test("a fleet that runs the bundle says so once a day, not with each check", async () => {
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

	test("of one step so many devices are enough; the next step has a sample of its own", async () => {
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
		await sweep(world.deps);
		await check(one);
		await deliver();
		expect((await show()).devices.served).toBe(5_000);
		await change({ rolloutPercentage: 99 });
		await change({ rolloutPercentage: 100 });
		await check(other);
		await deliver();
		expect((await show()).devices.served).toBe(5_001);
	});

	test("a fleet that comes at once fills the sample of a step, and does not wait for the gate to look", async () => {
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
		await testEnv.DB.prepare(
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

	test("a check that is answered from memory, before the router, tells the same as one that is not", async () => {
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
		const told = served.filter((event) => event.type === "rollout_served");
		expect(told.map(({ deviceId, ...rest }) => rest)).toEqual([
			expect.objectContaining({ network: "192.0.2.0/24", fromVersion: STABLE }),
			expect.objectContaining({ network: "192.0.2.0/24", fromVersion: STABLE }),
		]);
		expect(told.map(({ deviceId }) => deviceId)).toEqual([first, second]);
	});

	test("a warm check in a rollout reads and writes no row", async () => {
		const [device = ""] = await known(1);
		await begin({ rolloutSteps: [100] });
		await check(device);
		const { trips } = await world.request("POST", "/updates", { body: about(device) });
		expect(trips).toBe(0);
	});
});

describe("by hand", () => {
	test("raising from 5 to 20 % keeps every device in, lowering and raising again brings the same ones back", async () => {
		const ids = deviceIds(200);
		await change({ rolloutVersion: NEW, rolloutEnabled: true, rolloutPercentage: 5 });
		const cohort = async (share: number) => {
			await change({ rolloutPercentage: share });
			const inside: string[] = [];
			for (const id of ids) if ((await check(id)).version === NEW) inside.push(id);
			return inside;
		};
		const five = await cohort(5);
		const twenty = await cohort(20);
		expect(five.length).toBeGreaterThan(0);
		expect(twenty.length).toBeGreaterThan(five.length);
		expect(five.filter((id) => !twenty.includes(id))).toEqual([]);
		expect(await cohort(5)).toEqual(five);
		expect(await cohort(20)).toEqual(twenty);
	});

	test("pause, resume, promote and roll back are seen by the very next check, and audited", async () => {
		const [device = ""] = deviceIds(1);
		await change({ rolloutVersion: NEW, rolloutEnabled: true, rolloutPercentage: 100 });
		expect((await check(device)).version).toBe(NEW);
		await change({ rolloutPaused: true, rolloutPauseReason: "looking" });
		expect((await check(device)).kind).toBe("up_to_date");
		expect(await show()).toMatchObject({ state: "paused", pauseReason: "looking", next: null });
		await change({ rolloutPaused: false });
		expect((await check(device)).version).toBe(NEW);
		await change({ rollback: true });
		expect((await check(device, NEW)).version).toBe(STABLE);
		expect(await show()).toMatchObject({ state: "none", previous: { endedAs: "rolled_back" } });
		await change({ rolloutVersion: NEW, rolloutEnabled: true, rolloutPercentage: 1 });
		later(1_000);
		await change({ promoteToStable: true });
		expect((await check(device)).version).toBe(NEW);
		expect(await show()).toMatchObject({ state: "none", stableVersion: NEW, previous: { endedAs: "promoted" } });
		expect((await audited("channel.update")).length).toBe(6);
	});

	test("PUT /bundle of the same bundle ends the rollout as promoted, another rollout version as replaced", async () => {
		const other = await uploadTestBundle(world, app, "1.2.0");
		await change({ rolloutVersion: NEW, rolloutEnabled: true });
		later(1_000);
		await change({ rolloutVersion: "1.2.0" });
		expect(await show()).toMatchObject({ version: "1.2.0", previous: { version: NEW, endedAs: "replaced" } });
		const { body } = await world.request("GET", "/channel", {
			key: world.adminKey,
			query: { app_id: app.appId, channel: "production" },
		});
		later(1_000);
		await world.request("PUT", "/bundle", {
			key: world.adminKey,
			body: { app_id: app.appId, version_id: other, channel_id: body.id },
		});
		expect(await show()).toMatchObject({ state: "none", previous: { version: "1.2.0", endedAs: "promoted" } });
	});

	test("a share that is set between two steps goes on from there, and its step begins anew", async () => {
		await known(1);
		await begin();
		later(30 * MINUTE_MS);
		await change({ rolloutPercentage: 7 });
		const state = await show();
		expect(state.next.percentageBps).toBe(2_500);
		expect(Date.parse(state.next.at)).toBe(world.clock.nowMs + HOUR_MS);
	});

	test("settings are taken in both spellings, shown by the channel, and refused with the reason", async () => {
		await change({
			rollout_steps: [2.5, 50],
			auto_pause_confidence: 0.99,
			autoPauseAction: "rollback",
			auto_pause_action: "pause",
		});
		const { body } = await world.request("GET", "/channel", {
			key: world.adminKey,
			query: { app_id: app.appId, channel: "production" },
		});
		expect(body).toMatchObject({ rolloutSteps: [2.5, 50], autoPauseConfidence: 0.99, autoPauseAction: "rollback" });
		await change({ rolloutSteps: null, rolloutDevicesPerNetwork: null, autoPauseWindowMinutes: 60 });
		const shown = await world.request("GET", "/channel", {
			key: world.adminKey,
			query: { app_id: app.appId, channel: "production" },
		});
		expect(shown.body).toMatchObject({
			rolloutSteps: null,
			rolloutDevicesPerNetwork: null,
			autoPauseWindowMinutes: 60,
		});
		for (const [fields, path] of [
			[{ rolloutSteps: [5, 5] }, "rolloutSteps"],
			[{ rolloutSteps: [0, 5] }, "rolloutSteps"],
			[{ rolloutSteps: [] }, "rolloutSteps"],
			[{ autoPauseConfidence: 1 }, "autoPauseConfidence"],
			[{ autoPauseAction: "explode" }, "autoPauseAction"],
		] as const) {
			const refused = await change(fields);
			expect(refused.status).toBe(400);
			expect(refused.body.moreInfo.issues[0].path).toBe(path);
		}
	});

	test("an ended rollout is remembered for thirty days, with what its devices told", async () => {
		const [device = ""] = await known(1);
		await begin({ rolloutSteps: [100] });
		await check(device);
		await deliver();
		await change({ rollback: true });
		later(30 * 24 * HOUR_MS - 1);
		await sweep(world.deps);
		expect((await show()).previous).toMatchObject({ version: NEW });
		later(1);
		await sweep(world.deps);
		expect((await show()).previous).toBe(null);
		const left = await testEnv.DB.prepare("SELECT 1 FROM rollout_devices WHERE device_id = ?").bind(device).all();
		expect(left.results).toEqual([]);
	});

	test("however many rollouts ended on one day, and however many devices they had, all are forgotten", async () => {
		await testEnv.DB.prepare(
			`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600)
			INSERT INTO rollouts (id, app_id, channel_id, version_id, version_name, percentage_bps, paused, started_at_ms, step_at_ms,
				judged_from_ms, ended_at_ms, ended_as)
			SELECT c.app_id || i, c.app_id, c.id, 0, 'old', 100, 0, ?1, ?1, ?1, ?1, 'replaced' FROM n, channels c WHERE c.app_id = ?2`,
		)
			.bind(world.clock.nowMs, app.uuid)
			.run();
		await testEnv.DB.prepare(
			`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
			INSERT INTO rollout_devices (rollout_id, device_id, first_served_at_ms) SELECT ?1, 'd' || i, 0 FROM n`,
		)
			.bind(`${app.uuid}1`)
			.run();
		later(30 * 24 * HOUR_MS);
		await sweep(world.deps);
		const left = await testEnv.DB.prepare("SELECT count(*) AS n FROM rollouts WHERE app_id = ?")
			.bind(app.uuid)
			.first<{ n: number }>();
		expect(left?.n).toBe(0);
	});

	test("what came long ago does not count where a window is set", async () => {
		const ids = await known(2);
		await begin({ rolloutSteps: [100], autoPauseWindowMinutes: 60 });
		for (const id of ids) await check(id);
		await report(ids[0] ?? "", "update_fail");
		await deliver();
		later(61 * MINUTE_MS);
		await report(ids[1] ?? "", "set");
		await deliver();
		expect((await show()).devices).toEqual({ served: 2, installed: 1, failed: 0, silent: 0 });
	});
});
