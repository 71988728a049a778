/** Names that a person may have meant, by the pairs of letters that two names share. Pure. */
export interface Named {
	readonly name: string;
	readonly to: string;
}

const MOST_NAMED = 3;
/** A share of the pairs of both names. */
const LEAST_SHARED = 0.5;

function pairsOf(text: string): string[] {
	const letters = [...` ${text.toLowerCase()} `];
	return letters.slice(1).map((letter, index) => `${letters[index]}${letter}`);
}

/** The share of pairs that both have: 1 for equal names, 0 for names without a common pair. */
export function likeness(one: string, other: string): number {
	const [left, right] = [pairsOf(one), pairsOf(other)];
	const rest = [...right];
	const shared = left.filter((pair) => {
		const at = rest.indexOf(pair);
		if (at !== -1) rest.splice(at, 1);
		return at !== -1;
	}).length;
	return (2 * shared) / (left.length + right.length);
}

export function nearest(wanted: string, names: readonly Named[]): readonly Named[] {
	const found = names
		.map((named) => ({ named, like: likeness(wanted, named.name) }))
		.filter(({ like }) => like >= LEAST_SHARED)
		.sort((one, other) => other.like - one.like)
		.map(({ named }) => named);
	// One thing may have two names.
	return found.filter(({ to }, index) => found.findIndex((other) => other.to === to) === index).slice(0, MOST_NAMED);
}
