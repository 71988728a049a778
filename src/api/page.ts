/**
 * Paging of lists: `page` counts from 0, a page holds 50 items unless the list says otherwise, `Link: rel="next"` says that more follow. One row more than a page is
 * read to know that, and a page past the end is an empty list.
 */
import { Reply } from "./endpoint";
import { PAGE_SIZE } from "./schemas";

/** LIMIT and OFFSET of a page, with one row more than is shown. */
export function pageBounds(page: number, size = PAGE_SIZE): { limit: number; offset: number } {
	return { limit: size + 1, offset: page * size };
}

/** The rows of the page as an answer. */
export function pageReply<Row, Item>(
	context: { readonly request: Request; readonly origin: string },
	page: number,
	rows: readonly Row[],
	item: (row: Row) => Item,
	size = PAGE_SIZE,
): Reply<Item[]> {
	const items = rows.slice(0, size).map(item);
	if (rows.length <= size) return new Reply(200, items);
	const { pathname, searchParams } = new URL(context.request.url);
	searchParams.set("page", String(page + 1));
	if (size !== PAGE_SIZE) searchParams.set("limit", String(size));
	return new Reply(200, items, { Link: `<${context.origin}${pathname}?${searchParams}>; rel="next"` });
}
