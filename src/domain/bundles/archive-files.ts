/**
 * Compares the files of a zip with its central directory, as Android's unpacker reads them: from
 * the first byte on, file after file, without the directory. A difference that only one of the
 * platforms sees would give devices other files than the checked ones.
 *
 * The cost is bounded: at most `MOST_WINDOWS` reads, and the content of the first
 * `mostUnpackedBytes` is unpacked. What is beyond these bounds is not compared.
 */
import crc32 from "crc-32";
import {
	type ArchiveSource,
	type DirectoryEntry,
	FLAG_DESCRIPTOR,
	FLAG_ENCRYPTED,
	FLAG_UTF8,
	LOCAL_HEADER,
	LOCAL_HEADER_BYTES,
	METHOD_DEFLATE,
	METHOD_STORED,
	viewOf,
	zip64SizesIn,
} from "./archive-directory";
import { damaged, entryDefect, quoted } from "./archive-errors";

/** Headers and content within this distance of each other are read together. */
const WINDOW_BYTES = 1024 * 1024;
export const MOST_WINDOWS = 64;
/** More than most web builds have; a tenth of a second of processor time. */
export const MOST_UNPACKED_BYTES = 16 * 1024 * 1024;
/**
 * Less is unpacked of a small archive, so that the work is in proportion to what was sent. Web
 * builds have a ratio of 3 to 10.
 */
const FREE_BYTES = 1024 * 1024;
const MOST_RATIO = 64;
export const mostUnpackedBytes = (archiveBytes: number): number =>
	Math.min(MOST_UNPACKED_BYTES, FREE_BYTES + MOST_RATIO * archiveBytes);
/**
 * Deflate expands a piece at most 1,032 times, so that a bomb fills at most some megabytes before
 * it is noticed.
 */
const PIECE_BYTES = 8 * 1024;

const DESCRIPTOR_SIGNATURE = 0x08074b50;
const DESCRIPTOR_BYTES = 12;
const SIGNED_DESCRIPTOR_BYTES = 16;
/** With sizes of 64 bits, without and with a signature. */
const LARGE_DESCRIPTOR_BYTES: readonly number[] = [20, 24];

interface Archive {
	readonly source: ArchiveSource;
	/** The central directory's offset, where the files end. */
	readonly endOffset: number;
	/** Offset of the entry that follows the one at this offset; undefined after the last one. */
	readonly offsetAfter: (headerOffset: number) => number | undefined;
}

/**
 * @param entries the start page, then the others by their offsets; of an archive with very many
 * entries the start page alone
 * @param onUnflagged called for an entry whose own header lacks the UTF-8 flag that its name needs
 * @throws {BundleArchiveError} for the first difference
 */
export async function compareFiles(
	{ source, endOffset, offsetAfter }: Archive,
	[index, ...others]: readonly [DirectoryEntry, ...DirectoryEntry[]],
	onUnflagged: (entry: DirectoryEntry) => void,
): Promise<void> {
	const window = new Window(source, endOffset);
	const mostBytes = mostUnpackedBytes(endOffset);
	let unpackedBytes = 0;
	const compare = async (entry: DirectoryEntry) => {
		const nextOffset = offsetAfter(entry.headerOffset);
		const restBytes = (nextOffset ?? endOffset) - headerEnd(entry) - entry.compressedBytes;
		const isUnpacked = unpackedBytes + entry.uncompressedBytes <= mostBytes;
		const file = { entry, restBytes, isLast: nextOffset === undefined, isUnpacked };
		const isCompared = await compareFile(window, file, onUnflagged);
		if (isCompared && isUnpacked) unpackedBytes += entry.uncompressedBytes;
		return isCompared;
	};
	await compare(index);
	for (const entry of others) if (!(await compare(entry)) && !window.isBefore(entry)) break;
}

const headerEnd = ({ headerOffset, nameBytes }: DirectoryEntry) => headerOffset + LOCAL_HEADER_BYTES + nameBytes.length;

interface File {
	readonly entry: DirectoryEntry;
	/**
	 * Bytes that are neither name nor content: the extra field, a descriptor, and whatever should not
	 * be there.
	 */
	readonly restBytes: number;
	readonly isLast: boolean;
	/** Whether the content is compared, too. */
	readonly isUnpacked: boolean;
}

/** @returns false if the bytes are out of reach */
async function compareFile(window: Window, file: File, onUnflagged: (entry: DirectoryEntry) => void): Promise<boolean> {
	const { entry, restBytes, isLast, isUnpacked } = file;
	const { headerOffset, compressedBytes } = entry;
	const isFar = !isUnpacked && compressedBytes > WINDOW_BYTES;
	const headerBytes = headerEnd(entry) - headerOffset;
	const header = await window.read(headerOffset, headerBytes, isFar ? headerBytes : WINDOW_BYTES);
	if (header === undefined) return false;
	const view = viewOf(header);
	const flags = view.getUint16(6, true);
	const extraBytes = view.getUint16(28, true);
	const isSame =
		view.getUint32(0, true) === LOCAL_HEADER &&
		view.getUint16(8, true) === entry.method &&
		view.getUint16(26, true) === entry.nameBytes.length &&
		entry.nameBytes.every((byte, at) => header[LOCAL_HEADER_BYTES + at] === byte);
	if (!isSame || extraBytes > restBytes) throw damaged(`${quoted(entry.name)} is not where its central directory says`);
	if ((flags & FLAG_ENCRYPTED) !== 0) throw entryDefect("encrypted_entry", entry.name);
	const hasDescriptor = (flags & FLAG_DESCRIPTOR) !== 0;
	if (hasDescriptor && entry.method === METHOD_STORED) throw entryDefect("stored_with_descriptor", entry.name);
	if (entry.needsUtf8Flag && (flags & FLAG_UTF8) === 0) onUnflagged(entry);
	const contentOffset = headerEnd(entry) + extraBytes;
	if (hasDescriptor) {
		if (!(await compareDescriptor(window, entry, contentOffset, restBytes - extraBytes, isLast))) return false;
	} else {
		const extra = extraBytes === 0 ? new Uint8Array() : await window.read(headerEnd(entry), extraBytes, extraBytes);
		if (extra === undefined) return false;
		compareSizes(view, extra, entry);
		await refuseFollowing(window, file, contentOffset + compressedBytes, restBytes - extraBytes);
	}
	return !isUnpacked || compareContent(window, entry, contentOffset);
}

function compareSizes(header: DataView, extra: Uint8Array, entry: DirectoryEntry): void {
	const large = zip64SizesIn(extra);
	const uncompressed = large?.uncompressedBytes ?? header.getUint32(22, true);
	const compressed = large?.compressedBytes ?? header.getUint32(18, true);
	const isSame =
		uncompressed === entry.uncompressedBytes &&
		compressed === entry.compressedBytes &&
		header.getUint32(14, true) === entry.crc32;
	if (!isSame) throw damaged(`the sizes or the checksum of ${quoted(entry.name)} contradict the directory`);
}

/** Sizes and checksum after the content, which Android reads with 32 bits. */
async function compareDescriptor(
	window: Window,
	entry: DirectoryEntry,
	contentOffset: number,
	restBytes: number,
	isLast: boolean,
): Promise<boolean> {
	const offset = contentOffset + entry.compressedBytes;
	const length = Math.min(restBytes, SIGNED_DESCRIPTOR_BYTES);
	if (length < DESCRIPTOR_BYTES) throw damaged(`the sizes after ${quoted(entry.name)} are missing`);
	const bytes = await window.read(offset, length, length);
	if (bytes === undefined) return false;
	const view = viewOf(bytes);
	const isAt = (at: number) =>
		at + DESCRIPTOR_BYTES <= length &&
		view.getUint32(at, true) === entry.crc32 &&
		view.getUint32(at + 4, true) === entry.compressedBytes &&
		view.getUint32(at + 8, true) === entry.uncompressedBytes;
	const isSigned = view.getUint32(0, true) === DESCRIPTOR_SIGNATURE;
	const usedBytes = isSigned ? SIGNED_DESCRIPTOR_BYTES : DESCRIPTOR_BYTES;
	if (isAt(isSigned ? 4 : 0)) {
		await refuseFollowing(window, { entry, isLast }, offset + usedBytes, restBytes - usedBytes);
		return true;
	}
	if (LARGE_DESCRIPTOR_BYTES.includes(restBytes)) throw entryDefect("large_descriptor", entry.name);
	throw damaged(`the sizes or the checksum after ${quoted(entry.name)} contradict the directory`);
}

/** Android reads on where a file ends, so another file must be there, or the end of the files. */
async function refuseFollowing(
	window: Window,
	{ entry, isLast }: Pick<File, "entry" | "isLast">,
	offset: number,
	restBytes: number,
): Promise<void> {
	if (restBytes === 0) return;
	const start = isLast ? await window.read(offset, Math.min(4, restBytes), 4) : undefined;
	const isFile = start?.length === 4 && viewOf(start).getUint32(0, true) === LOCAL_HEADER;
	if (!isLast || isFile)
		throw damaged(`bytes that its directory does not name follow ${quoted(entry.name)}, where Android reads on`);
}

/** @returns false if the bytes are out of reach */
async function compareContent(window: Window, entry: DirectoryEntry, offset: number): Promise<boolean> {
	const { compressedBytes, uncompressedBytes } = entry;
	let isInReach = true;
	let fault: { readonly error: unknown } | undefined;
	async function* pieces() {
		for (let at = 0; isInReach && at < compressedBytes; at += PIECE_BYTES) {
			const length = Math.min(PIECE_BYTES, compressedBytes - at);
			const piece = await window.read(offset + at, length, WINDOW_BYTES).catch((error: unknown) => {
				fault = { error };
				throw error;
			});
			isInReach = piece !== undefined;
			if (piece !== undefined) yield piece;
		}
	}
	let checksum = 0;
	let unpackedBytes = 0;
	const content = entry.method === METHOD_DEFLATE ? inflated(pieces()) : pieces();
	try {
		for await (const bytes of content) {
			checksum = crc32.buf(bytes, checksum);
			unpackedBytes += bytes.length;
			if (unpackedBytes > uncompressedBytes) break;
		}
	} catch {
		if (fault !== undefined) throw fault.error;
		if (!isInReach) return false;
		throw damaged(`${quoted(entry.name)} cannot be unpacked`);
	}
	if (!isInReach) return false;
	if (unpackedBytes !== uncompressedBytes || checksum >>> 0 !== entry.crc32)
		throw damaged(`the content of ${quoted(entry.name)} has another size or checksum than its directory says`);
	return true;
}

async function* inflated(pieces: AsyncGenerator<Uint8Array>): AsyncGenerator<Uint8Array> {
	const { readable, writable } = new DecompressionStream("deflate-raw");
	const writer = writable.getWriter();
	const reader = (readable as ReadableStream<Uint8Array>).getReader();
	const write = async () => {
		for await (const piece of pieces) await writer.write(piece as Uint8Array<ArrayBuffer>);
		await writer.close();
	};
	// The reader sees every failure, so nothing awaits this promise before the end.
	const writing = write().catch((error: unknown) => writer.abort(error).catch(() => undefined));
	try {
		for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
	} finally {
		reader.cancel().catch(() => undefined);
		writer.abort().catch(() => undefined);
		await writing;
	}
}

/** Reads a source mostly from front to back, a window at a time. */
class Window {
	#offset = 0;
	#bytes = new Uint8Array();
	#reads = 0;
	constructor(
		readonly source: ArchiveSource,
		readonly endOffset: number,
	) {}

	isBefore({ headerOffset }: DirectoryEntry): boolean {
		return headerOffset < (this.source.readableFrom ?? 0);
	}

	/**
	 * @param ahead bytes to read at once if they are not in memory
	 * @returns undefined if the source does not keep the bytes, or the reads are used up
	 */
	async read(offset: number, length: number, ahead: number): Promise<Uint8Array | undefined> {
		const at = offset - this.#offset;
		if (at >= 0 && at + length <= this.#bytes.length) return this.#bytes.subarray(at, at + length);
		if (offset < (this.source.readableFrom ?? 0) || this.#reads === MOST_WINDOWS) return undefined;
		this.#reads += 1;
		this.#bytes = new Uint8Array(
			await this.source.read(offset, Math.max(length, Math.min(ahead, this.endOffset - offset))),
		);
		this.#offset = offset;
		return this.#bytes.subarray(0, length);
	}
}
