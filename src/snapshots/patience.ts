/**
 * How long one check waits for the database while it has something to answer from: once, for `PATIENCE_MS`. After a wait in vain, and while the
 * database is known not to answer, the check waits for nothing more.
 */
import { ApiError } from "../errors";
import { PATIENCE_MS } from "./freshness";

export const LATE = "late";

interface Clock {
	readonly deadline: (ms: number) => Promise<void>;
}

export async function within<Value>(
	{ deadline }: Clock,
	ms: number,
	work: Promise<Value>,
): Promise<Value | typeof LATE> {
	return Promise.race([work, deadline(ms).then((): typeof LATE => LATE)]);
}

export interface Patience {
	/** The value of the work, if it arrives in time. The work goes on. */
	wait<Value>(work: Promise<Value>): Promise<Value | typeof LATE>;
	/** The same for work that is not begun in vain; a database that does not answer is late. */
	attempt<Value>(begin: () => Promise<Value>): Promise<Value | typeof LATE>;
}

/** @param isPaused whether the database is known not to answer */
export function createPatience(
	clock: Clock,
	isPaused: () => boolean,
	waitUntil: (work: Promise<unknown>) => void,
): Patience {
	let hasWaited = false;
	/** Nothing more is waited for. */
	const isSpent = () => hasWaited || isPaused();

	async function wait<Value>(work: Promise<Value>): Promise<Value | typeof LATE> {
		const value = await within(clock, isSpent() ? 0 : PATIENCE_MS, work);
		if (value === LATE) hasWaited = true;
		return value;
	}

	return {
		wait,
		async attempt(begin) {
			if (isSpent()) return LATE;
			const work = begin();
			waitUntil(work.catch(() => undefined));
			try {
				return await wait(work);
			} catch (error) {
				if (error instanceof ApiError && error.code === "service_unavailable") return LATE;
				throw error;
			}
		},
	};
}
