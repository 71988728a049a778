/**
 * The difference of two texts by lines, for people: removed and added lines with a little context.
 */

const CONTEXT_LINES = 2;

interface Line {
	readonly mark: " " | "-" | "+";
	readonly text: string;
}

export function lineDifference(before: string, after: string): string[] {
	const lines = compared(before === "" ? [] : before.split("\n"), after.split("\n"));
	const isNear = (at: number) =>
		lines.slice(Math.max(0, at - CONTEXT_LINES), at + CONTEXT_LINES + 1).some(({ mark }) => mark !== " ");
	const shown: string[] = [];
	for (const [at, { mark, text }] of lines.entries()) {
		if (isNear(at)) shown.push(`${mark} ${text}`);
		else if (at > 0 && isNear(at - 1)) shown.push("  …");
	}
	return shown;
}

/** Longest common subsequence between the equal beginning and end. */
function compared(before: readonly string[], after: readonly string[]): Line[] {
	let start = 0;
	while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
	let end = 0;
	while (end < before.length - start && end < after.length - start && before.at(-1 - end) === after.at(-1 - end))
		end += 1;
	const old = before.slice(start, before.length - end);
	const fresh = after.slice(start, after.length - end);
	const lengths = old.map(() => new Array<number>(fresh.length + 1).fill(0));
	lengths.push(new Array<number>(fresh.length + 1).fill(0));
	const common = (row: number, column: number) => lengths[row]?.[column] ?? 0;
	for (let row = old.length - 1; row >= 0; row--) {
		for (let column = fresh.length - 1; column >= 0; column--) {
			const target = lengths[row];
			if (target === undefined) continue;
			target[column] =
				old[row] === fresh[column]
					? common(row + 1, column + 1) + 1
					: Math.max(common(row + 1, column), common(row, column + 1));
		}
	}
	const same = (texts: readonly string[]) => texts.map((text): Line => ({ mark: " ", text }));
	const lines = same(before.slice(0, start));
	let row = 0;
	let column = 0;
	while (row < old.length || column < fresh.length) {
		const isSame = row < old.length && column < fresh.length && old[row] === fresh[column];
		if (isSame) {
			lines.push({ mark: " ", text: old[row] ?? "" });
			row += 1;
			column += 1;
		} else if (column >= fresh.length || (row < old.length && common(row + 1, column) >= common(row, column + 1))) {
			lines.push({ mark: "-", text: old[row] ?? "" });
			row += 1;
		} else {
			lines.push({ mark: "+", text: fresh[column] ?? "" });
			column += 1;
		}
	}
	return [...lines, ...same(before.slice(before.length - end))];
}
