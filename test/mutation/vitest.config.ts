/** The tests in workerd, on sources that hold every mutant behind a switch. */
import { defineConfig, type TestProjectInlineConfiguration } from "vitest/config";
import base from "../vitest.config";
import { allMutants, mutatedSource, ROOT } from "./mutants";

const mutants = allMutants();
const [worker] = (base.test?.projects ?? []) as TestProjectInlineConfiguration[];

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
							const code = mutatedSource(mutants, path.slice(ROOT.length), source);
							return code === undefined ? undefined : { code, map: null };
						},
					},
				],
				test: {
					...worker?.test,
					setupFiles: [`${ROOT}test/mutation/activate.ts`, ...[worker?.test?.setupFiles ?? []].flat()],
				},
			},
		],
	},
});
