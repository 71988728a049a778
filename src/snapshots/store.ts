/**
 * The memory of the snapshot cache: snapshots, their manifests and ids of apps that do not exist.
 * Both lists are bounded and evict the least recently used entry; made-up app ids have a separate
 * list, so they evict no app.
 */

import type { SnapshotFile } from "../db/snapshot-load";
import { recentMap } from "../domain/recent";
import type { AppSnapshot } from "./app-snapshot";
import type { Pointer } from "./feed";
import type { Backoff } from "./freshness";
import type { SnapshotRows } from "./rows";
import { filesOf } from "./text";

/** Channels, bundles, overrides and files of all apps together. */
const MOST_HELD_BYTES = 24 * 1024 * 1024;
/** Ids of apps that do not exist, of up to 128 characters. */
const MOST_ABSENT = 5_000;
/** Whether apps exist that have no snapshot here, for downloads; about 150 bytes each. */
const MOST_LIVENESS = 10_000;
/**
 * An app or manifest that is read again so soon, though it did not change, was evicted: strangers
 * can cause that.
 */
const EVICTED_WITHIN_MS = 10_000;
/** Apps and manifests whose last reading is recorded; about 100 bytes each. */
const MOST_READINGS = 10_000;

export interface CacheEntry {
	readonly snapshot: AppSnapshot;
	/** The rows of the snapshot, to which later changes are applied. */
	readonly rows: SnapshotRows;
	readonly manifests: Map<number, CachedManifest>;
	/** Size of the snapshot without its manifests, which have their own sizes. */
	readonly bytes: number;
	/** From `latest`, while the database did not answer: nothing shows that it is current. */
	readonly isUnconfirmed: boolean;
	/** The app after a change that this entry does not have. */
	supersededBy: Pointer | undefined;
	/** When an unconfirmed or superseded entry was last known to be current. */
	currentAtMs: number;
	/**
	 * Only a read of the feed with a higher number confirms the entry, after a change in this isolate.
	 */
	mark: number;
	/** Pauses after replacements that failed. */
	readonly backoff: Backoff;
}

/** Whether an app exists and its organization is not deleted. */
interface Liveness {
	readonly isLive: boolean;
	/** As that of an entry. */
	readonly mark: number;
}

/** The files, or their JSON until they are read. */
export interface CachedManifest {
	files: readonly SnapshotFile[] | string;
	readonly bytes: number;
}

export function filesOfManifest(manifest: CachedManifest): readonly SnapshotFile[] {
	if (typeof manifest.files === "string") manifest.files = filesOf(manifest.files);
	return manifest.files;
}

export function createSnapshotStore() {
	/** By public id in lower case, the least recently used first. */
	const held = new Map<string, CacheEntry>();
	/** The key of each app's entry, by UUID. */
	const keys = new Map<string, string>();
	let heldBytes = 0;
	/** The entry that was touched last, which need not be moved again. */
	let newest: CacheEntry | undefined;
	/** Ids of apps that do not exist, the oldest first. */
	const absent = new Set<string>();
	/** By UUID, the oldest first. */
	const liveness = new Map<string, Liveness>();
	/** Last reading of each app and manifest, and the app's revision then. */
	const readings = recentMap<{ readonly atMs: number; readonly revision: number }>(MOST_READINGS);

	function remove(key: string): void {
		const entry = held.get(key);
		if (entry === undefined) return;
		heldBytes -= sizeOf(entry);
		held.delete(key);
		if (entry === newest) newest = undefined;
		// An app that was renamed while the database did not answer may have two entries.
		const { id } = entry.snapshot.app;
		if (keys.get(id) === key) keys.delete(id);
	}

	const drop = (publicAppId: string): void => remove(publicAppId.toLowerCase());

	function of(appId: string): CacheEntry | undefined {
		const key = keys.get(appId);
		return key === undefined ? undefined : held.get(key);
	}

	function wasReadLately(key: string, revision: number, atMs: number): boolean {
		const last = readings.get(key);
		return last !== undefined && last.revision === revision && atMs - last.atMs < EVICTED_WITHIN_MS;
	}

	return {
		get: (publicAppId: string): CacheEntry | undefined => held.get(publicAppId.toLowerCase()),

		/** The entry of the app with this UUID. */
		of,

		keep(entry: CacheEntry): void {
			const { id, publicId } = entry.snapshot.app;
			const key = publicId.toLowerCase();
			remove(key);
			absent.delete(key);
			held.set(key, entry);
			newest = entry;
			keys.set(id, key);
			heldBytes += sizeOf(entry);
			for (const oldest of held.keys()) {
				if (heldBytes <= MOST_HELD_BYTES || oldest === key) break;
				remove(oldest);
			}
			for (const [bundleId, { bytes }] of entry.manifests) {
				if (heldBytes <= MOST_HELD_BYTES || entry.manifests.size === 1) break;
				entry.manifests.delete(bundleId);
				heldBytes -= bytes;
			}
		},

		/** Marks the app as the one that was used last. */
		touch(entry: CacheEntry): void {
			if (entry === newest) return;
			newest = entry;
			const key = entry.snapshot.app.publicId.toLowerCase();
			held.delete(key);
			held.set(key, entry);
		},

		drop,

		/** Whether no app has this id, in any spelling. */
		isAbsent: (publicAppId: string): boolean => absent.has(publicAppId.toLowerCase()),

		keepAbsent(publicAppId: string): void {
			drop(publicAppId);
			absent.add(publicAppId.toLowerCase());
			for (const oldest of absent) {
				if (absent.size <= MOST_ABSENT) break;
				absent.delete(oldest);
			}
		},

		/** An app with a current snapshot is live. */
		liveness(appId: string): Liveness | undefined {
			const entry = of(appId);
			if (entry === undefined || entry.isUnconfirmed) return liveness.get(appId);
			return { isLive: true, mark: entry.mark };
		},

		keepLiveness(appId: string, known: Liveness): void {
			liveness.delete(appId);
			liveness.set(appId, known);
			for (const oldest of liveness.keys()) {
				if (liveness.size <= MOST_LIVENESS) break;
				liveness.delete(oldest);
			}
		},

		/** After a change of the app, if it is known. */
		changeLiveness(appId: string, isLive: boolean): void {
			const known = liveness.get(appId);
			if (known !== undefined) liveness.set(appId, { ...known, isLive });
		},

		markLiveness(appId: string, mark: number): void {
			const known = liveness.get(appId);
			if (known !== undefined) liveness.set(appId, { ...known, mark });
		},

		dropAbsent(publicAppId: string): void {
			absent.delete(publicAppId.toLowerCase());
		},

		clear(): void {
			held.clear();
			newest = undefined;
			keys.clear();
			absent.clear();
			liveness.clear();
			heldBytes = 0;
		},

		/**
		 * Records a reading; true if this revision was not read lately. The number of such readings is
		 * bounded by what exists.
		 */
		noteReading(key: string, revision: number, atMs: number): boolean {
			const isFirst = !wasReadLately(key, revision, atMs);
			readings.set(key, { atMs, revision });
			return isFirst;
		},

		wasReadLately,
	};
}

function sizeOf({ bytes, manifests }: CacheEntry): number {
	let sum = bytes;
	for (const manifest of manifests.values()) sum += manifest.bytes;
	return sum;
}

export type SnapshotStore = ReturnType<typeof createSnapshotStore>;

const ROW_BYTES = 100;
const VALUE_BYTES = 8;

/** Approximate size of rows in memory. */
export function bytesOf(rows: readonly object[]): number {
	let bytes = 0;
	for (const row of rows) {
		bytes += ROW_BYTES;
		for (const value of Object.values(row)) bytes += VALUE_BYTES + (typeof value === "string" ? value.length : 0);
	}
	return bytes;
}
