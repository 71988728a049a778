/**
 * Splits a list into the rows and bytes that one statement or message accepts.
 */

/** A JSON parameter stays below half of D1's longest value of 2,000,000 bytes. */
export const MOST_JSON_BYTES = 900_000;
const STATEMENT_LIMITS: Limits = { rows: 1_000, bytes: MOST_JSON_BYTES };

interface Limits {
	readonly rows?: number;
	readonly bytes: number;
}

/** Chunks in the order of the items. An item that exceeds the limit alone is a separate chunk. */
export function chunk<Item>(
	items: readonly Item[],
	bytesOf: (item: Item) => number,
	{ rows = Number.POSITIVE_INFINITY, bytes: mostBytes }: Limits,
): Item[][] {
	const chunks: Item[][] = [];
	let bytes = 0;
	for (const item of items) {
		const size = bytesOf(item);
		const last = chunks.at(-1);
		if (last === undefined || last.length >= rows || bytes + size > mostBytes) {
			chunks.push([item]);
			bytes = size;
		} else {
			last.push(item);
			bytes += size;
		}
	}
	return chunks;
}

/** Chunks whose JSON arrays are parameters of one statement each. */
export function jsonChunks<Item>(
	items: readonly Item[],
	limits = STATEMENT_LIMITS,
): { readonly items: Item[]; readonly json: string }[] {
	const texts = items.map((item) => ({ item, text: JSON.stringify(item) }));
	return chunk(texts, ({ text }) => utf8Length(text) + 1, limits).map((part) => ({
		items: part.map(({ item }) => item),
		json: `[${part.map(({ text }) => text).join()}]`,
	}));
}

/** The items of `jsonChunks`. */
export const chunksOf = <Item>(items: readonly Item[]): Item[][] => jsonChunks(items).map((part) => part.items);

const encoder = new TextEncoder();
export const utf8Length = (text: string): number => encoder.encode(text).length;
