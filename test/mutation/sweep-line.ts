/**
 * How a sweep tells the process that runs the tests what became of them: lines that it logs. Both sides read here what they say.
 */

/** Stands before the mutant's number; the test and what it said come after it. */
export const CAUGHT = "caught mutant";

/** The line of a test that does not hold after the sweep of those before it: what it comes by is not known from this run. */
export const BROKEN = "a test was not swept";

/** The line of a test that had no time for all mutants that it comes by. */
export const CUT_SHORT = "a test was not asked about all";
