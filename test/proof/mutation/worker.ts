/**
 * One vitest that runs one test file against one mutant after the other. A child process of
 * runner.ts, which names the configuration. Each outcome is about that run and that file alone.
 */
import { createVitest, type TestModule } from "vitest/node";
import { ROOT } from "./mutants";

declare module "vitest" {
	interface ProvidedContext {
		order: Order;
	}
}

export interface Order {
	/** 0 is the code as it is written. */
	readonly mutant: number;
	readonly file: string;
}

export interface Outcome extends Order {
	/** `unclear`: time ran out or the tests broke off, which proves nothing about the mutant. */
	readonly result: "passed" | "failed" | "unclear";
	/** The first test that failed with its message, or the reason why the run is unclear. */
	readonly because: string;
	readonly reached: readonly number[];
	readonly tookMs: number;
}

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
			},
			// A sign of life for the runner.
			onTestCaseResult: () => {
				process.send?.("alive");
			},
		},
	],
});

/** The first line of what was thrown, which may be any value. */
function messageOf(error: unknown): string {
	return String((error as { message?: unknown }).message ?? error).split("\n")[0] ?? "";
}

const ranOutOfTime = (message: string) => /^(Error: )?(Test|Hook) timed out in \d+ms/.test(message);

function judge(own: TestModule | undefined, broken: readonly unknown[]): Pick<Outcome, "result" | "because"> {
	if (own === undefined) return { result: "unclear", because: "the file was not run" };
	const tests = [...own.children.allTests()];
	// A file without tests broke off before it declared any; otherwise its own errors are those of its
	// hooks.
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
		// vitest answers with every file that it ever ran, each in its last state.
		...judge(
			testModules.find((module) => module.moduleId === `${ROOT}${file}`),
			unhandledErrors,
		),
		reached: /reached mutants: ([\d,]+)/.exec(logged)?.[1]?.split(",").map(Number) ?? [],
		tookMs: Date.now() - startedMs,
	};
	process.send?.(outcome);
});
process.on("disconnect", () => process.exit());
process.send?.("ready");
