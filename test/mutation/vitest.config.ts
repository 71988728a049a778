/** The tests in workerd, on sources that hold every mutant behind a switch. */
import { defineConfig, type TestProjectInlineConfiguration } from "vitest/config";
import base from "../vitest.config";
import { allMutants, mutatedSource, ROOT } from "./mutants";

const mutants = allMutants();
const [worker] = (base.test?.projects ?? []) as TestProjectInlineConfiguration[];

/** Keeps what it has built once, and with it the mutant that was on then. */
const PREPARED = "src/db/prepared.ts";

function builtEachTime(source: string): string {
	const code = source.replace("compiled ??= build(", "compiled = build(");
	if (code === source)
		throw new Error(`${PREPARED} builds its statements in another way; let mutants have theirs anew`);
	return code;
}

export default defineConfig({
	test: {
		projects: [
			{
				...worker,
				plugins: [
					...(worker?.plugins ?? []),
					{
						name: "mutants",
						enforce: "pre",
						transform(source: string, id: string) {
							const path = id.split("?")[0] ?? "";
							if (!path.startsWith(`${ROOT}src/`)) return undefined;
							const file = path.slice(ROOT.length);
							const code = file === PREPARED ? builtEachTime(source) : mutatedSource(mutants, file, source);
							return code === undefined ? undefined : { code, map: null };
						},
					},
				],
				test: {
					...worker?.test,
					// A mutant may hang, which says nothing about it: not so long is waited for that as in the suite.
					testTimeout: 60_000,
					hookTimeout: 60_000,
					setupFiles: [`${ROOT}test/mutation/activate.ts`, ...[worker?.test?.setupFiles ?? []].flat()],
				},
			},
		],
	},
});
