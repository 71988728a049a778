/**
 * Optimistic locking of requests about previews: the write is guarded by what was read, and is repeated with what is there now when another
 * request opened or closed the preview in between. A client sees `preview_changed` only if that happens again and again.
 */
import { ApiError } from "../../errors";

const MOST_ATTEMPTS = 5;

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
