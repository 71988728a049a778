/**
 * The paths of a bundle's files as devices write them, for zips and manifests alike. Two files that
 * are one path on some device are refused, because one of them would be lost there.
 */
import { duplicateName, entryDefect, MOST_PATH_BYTES } from "./archive-errors";

/** The limit of the file systems of Android, iOS, macOS and Windows for one name. */
const MOST_PART_BYTES = 255;
const utf8 = new TextEncoder();

export const byteLengthOf = (text: string): number => utf8.encode(text).length;

/** Whether a folder or file name in the path has more UTF-8 bytes than devices can write. */
export const hasLongPart = (path: string): boolean =>
	path.length * 3 > MOST_PART_BYTES &&
	path.split("/").some((part) => part.length * 3 > MOST_PART_BYTES && byteLengthOf(part) > MOST_PART_BYTES);

/** Whether the whole path has more UTF-8 bytes than iOS can write below the app's folder. */
export const isLongPath = (path: string): boolean =>
	path.length * 3 > MOST_PATH_BYTES && byteLengthOf(path) > MOST_PATH_BYTES;

/** The path that an entry is unpacked to: `index.html` for `./index.html`. */
export function pathOf(name: string): string {
	const path = name.endsWith("/") ? name.slice(0, -1) : name;
	if (!/(^|\/)\.?(\/|$)/.test(path)) return path;
	return path
		.split("/")
		.filter((segment) => segment !== "" && segment !== ".")
		.join("/");
}

/**
 * The paths of an archive, compared as Windows and macOS compare them: without regard to case and
 * Unicode form. Two files with the same path there are refused, because they would overwrite each
 * other on Electron.
 */
export class NameIndex {
	/** By the compared path: the name of the file, or `true` for a folder. */
	readonly #byPath = new Map<string, string | true>();
	/** The path nearest to the top that may be meant as the start page. */
	indexPath: string | undefined;

	add({ name, isDirectory }: { readonly name: string; readonly isDirectory: boolean }): void {
		const path = pathOf(name);
		if (path === "") {
			// Windows' and macOS's tar writes an entry for the zipped folder itself.
			throw entryDefect(isDirectory ? "root_folder" : "invalid_name", name);
		}
		const compared = (/^[\0-\x7f]*$/.test(path) ? path : path.normalize("NFC")).toLowerCase();
		this.#addFolders(compared, name);
		const before = this.#byPath.get(compared);
		if (before === undefined) this.#byPath.set(compared, isDirectory ? true : name);
		else if (before !== true || !isDirectory) throw duplicateName(name, before === true ? compared : before);
		this.#noteIndex(path, isDirectory);
	}

	/** Adds every folder above the path. None of them may be a file. */
	#addFolders(path: string, name: string): void {
		for (let end = path.lastIndexOf("/"); end > 0; end = path.lastIndexOf("/", end - 1)) {
			const folder = path.slice(0, end);
			const known = this.#byPath.get(folder);
			if (known === true) return;
			if (known !== undefined) throw duplicateName(name, known);
			this.#byPath.set(folder, true);
		}
	}

	#noteIndex(path: string, isDirectory: boolean): void {
		if (isDirectory || path.startsWith("__MACOSX/") || !/(^|\/)index\.html$/i.test(path)) return;
		const depth = (text: string) => text.split("/").length;
		if (this.indexPath === undefined || depth(path) < depth(this.indexPath)) this.indexPath = path;
	}
}
