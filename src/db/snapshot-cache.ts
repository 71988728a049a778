/**
 * Snapshots of apps in the isolate's memory, so that an update check needs no database. The change feed says which of them a change has
 * superseded: once in two seconds in the background, and before the answer if the last question is four seconds old. If the database does not
 * answer within half a second, the last good snapshot is used, and the answer states its age.
 *
 * A superseded snapshot is replaced by the stored one (`SnapshotSource`), which one isolate loads from D1 for all; its manifests come with it,
 * so the replacement is complete or does not happen. An app that is not in memory is loaded from D1 in one round trip; if D1 does not answer,
 * from its last stored snapshot.
 *
 * A change in this isolate marks the app (`invalidate`): the next check asks the feed first and sees the change; other isolates see it within
 * four seconds. Requests that miss the same app share one load. Only plain data is kept, nothing that belongs to a request.
 */

import type { Override } from "../domain/update-model";
import { ApiError, causeText, serviceUnavailable } from "../errors";
import { type AppSnapshot, overrideFrom } from "./app-snapshot";
import { type ChangeFeed, createChangeFeed, LATE, within } from "./change-feed";
import type { Database } from "./client";
import { PATIENCE_MS, pauseAfterMs } from "./freshness";
import { entryFromRows, readApps, type SnapshotSource } from "./snapshot-entry";
import { MOST_HELD_OVERRIDES, manifestOf, overrideOf, readyBundle, type SnapshotFile } from "./snapshot-load";
import { createReplacements, type Loaded, type Outside, SHARED_LOAD_MS, type WaitUntil } from "./snapshot-replacement";
import { bytesOf, createSnapshotStore, filesOfHeld, type Held } from "./snapshot-store";

/** Longest wait for D1 before a check of an app that is not in memory is answered from the app's last stored snapshot. */
const COLD_PATIENCE_MS = 2_000;

export interface ReadSnapshot {
	readonly snapshot: AppSnapshot | null;
	/** Milliseconds since the snapshot was last known to be current. */
	readonly ageMs: number;
}

interface Load {
	readonly entry: Promise<Held | null>;
	/** False after a change in this isolate, which the load may not have seen. */
	isCurrent: boolean;
}

/** One for each isolate. The clock is read again after each answer of the database, because a check may have waited long. */
export function createSnapshotCache(
	clock: Outside,
	feed: ChangeFeed = createChangeFeed(clock),
	source?: SnapshotSource,
) {
	const { now } = clock;
	const store = createSnapshotStore();
	const { storeLater, replaceShared, fromSource, storedManifest } = createReplacements(clock, feed, store, source);
	/** Loads in progress, each shared by all requests that miss the app. */
	const loading = new Map<string, Load>();
	/** Reads of manifests in progress, by UUID and bundle. */
	const reading = new Map<string, Promise<readonly SnapshotFile[]>>();

	feed.listen({
		changed({ appId, publicIds, pointer }) {
			for (const id of publicIds) {
				store.dropAbsent(id);
				const named = store.get(id);
				if (named !== undefined && named.snapshot.app.id !== appId) store.drop(id);
			}
			for (const entry of store.of(appId)) {
				const { app, publicAppId } = entry.snapshot;
				if (pointer === null || pointer.publicId !== app.publicId) store.drop(publicAppId);
				else if (pointer.token === app.token) entry.supersededBy = undefined;
				else {
					if (entry.supersededBy === undefined && !entry.isUnconfirmed) entry.currentAtMs = feed.checkedAtMs;
					entry.supersededBy = pointer;
				}
			}
		},
		reset: () => store.clear(),
	});

	/** Loads from D1. */
	async function load(db: Database, publicAppIds: readonly string[], isValid: () => boolean): Promise<Loaded[]> {
		const question = feed.begin();
		const { changes, apps } = await readApps(db, publicAppIds, feed.statement(), question.atMs);
		await feed.settle(db, question, changes);
		const loaded = apps.map((app, index) => {
			const publicAppId = publicAppIds[index] ?? "";
			const isCurrent = isValid() && feed.isCurrent(question, changes, app?.rows.app.id ?? null);
			if (app === null) {
				if (isCurrent) store.keepAbsent(publicAppId);
				return { entry: null };
			}
			const entry = entryFromRows(publicAppId, app, store.get(publicAppId));
			if (isCurrent) store.keep(publicAppId, entry);
			return { entry, app, seq: changes.at(-1)?.seq ?? 0 };
		});
		// Loads of existing apps are bounded by their changes. Loads of made-up ids, of spellings of an app with a twin and of apps that
		// evict each other are not, so they count against the address.
		const isFirst = loaded.map(({ entry }) => {
			const app = entry?.snapshot.app;
			return app?.hasTwin === false && store.noteReading(app.id, app.revision, question.atMs);
		});
		if (isFirst.every(Boolean)) db.refund?.();
		return loaded;
	}

	/** Loads the apps in one batch, except for those that another request is loading. */
	async function loadShared(
		db: Database,
		publicAppIds: readonly string[],
		waitUntil: WaitUntil,
	): Promise<(Held | null)[]> {
		const missing = publicAppIds.filter((id) => !loading.has(id));
		const own: Load[] = [];
		if (missing.length > 0) {
			const work = load(db, missing, () => own.every(({ isCurrent }) => isCurrent));
			for (const [index, id] of missing.entries()) {
				const one: Load = { entry: work.then((loaded) => loaded[index]?.entry ?? null), isCurrent: true };
				own.push(one);
				loading.set(id, one);
				const done = () => {
					if (loading.get(id) === one) loading.delete(id);
				};
				// Other requests wait for this load even if its own request has ended.
				waitUntil(one.entry.then(done, done));
				const failed = (error: unknown) => clock.log("warn", "snapshot_not_stored", { cause: causeText(error) });
				waitUntil(work.then((loaded) => storeLater(db, loaded[index]).catch(failed)).catch(() => undefined));
			}
		}
		return Promise.all(
			publicAppIds.map(async (id) => {
				const shared = loading.get(id)?.entry;
				if (shared === undefined || missing.includes(id)) return (await shared) ?? null;
				try {
					const loaded = await within(clock, SHARED_LOAD_MS, shared);
					if (loaded !== LATE) return loaded;
				} catch (error) {
					// A limit on the other request's address must not fail this request; a failure of the database fails both.
					if (error instanceof ApiError && error.code === "service_unavailable") throw error;
				}
				return (await load(db, [id], () => true))[0]?.entry ?? null;
			}),
		);
	}

	/** @throws {ApiError} if the address may not ask again, or the database does not answer, and nothing is in memory or stored */
	async function readAll(
		db: Database,
		publicAppIds: readonly string[],
		waitUntil: WaitUntil,
		mayBeOld = false,
	): Promise<ReadSnapshot[]> {
		// A check after a change of this isolate waits for the feed and shares the load of the app; other readers load it in one trip.
		const isUsable = (entry: Held) =>
			mayBeOld ? !entry.isUnconfirmed || feed.isPaused() : !entry.isUnconfirmed && feed.isAnswered(entry.mark);
		const known = publicAppIds.map((id) => store.get(id)).filter((entry) => entry !== undefined && isUsable(entry));
		if (known.length > 0 || publicAppIds.some(store.isAbsent)) {
			await feed.confirm(db, waitUntil, Math.max(0, ...known.map((entry) => entry?.mark ?? 0)));
		}
		const missing = publicAppIds.filter((id) => {
			const entry = store.get(id);
			return entry === undefined ? !store.isAbsent(id) : !isUsable(entry);
		});
		const loaded =
			missing.length === 0 ? new Map<string, Held | null>() : await loadPatiently(db, missing, waitUntil, mayBeOld);
		return Promise.all(
			publicAppIds.map(async (id) => {
				const entry = loaded.get(id) ?? store.get(id);
				return entry === undefined ? { snapshot: null, ageMs: 0 } : readHeld(db, entry, waitUntil);
			}),
		);
	}

	/** Loads from D1, or, if D1 does not answer, takes what was stored last. */
	async function loadPatiently(
		db: Database,
		ids: readonly string[],
		waitUntil: WaitUntil,
		mayBeOld: boolean,
	): Promise<Map<string, Held | null>> {
		const byId = (entries: readonly (Held | null)[]) => new Map(ids.map((id, index) => [id, entries[index] ?? null]));
		const work = loadShared(db, ids, waitUntil);
		if (!mayBeOld) return byId(await work);
		const isHeld = ids.every((id) => store.get(id) !== undefined);
		try {
			const loaded = await within(clock, isHeld ? PATIENCE_MS : COLD_PATIENCE_MS, work);
			if (loaded !== LATE) return byId(loaded);
			clock.log("warn", "answered_from_stored_snapshot", { cause: "D1 did not answer in time" });
		} catch (error) {
			if (!(error instanceof ApiError) || error.code !== "service_unavailable") throw error;
			clock.log("warn", "answered_from_stored_snapshot", { cause: causeText(error) });
		}
		feed.fail();
		waitUntil(work.catch(() => undefined));
		const stored = await Promise.all(ids.map((id) => store.get(id) ?? fromSource(id)));
		return stored.every((entry) => entry !== undefined) ? byId(stored) : byId(await work);
	}

	async function readHeld(db: Database, entry: Held, waitUntil: WaitUntil): Promise<ReadSnapshot> {
		const { supersededBy } = entry;
		if (store.get(entry.snapshot.publicAppId) === entry) store.touch(entry.snapshot.publicAppId, entry);
		if (supersededBy === undefined || now() < entry.retryAtMs) return withAge(entry);
		try {
			const replaced = await within(clock, PATIENCE_MS, replaceShared(db, entry, supersededBy, waitUntil));
			if (replaced !== LATE) return replaced === null ? { snapshot: null, ageMs: 0 } : withAge(replaced);
		} catch {
			// Answered with what is held.
		}
		entry.failures += 1;
		entry.retryAtMs = now() + pauseAfterMs(entry.failures);
		return withAge(entry);
	}

	function withAge(entry: Held): ReadSnapshot {
		const isOld = entry.isUnconfirmed || entry.supersededBy !== undefined;
		return { snapshot: entry.snapshot, ageMs: Math.max(0, now() - (isOld ? entry.currentAtMs : feed.checkedAtMs)) };
	}

	return {
		/**
		 * @param mayBeOld takes the app's last stored snapshot if the database does not answer
		 * @param db must read from the primary, because a replica may be behind the feed
		 * @throws {ApiError} `service_unavailable` if the database does not answer and nothing is in memory or stored
		 */
		async read(db: Database, publicAppId: string, waitUntil: WaitUntil, mayBeOld = false): Promise<ReadSnapshot> {
			const [read] = await readAll(db, [publicAppId], waitUntil, mayBeOld);
			return read ?? { snapshot: null, ageMs: 0 };
		},

		/** Several apps; those that are not in memory are loaded in one batch. */
		readMany: (db: Database, publicAppIds: readonly string[], waitUntil: WaitUntil): Promise<ReadSnapshot[]> =>
			readAll(db, publicAppIds, waitUntil),

		/** A fresh snapshot; undefined if the database would be asked, or the app does not exist. */
		fresh(publicAppId: string, nowMs: number): AppSnapshot | undefined {
			const entry = store.get(publicAppId);
			if (entry === undefined || entry.supersededBy !== undefined || entry.isUnconfirmed) return undefined;
			if (!feed.isFresh(nowMs, entry.mark)) return undefined;
			store.touch(publicAppId, entry);
			return entry.snapshot;
		},

		/** The app as the database has it now, for callers that must see their own last change from any isolate. */
		async readNow(db: Database, publicAppId: string): Promise<AppSnapshot | null> {
			return (await load(db, [publicAppId], () => true))[0]?.entry?.snapshot ?? null;
		},

		/** The override that an operator set for the device. */
		async override(db: Database, snapshot: AppSnapshot, deviceId: string): Promise<Override | undefined> {
			if (snapshot.overrides !== null) return snapshot.overrides.get(deviceId);
			const { askedOverrides } = snapshot;
			const known = askedOverrides.get(deviceId);
			if (known !== undefined) return known ?? undefined;
			const [found] = await db.batch([overrideOf(snapshot.app.id, deviceId)]);
			const [row] = found.rows;
			const override = row === undefined ? undefined : overrideFrom(row, snapshot);
			if (askedOverrides.size >= MOST_HELD_OVERRIDES) askedOverrides.clear();
			askedOverrides.set(deviceId, override ?? null);
			return override;
		},

		/** Whether a ready bundle has this version. */
		async hasReadyBundle(db: Database, snapshot: AppSnapshot, version: string): Promise<boolean> {
			const { readyVersions } = snapshot;
			const known = readyVersions.get(version);
			if (known !== undefined) return known;
			const [found] = await db.batch([readyBundle(snapshot.app.id, version)]);
			const exists = found.rows.length > 0;
			readyVersions.set(version, exists);
			return exists;
		},

		/** The files of a bundle if they are in memory. */
		cachedManifest(snapshot: AppSnapshot, bundleId: number): readonly SnapshotFile[] | undefined {
			const entry = store.get(snapshot.publicAppId);
			const manifest = entry?.snapshot === snapshot ? entry.manifests.get(bundleId) : undefined;
			return manifest === undefined ? undefined : filesOfHeld(manifest);
		},

		/** The files of a bundle, from memory or from the database. */
		async manifest(db: Database, snapshot: AppSnapshot, bundleId: number): Promise<readonly SnapshotFile[]> {
			const cached = this.cachedManifest(snapshot, bundleId);
			if (cached !== undefined) return cached;
			const key = `${snapshot.app.id} ${bundleId}`;
			const shared = reading.get(key);
			const work = shared ?? readManifest(db, snapshot, bundleId, key);
			if (shared === undefined) {
				reading.set(key, work);
				const done = () => void reading.delete(key);
				work.then(done, done);
			}
			try {
				const read = await within(clock, PATIENCE_MS, work);
				if (read !== LATE) return read;
			} catch (error) {
				const isLimit = error instanceof ApiError && error.code !== "service_unavailable";
				// A limit on the other request's address must not fail this request.
				if (isLimit && shared !== undefined) return readManifest(db, snapshot, bundleId, key);
				if (isLimit) throw error;
			}
			reading.delete(key);
			const stored = await storedManifest(snapshot, bundleId);
			if (stored === undefined) throw serviceUnavailable(new Error("D1 did not answer with a manifest"));
			return stored;
		},

		/** After a change in this isolate, of one app or of any: the next check asks the feed first. */
		invalidate(publicAppId?: string): void {
			if (publicAppId === undefined) {
				feed.recheck();
				for (const load of loading.values()) load.isCurrent = false;
				loading.clear();
				return;
			}
			const entry = store.get(publicAppId);
			if (entry !== undefined) entry.mark = feed.mark();
			store.dropAbsent(publicAppId);
			for (const [id, load] of loading) {
				if (id.toLowerCase() !== publicAppId.toLowerCase()) continue;
				load.isCurrent = false;
				loading.delete(id);
			}
		},

		/** Drops everything, as if the isolate were new. */
		clear: (): void => store.clear(),
	};

	async function readManifest(
		db: Database,
		snapshot: AppSnapshot,
		bundleId: number,
		key: string,
	): Promise<readonly SnapshotFile[]> {
		const { revision } = snapshot.app;
		// First readings are bounded by the bundles that channels serve; repeated ones count against the address.
		const reader = store.wasReadLately(key, revision, now()) ? db : (db.unlimited ?? db);
		const [files] = await reader.batch([manifestOf(snapshot.app.id, bundleId)]);
		store.noteReading(key, revision, now());
		const entry = store.get(snapshot.publicAppId);
		if (entry?.snapshot === snapshot) {
			store.drop(snapshot.publicAppId);
			entry.manifests.set(bundleId, { files: files.rows, bytes: bytesOf(files.rows) });
			store.keep(snapshot.publicAppId, entry);
		}
		return files.rows;
	}
}

export type SnapshotCache = ReturnType<typeof createSnapshotCache>;
