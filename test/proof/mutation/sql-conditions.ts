/**
 * Locates the conditions in a piece of SQL: the text after WHERE, ON and HAVING, split at AND, at
 * OR, and in parentheses. This is not a full SQL parser; the tests run the statements themselves.
 */

export interface Range {
	readonly start: number;
	readonly end: number;
}

export interface BoolPart extends Range {
	/** The replacement that removes the condition: true beside AND, false beside OR. */
	readonly becomes: "true" | "false";
	readonly depth: number;
}

interface Token extends Range {
	readonly text: string;
	readonly depth: number;
}

/** Keywords that end a clause at the same nesting level. */
const ENDS = new Set(
	"WHERE GROUP ORDER LIMIT UNION INNER LEFT JOIN CROSS HAVING RETURNING WINDOW SET VALUES ON THEN ELSE END AS".split(
		" ",
	),
);

function tokensOf(text: string): Token[] {
	const tokens: Token[] = [];
	let depth = 0;
	for (const match of text.matchAll(/'(?:[^']|'')*'|\?+|\w[\w.]*|[()]|[^\s\w]/g)) {
		if (match[0] === ")") depth -= 1;
		tokens.push({ text: match[0].toUpperCase(), depth, start: match.index, end: match.index + match[0].length });
		if (match[0] === "(") depth += 1;
	}
	return tokens;
}

/** The conditions of the text, each whole: between WHERE, ON or HAVING and what ends it. */
export function clauses(text: string): Range[] {
	const tokens = tokensOf(text);
	return tokens.flatMap((token, index) => {
		if (!["WHERE", "ON", "HAVING"].includes(token.text) || tokens[index + 1]?.text === "CONFLICT") return [];
		const rest = tokens.slice(index + 1);
		const end = rest.findIndex(
			(other) =>
				other.depth < token.depth || (other.depth === token.depth && (ENDS.has(other.text) || other.text === ",")),
		);
		const inside = end === -1 ? rest : rest.slice(0, end);
		const [first, last] = [inside[0], inside.at(-1)];
		return first === undefined || last === undefined ? [] : [{ start: first.start, end: last.end }];
	});
}

/** The parts of a condition that can be taken away one at a time. */
export function boolParts(text: string, range: Range, depth = 0): BoolPart[] {
	const tokens = tokensOf(text.slice(0, range.end)).filter(({ start }) => start >= range.start);
	const level = tokens[0]?.depth ?? 0;
	const alternatives = split(tokens, "OR", level);
	if (alternatives.length > 1) {
		return alternatives.flatMap((tokensOfOne): BoolPart[] => {
			const one = rangeOf(tokensOfOne);
			return [{ ...one, becomes: "false", depth }, ...insideOf(text, tokensOfOne, depth + 1)];
		});
	}
	return split(tokens, "AND", level).flatMap((tokensOfOne): BoolPart[] => [
		{ ...rangeOf(tokensOfOne), becomes: "true", depth },
		...insideOf(text, tokensOfOne, depth + 1),
	]);
}

/** The parts of what stands in parentheses, and of alternatives that are conjunctions. */
function insideOf(text: string, tokens: readonly Token[], depth: number): BoolPart[] {
	const level = tokens[0]?.depth ?? 0;
	if (split(tokens, "AND", level).length > 1) return boolParts(text, rangeOf(tokens), depth);
	const start = tokens[0]?.text === "NOT" ? 1 : 0;
	const inner = tokens.slice(start + 1, -1);
	const isGroup =
		tokens[start]?.text === "(" && tokens.at(-1)?.text === ")" && inner.every((token) => token.depth > level);
	if (!isGroup || inner[0]?.text === "SELECT") return [];
	const range = rangeOf(inner);
	const parts = boolParts(text, range, depth);
	return parts.length > 1 ? parts : [];
}

function split(tokens: readonly Token[], word: "AND" | "OR", level: number): Token[][] {
	const parts: Token[][] = [[]];
	let between = false;
	for (const token of tokens) {
		if (token.depth === level && token.text === "BETWEEN") between = true;
		if (token.depth === level && token.text === word) {
			if (between && word === "AND") between = false;
			else {
				parts.push([]);
				continue;
			}
		}
		parts.at(-1)?.push(token);
	}
	return parts.filter((part) => part.length > 0);
}

function rangeOf(tokens: readonly Token[]): Range {
	return { start: tokens[0]?.start ?? 0, end: tokens.at(-1)?.end ?? 0 };
}
