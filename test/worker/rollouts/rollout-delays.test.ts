/**
 * Reports of devices that wait in the queue or for the move of their app: a rollout neither grows
 * nor finishes until they are counted, and says so.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { HOUR_MS, MINUTE_MS } from "../../../src/domain/time";
import { runJobs } from "../../../src/schedule";
import {
	begin,
	check,
	deliver,
	fleetAsks,
	known,
	later,
	NEW,
	prepareRollout,
	report,
	STABLE,
	show,
	world,
} from "../support/rollout-scene";

beforeEach(prepareRollout);

describe("an automatic rollout with delayed reports", () => {
	const HEALTHY = { rolloutSteps: [50, 100], rolloutPercentage: 50, rolloutStepMinDevices: 1 };
	async function healthy() {
		const [ids, running] = [await known(40), new Map<string, string>()];
		await begin({ ...HEALTHY, autoPauseFailureRateBps: 9_000 });
		await fleetAsks(ids, running);
		later(HOUR_MS);
		return { ids, running };
	}
	function queueWith(oldestAtMs: number | undefined) {
		const waiting = oldestAtMs === undefined ? { backlogCount: 0 } : { backlogCount: 7 };
		const oldest = oldestAtMs === undefined ? {} : { oldestMessageTimestamp: new Date(oldestAtMs) };
		const metrics = async () => ({ backlogBytes: 0, ...waiting, ...oldest });
		return {
			...world.deps,
			events: Object.assign(Object.create(world.deps.events), { metrics }),
		} as typeof world.deps;
	}

	test("in the queue, neither grows nor finishes, says why, and goes on when they are counted", async () => {
		const { ids, running } = await healthy();
		const { nowMs } = world.clock;
		await runJobs(queueWith(nowMs - 40 * MINUTE_MS));
		const waits = { state: "running", percentageBps: 5_000, verdict: "hold" };
		expect(await show()).toMatchObject({
			...waits,
			reason: "Waiting for delayed reports of devices, the oldest of which has waited 40 minutes.",
			next: { waitingFor: ["delayed reports of devices, the oldest of which has waited 40 minutes"] },
		});
		later(MINUTE_MS);
		await runJobs(queueWith(nowMs));
		expect(await show(), "a minute is no delay").toMatchObject({ percentageBps: 10_000 });
		await fleetAsks(ids, running);
		later(HOUR_MS);
		await runJobs(queueWith(world.clock.nowMs - 3 * HOUR_MS));
		expect(await show()).toMatchObject({
			state: "running",
			reason: expect.stringMatching(/^Waiting for .*delayed reports .* 180 minutes.* Then the rollout finishes/),
		});
		later(HOUR_MS);
		await runJobs(queueWith(undefined));
		expect(await show()).toMatchObject({ state: "none", stableVersion: NEW });
	});

	test("still stops for the failures that it knows", async () => {
		const ids = await known(200);
		await begin({ ...HEALTHY, autoPauseFailureRateBps: 100 });
		for (const id of ids) {
			if ((await check(id, STABLE)).version !== NEW) continue;
			await report(id, "update_fail", NEW);
		}
		await deliver();
		later(HOUR_MS);
		await runJobs(queueWith(world.clock.nowMs - HOUR_MS));
		expect((await show()).state).not.toBe("running");
	});

	test("that arrive late hold the step of their own delivery", async () => {
		const { running } = await healthy();
		// Only the reports of devices in the rollout are part of its figures.
		for (const id of [...running.keys()].slice(0, 3)) await check(id, STABLE);
		later(HOUR_MS);
		await deliver();
		expect(await show()).toMatchObject({
			percentageBps: 5_000,
			reason: expect.stringContaining("has waited 60 minutes"),
		});
		later(2 * MINUTE_MS);
		for (const id of running.keys()) await check(id, STABLE);
		await deliver();
		expect(await show()).toMatchObject({ percentageBps: 10_000 });
	});

	test.each([
		["reports nothing", undefined],
		["fails", () => Promise.reject(new Error("internal error"))],
	])("unknown, because the runtime %s, holds nothing", async (_, metrics) => {
		await healthy();
		const events = Object.assign(Object.create(world.deps.events), { metrics });
		await runJobs({ ...world.deps, events } as typeof world.deps);
		expect(await show()).toMatchObject({ percentageBps: 10_000 });
	});
});
