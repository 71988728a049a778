/** The canaries in plain Node, with the same switch as the tests of the product. */
import { defineConfig } from "vitest/config";
import { ROOT } from "../mutants";

export default defineConfig({
	test: {
		root: ROOT,
		include: ["test/proof/mutation/canary/*.test.ts"],
		setupFiles: [`${ROOT}test/proof/mutation/activate.ts`],
		// One of them waits for ever; the others must not run out of it, however loaded the machine is.
		testTimeout: 2_000,
		hookTimeout: 2_000,
	},
});
