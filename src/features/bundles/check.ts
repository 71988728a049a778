/**
 * Checks that received bytes are a bundle that devices can unpack, by the rules of src/domain/bundle-archive.ts. An encrypted bundle cannot
 * be checked.
 */
import type { Deps } from "../../deps";
import { checkBundleArchive } from "../../domain/bundle-archive";
import type { ArchiveSource } from "../../domain/bundle-archive-directory";
import { BundleArchiveError } from "../../domain/bundle-archive-errors";
import { ApiError } from "../../errors";
import { readRange } from "../../storage/objects";

type CheckDeps = Pick<Deps, "bundles" | "config">;

/**
 * @returns the error to answer with; undefined for a valid bundle
 * @throws what reading the source throws
 */
export async function archiveProblem(deps: Pick<Deps, "config">, source: ArchiveSource): Promise<ApiError | undefined> {
	try {
		await checkBundleArchive(source, { mostUncompressedBytes: deps.config.maxUncompressedBundleBytes });
		return undefined;
	} catch (error) {
		if (!(error instanceof BundleArchiveError)) throw error;
		return new ApiError("bundle_invalid", error.message, { moreInfo: { reason: error.reason, ...error.facts } });
	}
}

/** The same for an object in R2, which is read in ranges. Throws `gone` if the object was removed. */
export function storedArchiveProblem(
	deps: CheckDeps,
	stored: { readonly objectKey: string; readonly sizeBytes: number },
	gone: () => ApiError,
): Promise<ApiError | undefined> {
	return archiveProblem(deps, {
		sizeBytes: stored.sizeBytes,
		async read(offset, length) {
			const bytes = await readRange(deps.bundles, stored.objectKey, { offset, length });
			if (bytes === null) throw gone();
			return bytes;
		},
	});
}
