/**
 * The native packages of a project: the Capacitor and Cordova plugins among its dependencies, as
 * the stock CLI finds and hashes them, so that bundles of both commands compare. A list is whole or
 * absent, because a plugin that is missing from it would count as removed.
 */
import { createHash } from "node:crypto";
import { readdir, readFile, stat } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import type { RequestOf } from "../../src/client/client";
import { readText } from "./json-file";
import type { Project } from "./project";

export type NativePackages = NonNullable<RequestOf<"POST /bundle">["body"]["native_packages"]>;
type NativePackage = NativePackages[number];

const NATIVE_CODE = /[A-Za-z0-9]\.(java|swift|kt|scala)$/;

/** The server rejects longer ranges, such as a Git URL with a token. */
const LONGEST_RANGE = 512;

interface FoundPackages {
	/** Undefined if a dependency is not installed, and for projects without Capacitor. */
	readonly packages: NativePackages | undefined;
	/** A dependency that is not installed. */
	readonly missing: string | undefined;
}

export async function nativePackagesOf({ kind, directory, dependencies }: Project): Promise<FoundPackages> {
	if (kind !== "capacitor") return { packages: undefined, missing: undefined };
	const packages: NativePackage[] = [];
	for (const [name, requested] of Object.entries(dependencies)) {
		const folder = await installedAt(directory, name);
		if (folder === undefined) return { packages: undefined, missing: name };
		const found = await nativePackage(folder, name, requested);
		if (found !== undefined) packages.push(found);
	}
	return { packages, missing: undefined };
}

/** In the nearest node_modules, so that workspaces work. */
async function installedAt(directory: string, name: string): Promise<string | undefined> {
	for (let at = directory; ; at = dirname(at)) {
		const folder = join(at, "node_modules", name);
		if (await exists(folder)) return folder;
		if (dirname(at) === at) return undefined;
	}
}

async function nativePackage(folder: string, name: string, requested: string): Promise<NativePackage | undefined> {
	const { version, capacitor } = await packageJson(folder);
	const isPlugin =
		(await exists(join(folder, "plugin.xml"))) || capacitor?.ios !== undefined || capacitor?.android !== undefined;
	if (!isPlugin || !(await filesIn(folder)).some((file) => NATIVE_CODE.test(file))) return undefined;
	const [ios, android] = await Promise.all([
		checksumOf(folder, "ios", await podFiles(folder)),
		checksumOf(folder, "android", [join(folder, "android/build.gradle"), join(folder, "android/build.gradle.kts")]),
	]);
	return {
		name,
		version: version ?? requested,
		...(requested.length > LONGEST_RANGE ? {} : { requested_version: requested }),
		...(ios === undefined ? {} : { ios_checksum: ios }),
		...(android === undefined ? {} : { android_checksum: android }),
	};
}

interface PackageJson {
	readonly version?: string;
	readonly capacitor?: { readonly ios?: unknown; readonly android?: unknown };
}

async function packageJson(folder: string): Promise<PackageJson> {
	try {
		return JSON.parse((await readText(join(folder, "package.json"))) ?? "{}");
	} catch {
		return {};
	}
}

const podFiles = async (folder: string) => [
	...(await readdir(folder)).filter((name) => name.endsWith(".podspec")).map((name) => join(folder, name)),
	join(folder, "Package.swift"),
	join(folder, "ios/Package.swift"),
];

/**
 * Over the path and the content of each file, in the stock CLI's order. It hashes
 * `ios/Package.swift` twice.
 */
async function checksumOf(
	folder: string,
	platform: "ios" | "android",
	buildFiles: readonly string[],
): Promise<string | undefined> {
	const code = (await filesIn(join(folder, platform))).filter((file) => NATIVE_CODE.test(file));
	const files = [...code];
	for (const file of buildFiles) if (await exists(file)) files.push(file);
	if (files.length === 0) return undefined;
	const hash = createHash("sha256");
	for (const file of files.sort((one, other) => one.localeCompare(other))) {
		hash.update(relative(folder, file));
		hash.update(await readFile(file));
	}
	return hash.digest("hex");
}

const exists = (path: string) =>
	stat(path).then(
		() => true,
		() => false,
	);

/** Links are not followed. */
async function filesIn(folder: string): Promise<string[]> {
	const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
	const below = entries.map((entry) => {
		const path = join(folder, entry.name);
		return entry.isDirectory() ? filesIn(path) : [path];
	});
	return (await Promise.all(below)).flat();
}
