/**
 * Runs before each test file: switches on the mutant of the run. A run without a mutant reports
 * which mutants the file reaches.
 */
import { afterAll, inject } from "vitest";
import { activate, reachedMutants } from "./switch";

const { mutant } = inject("order");
activate(mutant);
if (mutant === 0) afterAll(() => console.log(`reached mutants: ${reachedMutants().join(",")}`));
