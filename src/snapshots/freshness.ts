/**
 * How old the caches of an isolate may be, and how long a request waits for the database. The change feed, the snapshots and the set of live
 * apps agree, because what a device sees follows from all of them.
 */

/** Age up to which caches are used without asking. */
export const FRESH_MS = 2_000;
/** Age from which on a request waits for the feed. */
export const STALE_MS = 4_000;
/** Longest wait of a request for the database while there is something to answer from. */
export const PATIENCE_MS = 500;

const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 15_000;

/** Pause after a failure of the database, before it is asked again; it doubles with each further one. */
export function pauseAfterMs(failures: number): number {
	return Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (failures - 1));
}
