/**
 * Snapshots of apps in the isolate's memory, so that an update check needs no database. The change
 * feed says which of them a change has superseded: once in two seconds in the background, and
 * before the answer if the last read is four seconds old. If the database does not answer before
 * the deadline of the check, the last good snapshot is used, and the answer states its age.
 *
 * A superseded snapshot is replaced by the stored one, which the request that made the change
 * publishes; its manifests come with it, so the replacement is complete or does not happen. An app
 * that is not in memory is loaded from D1 in one round trip; if D1 does not answer, from its last
 * stored snapshot (loads.ts).
 *
 * A change in this isolate marks the app (`invalidate`): the next check asks the feed first and
 * sees the change; other isolates see it within four seconds. Only plain data is kept, nothing that
 * belongs to a request.
 */

import type { AppId } from "../authz/decide";
import { type Database, openDb } from "../db/batch";
import { liveAppWithId, publicIdOf } from "../db/changes";
import { SNAPSHOT_FORMAT, type SnapshotFile } from "../db/snapshot-load";
import type { Deps } from "../deps";
import type { Override } from "../domain/updates/model";
import { causeText, serviceUnavailable } from "../errors";
import type { AppSnapshot } from "./app-snapshot";
import { ChangeFeed } from "./feed";
import { COLD_WAIT_MS, LATE, MOST_WAIT_MS, type Waiter } from "./freshness";
import { type SnapshotDeps, SnapshotLoads } from "./loads";
import { hasReadyBundle, overrideIn } from "./lookups";
import { createSnapshotObjects } from "./objects";
import { isUnavailable, SharedWork } from "./shared-work";
import { type CacheEntry, createSnapshotStore } from "./store";

interface ReadSnapshot {
	readonly snapshot: AppSnapshot | null;
	/** Milliseconds since the snapshot was last known to be current. */
	readonly ageMs: number;
}

interface ChangedApp {
	readonly publicId?: string | undefined;
	/** UUID. */
	readonly id?: string | undefined;
}

const NO_APP: ReadSnapshot = { snapshot: null, ageMs: 0 };

/**
 * One for each isolate. The clock is read again after each answer of the database, because a check
 * may have waited long.
 */
export class SnapshotCache {
	readonly #deps: SnapshotDeps;
	readonly #store = createSnapshotStore();
	readonly #feed: ChangeFeed;
	readonly #loads: SnapshotLoads;
	/** By UUID and device, UUID and version, and UUID. */
	readonly #overrides: SharedWork<Override | undefined>;
	readonly #readyBundles: SharedWork<boolean>;
	readonly #liveness: SharedWork<boolean>;

	constructor(deps: SnapshotDeps & Pick<Deps, "bundles">) {
		const store = this.#store;
		this.#deps = deps;
		this.#feed = new ChangeFeed(deps, {
			changed: ({ appId, publicIds, pointer }) => {
				for (const id of publicIds) {
					store.dropAbsent(id);
					const named = store.get(id);
					if (named !== undefined && named.snapshot.app.id !== appId) store.drop(id);
				}
				store.changeLiveness(appId, pointer !== null);
				const entry = store.of(appId);
				if (entry === undefined) return;
				const { app } = entry.snapshot;
				if (pointer === null || pointer.publicId !== app.publicId) store.drop(app.publicId);
				else if (pointer.token === app.token) entry.supersededBy = undefined;
				else {
					if (entry.supersededBy === undefined && !entry.isUnconfirmed) entry.currentAtMs = this.#feed.checkedAtMs;
					entry.supersededBy = pointer;
				}
			},
			reset: () => store.clear(),
		});
		const objects = createSnapshotObjects(deps, SNAPSHOT_FORMAT);
		this.#loads = new SnapshotLoads(deps, this.#feed, store, objects);
		this.#overrides = new SharedWork(deps);
		this.#readyBundles = new SharedWork(deps);
		this.#liveness = new SharedWork(deps);
	}

	/**
	 * The deadline of a check that begins now: until then it waits for the database, whatever it
	 * needs.
	 */
	deadline(publicAppId: string): number {
		const isInMemory = this.#store.get(publicAppId) !== undefined;
		const waitMs = this.#feed.isPaused() ? (isInMemory ? 0 : MOST_WAIT_MS) : isInMemory ? MOST_WAIT_MS : COLD_WAIT_MS;
		return this.#deps.now() + waitMs;
	}

	/**
	 * @param db must read from the primary, because a replica may be behind the feed
	 * @param waiter with a deadline, the app's last stored snapshot is used if the database does not
	 * answer
	 * @throws {ApiError} `service_unavailable` if the database does not answer and nothing is in memory
	 * or stored, or `too_many_requests` if the address may not ask again
	 */
	async read(db: Database, publicAppId: string, waiter: Waiter): Promise<ReadSnapshot> {
		return (await this.readMany(db, [publicAppId], waiter))[0] ?? NO_APP;
	}

	/** Several apps; those that are not in memory are loaded in one batch. */
	async readMany(db: Database, publicAppIds: readonly string[], waiter: Waiter): Promise<ReadSnapshot[]> {
		const store = this.#store;
		const feed = this.#feed;
		// A check after a change of this isolate waits for the feed and shares the load of the app; other
		// readers load it in one trip.
		const isUsable = ({ isUnconfirmed, mark }: CacheEntry) =>
			waiter.deadlineMs === undefined ? !isUnconfirmed && feed.isAnswered(mark) : !isUnconfirmed || feed.isPaused();
		const known = publicAppIds.map((id) => store.get(id)).filter((entry) => entry !== undefined && isUsable(entry));
		if (known.length > 0 || publicAppIds.some(store.isAbsent)) {
			await feed.confirm(db, waiter, Math.max(0, ...known.map((entry) => entry?.mark ?? 0)));
		}
		const missing = publicAppIds.filter((id) => {
			const entry = store.get(id);
			return entry === undefined ? !store.isAbsent(id) : !isUsable(entry);
		});
		const loaded = missing.length === 0 ? new Map<string, CacheEntry | null>() : await this.#load(db, missing, waiter);
		return Promise.all(
			publicAppIds.map(async (id) => {
				const entry = loaded.get(id) ?? store.get(id);
				return entry === undefined ? NO_APP : this.#newest(db, entry, waiter);
			}),
		);
	}

	/**
	 * Loads from D1, or, if D1 does not answer before the deadline, takes the snapshots that were
	 * stored last.
	 */
	async #load(limited: Database, ids: readonly string[], waiter: Waiter): Promise<Map<string, CacheEntry | null>> {
		// Apps in memory are read again because somebody changed something, which bounds these reads;
		// they cost the address nothing.
		const isHeld = ids.every((id) => this.#store.get(id)?.isUnconfirmed === false);
		const db = isHeld ? (limited.unlimited ?? limited) : limited;
		const byId = (entries: readonly (CacheEntry | null | undefined)[]) =>
			new Map(ids.map((id, index) => [id, entries[index] ?? null]));
		let failure: unknown;
		try {
			const loaded = await this.#loads.loadShared(db, ids, waiter);
			if (loaded.every((entry) => entry !== LATE)) return byId(loaded);
		} catch (error) {
			if (waiter.deadlineMs === undefined || !isUnavailable(error)) throw error;
			failure = error;
		}
		const cause = failure === undefined ? "D1 did not answer in time" : causeText(failure);
		this.#deps.log("warn", "answered_from_stored_snapshot", { cause });
		this.#feed.fail();
		const stored = await Promise.all(ids.map((id) => this.#store.get(id) ?? this.#loads.latest(id)));
		if (stored.every((entry) => entry !== undefined)) return byId(stored);
		if (failure !== undefined) throw failure;
		return this.#load(db, ids, { waitUntil: waiter.waitUntil });
	}

	/** The entry, or the one that replaces it after a change. */
	async #newest(db: Database, entry: CacheEntry, { waitUntil, deadlineMs }: Waiter): Promise<ReadSnapshot> {
		const { now } = this.#deps;
		const { supersededBy, backoff } = entry;
		if (this.#store.get(entry.snapshot.app.publicId) === entry) this.#store.touch(entry);
		if (supersededBy === undefined || backoff.isPaused(now())) return this.#withAge(entry);
		try {
			const waiter = { waitUntil, deadlineMs: deadlineMs ?? now() + MOST_WAIT_MS };
			const replaced = await this.#loads.replace(db, entry, supersededBy, waiter);
			if (replaced !== LATE) return replaced === null ? NO_APP : this.#withAge(replaced);
		} catch {
			// Answered with what is in memory.
		}
		backoff.fail(now());
		return this.#withAge(entry);
	}

	#withAge(entry: CacheEntry): ReadSnapshot {
		const isOld = entry.isUnconfirmed || entry.supersededBy !== undefined;
		const atMs = isOld ? entry.currentAtMs : this.#feed.checkedAtMs;
		return { snapshot: entry.snapshot, ageMs: Math.max(0, this.#deps.now() - atMs) };
	}

	/** A fresh snapshot; undefined if the database would be asked, or the app does not exist. */
	fresh(publicAppId: string, nowMs: number): AppSnapshot | undefined {
		const entry = this.#store.get(publicAppId);
		if (entry === undefined || entry.supersededBy !== undefined || entry.isUnconfirmed) return undefined;
		if (!this.#feed.isFresh(nowMs, entry.mark)) return undefined;
		this.#store.touch(entry);
		return entry.snapshot;
	}

	/**
	 * The app as the database has it now, for callers that must see their own last change from any
	 * isolate.
	 */
	async readNow(db: Database, publicAppId: string): Promise<AppSnapshot | null> {
		return (await this.#loads.load(db, [publicAppId]))[0]?.snapshot ?? null;
	}

	/** Late is also a database that does not answer, or is known not to. */
	async #attempt<Value>(
		{ deadlineMs }: Waiter,
		begin: () => Promise<Value | typeof LATE>,
	): Promise<Value | typeof LATE> {
		if (deadlineMs === undefined) return begin();
		if (this.#deps.now() >= deadlineMs || this.#feed.isPaused()) return LATE;
		try {
			return await begin();
		} catch (error) {
			if (isUnavailable(error)) return LATE;
			throw error;
		}
	}

	/** The override that an operator set for the device, also if there are too many to hold. */
	override(db: Database, snapshot: AppSnapshot, deviceId: string, waiter: Waiter) {
		const key = `${snapshot.app.id} ${snapshot.app.token} ${deviceId}`;
		return this.#attempt(waiter, () => this.#overrides.join(key, waiter, () => overrideIn(db, snapshot, deviceId)));
	}

	/** Whether a ready bundle has this version. */
	hasReadyBundle(db: Database, snapshot: AppSnapshot, version: string, waiter: Waiter) {
		const key = `${snapshot.app.id} ${snapshot.app.token} ${version}`;
		return this.#attempt(waiter, () =>
			this.#readyBundles.join(key, waiter, () => hasReadyBundle(db, snapshot, version)),
		);
	}

	/** The files of a bundle, if they are in memory. */
	cachedManifest(snapshot: AppSnapshot, bundleId: number): readonly SnapshotFile[] | undefined {
		return this.#loads.cachedManifest(snapshot, bundleId);
	}

	/**
	 * The files of a bundle, from memory or from the database; if that does not answer, as they were
	 * stored last.
	 * @throws {ApiError} `service_unavailable` if they are not stored either
	 */
	async manifest(
		db: Database,
		snapshot: AppSnapshot,
		bundleId: number,
		waiter: Waiter,
	): Promise<readonly SnapshotFile[]> {
		const cached = this.#loads.cachedManifest(snapshot, bundleId);
		if (cached !== undefined) return cached;
		const read = await this.#attempt(waiter, () => this.#loads.manifest(db, snapshot, bundleId, waiter));
		if (read !== LATE) return read;
		const stored = await this.#loads.storedManifest(snapshot, bundleId);
		if (stored === undefined) throw serviceUnavailable(new Error("D1 did not answer with a manifest"));
		return stored;
	}

	/**
	 * Whether an app exists and its organization is not deleted, for signed links. If the database
	 * does not answer, the last answer holds.
	 */
	async isLive(db: Database, appId: string, waitUntil: Waiter["waitUntil"]): Promise<boolean> {
		const waiter = { waitUntil, deadlineMs: this.#deps.now() + MOST_WAIT_MS };
		const known = this.#store.liveness(appId);
		if (known !== undefined) {
			await this.#feed.confirm(db, waiter, known.mark);
			const confirmed = this.#store.liveness(appId);
			if (confirmed !== undefined) return confirmed.isLive;
		}
		const isLive = await this.#attempt(waiter, () =>
			this.#liveness.join(appId, waiter, () => this.#readLiveness(db, appId)),
		);
		return isLive === LATE || isLive;
	}

	async #readLiveness(limited: Database, appId: string): Promise<boolean> {
		// The caller has verified a link of the app, and a limit on its address must not make a deleted
		// app look alive.
		const db = limited.unlimited ?? limited;
		const feed = this.#feed;
		const read = feed.begin();
		try {
			const [changes, { rows }] = await db.batch([feed.statement(), liveAppWithId(appId as AppId)]);
			await feed.settle(db, read, changes.rows);
			const isLive = rows.length > 0;
			if (feed.isCurrent(read, changes.rows, appId)) {
				this.#store.keepLiveness(appId, { isLive, mark: feed.lastMark });
			}
			return isLive;
		} catch (error) {
			this.#deps.log("warn", "app_lookup_failed", { cause: causeText(error) });
			feed.fail();
			return true;
		}
	}

	/** After a change in this isolate, of one app or of any: the next check asks the feed first. */
	invalidate({ publicId, id }: ChangedApp = {}): void {
		if (publicId === undefined) this.#feed.recheck();
		this.#loads.forget(publicId);
		const mark = this.#feed.mark();
		if (id !== undefined) this.#store.markLiveness(id, mark);
		if (publicId === undefined) return;
		const entry = this.#store.get(publicId);
		if (entry !== undefined) entry.mark = mark;
		this.#store.dropAbsent(publicId);
	}

	/**
	 * After a change in this isolate: stores the app for the other isolates, which load it from D1
	 * themselves if that fails.
	 * @param app its UUID is enough
	 */
	async publish({ publicId, id }: ChangedApp): Promise<void> {
		try {
			const db = openDb(this.#deps.d1, "first-primary");
			const named = publicId === undefined && id !== undefined ? await db.batch([publicIdOf(id as AppId)]) : undefined;
			const known = publicId ?? named?.[0].rows[0]?.app_id;
			if (known !== undefined) await this.#loads.publish(db, known);
		} catch (error) {
			this.#deps.log("warn", "snapshot_not_stored", { cause: causeText(error) });
		}
	}

	/** Drops everything, as if the isolate were new. */
	clear(): void {
		this.#store.clear();
	}
}
