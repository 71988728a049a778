/**
 * Groups the entries of a list by day and folds equal ones. Entries come newest first. A fold never
 * crosses the end of a day, and holds entries of at most an hour; the caller gives failures no key,
 * so that none is hidden.
 */
import { HOUR_MS } from "../../../src/domain/time";

/** One row: an entry, or several that are shown as one. */
interface Fold<Item> {
	readonly newest: Item;
	/** Newest first, `newest` included. */
	readonly items: readonly Item[];
}

interface DayOfRows<Item> {
	/** The newest time of the day. */
	readonly at: string;
	readonly folds: readonly Fold<Item>[];
	/** Entries, folded ones included. */
	readonly count: number;
}

/** The same text for times of one day in the reader's zone. */
const localDay = (at: string) => new Date(at).toDateString();

export function foldByDay<Item>(
	items: readonly Item[],
	atOf: (item: Item) => string,
	/** The same key for entries that fold; undefined: never. */
	keyOf: (item: Item) => string | undefined,
): readonly DayOfRows<Item>[] {
	const days: { at: string; folds: { newest: Item; items: Item[] }[]; count: number }[] = [];
	let open = new Map<string, { newest: Item; items: Item[] }>();
	for (const item of items) {
		const at = atOf(item);
		let day = days.at(-1);
		if (day === undefined || localDay(day.at) !== localDay(at)) {
			day = { at, folds: [], count: 0 };
			days.push(day);
			open = new Map();
		}
		day.count++;
		const key = keyOf(item);
		const fold = key === undefined ? undefined : open.get(key);
		if (fold !== undefined && Date.parse(atOf(fold.newest)) - Date.parse(at) <= HOUR_MS) {
			fold.items.push(item);
			continue;
		}
		const started = { newest: item, items: [item] };
		day.folds.push(started);
		if (key !== undefined) open.set(key, started);
	}
	return days;
}
