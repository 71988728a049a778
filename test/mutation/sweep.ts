/**
 * Asks the tests of one file about many mutants within one run of it: each test runs as the code is, and then once more for every mutant
 * that it came by. What is told as caught failed with the mutant, held without it, and failed with it again; a test that cannot be run
 * twice says nothing, and neither does one after which nothing holds any more.
 */
import { type RunnerTask, type RunnerTestCase, type RunnerTestSuite, TestRunner } from "vitest";
import { messageOf, ranOutOfTime } from "./failure";
import { BROKEN, CAUGHT, CUT_SHORT } from "./sweep-line";
import { activate, forgetReached, reachedMutants } from "./switch";

const { warn } = console;
// It warns of being old as it is loaded, and workerd cannot log then; TestRunner.setTestFn, which it names instead, is getTestFn in
// vitest 4.1.
console.warn = () => undefined;
const { setFn } = await import("vitest/suite");
console.warn = warn;

/**
 * Puts the sweep in the place of each test's function. Mutants that are caught are taken out of `wanted`.
 * @param longestMs after this long a test is asked about no further mutant
 */
export function sweepTests(suite: RunnerTestSuite, wanted: Set<number>, longestMs: number): void {
	for (const task of suite.tasks) {
		if (task.type === "suite") sweepTests(task, wanted, longestMs);
		else sweepTest(task, wanted, longestMs);
	}
}

function sweepTest(test: RunnerTestCase, wanted: Set<number>, longestMs: number): void {
	const run = TestRunner.getTestFn(test);
	setFn(test, async () => {
		const reachedBefore = forgetReached();
		try {
			await run();
		} catch {
			// What the sweep of an earlier test left behind is in its way.
			console.log(BROKEN);
			return;
		}
		const mutants = reachedMutants().filter((mutant) => wanted.has(mutant));
		const endsMs = Date.now() + longestMs;
		const again = (mutant: number) => failureOf(test, () => run(), mutant);
		if (mutants.length > 0 && (await again(0)) === undefined) {
			for (const mutant of mutants) {
				if (Date.now() > endsMs) {
					console.log(CUT_SHORT);
					break;
				}
				const failure = await again(mutant);
				if (failure === undefined) continue;
				if ((await again(0)) !== undefined) break;
				if ((await again(mutant)) === undefined) continue;
				wanted.delete(mutant);
				console.log(`${CAUGHT} ${mutant} ${test.fullTestName}: ${failure}`);
				if ((await again(0)) !== undefined) break;
			}
		}
		reachedBefore();
	});
}

/** What a test says with a mutant, after what comes before each test ran as the code is. */
async function failureOf(test: RunnerTestCase, run: () => unknown, mutant: number): Promise<string | undefined> {
	const endings = await prepare(test);
	activate(mutant);
	try {
		await run();
		return undefined;
	} catch (error) {
		const message = messageOf(error);
		return ranOutOfTime(message) ? undefined : message;
	} finally {
		activate(0);
		for (const end of endings) await end();
	}
}

/** Runs the hooks before each test, and answers with those after it. */
async function prepare(test: RunnerTestCase): Promise<(() => unknown)[]> {
	const endings: (() => unknown)[] = [];
	for (const suite of suitesOf(test)) {
		const { beforeEach, afterEach } = TestRunner.getSuiteHooks(suite);
		for (const hook of beforeEach) {
			const cleanUp = await hook(test.context, suite);
			if (typeof cleanUp === "function") endings.unshift(cleanUp as () => unknown);
		}
		endings.unshift(...afterEach.map((hook) => () => hook(test.context, suite)));
	}
	return endings;
}

/** The suites that the test stands in, the file first. */
function suitesOf(test: RunnerTestCase): RunnerTestSuite[] {
	const suites: RunnerTestSuite[] = [];
	for (let outer: RunnerTask | undefined = test.suite ?? test.file; outer?.type === "suite"; outer = parentOf(outer)) {
		suites.unshift(outer);
	}
	return suites;
}

function parentOf(suite: RunnerTestSuite): RunnerTestSuite | undefined {
	if ("filepath" in suite) return undefined;
	return suite.suite ?? suite.file;
}
