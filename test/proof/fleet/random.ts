/**
 * Seeded randomness: the same seed gives the same fleet. A stream is one number of state, so each
 * of a hundred thousand phones has its own stream, independent of the order in which phones are
 * served.
 */

export interface Stream {
	/** The state; 32 bits. */
	chance: number;
}

export function streamOf(seed: number, ...parts: readonly number[]): Stream {
	let state = seed >>> 0;
	for (const part of parts) state = Math.imul(state ^ (part + 0x9e3779b9), 0x85ebca6b) ^ (state >>> 13);
	return { chance: state >>> 0 };
}

/** From 0 to 1, exclusive (mulberry32). */
export function draw(stream: Stream): number {
	stream.chance = (stream.chance + 0x6d2b79f5) >>> 0;
	let mixed = stream.chance;
	mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
	mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
	return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
}

export function happens(stream: Stream, probability: number): boolean {
	return draw(stream) < probability;
}

/** An integer from 0 to the end, exclusive. */
export function below(stream: Stream, end: number): number {
	return Math.floor(draw(stream) * end);
}

export function oneOf<Item>(stream: Stream, items: readonly Item[]): Item {
	const item = items[below(stream, items.length)];
	if (item === undefined) throw new Error("nothing to choose from");
	return item;
}

export function uuidOf(stream: Stream): string {
	const hex = Array.from({ length: 4 }, () =>
		Math.floor(draw(stream) * 4_294_967_296)
			.toString(16)
			.padStart(8, "0"),
	).join("");
	const variant = "89ab"[Number.parseInt(hex.charAt(16), 16) % 4];
	return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20)}`;
}
