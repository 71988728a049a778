/**
 * Build scripts as text, without executing them: comments removed, strings found, statements cut.
 * Every function keeps the positions, so that messages can name the line.
 */

export interface Syntax {
	/** Text from a mark to the end of its line. */
	readonly line: RegExp;
	readonly block: { readonly start: string; readonly end: string; readonly nests: boolean } | undefined;
	/** Quotes, the longest first. */
	readonly quotes: readonly string[];
}

const C_BLOCK = { start: "/*", end: "*/" };
const NO_LINE_COMMENT = /(?!)/y;
export const GROOVY: Syntax = {
	line: /\/\/[^\n]*/y,
	block: { ...C_BLOCK, nests: false },
	quotes: ['"""', "'''", '"', "'"],
};
export const KOTLIN: Syntax = { ...GROOVY, block: { ...C_BLOCK, nests: true }, quotes: ['"""', '"'] };
export const JSON_WITH_COMMENTS: Syntax = { ...GROOVY, quotes: ['"'] };
export const PBXPROJ: Syntax = { ...GROOVY, quotes: ['"'] };
export const XCCONFIG: Syntax = { line: /\/\/[^\n]*/y, block: undefined, quotes: [] };
export const XML: Syntax = { line: NO_LINE_COMMENT, block: { start: "<!--", end: "-->", nests: false }, quotes: [] };
export const PROPERTIES: Syntax = { line: /(?<=^[ \t]*)[#!][^\n]*/my, block: undefined, quotes: [] };
export const TOML: Syntax = { line: /#[^\n]*/y, block: undefined, quotes: ['"""', "'''", '"', "'"] };

export interface Source {
	/** Without comments. */
	readonly code: string;
	/** Also without the content of strings. */
	readonly bare: string;
}

const blank = (text: string) => text.replace(/[^\n]/g, " ");

export function sourceOf(text: string, { line, block, quotes }: Syntax): Source {
	let code = "";
	let bare = "";
	const add = (end: number, isComment: boolean, hidden: (part: string) => string) => {
		const part = text.slice(at, end);
		code += isComment ? blank(part) : part;
		bare += isComment ? blank(part) : hidden(part);
		at = end;
	};
	let at = 0;
	while (at < text.length) {
		line.lastIndex = at;
		const comment = line.exec(text);
		const quote = quotes.find((each) => text.startsWith(each, at));
		if (comment !== null) add(at + comment[0].length, true, blank);
		else if (block !== undefined && text.startsWith(block.start, at)) add(endOfBlock(text, at, block), true, blank);
		else if (quote !== undefined) {
			add(endOfString(text, at, quote), false, (part) => `${quote[0]}${blank(part.slice(1, -1))}${part.at(-1)}`);
		} else add(at + 1, false, (part) => part);
	}
	return { code, bare };
}

function endOfBlock(text: string, start: number, block: NonNullable<Syntax["block"]>): number {
	let depth = 1;
	let at = start + block.start.length;
	for (; at < text.length && depth > 0; ) {
		if (text.startsWith(block.end, at)) {
			depth -= 1;
			at += block.end.length;
		} else if (block.nests && text.startsWith(block.start, at)) {
			depth += 1;
			at += block.start.length;
		} else at += 1;
	}
	return at;
}

/** A string with one quote ends at the end of the line at the latest. */
function endOfString(text: string, start: number, quote: string): number {
	let at = start + quote.length;
	for (; at < text.length; at++) {
		if (text.startsWith(quote, at)) return at + quote.length;
		if (text[at] === "\\") at += 1;
		else if (text[at] === "\n" && quote.length === 1) return at;
	}
	return text.length;
}

export const lineAt = (text: string, index: number) => text.slice(0, index).split("\n").length;

/**
 * The end of the expression that starts at the index: the end of the line or the block, unless an
 * operator continues it.
 */
export function endOfExpression(bare: string, start: number): number {
	let depth = 0;
	for (let at = start; at < bare.length; at++) {
		const character = bare[at] ?? "";
		if ("([{".includes(character)) depth += 1;
		if (")]}".includes(character)) depth -= 1;
		if (depth < 0) return at;
		if (depth > 0) continue;
		if (character === ";") return at;
		if (character !== "\n") continue;
		const continues = /(?:^\s*|[=+?:.(]\s*|\belse\s*)$/.test(bare.slice(start, at));
		if (!continues && !/^\s*(?:\?|\+|\.|:|else\b)/.test(bare.slice(at))) return at;
	}
	return bare.length;
}

/** Splits at a separator outside of strings and brackets. */
export function splitAt(code: string, bare: string, separator: RegExp): string[] {
	const parts: string[] = [];
	let depth = 0;
	let from = 0;
	for (let at = 0; at < bare.length; at++) {
		const character = bare[at] ?? "";
		if ("([{".includes(character)) depth += 1;
		if (")]}".includes(character)) depth -= 1;
		if (depth !== 0) continue;
		separator.lastIndex = at;
		const match = separator.exec(bare);
		if (match === null) continue;
		parts.push(code.slice(from, at));
		from = at + match[0].length;
		at = from - 1;
	}
	return [...parts, code.slice(from)];
}
