/**
 * Lines of the comparison: the true number, the number that the product answered, and the allowed
 * distance. One line covers many numbers of a kind, such as every day of an app: each of them must
 * hold, and the line names those that do not.
 */

export interface Line {
	readonly metric: string;
	/** Numbers that were compared. */
	readonly compared: number;
	/** Their sums. */
	readonly truth: number;
	readonly answer: number;
	/** Largest distance that is allowed, as a share of the truth; 0 is exact. */
	readonly bound: number;
	/** The largest distance found, as a share of the truth. */
	readonly worst: number;
	readonly holds: boolean;
	/** The first few differences. */
	readonly differences: readonly string[];
}

export interface Pair {
	/** Names the number within its kind. */
	readonly of: string;
	readonly truth: number;
	/** Undefined when the answer has no such number. */
	readonly answer: number | undefined;
}

const SHOWN_DIFFERENCES = 5;
/** Counts of distinct devices are exact up to this number. */
const EXACT_UP_TO = 1_000;
const ESTIMATE_BOUND = 0.02;

/** Each pair must be equal. */
export function exactly(metric: string, pairs: readonly Pair[]): Line {
	return lineOf(metric, pairs, () => 0);
}

/** Exact up to a thousand and within 2 % above. */
export function distinctly(metric: string, pairs: readonly Pair[]): Line {
	return lineOf(metric, pairs, (truth) => (truth <= EXACT_UP_TO ? 0 : ESTIMATE_BOUND));
}

/** Each pair must be within the bound. */
export function within(metric: string, bound: number, pairs: readonly Pair[]): Line {
	return lineOf(metric, pairs, () => bound);
}

/** Pairs by metric. */
export type Pairs = Map<string, Pair[]>;

export function addPair(pairs: Pairs, metric: string, pair: Pair): void {
	const known = pairs.get(metric);
	if (known === undefined) pairs.set(metric, [pair]);
	else known.push(pair);
}

/** Node 20 has no Map.groupBy. */
export function groupBy<Item, Key>(items: readonly Item[], keyOf: (item: Item) => Key): Map<Key, Item[]> {
	const groups = new Map<Key, Item[]>();
	for (const item of items) {
		const key = keyOf(item);
		const group = groups.get(key);
		if (group === undefined) groups.set(key, [item]);
		else group.push(item);
	}
	return groups;
}

function lineOf(metric: string, pairs: readonly Pair[], boundFor: (truth: number) => number): Line {
	const distance = ({ truth, answer }: Pair) => {
		if (answer === undefined || !Number.isFinite(answer)) return Number.POSITIVE_INFINITY;
		if (truth === answer) return 0;
		return truth === 0 ? Number.POSITIVE_INFINITY : Math.abs(answer - truth) / truth;
	};
	const wrong = pairs.filter((pair) => distance(pair) > boundFor(pair.truth));
	return {
		metric,
		compared: pairs.length,
		truth: sum(pairs.map(({ truth }) => truth)),
		answer: sum(pairs.map(({ answer }) => answer ?? 0)),
		bound: Math.max(0, ...pairs.map(({ truth }) => boundFor(truth))),
		worst: Math.max(0, ...pairs.map(distance)),
		holds: wrong.length === 0,
		differences: [
			...wrong.slice(0, SHOWN_DIFFERENCES).map(({ of, truth, answer }) => `${of}: ${truth}, answered ${answer}`),
			...(wrong.length > SHOWN_DIFFERENCES ? [`and ${wrong.length - SHOWN_DIFFERENCES} more`] : []),
		],
	};
}

function sum(numbers: readonly number[]): number {
	return numbers.reduce((total, number) => total + number, 0);
}

/** The lines as a table of text. */
export function table(lines: readonly Line[]): string {
	const number = new Intl.NumberFormat("en");
	const percent = (share: number) => `${(share * 100).toFixed(2)} %`;
	const rows = [
		["metric", "numbers", "truth", "answer", "bound", "verdict"],
		...lines.map(({ metric, compared, truth, answer, bound, worst, holds }) => [
			metric,
			number.format(compared),
			number.format(truth),
			number.format(answer),
			bound === 0 ? "exact" : `${percent(bound)}, worst ${percent(worst)}`,
			holds ? "holds" : "DIFFERS",
		]),
	];
	const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
	const isNumber = (column: number) => column >= 1 && column <= 3;
	const text = rows.map((row) =>
		row
			.map((cell, column) => (isNumber(column) ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0)))
			.join("  ")
			.trimEnd(),
	);
	const rule = widths.map((width) => "-".repeat(width)).join("  ");
	const wrong = lines.flatMap(({ metric, differences }) =>
		differences.map((difference) => `  ${metric}: ${difference}`),
	);
	return [text[0], rule, ...text.slice(1), ...(wrong.length > 0 ? ["", "Differences:", ...wrong] : [])].join("\n");
}
