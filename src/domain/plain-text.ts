/**
 * Texts of strangers, such as titles of pull requests, without characters that break lines or turn the direction of the text after them.
 */

/** Marks, embeddings, overrides and isolates of the Unicode bidirectional algorithm. */
export const BIDI_CONTROLS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

export const plainText = (text: string): string =>
	text.replace(/[\p{Cc}\u2028\u2029]+/gu, " ").replace(BIDI_CONTROLS, "");
