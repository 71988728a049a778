/**
 * Automatic rollouts: the steps and the health gate, checked by the answers to devices.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { isInRollout } from "../../../src/domain/rollouts/rollout";
import { HOUR_MS, MINUTE_MS } from "../../../src/domain/time";
import { stepRollouts } from "../../../src/features/rollouts/steps";
import { runJobs } from "../../../src/schedule";
import { withFault } from "../support/faults";
import { beforeSecondTrip } from "../support/interleave";
import {
	app,
	audited,
	begin,
	change,
	check,
	deliver,
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
import { createTestKey, testEnv } from "../support/world";

beforeEach(prepareRollout);

describe("an automatic rollout", () => {
	test("grows from 1 to 5, 25 and 100 % while the bundle is healthy, keeps its devices at each step, and finishes", async () => {
		const ids = await known(250);
		// A rollout id whose first 1 % has at least one of these few devices.
		const draws = Array.from({ length: 100 }, () => crypto.randomUUID());
		const draw = draws.find((id) => ids.filter((device) => isInRollout(id, device, 100)).length > 2) ?? "";
		const { newId: anyId } = world.deps;
		Object.assign(world.deps, { newId: () => draw });
		await begin({ rolloutStepMinDevices: 1, autoPauseFailureRateBps: 9_000 });
		Object.assign(world.deps, { newId: anyId });
		const running = new Map<string, string>();
		const shares: number[] = [];
		let before: string[] = [];
		for (let hour = 0; hour < 4; hour++) {
			await fleetAsks(ids, running);
			const state = await show();
			shares.push(state.percentageBps);
			const now = [...running.keys()];
			expect(before.every((id) => running.get(id) === NEW)).toBe(true);
			expect(state.devices).toEqual({ served: now.length, installed: now.length, failed: 0, silent: 0 });
			before = now;
			later(HOUR_MS);
			await runJobs(world.deps);
		}
		expect(shares).toEqual([100, 500, 2_500, 10_000]);
		expect(running.size).toBe(ids.length);
		expect(await show()).toMatchObject({
			state: "none",
			stableVersion: NEW,
			previous: { version: NEW, endedAs: "promoted" },
		});
		const [finish, ...others] = await audited("channel.rollout_finish");
		expect(others).toEqual([]);
		expect(finish).toMatchObject({ actor: { type: "system", name: "Capstan" }, details: { version: NEW, failed: 0 } });
		expect((await check(ids[0] ?? "", NEW)).error, "its devices stay on it").toBe("no_new_version_available");
		const steps = await audited("channel.rollout_advance");
		expect(steps.map((step) => step.after)).toEqual([10_000, 2_500, 500].map((bps) => ({ rolloutPercentageBps: bps })));
		expect(steps[0]).toMatchObject({
			actor: { type: "system", name: "Capstan" },
			before: { rolloutPercentageBps: 2_500 },
			details: { version: NEW, failed: 0, limit_bps: 9_000, confidence: 0.95 },
		});
		expect(steps[0]?.details.upper_bound).toBeLessThan(0.9);
	});

	test("waits at 100 % for the time and the devices of the last step, and gives the reason", async () => {
		const ids = await known(40);
		await begin({ rolloutSteps: [100], rolloutPercentage: 100, autoPauseFailureRateBps: 3_000 });
		await fleetAsks(ids.slice(0, 12), new Map());
		expect(await show()).toMatchObject({
			verdict: "hold",
			next: null,
			readyToFinish: false,
			reason: expect.stringMatching(/^Waiting for the end of this step, .* Then the rollout finishes/),
		});
		later(HOUR_MS);
		await runJobs(world.deps);
		expect(await show()).toMatchObject({ state: "none", stableVersion: NEW });
	});

	test("is ready to finish by hand at 100 % without steps", async () => {
		await begin({ rolloutSteps: null, rolloutPercentage: 100 });
		expect(await show()).toMatchObject({ state: "running", readyToFinish: true });
		later(10 * HOUR_MS);
		await runJobs(world.deps);
		expect(await show(), "only a person finishes it").toMatchObject({ state: "running", readyToFinish: true });
	});

	test("waits for the time, for devices and for certainty, and gives the reason", async () => {
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
		await runJobs(world.deps);
		expect((await show()).percentageBps, "too few devices").toBe(9_000);
		later(MINUTE_MS);
		await fleetAsks(ids.slice(8), new Map());
		expect((await show()).percentageBps, "reports are acted upon without waiting for the clean-up").toBe(10_000);
	});

	test("pauses when failures prove too frequent: its devices keep the bundle, and no others get it", async () => {
		const ids = await known(60);
		await begin({ rolloutSteps: [90, 100] });
		later(2 * MINUTE_MS);
		const bad = await fleetAsks(ids, new Map(), "update_fail");
		expect(bad.length).toBeGreaterThan(30);
		const state = await show();
		expect(state).toMatchObject({ state: "paused", percentageBps: 9_000, devices: { failed: bad.length } });
		expect(state.pauseReason).toContain(`${bad.length} of ${bad.length} devices failed`);
		expect((await audited("channel.rollout_pause"))[0]).toMatchObject({
			actor: { name: "Capstan" },
			details: { failed: bad.length, installed: 0, reason: state.pauseReason },
		});
		later(10_000);
		for (const id of ids) expect((await check(id)).error).toBe("no_new_version_available");
		expect((await check(bad[0] ?? "", NEW)).error).toBe("no_new_version_available");
		later(HOUR_MS);
		await runJobs(world.deps);
		expect((await audited("channel.rollout_pause")).length).toBe(1);
	});

	test("is judged only by later reports after a person resumes it", async () => {
		const ids = await known(60);
		await begin({ rolloutSteps: [90, 100] });
		later(2 * MINUTE_MS);
		const bad = await fleetAsks(ids, new Map(), "update_fail");
		later(1_000);
		await change({ rolloutPaused: false });
		later(2 * MINUTE_MS);
		await runJobs(world.deps);
		expect(await show()).toMatchObject({ state: "running", devices: { served: bad.length, failed: 0 } });
		later(HOUR_MS);
		for (const id of bad) await report(id, "update_fail");
		await deliver();
		expect(await show()).toMatchObject({ state: "paused" });
	});

	test.each([
		["the stable bundle", { version: STABLE }, { version: STABLE }],
		["the store build", { version: null }, { version: "builtin" }],
	])(
		"rolls back with that action; devices that run the bundle get %s at their next check",
		async (_, stable, answer) => {
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
		},
	);

	test("reports once with the action notify", async () => {
		const ids = await known(60);
		await begin({ rolloutSteps: [90, 100], autoPauseAction: "notify" });
		later(2 * MINUTE_MS);
		await fleetAsks(ids, new Map(), "update_fail");
		later(2 * MINUTE_MS);
		await runJobs(world.deps);
		expect(await show()).toMatchObject({ state: "running", percentageBps: 9_000 });
		expect((await audited("channel.rollout_notify")).length).toBe(1);
	});

	test.each([
		["pause", "Its devices keep the bundle, and no others get it."],
		["rollback", "Its devices return to the previous bundle at their next check."],
	])("mails once that it stopped, with the action %s", async (autoPauseAction, what) => {
		const ids = await known(60);
		await begin({ rolloutSteps: [90, 100], autoPauseAction });
		later(2 * MINUTE_MS);
		await fleetAsks(ids, new Map(), "update_fail");
		later(2 * MINUTE_MS);
		await runJobs(world.deps);
		expect(world.deps.printed).toEqual([expect.stringContaining(`Mail to ${world.adminEmail}: `)]);
		for (const part of [NEW, "production", app.appId, "devices failed", what])
			expect(world.deps.printed[0]).toContain(part);
	});

	describe("with the action notify", () => {
		const notice = async () =>
			(
				await world.request("GET", "/channel", {
					key: world.adminKey,
					query: { app_id: app.appId, channel: "production" },
				})
			).body.rolloutNotice;
		/** Runs a failing rollout with the action notify. */
		async function fail(): Promise<void> {
			const ids = await known(60);
			await begin({ rolloutSteps: [90, 100], autoPauseAction: "notify" });
			later(2 * MINUTE_MS);
			await fleetAsks(ids, new Map(), "update_fail");
		}

		test("leaves a notice on the channel until a promoter dismisses it", async () => {
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
			expect(await show(), "the rollout continues").toMatchObject({ state: "running", percentageBps: 9_000 });
			expect((await dismiss(reader)).status, "nothing is left to dismiss").toBe(200);
		});

		test.each([
			["paused", { rolloutPaused: true }],
			["changed in its share", { rolloutPercentageBps: 100 }],
			["rolled back", { rollback: true }],
			["promoted", { promoteToStable: true }],
		])("removes the notice when the rollout is %s", async (_, fields) => {
			await fail();
			await change({ allow_emulator: false });
			expect(await notice(), "another setting leaves it").not.toBe(null);
			expect((await change(fields)).status).toBe(200);
			expect(await notice()).toBe(null);
		});

		test("logs and mails the management address once, for ten concurrent runs and two schedules", async () => {
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
			await runJobs(again);
			expect(world.deps.printed).toHaveLength(1);
			expect(logged).toEqual([]);
			later(25 * HOUR_MS);
			await Promise.all(Array.from({ length: 10 }, () => stepRollouts(again)));
			expect(world.deps.printed, "the next day it fails still").toHaveLength(2);
			expect(logged).toEqual([
				["warn", "rollout_notice", expect.objectContaining({ app: app.appId, channel: "production", version: NEW })],
			]);
		});

		test("mails the super admins without a management address, and nobody without configured mail", async () => {
			await fail();
			expect(world.deps.printed).toEqual([expect.stringContaining(`Mail to ${world.adminEmail}: `)]);
			later(25 * HOUR_MS);
			const silent = { ...world.deps, config: { ...world.deps.config, mail: undefined } };
			await stepRollouts(silent);
			expect(world.deps.printed).toHaveLength(1);
			expect((await audited("channel.rollout_notify")).length).toBe(2);
		});
	});

	test("takes one step in ten concurrent runs, and none after a person's change", async () => {
		const ids = await known(60);
		await begin({ rolloutSteps: [80, 90, 100], rolloutStepMinutes: 0 });
		await change({ rolloutPaused: true });
		await fleetAsks(ids, new Map());
		await change({ rolloutPaused: false });
		for (const id of ids) await check(id);
		for (const id of ids) await report(id, "set");
		const held = messages();
		// Delivers the samples without a step, because the last check was just now.
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
			await runJobs(world.deps);
			expect(await percentage()).toBe(9_500);
			expect((await audited("channel.rollout_advance")).length).toBe(1);
		},
	);

	test("takes no step after a change between the judgement and the step", async () => {
		const ids = await known(60);
		await begin({ rolloutSteps: [90, 100] });
		await fleetAsks(ids, new Map());
		later(HOUR_MS);
		const pause = { rolloutPaused: true, rolloutPauseReason: "a person looks" };
		const interleaved = beforeSecondTrip(world.deps.d1, () => change(pause));
		await stepRollouts({ ...world.deps, d1: interleaved.d1 });
		expect(interleaved.trips).toBe(2);
		expect(await show()).toMatchObject({ state: "paused", percentageBps: 9_000, pauseReason: "a person looks" });
		expect(await audited("channel.rollout_advance")).toEqual([]);
	});
});
