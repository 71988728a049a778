/**
 * Texts of strangers, such as titles of pull requests, without characters that break lines or turn
 * the direction of the text after them.
 */

/** Marks, embeddings, overrides and isolates of the Unicode bidirectional algorithm. */
export const BIDI_CONTROLS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

export const plainText = (text: string): string =>
	text.replace(/[\p{Cc}\u2028\u2029]+/gu, " ").replace(BIDI_CONTROLS, "");

/** As `plainText`, of several lines. */
export const plainLines = (text: string): string =>
	text
		.split(/\r\n?|\n/)
		.map(plainText)
		.join("\n");

const ENTITIES: Readonly<Record<string, string>> = {
	"&": "&amp;",
	"<": "&lt;",
	">": "&gt;",
	'"': "&quot;",
	"'": "&#39;",
};

/**
 * Text for an XML element or a quoted attribute. Control characters that XML cannot express become
 * U+FFFD.
 */
export function escapeXml(text: string): string {
	return (
		text
			.toWellFormed()
			// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is replaced
			.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\ufffe\uffff]/g, "\ufffd")
			.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? character)
	);
}
