/**
 * One vitest that stays: runs test files against the mutants that it is told. A child process of runner.ts, which names the
 * configuration to run with. What it says of a run is about that run and that file alone.
 */
import { createVitest, type TestModule } from "vitest/node";
import { messageOf, ranOutOfTime } from "./failure";
import { ROOT } from "./mutants";
import { BROKEN, CAUGHT, CUT_SHORT } from "./sweep-line";

declare module "vitest" {
	interface ProvidedContext {
		order: Order;
	}
}

export interface Order {
	/** 0 is the code as it is written. */
	readonly mutant: number;
	readonly file: string;
	/** With mutant 0: those that each test is asked about as well (sweep.ts). */
	readonly sweep?: { readonly mutants: readonly number[]; readonly longestMsOfTest: number };
}

/** A mutant that a sweep caught. */
export interface Caught {
	readonly mutant: number;
	/** The test that failed and what it said. */
	readonly because: string;
}

/** What the process tells before the outcome: that it is alive, and what a sweep caught since. */
export interface News {
	readonly caught: readonly Caught[];
}

export interface Outcome extends Order {
	/** `unclear` is what says nothing about the mutant: nothing failed but time ran out, or the tests broke off. */
	readonly result: "passed" | "failed" | "unclear";
	/** The first test that failed and what it said, or what was unclear. */
	readonly because: string;
	readonly reached: readonly number[];
	/** A sweep that left tests out: what the file comes by is not all known. */
	readonly leftOut: boolean;
	/** Not every test of a sweep had time for all mutants that it comes by. */
	readonly cutShort: boolean;
	readonly tookMs: number;
}

const CAUGHT_LINE = new RegExp(`^${CAUGHT} (\\d+) (.*)$`, "gm");

let logged = "";
const vitest = await createVitest("test", {
	config: process.argv[2] ?? "",
	root: ROOT,
	watch: false,
	bail: 1,
	maxWorkers: 1,
	silent: false,
	reporters: [
		{
			onUserConsoleLog: ({ content }) => {
				logged += content;
				const caught = [...content.matchAll(CAUGHT_LINE)].map(([, mutant, because = ""]) => ({
					mutant: Number(mutant),
					because,
				}));
				process.send?.({ caught } satisfies News);
			},
			onTestCaseResult: () => {
				process.send?.({ caught: [] } satisfies News);
			},
		},
	],
});

function judge(own: TestModule | undefined, broken: readonly unknown[]): Pick<Outcome, "result" | "because"> {
	if (own === undefined) return { result: "unclear", because: "the file was not run" };
	const tests = [...own.children.allTests()];
	// A file without tests broke off before there were any; after that, its own errors are those of its hooks.
	const hooked = tests.length === 0 ? [] : [own, ...own.children.allSuites()];
	const failures = [...tests, ...hooked].flatMap((each) => {
		const errors = each.type === "test" ? (each.result().errors ?? []) : each.errors();
		const name = each.type === "module" ? "beforeAll or afterAll" : each.fullName;
		return errors.map(messageOf).map((message) => ({ message, text: `${name}: ${message}` }));
	});
	const failure = failures.find(({ message }) => !ranOutOfTime(message));
	if (failure !== undefined) return { result: "failed", because: failure.text };
	const [unclear] = [...failures.map(({ text }) => text), ...[...own.errors(), ...broken].map(messageOf)];
	if (unclear !== undefined || !own.ok()) return { result: "unclear", because: unclear ?? own.state() };
	const passed = tests.some((test) => test.result().state === "passed");
	return passed ? { result: "passed", because: "" } : { result: "unclear", because: "no test was run" };
}

process.on("message", async (order: Order) => {
	const { mutant, file } = order;
	const startedMs = Date.now();
	logged = "";
	vitest.provide("order", order);
	const specifications = await vitest.globTestSpecifications([`${ROOT}${file}`]);
	const { testModules, unhandledErrors } = await vitest.runTestSpecifications(specifications, false);
	const outcome: Outcome = {
		mutant,
		file,
		// vitest answers with every file that it ever ran, in the state in which each one ended.
		...judge(
			testModules.find((module) => module.moduleId === `${ROOT}${file}`),
			unhandledErrors,
		),
		reached: /reached mutants: ([\d,]+)/.exec(logged)?.[1]?.split(",").map(Number) ?? [],
		leftOut: logged.includes(BROKEN),
		cutShort: logged.includes(CUT_SHORT),
		tookMs: Date.now() - startedMs,
	};
	process.send?.(outcome);
});
process.on("disconnect", () => process.exit());
process.send?.("ready");
