/**
 * A database with a bound on the batches that wait for it in this isolate. D1 runs one at a time,
 * so beyond the bound a further one would wait for seconds and make all others wait longer. It is
 * refused before it is sent: nothing has happened, and the answer says when to try again.
 *
 * A batch of a client that hangs up may never end, because the runtime drops it, so it is counted
 * for a limited time only.
 */
import { overloaded } from "../errors";

/** D1 runs as many short batches in about a second. */
const MOST_WAITING = 300;
/** Longer than D1 lets a batch wait. */
const FORGOTTEN_AFTER_MS = 30_000;

/**
 * One per isolate and database. Its sessions throw `service_unavailable` for a batch beyond the
 * bound.
 */
export function boundedDatabase(d1: D1Database, now: () => number): D1Database {
	/** By the time at which it was sent, the oldest first. */
	const waiting = new Map<symbol, number>();

	function enter(): symbol {
		const nowMs = now();
		if (waiting.size >= MOST_WAITING) {
			for (const [batch, sentAtMs] of waiting) {
				if (nowMs - sentAtMs < FORGOTTEN_AFTER_MS) break;
				waiting.delete(batch);
			}
			if (waiting.size >= MOST_WAITING) throw overloaded();
		}
		const batch = Symbol();
		waiting.set(batch, nowMs);
		return batch;
	}

	const bounded: Pick<D1Database, "withSession"> = {
		withSession(constraint) {
			const session = d1.withSession(constraint);
			return {
				prepare: (text) => session.prepare(text),
				getBookmark: () => session.getBookmark(),
				async batch<Row>(statements: D1PreparedStatement[]) {
					const batch = enter();
					try {
						return await session.batch<Row>(statements);
					} finally {
						waiting.delete(batch);
					}
				},
			} as D1DatabaseSession;
		},
	};
	return bounded as D1Database;
}
