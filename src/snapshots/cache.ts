/**
 * Snapshots of apps in the isolate's memory, so that an update check needs no database. The change feed says which of them a change has
 * superseded: once in two seconds in the background, and before the answer if the last question is four seconds old. If the database does not
 * answer within half a second, the last good snapshot is used, and the answer states its age.
 *
 * A superseded snapshot is replaced by the stored one (objects.ts), which the request that made the change publishes; its manifests come with
 * it, so the replacement is complete or does not happen. An app that is not in memory is loaded from D1 in one round trip; if D1 does not answer,
 * from its last stored snapshot.
 *
 * A change in this isolate marks the app (`invalidate`): the next check asks the feed first and sees the change; other isolates see it within
 * four seconds. Requests that miss the same app share one load. Only plain data is kept, nothing that belongs to a request.
 */

import type { Database } from "../db/client";
import { ApiError, causeText } from "../errors";
import type { AppSnapshot } from "./app-snapshot";
import { type ChangeFeed, createChangeFeed } from "./feed";
import { PATIENCE_MS, pauseAfterMs } from "./freshness";
import { createLoads } from "./loads";
import { hasReadyBundle, overrideIn } from "./lookups";
import { createManifests } from "./manifests";
import type { SnapshotObjects } from "./objects";
import { createPatience, LATE, type Patience, within } from "./patience";
import { createReplacements, type Outside, type WaitUntil } from "./replacement";
import { createSnapshotStore, type Held } from "./store";

/** Longest wait for D1 before a check of an app that is not in memory is answered from the app's last stored snapshot. */
const COLD_PATIENCE_MS = 2_000;

interface ReadSnapshot {
	readonly snapshot: AppSnapshot | null;
	/** Milliseconds since the snapshot was last known to be current. */
	readonly ageMs: number;
}

/** One for each isolate. The clock is read again after each answer of the database, because a check may have waited long. */
export function createSnapshotCache(
	clock: Outside,
	feed: ChangeFeed = createChangeFeed(clock),
	objects?: SnapshotObjects,
) {
	const { now } = clock;
	const store = createSnapshotStore();
	const { storeLater, publish, replaceShared, fromSource, storedManifest } = createReplacements(
		clock,
		feed,
		store,
		objects,
	);
	const { load, loadShared, invalidateLoads } = createLoads(clock, feed, store, storeLater);
	const manifests = createManifests(clock, store, storedManifest);
	const patience = (waitUntil: WaitUntil) => createPatience(clock, feed.isPaused, waitUntil);

	feed.listen({
		changed({ appId, publicIds, pointer }) {
			for (const id of publicIds) {
				store.dropAbsent(id);
				const named = store.get(id);
				if (named !== undefined && named.snapshot.app.id !== appId) store.drop(id);
			}
			const entry = store.of(appId);
			if (entry === undefined) return;
			const { app } = entry.snapshot;
			if (pointer === null || pointer.publicId !== app.publicId) store.drop(app.publicId);
			else if (pointer.token === app.token) entry.supersededBy = undefined;
			else {
				if (entry.supersededBy === undefined && !entry.isUnconfirmed) entry.currentAtMs = feed.checkedAtMs;
				entry.supersededBy = pointer;
			}
		},
		reset: () => store.clear(),
	});

	/** @throws {ApiError} if the address may not ask again, or the database does not answer, and nothing is in memory or stored */
	async function readAll(
		db: Database,
		publicAppIds: readonly string[],
		waitUntil: WaitUntil,
		mayBeOld = false,
		waits = patience(waitUntil),
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
			missing.length === 0
				? new Map<string, Held | null>()
				: await loadPatiently(db, missing, waitUntil, mayBeOld, waits);
		return Promise.all(
			publicAppIds.map(async (id) => {
				const entry = loaded.get(id) ?? store.get(id);
				return entry === undefined ? { snapshot: null, ageMs: 0 } : readHeld(db, entry, waitUntil, waits);
			}),
		);
	}

	/** Loads from D1, or, if D1 does not answer, takes what was stored last. */
	async function loadPatiently(
		db: Database,
		ids: readonly string[],
		waitUntil: WaitUntil,
		mayBeOld: boolean,
		waits: Patience,
	): Promise<Map<string, Held | null>> {
		const byId = (entries: readonly (Held | null)[]) => new Map(ids.map((id, index) => [id, entries[index] ?? null]));
		const work = loadShared(db, ids, waitUntil);
		if (!mayBeOld) return byId(await work);
		const coldPatienceMs = feed.isPaused() ? PATIENCE_MS : COLD_PATIENCE_MS;
		const isHeld = ids.every((id) => store.get(id) !== undefined);
		try {
			const loaded = await (isHeld ? waits.wait(work) : within(clock, coldPatienceMs, work));
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

	async function readHeld(db: Database, entry: Held, waitUntil: WaitUntil, waits: Patience): Promise<ReadSnapshot> {
		const { supersededBy } = entry;
		if (store.get(entry.snapshot.app.publicId) === entry) store.touch(entry);
		if (supersededBy === undefined || now() < entry.retryAtMs) return withAge(entry);
		try {
			const replaced = await waits.wait(replaceShared(db, entry, supersededBy, waitUntil));
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
		 * @param waits the patience of a check that reads more afterwards
		 * @param db must read from the primary, because a replica may be behind the feed
		 * @throws {ApiError} `service_unavailable` if the database does not answer and nothing is in memory or stored
		 */
		async read(
			db: Database,
			publicAppId: string,
			waitUntil: WaitUntil,
			mayBeOld = false,
			waits?: Patience,
		): Promise<ReadSnapshot> {
			const [read] = await readAll(db, [publicAppId], waitUntil, mayBeOld, waits);
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
			store.touch(entry);
			return entry.snapshot;
		},

		/** The app as the database has it now, for callers that must see their own last change from any isolate. */
		async readNow(db: Database, publicAppId: string): Promise<AppSnapshot | null> {
			return (await load(db, [publicAppId], () => true))[0]?.entry?.snapshot ?? null;
		},

		/** For a check, which passes it to all that it reads. */
		patience,

		override: overrideIn,
		hasReadyBundle,

		...manifests,

		/** After a change in this isolate, of one app or of any: the next check asks the feed first. */
		invalidate(publicAppId?: string): void {
			if (publicAppId === undefined) {
				feed.recheck();
				invalidateLoads();
				return;
			}
			const entry = store.get(publicAppId);
			if (entry !== undefined) entry.mark = feed.mark();
			store.dropAbsent(publicAppId);
			invalidateLoads(publicAppId);
		},

		/** After a change in this isolate: stores the app for the other isolates, which load it from D1 themselves if that fails. */
		async publish(db: Database, publicAppId: string): Promise<void> {
			try {
				await publish(db, publicAppId);
			} catch (error) {
				clock.log("warn", "snapshot_not_stored", { cause: causeText(error) });
			}
		},

		/** Drops everything, as if the isolate were new. */
		clear: (): void => store.clear(),
	};
}

export type SnapshotCache = ReturnType<typeof createSnapshotCache>;
