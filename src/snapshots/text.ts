/**
 * A snapshot as it is stored in R2: a line of JSON with the rows and the sizes of the manifests,
 * then the manifests, each as JSON. A reader parses a manifest when a device is offered it, because
 * most of the text is manifests.
 */
import type { SnapshotFile } from "../db/snapshot-load";
import type { SnapshotRows } from "./rows";

/** Manifests beyond these are read on demand. */
const MOST_MANIFEST_CHARACTERS = 4_000_000;

export interface StoredSnapshot {
	/** When D1 was read. */
	readonly atMs: number;
	readonly rows: SnapshotRows;
	/** JSON of `SnapshotFile` rows, by bundle. */
	readonly manifests: ReadonlyMap<number, string>;
}

/** @param manifests by bundle, the most important ones first */
export function textOf({ atMs, rows, manifests }: StoredSnapshot): string {
	let characters = 0;
	const stored = [...manifests].filter(([, text]) => {
		characters += text.length;
		return characters <= MOST_MANIFEST_CHARACTERS;
	});
	const sizes = stored.map(([id, text]) => [id, text.length]);
	return `${JSON.stringify({ atMs, rows, sizes })}\n${stored.map(([, text]) => text).join("")}`;
}

/** @throws {Error} for a text that is no stored snapshot */
export function readSnapshotText(text: string): StoredSnapshot {
	const end = text.indexOf("\n");
	const { atMs, rows, sizes } = JSON.parse(text.slice(0, end)) as {
		readonly atMs: number;
		readonly rows: SnapshotRows;
		readonly sizes: readonly (readonly [bundleId: number, characters: number])[];
	};
	const manifests = new Map<number, string>();
	let start = end + 1;
	for (const [bundleId, characters] of sizes) {
		manifests.set(bundleId, text.slice(start, start + characters));
		start += characters;
	}
	if (start !== text.length) throw new Error("a stored snapshot is incomplete");
	return { atMs, rows, manifests };
}

export const filesOf = (manifest: string): readonly SnapshotFile[] => JSON.parse(manifest) as readonly SnapshotFile[];
