/**
 * Files of the bundles in snapshots (manifests). They are read when a device is first offered them, because most bundles of an app are offered to
 * none, and kept with the snapshot. Requests that miss the same manifest share one reading.
 */

import type { Database } from "../db/client";
import { manifestOf, type SnapshotFile } from "../db/snapshot-load";
import { serviceUnavailable } from "../errors";
import type { AppSnapshot } from "./app-snapshot";
import { LATE, type Patience } from "./patience";
import type { Outside } from "./replacement";
import { bytesOf, filesOfHeld, type SnapshotStore } from "./store";

/** @param storedManifest the files as they were stored last, for when D1 does not answer */
export function createManifests(
	clock: Outside,
	store: SnapshotStore,
	storedManifest: (snapshot: AppSnapshot, bundleId: number) => Promise<readonly SnapshotFile[] | undefined>,
) {
	/** Reads in progress, by UUID and bundle. */
	const reading = new Map<string, Promise<readonly SnapshotFile[]>>();

	function cachedManifest(snapshot: AppSnapshot, bundleId: number): readonly SnapshotFile[] | undefined {
		const entry = store.get(snapshot.app.publicId);
		const manifest = entry?.snapshot === snapshot ? entry.manifests.get(bundleId) : undefined;
		return manifest === undefined ? undefined : filesOfHeld(manifest);
	}

	async function readManifest(
		db: Database,
		snapshot: AppSnapshot,
		bundleId: number,
		key: string,
	): Promise<readonly SnapshotFile[]> {
		const { revision } = snapshot.app;
		// First readings are bounded by the bundles that channels serve; repeated ones count against the address.
		const reader = store.wasReadLately(key, revision, clock.now()) ? db : (db.unlimited ?? db);
		const [files] = await reader.batch([manifestOf(snapshot.app.id, bundleId)]);
		store.noteReading(key, revision, clock.now());
		const entry = store.get(snapshot.app.publicId);
		if (entry?.snapshot === snapshot) {
			store.drop(snapshot.app.publicId);
			entry.manifests.set(bundleId, { files: files.rows, bytes: bytesOf(files.rows) });
			store.keep(entry);
		}
		return files.rows;
	}

	return {
		/** The files of a bundle if they are in memory. */
		cachedManifest,

		/**
		 * The files of a bundle, from memory or from the database; if that does not answer, as they were stored last.
		 * @throws {ApiError} `service_unavailable` if they are not stored either
		 */
		async manifest(
			db: Database,
			snapshot: AppSnapshot,
			bundleId: number,
			patience: Patience,
		): Promise<readonly SnapshotFile[]> {
			const cached = cachedManifest(snapshot, bundleId);
			if (cached !== undefined) return cached;
			const key = `${snapshot.app.id} ${bundleId}`;
			const shared = reading.get(key);
			const begin = () => {
				if (shared !== undefined) return shared;
				const work = readManifest(db, snapshot, bundleId, key);
				reading.set(key, work);
				const done = () => void reading.delete(key);
				work.then(done, done);
				return work;
			};
			try {
				const read = await patience.attempt(begin);
				if (read !== LATE) return read;
			} catch (error) {
				// A limit on the other request's address must not fail this request.
				if (shared !== undefined) return readManifest(db, snapshot, bundleId, key);
				throw error;
			}
			reading.delete(key);
			const stored = await storedManifest(snapshot, bundleId);
			if (stored === undefined) throw serviceUnavailable(new Error("D1 did not answer with a manifest"));
			return stored;
		},
	};
}
