/**
 * A mutant that the runner of `npm run test:mutation` reports as caught was caught by a failed
 * test, in the one file that ran, on that mutant. A run that counts anything else as caught proves
 * nothing, so canaries check the runner.
 */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { ROOT } from "./mutants";
import { Runner } from "./runner";

const CATCHES = "test/proof/mutation/canary/catches.test.ts";
const MISSES = "test/proof/mutation/canary/misses.test.ts";

const folder = mkdtempSync(join(tmpdir(), "canary-"));
const config = `${ROOT}test/proof/mutation/canary/vitest.config.ts`;
/** Shorter than the timeout of a test, so that the runner reports first. */
const LONGEST_SILENCE_MS = 120_000;
const runner = new Runner({ config, longestSilenceMs: LONGEST_SILENCE_MS, attempts: 1 });
process.env.CANARY_FILE = join(folder, "breaks-off");
afterAll(() => {
	runner.stop();
	rmSync(folder, { recursive: true });
});

describe("the mutation runner", () => {
	test("reports each run by itself, after any earlier failure", async () => {
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

	test("names the failed test, and the mutants that a file reaches", async () => {
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

	test("does not count a missing file as passed, nor a hanging one as caught", async () => {
		const gone = await runner.run({ mutant: 0, file: "test/proof/mutation/canary/gone.test.ts" });
		expect(gone).toMatchObject({ result: "unclear", because: "the file was not run" });
		const hasty = new Runner({ config, longestSilenceMs: 1, attempts: 1 });
		const hanging = await hasty.run({ mutant: 5, file: CATCHES });
		expect(hanging).toMatchObject({ result: "unclear", because: "the tests did not end" });
	});

	test("repeats an unclear run in a fresh process, and continues afterwards", async () => {
		writeFileSync(process.env.CANARY_FILE ?? "", "");
		const patient = new Runner({ config, longestSilenceMs: LONGEST_SILENCE_MS, attempts: 2 });
		expect((await patient.run({ mutant: 8, file: CATCHES })).result).toBe("passed");
		expect(existsSync(process.env.CANARY_FILE ?? ""), "the first attempt broke nothing off").toBe(false);
		expect((await patient.run({ mutant: 1, file: CATCHES })).result).toBe("failed");
		expect((await patient.run({ mutant: 1, file: MISSES })).result).toBe("passed");
		patient.stop();
	});
});
