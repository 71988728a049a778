/**
 * Reads the structure of a zip: its end record, its central directory, and the place of each file's
 * content. Nothing is unpacked. Runs in the Worker and in the dashboard. Throws only
 * `BundleArchiveError`, and what the source's `read` throws.
 */
import { type BundleArchiveError, damaged, entryDefect, notAZip, splitZip } from "./archive-errors";

/** 50,000 entries with names of 250 bytes. */
export const MOST_DIRECTORY_BYTES = 16 * 1024 * 1024;
/** More than one record of the directory, which has at most 46 + 3 × 65,535 bytes. */
const PIECE_BYTES = 4 * 1024 * 1024;

export const LOCAL_HEADER = 0x04034b50;
const DIRECTORY_RECORD = 0x02014b50;
const END_RECORD = 0x06054b50;
const END_RECORD_64 = 0x06064b50;
const END_LOCATOR_64 = 0x07064b50;
export const LOCAL_HEADER_BYTES = 30;
const DIRECTORY_RECORD_BYTES = 46;
const END_RECORD_BYTES = 22;
const END_RECORD_64_BYTES = 56;
const END_LOCATOR_64_BYTES = 20;
const LONGEST_COMMENT = 0xffff;
/** Maximum size of the end of a zip, ZIP64 records included. */
export const MOST_END_BYTES = END_RECORD_BYTES + LONGEST_COMMENT + END_LOCATOR_64_BYTES + END_RECORD_64_BYTES;

const ZIP64_FIELD = 0x0001;
export const FLAG_ENCRYPTED = 0x0001;
/** Sizes follow the content instead of preceding it. */
export const FLAG_DESCRIPTOR = 0x0008;
/** The name is UTF-8. iOS reads names without the flag as CP437. */
export const FLAG_UTF8 = 0x0800;
export const METHOD_STORED = 0;
export const METHOD_DEFLATE = 8;
const MADE_BY_UNIX: readonly number[] = [3, 19];
const UNIX_TYPE_MASK = 0xf000;
const UNIX_SYMLINK = 0xa000;
const UNIX_FILE = 0x8000;
const UNIX_FOLDER = 0x4000;
const DOS_FOLDER = 0x10;

/** Source of an archive's bytes. */
export interface ArchiveSource {
	readonly sizeBytes: number;
	/**
	 * The first byte that can be read; 0 by default. The last `MOST_DIRECTORY_BYTES + MOST_END_BYTES`
	 * always can.
	 */
	readonly readableFrom?: number;
	/** The first four bytes, for a source that cannot read them any more. */
	readonly signature?: Uint8Array;
	/** Reads exactly these bytes. They are inside the archive. */
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

/** Offset of an entry's content in the archive, after its local header. */
export async function contentOffset(source: ArchiveSource, entry: ArchiveEntry): Promise<number> {
	const view = viewOf(await source.read(entry.headerOffset, LOCAL_HEADER_BYTES));
	return entry.headerOffset + LOCAL_HEADER_BYTES + view.getUint16(26, true) + view.getUint16(28, true);
}

/** A source whose last bytes are in memory. They hold the whole directory of most archives. */
interface BufferedSource extends ArchiveSource {
	readonly tail: Uint8Array;
	readonly tailOffset: number;
}

export async function readEnd(source: ArchiveSource): Promise<BufferedSource> {
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

export async function findDirectory(source: BufferedSource): Promise<Directory> {
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

/**
 * Offset of the end record. Its comment must end at the last byte, so that nothing follows the
 * archive.
 */
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
export interface DirectoryEntry extends ArchiveEntry {
	readonly nameBytes: Uint8Array;
	readonly hasDescriptor: boolean;
	readonly isEncrypted: boolean;
	readonly isSymlink: boolean;
	/** Android takes the type from the name, iOS from the attributes, and both differ. */
	readonly isAmbiguous: boolean;
	/** The name has other characters than ASCII. */
	readonly needsUtf8Flag: boolean;
	readonly hasUtf8Flag: boolean;
	/** Offset of the record in the archive. */
	readonly recordOffset: number;
	readonly lengthBytes: number;
}

export async function* readDirectory(source: ArchiveSource, directory: Directory): AsyncGenerator<DirectoryEntry> {
	const end = directory.offset + directory.lengthBytes;
	let read = 0;
	for (let offset = directory.offset; offset < end; ) {
		const piece = await source.read(offset, Math.min(PIECE_BYTES, end - offset));
		const view = viewOf(piece);
		const isLast = offset + piece.length === end;
		let used = 0;
		while (used < piece.length) {
			const entry = directoryEntry(piece, view, used, offset);
			// The piece ends inside this record: the next piece starts with it.
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

/** The record at `at`; undefined if it reaches beyond the piece, which begins at `pieceOffset`. */
function directoryEntry(
	piece: Uint8Array,
	view: DataView,
	at: number,
	pieceOffset: number,
): DirectoryEntry | undefined {
	if (at + DIRECTORY_RECORD_BYTES > piece.length) return undefined;
	if (view.getUint32(at, true) !== DIRECTORY_RECORD) throw damaged("its central directory is not valid");
	const nameEnd = at + DIRECTORY_RECORD_BYTES + view.getUint16(at + 28, true);
	const extraEnd = nameEnd + view.getUint16(at + 30, true);
	const recordEnd = extraEnd + view.getUint16(at + 32, true);
	if (recordEnd > piece.length) return undefined;
	const nameBytes = piece.subarray(at + DIRECTORY_RECORD_BYTES, nameEnd);
	const flags = view.getUint16(at + 8, true);
	const name = decodeName(nameBytes);
	const sizes = new Zip64Sizes(view, nameEnd, extraEnd);
	// The ZIP64 field has the sizes in this order.
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
		isAmbiguous: isAmbiguous(view, at, name.endsWith("/")),
		needsUtf8Flag: nameBytes.some((byte) => byte > 0x7f),
		hasUtf8Flag: (flags & FLAG_UTF8) !== 0,
		recordOffset: pieceOffset + at,
		method: view.getUint16(at + 10, true),
		uncompressedBytes,
		compressedBytes,
		headerOffset,
		crc32: view.getUint32(at + 16, true),
		lengthBytes: recordEnd - at,
	};
}

/** Compares the type in the attributes of a record with that of its name, as iOS reads them. */
function isAmbiguous(view: DataView, at: number, isFolder: boolean): boolean {
	const madeBy = view.getUint8(at + 5);
	if (!MADE_BY_UNIX.includes(madeBy)) return madeBy === 0 && !isFolder && view.getUint8(at + 38) === DOS_FOLDER;
	const type = view.getUint16(at + 40, true) & UNIX_TYPE_MASK;
	return isFolder ? type === UNIX_FILE : type === UNIX_FOLDER;
}

/** The sizes in the ZIP64 field of a local header, which has both or is ignored. */
export function zip64SizesIn(
	extra: Uint8Array,
): { readonly uncompressedBytes: number; readonly compressedBytes: number } | undefined {
	const view = viewOf(extra);
	for (let at = 0; at + 4 <= extra.length; at += 4 + view.getUint16(at + 2, true)) {
		const lengthBytes = view.getUint16(at + 2, true);
		if (at + 4 + lengthBytes > extra.length) return undefined;
		if (view.getUint16(at, true) !== ZIP64_FIELD || lengthBytes < 16) continue;
		return { uncompressedBytes: uint64(view, at + 4), compressedBytes: uint64(view, at + 12) };
	}
	return undefined;
}

/** The ZIP64 field of a record: 8 bytes for each size that did not fit into 4. */
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

const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Decodes a name as UTF-8, also without the UTF-8 flag. Other bytes are refused, because Android's
 * unpacker throws on them an error that ends the app.
 */
function decodeName(bytes: Uint8Array): string {
	try {
		return strictUtf8.decode(bytes);
	} catch {
		throw entryDefect("invalid_name", Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
	}
}

export const viewOf = (bytes: Uint8Array) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** @throws {BundleArchiveError} a size that no file can have */
function uint64(view: DataView, at: number): number {
	const value = view.getBigUint64(at, true);
	if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw damaged("a size in it cannot be right");
	return Number(value);
}

/** The archive has no end record: it is another kind of file, or was cut off. */
async function noEndRecord(source: BufferedSource): Promise<BundleArchiveError> {
	const start = source.signature ?? (await source.read(0, Math.min(4, source.sizeBytes)));
	if (start.length === 4 && viewOf(start).getUint32(0, true) === LOCAL_HEADER)
		return damaged("it was cut off, or other bytes follow its end");
	return notAZip();
}
