/**
 * The project in a directory: a Capacitor configuration, or the place where an Electron app creates
 * its updater, with the values that commands need. Configuration files are read as text and never
 * executed. One directory may hold both; then the command, the app or the installed updater decides.
 */
import { readdir, stat } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { checkoutOf, upwards } from "./git";
import type { FoundVersions } from "./gradle-versions";
import { jsonObject, plainJson, readJsonObject, readText } from "./json-file";
import { found, type Literal, type ObjectLiteral, objectAt, readLiteral, rootObject } from "./source-object";
import { storeVersionsOf } from "./store-versions";

/** In the order in which Capacitor looks for them, and then those of other tools. */
const CAPACITOR_CONFIGS = ["ts", "js", "json", "mts", "mjs", "cjs"].map((ending) => `capacitor.config.${ending}`);
/** Output folders of common web builds, for projects that name none. */
const BUILD_FOLDERS = ["dist", "www", "build", "out"] as const;
const ELECTRON_UPDATER = /new\s+ElectronUpdater\s*\(\s*\{/;
const NOT_SEARCHED = new Set(["node_modules", "dist", "build", "out", "www", "coverage", "ios", "android"]);
const MOST_SEARCHED_FILES = 2_000;

interface ConfigFile {
	/** Relative to the project. */
	readonly path: string;
	readonly text: string;
	readonly isJson: boolean;
	/** JSON with comments or commas after last values, which Capacitor itself does not read. */
	readonly hasComments: boolean;
	/** Position of the object literal; undefined if it is computed. */
	readonly root: ObjectLiteral | undefined;
}

export const PLATFORMS = ["capacitor", "electron"] as const;
export type Platform = (typeof PLATFORMS)[number];

export interface Project {
	readonly directory: string;
	readonly kind: Platform | "none";
	/** Both are here. */
	readonly hasBoth: boolean;
	/** Both are here, and nothing says which one is meant. */
	readonly isAmbiguous: boolean;
	readonly config: ConfigFile | undefined;
	readonly appId: string | undefined;
	readonly appName: string | undefined;
	readonly webDir: string | undefined;
	/** Origin of the server that the app asks for updates. */
	readonly server: string | undefined;
	readonly packageVersion: string | undefined;
	/** Versions of the store builds in the native projects. */
	readonly storeVersions: FoundVersions;
	readonly dependencies: Readonly<Record<string, string>>;
	setting(...path: readonly string[]): Literal | undefined;
}

interface PackageJson {
	readonly name?: string;
	readonly version?: string;
	readonly dependencies?: Readonly<Record<string, string>>;
	readonly devDependencies?: Readonly<Record<string, string>>;
}

/** The project that is meant where a directory holds two. */
interface Meant {
	readonly platform?: Platform | undefined;
	readonly appId?: string | undefined;
}

export async function readProject(directory: string, meant: Meant = {}): Promise<Project> {
	const capacitor = await capacitorConfig(directory);
	const { version, dependencies, devDependencies, name } = await packageJson(directory, capacitor !== undefined);
	const packages = { ...dependencies, ...devDependencies };
	const usesElectron = packages["@capgo/electron-updater"] !== undefined || packages.electron !== undefined;
	const electron = usesElectron || meant.platform === "electron" ? await electronConfig(directory) : undefined;
	const hasBoth = capacitor !== undefined && usesElectron;
	const known = meant.platform ?? (hasBoth ? decided(meant.appId, packages, capacitor, electron) : undefined);
	const kind = known ?? (capacitor !== undefined ? "capacitor" : usesElectron ? "electron" : "none");
	const config = kind === "electron" ? electron : capacitor;
	const setting = (...path: readonly string[]) => read(config, ...path);
	const plugin = (field: string) =>
		textOf(kind === "electron" ? setting(field) : setting("plugins", "CapacitorUpdater", field));
	return {
		directory,
		kind,
		hasBoth,
		isAmbiguous: hasBoth && known === undefined,
		config,
		appId: plugin("appId") ?? textOf(setting("appId")),
		appName: textOf(setting("appName")) ?? name,
		// Electron's updater names no folder, and in one directory both usually have the same build.
		webDir: folderOf(setting("webDir")) ?? folderOf(read(capacitor, "webDir")) ?? (await buildFolder(directory)),
		server: originOf(plugin("localApi")) ?? originOf(plugin("updateUrl")),
		packageVersion: version,
		storeVersions: await storeVersionsOf(directory, {
			android: textOf(setting("android", "path")) ?? "android",
			ios: textOf(setting("ios", "path")) ?? "ios",
			configured: plugin("version"),
			packageVersion: version,
			isElectron: kind === "electron",
		}),
		dependencies: packages,
		setting,
	};
}

/**
 * The file of the directory. An app that has none, such as in a workspace of Nx, has the nearest
 * one above it in the repository.
 */
async function packageJson(directory: string, isApp: boolean): Promise<PackageJson> {
	const checkout = isApp ? await checkoutOf(directory) : { root: directory, folder: "" };
	for (const at of upwards(checkout)) {
		const path = relative(directory, join(checkout.root, at, "package.json"));
		const found = await readJsonObject<PackageJson>(directory, path);
		if (found !== undefined) return found;
	}
	return {};
}

const read = (config: ConfigFile | undefined, ...path: readonly string[]) =>
	config?.root === undefined ? undefined : readLiteral(config.text, config.root, path);

/** By the app that is named, and then by the only updater that is installed. */
function decided(
	appId: string | undefined,
	packages: Readonly<Record<string, string>>,
	capacitor: ConfigFile | undefined,
	electron: ConfigFile | undefined,
): Platform | undefined {
	const isCapacitor = read(capacitor, "appId") === appId;
	const isElectron = read(electron, "appId") === appId;
	if (appId !== undefined && isCapacitor !== isElectron) return isCapacitor ? "capacitor" : "electron";
	const [ofCapacitor, ofElectron] = PLATFORMS.map((name) => packages[UPDATERS[name]] !== undefined);
	return ofCapacitor === ofElectron ? undefined : ofCapacitor ? "capacitor" : "electron";
}

/** The packages of the updaters. */
export const UPDATERS: Readonly<Record<Platform, string>> = {
	capacitor: "@capgo/capacitor-updater",
	electron: "@capgo/electron-updater",
};

const textOf = (value: Literal | undefined) => (typeof value === "string" && value !== "" ? value : undefined);

/** A folder that was written on Windows is read on every system, such as the one of CI. */
const folderOf = (value: Literal | undefined) => textOf(value)?.replaceAll("\\", "/");

export function originOf(address: string | undefined): string | undefined {
	if (address === undefined || !URL.canParse(address)) return undefined;
	const { origin, protocol } = new URL(address);
	return protocol === "https:" || protocol === "http:" ? origin : undefined;
}

async function capacitorConfig(directory: string): Promise<ConfigFile | undefined> {
	for (const path of CAPACITOR_CONFIGS) {
		const file = await configFile(directory, path);
		if (file !== undefined) return file.root === undefined ? ((await exportedFile(directory, file)) ?? file) : file;
	}
	return undefined;
}

async function configFile(directory: string, path: string): Promise<ConfigFile | undefined> {
	const text = await readText(join(directory, path));
	if (text === undefined) return undefined;
	const isJson = path.endsWith(".json");
	const plain = isJson ? plainJson(text) : text;
	if (isJson) jsonObject(path, plain);
	return { path, text, isJson, hasComments: plain !== text, root: found(() => rootObject(text, isJson)) };
}

/** A file that only passes another one on; the name stands for the same in both groups. */
const PASSED_ON = [
	/^export\s*\{\s*default\s*\}\s*from\s*["'](?<from>\.[^"']+)["']/m,
	/^import\s+(?<name>[\w$]+)\s+from\s*["'](?<from>\.[^"']+)["'][\s\S]*^export\s+default\s+\k<name>\s*;?\s*$/m,
	/^module\.exports\s*=\s*require\(\s*["'](?<from>\.[^"']+)["']\s*\)/m,
];
const SOURCE_ENDINGS = ["", ".ts", ".js", ".json", ".mts", ".mjs", ".cjs"];

/** The file with the object that a configuration passes on. */
async function exportedFile(directory: string, { path, text }: ConfigFile): Promise<ConfigFile | undefined> {
	const from = PASSED_ON.map((form) => form.exec(text)?.groups?.from).find((each) => each !== undefined);
	if (from === undefined) return undefined;
	// TypeScript names the file by the ending that it is compiled to.
	const names = [...SOURCE_ENDINGS.map((ending) => from + ending), from.replace(/\.([cm]?)js$/, ".$1ts")];
	for (const name of names) {
		const named = join(dirname(path), name);
		const isFile = (await stat(join(directory, named)).catch(() => undefined))?.isFile() === true;
		const file = isFile ? await configFile(directory, named) : undefined;
		if (file?.root !== undefined) return file;
	}
	return undefined;
}

/** The source file that creates the updater of an Electron app. */
async function electronConfig(directory: string): Promise<ConfigFile | undefined> {
	for (const path of await sourceFiles(directory)) {
		const text = (await readText(path)) ?? "";
		const match = ELECTRON_UPDATER.exec(text);
		if (match === null) continue;
		const root = found(() => objectAt(text, match.index + match[0].length - 1));
		return { path: relative(directory, path), text, isJson: false, hasComments: false, root };
	}
	return undefined;
}

async function sourceFiles(directory: string): Promise<string[]> {
	const files: string[] = [];
	const folders = [directory];
	for (
		let folder = folders.shift();
		folder !== undefined && files.length < MOST_SEARCHED_FILES;
		folder = folders.shift()
	) {
		for (const entry of await readdir(folder, { withFileTypes: true }).catch(() => [])) {
			if (entry.isDirectory() && !NOT_SEARCHED.has(entry.name) && !entry.name.startsWith(".")) {
				folders.push(join(folder, entry.name));
			} else if (entry.isFile() && /\.[cm]?[jt]sx?$/.test(entry.name)) files.push(join(folder, entry.name));
		}
	}
	return files;
}

async function buildFolder(directory: string): Promise<string | undefined> {
	for (const folder of BUILD_FOLDERS) {
		const page = await stat(join(directory, folder, "index.html")).catch(() => undefined);
		if (page?.isFile() === true) return folder;
	}
	return undefined;
}
