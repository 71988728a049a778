/** One vitest that stays: runs test files against the mutants that it is told. A child process of run.ts. */
import { createVitest } from "vitest/node";
import { ROOT } from "./mutants";

export interface Order {
	/** 0 is the code as it is written. */
	readonly mutant: number;
	readonly file: string;
}

export interface Outcome extends Order {
	readonly passed: boolean;
	readonly reached: readonly number[];
	readonly tookMs: number;
}

let logged = "";
const vitest = await createVitest("test", {
	config: `${ROOT}test/mutation/vitest.config.ts`,
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
		},
	],
});

process.on("message", async ({ mutant, file }: Order) => {
	const startedMs = Date.now();
	logged = "";
	vitest.provide("mutant", mutant);
	const specifications = await vitest.globTestSpecifications([`${ROOT}${file}`]);
	const { testModules, unhandledErrors } = await vitest.runTestSpecifications(specifications, false);
	// vitest answers with every file that it ever ran, in the state in which each one ended.
	const own = testModules.find((module) => module.moduleId === `${ROOT}${file}`);
	const tests = [...(own?.children.allTests() ?? [])].map((test) => test.result().state);
	if (own === undefined || (own.ok() && !tests.includes("passed"))) throw new Error(`${file} was not run`);
	const outcome: Outcome = {
		mutant,
		file,
		passed: unhandledErrors.length === 0 && own.ok(),
		reached: /reached mutants: ([\d,]+)/.exec(logged)?.[1]?.split(",").map(Number) ?? [],
		tookMs: Date.now() - startedMs,
	};
	process.send?.(outcome);
});
process.on("disconnect", () => process.exit());
process.send?.("ready");
