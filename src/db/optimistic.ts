/**
 * Optimistic locking: each writer reads, computes, and writes guarded by what it has read. A writer
 * whose guard fails reads again.
 */
import { ApiError } from "../errors";

/** Then a Queue's batch is left to the Queue's retry, and a request fails. */
const MOST_ATTEMPTS = 5;

/** The rows are not as they were read, so nothing was written. */
export class Conflict extends Error {
	override readonly name = "Conflict";
}

export const conflict = () => new Conflict();

export async function retryOnConflict<Result>(readAndWrite: () => Promise<Result>): Promise<Result> {
	for (let attempt = 1; ; attempt++) {
		try {
			return await readAndWrite();
		} catch (error) {
			if (!(error instanceof Conflict) || attempt === MOST_ATTEMPTS) throw error;
		}
	}
}

/**
 * For requests about previews: repeats the write with what is there now if another request opened
 * or closed the preview in between. A client sees `preview_changed` only if that happens again and
 * again.
 */
export async function retryOnChange<Read, Result>(
	first: Read,
	readAgain: () => Promise<Read>,
	write: (read: Read) => Promise<Result>,
): Promise<Result> {
	let read = first;
	for (let attempt = 1; ; attempt++) {
		try {
			return await write(read);
		} catch (error) {
			if (!(error instanceof ApiError) || error.code !== "preview_changed" || attempt === MOST_ATTEMPTS) throw error;
		}
		read = await readAgain();
	}
}
