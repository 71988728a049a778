/**
 * Brotli within bounds. The Web's DecompressionStream does not know it, so it is taken from Node's modules, which the Worker has.
 */
import { Duplex } from "node:stream";
import { createBrotliDecompress } from "node:zlib";

/** About two seconds of work; a file of a few kilobytes can unpack to gigabytes. */
export const MOST_UNPACKED_BYTES = 256 * 1024 * 1024;

/** The unpacked stream. It breaks off with an error if the bytes are not Brotli, or unpack to too much. */
export function unpackBrotli(stream: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
	let unpackedBytes = 0;
	// Node's types of streams and the Worker's are the same thing by two names.
	const unpack = Duplex.toWeb(createBrotliDecompress()) as unknown as ReadableWritablePair<Uint8Array, Uint8Array>;
	return stream.pipeThrough(unpack).pipeThrough(
		new TransformStream<Uint8Array, Uint8Array>({
			transform(chunk, controller) {
				unpackedBytes += chunk.length;
				if (unpackedBytes > MOST_UNPACKED_BYTES) controller.error(new Error("the file unpacks to too much"));
				else controller.enqueue(chunk);
			},
		}),
	);
}
