/**
 * Runs before each test file: turns on the mutant that the run is about. A run about none tells which mutants the file comes by, and
 * sweeps over those that it is given.
 */
import { afterAll, beforeAll, inject } from "vitest";
import { sweepTests } from "./sweep";
import { activate, reachedMutants } from "./switch";

const { mutant, sweep } = inject("order");
activate(mutant);
if (mutant === 0) afterAll(() => console.log(`reached mutants: ${reachedMutants().join(",")}`));
if (sweep !== undefined) {
	// biome-ignore lint/correctness/noEmptyPattern: vitest hands out the suite second, behind what it gives by name
	beforeAll(({}, suite) => sweepTests(suite, new Set(sweep.mutants), sweep.longestMsOfTest));
}
