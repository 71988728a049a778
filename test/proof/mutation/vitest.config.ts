/** The projects `unit` and `worker`, on sources that hold every mutant behind a switch. */
import { defineConfig, type TestProjectInlineConfiguration } from "vitest/config";
import base from "../../vitest.config";
import { allMutants, mutatedSource, ROOT } from "./mutants";

const mutants = allMutants();
const projects = ((base.test?.projects ?? []) as TestProjectInlineConfiguration[]).filter(({ test }) =>
	["unit", "worker"].includes(String(test?.name)),
);

/** Caches compiled statements, which would keep the mutant of the first run. */
const PREPARED = "src/db/prepared.ts";

function builtEachTime(source: string): string {
	const code = source.replace("compiled ??= build(", "compiled = build(");
	if (code === source) throw new Error(`${PREPARED} changed; its cache must be off here`);
	return code;
}

const plugin = {
	name: "mutants",
	enforce: "pre" as const,
	transform(source: string, id: string) {
		const path = id.split("?")[0] ?? "";
		if (!path.startsWith(`${ROOT}src/`)) return undefined;
		const file = path.slice(ROOT.length);
		const code = file === PREPARED ? builtEachTime(source) : mutatedSource(mutants, file, source);
		return code === undefined ? undefined : { code, map: null };
	},
};

export default defineConfig({
	test: {
		projects: projects.map((project) => ({
			...project,
			plugins: [...(project.plugins ?? []), plugin],
			test: {
				...project.test,
				// A mutant may hang, which proves nothing, so it gets less time than the tests of the suite.
				testTimeout: 60_000,
				hookTimeout: 60_000,
				setupFiles: [`${ROOT}test/proof/mutation/activate.ts`, ...[project.test?.setupFiles ?? []].flat()],
			},
		})),
	},
});
