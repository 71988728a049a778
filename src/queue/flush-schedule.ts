/**
 * When buffered events are sent. Each request may ask for a flush; a later one that covers it takes
 * its place, so that few messages are sent, and one flush sends at a time.
 *
 * Work after an answer may end with its request at any time, so that no flush is counted on after
 * FLUSH_LIFETIME_MS.
 */
import type { Deps } from "../deps";
import { MINUTE_MS } from "../domain/time";

/** For what people wait for, and rollouts depend on. */
export const FLUSH_AFTER_MS = 1_000;
/**
 * Events that may wait are sent after this time without news: work after an answer may last 30
 * seconds, retries included.
 */
export const FLUSH_SEEN_AFTER_MS = 25_000;
const LONGEST_WAIT_MS = 3 * MINUTE_MS;
/**
 * Each request may postpone the flush. A timer per request is too expensive, so the flush is
 * postponed at most this often and may come this much early.
 */
const POSTPONE_EVERY_MS = 2_000;
const RETRY_AFTER_MS = [500, 1_000, 2_000];
/** A flush that is due, or sending, for so long has ended with its request. */
const FLUSH_LIFETIME_MS = 15_000;

export type WaitUntil = (work: Promise<unknown>) => void;

interface Flush {
	readonly dueAtMs: number;
	/** A later one may send the events instead. */
	readonly mayWait: boolean;
}

/** @param sendAll sends all that is buffered, and returns whether everything was sent */
export function createFlushSchedule(deps: Pick<Deps, "now" | "delay">, sendAll: () => Promise<boolean>) {
	let flushes: Flush[] = [];
	/** Since when the oldest event waits. */
	let waitingSinceMs = 0;
	let sendingSinceMs = Number.NEGATIVE_INFINITY;
	/** A flush came due while another one was sending. */
	let isDueAgain = false;

	/** Whether a later flush comes in time. One that is overdue ended with its request. */
	function isPostponed(): boolean {
		const [afterMs, untilMs] = [deps.now(), waitingSinceMs + LONGEST_WAIT_MS];
		return flushes.some(({ mayWait, dueAtMs }) => mayWait && dueAtMs > afterMs && dueAtMs <= untilMs);
	}

	async function sendWithRetries(): Promise<void> {
		for (let failures = 0; ; ) {
			isDueAgain = false;
			if (!(await sendAll())) {
				const retryAfterMs = RETRY_AFTER_MS[failures++];
				if (retryAfterMs === undefined) return;
				await deps.delay(retryAfterMs);
			} else if (!isDueAgain) return;
		}
	}

	async function run(flush: Flush, afterMs: number): Promise<void> {
		await deps.delay(afterMs);
		flushes = flushes.filter((other) => other !== flush);
		if (flush.mayWait && isPostponed()) return;
		if (deps.now() - sendingSinceMs < FLUSH_LIFETIME_MS) {
			isDueAgain = true;
			return;
		}
		sendingSinceMs = deps.now();
		await sendWithRetries();
		sendingSinceMs = Number.NEGATIVE_INFINITY;
	}

	return {
		/** Notes that the first event since the last flush begins to wait. */
		beginWaiting(): void {
			waitingSinceMs = deps.now();
		},

		/** Sees to a flush in `afterMs`, unless one that is due covers it. */
		schedule(waitUntil: WaitUntil, afterMs: number): void {
			const nowMs = deps.now();
			const flush = { dueAtMs: nowMs + afterMs, mayWait: afterMs > FLUSH_AFTER_MS };
			flushes = flushes.filter(({ dueAtMs }) => nowMs - dueAtMs < FLUSH_LIFETIME_MS);
			const isCovered = ({ dueAtMs, mayWait }: Flush) =>
				mayWait ? flush.mayWait && dueAtMs > flush.dueAtMs - POSTPONE_EVERY_MS : dueAtMs <= flush.dueAtMs;
			if (flushes.some(isCovered)) return;
			flushes.push(flush);
			waitUntil(run(flush, afterMs));
		},
	};
}
