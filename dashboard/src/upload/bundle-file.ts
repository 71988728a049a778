/**
 * Checks a zip before its upload: the server's own rules (src/domain/bundles/archive.ts), and
 * whether a script calls notifyAppReady, because devices roll back a bundle that never does.
 *
 * The file is read in slices and unpacked as a stream, so the page stays responsive and memory
 * stays flat for zips of any size.
 */
import { checkBundleArchive } from "../../../src/domain/bundles/archive";
import {
	type ArchiveEntry,
	type ArchiveSource,
	contentOffset,
	METHOD_DEFLATE,
} from "../../../src/domain/bundles/archive-directory";
import { BundleArchiveError } from "../../../src/domain/bundles/archive-errors";

const CALL = "notifyAppReady";
const SCRIPT = /\.(?:[cm]?js|html?)$/i;
/** Scripts beyond this size are not searched, so a missing call is reported as unknown. */
const MOST_SEARCHED_BYTES = 512 * 1024 * 1024;

export type FileVerdict =
	| { readonly outcome: "refused"; readonly message: string }
	| { readonly outcome: "accepted"; readonly call: "found" | "missing" | "unknown" };

/** @throws errors of reading the file, and the reason of `signal` */
export async function checkBundleFile(file: Blob, signal: AbortSignal): Promise<FileVerdict> {
	const source: ArchiveSource = {
		sizeBytes: file.size,
		async read(offset, length) {
			signal.throwIfAborted();
			return new Uint8Array(await file.slice(offset, offset + length).arrayBuffer());
		},
	};
	const scripts: ArchiveEntry[] = [];
	try {
		await checkBundleArchive(source, {
			// The page does not know the server's limit.
			mostUncompressedBytes: Number.POSITIVE_INFINITY,
			onEntry: (entry) => {
				if (SCRIPT.test(entry.name) && !entry.name.startsWith("__MACOSX/")) scripts.push(entry);
			},
		});
	} catch (error) {
		if (error instanceof BundleArchiveError) return { outcome: "refused", message: error.message };
		throw error;
	}
	return findCall(file, source, scripts, signal);
}

async function findCall(
	file: Blob,
	source: ArchiveSource,
	scripts: readonly ArchiveEntry[],
	signal: AbortSignal,
): Promise<FileVerdict> {
	let searchedBytes = 0;
	for (const script of scripts) {
		const start = await contentOffset(source, script);
		const packed = file.slice(start, start + script.compressedBytes).stream();
		const content =
			script.method === METHOD_DEFLATE ? packed.pipeThrough(new DecompressionStream("deflate-raw")) : packed;
		try {
			for await (const bytes of bytesOf(content, signal)) {
				if (bytes === CALL) return { outcome: "accepted", call: "found" };
				searchedBytes += bytes;
				if (searchedBytes > MOST_SEARCHED_BYTES) return { outcome: "accepted", call: "unknown" };
			}
		} catch (error) {
			signal.throwIfAborted();
			if (!(error instanceof TypeError)) throw error;
			const message = `The zip is damaged: ${JSON.stringify(script.name)} cannot be unpacked. Create it again and choose the new file.`;
			return { outcome: "refused", message };
		}
	}
	return { outcome: "accepted", call: "missing" };
}

/** Yields the size of each chunk of the content, or the call as soon as a chunk contains it. */
async function* bytesOf(
	content: ReadableStream<Uint8Array>,
	signal: AbortSignal,
): AsyncGenerator<number | typeof CALL> {
	// The call is ASCII, so one character per byte is enough. It may be split across two chunks.
	const decoder = new TextDecoder("latin1");
	const reader = content.getReader();
	let before = "";
	try {
		for (;;) {
			signal.throwIfAborted();
			const { done, value } = await reader.read();
			if (done) return;
			const text = before + decoder.decode(value);
			if (text.includes(CALL)) yield CALL;
			before = text.slice(1 - CALL.length);
			yield value.length;
		}
	} finally {
		reader.cancel().catch(() => undefined);
	}
}
