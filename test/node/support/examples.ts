/**
 * Runs the examples of a Markdown page as a reader would: all `sh` (or `bash`) blocks in one shell,
 * one after another, and what each prints is held to the `json` or `text` block that follows it. A
 * page shortens what it shows, so a shown object may lack fields, and `…` in a text stands for
 * anything; what is shown must be there.
 */
import { spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { FAST_PATH } from "./tools";

export interface Example {
	/** Line of the page that the example begins on. */
	readonly line: number;
	readonly commands: string;
	/** JSON values, one after another; undefined when the page shows no output. */
	readonly shown: string | undefined;
	/** Lines of text that are printed in this order, perhaps with others between them. */
	readonly printed?: string | undefined;
}

export function examplesOf(markdown: string, language: "sh" | "bash" = "sh"): Example[] {
	const blocks = [...markdown.matchAll(/^```(sh|bash|json|text)\n([\s\S]*?)^```$/gm)].map((block) => ({
		language: block[1],
		text: block[2] ?? "",
		line: markdown.slice(0, block.index).split("\n").length,
	}));
	return blocks.flatMap((block, index) => {
		const next = blocks[index + 1];
		if (block.language !== language) return [];
		const shownAs = (language: string) => (next?.language === language ? next.text : undefined);
		return [{ line: block.line, commands: block.text, shown: shownAs("json"), printed: shownAs("text") }];
	});
}

const MARK = "=== end of example";

/** The output of each example. The shell stops at the first command that fails. */
export async function runExamples(
	examples: readonly Example[],
	options: {
		readonly directory: string;
		/** Looked through before PATH. */
		readonly path?: string;
		readonly environment?: Readonly<Record<string, string>>;
	},
): Promise<string[]> {
	const script = examples.map(({ commands }) => `${commands}\nprintf '\\n${MARK}\\n'\n`).join("");
	const file = join(options.directory, "examples.sh");
	await writeFile(file, `set -euo pipefail\n${script}`);
	const shell = spawn("bash", [file], {
		cwd: options.directory,
		stdio: ["ignore", "pipe", "pipe"],
		env: {
			PATH: [...(options.path === undefined ? [] : [options.path]), FAST_PATH].join(":"),
			HOME: options.directory,
			...options.environment,
		},
	});
	let output = "";
	let errors = "";
	shell.stdout.on("data", (chunk) => {
		output += chunk;
	});
	shell.stderr.on("data", (chunk) => {
		errors += chunk;
	});
	const code = await new Promise((resolve) => shell.once("close", resolve));
	const printed = output.split(`\n${MARK}\n`).slice(0, -1);
	if (code !== 0) {
		const failed = examples[printed.length];
		throw new Error(`the example on line ${failed?.line} failed (${code}):\n${failed?.commands}\n${errors}`);
	}
	return printed;
}

/** The JSON values in a text, with any text between them. */
export function jsonValues(text: string): unknown[] {
	const values: unknown[] = [];
	let rest = text.trim();
	while (rest !== "") {
		const length = valueLength(rest);
		values.push(JSON.parse(rest.slice(0, length)));
		rest = rest.slice(length).trim();
	}
	return values;
}

function valueLength(text: string): number {
	let depth = 0;
	let quoted = false;
	for (let index = 0; index < text.length; index++) {
		const char = text[index];
		if (quoted) {
			if (char === "\\") index += 1;
			else if (char === '"') quoted = false;
		} else if (char === '"') quoted = true;
		else if (char === "{" || char === "[") depth += 1;
		else if (char === "}" || char === "]") depth -= 1;
		else if (depth === 0 && /\s/.test(char ?? "")) return index;
		if (depth === 0 && !quoted && (char === "}" || char === "]" || char === '"')) return index + 1;
	}
	return text.length;
}

/** The first shown line that is not printed after the one before it; undefined if all are. */
export function missingLine(shown: string, printed: string): string | undefined {
	let rest = printed.split("\n").map((line) => line.trim().replaceAll(/ +/g, " "));
	for (const line of shown.split("\n")) {
		const wanted = line.trim().replaceAll(/ +/g, " ");
		if (wanted === "") continue;
		const pattern = patternOf(wanted, wanted.includes("…") ? "" : ".*");
		const at = rest.findIndex((each) => pattern.test(each));
		if (at === -1) return line;
		rest = rest.slice(at + 1);
	}
	return undefined;
}

/** `…` stands for anything. */
function patternOf(shown: string, around = ""): RegExp {
	const parts = shown.split("…").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
	return new RegExp(`^${around}${parts.join(".*")}${around}$`, "s");
}

/** The first difference between the shown and the printed value; undefined if there is none. */
export function difference(shown: unknown, printed: unknown, path = "answer"): string | undefined {
	if (typeof shown === "string" && shown.includes("…")) {
		const pattern = patternOf(shown);
		return typeof printed === "string" && pattern.test(printed) ? undefined : mismatch(path, shown, printed);
	}
	if (Array.isArray(shown)) {
		if (!Array.isArray(printed) || printed.length !== shown.length) return mismatch(path, shown, printed);
		return first(shown.map((item, index) => difference(item, printed[index], `${path}[${index}]`)));
	}
	if (typeof shown === "object" && shown !== null) {
		if (typeof printed !== "object" || printed === null) return mismatch(path, shown, printed);
		return first(
			Object.entries(shown).map(([name, value]) =>
				difference(value, (printed as Record<string, unknown>)[name], `${path}.${name}`),
			),
		);
	}
	return shown === printed ? undefined : mismatch(path, shown, printed);
}

function first(differences: readonly (string | undefined)[]): string | undefined {
	return differences.find((text) => text !== undefined);
}

function mismatch(path: string, shown: unknown, printed: unknown): string {
	return `${path}: the page shows ${JSON.stringify(shown)}, the product answers ${JSON.stringify(printed)}`;
}
