/**
 * How the search of /docs ranks places: pure, so that the page and a table of real queries share
 * it. A title counts more than a heading and a heading more than text; a whole word more than the
 * beginning of one, and that more than a part. Every word must be found, apart from small words;
 * only if no place has them all, the places with most of them are shown.
 */
export interface SearchEntry {
	/** Title of the page. */
	readonly page: string;
	/** Heading of the section; the title of the page for its beginning. */
	readonly title: string;
	readonly to: string;
	/** The different words of the text and the code, in lower case, between single spaces. */
	readonly words: string;
}

const LEAST_PART = 3;
/**
 * They need not be found, and decide only between places that are equal otherwise: "not updating",
 * "first update".
 */
const SMALL = new Set(
	[
		"a an and are as at be by can could do does for from get has have how i if in is it its me my not no",
		"of on or our should that the this to we what when where which why will with you your",
	].flatMap((line) => line.split(" ")),
);
const ENDINGS = /(?:ings?|ions?|ers?|ed|es|e|s)$/;

/**
 * Words of a text; a name such as `notifyAppReady` or `allow_device_self_set` counts whole and in
 * its parts.
 */
export function wordsOf(text: string): string[] {
	const whole = text.match(/[\p{L}\p{N}][\p{L}\p{N}_]*/gu) ?? [];
	const parts = whole.flatMap((word) => [word, ...word.split(/_|(?<=[a-z0-9])(?=[A-Z])/)]);
	return [...new Set(parts.map((word) => word.toLowerCase()).filter(Boolean))];
}

/** The part of a word that its forms share: "updating", "updates" and "updated" are one. */
function stemOf(word: string): string {
	const stem = word.replace(ENDINGS, "");
	return stem.length >= LEAST_PART ? stem : word;
}

/** 0 to 1: how well a word stands in a text of words between spaces. */
function matchOf(word: string, words: string): number {
	const text = ` ${words} `;
	if (text.includes(` ${word} `)) return 1;
	if (text.includes(` ${word}`)) return 0.8;
	const stem = stemOf(word);
	if (new RegExp(` ${stem}(?:ings?|ions?|ers?|ed|es|e|s)? `).test(text)) return 0.7;
	return word.length >= LEAST_PART && words.includes(word) ? 0.5 : 0;
}

const TITLE = 12;
const HEADING = 9;
const PAGE_OF_SECTION = 3;
const TEXT = 1;
/** The words of the query stand in a title one after another. */
const PHRASE = 6;
const OPERATION = 4;
const SMALL_WORD = 0.5;

interface Score {
	readonly found: number;
	readonly rank: number;
}

function scoreOf(entry: SearchEntry, typed: readonly string[], wanted: readonly string[]): Score {
	const heading = wordsOf(entry.title).join(" ");
	const page = wordsOf(entry.page).join(" ");
	const isOperation = entry.to.startsWith("/docs/api#");
	const headingWeight = isOperation ? OPERATION : entry.title === entry.page ? TITLE : HEADING;
	let found = 0;
	let rank = 0;
	for (const word of wanted) {
		const best = Math.max(
			matchOf(word, heading) * headingWeight,
			isOperation ? 0 : matchOf(word, page) * PAGE_OF_SECTION,
			matchOf(word, entry.words) * TEXT,
		);
		if (best > 0) found += 1;
		rank += best;
	}
	rank += typed.filter((word) => !wanted.includes(word) && matchOf(word, heading) === 1).length * SMALL_WORD;
	const inOrder = entry.title.toLowerCase().replaceAll(/[^\p{L}\p{N}]+/gu, " ");
	if (wanted.length > 1 && ` ${inOrder} `.includes(` ${typed.join(" ")} `)) rank += PHRASE;
	return { found, rank };
}

/** The best places for a query, at most `most`. */
export function search(entries: readonly SearchEntry[], query: string, most: number): SearchEntry[] {
	const typed = query.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];
	const telling = typed.filter((word) => !SMALL.has(word));
	const wanted = telling.length === 0 ? typed : telling;
	if (wanted.length === 0) return [];
	const scored = entries.map((entry) => ({ entry, ...scoreOf(entry, typed, wanted) })).filter(({ found }) => found > 0);
	const best = Math.max(0, ...scored.map(({ found }) => found));
	return scored
		.filter(({ found }) => found === best && found * 2 >= wanted.length)
		.sort((one, other) => other.rank - one.rank)
		.slice(0, most)
		.map(({ entry }) => entry);
}
