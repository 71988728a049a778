/**
 * Compiled statements as SQL text for `wrangler d1 execute`, which takes no parameters. Every value
 * becomes an SQLite literal, and other types are rejected, so a value can never become SQL.
 */
export interface Statement {
	readonly sql: string;
	readonly parameters: readonly unknown[];
}

/** The statements with literals for their parameters, each followed by a semicolon. */
export function sqlText(statements: readonly Statement[]): string {
	return statements.map((statement) => `${inline(statement)};\n`).join("");
}

export function literal(value: unknown): string {
	if (value === null) return "NULL";
	if (typeof value === "number" && Number.isFinite(value)) return String(value);
	if (typeof value === "string" && !value.includes("\0")) return `'${value.replaceAll("'", "''")}'`;
	throw new TypeError(`a value of type ${typeof value} has no SQL literal here`);
}

function inline({ sql, parameters }: Statement): string {
	let used = 0;
	// Skips quoted text, where a question mark is not a parameter.
	const text = sql.replace(/'(?:[^']|'')*'|"(?:[^"]|"")*"|\?/g, (part) =>
		part === "?" ? literal(parameters[used++]) : part,
	);
	if (used !== parameters.length) throw new TypeError(`${used} places for ${parameters.length} values`);
	return text;
}
