/**
 * Zips made byte by byte, so that a test can break any field of one, and bundles of an exact size.
 */
import crc32 from "crc-32";

export interface ZipEntry {
	readonly name: string | Uint8Array;
	readonly content?: Uint8Array;
	/** CRC-32 of the content, where somebody has it already. */
	readonly checksum?: number;
	/** False values for the records of the zip. */
	readonly method?: number;
	readonly flags?: number;
	/** The upper half of the external attributes, e.g. 0o100644. */
	readonly unixMode?: number;
	readonly compressedBytes?: number;
	readonly uncompressedBytes?: number;
	readonly headerOffset?: number;
	readonly nameInHeader?: string;
	/** Extra field of the local header. */
	readonly extra?: Uint8Array;
	/** Bytes after the content, such as a descriptor. */
	readonly after?: Uint8Array;
	readonly madeBy?: number;
	readonly dosAttributes?: number;
}

export interface ZipOptions {
	readonly comment?: Uint8Array;
	/** Sizes and offsets stand in ZIP64 fields, as in archives of more than 4 GiB. */
	readonly zip64?: boolean;
	/** Bytes before the first entry. */
	readonly before?: Uint8Array;
}

const FLAG_UTF8 = 0x0800;
const MAX_32 = 0xffffffff;
const SLASH = 0x2f;
const bytesOf = (text: string | Uint8Array) => (typeof text === "string" ? new TextEncoder().encode(text) : text);

/** Little-endian numbers of the given widths (2, 4 or 8 bytes) one after the other. */
function record(...fields: readonly (readonly [width: number, value: number])[]): Uint8Array {
	const bytes = new Uint8Array(fields.reduce((sum, [width]) => sum + width, 0));
	const view = new DataView(bytes.buffer);
	let at = 0;
	for (const [width, value] of fields) {
		if (width === 2) view.setUint16(at, value, true);
		else if (width === 4) view.setUint32(at, value, true);
		else view.setBigUint64(at, BigInt(value), true);
		at += width;
	}
	return bytes;
}

export const joined = (...parts: readonly Uint8Array[]) => concatenated(parts);

function concatenated(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
	const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
	let at = 0;
	for (const part of parts) {
		bytes.set(part, at);
		at += part.length;
	}
	return bytes;
}

/** A zip of stored entries. */
export function zipOf(
	entries: readonly ZipEntry[],
	{ comment = new Uint8Array(), zip64 = false, before = new Uint8Array() }: ZipOptions = {},
): Uint8Array<ArrayBuffer> {
	const parts: Uint8Array[] = [before];
	const directory: Uint8Array[] = [];
	let offset = before.length;
	for (const entry of entries) {
		const name = bytesOf(entry.name);
		const nameInHeader = entry.nameInHeader === undefined ? name : bytesOf(entry.nameInHeader);
		const content = entry.content ?? new Uint8Array();
		const flags = entry.flags ?? FLAG_UTF8;
		const method = entry.method ?? 0;
		const checksum = entry.checksum ?? crc32.buf(content) >>> 0;
		const compressed = entry.compressedBytes ?? content.length;
		const uncompressed = entry.uncompressedBytes ?? content.length;
		const headerOffset = entry.headerOffset ?? offset;
		const shared = (large: boolean): readonly (readonly [number, number])[] => [
			[2, flags],
			[2, method],
			[4, 0x00210000],
			[4, checksum],
			[4, large ? MAX_32 : compressed],
			[4, large ? MAX_32 : uncompressed],
		];
		const ownExtra = entry.extra ?? new Uint8Array();
		const header = joined(
			record([4, 0x04034b50], [2, 20], ...shared(false), [2, nameInHeader.length], [2, ownExtra.length]),
			nameInHeader,
			ownExtra,
			content,
			entry.after ?? new Uint8Array(),
		);
		const extra = zip64
			? record([2, 1], [2, 24], [8, uncompressed], [8, compressed], [8, headerOffset])
			: new Uint8Array();
		directory.push(
			record(
				[4, 0x02014b50],
				[2, ((entry.madeBy ?? 3) << 8) | 20],
				[2, 20],
				...shared(zip64),
				[2, name.length],
				[2, extra.length],
				[2, 0],
				[2, 0],
				[2, 0],
				[2, entry.dosAttributes ?? 0],
				[2, entry.unixMode ?? (name.at(-1) === SLASH ? 0o040755 : 0o100644)],
				[4, zip64 ? MAX_32 : headerOffset],
			),
			name,
			extra,
		);
		parts.push(header);
		offset += header.length;
	}
	const directoryBytes = directory.reduce((sum, part) => sum + part.length, 0);
	const count = entries.length;
	const end64 = zip64
		? joined(
				record(
					[4, 0x06064b50],
					[8, 44],
					[2, 45],
					[2, 45],
					[4, 0],
					[4, 0],
					[8, count],
					[8, count],
					[8, directoryBytes],
					[8, offset],
				),
				record([4, 0x07064b50], [4, 0], [8, offset + directoryBytes], [4, 1]),
			)
		: new Uint8Array();
	const end = record(
		[4, 0x06054b50],
		[2, 0],
		[2, 0],
		[2, zip64 ? 0xffff : count],
		[2, zip64 ? 0xffff : count],
		[4, zip64 ? MAX_32 : directoryBytes],
		[4, zip64 ? MAX_32 : offset],
		[2, comment.length],
	);
	return concatenated([...parts, ...directory, end64, end, comment]);
}

/**
 * Bytes that differ from place to place, so that a lost, doubled or moved piece changes the hash.
 */
export function patterned(length: number, seed = 1): Uint8Array {
	const bytes = new Uint8Array(length);
	let state = seed >>> 0 || 1;
	for (let index = 0; index < length; index++) {
		state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
		bytes[index] = state >>> 24;
	}
	return bytes;
}

/** Overhead of a zip with one index.html, besides its content. */
const FRAME_BYTES = zipOf([{ name: "index.html" }]).length;

/**
 * A bundle of exactly that many bytes that differ from place to place; at least `FRAME_BYTES`,
 * which are 118.
 */
export function bundleOf(lengthBytes: number, seed = 1): Uint8Array<ArrayBuffer> {
	return zipOf([{ name: "index.html", content: patterned(lengthBytes - FRAME_BYTES, seed) }]);
}

/** The bundle of a test to which its content does not matter. */
export function testBundle(version: string): Uint8Array<ArrayBuffer> {
	return zipOf([{ name: "index.html", content: new TextEncoder().encode(`bundle ${version}`) }]);
}
