/**
 * The chunks of a body whose bytes are kept in memory, until nothing of it arrives for half a
 * minute: a slow sender goes on, and a silent one holds no memory. Another request that needs the
 * memory ends it earlier (memory.ts).
 */
import type { Holding } from "./memory";

/** A connection that lives sends something within it. */
export const SILENCE_MS = 30_000;

/** Another request needed the memory. */
export class BodyEnded extends Error {
	override readonly name = "BodyEnded";
}

/**
 * @param deadline resolves after the given time
 * @param mostPeriods how often the silence may be waited for: the body's lifetime
 * @throws {Error} after the silence or the lifetime, or `BodyEnded`; the rest of the body is
 * cancelled
 */
export async function* untilSilent(
	body: ReadableStream<Uint8Array>,
	deadline: (ms: number) => Promise<void>,
	{ untilNeeded, arrived }: Pick<Holding, "untilNeeded" | "arrived">,
	mostPeriods = Number.POSITIVE_INFINITY,
): AsyncGenerator<Uint8Array> {
	const reader = body.getReader();
	let chunks = 0;
	let isOver = false;
	// One timer for all chunks, so silence is noticed after one to two periods.
	async function silence(): Promise<undefined> {
		for (let period = 0; period < mostPeriods && !isOver; period += 1) {
			const before = chunks;
			await deadline(SILENCE_MS);
			if (chunks === before) return;
		}
	}
	const silent = silence();
	const needed = untilNeeded().then(() => {
		throw new BodyEnded();
	});
	needed.catch(() => undefined);
	try {
		while (true) {
			const read = await Promise.race([reader.read(), silent, needed]);
			if (read === undefined) throw new Error("the body is silent or too slow");
			if (read.done) {
				arrived();
				return;
			}
			chunks += 1;
			yield read.value;
		}
	} finally {
		isOver = true;
		// Also where the reader stops early; a body that has ended ignores it.
		reader.cancel().catch(() => undefined);
	}
}
