/**
 * Brotli decompression with a size limit. DecompressionStream does not support Brotli, so this uses
 * node:zlib, and in one call: the runtime's stream unpacks all that it was given before it can be
 * stopped, so a few bytes would fill the memory.
 */
import { brotliDecompressSync } from "node:zlib";

/**
 * Every file may unpack to this size: a few milliseconds of processor time, and no more for 14
 * bytes than for a megabyte.
 */
const FREE_BYTES = 4 * 1024 * 1024;
/** Counted beside the packed bytes of a file that unpacks to more than `MOST_RATIO` says. */
const COUNTED_FREE_BYTES = 256 * 1024;
/** Text of web builds has a ratio of 3 to 20. */
const MOST_RATIO = 64;
/**
 * A quarter of a second of processor time, and with the packed bytes half of an isolate's memory.
 */
export const MOST_UNPACKED_BYTES = 32 * 1024 * 1024;

/** A larger file is refused unread. */
export const MOST_PACKED_BYTES = 24 * 1024 * 1024;

/**
 * Most bytes that a file of this size may unpack to, so that the work is in proportion to what was
 * sent.
 */
export const mostUnpackedBytes = (packedBytes: number): number =>
	Math.min(MOST_UNPACKED_BYTES, FREE_BYTES + MOST_RATIO * packedBytes);

/**
 * Memory that such a check counts. What a small file unpacks to beyond that is in memory within one
 * turn of the event loop only, in which it is unpacked and hashed, so never of two files.
 */
export const memoryOfUnpacking = (packedBytes: number): number =>
	packedBytes + Math.min(MOST_UNPACKED_BYTES, COUNTED_FREE_BYTES + MOST_RATIO * packedBytes);

/**
 * The unpacked bytes; undefined if the bytes are not Brotli, or unpack to more than
 * `mostUnpackedBytes`.
 */
export function unpackBrotli(packed: Uint8Array): Uint8Array | undefined {
	try {
		return brotliDecompressSync(packed, { maxOutputLength: mostUnpackedBytes(packed.length) });
	} catch {
		return undefined;
	}
}
