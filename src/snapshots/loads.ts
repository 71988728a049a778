/**
 * How apps get into the isolate's memory: from D1, or, after a change, from the R2 object that the
 * request which made it has published (objects.ts). Requests that miss the same app or manifest
 * share the work. A load that may not have seen a change of this isolate is marked, so that the
 * next check asks the feed first.
 */
import { type Database, openDb } from "../db/batch";
import { manifestOf, type SnapshotFile } from "../db/snapshot-load";
import type { Deps } from "../deps";
import { causeText } from "../errors";
import type { AppSnapshot } from "./app-snapshot";
import { entryFromRows, entryFromText, readContent, storedSnapshot } from "./entry";
import type { ChangeFeed, Pointer } from "./feed";
import { before, LATE, STORED_WAIT_MS, type Waiter } from "./freshness";
import type { Content, SnapshotObjects } from "./objects";
import { type ReadRows, readRows, type WantedApp } from "./rows";
import { SharedWork } from "./shared-work";
import { bytesOf, type CacheEntry, filesOfManifest, type SnapshotStore } from "./store";

/**
 * A snapshot that is loaded for one check is stored a little later, so that the check does not pay
 * for it.
 */
const STORE_AFTER_MS = 1_000;
/**
 * Longest pause before a changed app that is not in R2 is loaded from D1, so that not all isolates
 * load it.
 */
const LONGEST_PAUSE_MS = 300;
/** A larger app is not read from R2 after a change, but what changed of it from D1. */
const MOST_REPLACED_BYTES = 1024 * 1024;

export type SnapshotDeps = Pick<Deps, "d1" | "now" | "deadline" | "delay" | "randomBytes" | "log">;

export class SnapshotLoads {
	readonly #deps: SnapshotDeps;
	readonly #feed: ChangeFeed;
	readonly #store: SnapshotStore;
	readonly #objects: SnapshotObjects;
	/** By public id in lower case. */
	readonly #loads: SharedWork<CacheEntry | null>;
	/** By UUID and token. */
	readonly #replacements: SharedWork<CacheEntry | null>;
	/** By UUID and bundle. */
	readonly #manifests: SharedWork<readonly SnapshotFile[]>;

	constructor(deps: SnapshotDeps, feed: ChangeFeed, store: SnapshotStore, objects: SnapshotObjects) {
		this.#deps = deps;
		this.#feed = feed;
		this.#store = store;
		this.#objects = objects;
		this.#loads = new SharedWork(deps);
		this.#replacements = new SharedWork(deps);
		this.#manifests = new SharedWork(deps);
	}

	/**
	 * Loads apps from D1 in one round trip: those in memory with what changed of them, others whole. A
	 * large app that is not in memory, or whose changes cannot be followed, takes a second one: its
	 * last stored snapshot with what changed since, or everything.
	 */
	async load(db: Database, publicAppIds: readonly string[]): Promise<(CacheEntry | null)[]> {
		const store = this.#store;
		const loaded = new Map<string, CacheEntry | null>();
		let unlimited = db;
		let wanted = publicAppIds.map((id): WantedApp => ({ publicAppId: id, base: store.get(id)?.rows, isWhole: false }));
		for (let isFirst = true; wanted.length > 0; isFirst = false) {
			const missing = await this.#loadOnce(unlimited, wanted, loaded);
			wanted = await Promise.all(
				missing.map(async ({ publicAppId }) => {
					const stored = isFirst ? storedSnapshot(publicAppId, await this.#readSoon(publicAppId)) : undefined;
					return { publicAppId, base: stored?.rows, isWhole: true };
				}),
			);
			unlimited = db.unlimited ?? db;
		}
		// Loads of existing apps are bounded by their changes. Loads of made-up ids and of apps that
		// evict each other are not, so they count against the address.
		const isFirst = [...loaded.values()].map((entry) => {
			const app = entry?.snapshot.app;
			return app !== undefined && store.noteReading(app.id, app.revision, this.#deps.now());
		});
		if (isFirst.every(Boolean)) db.refund?.();
		return publicAppIds.map((id) => loaded.get(id) ?? null);
	}

	/** @returns the apps that cannot be read this way */
	async #loadOnce(
		db: Database,
		wanted: readonly WantedApp[],
		loaded: Map<string, CacheEntry | null>,
	): Promise<readonly WantedApp[]> {
		const feed = this.#feed;
		const read = feed.begin();
		const { changes, value } = await readRows(db, wanted, feed.statement());
		await feed.settle(db, read, changes);
		const keep = (publicAppId: string, of: ReadRows | null) => {
			const isCurrent = feed.isCurrent(read, changes, of?.rows.app.id ?? null);
			if (of === null) {
				if (isCurrent) this.#store.keepAbsent(publicAppId);
				return null;
			}
			const entry = entryFromRows(of, this.#store.get(publicAppId));
			entry.mark = feed.lastMark;
			if (isCurrent) this.#store.keep(entry);
			return entry;
		};
		return wanted.filter(({ publicAppId }, index) => {
			const of = value[index];
			if (of !== undefined) loaded.set(publicAppId, keep(publicAppId, of));
			return of === undefined;
		});
	}

	/** Loads the apps in one batch, except for those that another request is loading. */
	async loadShared(
		db: Database,
		publicAppIds: readonly string[],
		waiter: Waiter,
	): Promise<(CacheEntry | null | typeof LATE)[]> {
		const missing = publicAppIds.filter((id) => !this.#loads.isRunning(id.toLowerCase()));
		let batch: Promise<(CacheEntry | null)[]> | undefined;
		const begin = async (id: string): Promise<CacheEntry | null> => {
			const ids = missing.includes(id) ? missing : [id];
			if (ids === missing) batch ??= this.load(db, missing);
			const entry = (await (ids === missing ? batch : this.load(db, ids)))?.[ids.indexOf(id)] ?? null;
			if (entry !== null) waiter.waitUntil(this.#storeLater(entry));
			return entry;
		};
		return Promise.all(publicAppIds.map((id) => this.#loads.join(id.toLowerCase(), waiter, () => begin(id))));
	}

	/** A cold isolate finds the app in R2 when the database does not answer. */
	async #storeLater(entry: CacheEntry): Promise<void> {
		try {
			await this.#deps.delay(STORE_AFTER_MS);
			const { publicId, token } = entry.snapshot.app;
			if (token === "" || this.#store.get(publicId) !== entry || entry.supersededBy !== undefined) return;
			if ((await this.#objects.storedToken(publicId)) === token) return;
			await this.publish(openDb(this.#deps.d1, "first-primary"), publicId);
		} catch (error) {
			this.#deps.log("warn", "snapshot_not_stored", { cause: causeText(error) });
		}
	}

	/**
	 * Reads what changed of the app since it was stored last, and stores it for all isolates. Not
	 * limited by address: changes and apps in memory bound it.
	 */
	async publish(db: Database, publicAppId: string): Promise<Content | null> {
		return this.#publishFrom(db, publicAppId, await this.#objects.read(publicAppId));
	}

	async #publishFrom(limited: Database, publicAppId: string, stored: Content | undefined): Promise<Content | null> {
		const db = limited.unlimited ?? limited;
		const read = this.#feed.begin();
		const { changes, value: content } = await readContent(db, publicAppId, stored, this.#feed.statement(), read.atMs);
		await this.#feed.settle(db, read, changes);
		if (content !== null) await this.#objects.store(publicAppId, content);
		return content;
	}

	/** Replaces a superseded entry; null if the app is gone. */
	replace(db: Database, entry: CacheEntry, pointer: Pointer, waiter: Waiter): Promise<CacheEntry | null | typeof LATE> {
		const key = `${pointer.appId} ${pointer.token}`;
		return this.#replacements.join(key, waiter, async () => {
			if (entry.bytes <= MOST_REPLACED_BYTES) return this.#replace(db, entry, pointer);
			const [loaded = null] = await this.load(db.unlimited ?? db, [pointer.publicId]);
			if (loaded !== null) waiter.waitUntil(this.#storeLater(loaded));
			return loaded;
		});
	}

	async #replace(db: Database, entry: CacheEntry, pointer: Pointer): Promise<CacheEntry | null> {
		const store = this.#store;
		const { app } = entry.snapshot;
		const entryOf = (of: Content) => entryFromText(app.publicId, of, { appId: app.id, before: entry });
		let content = await this.#obtain(db, pointer);
		let replaced = content === null ? undefined : entryOf(content);
		if (content !== null && replaced === undefined) {
			// The object is unreadable or of another app.
			content = await this.publish(db, app.publicId);
			replaced = content === null ? undefined : entryOf(content);
		}
		const current = store.get(app.publicId);
		if (content === null) {
			if (current === entry) store.drop(app.publicId);
			return null;
		}
		if (replaced === undefined) throw new Error(`the snapshot of ${app.publicId} is not this app's`);
		if (current === undefined) return replaced;
		const { supersededBy, currentAtMs, mark } = current;
		if (supersededBy?.token === content.token) store.keep({ ...replaced, mark });
		// Newer than the current entry, and superseded again.
		else if (current === entry) store.keep({ ...replaced, supersededBy, currentAtMs, mark });
		return store.get(app.publicId) ?? replaced;
	}

	/**
	 * The changed app: from R2, where its change published it; from D1 only if it is not there after a
	 * random pause.
	 */
	async #obtain(db: Database, { publicId, token }: Pointer): Promise<Content | null> {
		const { delay, randomBytes } = this.#deps;
		let stored: Content | undefined;
		for (const isLast of [false, true]) {
			if (isLast) await delay(LONGEST_PAUSE_MS * ((randomBytes(1)[0] ?? 0) / 256));
			stored = await this.#objects.read(publicId);
			if (stored?.token === token) return stored;
		}
		return this.#publishFrom(db, publicId, stored);
	}

	/**
	 * The app's last stored snapshot, which nothing shows to be current; undefined if R2 has none, or
	 * does not answer soon.
	 */
	async latest(publicAppId: string): Promise<CacheEntry | undefined> {
		const content = await this.#readSoon(publicAppId);
		const entry = content === undefined ? undefined : entryFromText(publicAppId, content);
		if (entry !== undefined && this.#store.get(publicAppId) === undefined) this.#store.keep(entry);
		return entry;
	}

	/** The files of a bundle, if they are in memory. */
	cachedManifest(snapshot: AppSnapshot, bundleId: number): readonly SnapshotFile[] | undefined {
		const entry = this.#store.get(snapshot.app.publicId);
		const manifest = entry?.snapshot === snapshot ? entry.manifests.get(bundleId) : undefined;
		return manifest === undefined ? undefined : filesOfManifest(manifest);
	}

	/**
	 * The files of a bundle from D1, read when a device is first offered them, because most bundles of
	 * an app are offered to none.
	 */
	manifest(
		db: Database,
		snapshot: AppSnapshot,
		bundleId: number,
		waiter: Waiter,
	): Promise<readonly SnapshotFile[] | typeof LATE> {
		const key = `${snapshot.app.id} ${bundleId}`;
		return this.#manifests.join(key, waiter, () => this.#readManifest(db, snapshot, bundleId, key));
	}

	async #readManifest(
		db: Database,
		{ app }: AppSnapshot,
		bundleId: number,
		key: string,
	): Promise<readonly SnapshotFile[]> {
		const store = this.#store;
		const { now } = this.#deps;
		// First readings are bounded by the bundles that channels serve; repeated ones count against the
		// address.
		const reader = store.wasReadLately(key, app.revision, now()) ? db : (db.unlimited ?? db);
		const [files] = await reader.batch([manifestOf(app.id, bundleId)]);
		store.noteReading(key, app.revision, now());
		const entry = store.get(app.publicId);
		if (entry?.snapshot.app === app) {
			store.drop(app.publicId);
			entry.manifests.set(bundleId, { files: files.rows, bytes: bytesOf(files.rows) });
			store.keep(entry);
		}
		return files.rows;
	}

	/** The files of a bundle from the app's last stored snapshot, if that has the same bundle. */
	async storedManifest(snapshot: AppSnapshot, bundleId: number): Promise<readonly SnapshotFile[] | undefined> {
		const content = await this.#readSoon(snapshot.app.publicId);
		const entry = content === undefined ? undefined : entryFromText(snapshot.app.publicId, content);
		const [wanted, found] = [snapshot, entry?.snapshot].map((of) => JSON.stringify(of?.bundles.get(bundleId)));
		const manifest = entry?.snapshot.app.id === snapshot.app.id ? entry.manifests.get(bundleId) : undefined;
		return manifest === undefined || wanted !== found ? undefined : filesOfManifest(manifest);
	}

	/** For a check whose deadline has passed. */
	async #readSoon(publicAppId: string): Promise<Content | undefined> {
		const content = await before(this.#deps, this.#deps.now() + STORED_WAIT_MS, this.#objects.read(publicAppId));
		return content === LATE ? undefined : content;
	}

	/** After a change in this isolate, of one app or of any: requests begin a new load. */
	forget(publicAppId?: string): void {
		const meant = publicAppId?.toLowerCase();
		this.#loads.forget((key) => meant === undefined || key === meant);
	}
}
