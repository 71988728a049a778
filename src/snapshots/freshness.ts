/**
 * How old the caches of an isolate may be, and how long a request waits for the database. A check
 * has one deadline, a number, which it decides when it begins (`SnapshotCache.deadline`); each of
 * its waits for D1 is a race with that number, so they never add up. After it, the check reads the
 * stored snapshot, for which it waits three quarters of a second; only an app that is nowhere else
 * waits for D1 as long as that takes.
 */

/** Age up to which caches are used without asking. */
export const FRESH_MS = 2_000;
/** Age from which on a request waits for the feed. */
export const STALE_MS = 4_000;
/** Age from which on an answer states the age of its snapshot: the database does not answer. */
export const REPORTED_AGE_MS = 5_000;
/** Longest wait of a request for the database while there is something to answer from. */
export const MOST_WAIT_MS = 500;
/**
 * The same for a check of an app that is not in memory: a slow answer of D1 is newer than the app's
 * last stored snapshot.
 */
export const COLD_WAIT_MS = 2_000;
/** Longest wait of a check for a stored snapshot, after the database did not answer. */
export const STORED_WAIT_MS = 750;

const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 15_000;

/** The outcome of a wait whose deadline has passed. The work goes on. */
export const LATE = "late";

export interface Clock {
	readonly now: () => number;
	readonly deadline: (ms: number) => Promise<void>;
}

/** A request that waits for the database. */
export interface Waiter {
	/** Keeps work alive after the client hung up. */
	readonly waitUntil: (work: Promise<unknown>) => void;
	/**
	 * Epoch milliseconds; undefined: the request waits for as long as the database takes, because it
	 * may not use an old answer.
	 */
	readonly deadlineMs?: number | undefined;
}

/** The value of the work, unless the deadline passes first. */
export async function before<Value>(
	{ now, deadline }: Clock,
	deadlineMs: number | undefined,
	work: Promise<Value>,
): Promise<Value | typeof LATE> {
	if (deadlineMs === undefined) return work;
	return Promise.race([work, deadline(Math.max(0, deadlineMs - now())).then((): typeof LATE => LATE)]);
}

/** Pauses after failures, which double with each further one. */
export class Backoff {
	#failures = 0;
	#untilMs = Number.NEGATIVE_INFINITY;

	isPaused(nowMs: number): boolean {
		return nowMs < this.#untilMs;
	}

	fail(nowMs: number): void {
		if (this.isPaused(nowMs)) return;
		this.#untilMs = nowMs + Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#failures);
		this.#failures += 1;
	}

	/** Ends the pause, but the next failure counts on. */
	retry(): void {
		this.#untilMs = Number.NEGATIVE_INFINITY;
	}

	succeed(): void {
		this.#failures = 0;
		this.retry();
	}
}
