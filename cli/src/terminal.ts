/**
 * Output of a command. People read standard output and a progress line on standard error; programs read one JSON object (`--json`) on
 * standard output. Colours and the progress line appear on terminals only. Secrets that were registered are never printed.
 */
import { type Failure, failureOf } from "./failure";

export interface Stream {
	readonly isTTY?: boolean;
	write(text: string): unknown;
}

export interface TerminalOptions {
	readonly out: Stream;
	readonly error: Stream;
	readonly json: boolean;
	readonly environment: Readonly<Record<string, string | undefined>>;
}

const CLEAR_LINE = "\r\u001b[2K";
const STYLES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const;
export type Style = keyof typeof STYLES;

/** Shorter texts would hide ordinary words. */
const SHORTEST_SECRET = 8;

export class Terminal {
	readonly json: boolean;
	readonly #options: TerminalOptions;
	readonly #secrets = new Set<string>();
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
		return isPlain ? text : `\u001b[${STYLES[style]}m${text}\u001b[0m`;
	}

	/** A line for people. */
	line(text = ""): void {
		if (this.json) return;
		this.#clear();
		this.#options.out.write(`${this.#safe(text)}\n`);
	}

	/** A remark that is no part of the result. */
	note(text: string): void {
		if (this.json) return;
		this.#clear();
		this.#options.error.write(`${this.#safe(text)}\n`);
	}

	/** Aligned columns; the first row is the heading. */
	table(rows: readonly (readonly string[])[]): void {
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
		this.#options.error.write(`${CLEAR_LINE}${this.#safe(text)}`);
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
		this.#options.out.write(`${this.#safe(JSON.stringify({ ok: true, command, ...fields }))}\n`);
	}

	/** Prints why the command failed. */
	failed(command: string, error: unknown): Failure {
		this.#clear();
		const failure = failureOf(error);
		const { code, message, details } = failure;
		if (this.json) {
			const answer = { ok: false, command, error: { code, message, ...(hasFields(details) ? { details } : {}) } };
			this.#options.out.write(`${this.#safe(JSON.stringify(answer))}\n`);
		} else {
			const { requestId } = details;
			const request = typeof requestId === "string" ? `\n  request ${requestId}` : "";
			this.#options.error.write(`${this.style("red", "Error")} ${this.#safe(`${message} (${code})${request}`)}\n`);
		}
		return failure;
	}

	#safe(text: string): string {
		let shown = text;
		for (const secret of this.#secrets) shown = shown.replaceAll(secret, "***");
		return shown;
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
export const counted = (count: number, noun: string) => `${count} ${noun}${count === 1 ? "" : "s"}`;
