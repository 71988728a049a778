/**
 * Checks that received bytes are a bundle that devices can unpack, by the rules of
 * src/domain/bundles/archive.ts, and corrects the one defect that can be corrected without the
 * sender. An encrypted bundle cannot be checked.
 */
import type { Deps } from "../../deps";
import { checkBundleArchive } from "../../domain/bundles/archive";
import { type ArchiveSource, MOST_DIRECTORY_BYTES } from "../../domain/bundles/archive-directory";
import { BundleArchiveError, entryDefect } from "../../domain/bundles/archive-errors";
import { mostUnpackedBytes } from "../../domain/bundles/archive-files";
import { ApiError } from "../../errors";
import { getObject, putOnceHashing, readRange, sha256OfObject } from "../../storage/objects";

const UTF8_FLAG_IN_UPPER_BYTE = 0x08;
/** Metadata of the copy, so that a repeated upload of the same bytes is recognized. */
const RECEIVED_SHA256 = "received-sha256";

type CheckDeps = Pick<Deps, "bundles" | "config">;

/** `unflaggedOffsets`: bytes whose bit 0x08 must be set before a device gets the archive. */
type ArchiveVerdict = { readonly problem: ApiError } | { readonly unflaggedOffsets: readonly number[] };

/** Memory and work of a check: the directory, its entries, and what is unpacked. */
export const memoryOfCheck = (sizeBytes: number): number =>
	Math.min(sizeBytes, MOST_DIRECTORY_BYTES) + mostUnpackedBytes(sizeBytes);

/**
 * @param isFixed the bytes cannot be changed, because they are on another server or their checksum
 * is given
 * @throws what reading the source throws
 */
export async function checkArchive(
	deps: Pick<Deps, "config">,
	source: ArchiveSource,
	isFixed: boolean,
): Promise<ArchiveVerdict> {
	try {
		const rules = { mostUncompressedBytes: deps.config.maxUncompressedBundleBytes };
		const { unflagged } = await checkBundleArchive(source, rules);
		if (unflagged !== undefined && isFixed) throw entryDefect("missing_utf8_flag", unflagged.name);
		return { unflaggedOffsets: unflagged?.offsets ?? [] };
	} catch (error) {
		if (!(error instanceof BundleArchiveError)) throw error;
		return {
			problem: new ApiError("bundle_invalid", error.message, { moreInfo: { reason: error.reason, ...error.facts } }),
		};
	}
}

interface StoredBytes {
	readonly objectKey: string;
	readonly sizeBytes: number;
	readonly sha256: string;
}

/**
 * The same for an object in R2, which is read in ranges. Throws `gone` if the object was removed.
 */
export function checkStoredArchive(
	deps: CheckDeps,
	stored: StoredBytes,
	isFixed: boolean,
	gone: () => ApiError,
): Promise<ArchiveVerdict> {
	const source: ArchiveSource = {
		sizeBytes: stored.sizeBytes,
		async read(offset, length) {
			const bytes = await readRange(deps.bundles, stored.objectKey, { offset, length });
			if (bytes === null) throw gone();
			return bytes;
		},
	};
	return checkArchive(deps, source, isFixed);
}

/**
 * Copies a stored archive with the UTF-8 flag on the names that need it. Repeating this after a
 * crash finds the copy.
 * @param offsets as `checkBundleArchive` gives them
 */
export async function storeFlagged(
	{ bundles }: Pick<Deps, "bundles">,
	stored: StoredBytes,
	copy: { readonly key: string; readonly contentType: string; readonly offsets: readonly number[] },
	gone: () => ApiError,
): Promise<StoredBytes> {
	const object = await getObject(bundles, stored.objectKey);
	if (object === null) throw gone();
	const body = (object.body as ReadableStream<Uint8Array>).pipeThrough(flagging(copy.offsets));
	const result = await putOnceHashing(bundles, copy.key, body, stored.sizeBytes, {
		contentType: copy.contentType,
		metadata: { [RECEIVED_SHA256]: stored.sha256 },
	});
	const sha256 = result.outcome === "stored" ? result.sha256 : await sha256OfObject(bundles, copy.key);
	if (sha256 === null) throw gone();
	return { objectKey: copy.key, sizeBytes: stored.sizeBytes, sha256 };
}

/**
 * The SHA-256 of the bytes that were sent, for an object that `storeFlagged` made; undefined for
 * another one.
 */
export const receivedSha256 = (object: R2Object | null): string | undefined =>
	object?.customMetadata?.[RECEIVED_SHA256];

function flagging(offsets: readonly number[]): TransformStream<Uint8Array, Uint8Array> {
	let position = 0;
	let next = 0;
	return new TransformStream({
		transform(chunk, controller) {
			const bytes = chunk.slice();
			for (; (offsets[next] ?? Number.POSITIVE_INFINITY) < position + bytes.length; next++) {
				const at = (offsets[next] ?? 0) - position;
				bytes[at] = (bytes[at] ?? 0) | UTF8_FLAG_IN_UPPER_BYTE;
			}
			position += bytes.length;
			controller.enqueue(bytes);
		},
	});
}
