/**
 * The known word that a mistyped one probably means: words that differ in few letters are offered,
 * and none is guessed beyond that.
 */

const MOST_WRONG_LETTERS = 2;

/** The word that differs in the fewest letters, if it is close. */
export function nearest(word: string, known: readonly string[]): string | undefined {
	const distances = known.map((each) => [each, distance(word, each)] as const);
	const [best] = distances.sort(([, one], [, other]) => one - other);
	return best !== undefined && best[1] <= MOST_WRONG_LETTERS && best[1] < best[0].length - 1 ? best[0] : undefined;
}

/** Letters to add, remove or replace. */
function distance(one: string, other: string): number {
	let row = Array.from({ length: other.length + 1 }, (_, index) => index);
	for (const [index, letter] of [...one].entries()) {
		const next = [index + 1];
		for (const [at, otherLetter] of [...other].entries()) {
			const replaced = (row[at] ?? 0) + (letter === otherLetter ? 0 : 1);
			next.push(Math.min(replaced, (row[at + 1] ?? 0) + 1, (next[at] ?? 0) + 1));
		}
		row = next;
	}
	return row.at(-1) ?? 0;
}
