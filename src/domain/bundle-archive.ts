/**
 * Decides whether a zip is a bundle that devices can unpack and start. Reads its end, its central directory and the headers before its
 * files, so the cost is bounded whatever the size of the file: at most `MOST_DIRECTORY_BYTES` in pieces of `PIECE_BYTES`, and headers in
 * at most `MOST_WINDOWS` reads of `WINDOW_BYTES`. Beyond these bounds, and beyond `MOST_COMPARED_ENTRIES`, headers other than that of
 * the start page are not compared with the directory.
 *
 * Runs in the Worker and in the dashboard. Throws nothing but `BundleArchiveError`, and what the source's `read` throws.
 */

export const MOST_ENTRIES = 50_000;
/** 50,000 entries with names of 250 bytes. */
export const MOST_DIRECTORY_BYTES = 16 * 1024 * 1024;
/** More than one record of the directory, which has at most 46 + 3 × 65,535 bytes. */
const PIECE_BYTES = 4 * 1024 * 1024;

/** Archives with more entries have only the header of their start page compared. */
export const MOST_COMPARED_ENTRIES = 2_000;
/** Headers that lie as near to each other as this are read at once. */
const WINDOW_BYTES = 1024 * 1024;
export const MOST_WINDOWS = 64;

const LOCAL_HEADER = 0x04034b50;
const DIRECTORY_RECORD = 0x02014b50;
const END_RECORD = 0x06054b50;
const END_RECORD_64 = 0x06064b50;
const END_LOCATOR_64 = 0x07064b50;
const LOCAL_HEADER_BYTES = 30;
const DIRECTORY_RECORD_BYTES = 46;
const END_RECORD_BYTES = 22;
const END_RECORD_64_BYTES = 56;
const END_LOCATOR_64_BYTES = 20;
const LONGEST_COMMENT = 0xffff;
/** Maximum size of the end of a zip, ZIP64 records included. */
export const MOST_END_BYTES = END_RECORD_BYTES + LONGEST_COMMENT + END_LOCATOR_64_BYTES + END_RECORD_64_BYTES;

const ZIP64_FIELD = 0x0001;
const FLAG_ENCRYPTED = 0x0001;
/** Sizes follow the content instead of preceding it. */
const FLAG_DESCRIPTOR = 0x0008;
const FLAG_UTF8 = 0x0800;
export const METHOD_STORED = 0;
export const METHOD_DEFLATE = 8;
const UNIX_TYPE_MASK = 0xf000;
const UNIX_SYMLINK = 0xa000;

/** Every reason for which a zip is refused, as `moreInfo.reason` gives it. */
export type ArchiveReason =
	| "not_a_zip"
	| "damaged_zip"
	| "split_zip"
	| "encrypted_entry"
	| "unsupported_compression"
	| "stored_with_descriptor"
	| "absolute_path"
	| "parent_path"
	| "drive_letter_path"
	| "backslash_path"
	| "invalid_name"
	| "symlink"
	| "duplicate_name"
	| "too_many_entries"
	| "directory_too_large"
	| "uncompressed_too_large"
	| "missing_index_html"
	| "index_html_in_folder";

/** Facts for programs beside the message. */
export interface ArchiveFacts {
	readonly entry?: string;
	readonly other_entry?: string;
	readonly folder?: string;
	readonly limit?: number;
}

export class BundleArchiveError extends Error {
	override readonly name = "BundleArchiveError";
	constructor(
		readonly reason: ArchiveReason,
		message: string,
		readonly facts: ArchiveFacts = {},
	) {
		super(message);
	}
}

/** Source of an archive's bytes. */
export interface ArchiveSource {
	readonly sizeBytes: number;
	/** The first byte that can be read; 0 by default. The last `MOST_DIRECTORY_BYTES + MOST_END_BYTES` always can. */
	readonly readableFrom?: number;
	/** The first four bytes, where they cannot be read any more. */
	readonly signature?: Uint8Array;
	/** Exactly these bytes, which lie inside the archive. */
	read(offset: number, length: number): Promise<Uint8Array>;
}

/** One entry, as the central directory describes it. */
export interface ArchiveEntry {
	readonly name: string;
	readonly isDirectory: boolean;
	readonly method: number;
	readonly compressedBytes: number;
	readonly uncompressedBytes: number;
	readonly headerOffset: number;
	readonly crc32: number;
}

export interface ArchiveRules {
	/** Sum of the sizes that the entries have when they are unpacked. */
	readonly mostUncompressedBytes: number;
	/** Called for each entry that keeps the rules, before the archive as a whole is known to. */
	readonly onEntry?: (entry: ArchiveEntry) => void;
}

export interface ArchiveSummary {
	readonly entries: number;
	readonly uncompressedBytes: number;
}

/** @throws {BundleArchiveError} the first rule that the archive breaks */
export async function checkBundleArchive(source: ArchiveSource, rules: ArchiveRules): Promise<ArchiveSummary> {
	const end = await readEnd(source);
	const directory = await findDirectory(end);
	if (directory.entries > MOST_ENTRIES) throw tooManyEntries(directory.entries);
	if (directory.lengthBytes > MOST_DIRECTORY_BYTES) throw directoryTooLarge();
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
	if (index === undefined || index.isDirectory) throw missingIndexHtml(names);
	await refuseFalseHeaders(end, directory.entries <= MOST_COMPARED_ENTRIES ? [index, ...compared] : [index]);
	return { entries: directory.entries, uncompressedBytes };
}

/**
 * The files of an archive that was checked before, by their paths, each with what tells its contents apart. Undefined where the directory is
 * larger than `mostBytes`.
 */
export async function archiveFiles(source: ArchiveSource, mostBytes: number): Promise<Map<string, string> | undefined> {
	const end = await readEnd(source);
	const directory = await findDirectory(end);
	if (directory.lengthBytes > mostBytes) return undefined;
	const files = new Map<string, string>();
	for await (const entry of readDirectory(end, directory)) {
		if (!entry.isDirectory) files.set(pathOf(entry.name), `${entry.crc32} ${entry.uncompressedBytes}`);
	}
	return files;
}

/** Offset of an entry's content in the archive, behind its local header. */
export async function contentOffset(source: ArchiveSource, entry: ArchiveEntry): Promise<number> {
	const view = viewOf(await source.read(entry.headerOffset, LOCAL_HEADER_BYTES));
	return entry.headerOffset + LOCAL_HEADER_BYTES + view.getUint16(26, true) + view.getUint16(28, true);
}

const INDEX_HTML = "index.html";

/** The source with its last bytes at hand, which hold the whole directory of most archives. */
interface BufferedSource extends ArchiveSource {
	readonly tail: Uint8Array;
	readonly tailOffset: number;
}

async function readEnd(source: ArchiveSource): Promise<BufferedSource> {
	const { sizeBytes } = source;
	const tailOffset = Math.max(0, sizeBytes - MOST_END_BYTES);
	const tail = sizeBytes === 0 ? new Uint8Array() : await source.read(tailOffset, sizeBytes - tailOffset);
	return {
		sizeBytes,
		readableFrom: source.readableFrom ?? 0,
		...(source.signature === undefined ? {} : { signature: source.signature }),
		tail,
		tailOffset,
		async read(offset, length) {
			if (offset >= tailOffset) return tail.subarray(offset - tailOffset, offset - tailOffset + length);
			return source.read(offset, length);
		},
	};
}

interface Directory {
	readonly entries: number;
	readonly offset: number;
	readonly lengthBytes: number;
}

async function findDirectory(source: BufferedSource): Promise<Directory> {
	const { tail, tailOffset, sizeBytes } = source;
	const view = viewOf(tail);
	const at = endRecordIn(view);
	if (at === undefined) throw await noEndRecord(source);
	const locatorAt = at - END_LOCATOR_64_BYTES;
	if (locatorAt >= 0 && view.getUint32(locatorAt, true) === END_LOCATOR_64) {
		return findDirectory64(source, view, locatorAt);
	}
	const [disk, directoryDisk, onDisk] = [4, 6, 8].map((field) => view.getUint16(at + field, true));
	const entries = view.getUint16(at + 10, true);
	if (disk !== 0 || directoryDisk !== 0 || onDisk !== entries) throw splitZip();
	const lengthBytes = view.getUint32(at + 12, true);
	const offset = view.getUint32(at + 16, true);
	if (offset + lengthBytes !== tailOffset + at || sizeBytes < offset) throw damaged(MISPLACED);
	return { entries, offset, lengthBytes };
}

const MISPLACED = "its central directory is not where its end says";

/** Offset of the end record. Its comment must end at the last byte, so that nothing follows the archive. */
function endRecordIn(view: DataView): number | undefined {
	for (let at = view.byteLength - END_RECORD_BYTES; at >= 0; at--) {
		const isEnd = view.getUint32(at, true) === END_RECORD;
		if (isEnd && at + END_RECORD_BYTES + view.getUint16(at + 20, true) === view.byteLength) return at;
	}
	return undefined;
}

async function findDirectory64(source: BufferedSource, tail: DataView, locatorAt: number): Promise<Directory> {
	const locatorOffset = source.tailOffset + locatorAt;
	const recordOffset = uint64(tail, locatorAt + 8);
	if (tail.getUint32(locatorAt + 4, true) !== 0 || tail.getUint32(locatorAt + 16, true) !== 1) throw splitZip();
	const { readableFrom = 0 } = source;
	if (recordOffset < readableFrom || recordOffset + END_RECORD_64_BYTES > locatorOffset) throw damaged(MISPLACED);
	const view = viewOf(await source.read(recordOffset, END_RECORD_64_BYTES));
	if (view.getUint32(0, true) !== END_RECORD_64 || recordOffset + 12 + uint64(view, 4) !== locatorOffset) {
		throw damaged("its ZIP64 record is not valid");
	}
	const entries = uint64(view, 32);
	if (view.getUint32(16, true) !== 0 || view.getUint32(20, true) !== 0 || uint64(view, 24) !== entries) {
		throw splitZip();
	}
	const lengthBytes = uint64(view, 40);
	const offset = uint64(view, 48);
	if (offset + lengthBytes !== recordOffset) throw damaged(MISPLACED);
	return { entries, offset, lengthBytes };
}

/** A record of the central directory; `lengthBytes` is the size of the record itself. */
interface DirectoryEntry extends ArchiveEntry {
	readonly nameBytes: Uint8Array;
	readonly hasDescriptor: boolean;
	readonly isEncrypted: boolean;
	readonly isSymlink: boolean;
	readonly lengthBytes: number;
}

async function* readDirectory(source: ArchiveSource, directory: Directory): AsyncGenerator<DirectoryEntry> {
	const end = directory.offset + directory.lengthBytes;
	let read = 0;
	for (let offset = directory.offset; offset < end; ) {
		const piece = await source.read(offset, Math.min(PIECE_BYTES, end - offset));
		const view = viewOf(piece);
		const isLast = offset + piece.length === end;
		let used = 0;
		while (used < piece.length) {
			const entry = directoryEntry(piece, view, used);
			// A record that the piece cuts off begins the next one.
			if (entry === undefined && !isLast && used > 0) break;
			if (entry === undefined || read === directory.entries) throw damaged("its central directory is not valid");
			read += 1;
			used += entry.lengthBytes;
			yield entry;
		}
		offset += used;
	}
	if (read !== directory.entries) throw damaged("its central directory is not valid");
}

/** The record that begins at `at`; undefined where it reaches beyond the piece. */
function directoryEntry(piece: Uint8Array, view: DataView, at: number): DirectoryEntry | undefined {
	if (at + DIRECTORY_RECORD_BYTES > piece.length) return undefined;
	if (view.getUint32(at, true) !== DIRECTORY_RECORD) throw damaged("its central directory is not valid");
	const nameEnd = at + DIRECTORY_RECORD_BYTES + view.getUint16(at + 28, true);
	const extraEnd = nameEnd + view.getUint16(at + 30, true);
	const recordEnd = extraEnd + view.getUint16(at + 32, true);
	if (recordEnd > piece.length) return undefined;
	const nameBytes = piece.subarray(at + DIRECTORY_RECORD_BYTES, nameEnd);
	const flags = view.getUint16(at + 8, true);
	const name = decodeName(nameBytes, (flags & FLAG_UTF8) !== 0);
	const sizes = new Zip64Sizes(view, nameEnd, extraEnd);
	// In this order, as the ZIP64 field has them.
	const uncompressedBytes = sizes.read(view.getUint32(at + 24, true));
	const compressedBytes = sizes.read(view.getUint32(at + 20, true));
	const headerOffset = sizes.read(view.getUint32(at + 42, true));
	return {
		name,
		nameBytes,
		isDirectory: name.endsWith("/"),
		hasDescriptor: (flags & FLAG_DESCRIPTOR) !== 0,
		isEncrypted: (flags & FLAG_ENCRYPTED) !== 0,
		isSymlink: (view.getUint16(at + 40, true) & UNIX_TYPE_MASK) === UNIX_SYMLINK,
		method: view.getUint16(at + 10, true),
		uncompressedBytes,
		compressedBytes,
		headerOffset,
		crc32: view.getUint32(at + 16, true),
		lengthBytes: recordEnd - at,
	};
}

/** The ZIP64 field of a record: one number of 8 bytes for each value that 4 bytes could not hold. */
class Zip64Sizes {
	#at: number | undefined;
	#end = 0;
	constructor(
		readonly view: DataView,
		start: number,
		end: number,
	) {
		for (let at = start; at + 4 <= end; ) {
			const fieldEnd = at + 4 + view.getUint16(at + 2, true);
			if (fieldEnd > end) return;
			if (view.getUint16(at, true) === ZIP64_FIELD) {
				[this.#at, this.#end] = [at + 4, fieldEnd];
				return;
			}
			at = fieldEnd;
		}
	}

	read(value: number): number {
		if (value !== 0xffffffff) return value;
		if (this.#at === undefined || this.#at + 8 > this.#end) throw damaged("a ZIP64 size is missing");
		this.#at += 8;
		return uint64(this.view, this.#at - 8);
	}
}

/** Rules that one entry keeps or breaks by itself. */
function refuseUnreadable(entry: DirectoryEntry): void {
	const { name } = entry;
	if (name === "" || name.includes("\0")) throw invalidName(name);
	if (name.includes("\\")) throw backslashPath(name);
	if (name.startsWith("/")) throw absolutePath(name);
	if (/^[a-z]:/i.test(name)) throw driveLetterPath(name);
	if (/(^|\/)\.\.(\/|$)/.test(name)) throw parentPath(name);
	if (entry.isSymlink) throw symlink(name);
	if (entry.isEncrypted) throw encryptedEntry(name);
	if (entry.method !== METHOD_STORED && entry.method !== METHOD_DEFLATE) throw unsupportedCompression(entry);
	if (entry.method === METHOD_STORED && entry.hasDescriptor) throw storedWithDescriptor(name);
	if (entry.method === METHOD_STORED && entry.compressedBytes !== entry.uncompressedBytes) {
		throw damaged(`the sizes of ${quoted(name)} contradict each other`);
	}
}

/** The path that an entry is unpacked to, e.g. `index.html` for `./index.html`. */
function pathOf(name: string): string {
	const path = name.endsWith("/") ? name.slice(0, -1) : name;
	if (!/(^|\/)\.?(\/|$)/.test(path)) return path;
	return path
		.split("/")
		.filter((segment) => segment !== "" && segment !== ".")
		.join("/");
}

/**
 * The paths of an archive, compared as the file systems of Windows and macOS compare them: without regard to case and to the Unicode
 * form. Two files with the same path there would overwrite each other on Electron, so they are refused everywhere.
 */
class NameIndex {
	/** By the compared path: the name of the file, or `true` for a folder. */
	readonly #byPath = new Map<string, string | true>();
	#indexPath: string | undefined;

	add({ name, isDirectory }: DirectoryEntry): void {
		const path = pathOf(name);
		if (path === "") {
			// The folder that is zipped itself, as some tools write it.
			if (isDirectory) return;
			throw invalidName(name);
		}
		const compared = (/^[\0-\x7f]*$/.test(path) ? path : path.normalize("NFC")).toLowerCase();
		this.#addFolders(compared, name);
		const before = this.#byPath.get(compared);
		if (before === undefined) this.#byPath.set(compared, isDirectory ? true : name);
		else if (before !== true || !isDirectory) throw duplicateName(name, before === true ? compared : before);
		this.#noteIndex(path, isDirectory);
	}

	/** Every folder above the path; a file cannot be one of them. */
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
		if (this.#indexPath === undefined || depth(path) < depth(this.#indexPath)) this.#indexPath = path;
	}

	/** The path nearest to the top that may be meant as the start page. */
	get indexPath(): string | undefined {
		return this.#indexPath;
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
 * The directory describes the files; so must the headers before their content, which are what streaming unpackers read. Devices would
 * unpack other files than those that were checked.
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
	if ((flags & FLAG_ENCRYPTED) !== 0) throw encryptedEntry(entry.name);
	if (entry.method === METHOD_STORED && (flags & FLAG_DESCRIPTOR) !== 0) throw storedWithDescriptor(entry.name);
}

const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Names are UTF-8, also where a tool does not say so; other bytes keep their difference and are shown as Latin-1. */
function decodeName(bytes: Uint8Array, isUtf8: boolean): string {
	try {
		return strictUtf8.decode(bytes);
	} catch {
		const name = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
		if (isUtf8) throw invalidName(name);
		return name;
	}
}

const viewOf = (bytes: Uint8Array) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** No file has more bytes than a number holds exactly. */
function uint64(view: DataView, at: number): number {
	const value = view.getBigUint64(at, true);
	if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw damaged("a size in it cannot be right");
	return Number(value);
}

const MOST_SHOWN = 200;
const shown = (name: string) => (name.length > MOST_SHOWN ? `${name.slice(0, MOST_SHOWN)}…` : name).toWellFormed();
const quoted = (name: string) => JSON.stringify(shown(name));

/** The archive has no end record: it is something else, or was cut off. */
async function noEndRecord(source: BufferedSource): Promise<BundleArchiveError> {
	const start = source.signature ?? (await source.read(0, Math.min(4, source.sizeBytes)));
	if (start.length === 4 && viewOf(start).getUint32(0, true) === LOCAL_HEADER)
		return damaged("it was cut off, or other bytes follow its end");
	return new BundleArchiveError(
		"not_a_zip",
		"The file is not a zip archive. Upload a zip of the built web app, with index.html at its top.",
	);
}

function damaged(what: string): BundleArchiveError {
	return new BundleArchiveError("damaged_zip", `The zip is damaged: ${what}. Create it again and upload the new file.`);
}

function splitZip(): BundleArchiveError {
	return new BundleArchiveError(
		"split_zip",
		"The zip is one part of a split archive. Create it as a single file and upload that.",
	);
}

function encryptedEntry(name: string): BundleArchiveError {
	return new BundleArchiveError(
		"encrypted_entry",
		`${quoted(name)} is encrypted with a password, which devices do not have. Create the zip without a password; encrypt bundles with the CLI's key instead.`,
		{ entry: shown(name) },
	);
}

function unsupportedCompression({ name, method }: DirectoryEntry): BundleArchiveError {
	return new BundleArchiveError(
		"unsupported_compression",
		`${quoted(name)} is compressed with method ${method}, which devices cannot unpack. Create the zip with the Deflate method.`,
		{ entry: shown(name) },
	);
}

function storedWithDescriptor(name: string): BundleArchiveError {
	return new BundleArchiveError(
		"stored_with_descriptor",
		`${quoted(name)} is stored without compression and its size follows its content, which Android cannot unpack. Create the zip with the Deflate method, or from files instead of a stream.`,
		{ entry: shown(name) },
	);
}

function invalidName(name: string): BundleArchiveError {
	return new BundleArchiveError(
		"invalid_name",
		`The name ${quoted(name)} is empty, contains NUL or is not valid UTF-8. Rename the file and create the zip again.`,
		{ entry: shown(name) },
	);
}

function backslashPath(name: string): BundleArchiveError {
	return new BundleArchiveError(
		"backslash_path",
		`The name ${quoted(name)} contains a backslash, which devices refuse. Create the zip with a tool that separates folders by "/".`,
		{ entry: shown(name) },
	);
}

function absolutePath(name: string): BundleArchiveError {
	return new BundleArchiveError(
		"absolute_path",
		`The name ${quoted(name)} is an absolute path. Create the zip inside the build folder: zip -r ../bundle.zip .`,
		{ entry: shown(name) },
	);
}

function driveLetterPath(name: string): BundleArchiveError {
	return new BundleArchiveError(
		"drive_letter_path",
		`The name ${quoted(name)} begins with a drive letter. Create the zip with paths relative to the build folder.`,
		{ entry: shown(name) },
	);
}

function parentPath(name: string): BundleArchiveError {
	return new BundleArchiveError(
		"parent_path",
		`The name ${quoted(name)} leads out of the bundle with "..". Create the zip inside the build folder: zip -r ../bundle.zip .`,
		{ entry: shown(name) },
	);
}

function symlink(name: string): BundleArchiveError {
	return new BundleArchiveError(
		"symlink",
		`${quoted(name)} is a symbolic link, which devices do not unpack. Replace it with the file (zip does so without -y).`,
		{ entry: shown(name) },
	);
}

function duplicateName(name: string, other: string): BundleArchiveError {
	return new BundleArchiveError(
		"duplicate_name",
		name === other
			? `The name ${quoted(name)} is in the zip twice. Create the zip again from an empty file.`
			: `${quoted(name)} and ${quoted(other)} are the same path on Windows and macOS, or one is the other's folder. Rename one of them.`,
		{ entry: shown(name), other_entry: shown(other) },
	);
}

function tooManyEntries(entries: number): BundleArchiveError {
	return new BundleArchiveError(
		"too_many_entries",
		`The zip has ${entries} entries; at most ${MOST_ENTRIES} are accepted. Leave out what the app does not load, such as source maps.`,
		{ limit: MOST_ENTRIES },
	);
}

function directoryTooLarge(): BundleArchiveError {
	return new BundleArchiveError(
		"directory_too_large",
		`The names in the zip take more than ${MOST_DIRECTORY_BYTES} bytes. Shorten the paths or leave out what the app does not load.`,
		{ limit: MOST_DIRECTORY_BYTES },
	);
}

function uncompressedTooLarge(limit: number): BundleArchiveError {
	return new BundleArchiveError(
		"uncompressed_too_large",
		`The zip unpacks to more than ${limit} bytes. Leave out what the app does not load, such as source maps and original media.`,
		{ limit },
	);
}

function missingIndexHtml({ indexPath }: NameIndex): BundleArchiveError {
	if (indexPath === undefined) {
		return new BundleArchiveError(
			"missing_index_html",
			"There is no index.html at the top of the zip. Zip the contents of the folder that your web build writes: zip -r ../bundle.zip .",
		);
	}
	const folder = indexPath.slice(0, Math.max(0, indexPath.lastIndexOf("/")));
	if (folder === "") {
		return new BundleArchiveError(
			"missing_index_html",
			`The start page is named ${quoted(indexPath)}, and devices look for index.html. Rename it.`,
			{ entry: shown(indexPath) },
		);
	}
	return new BundleArchiveError(
		"index_html_in_folder",
		`index.html is in the folder ${quoted(folder)} and not at the top of the zip. Zip the contents of that folder instead of the folder: cd ${quoted(folder)} && zip -r ../bundle.zip .`,
		{ folder: shown(folder), entry: shown(indexPath) },
	);
}
