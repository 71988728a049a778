/**
 * Loads of apps from D1 into the isolate's memory. Requests that miss the same app share one load; a load that may not have seen a change of
 * this isolate answers its requests, but is not kept.
 */

import type { Database } from "../db/client";
import { ApiError, causeText } from "../errors";
import { entryFromRows, readApps } from "./entry";
import type { ChangeFeed } from "./feed";
import { LATE, within } from "./patience";
import { type Loaded, type Outside, SHARED_LOAD_MS, type WaitUntil } from "./replacement";
import type { Held, SnapshotStore } from "./store";

interface Load {
	readonly entry: Promise<Held | null>;
	/** False after a change in this isolate, which the load may not have seen. */
	isCurrent: boolean;
}

/** @param storeLater stores a loaded app for other isolates */
export function createLoads(
	clock: Outside,
	feed: ChangeFeed,
	store: SnapshotStore,
	storeLater: (db: Database, loaded: Loaded) => Promise<void>,
) {
	/** Loads in progress, each shared by all requests that miss the app. */
	const loading = new Map<string, Load>();

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
			const entry = entryFromRows(app, store.get(publicAppId));
			if (isCurrent) store.keep(entry);
			return { entry, app };
		});
		// Loads of existing apps are bounded by their changes. Loads of made-up ids and of apps that evict each other are not, so
		// they count against the address.
		const isFirst = loaded.map(({ entry }) => {
			const app = entry?.snapshot.app;
			return app !== undefined && store.noteReading(app.id, app.revision, question.atMs);
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
				waitUntil(
					work.then((loaded) => storeLater(db, loaded[index] ?? { entry: null }).catch(failed)).catch(() => undefined),
				);
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

	return {
		load,
		loadShared,

		/** After a change in this isolate, of one app or of any: requests begin a new load, and no load in progress is kept. */
		invalidateLoads(publicAppId?: string): void {
			for (const [id, load] of loading) {
				if (publicAppId !== undefined && id.toLowerCase() !== publicAppId.toLowerCase()) continue;
				load.isCurrent = false;
				loading.delete(id);
			}
		},
	};
}
