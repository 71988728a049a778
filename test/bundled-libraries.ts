/**
 * Libraries of many files, each bundled into one as a deployment bundles them: workerd fetches the files anew for every test file, one
 * by one, and waits longer for them than for the tests.
 */
import { buildSync } from "esbuild";

const ROOT = new URL("..", import.meta.url).pathname;
const LIBRARIES = ["d3-scale", "d3-shape", "hono", "kysely", "valibot"];

/** For `resolve.alias`. */
export const bundledLibraries = LIBRARIES.map((name) => {
	const replacement = `${ROOT}dist/bundled/${name}.js`;
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
