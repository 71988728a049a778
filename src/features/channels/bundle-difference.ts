/**
 * The files that differ between two bundles, for the approver of a promotion: by their manifests,
 * and by the central directories of their zips. Bundles with different forms are not compared,
 * because devices would get the other form. File contents and large directories are never read.
 */

import * as v from "valibot";
import type { AppId } from "../../authz/decide";
import type { Principal } from "../../authz/principal";
import {
	type ComparableBundle,
	comparableBundles,
	type ManifestDifference,
	manifestDifference,
} from "../../db/proposals";
import { uploaderColumns } from "../../db/uploads";
import type { Deps } from "../../deps";
import { type ArchiveFile, archiveFiles } from "../../domain/bundles/archive";
import { BundleArchiveError } from "../../domain/bundles/archive-errors";
import { type Memory, ownerOf, type WaitUntil } from "../../http/limits/memory";
import { readRange } from "../../storage/objects";

/** Files that an answer names; its counts are complete. */
const MOST_NAMED = 100;
/** About 20,000 files. Two are in memory at a time. */
const MOST_DIRECTORY_BYTES = 2 * 1024 * 1024;
/**
 * About 500 files, which are read in a millisecond or two. Larger directories are read one after
 * the other.
 */
const SMALL_DIRECTORY_BYTES = 64 * 1024;

const counted = {
	added: v.number(),
	changed: v.number(),
	removed: v.number(),
	files: v.array(v.strictObject({ file: v.string(), change: v.picklist(["added", "changed", "removed"]) })),
};
export const differenceSchema = v.strictObject({
	by: v.picklist(["manifest", "zip"]),
	...counted,
	/** Present for bundles that have manifests and zips. */
	zip: v.nullable(v.strictObject(counted)),
});
type Difference = v.InferOutput<typeof differenceSchema>;

/** Why a form was not compared. */
export const NOT_COMPARED = ["forms_differ", "zip"] as const;

interface Comparison {
	readonly difference: Difference | null;
	readonly not_compared: (typeof NOT_COMPARED)[number] | null;
}

/** Reads for `bundleDifference`; for one batch. */
export function differenceReads(appId: AppId, before: number, after: number) {
	return [comparableBundles(appId, [before, after]), manifestDifference(appId, before, after, MOST_NAMED)] as const;
}

/** A request that reads zips. */
export interface ZipReader {
	readonly deps: Pick<Deps, "bundles">;
	readonly memory: Pick<Memory, "directories">;
	readonly waitUntil: WaitUntil;
	readonly principal: Principal;
	readonly scope: { readonly orgId: string };
}

/** Compares nothing if one of the bundles is deleted or is the store build. */
export async function bundleDifference(
	reader: ZipReader,
	bundles: readonly ComparableBundle[],
	differing: readonly ManifestDifference[],
	before: number,
	after: number,
): Promise<Comparison> {
	const old = bundles.find(({ id }) => id === before);
	const next = bundles.find(({ id }) => id === after);
	if (old === undefined || next === undefined) return { difference: null, not_compared: null };
	if (old.has_manifest !== next.has_manifest || old.has_zip !== next.has_zip) {
		return { difference: null, not_compared: "forms_differ" };
	}
	const [oldFiles, newFiles] = old.has_zip === 1 ? [await filesOfZip(reader, old), await filesOfZip(reader, next)] : [];
	const zip = oldFiles === undefined || newFiles === undefined ? null : compare(oldFiles, newFiles);
	const not_compared = old.has_zip === 1 && zip === null ? "zip" : null;
	if (old.has_manifest === 0) {
		return { difference: zip === null ? null : { by: "zip", ...zip, zip: null }, not_compared };
	}
	const [first] = differing;
	const counts = { added: first?.added ?? 0, changed: first?.changed ?? 0, removed: first?.removed ?? 0 };
	const files = differing.map(({ file_name, change }) => ({ file: file_name, change }));
	return { difference: { by: "manifest", ...counts, files, zip }, not_compared };
}

/**
 * The files of a bundle's zip by path; undefined if it is encrypted or on another server, or if its
 * directory is too large.
 * @throws {ApiError} `too_many_requests` if the caller has many large ones read at the same time
 */
export async function filesOfZip(
	{ deps, memory, waitUntil, principal, scope }: ZipReader,
	{
		object_key: key,
		size_bytes: sizeBytes,
		session_key,
	}: Pick<ComparableBundle, "object_key" | "size_bytes" | "session_key">,
): Promise<ReadonlyMap<string, ArchiveFile> | undefined> {
	if (key === null || sizeBytes === null || session_key !== null) return undefined;
	const source = {
		sizeBytes,
		async read(offset: number, length: number) {
			const bytes = await readRange(deps.bundles, key, { offset, length });
			if (bytes === null) throw new BundleGone();
			return bytes;
		},
	};
	try {
		return await archiveFiles(source, MOST_DIRECTORY_BYTES, (directoryBytes, read) =>
			directoryBytes <= SMALL_DIRECTORY_BYTES
				? read()
				: memory.directories.during(ownerOf(uploaderColumns(principal), scope.orgId), 1, waitUntil, read),
		);
	} catch (error) {
		// A list without this comparison beats an error; the approval checks the bundle again.
		if (error instanceof BundleGone || error instanceof BundleArchiveError) return undefined;
		throw error;
	}
}

class BundleGone extends Error {
	override readonly name = "BundleGone";
}

function compare(
	before: ReadonlyMap<string, ArchiveFile>,
	after: ReadonlyMap<string, ArchiveFile>,
): Omit<Difference, "by" | "zip"> {
	const files: Difference["files"] = [];
	for (const [file, content] of after) {
		const old = before.get(file);
		const isSame = old?.crc32 === content.crc32 && old.uncompressedBytes === content.uncompressedBytes;
		if (!isSame) files.push({ file, change: old === undefined ? "added" : "changed" });
	}
	for (const file of before.keys()) if (!after.has(file)) files.push({ file, change: "removed" });
	const count = (wanted: string) => files.filter(({ change }) => change === wanted).length;
	files.sort((one, other) => (one.file < other.file ? -1 : 1));
	return {
		added: count("added"),
		changed: count("changed"),
		removed: count("removed"),
		files: files.slice(0, MOST_NAMED),
	};
}
