/**
 * The build folder as a bundle: its files with their hashes, one digest for the whole content, and
 * a zip whose bytes depend on the content alone, so that the same build is recognized on every
 * machine.
 */
import { createHash } from "node:crypto";
import { readdir, readFile, realpath, stat } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { type Zippable, zipSync } from "fflate";
import { usage } from "./failure";

export interface BuildFile {
	/** Relative, with slashes. */
	readonly name: string;
	readonly path: string;
	readonly sizeBytes: number;
	/** Lower-case hexadecimal. */
	readonly sha256: string;
}

export interface Build {
	readonly folder: string;
	/** By name. */
	readonly files: readonly BuildFile[];
	readonly sizeBytes: number;
	/** SHA-256 of the names and hashes of all files. */
	readonly digest: string;
	readonly confirmsStart: boolean;
	/** Files of the folder that are not in the bundle, by name. */
	readonly leftOut: readonly string[];
}

/** Files that belong to no bundle unless somebody asks for them. */
interface Included {
	readonly hidden: boolean;
	readonly sourceMaps: boolean;
}

/** Files that operating systems leave behind. */
const STRAY = new Set([".DS_Store", "Thumbs.db", "desktop.ini"]);
const MOST_FILES = 10_000;

export const sha256 = (bytes: Uint8Array | string) => createHash("sha256").update(bytes).digest("hex");

/** The app links of Android and iOS are in it. */
const WELL_KNOWN = ".well-known";
/** Their content is compressed already. */
export const COMPRESSED =
	/\.(?:7z|avif|br|bz2|gif|gz|heic|jpe?g|m4[av]|mkv|mov|mp[34]|og[agv]|opus|pdf|png|webm|webp|woff2?|xz|zip|zst)$/i;

const isHidden = (name: string) => name.split("/").some((part) => part.startsWith(".") && part !== WELL_KNOWN);
const isSourceMap = (name: string) => name.toLowerCase().endsWith(".map");

export async function readBuild(
	folder: string,
	included: Included = { hidden: false, sourceMaps: false },
): Promise<Build> {
	const root = await realpath(folder).catch(() => undefined);
	if (root !== undefined && (await stat(root)).isFile()) {
		const message = `${folder} is a file; name the folder that your web build writes.`;
		throw usage("build_not_found", message, { folder });
	}
	if (root === undefined || !(await stat(root)).isDirectory()) {
		throw usage(
			"build_not_found",
			`The build folder ${folder} does not exist; build your app first, or name another folder.`,
			{
				folder,
			},
		);
	}
	if ((await stat(join(root, "index.html")).catch(() => undefined))?.isFile() !== true) {
		throw usage(
			"missing_index_html",
			`${folder} has no index.html at its top, the page that devices start; name the folder that your web build writes.`,
			{
				folder,
			},
		);
	}
	const files: BuildFile[] = [];
	let confirmsStart = false;
	const belongs = (name: string) => (included.hidden || !isHidden(name)) && (included.sourceMaps || !isSourceMap(name));
	const { names, leftOut } = await namesIn(root, belongs);
	for (const name of names) {
		const path = join(root, name);
		const bytes = await readFile(path);
		if (/\.(html?|[cm]?js)$/.test(name) && bytes.includes("notifyAppReady")) confirmsStart = true;
		files.push({ name: name.split(sep).join("/"), path, sizeBytes: bytes.length, sha256: sha256(bytes) });
	}
	files.sort((one, other) => (one.name < other.name ? -1 : 1));
	if (files.length > MOST_FILES) {
		throw usage("too_many_files", `${folder} has ${files.length} files; a bundle has at most ${MOST_FILES}.`, {
			folder,
		});
	}
	return {
		folder,
		files,
		sizeBytes: files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
		digest: sha256(files.map((file) => `${file.sha256} ${file.name}\n`).join("")),
		confirmsStart,
		leftOut: leftOut.sort(),
	};
}

/**
 * Names of the files below the folder, those that belong to the bundle apart. A link may lead to
 * another file of the folder only.
 */
async function namesIn(root: string, belongs: (name: string) => boolean) {
	const names: string[] = [];
	const leftOut: string[] = [];
	for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
		const path = join(entry.parentPath, entry.name);
		if (STRAY.has(entry.name) || entry.isDirectory()) continue;
		const shown = relative(root, path).split(sep).join("/");
		if (!belongs(shown)) {
			leftOut.push(shown);
			continue;
		}
		if (entry.isSymbolicLink()) {
			const target = await realpath(path).catch(() => "");
			const isInside = target.startsWith(`${root}${sep}`) && (await stat(target)).isFile();
			if (!isInside) {
				throw usage(
					"link_leaves_build",
					`${relative(root, path)} is a symbolic link to something outside the build folder, or not to a file. Replace the link with a copy of the file.`,
					{ file: relative(root, path) },
				);
			}
		} else if (!entry.isFile()) {
			throw usage(
				"not_a_file",
				`${relative(root, path)} is a pipe, a socket or a device, which a bundle cannot contain. Remove it from the build folder.`,
				{ file: relative(root, path) },
			);
		}
		names.push(relative(root, path));
	}
	return { names, leftOut };
}

export async function zipOf(build: Build): Promise<Uint8Array<ArrayBuffer>> {
	const entries: Zippable = {};
	for (const { name, path } of build.files) {
		entries[name] = [await readFile(path), { level: COMPRESSED.test(name) ? 0 : 6 }];
	}
	// Zip times are local, so a local time gives the same bytes in every time zone.
	return zipSync(entries, { mtime: new Date(2000, 0, 1) }) as Uint8Array<ArrayBuffer>;
}
