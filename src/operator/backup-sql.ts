/**
 * The SQL text of a backup, for databases that take no parameters. A row is a list of SQLite
 * literals, which keep every type exactly: numbers in JSON would lose integers beyond 2^53. No
 * statement is longer than D1 accepts: a longer row is inserted with empty texts, which further
 * statements append to. These statements are correct only while the database has no triggers.
 */
import { Failure } from "./failure";

/** D1 accepts 100,000 bytes. */
const MOST_STATEMENT_BYTES = 90_000;
const MOST_ROWS = 100;
/** A column of more characters is appended in pieces. */
const LONG_LITERAL = 8_000;
/** At most 60,000 bytes of UTF-8, or 40,000 quotes. */
const PIECE_CHARACTERS = 20_000;

export interface TableShape {
	readonly name: string;
	readonly columns: readonly string[];
	/** The columns of the primary key. */
	readonly key: readonly string[];
}

export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;

/**
 * Selects the columns of a table as SQLite literals. `quote` ends a text at its first NUL, so such
 * a text is written as bytes.
 */
export function selectLiterals({ name, columns }: TableShape): string {
	const literals = columns.map((column) => {
		const value = quoted(column);
		return `CASE WHEN typeof(${value}) = 'text' AND instr(${value}, char(0)) > 0
			THEN 'CAST(X''' || hex(${value}) || ''' AS TEXT)' ELSE quote(${value}) END AS ${value}`;
	});
	return `SELECT ${literals.join(", ")} FROM ${quoted(name)}`;
}

/**
 * The text of a literal; undefined for one of another type, and for a text that was written as
 * bytes.
 */
export function textOf(literal: string | undefined): string | undefined {
	return literal?.startsWith("'") === true ? literal.slice(1, -1).replaceAll("''", "'") : undefined;
}

const REPLACED = /^(replace\()?(replace\()?('(?:[^']|'')*')((?:,'\\[nr]',char\(1[03]\)\))*)$/;

/**
 * The literal of an exported value. D1 writes a text with line breaks as
 * `replace('a\nb','\n',char(10))`. A text that has both a line break and the two characters of its
 * escape cannot be read back: see `ambiguousTexts`.
 */
function plainLiteral(value: string): string {
	if (!value.startsWith("replace(")) return value;
	const [, , , literal, ends = ""] = REPLACED.exec(value) ?? [];
	if (literal === undefined)
		throw new Failure(`The export of the database has an unknown value: ${value.slice(0, 60)}…`);
	const text = ends.includes("char(13)") ? literal.replaceAll("\\r", "\r") : literal;
	return ends.includes("char(10)") ? text.replaceAll("\\n", "\n") : text;
}

/** Selects key and literal of the texts of a column that an export confuses. */
export function ambiguousTexts({ name, key }: TableShape, column: string): string {
	const value = quoted(column);
	const both = (code: number, mark: string) =>
		`(instr(${value}, char(${code})) > 0 AND instr(${value}, '${mark}') > 0)`;
	return `SELECT ${key.map((one) => `quote(${quoted(one)}) AS ${quoted(one)}`).join(", ")}, quote(${value}) AS literal
		FROM ${quoted(name)} WHERE ${both(10, "\\n")} OR ${both(13, "\\r")}`;
}

/** Collects rows of one table into statements, each with a semicolon and a newline. */
export class InsertWriter {
	#rows: string[] = [];
	#bytes = 0;
	readonly #head: string;

	constructor(readonly table: TableShape) {
		this.#head = `INSERT INTO ${quoted(table.name)} (${table.columns.map(quoted).join(", ")}) VALUES\n`;
	}

	/** @returns the statements that are complete */
	add(values: readonly string[]): string {
		const row = `(${values.join(", ")})`;
		const bytes = Buffer.byteLength(row) + 2;
		const head = Buffer.byteLength(this.#head);
		if (head + bytes > MOST_STATEMENT_BYTES) return this.end() + this.#pieces(values);
		const full = head + this.#bytes + bytes > MOST_STATEMENT_BYTES || this.#rows.length === MOST_ROWS;
		const text = full ? this.end() : "";
		this.#rows.push(row);
		this.#bytes += bytes;
		return text;
	}

	end(): string {
		if (this.#rows.length === 0) return "";
		const text = `${this.#head}${this.#rows.join(",\n")};\n`;
		this.#rows = [];
		this.#bytes = 0;
		return text;
	}

	#pieces(values: readonly string[]): string {
		const { name, columns, key } = this.table;
		const isLong = (index: number) => (values[index] ?? "").length > LONG_LITERAL;
		const tooLong = () =>
			new Failure(`A row of the table ${name} cannot be divided into statements of ${MOST_STATEMENT_BYTES} bytes.`);
		const first = values.map((value, index) => (isLong(index) ? (value.startsWith("X'") ? "X''" : "''") : value));
		const statements = [`${this.#head}(${first.join(", ")});\n`];
		const matches = key.map((column) => {
			const index = columns.indexOf(column);
			if (index < 0 || isLong(index)) throw tooLong();
			return `${quoted(column)} IS ${values[index]}`;
		});
		if (matches.length === 0) throw tooLong();
		for (const [index, value] of values.entries()) {
			if (!isLong(index)) continue;
			const column = quoted(columns[index] ?? "");
			for (const piece of piecesOf(value, tooLong)) {
				const joined = piece.startsWith("X'") ? `CAST(${column} || ${piece} AS BLOB)` : `${column} || ${piece}`;
				statements.push(`UPDATE ${quoted(name)} SET ${column} = ${joined} WHERE ${matches.join(" AND ")};\n`);
			}
		}
		if (statements.some((statement) => Buffer.byteLength(statement) > MOST_STATEMENT_BYTES)) throw tooLong();
		return statements.join("");
	}
}

/** Literals whose concatenation is the given one. */
function piecesOf(literal: string, tooLong: () => Failure): string[] {
	const hex = /^(CAST\()?X'([0-9A-Fa-f]*)'( AS TEXT\))?$/.exec(literal);
	const pieces: string[] = [];
	if (hex !== null) {
		const [, cast = "", digits = "", end = ""] = hex;
		for (let start = 0; start < digits.length; ) {
			let stop = Math.min(digits.length, start + 2 * PIECE_CHARACTERS);
			// A text is divided between characters: a byte 10xxxxxx continues one.
			while (cast !== "" && stop < digits.length && /[89AB]/i.test(digits[stop] ?? "")) stop -= 2;
			pieces.push(`${cast}X'${digits.slice(start, stop)}'${end}`);
			start = stop;
		}
		return pieces;
	}
	if (!/^'(?:[^']|'')*'$/.test(literal)) throw tooLong();
	const text = literal.slice(1, -1).replaceAll("''", "'");
	for (let start = 0; start < text.length; ) {
		let stop = Math.min(text.length, start + PIECE_CHARACTERS);
		const last = text.charCodeAt(stop - 1);
		if (stop < text.length && last >= 0xd800 && last < 0xdc00) stop--;
		pieces.push(`'${text.slice(start, stop).replaceAll("'", "''")}'`);
		start = stop;
	}
	return pieces;
}

/**
 * Divides SQL text that arrives in chunks into statements, without their semicolons. The text has
 * no comments and no triggers.
 */
export async function* statementsOf(chunks: AsyncIterable<string> | Iterable<string>): AsyncGenerator<string> {
	let rest = "";
	let scanned = 0;
	let quote = "";
	for await (const chunk of chunks) {
		rest += chunk;
		let start = 0;
		const marks = /['";]/g;
		marks.lastIndex = scanned;
		for (let match = marks.exec(rest); match !== null; match = marks.exec(rest)) {
			const [mark] = match;
			// A doubled quote ends the quoted text and begins it again.
			if (quote !== "") quote = mark === quote ? "" : quote;
			else if (mark !== ";") quote = mark;
			else {
				const statement = rest.slice(start, match.index).trim();
				if (statement !== "") yield statement;
				start = match.index + 1;
			}
		}
		rest = rest.slice(start);
		scanned = rest.length;
	}
	if (rest.trim() !== "") throw new Failure("The SQL text ends within a statement: it was cut short.");
}

interface InsertedRow {
	readonly table: string;
	/** Undefined: all columns in their order. */
	readonly columns: readonly string[] | undefined;
	readonly values: readonly string[];
}

const INSERT = /^INSERT INTO\s+("(?:[^"]|"")*"|\w+)\s*(?:\(([^()]*)\))?\s*VALUES\s*\(/i;

/**
 * The row of an INSERT statement as `wrangler d1 export` writes it; undefined for another
 * statement.
 */
export function insertedRow(statement: string): InsertedRow | undefined {
	const head = INSERT.exec(statement);
	if (head === null) {
		if (/^(PRAGMA|ANALYZE|DELETE FROM\s+"?sqlite_sequence|CREATE TABLE|CREATE (UNIQUE )?INDEX)/i.test(statement))
			return undefined;
		throw new Failure(`The export of the database has an unknown statement: ${statement.slice(0, 60)}…`);
	}
	const unquoted = (name: string) =>
		name
			.trim()
			.replace(/^"(.*)"$/s, "$1")
			.replaceAll('""', '"');
	if (!statement.endsWith(")")) throw new Failure("The export of the database has an INSERT that is cut short.");
	return {
		table: unquoted(head[1] ?? ""),
		columns: head[2]?.split(",").map(unquoted),
		values: dividedValues(statement.slice(head[0].length, -1)),
	};
}

function dividedValues(text: string): string[] {
	const values: string[] = [];
	let start = 0;
	let depth = 0;
	const marks = /'(?:[^']|'')*'|[(),]/g;
	for (let match = marks.exec(text); match !== null; match = marks.exec(text)) {
		const [mark] = match;
		if (mark === "(") depth++;
		else if (mark === ")") depth--;
		else if (mark === "," && depth === 0) {
			values.push(plainLiteral(text.slice(start, match.index).trim()));
			start = match.index + 1;
		}
	}
	values.push(plainLiteral(text.slice(start).trim()));
	return values;
}
