/**
 * JSON files of the project. A file with an error is reported with its path and the position of the
 * error, because the messages of JSON.parse differ between versions of Node.js and often have no
 * position.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { usage } from "./failure";
import { JSON_WITH_COMMENTS, sourceOf } from "./source-text";

/** Editors on Windows write it in front of UTF-8. */
const withoutByteOrderMark = (text: string) => (text.startsWith("\uFEFF") ? text.slice(1) : text);

/** With its mark, and without one: the first character of a text file is ASCII. */
const isUtf16 = ([first, second]: Uint8Array) =>
	(first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff) || first === 0 || second === 0;

/**
 * Undefined if there is no such file.
 * @throws {Failure} `not_utf8`
 */
export async function readText(path: string): Promise<string | undefined> {
	const bytes = await readFile(path).catch((error: { readonly code?: string }) => {
		if (error.code === "ENOENT" || error.code === "ENOTDIR") return undefined;
		// That of a directory names none.
		throw Object.assign(error, { path });
	});
	if (bytes === undefined) return undefined;
	if (!isUtf16(bytes)) return withoutByteOrderMark(bytes.toString("utf8"));
	const message = `${path} is UTF-16, which the tools of your project do not read. Save it as UTF-8, and run the command again.`;
	throw usage("not_utf8", message, { file: path });
}

/**
 * The object of a file such as package.json; undefined if there is no such file.
 * @throws {Failure} `invalid_json`
 */
export async function readJsonObject<Shape extends object>(
	directory: string,
	path: string,
): Promise<Partial<Shape> | undefined> {
	const text = await readText(join(directory, path));
	return text === undefined ? undefined : jsonObject<Shape>(path, text);
}

/** @throws {Failure} `invalid_json` */
export function jsonObject<Shape extends object>(path: string, text: string): Partial<Shape> {
	const value = parsedOr(text, () => {
		const before = text.slice(0, errorAt(text)).split("\n");
		const line = before.length;
		const column = (before.at(-1) ?? "").length + 1;
		const message = `${path} is not valid JSON: error at line ${line}, column ${column}. Fix the file, and run the command again.`;
		return usage("invalid_json", message, { file: path, line, column });
	});
	if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Partial<Shape>;
	throw usage("invalid_json", `${path} must contain a JSON object.`, { file: path });
}

/** The text with blanks for comments and for commas after last values, so that positions stay. */
export function plainJson(text: string): string {
	const { code, bare } = sourceOf(text, JSON_WITH_COMMENTS);
	return [...bare.matchAll(/,(?=\s*[}\]])/g)].reduce(
		(plain, { index }) => `${plain.slice(0, index)} ${plain.slice(index + 1)}`,
		code,
	);
}

function parsedOr(text: string, failure: () => Error): unknown {
	try {
		return JSON.parse(text);
	} catch {
		throw failure();
	}
}

const SPACE = /[ \t\r\n]*/y;
const STRING = /"(?:[^"\\\p{Cc}]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/uy;
const SCALAR = /(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.])/y;

/** Index of the first character that cannot be JSON. */
function errorAt(text: string): number {
	let at = 0;
	const take = (pattern: RegExp) => {
		pattern.lastIndex = at;
		const match = pattern.exec(text);
		at += match?.[0].length ?? 0;
		return match !== null;
	};
	const takeMark = (mark: string) => {
		take(SPACE);
		const isThere = text[at] === mark;
		if (isThere) at += 1;
		return isThere;
	};
	const list = (end: string, item: () => boolean): boolean => {
		if (takeMark(end)) return true;
		while (item()) {
			if (takeMark(end)) return true;
			if (!takeMark(",")) return false;
		}
		return false;
	};
	const value = (): boolean => {
		take(SPACE);
		if (takeMark("{")) return list("}", () => take(SPACE) && take(STRING) && takeMark(":") && value());
		if (takeMark("[")) return list("]", value);
		return take(STRING) || take(SCALAR);
	};
	if (value()) take(SPACE);
	return at;
}
