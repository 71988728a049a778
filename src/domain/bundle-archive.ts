/**
 * Decides whether a zip is a bundle that devices can unpack and start. Reads its end, its central directory and the headers before its
 * files, so the cost is bounded whatever the size of the file: at most `MOST_DIRECTORY_BYTES` of directory, and headers in
 * at most `MOST_WINDOWS` reads of `WINDOW_BYTES`. Beyond these bounds, and beyond `MOST_COMPARED_ENTRIES`, headers other than that of
 * the start page are not compared with the directory.
 *
 * Runs in the Worker and in the dashboard. Throws only `BundleArchiveError`, and what the source's `read` throws.
 */

import {
	type ArchiveEntry,
	type ArchiveSource,
	type DirectoryEntry,
	FLAG_DESCRIPTOR,
	FLAG_ENCRYPTED,
	findDirectory,
	LOCAL_HEADER,
	LOCAL_HEADER_BYTES,
	METHOD_DEFLATE,
	METHOD_STORED,
	MOST_DIRECTORY_BYTES,
	readDirectory,
	readEnd,
	viewOf,
} from "./bundle-archive-directory";
import {
	damaged,
	directoryTooLarge,
	entryDefect,
	missingIndexHtml,
	quoted,
	tooManyEntries,
	uncompressedTooLarge,
	unsupportedCompression,
} from "./bundle-archive-errors";

import { hasLongPart, NameIndex, pathOf } from "./bundle-names";

export const MOST_ENTRIES = 50_000;

/** In an archive with more entries, only the header of the start page is compared with the directory. */
const MOST_COMPARED_ENTRIES = 2_000;
/** Headers within this distance of each other are read together. */
const WINDOW_BYTES = 1024 * 1024;
export const MOST_WINDOWS = 64;

interface ArchiveRules {
	/** Limit for the sum of the unpacked sizes. */
	readonly mostUncompressedBytes: number;
	/** Called for each valid entry, before the archive as a whole has passed. */
	readonly onEntry?: (entry: ArchiveEntry) => void;
}

interface ArchiveSummary {
	readonly entries: number;
	readonly uncompressedBytes: number;
}

/** @throws {BundleArchiveError} for the first rule that the archive breaks */
export async function checkBundleArchive(source: ArchiveSource, rules: ArchiveRules): Promise<ArchiveSummary> {
	const end = await readEnd(source);
	const directory = await findDirectory(end);
	if (directory.entries > MOST_ENTRIES) throw tooManyEntries(directory.entries, MOST_ENTRIES);
	if (directory.lengthBytes > MOST_DIRECTORY_BYTES) throw directoryTooLarge(MOST_DIRECTORY_BYTES);
	const names = new NameIndex();
	const layout = new Layout(directory.offset);
	let uncompressedBytes = 0;
	let index: DirectoryEntry | undefined;
	const compared: DirectoryEntry[] = [];
	for await (const entry of readDirectory(end, directory)) {
		refuseUnreadable(entry);
		names.add(entry);
		layout.add(entry);
		uncompressedBytes += entry.uncompressedBytes;
		if (uncompressedBytes > rules.mostUncompressedBytes) throw uncompressedTooLarge(rules.mostUncompressedBytes);
		if (pathOf(entry.name) === INDEX_HTML) index = entry;
		if (directory.entries <= MOST_COMPARED_ENTRIES) compared.push(entry);
		rules.onEntry?.(entry);
	}
	layout.refuseOverlaps();
	if (index === undefined || index.isDirectory) throw missingIndexHtml(names.indexPath);
	await refuseFalseHeaders(end, directory.entries <= MOST_COMPARED_ENTRIES ? [index, ...compared] : [index]);
	return { entries: directory.entries, uncompressedBytes };
}

export type ArchiveFile = Pick<ArchiveEntry, "crc32" | "uncompressedBytes" | "compressedBytes">;

/** The files of an archive that passed the check, by path. Undefined if the directory has more than `mostBytes`. */
export async function archiveFiles(
	source: ArchiveSource,
	mostBytes: number,
): Promise<Map<string, ArchiveFile> | undefined> {
	const end = await readEnd(source);
	const directory = await findDirectory(end);
	if (directory.lengthBytes > mostBytes) return undefined;
	const files = new Map<string, ArchiveFile>();
	for await (const { isDirectory, name, crc32, uncompressedBytes, compressedBytes } of readDirectory(end, directory)) {
		if (!isDirectory) files.set(pathOf(name), { crc32, uncompressedBytes, compressedBytes });
	}
	return files;
}

const INDEX_HTML = "index.html";

/** @throws {BundleArchiveError} for an entry that breaks a rule by itself */
function refuseUnreadable(entry: DirectoryEntry): void {
	const { name } = entry;
	if (name === "" || name.includes("\0")) throw entryDefect("invalid_name", name);
	if (name.includes("\\")) throw entryDefect("backslash_path", name);
	if (name.startsWith("/")) throw entryDefect("absolute_path", name);
	if (/^[a-z]:/i.test(name)) throw entryDefect("drive_letter_path", name);
	if (/(^|\/)\.\.(\/|$)/.test(name)) throw entryDefect("parent_path", name);
	if (hasLongPart(name)) throw entryDefect("name_too_long", name);
	if (entry.isSymlink) throw entryDefect("symlink", name);
	if (entry.isEncrypted) throw entryDefect("encrypted_entry", name);
	if (entry.method !== METHOD_STORED && entry.method !== METHOD_DEFLATE)
		throw unsupportedCompression(name, entry.method);
	if (entry.method === METHOD_STORED && entry.hasDescriptor) throw entryDefect("stored_with_descriptor", name);
	if (entry.method === METHOD_STORED && entry.compressedBytes !== entry.uncompressedBytes) {
		throw damaged(`the sizes of ${quoted(name)} contradict each other`);
	}
}

/** Byte ranges of the entries. Overlapping entries indicate a zip bomb, because no archiver writes them. */
class Layout {
	readonly #starts: number[] = [];
	readonly #ends: number[] = [];
	constructor(readonly directoryOffset: number) {}

	add({ headerOffset, nameBytes, compressedBytes, name }: DirectoryEntry): void {
		const end = headerOffset + LOCAL_HEADER_BYTES + nameBytes.length + compressedBytes;
		if (end > this.directoryOffset) throw damaged(`${quoted(name)} reaches beyond the end of the file`);
		this.#starts.push(headerOffset);
		this.#ends.push(end);
	}

	refuseOverlaps(): void {
		const [starts, ends] = [this.#starts, this.#ends];
		const order = starts.map((_, index) => index).sort((one, two) => (starts[one] ?? 0) - (starts[two] ?? 0));
		// Devices unpack from the first byte on; bytes before the first entry hide every entry from them.
		if ((starts[order[0] ?? 0] ?? 0) !== 0) throw damaged("its first entry does not begin at its first byte");
		let reached = 0;
		for (const index of order) {
			if ((starts[index] ?? 0) < reached) throw damaged("its entries overlap");
			reached = ends[index] ?? 0;
		}
	}
}

/**
 * Compares the headers before the files with the directory. Streaming unpackers read only these headers, so devices would unpack other
 * files than the checked ones if the two differed.
 */
async function refuseFalseHeaders(source: ArchiveSource, [index, ...others]: readonly DirectoryEntry[]): Promise<void> {
	const { readableFrom = 0 } = source;
	const isReadable = ({ headerOffset }: DirectoryEntry) => headerOffset >= readableFrom;
	const lengthOf = ({ nameBytes }: DirectoryEntry) => LOCAL_HEADER_BYTES + nameBytes.length;
	const ordered = others
		.filter((entry) => entry !== index && isReadable(entry))
		.sort((one, two) => one.headerOffset - two.headerOffset);
	const windows: DirectoryEntry[][] = index !== undefined && isReadable(index) ? [[index]] : [];
	for (const entry of ordered) {
		const window = windows.length === 1 ? undefined : windows.at(-1);
		const start = window?.[0]?.headerOffset ?? Number.NEGATIVE_INFINITY;
		if (window !== undefined && entry.headerOffset + lengthOf(entry) - start <= WINDOW_BYTES) window.push(entry);
		else if (windows.length < MOST_WINDOWS) windows.push([entry]);
		else break;
	}
	for (const window of windows) {
		const [first] = window;
		const last = window.at(-1);
		if (first === undefined || last === undefined) continue;
		const start = first.headerOffset;
		const bytes = await source.read(start, last.headerOffset + lengthOf(last) - start);
		for (const entry of window) refuseFalseHeader(bytes.subarray(entry.headerOffset - start), entry);
	}
}

function refuseFalseHeader(header: Uint8Array, entry: DirectoryEntry): void {
	const view = viewOf(header);
	const flags = view.getUint16(6, true);
	const isSize = (at: number, bytes: number) =>
		(flags & FLAG_DESCRIPTOR) !== 0 || [bytes, 0xffffffff].includes(view.getUint32(at, true));
	const isHeader =
		view.getUint32(0, true) === LOCAL_HEADER &&
		view.getUint16(8, true) === entry.method &&
		isSize(18, entry.compressedBytes) &&
		isSize(22, entry.uncompressedBytes) &&
		view.getUint16(26, true) === entry.nameBytes.length &&
		entry.nameBytes.every((byte, index) => header[LOCAL_HEADER_BYTES + index] === byte);
	if (!isHeader) throw damaged(`${quoted(entry.name)} is not where its central directory says`);
	if ((flags & FLAG_ENCRYPTED) !== 0) throw entryDefect("encrypted_entry", entry.name);
	if (entry.method === METHOD_STORED && (flags & FLAG_DESCRIPTOR) !== 0)
		throw entryDefect("stored_with_descriptor", entry.name);
}
