/**
 * `versionName` of an Android project: every value that its Gradle scripts may set, by flavor and
 * build type too. The scripts are read as text. A value that depends on something else, such as a
 * variable of the environment, is reported as unreadable.
 */
import { dirname, join, normalize } from "node:path";
import { readVersion } from "../../src/domain/updates/version";
import { readText } from "./json-file";
import {
	endOfExpression,
	GROOVY,
	KOTLIN,
	lineAt,
	PROPERTIES,
	type Source,
	type Syntax,
	sourceOf,
	splitAt,
	TOML,
	XML,
} from "./source-text";

/** A place that names a version, or should. */
export interface Unreadable {
	/** Relative to the project. */
	readonly file: string;
	/** Undefined if the file names no version. */
	readonly line: number | undefined;
}

export interface FoundVersions {
	/** As they are written. */
	readonly versions: readonly string[];
	readonly unreadable: readonly Unreadable[];
}

/** Paths in the folder of the Android project. */
const APP_SCRIPTS = ["app/build.gradle", "app/build.gradle.kts"];
const OTHER_SCRIPTS = [
	"build.gradle",
	"build.gradle.kts",
	"variables.gradle",
	"settings.gradle",
	"settings.gradle.kts",
];
const PROPERTY_FILES = ["gradle.properties", "version.properties", "app/version.properties", "app/gradle.properties"];
const CATALOG = "gradle/libs.versions.toml";
const MANIFEST = "app/src/main/AndroidManifest.xml";
/** Path in the folder of the app. */
const APP_PROPERTIES = "version.properties";
const MOST_SCRIPTS = 50;
const DEEPEST = 12;

/**
 * A statement that sets it, and no variable of that name (`def versionName = …`) and no read of it
 * (`println versionName`).
 */
const SETTING =
	/(?<=^|[{;>])[ \t]*(?:\w+\.)*(?:versionName(?:Override)?(?:\.set(?=[ \t]*\())?|setVersionName(?:Override)?(?=[ \t]*\())(?![\w.])[ \t]*(?:=(?!=)|(?=["'(\w$]))/gm;
/** A statement of a flavor or a build type that adds to the version. */
const SUFFIX =
	/(?<=^|[{;])[ \t]*(?:\w+\.)*(?:versionNameSuffix|setVersionNameSuffix(?=[ \t]*\())(?![\w.])[ \t]*(?:=(?!=)|(?=["'(\w$]))/gm;
/** A suffix such as `-${hash()}`, which leaves the numbers of the version as they are, and none. */
const WITHOUT_NUMBER = /^[\s(]*(?:["'](?:[-+_ (]|["'])|null\b)/;
/** The build number, which may be part of the version. */
const NUMBER = /(?<=^|[{;])[ \t]*(versionCode)[ \t]+(?=["'(\w$])/gm;
const DEFINITION =
	/(?<=^|[{;(])[ \t]*(?:(?:def|val|var|final|const|private|internal|static|String|int|Integer)[ \t]+)*(?:\w+\.)*(\w+)(?:[ \t]*:[ \t]*\w+\??)?[ \t]*(?:=(?!=)|\bby[ \t]+extra(?=[ \t]*\())/gm;
/**
 * `ext["x"] = …`, `extra.set("x", …)`, `set("x", …)`; the content of the string is blank in the
 * text that is searched.
 */
const KEYED =
	/\b(?:ext|extra)(?:\[|\.set\()[ \t]*["'](\s*)["'][ \t]*(?:\][ \t]*=(?!=)|,)|(?<=^|[{;])[ \t]*set\([ \t]*["'](\s*)["'][ \t]*,/gm;

interface Values {
	/** Expressions of a name. */
	readonly expressions: Map<string, string[]>;
	/** Plain text of a name. */
	readonly texts: Map<string, string[]>;
}

const add = (map: Map<string, string[]>, name: string, value: string) =>
	map.set(name, [...(map.get(name) ?? []), value]);

/**
 * @param folder of the Android project, in the directory of the app
 * @param packageVersion for scripts that read package.json
 */
export async function gradleVersions(
	directory: string,
	folder: string,
	packageVersion: string | undefined,
): Promise<FoundVersions> {
	const scripts = await scriptsOf(directory, folder);
	const script = APP_SCRIPTS.map((path) => join(folder, path)).find((path) => scripts.has(path));
	if (script === undefined) return { versions: [], unreadable: [] };
	const values = await valuesOf(directory, folder, scripts, packageVersion);
	const versions: string[] = [];
	const suffixes: string[] = [];
	const unreadable: Unreadable[] = [];
	for (const [file, { code, bare }] of scripts) {
		const read = (statement: RegExp, isReadable: (text: string) => boolean, found: string[]) => {
			for (const match of bare.matchAll(statement)) {
				const start = match.index + match[0].length;
				const expression = code.slice(start, endOfExpression(bare, start));
				if (statement === SUFFIX && WITHOUT_NUMBER.test(expression)) continue;
				const texts = evaluate(expression, values, DEEPEST);
				if (texts === undefined || texts.length === 0 || !texts.every(isReadable))
					unreadable.push({ file, line: lineAt(bare, start) });
				else found.push(...texts);
			}
		};
		read(SETTING, (text) => readVersion(text) !== null, versions);
		read(SUFFIX, () => true, suffixes);
	}
	if (versions.length === 0 && unreadable.length === 0) {
		const found = await manifestVersion(directory, folder, script);
		versions.push(...found.versions);
		unreadable.push(...found.unreadable);
	}
	const suffixed = versions.flatMap((version) => suffixes.map((suffix) => version + suffix));
	return { versions: [...versions, ...suffixed], unreadable };
}

/** Scripts without a version leave it to the manifest. */
async function manifestVersion(directory: string, folder: string, script: string): Promise<FoundVersions> {
	const file = join(folder, MANIFEST);
	const { code } = sourceOf((await readText(join(directory, file))) ?? "", XML);
	const match = /\bandroid:versionName\s*=\s*["']([^"']*)["']/.exec(code);
	if (match === null) return { versions: [], unreadable: [{ file: script, line: undefined }] };
	if (/^[@$]/.test(match[1] ?? "")) return { versions: [], unreadable: [{ file, line: lineAt(code, match.index) }] };
	return { versions: [match[1] ?? ""], unreadable: [] };
}

const syntaxOf = (path: string): Syntax => (path.endsWith(".kts") ? KOTLIN : GROOVY);

/** The scripts of the app, by path, with those that they apply. */
async function scriptsOf(directory: string, folder: string): Promise<Map<string, Source>> {
	const scripts = new Map<string, Source>();
	const paths = [...APP_SCRIPTS, ...OTHER_SCRIPTS].map((path) => join(folder, path));
	for (let path = paths.shift(); path !== undefined && scripts.size < MOST_SCRIPTS; path = paths.shift()) {
		if (scripts.has(path)) continue;
		const text = await readText(join(directory, path));
		if (text === undefined) continue;
		const source = sourceOf(text, syntaxOf(path));
		scripts.set(path, source);
		for (const [, applied = ""] of source.code.matchAll(
			/\bapply\s*\(?\s*from\s*[:=]\s*(?:[\w.]*file\(\s*)?["']([^"']+)["']/g,
		)) {
			paths.push(...placesOf(path, applied, folder));
		}
	}
	return scripts;
}

/**
 * Candidates for a path that a script names: beside the script, in the root of the Android project,
 * or in that of the app.
 */
function placesOf(script: string, path: string, folder: string): string[] {
	const plain = path.replace(/^\$\{?\w*(?:[rR]ootDir|rootProject\.projectDir|projectDir)\}?\/?/, "");
	const folders = plain === path ? [dirname(script), folder, join(folder, "app")] : [folder, join(folder, "app")];
	// A path that leaves the project is not read.
	return folders
		.map((each) => normalize(join(each, plain)))
		.filter((each) => !each.startsWith("..") && !/^[\\/]/.test(plain));
}

async function valuesOf(
	directory: string,
	folder: string,
	scripts: ReadonlyMap<string, Source>,
	packageVersion: string | undefined,
): Promise<Values> {
	const values: Values = { expressions: new Map(), texts: new Map() };
	const propertyFiles = new Set([...PROPERTY_FILES.map((path) => join(folder, path)), APP_PROPERTIES]);
	for (const [path, { code, bare }] of scripts) {
		for (const match of [...bare.matchAll(DEFINITION), ...bare.matchAll(NUMBER)]) {
			const start = match.index + match[0].length;
			add(values.expressions, match[1] ?? "", code.slice(start, endOfExpression(bare, start)));
		}
		for (const match of bare.matchAll(KEYED)) {
			const start = match.index + match[0].length;
			const name = /["']([^"']*)["']/.exec(code.slice(match.index, start))?.[1] ?? "";
			add(values.expressions, name, code.slice(start, endOfExpression(bare, start)));
		}
		for (const [, file = ""] of code.matchAll(/["']([^"'\n]+\.properties)["']/g)) {
			for (const place of placesOf(path, file, folder)) propertyFiles.add(place);
		}
		if (code.includes("package.json") && packageVersion !== undefined)
			add(values.texts, "package.json", packageVersion);
	}
	for (const path of propertyFiles) {
		const { code } = sourceOf((await readText(join(directory, path))) ?? "", PROPERTIES);
		for (const [, name = "", value = ""] of code.matchAll(/^[ \t]*([\w.-]+)[ \t]*[=:][ \t]*(.*?)[ \t\r]*$/gm)) {
			add(values.texts, name, value);
		}
	}
	const { code } = sourceOf((await readText(join(directory, folder, CATALOG))) ?? "", TOML);
	const catalog = /^\s*\[versions\]([\s\S]*?)(?=^\s*\[|$(?![\s\S]))/m.exec(code)?.[1] ?? "";
	for (const [, name = "", value = ""] of catalog.matchAll(CATALOG_VERSION)) {
		add(values.texts, `libs.versions.${name.replace(/[-_]/g, ".")}`, value);
	}
	return values;
}

/** `app = "1.2.3"`, `app = { strictly = "1.2.3" }`. */
const CATALOG_VERSION =
	/^\s*["']?([\w.-]+)["']?\s*=\s*(?:\{[^}\n]*?\b(?:strictly|require|prefer)\s*=\s*)?["']([^"'\n]*)["']/gm;

/**
 * Every value that the expression may have; undefined if one of them cannot be read, and empty for
 * a name that is defined by itself.
 */
function evaluate(expression: string, values: Values, depth: number): string[] | undefined {
	const code = plain(expression);
	if (depth === 0) return [];
	const { bare } = sourceOf(code, GROOVY);
	const below = (part: string) => evaluate(part, values, depth - 1);
	const all = (parts: readonly string[]) => {
		const found = parts.map(below);
		return found.includes(undefined) ? undefined : found.flatMap((each) => each ?? []);
	};
	const choice = /^if\s*\(/.test(bare) ? splitAt(code, bare, /\belse\b/y) : [];
	if (choice.length > 1) return all(choice.map((part) => withoutCondition(part)));
	const others = splitAt(code, bare, /\?:/y);
	if (others.length > 1) return all(others);
	const [, ...branches] = splitAt(code, bare, /\?(?!\.)/y);
	if (branches.length > 0) {
		const rest = branches.join("?");
		return all(splitAt(rest, sourceOf(rest, GROOVY).bare, /:/y));
	}
	const parts = splitAt(code, bare, /\+/y);
	if (parts.length > 1) return joined(parts.map(below));
	const text = /^("""|'''|"|')([\s\S]*)\1$/.exec(code);
	if (text !== null && /^(["'])[\s]*\1$/.test(bare)) {
		return text[1]?.startsWith('"') === true ? interpolated(text[2] ?? "", below) : [text[2] ?? ""];
	}
	if (/^\d+$/.test(code)) return [code];
	return named(code, below, values);
}

/** Without brackets around it and conversions after it. */
function plain(expression: string): string {
	let code = expression.trim();
	for (let before = ""; before !== code; ) {
		before = code;
		code = code.replace(/(?:\s+as\s+\w+\??|!!|\??\.(?:toString|trim|get)\(\)|\??\.(?:orNull|value))$/, "").trim();
		const { bare } = sourceOf(code, GROOVY);
		if (bare.startsWith("(") && endOfExpression(bare, 1) === bare.length - 1) code = code.slice(1, -1).trim();
	}
	return code;
}

function withoutCondition(part: string): string {
	const code = part.trim();
	const open = /^if\s*\(/.exec(code);
	const rest =
		open === null ? code : code.slice(endOfExpression(sourceOf(code, GROOVY).bare, open[0].length) + 1).trim();
	return /^\{[\s\S]*\}$/.test(rest) ? rest.slice(1, -1) : rest;
}

function joined(parts: readonly (string[] | undefined)[]): string[] | undefined {
	let texts = [""];
	for (const part of parts) {
		if (part === undefined) return undefined;
		texts = texts.flatMap((text) => part.map((each) => text + each)).slice(0, 1_000);
	}
	return texts;
}

function interpolated(text: string, below: (expression: string) => string[] | undefined): string[] | undefined {
	const parts: (string[] | undefined)[] = [];
	let at = 0;
	for (const match of text.matchAll(/(?<!\\)\$(?:\{([^{}]*)\}|([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*))/g)) {
		parts.push([text.slice(at, match.index)], below(match[1] ?? match[2] ?? ""));
		at = match.index + match[0].length;
	}
	return joined([...parts, [text.slice(at)]]);
}

/** `versionProps["X"]`, `project.findProperty("X")`, `getProperty("X", "1.0")`. */
const LOOKUP =
	/^([\w.]*?)\.?(?:\[\s*["']([\w.-]+)["']\s*\]|(?:property|findProperty|getProperty|gradleProperty|get)\(\s*["']([\w.-]+)["']\s*(?:,[\s\S]*)?\))$/;

function named(
	code: string,
	below: (expression: string) => string[] | undefined,
	{ expressions, texts }: Values,
): string[] | undefined {
	const catalog = texts.get(code);
	if (catalog !== undefined) return catalog;
	const lookup = LOOKUP.exec(code);
	// The environment of a build is another machine's.
	if (/^System\b/.test(code)) return undefined;
	const name = lookup?.[2] ?? lookup?.[3] ?? /^(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)$/.exec(code)?.[1];
	if (name === undefined) return undefined;
	const defined = (expressions.get(name) ?? []).map(below);
	if (defined.includes(undefined)) return undefined;
	const found = [...defined.flatMap((each) => each ?? []), ...(texts.get(name) ?? [])];
	if (found.length > 0 || defined.length > 0) return found;
	return name === "version" ? texts.get("package.json") : undefined;
}
