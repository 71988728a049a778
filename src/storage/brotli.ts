/**
 * Brotli within bounds. The Web's DecompressionStream does not know it, so it is taken from Node's modules, which the Worker has. Their
 * `Duplex.toWeb` is not used: in workerd it leaves a rejected promise behind.
 */
import { createBrotliDecompress } from "node:zlib";

/** About two seconds of work; a file of a few kilobytes can unpack to gigabytes. */
export const MOST_UNPACKED_BYTES = 256 * 1024 * 1024;

/** The unpacked stream. It breaks off with an error if the bytes are not Brotli, or unpack to too much. */
export function unpackBrotli(packed: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
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
				if (unpackedBytes > MOST_UNPACKED_BYTES) return unpacker.destroy(new Error("the file unpacks to too much"));
				controller.enqueue(new Uint8Array(chunk));
				// It goes on when somebody reads, so that little of a large file is in memory.
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
