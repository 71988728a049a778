/**
 * The cohort of a rollout and its health gate: properties for random devices and figures, and
 * published values of the Wilson interval.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type GateSettings, type HealthSamples, judge } from "../../src/domain/rollouts/gate";
import { isInRollout, rolloutBucket } from "../../src/domain/rollouts/rollout";
import { normalQuantile, wilsonInterval } from "../../src/domain/rollouts/wilson";

const bps = fc.integer({ min: 0, max: 10_000 });
/** Enough devices to make the effect of chance small. */
const DEVICES = Array.from(
	{ length: 6_000 },
	(_, index) => `00000000-0000-4000-8000-${String(index).padStart(12, "0")}`,
);

describe("the cohort of a rollout", () => {
	test("is monotone: a device of a share is in every larger share", () => {
		fc.assert(
			fc.property(fc.uuid(), fc.uuid(), bps, bps, (salt, device, one, other) => {
				const [small, large] = one < other ? [one, other] : [other, one];
				return !isInRollout(salt, device, small) || isInRollout(salt, device, large);
			}),
		);
	});

	test("is stable: it has the same devices after lowering and raising the share", () => {
		fc.assert(
			fc.property(fc.uuid(), bps, bps, (salt, share, between) => {
				const cohort = (at: number) =>
					DEVICES.slice(0, 200)
						.filter((device) => isInRollout(salt, device, at))
						.join();
				const before = cohort(share);
				cohort(between);
				return cohort(share) === before;
			}),
			{ numRuns: 20 },
		);
	});

	test("is empty at 0 % and complete at 100 %", () => {
		fc.assert(
			fc.property(fc.uuid(), fc.uuid(), (salt, device) => {
				return !isInRollout(salt, device, 0) && isInRollout(salt, device, 10_000);
			}),
		);
	});

	test.each([100, 500, 2_500, 5_000])(
		"is uniform: %d basis points of the devices, within five standard deviations",
		(share) => {
			for (const salt of ["first", "second", "third"]) {
				const taken = DEVICES.filter((device) => isInRollout(salt, device, share)).length;
				const rate = share / 10_000;
				const deviation = Math.sqrt(DEVICES.length * rate * (1 - rate));
				expect(Math.abs(taken - DEVICES.length * rate)).toBeLessThan(5 * deviation);
			}
		},
	);

	test("is distributed evenly over the whole range", () => {
		const parts = new Array<number>(20).fill(0);
		for (const device of DEVICES) {
			const part = Math.floor(rolloutBucket("salt", device) / 500);
			parts[part] = (parts[part] ?? 0) + 1;
		}
		const expected = DEVICES.length / parts.length;
		const chiSquare = parts.reduce((sum, seen) => sum + (seen - expected) ** 2 / expected, 0);
		// 19 degrees of freedom: exceeded by chance once in a thousand.
		expect(chiSquare).toBeLessThan(43.8);
	});

	test("is independent in each rollout: an early device of one is not more likely to be early in the next", () => {
		const first = DEVICES.filter((device) => isInRollout("first", device, 2_000));
		const both = first.filter((device) => isInRollout("second", device, 2_000)).length;
		const deviation = Math.sqrt(first.length * 0.2 * 0.8);
		expect(Math.abs(both - first.length * 0.2)).toBeLessThan(5 * deviation);
	});
});

describe("the Wilson interval", () => {
	test.each([
		// R. G. Newcombe, "Two-sided confidence intervals for the single proportion", Statistics in
		// Medicine 17 (1998), table I, method 3.
		[81, 263, 0.2553, 0.3662],
		[15, 148, 0.0624, 0.1605],
		[0, 20, 0, 0.1611],
		[1, 29, 0.0061, 0.1718],
	])("of %d in %d equals the published one", (successes, trials, lower, upper) => {
		const interval = wilsonInterval(successes, trials, 0.95);
		expect(interval.lower).toBeCloseTo(lower, 4);
		expect(interval.upper).toBeCloseTo(upper, 4);
	});

	test.each([
		[0.975, 1.959963984540054],
		[0.995, 2.5758293035489],
		[0.95, 1.6448536269514722],
		[0.9999, 3.719016485455709],
		[0.5, 0],
		[0.01, -2.3263478740408408],
	])("uses the normal quantile: %d is %d", (p, quantile) => expect(normalQuantile(p)).toBeCloseTo(quantile, 7));

	const seen = fc
		.integer({ min: 1, max: 100_000 })
		.chain((trials) => fc.tuple(fc.integer({ min: 0, max: trials }), fc.constant(trials)));
	const confidence = fc.double({ min: 0.5, max: 0.999, noNaN: true });

	test("contains the observed rate, lies within 0 and 1, and is wider for more confidence", () => {
		fc.assert(
			fc.property(seen, confidence, confidence, ([successes, trials], one, other) => {
				const [less, more] = one < other ? [one, other] : [other, one];
				const [narrow, wide] = [wilsonInterval(successes, trials, less), wilsonInterval(successes, trials, more)];
				const rate = successes / trials;
				expect(narrow.lower).toBeLessThanOrEqual(rate + 1e-12);
				expect(narrow.upper).toBeGreaterThanOrEqual(rate - 1e-12);
				expect(wide.lower).toBeLessThanOrEqual(narrow.lower + 1e-12);
				expect(wide.upper).toBeGreaterThanOrEqual(narrow.upper - 1e-12);
				expect(wide.lower).toBeGreaterThanOrEqual(0);
				expect(wide.upper).toBeLessThanOrEqual(1);
			}),
		);
	});

	test("is symmetric in successes and failures", () => {
		fc.assert(
			fc.property(seen, confidence, ([successes, trials], given) => {
				const [one, other] = [
					wilsonInterval(successes, trials, given),
					wilsonInterval(trials - successes, trials, given),
				];
				expect(one.lower).toBeCloseTo(1 - other.upper, 9);
			}),
		);
	});
});

describe("the health gate", () => {
	const GATE: GateSettings = {
		enabled: true,
		limitBps: 500,
		crashLimitBps: null,
		errorLimitBps: null,
		confidence: 0.95,
		minAttempts: 20,
		minFailures: 3,
		action: "pause",
		cooldownMinutes: 0,
		stepsBps: [100, 500, 2_500, 10_000],
		stepMinutes: 60,
		stepMinDevices: 50,
	};
	const STATE = { percentageBps: 100, stepAtMs: 0, triggeredAtMs: null };
	const LATER_MS = 60 * 60_000;
	const QUIET = { crashed: 0, errored: 0 };
	const healthy = (devices: number): HealthSamples => ({ installed: devices, failed: 0, sinceStep: devices, ...QUIET });

	test("takes one step, to the next larger share, when time, devices and the upper bound allow it", () => {
		expect(judge(GATE, STATE, healthy(200), LATER_MS)).toMatchObject({
			verdict: "advance",
			next: { percentageBps: 500, waitingFor: [] },
		});
		// A share that a person set lies between two steps.
		expect(judge(GATE, { ...STATE, percentageBps: 700 }, healthy(200), LATER_MS).next?.percentageBps).toBe(2_500);
		expect(judge(GATE, { ...STATE, percentageBps: 10_000 }, healthy(200), LATER_MS)).toMatchObject({
			verdict: "finish",
			next: null,
		});
	});

	test("finishes only at 100 %, and only under the conditions of a step", () => {
		const full = { ...STATE, percentageBps: 10_000 };
		expect(judge(GATE, full, healthy(200), LATER_MS - 1)).toMatchObject({ verdict: "hold", next: null });
		expect(judge(GATE, full, { ...healthy(200), sinceStep: 49 }, LATER_MS)).toMatchObject({ verdict: "hold" });
		expect(judge(GATE, full, healthy(72), LATER_MS)).toMatchObject({ verdict: "hold" });
		const partly = { ...GATE, stepsBps: [500, 5_000] };
		expect(judge(partly, { ...STATE, percentageBps: 5_000 }, healthy(200), LATER_MS)).toMatchObject({
			verdict: "hold",
			reason: "The last step is reached; a person raises the share or finishes the rollout.",
		});
		expect(judge({ ...GATE, stepsBps: null }, full, healthy(200), LATER_MS)).toMatchObject({ verdict: "hold" });
	});

	test("waits for each of these conditions alone", () => {
		expect(judge(GATE, STATE, healthy(200), LATER_MS - 1)).toMatchObject({ verdict: "hold" });
		expect(judge(GATE, STATE, { ...healthy(200), sinceStep: 49 }, LATER_MS)).toMatchObject({ verdict: "hold" });
		expect(judge(GATE, STATE, healthy(72), LATER_MS)).toMatchObject({ verdict: "hold" });
	});

	test.each([
		[1_000, 35],
		[500, 73],
		[200, 189],
		[100, 381],
		[50, 765],
	])("without a failure, a limit of %d basis points is shown by %d devices and no fewer", (limitBps, least) => {
		const at = (devices: number) => judge({ ...GATE, limitBps, stepMinDevices: 1 }, STATE, healthy(devices), LATER_MS);
		expect(at(least).verdict).toBe("advance");
		expect(at(least - 1).verdict).toBe("hold");
	});

	test("stops on proven failures, never on possible chance", () => {
		const failing = (failed: number, installed: number) =>
			judge(GATE, STATE, { failed, installed, sinceStep: failed + installed, ...QUIET }, LATER_MS).verdict;
		expect(failing(10, 30)).toBe("pause");
		expect(failing(2, 30), "too few failures").toBe("hold");
		expect(failing(10, 5), "too few devices").toBe("hold");
		expect(failing(8, 92), "8 % seen, but 4.1 % is possible").toBe("hold");
		expect(
			judge({ ...GATE, action: "rollback" }, STATE, { failed: 10, installed: 30, sinceStep: 40, ...QUIET }, 0).verdict,
		).toBe("rollback");
	});

	test("is quiet for the cooldown, and notifies at most hourly", () => {
		const bad = { failed: 10, installed: 30, sinceStep: 40, ...QUIET };
		const at = (gate: GateSettings, triggeredAtMs: number, nowMs: number) =>
			judge(gate, { ...STATE, triggeredAtMs }, bad, nowMs).verdict;
		expect(at({ ...GATE, cooldownMinutes: 10 }, 0, 599_999)).toBe("hold");
		expect(at({ ...GATE, cooldownMinutes: 10 }, 0, 600_000)).toBe("pause");
		expect(at({ ...GATE, action: "notify" }, 0, LATER_MS - 1)).toBe("hold");
		expect(at({ ...GATE, action: "notify" }, 0, LATER_MS)).toBe("notify");
	});

	test("grows a share only if the upper bound is below the limit, and stops only if the lower bound reaches it", () => {
		const count = fc.integer({ min: 0, max: 5_000 });
		fc.assert(
			fc.property(
				count,
				count,
				fc.integer({ min: 1, max: 5_000 }),
				bps,
				(installed, failed, limitBps, percentageBps) => {
					const gate = { ...GATE, limitBps };
					const evidence = { installed, failed, sinceStep: installed + failed, ...QUIET };
					const { verdict, figures, next } = judge(gate, { ...STATE, percentageBps }, evidence, LATER_MS);
					if (verdict === "advance") {
						expect(figures.upper).toBeLessThan(limitBps / 10_000);
						expect(next?.percentageBps).toBeGreaterThan(percentageBps);
					}
					if (verdict === "pause") expect(figures.lower).toBeGreaterThanOrEqual(limitBps / 10_000);
				},
			),
		);
	});

	test("does nothing if it is off and no steps are set", () => {
		const off = { ...GATE, enabled: false, stepsBps: null };
		expect(judge(off, STATE, { failed: 40, installed: 0, sinceStep: 40, ...QUIET }, LATER_MS).verdict).toBe("hold");
		expect(
			judge({ ...off, enabled: true }, STATE, { failed: 40, installed: 0, sinceStep: 40, ...QUIET }, LATER_MS).verdict,
		).toBe("pause");
	});

	test("stops for crashes and hangs above their limit, and says so", () => {
		const gate = { ...GATE, crashLimitBps: 300 };
		const crashing = { ...healthy(200), crashed: 20 };
		expect(judge(gate, STATE, crashing, LATER_MS)).toMatchObject({
			verdict: "pause",
			reason:
				"20 of 200 devices crashed or stopped responding: with 95 % confidence at least 6.6 % do, and the limit is 3 %.",
		});
		expect(judge(GATE, STATE, crashing, LATER_MS).verdict, "without a limit").toBe("advance");
		const few = { ...healthy(15), crashed: 15 };
		expect(judge(gate, STATE, few, LATER_MS).verdict, "fewer than minAttempts").toBe("hold");
		expect(judge({ ...gate, minFailures: 21 }, STATE, crashing, LATER_MS).verdict, "fewer than minFailures").toBe(
			"hold",
		);
	});

	test("lets a bundle with many JavaScript errors pass unless they have a limit", () => {
		const noisy = { ...healthy(400), errored: 390 };
		expect(judge({ ...GATE, crashLimitBps: 300 }, STATE, noisy, LATER_MS).verdict).toBe("advance");
		expect(judge({ ...GATE, errorLimitBps: 2_000 }, STATE, noisy, LATER_MS)).toMatchObject({
			verdict: "pause",
			reason: expect.stringMatching(/^390 of 400 devices reported JavaScript errors: .* the limit is 20 %\.$/),
		});
	});

	test("does not grow before enough devices ran the bundle without a crash", () => {
		const gate = { ...GATE, crashLimitBps: 100 };
		expect(judge(gate, STATE, healthy(200), LATER_MS)).toMatchObject({
			verdict: "hold",
			reason: "Waiting for 181 more devices to report without a crash, which would show that fewer than 1 % do.",
			next: { devicesNeeded: 181 },
		});
		expect(judge(gate, STATE, healthy(381), LATER_MS).verdict).toBe("advance");
	});
});
