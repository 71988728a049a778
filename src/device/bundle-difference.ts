/**
 * How the files of two bundles differ, for a person who approves one: by their manifests where both have one, else by the central
 * directories of their zips. The content is never read, and neither is a directory that is large.
 */
import * as v from "valibot";
import type { AppId } from "../authz/decide";
import { type ComparableBundle, comparableBundles, type ManifestDifference, manifestDifference } from "../db/proposals";
import type { Deps } from "../deps";
import { archiveFiles, BundleArchiveError } from "../domain/bundle-archive";
import { readRange } from "../storage/objects";

/** Files that are named; the counts are of all. */
const MOST_NAMED = 100;
/** About 20,000 files. Two are held in memory at once. */
const MOST_DIRECTORY_BYTES = 2 * 1024 * 1024;

export const differenceSchema = v.strictObject({
	by: v.picklist(["manifest", "zip"]),
	added: v.number(),
	changed: v.number(),
	removed: v.number(),
	files: v.array(v.strictObject({ file: v.string(), change: v.picklist(["added", "changed", "removed"]) })),
});
type Difference = v.InferOutput<typeof differenceSchema>;

/** What `bundleDifference` compares; for one batch. */
export function differenceReads(appId: AppId, before: number, after: number) {
	return [comparableBundles(appId, [before, after]), manifestDifference(appId, before, after, MOST_NAMED)] as const;
}

/** Null where the two cannot be compared: one is encrypted, external, gone, or has too many files. */
export async function bundleDifference(
	deps: Pick<Deps, "bundles">,
	bundles: readonly ComparableBundle[],
	differing: readonly ManifestDifference[],
	before: number,
	after: number,
): Promise<Difference | null> {
	const old = bundles.find(({ id }) => id === before);
	const next = bundles.find(({ id }) => id === after);
	if (old === undefined || next === undefined) return null;
	if (old.has_manifest === 1 && next.has_manifest === 1) {
		const [first] = differing;
		const counts = { added: first?.added ?? 0, changed: first?.changed ?? 0, removed: first?.removed ?? 0 };
		return {
			by: "manifest",
			...counts,
			files: differing.map(({ file_name, change }) => ({ file: file_name, change })),
		};
	}
	const [oldFiles, newFiles] = [await filesOf(deps, old), await filesOf(deps, next)];
	return oldFiles === undefined || newFiles === undefined ? null : compare(oldFiles, newFiles);
}

async function filesOf(
	deps: Pick<Deps, "bundles">,
	{ object_key: key, size_bytes: sizeBytes, session_key }: ComparableBundle,
): Promise<Map<string, string> | undefined> {
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
		return await archiveFiles(source, MOST_DIRECTORY_BYTES);
	} catch (error) {
		// A summary is no reason to refuse the list; the approval itself looks at the bundle again.
		if (error instanceof BundleGone || error instanceof BundleArchiveError) return undefined;
		throw error;
	}
}

class BundleGone extends Error {
	override readonly name = "BundleGone";
}

function compare(before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): Difference {
	const files: Difference["files"] = [];
	for (const [file, content] of after) {
		const old = before.get(file);
		if (old !== content) files.push({ file, change: old === undefined ? "added" : "changed" });
	}
	for (const file of before.keys()) if (!after.has(file)) files.push({ file, change: "removed" });
	const count = (wanted: string) => files.filter(({ change }) => change === wanted).length;
	files.sort((one, other) => (one.file < other.file ? -1 : 1));
	return {
		by: "zip",
		...{ added: count("added"), changed: count("changed"), removed: count("removed") },
		files: files.slice(0, MOST_NAMED),
	};
}
