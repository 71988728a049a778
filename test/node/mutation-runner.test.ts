/**
 * What the runner of `npm run test:mutation` says is caught was caught: by a test that failed, in the file that was run alone, on that
 * mutant. A mutation run that counts anything else as caught proves nothing, so the runner is held to canaries.
 */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { ROOT } from "../mutation/mutants";
import { Runner } from "../mutation/runner";

const CATCHES = "test/mutation/canary/catches.test.ts";
const MISSES = "test/mutation/canary/misses.test.ts";
const SWEEP = "test/mutation/canary/sweep.test.ts";

const folder = mkdtempSync(join(tmpdir(), "canary-"));
const config = `${ROOT}test/mutation/canary/vitest.config.ts`;
/** Less than a test may take, so that the runner's own word comes first. */
const LONGEST_SILENCE_MS = 120_000;
const runner = new Runner({ config, longestSilenceMs: LONGEST_SILENCE_MS, attempts: 1 });
process.env.CANARY_FILE = join(folder, "breaks-off");
afterAll(() => {
	runner.stop();
	rmSync(folder, { recursive: true });
});

describe("the mutation runner", () => {
	test("says of each run what that run was, whatever failed before it", async () => {
		const results: string[] = [];
		for (const [mutant, file] of [
			[0, CATCHES],
			[1, CATCHES],
			[1, MISSES],
			[0, MISSES],
			[0, CATCHES],
			[6, CATCHES],
			[6, MISSES],
		] as const) {
			results.push((await runner.run({ mutant, file })).result);
		}
		expect(results).toEqual(["passed", "failed", "passed", "passed", "passed", "failed", "passed"]);
	});

	test("names what failed, and tells which mutants a file comes by", async () => {
		const caught = await runner.run({ mutant: 1, file: CATCHES });
		expect(caught.because).toBe("the condition holds: expected true to be false // Object.is equality");
		const plain = await runner.run({ mutant: 0, file: CATCHES });
		expect([...plain.reached].sort()).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
		expect((await runner.run({ mutant: 0, file: MISSES })).reached).toEqual([1]);
	});

	test.for([
		["a test that has no time", 2, "timed out"],
		["tests that are killed", 3, "Worker forks emitted error"],
		["a test process that is killed", 4, "the test process ended"],
		["an error that no test failed by", 7, "nobody waits for this"],
	] as const)("does not count as caught: %s", async ([, mutant, because]) => {
		const outcome = await runner.run({ mutant, file: CATCHES });
		expect(outcome).toMatchObject({ result: "unclear", because: expect.stringContaining(because) });
	});

	test("does not count a file that is not there as passed, nor one that hangs as caught", async () => {
		const gone = await runner.run({ mutant: 0, file: "test/mutation/canary/gone.test.ts" });
		expect(gone).toMatchObject({ result: "unclear", because: "the file was not run" });
		const hasty = new Runner({ config, longestSilenceMs: 1, attempts: 1 });
		const hanging = await hasty.run({ mutant: 5, file: CATCHES });
		expect(hanging).toMatchObject({ result: "unclear", because: "the tests did not end" });
	});

	test("asks again, in a fresh process, what was not clear, and goes on after all of that", async () => {
		writeFileSync(process.env.CANARY_FILE ?? "", "");
		const patient = new Runner({ config, longestSilenceMs: LONGEST_SILENCE_MS, attempts: 2 });
		expect((await patient.run({ mutant: 8, file: CATCHES })).result).toBe("passed");
		expect(existsSync(process.env.CANARY_FILE ?? ""), "the first attempt broke nothing off").toBe(false);
		expect((await patient.run({ mutant: 1, file: CATCHES })).result).toBe("failed");
		expect((await patient.run({ mutant: 1, file: MISSES })).result).toBe("passed");
		patient.stop();
	});

	test("believes of a sweep what fails with the mutant, every time, and never without it", async () => {
		const told: [number, string][] = [];
		const sweep = { mutants: [1, 2, 3, 4, 5, 6, 7, 8], longestMsOfTest: 60_000 };
		const outcome = await runner.run({ mutant: 0, file: SWEEP, sweep }, ({ mutant, because }) =>
			told.push([mutant, because]),
		);
		expect(outcome).toMatchObject({ result: "passed", leftOut: true, cutShort: false });
		expect(told).toEqual([
			[1, "the condition holds: expected true to be false // Object.is equality"],
			[2, "what comes before each test > comes before it every time: expected true to be false // Object.is equality"],
		]);
	});

	test("asks in a sweep about the mutants that are left alone, and says when there was no time for them", async () => {
		const caught: number[] = [];
		const sweepOf = (mutants: number[], longestMsOfTest: number) =>
			runner.run({ mutant: 0, file: CATCHES, sweep: { mutants, longestMsOfTest } }, ({ mutant }) =>
				caught.push(mutant),
			);
		expect(await sweepOf([2], 60_000)).toMatchObject({ result: "passed", cutShort: false });
		expect(await sweepOf([1], -1)).toMatchObject({ result: "passed", cutShort: true });
		expect(caught).toEqual([]);
		await sweepOf([1, 2], 60_000);
		expect(caught).toEqual([1]);
	});
});
