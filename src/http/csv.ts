/**
 * Tables as CSV (RFC 4180: commas, CRLF, a header, quotes doubled). Spreadsheets run cells that
 * begin like a formula, and names come from strangers, so such a text gets an apostrophe before it,
 * which marks it as text. Numbers stay numbers.
 */

export type CsvCell = string | number | boolean | null;

/**
 * Spreadsheets also run formulas after white space or invisible characters, and in full-width
 * forms.
 */
const FORMULA_START = /^[\s\p{Cc}\p{Cf}]*[=+\-@＝＋－＠]|^[\t\r\n]/u;

function csvText(text: string): string {
	const harmless = FORMULA_START.test(text) ? `'${text}` : text;
	return /[",\r\n]|^\s|\s$/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
}

function csvCell(cell: CsvCell): string {
	if (cell === null) return "";
	if (typeof cell === "string") return csvText(cell);
	if (typeof cell === "number" && !Number.isFinite(cell)) throw new RangeError("a CSV cell is a finite number");
	return String(cell);
}

/** Null is an empty cell. Every row has one cell per column. */
export function toCsv(columns: readonly string[], rows: readonly (readonly CsvCell[])[]): string {
	const lines = [columns, ...rows].map((row) => {
		if (row.length !== columns.length) {
			throw new RangeError(`a CSV row has ${row.length} cells for ${columns.length} columns`);
		}
		const line = row.map(csvCell).join(",");
		// Readers skip an empty line, so a single empty cell is quoted.
		return line === "" && columns.length === 1 ? '""' : line;
	});
	return lines.map((line) => `${line}\r\n`).join("");
}
