/** How the dashboard's lists group entries by day and fold equal ones. */
import { describe, expect, test } from "vitest";
import { foldByDay } from "../../dashboard/src/components/row-groups";

interface Entry {
	readonly at: string;
	readonly what: string;
}

const entry = (minutesAgo: number, what: string): Entry => ({
	at: new Date(new Date(2026, 10, 22, 13, 0).getTime() - minutesAgo * 60_000).toISOString(),
	what,
});

/** Rows of each day: what, and how often. */
const rowsOf = (entries: readonly Entry[]) =>
	foldByDay(
		entries,
		({ at }) => at,
		({ what }) => (what.startsWith("failure") ? undefined : what),
	).map(({ count, folds }) => [count, folds.map(({ newest, items }) => `${newest.what} x${items.length}`)]);

describe("foldByDay", () => {
	test("folds equal entries of an hour into the newest, across other entries", () => {
		expect(rowsOf([entry(0, "a"), entry(5, "b"), entry(60, "a"), entry(61, "a")])).toEqual([
			[4, ["a x2", "b x1", "a x1"]],
		]);
	});

	test("never folds entries without a key", () => {
		expect(rowsOf([entry(0, "failure"), entry(1, "failure")])).toEqual([[2, ["failure x1", "failure x1"]]]);
	});

	test("starts a new group for each local day, and never folds across its end", () => {
		const beforeMidnight = 13 * 60 + 10;
		expect(rowsOf([entry(beforeMidnight - 20, "a"), entry(beforeMidnight, "a"), entry(48 * 60, "a")])).toEqual([
			[1, ["a x1"]],
			[1, ["a x1"]],
			[1, ["a x1"]],
		]);
	});

	test("gives no group for no entries", () => {
		expect(rowsOf([])).toEqual([]);
	});
});
