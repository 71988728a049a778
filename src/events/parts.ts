/**
 * Lists that travel into a statement as one JSON parameter, cut so that each stays far below D1's longest value of 2,000,000 bytes.
 */
const MOST_ROWS_A_STATEMENT = 1_000;

export function partsOf<Item>(items: readonly Item[]): Item[][] {
	const parts: Item[][] = [];
	for (let index = 0; index < items.length; index += MOST_ROWS_A_STATEMENT) {
		parts.push(items.slice(index, index + MOST_ROWS_A_STATEMENT));
	}
	return parts;
}
