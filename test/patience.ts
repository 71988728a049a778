/**
 * How long a test waits for one thing that must happen: an element of a page, an event of a client,
 * an answer. A loaded machine is no defect, so this only ends what hangs, and names it; how soon
 * something comes, no test may depend on.
 */
export const PATIENCE_MS = 60_000;
