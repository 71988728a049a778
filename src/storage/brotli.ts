/**
 * Brotli decompression with a size limit. DecompressionStream does not support Brotli, so this uses node:zlib. `Duplex.toWeb` is not used, because
 * it leaves a rejected promise in workerd.
 */
import { createBrotliDecompress } from "node:zlib";

/** Every file may unpack to this size, which takes a few milliseconds of processor time. */
const FREE_BYTES = 256 * 1024;
/** Text of web builds has a ratio of 3 to 20. */
const MOST_RATIO = 64;
/** Half a second of processor time; a larger file takes no less if it is stored as it is. */
export const MOST_UNPACKED_BYTES = 64 * 1024 * 1024;

/** Most bytes that a file of this size may unpack to, so that the work is in proportion to what was sent. */
export const mostUnpackedBytes = (packedBytes: number): number =>
	Math.min(MOST_UNPACKED_BYTES, FREE_BYTES + MOST_RATIO * packedBytes);

/** The unpacked stream. It fails if the bytes are not Brotli, or unpack to more than `mostBytes`. */
export function unpackBrotli(packed: ReadableStream<Uint8Array>, mostBytes: number): ReadableStream<Uint8Array> {
	const unpacker = createBrotliDecompress();
	let unpackedBytes = 0;
	async function feed(): Promise<void> {
		try {
			for await (const chunk of packed) {
				await new Promise<void>((resolve, reject) =>
					unpacker.write(chunk, (error) => (error == null ? resolve() : reject(error))),
				);
			}
			unpacker.end();
		} catch (error) {
			unpacker.destroy(error instanceof Error ? error : new Error(String(error)));
		}
	}
	return new ReadableStream<Uint8Array>({
		start(controller) {
			unpacker.on("data", (chunk) => {
				unpackedBytes += chunk.length;
				if (unpackedBytes > mostBytes) return unpacker.destroy(new Error("the file unpacks to more than the limit"));
				controller.enqueue(new Uint8Array(chunk));
				// Resumes in `pull`, so that memory holds little of a large file.
				if ((controller.desiredSize ?? 0) <= 0) unpacker.pause();
			});
			unpacker.on("end", () => controller.close());
			unpacker.on("error", (error) => controller.error(error));
			void feed();
		},
		pull() {
			unpacker.resume();
		},
		cancel() {
			unpacker.destroy();
		},
	});
}
