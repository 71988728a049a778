/**
 * Decides whether a zip is a bundle that devices can unpack and start, by the rules of Android's
 * and iOS's unpackers. Reads its end, its central directory and, within the bounds of
 * bundle-archive-files.ts, the files themselves, so the cost is bounded whatever the size.
 *
 * Runs in the Worker and in the dashboard. Throws only `BundleArchiveError`, and what the source's
 * `read` throws.
 */

import {
	type ArchiveEntry,
	type ArchiveSource,
	type DirectoryEntry,
	findDirectory,
	LOCAL_HEADER_BYTES,
	METHOD_DEFLATE,
	METHOD_STORED,
	MOST_DIRECTORY_BYTES,
	readDirectory,
	readEnd,
} from "./archive-directory";
import {
	damaged,
	directoryTooLarge,
	entryDefect,
	missingIndexHtml,
	quoted,
	tooManyEntries,
	uncompressedTooLarge,
	unsupportedCompression,
} from "./archive-errors";
import { compareFiles } from "./archive-files";
import { hasLongPart, isLongPath, NameIndex, pathOf } from "./names";

export const MOST_ENTRIES = 50_000;

/** In an archive with more entries, only the start page is compared with the directory. */
const MOST_COMPARED_ENTRIES = 2_000;

/** The upper byte of the flags in the header of a file and in its record of the directory. */
const HEADER_FLAG_AT = 7;
const RECORD_FLAG_AT = 9;

interface ArchiveRules {
	/** Limit for the sum of the unpacked sizes. */
	readonly mostUncompressedBytes: number;
	/** Called for each valid entry, before the archive as a whole has passed. */
	readonly onEntry?: (entry: ArchiveEntry) => void;
}

interface ArchiveSummary {
	readonly entries: number;
	readonly uncompressedBytes: number;
	/** Set if names are UTF-8 without the flag that says so, which are other names on iOS. */
	readonly unflagged?: {
		/** The first of these names. */
		readonly name: string;
		/** Offsets of bytes, ascending, whose bit 0x08 must be set before devices get the archive. */
		readonly offsets: readonly number[];
	};
}

/** @throws {BundleArchiveError} for the first rule that the archive breaks */
export async function checkBundleArchive(source: ArchiveSource, rules: ArchiveRules): Promise<ArchiveSummary> {
	const end = await readEnd(source);
	const directory = await findDirectory(end);
	if (directory.entries > MOST_ENTRIES) throw tooManyEntries(directory.entries, MOST_ENTRIES);
	if (directory.lengthBytes > MOST_DIRECTORY_BYTES) throw directoryTooLarge(MOST_DIRECTORY_BYTES);
	const names = new NameIndex();
	const layout = new Layout(directory.offset);
	const unflagged = new UnflaggedNames();
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
		else if (directory.entries <= MOST_COMPARED_ENTRIES) compared.push(entry);
		if (entry.needsUtf8Flag && !entry.hasUtf8Flag) unflagged.add(entry);
		rules.onEntry?.(entry);
	}
	layout.refuseOverlaps();
	if (index === undefined || index.isDirectory) throw missingIndexHtml(names.indexPath);
	compared.sort((one, two) => one.headerOffset - two.headerOffset);
	const archive = { source: end, endOffset: directory.offset, offsetAfter: layout.offsetAfter };
	await compareFiles(archive, [index, ...compared], unflagged.add);
	return { entries: directory.entries, uncompressedBytes, ...unflagged.summary };
}

/** Entries whose names need the UTF-8 flag and lack it, in the directory or before the file. */
class UnflaggedNames {
	readonly #offsets = new Set<number>();
	#first: string | undefined;

	readonly add = ({ name, headerOffset, recordOffset }: DirectoryEntry): void => {
		this.#first ??= name;
		this.#offsets.add(headerOffset + HEADER_FLAG_AT).add(recordOffset + RECORD_FLAG_AT);
	};

	get summary(): Pick<ArchiveSummary, "unflagged"> {
		if (this.#first === undefined) return {};
		return { unflagged: { name: this.#first, offsets: [...this.#offsets].sort((one, two) => one - two) } };
	}
}

export type ArchiveFile = Pick<ArchiveEntry, "crc32" | "uncompressedBytes" | "compressedBytes">;

/** Runs the reading of a directory of that size, when there is room for it. */
type DirectoryReading = <Value>(directoryBytes: number, read: () => Promise<Value>) => Promise<Value>;

/**
 * The files of an archive that passed the check, by path. Undefined if the directory has more than
 * `mostBytes`.
 */
export async function archiveFiles(
	source: ArchiveSource,
	mostBytes: number,
	during: DirectoryReading,
): Promise<Map<string, ArchiveFile> | undefined> {
	const end = await readEnd(source);
	const directory = await findDirectory(end);
	if (directory.lengthBytes > mostBytes) return undefined;
	return during(directory.lengthBytes, async () => {
		const files = new Map<string, ArchiveFile>();
		for await (const entry of readDirectory(end, directory)) {
			const { isDirectory, name, crc32, uncompressedBytes, compressedBytes } = entry;
			if (!isDirectory) files.set(pathOf(name), { crc32, uncompressedBytes, compressedBytes });
		}
		return files;
	});
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
	if (isLongPath(name)) throw entryDefect("path_too_long", name);
	if (entry.isAmbiguous) throw entryDefect("ambiguous_type", name);
	if (entry.isSymlink) throw entryDefect("symlink", name);
	if (entry.isEncrypted) throw entryDefect("encrypted_entry", name);
	if (entry.method !== METHOD_STORED && entry.method !== METHOD_DEFLATE)
		throw unsupportedCompression(name, entry.method);
	if (entry.method === METHOD_STORED && entry.hasDescriptor) throw entryDefect("stored_with_descriptor", name);
	if (entry.method === METHOD_STORED && entry.compressedBytes !== entry.uncompressedBytes) {
		throw damaged(`the sizes of ${quoted(name)} contradict each other`);
	}
}

/**
 * Byte ranges of the entries. Overlapping entries indicate a zip bomb, because no archiver writes
 * them.
 */
class Layout {
	readonly #ranges: { readonly start: number; readonly end: number }[] = [];
	constructor(readonly directoryOffset: number) {}

	add({ headerOffset, nameBytes, compressedBytes, name }: DirectoryEntry): void {
		const end = headerOffset + LOCAL_HEADER_BYTES + nameBytes.length + compressedBytes;
		if (end > this.directoryOffset) throw damaged(`${quoted(name)} reaches beyond the end of the file`);
		this.#ranges.push({ start: headerOffset, end });
	}

	refuseOverlaps(): void {
		this.#ranges.sort((one, two) => one.start - two.start);
		// Devices unpack from the first byte on; bytes before the first entry hide every entry from them.
		if ((this.#ranges[0]?.start ?? 0) !== 0) throw damaged("its first entry does not begin at its first byte");
		let reached = 0;
		for (const { start, end } of this.#ranges) {
			if (start < reached) throw damaged("its entries overlap");
			reached = end;
		}
	}

	/**
	 * Offset of the entry that follows the one at this offset; undefined after the last one. Call it
	 * after `refuseOverlaps`.
	 */
	readonly offsetAfter = (headerOffset: number): number | undefined => {
		let [from, to] = [0, this.#ranges.length];
		while (from < to) {
			const middle = (from + to) >> 1;
			if ((this.#ranges[middle]?.start ?? 0) <= headerOffset) from = middle + 1;
			else to = middle;
		}
		return this.#ranges[from]?.start;
	};
}
