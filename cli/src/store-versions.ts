/**
 * The versions of a project's store builds, of every flavor, target and configuration, because
 * devices refuse a bundle that is older than their store build. A place that names a version in a
 * way that cannot be read is reported, never skipped.
 */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { readVersion } from "../../src/domain/updates/version";
import { type FoundVersions, gradleVersions, type Unreadable } from "./gradle-versions";
import { readJsonObject, readText } from "./json-file";
import { lineAt, PBXPROJ, sourceOf, XCCONFIG, XML } from "./source-text";

interface NativeProjects {
	/** Folders in the directory of the app, as Capacitor's configuration names them. */
	readonly android: string;
	readonly ios: string;
	/** The version that the plugin reports in place of the store build's. */
	readonly configured: string | undefined;
	readonly packageVersion: string | undefined;
	/** The package is an Electron app, which reports the version of its package. */
	readonly isElectron: boolean;
}

export async function storeVersionsOf(directory: string, projects: NativeProjects): Promise<FoundVersions> {
	const { configured, packageVersion, isElectron } = projects;
	const found = await Promise.all([
		gradleVersions(directory, projects.android, packageVersion),
		xcodeVersions(directory, projects.ios),
		electronVersion(directory, "electron/package.json"),
		...(isElectron ? [electronVersion(directory, "package.json")] : []),
	]);
	const versions = [...(configured === undefined ? [] : [configured]), ...found.flatMap((each) => each.versions)];
	const unreadable = configured === undefined ? found.flatMap((each) => each.unreadable) : [];
	return { versions: [...new Set(versions)], unreadable };
}

/**
 * The package of an Electron app, which the community platform of Capacitor keeps in its own
 * folder.
 */
async function electronVersion(directory: string, file: string): Promise<FoundVersions> {
	const found = await readJsonObject<ElectronPackage>(directory, file);
	// electron-builder writes these fields over those of the package.
	const version = found?.build?.extraMetadata?.version ?? found?.version;
	if (version === undefined) return { versions: [], unreadable: [] };
	return typeof version === "string" && readVersion(version) !== null
		? { versions: [version], unreadable: [] }
		: { versions: [], unreadable: [{ file, line: undefined }] };
}

interface ElectronPackage {
	readonly version?: unknown;
	readonly build?: { readonly extraMetadata?: { readonly version?: unknown } };
}

const NOT_SEARCHED =
	/^(?:Pods|build|DerivedData|node_modules|public|SourcePackages|\..*|.*\.(?:xcassets|framework|xcframework|lproj))$/;
const DEEPEST_FOLDER = 4;
const MOST_FILES = 200;
const SETTINGS_FILE = /\.(?:pbxproj|xcconfig)$/;
const PLIST = /Info\.plist$/i;

async function xcodeFiles(directory: string, root: string): Promise<string[]> {
	const files: string[] = [];
	const walk = async (folder: string, depth: number): Promise<void> => {
		const entries = await readdir(join(directory, folder), { withFileTypes: true }).catch(() => []);
		for (const entry of entries.sort((one, other) => (one.name < other.name ? -1 : 1))) {
			const path = `${folder}/${entry.name}`;
			if (entry.isDirectory() && depth < DEEPEST_FOLDER && !NOT_SEARCHED.test(entry.name)) await walk(path, depth + 1);
			else if (entry.isFile() && (SETTINGS_FILE.test(path) || PLIST.test(path)) && files.length < MOST_FILES)
				files.push(path);
		}
	};
	await walk(root, 0);
	return files;
}

interface Place {
	readonly file: string;
	readonly line: number;
	readonly value: string;
}

/** The settings of every target and configuration, by name. */
type BuildSettings = ReadonlyMap<string, readonly Place[]>;

async function xcodeVersions(directory: string, folder: string): Promise<FoundVersions> {
	const files = await xcodeFiles(directory, folder);
	const texts = await Promise.all(
		files.map(async (file) => ({ file, text: (await readText(join(directory, file))) ?? "" })),
	);
	const project = files.find((file) => file.endsWith(".pbxproj"));
	const settings = settingsOf(texts.filter(({ file }) => SETTINGS_FILE.test(file)));
	const places = [
		...(settings.get("MARKETING_VERSION") ?? []),
		...texts.filter(({ file }) => PLIST.test(file)).flatMap(plistVersion),
	];
	const versions: string[] = [];
	const unreadable: Unreadable[] = [];
	for (const { file, line, value } of places) {
		const found = expanded(value, settings, DEEPEST_FOLDER);
		if (found === undefined || found.some((version) => readVersion(version) === null)) unreadable.push({ file, line });
		else versions.push(...found);
	}
	if (project !== undefined && places.length === 0) unreadable.push({ file: project, line: undefined });
	return { versions, unreadable };
}

/** `NAME = value;` of a project, `NAME[sdk=iphoneos*] = value` of a configuration file. */
const PROJECT_SETTING = /(?<=^|[{;])\s*"?([A-Za-z_]\w*)(?:\[[^\]\n]*\])*"?\s*=\s*("(?:[^"\\]|\\.)*"|[^\s;"{(]+)\s*;/gm;
const CONFIG_SETTING = /^[ \t]*([A-Za-z_]\w*)(?:\[[^\]\n]*\])*[ \t]*=[ \t]*(.*?)[ \t;]*\r?$/gm;

function settingsOf(texts: readonly { readonly file: string; readonly text: string }[]): BuildSettings {
	const settings = new Map<string, Place[]>();
	for (const { file, text } of texts) {
		const isProject = file.endsWith(".pbxproj");
		const { code } = sourceOf(text, isProject ? PBXPROJ : XCCONFIG);
		for (const match of code.matchAll(isProject ? PROJECT_SETTING : CONFIG_SETTING)) {
			const [whole, name = "", value = ""] = match;
			const line = lineAt(code, match.index + whole.length - whole.trimStart().length);
			const place = { file, line, value: value.replace(/^"([\s\S]*)"$/, "$1").trim() };
			settings.set(name, [...(settings.get(name) ?? []), place]);
		}
	}
	return settings;
}

function plistVersion({ file, text }: { readonly file: string; readonly text: string }): Place[] {
	// The binary form has no text to read.
	if (text.startsWith("bplist")) return [{ file, line: 1, value: "$()" }];
	const { code } = sourceOf(text, XML);
	const match = /<key>\s*CFBundleShortVersionString\s*<\/key>\s*(?:<string>\s*([^<]*?)\s*<\/string>)?/.exec(code);
	return match === null ? [] : [{ file, line: lineAt(code, match.index), value: match[1] ?? "" }];
}

/**
 * Every value of a text with references such as `$(MAJOR).$(MINOR)`; undefined if one is defined
 * nowhere.
 */
function expanded(value: string, settings: BuildSettings, depth: number): string[] | undefined {
	const match = /\$[({]([^(){}]*)[)}]/.exec(value);
	if (match === null) return [value];
	if (depth === 0) return undefined;
	const [name = ""] = (match[1] ?? "").split(":");
	// The value of a wider scope, which is read where it is set.
	if (name === "inherited") return settings.size > 0 && value.trim() === match[0] ? [] : undefined;
	const found = settings.get(name);
	if (found === undefined) return undefined;
	const texts = found.flatMap((place) => expanded(place.value, settings, depth - 1) ?? [undefined]);
	if (texts.includes(undefined)) return undefined;
	const all = [...new Set(texts)].map(
		(text) => value.slice(0, match.index) + text + value.slice(match.index + match[0].length),
	);
	const results = all.map((text) => expanded(text, settings, depth));
	return results.includes(undefined) ? undefined : results.flatMap((each) => each ?? []);
}
