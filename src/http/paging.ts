/**
 * Paging of lists: `page` counts from 0, a page holds 50 items by default, and `Link: rel="next"`
 * exists while more follow. One extra row is read to know that. The last page has the number of
 * items in `X-Total-Count`. A page past the end is an empty list.
 */
import { Reply } from "./endpoint";
import { PAGE_SIZE } from "./schemas";

/** LIMIT and OFFSET of a page, including the extra row. */
export function pageBounds(page: number, size = PAGE_SIZE): { limit: number; offset: number } {
	return { limit: size + 1, offset: page * size };
}

/** The answer for the rows of a page. */
export function pageReply<Row, Item>(
	context: { readonly request: Request; readonly origin: string },
	page: number,
	rows: readonly Row[],
	item: (row: Row) => Item,
	size = PAGE_SIZE,
): Reply<Item[]> {
	const items = rows.slice(0, size).map(item);
	if (rows.length <= size) {
		// The last page says how long the list is, without counting it. A page past the end does not
		// know.
		const total = page === 0 || items.length > 0 ? { "X-Total-Count": String(page * size + items.length) } : {};
		return new Reply(200, items, total);
	}
	const { pathname, searchParams } = new URL(context.request.url);
	searchParams.set("page", String(page + 1));
	if (size !== PAGE_SIZE) searchParams.set("limit", String(size));
	return new Reply(200, items, { Link: `<${context.origin}${pathname}?${searchParams}>; rel="next"` });
}
