/**
 * Two consumers that write the same rows take turns: each reads, works out what to write, and writes it guarded by what it has read. The
 * one that was overtaken begins again with what the other left.
 */

/** Who never gets a turn leaves the batch to the Queue's retry. */
const MOST_ATTEMPTS = 5;

/** What was read is not what stands any more; nothing was written. */
export class Overtaken extends Error {
	override readonly name = "Overtaken";
}

export async function inTurns(readAndWrite: () => Promise<void>): Promise<void> {
	for (let attempt = 1; ; attempt++) {
		try {
			await readAndWrite();
			return;
		} catch (error) {
			if (!(error instanceof Overtaken) || attempt === MOST_ATTEMPTS) throw error;
		}
	}
}
