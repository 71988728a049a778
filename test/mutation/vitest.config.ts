/** The tests in workerd, on sources that hold every mutant behind a switch. */
import { buildSync } from "esbuild";
import { defineConfig, type TestProjectInlineConfiguration } from "vitest/config";
import base from "../vitest.config";
import { allMutants, mutatedSource, ROOT } from "./mutants";

const mutants = allMutants();
/** Libraries of many files, each bundled into one: workerd fetches them anew for every test file, one by one. */
const BUNDLED = ["hono", "kysely", "valibot"];
const alias = BUNDLED.map((name) => {
	const replacement = `${ROOT}dist/mutation/${name}.js`;
	buildSync({
		stdin: { contents: `export * from "${name}";`, resolveDir: ROOT },
		outfile: replacement,
		bundle: true,
		format: "esm",
		platform: "neutral",
		mainFields: ["module", "main"],
		conditions: ["workerd", "worker", "import"],
	});
	return { find: new RegExp(`^${name}$`), replacement };
});

const [worker] = (base.test?.projects ?? []) as TestProjectInlineConfiguration[];

export default defineConfig({
	test: {
		projects: [
			{
				...worker,
				resolve: { alias },
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
