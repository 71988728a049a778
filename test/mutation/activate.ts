/**
 * Runs before each test file: turns on the mutant that the run is about. A run about none tells which mutants the file comes by.
 */
import { afterAll, inject } from "vitest";
import { activate, reachedMutants } from "./switch";

const mutant = inject("mutant");
activate(mutant);
if (mutant === 0) afterAll(() => console.log(`reached mutants: ${reachedMutants().join(",")}`));
