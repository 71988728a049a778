/**
 * Output of a command. People read standard output and a progress line on standard error; programs
 * read one JSON object (`--json`) on standard output. Colours and the progress line appear on
 * terminals only. Secrets that were registered are never printed. Texts of the server and of files
 * cannot control the terminal: only this file writes control characters, and only it breaks lines.
 */
import { randomUUID } from "node:crypto";
import { type Failure, failureOf } from "./failure";

export interface Stream {
	readonly isTTY?: boolean;
	write(text: string): unknown;
}

interface TerminalOptions {
	readonly out: Stream;
	readonly error: Stream;
	readonly json: boolean;
	readonly environment: Readonly<Record<string, string | undefined>>;
	/** How the person started the command, if not as `capstan`. */
	readonly invocation?: string;
}

/** A command in a sentence, such as `run capstan login`. */
const NAMED_COMMAND =
	/(?<![\w./-])capstan (?=(?:init|login|logout|release|promote|rollback|rollout|preview|status|explain|what-if|logs|doctor|help|<command>)(?![\w-]))/g;

const ESCAPE = "\u001b";
const CLEAR_LINE = `\r${ESCAPE}[2K`;
const STYLES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const;
export type Style = keyof typeof STYLES;

/**
 * Control characters except the tab, separators of lines, and characters that change the direction
 * of the text.
 */
const UNPRINTABLE = /(?!\t)[\p{Cc}\p{Bidi_Control}\u2028\u2029\ufeff]/gu;

/**
 * The text on one line, with escapes as JSON has them in the place of characters that control a
 * terminal.
 */
const printable = (text: string) =>
	text.replace(UNPRINTABLE, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** Shorter texts would hide ordinary words. */
const SHORTEST_SECRET = 8;

export class Terminal {
	readonly json: boolean;
	readonly #options: TerminalOptions;
	readonly #secrets = new Set<string>();
	/** Stands for the escape character of our own styles, and nobody else knows it. */
	readonly #escape = `<${randomUUID()}>`;
	#progress = "";

	constructor(options: TerminalOptions) {
		this.#options = options;
		this.json = options.json;
	}

	/** The value never appears in any output from now on. */
	conceal(secret: string): void {
		if (secret.length >= SHORTEST_SECRET) this.#secrets.add(secret);
	}

	style(style: Style, text: string): string {
		const { environment, out } = this.#options;
		const isPlain =
			this.json || out.isTTY !== true || (environment.NO_COLOR ?? "") !== "" || environment.TERM === "dumb";
		return isPlain ? text : `${this.#escape}[${STYLES[style]}m${text}${this.#escape}[0m`;
	}

	/** The help, also for `--json`. */
	help(text: string): void {
		this.#options.out.write(`${this.#inWordsOfThePerson(text)}\n`);
	}

	/** Lines for people. */
	line(...lines: readonly string[]): void {
		if (this.json) return;
		this.#clear();
		this.#options.out.write(this.#linesOf(lines));
	}

	/** A remark that is no part of the result. */
	note(...lines: readonly string[]): void {
		if (this.json) return;
		this.#clear();
		this.#options.error.write(this.#linesOf(lines));
	}

	/** Aligned columns; the first row is the heading. */
	table(cells: readonly (readonly string[])[]): void {
		const rows = cells.map((row) => row.map(printable));
		const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? "").length)));
		for (const [index, row] of rows.entries()) {
			const text = row
				.map((cell, column) => cell.padEnd(widths[column] ?? 0))
				.join("  ")
				.trimEnd();
			this.line(index === 0 ? this.style("dim", text) : text);
		}
	}

	/** Replaces the progress line; only on a terminal. */
	progress(text: string): void {
		if (this.json || this.#options.error.isTTY !== true) return;
		this.#progress = text;
		this.#options.error.write(`${CLEAR_LINE}${this.#shown(text)}`);
	}

	#clear(): void {
		if (this.#progress === "") return;
		this.#progress = "";
		this.#options.error.write(CLEAR_LINE);
	}

	/** The result for programs; the only standard output of `--json`. */
	result(command: string, fields: object): void {
		this.#clear();
		if (!this.json) return;
		this.#options.out.write(this.#linesOf([JSON.stringify({ ok: true, command, ...fields })]));
	}

	/** Prints why the command failed. */
	failed(command: string, error: unknown): Failure {
		this.#clear();
		const failure = failureOf(error);
		const { code, message, details } = failure;
		if (this.json) {
			const named = this.#inWordsOfThePerson(message);
			const answer = {
				ok: false,
				command,
				error: { code, message: named, ...(hasFields(details) ? { details } : {}) },
			};
			this.#options.out.write(this.#linesOf([JSON.stringify(answer)]));
		} else {
			const { requestId } = details;
			const [first, ...others] = `${message} (${code})`.split("\n");
			const request = typeof requestId === "string" ? [`request ${requestId}`] : [];
			// A message of the server cannot look like another line of the command.
			const below = [...others, ...request].map((line) => `  ${line.trimStart()}`);
			this.#options.error.write(this.#linesOf([`${this.style("red", "Error")} ${first}`, ...below]));
		}
		return failure;
	}

	#linesOf(lines: readonly string[]): string {
		return (lines.length === 0 ? [""] : lines).map((line) => `${this.#shown(line)}\n`).join("");
	}

	#inWordsOfThePerson(text: string): string {
		const { invocation } = this.#options;
		return invocation === undefined ? text : text.replace(NAMED_COMMAND, () => `${invocation} `);
	}

	#shown(text: string): string {
		// Values in an answer for programs stay as they are.
		let shown = this.json ? text : this.#inWordsOfThePerson(text);
		for (const secret of this.#secrets) shown = shown.replaceAll(secret, "***");
		return printable(shown).replaceAll(this.#escape, ESCAPE);
	}
}

const hasFields = (value: object) => Object.keys(value).length > 0;

/** E.g. `1.4 MB`. */
export function sizeText(bytes: number): string {
	const units = ["B", "kB", "MB", "GB"];
	let value = bytes;
	let unit = 0;
	while (value >= 1000 && unit < units.length - 1) {
		value /= 1000;
		unit += 1;
	}
	return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** E.g. `1 file`, `3 files`. */
export const counted = (count: number, noun: string, plural = `${noun}s`) => `${count} ${count === 1 ? noun : plural}`;
