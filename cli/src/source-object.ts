/**
 * Reads and edits one object literal in a configuration file: JSON, or the object that a TypeScript
 * or JavaScript file exports. Only the texts of changed values move, so comments, order and
 * formatting of everything else stay. The file is never executed. An object that is computed
 * (spread, function, condition) is reported as not editable.
 */

export interface Member {
	readonly key: string;
	/** Start of the key, and of the value. */
	readonly start: number;
	readonly valueStart: number;
	readonly valueEnd: number;
	/** Behind the comma, if there is one. */
	readonly end: number;
	readonly hasComma: boolean;
}

export interface ObjectLiteral {
	/** Offsets of `{` and of the character after `}`. */
	readonly start: number;
	readonly end: number;
	readonly members: readonly Member[];
}

/** Characters of a member in a message. */
const LONGEST_SHOWN = 24;

export class NotEditable extends Error {
	override readonly name = "NotEditable";
}

/** Skips white space and comments. */
function skip(text: string, from: number): number {
	const found = /(?:\s|\/\/[^\n]*|\/\*[\s\S]*?\*\/)*/y;
	found.lastIndex = from;
	found.exec(text);
	return found.lastIndex;
}

/** Returns the offset after the string literal at `from`, including nested `${…}`. */
function skipString(text: string, from: number): number {
	const quote = text[from];
	for (let at = from + 1; at < text.length; at++) {
		if (text[at] === "\\") at += 1;
		else if (text[at] === quote) return at + 1;
		else if (quote === "`" && text.startsWith("${", at)) at = skipBrackets(text, at + 1) - 1;
	}
	throw new NotEditable("a string does not end");
}

const CLOSING: Readonly<Record<string, string>> = { "{": "}", "[": "]", "(": ")" };

/** Behind the bracket that closes the one here. */
function skipBrackets(text: string, from: number): number {
	const closing = CLOSING[text[from] ?? ""] ?? "";
	for (let at = skip(text, from + 1); at < text.length; at = skip(text, at)) {
		const char = text[at] ?? "";
		if (char === closing) return at + 1;
		if (CLOSING[char] !== undefined) at = skipBrackets(text, at);
		else at = /["'`]/.test(char) ? skipString(text, at) : at + 1;
	}
	throw new NotEditable("a bracket does not close");
}

/**
 * The members of the object literal at `{`.
 * @throws {NotEditable} for spreads, methods and computed keys
 */
export function objectAt(text: string, start: number): ObjectLiteral {
	const members: Member[] = [];
	let at = skip(text, start + 1);
	while (text[at] !== "}") {
		const member = memberAt(text, at);
		members.push(member);
		at = skip(text, member.end);
		if (!member.hasComma && text[at] !== "}") throw new NotEditable("the object has a member that cannot be read");
	}
	return { start, end: at + 1, members };
}

function memberAt(text: string, start: number): Member {
	const isQuoted = /["']/.test(text[start] ?? "");
	const name = /[\w$]+/y;
	name.lastIndex = start;
	const word = isQuoted ? text.slice(start, skipString(text, start)) : name.exec(text)?.[0];
	if (word === undefined) {
		const [shown = ""] = text.slice(start, start + LONGEST_SHOWN).split(/[\r\n]/);
		throw new NotEditable(`"${shown}" is not a plain name and value`);
	}
	const colon = skip(text, start + word.length);
	if (text[colon] !== ":") throw new NotEditable(`the member ${word} is not a plain value`);
	const valueStart = skip(text, colon + 1);
	let at = valueStart;
	let valueEnd = valueStart;
	while (at < text.length && text[at] !== "," && text[at] !== "}") {
		const char = text[at] ?? "";
		if (CLOSING[char] !== undefined) at = skipBrackets(text, at);
		else at = /["'`]/.test(char) ? skipString(text, at) : at + 1;
		valueEnd = at;
		at = skip(text, at);
	}
	const hasComma = text[at] === ",";
	const key = isQuoted ? String(literalOf(word)) : word;
	return { key, start, valueStart, valueEnd, end: hasComma ? at + 1 : valueEnd, hasComma };
}

export type Literal = string | number | boolean | null;

/** The value of a literal; undefined for every other expression. */
export function literalOf(text: string): Literal | undefined {
	if (text === "true" || text === "false") return text === "true";
	if (text === "null") return null;
	if (/^-?\d+(\.\d+)?$/.test(text)) return Number(text);
	const quoted = /^(["'`])([\s\S]*)\1$/.exec(text);
	if (quoted === null || skipString(text, 0) !== text.length) return undefined;
	const [, quote, body = ""] = quoted;
	if (quote === "`" && body.includes("${")) return undefined;
	return body.replace(/\\(u[0-9a-fA-F]{4}|[\s\S])/g, (_, code: string) => {
		if (code.length === 5) return String.fromCharCode(Number.parseInt(code.slice(1), 16));
		return { n: "\n", t: "\t", r: "\r" }[code] ?? code;
	});
}

/**
 * The object that the file is, or exports.
 * @throws {NotEditable} if it cannot be found
 */
export function rootObject(text: string, isJson: boolean): ObjectLiteral {
	if (isJson) {
		const start = skip(text.replace(/^\uFEFF/, " "), 0);
		if (text[start] !== "{") throw new NotEditable("the file is not a JSON object");
		return objectAt(text, start);
	}
	const exported = /(?:^|\n)\s*(?:export\s+default|module\.exports\s*=|export\s*=)\s*/.exec(text);
	if (exported === null) throw new NotEditable("the file exports no object");
	const at = exported.index + exported[0].length;
	const rest = text.slice(at);
	// `export default { … }`, and a helper around it such as `defineConfig({ … })`.
	const direct = /^(?:[\w$.]+\s*\(\s*)?\{/.exec(rest);
	if (direct !== null) return objectAt(text, at + direct[0].length - 1);
	const name = /^([\w$]+)/.exec(rest)?.[1];
	const declared =
		name === undefined
			? null
			: new RegExp(
					`(?:const|let|var)\\s+${name.replaceAll("$", "\\$")}\\s*(?::[^=]+)?=\\s*(?:[\\w$.]+\\s*\\(\\s*)?\\{`,
				).exec(text);
	if (declared === null) throw new NotEditable("the file computes the object that it exports");
	return objectAt(text, declared.index + declared[0].length - 1);
}

/** The literal at the path; undefined if it is absent or computed. */
export function readLiteral(text: string, root: ObjectLiteral, path: readonly string[]): Literal | undefined {
	const [key = "", ...rest] = path;
	const member = root.members.find((each) => each.key === key);
	if (member === undefined) return undefined;
	if (rest.length === 0) return literalOf(text.slice(member.valueStart, member.valueEnd));
	if (text[member.valueStart] !== "{") return undefined;
	const object = found(() => objectAt(text, member.valueStart));
	return object === undefined ? undefined : readLiteral(text, object, rest);
}

/** The object; undefined if a part of it is computed. */
export function found(read: () => ObjectLiteral): ObjectLiteral | undefined {
	try {
		return read();
	} catch (error) {
		if (error instanceof NotEditable) return undefined;
		throw error;
	}
}

export interface SettingChange {
	readonly path: readonly string[];
	readonly value: Literal;
}

/**
 * The text with the values set. Setting values that are there changes nothing.
 * @throws {NotEditable}
 */
export function withSettings(text: string, isJson: boolean, changes: readonly SettingChange[]): string {
	let edited = text;
	for (const { path, value } of changes) edited = withSetting(edited, isJson, rootObject(edited, isJson), path, value);
	return withLineEndsOf(text, edited);
}

/**
 * The same for an object literal within a source file, which starts at the position of its `{`.
 * @throws {NotEditable}
 */
export function withSettingsAt(text: string, start: number, changes: readonly SettingChange[]): string {
	let edited = text;
	for (const { path, value } of changes) edited = withSetting(edited, false, objectAt(edited, start), path, value);
	return withLineEndsOf(text, edited);
}

/** New lines end as all lines of the file do. */
const withLineEndsOf = (text: string, edited: string) =>
	/\r\n/.test(text) && !/(?<!\r)\n/.test(text) ? edited.replace(/(?<!\r)\n/g, "\r\n") : edited;

function withSetting(
	text: string,
	isJson: boolean,
	object: ObjectLiteral,
	path: readonly string[],
	value: Literal,
): string {
	const [key = "", ...rest] = path;
	const member = object.members.find((each) => each.key === key);
	if (member === undefined) return withMember(text, isJson, object, path, value);
	if (rest.length > 0) {
		if (text[member.valueStart] !== "{") throw new NotEditable(`${key} is not a plain object`);
		return withSetting(text, isJson, objectAt(text, member.valueStart), rest, value);
	}
	const current = text.slice(member.valueStart, member.valueEnd);
	if (literalOf(current) === value) return text;
	if (literalOf(current) === undefined) throw new NotEditable(`${key} is computed`);
	return text.slice(0, member.valueStart) + literalText(text, isJson, value) + text.slice(member.valueEnd);
}

function literalText(text: string, isJson: boolean, value: Literal): string {
	const json = JSON.stringify(value);
	const usesSingle = !isJson && (text.match(/'/g)?.length ?? 0) > (text.match(/"/g)?.length ?? 0);
	return typeof value === "string" && usesSingle
		? `'${json.slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`
		: json;
}

const indentAt = (text: string, at: number) =>
	/^[ \t]*/.exec(text.slice(text.lastIndexOf("\n", at - 1) + 1))?.[0] ?? "";

/** The text with a new last member, in the style of the object. */
function withMember(
	text: string,
	isJson: boolean,
	object: ObjectLiteral,
	path: readonly string[],
	value: Literal,
): string {
	const outer = indentAt(text, object.start);
	const last = object.members.at(-1);
	const isOneLine = last !== undefined && !text.slice(object.start, object.end).includes("\n");
	const inner = last === undefined || isOneLine ? outer + unitOf(text) : indentAt(text, last.start);
	const member = memberText(text, isJson, path, value, isOneLine ? undefined : inner);
	if (last === undefined) {
		const body = text.slice(object.start + 1, object.end - 1).trimEnd();
		return `${text.slice(0, object.start + 1)}${body}\n${inner}${member}\n${outer}${text.slice(object.end - 1)}`;
	}
	if (isOneLine) {
		const separator = last.hasComma ? " " : ", ";
		return `${text.slice(0, last.end)}${separator}${member}${text.slice(last.end)}`;
	}
	// A comment at the end of the line belongs to the member before it.
	const comment = /^[ \t]*(?:\/\/[^\n]*|\/\*[^\n]*?\*\/[ \t]*(?=\r?\n))/.exec(text.slice(last.end))?.[0] ?? "";
	const at = last.end + comment.length;
	const comma = last.hasComma ? "" : ",";
	const trailing = last.hasComma && !isJson ? "," : "";
	return `${text.slice(0, last.end)}${comma}${comment}\n${inner}${member}${trailing}${text.slice(at)}`;
}

/** The indentation of one level, taken from the first indented line. */
const unitOf = (text: string) => /\n([ \t]+)\S/.exec(text)?.[1] ?? "  ";

/** `key: value`, or nested objects for a longer path; on one line without an indentation. */
function memberText(
	text: string,
	isJson: boolean,
	[key = "", ...rest]: readonly string[],
	value: Literal,
	indent: string | undefined,
): string {
	const usesQuotes = isJson || !/^[\w$]+$/.test(key);
	const name = usesQuotes ? JSON.stringify(key) : key;
	if (rest.length === 0) return `${name}: ${literalText(text, isJson, value)}`;
	const inner = indent === undefined ? undefined : indent + unitOf(text);
	const nested = memberText(text, isJson, rest, value, inner);
	if (inner === undefined) return `${name}: { ${nested} }`;
	return `${name}: {\n${inner}${nested}${isJson ? "" : ","}\n${indent}}`;
}

/**
 * The text without the value at the path, and without the object around it if that is empty then.
 * @throws {NotEditable}
 */
export function withoutSetting(text: string, isJson: boolean, path: readonly string[]): string {
	let object = rootObject(text, isJson);
	let removed: { readonly object: ObjectLiteral; readonly member: Member } | undefined;
	for (const [index, key] of path.entries()) {
		const member = object.members.find((each) => each.key === key);
		if (member === undefined) return text;
		if (removed === undefined || object.members.length > 1) removed = { object, member };
		if (index === path.length - 1) break;
		if (text[member.valueStart] !== "{") throw new NotEditable(`${key} is not a plain object`);
		object = objectAt(text, member.valueStart);
	}
	return removed === undefined ? text : withoutMember(text, removed.object, removed.member);
}

function withoutMember(text: string, { members }: ObjectLiteral, member: Member): string {
	const lineStart = text.lastIndexOf("\n", member.start - 1) + 1;
	const isOnOwnLine = /^[ \t]*$/.test(text.slice(lineStart, member.start));
	const lineEnd = /^[ \t]*(?:\/\/[^\n]*|\/\*[^\n]*?\*\/[ \t]*)?\r?\n/.exec(text.slice(member.end))?.[0];
	const isLine = isOnOwnLine && lineEnd !== undefined;
	const from = isLine ? lineStart : member.start;
	const to = member.end + (isLine ? lineEnd : (/^[ \t]*/.exec(text.slice(member.end))?.[0] ?? "")).length;
	const previous = members[members.indexOf(member) - 1];
	// JSON has no comma after the last member.
	const before =
		previous?.hasComma === true && member === members.at(-1) && !member.hasComma
			? text.slice(0, previous.end - 1) + text.slice(previous.end, from)
			: text.slice(0, from);
	return before + text.slice(to);
}
