/**
 * A snapshot as it is stored in R2: a line of JSON with the rows and the sizes of the manifests, then the manifests, each as JSON. A reader
 * parses a manifest when a device is offered it, because most of the text is manifests.
 */
import type {
	SnapshotAppRow,
	SnapshotBundleRow,
	SnapshotChannelRow,
	SnapshotFile,
	SnapshotOverrideRow,
	SnapshotZipOnlyRow,
} from "../db/snapshot-load";

export interface SnapshotRows {
	readonly app: SnapshotAppRow;
	readonly channels: readonly SnapshotChannelRow[];
	readonly bundles: readonly SnapshotBundleRow[];
	readonly overrides: readonly SnapshotOverrideRow[];
	/** Names of ready bundles. */
	readonly names: readonly string[];
	readonly zipOnly: readonly SnapshotZipOnlyRow[];
}

interface StoredSnapshot {
	/** When D1 was read. */
	readonly atMs: number;
	readonly rows: SnapshotRows;
	/** JSON of `SnapshotFile` rows, by bundle. */
	readonly manifests: ReadonlyMap<number, string>;
}

export function textOf(
	atMs: number,
	rows: SnapshotRows,
	files: readonly (SnapshotFile & { readonly bundle_id: number })[],
	mostFiles: number,
): string {
	const byBundle = Map.groupBy(files, ({ bundle_id }) => bundle_id);
	// The last manifest may be incomplete.
	const cut = files.length > mostFiles ? files.at(-1)?.bundle_id : undefined;
	const manifests = [...byBundle]
		.filter(([id]) => id !== cut)
		.map(([id, of]) => [id, JSON.stringify(of.map(({ bundle_id: _, ...file }) => file))] as const);
	const sizes = manifests.map(([id, text]) => [id, text.length]);
	return `${JSON.stringify({ atMs, rows, sizes })}\n${manifests.map(([, text]) => text).join("")}`;
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
