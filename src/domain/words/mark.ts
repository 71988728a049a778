/**
 * The mark of Capstan: a capstan from the side, as one path in a drawing of 16 by 16. Every page,
 * the documentation and the dashboard draw it from here, so that it is the same everywhere.
 */
export const MARK =
	"M5 1h6a1.5 1.5 0 0 1 1.42 1H15a1 1 0 0 1 0 2h-2.58A1.5 1.5 0 0 1 11 5H5a1.5 1.5 0 0 1-1.42-1H1a1 1 0 0 1 0-2h2.58A1.5 1.5 0 0 1 5 1ZM4.6 6h6.8c-.9 1-1.3 1.9-1.3 2.8 0 1.2.8 2.2 2.4 3.2h-9c1.6-1 2.4-2 2.4-3.2 0-.9-.4-1.8-1.3-2.8ZM3 13h10a1 1 0 0 1 0 2H3a1 1 0 0 1 0-2Z";

/** In files of pages, which the build completes. */
const PLACE = "{{mark}}";

export function withMark(page: string): string {
	if (!page.includes(PLACE)) throw new Error(`a page has no place for the mark: ${PLACE}`);
	return page.replaceAll(PLACE, MARK);
}
