/**
 * Optimistic locking for consumers that write the same rows: each reads, computes, and writes guarded by what it has read. A consumer whose
 * guard fails reads again.
 */

/** After this many attempts the batch is left to the Queue's retry. */
const MOST_ATTEMPTS = 5;

/** The rows are not as they were read, so nothing was written. */
export class Conflict extends Error {
	override readonly name = "Conflict";
}

export const conflict = () => new Conflict();

export async function retryOnConflict(readAndWrite: () => Promise<void>): Promise<void> {
	for (let attempt = 1; ; attempt++) {
		try {
			await readAndWrite();
			return;
		} catch (error) {
			if (!(error instanceof Conflict) || attempt === MOST_ATTEMPTS) throw error;
		}
	}
}
