/**
 * Lists that travel into a statement as one JSON parameter, cut so that each stays below half of D1's longest value of 2,000,000 bytes,
 * whatever devices send.
 */
const MOST_ROWS_A_STATEMENT = 1_000;
const MOST_BYTES_A_STATEMENT = 900_000;

export function chunksOf<Item>(items: readonly Item[]): Item[][] {
	return jsonChunks(items).map(({ items: chunk }) => chunk);
}

/** The same, with each chunk's JSON. */
export function jsonChunks<Item>(items: readonly Item[]): { readonly items: Item[]; readonly json: string }[] {
	const chunks: { items: Item[]; texts: string[] }[] = [];
	let bytes = 0;
	for (const item of items) {
		const text = JSON.stringify(item);
		const size = utf8Length(text) + 1;
		const last = chunks.at(-1);
		if (last === undefined || last.items.length >= MOST_ROWS_A_STATEMENT || bytes + size > MOST_BYTES_A_STATEMENT) {
			chunks.push({ items: [item], texts: [text] });
			bytes = size;
			continue;
		}
		last.items.push(item);
		last.texts.push(text);
		bytes += size;
	}
	return chunks.map(({ items: chunk, texts }) => ({ items: chunk, json: `[${texts.join()}]` }));
}

const encoder = new TextEncoder();
export const utf8Length = (text: string): number => encoder.encode(text).length;
