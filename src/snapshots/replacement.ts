/**
 * How a snapshot in memory is replaced after a change, and how an app is stored for cold isolates. The stored snapshots are R2 objects that one
 * isolate loads from D1 for all (src/snapshots/objects.ts).
 */

import type { Database } from "../db/client";
import type { SnapshotFile } from "../db/snapshot-load";
import type { Log } from "../deps";
import type { AppSnapshot } from "./app-snapshot";
import { type Content, entryFromText, type LoadedApp, readApps, type SnapshotSource } from "./entry";
import type { ChangeFeed, Pointer } from "./feed";
import { filesOfHeld, type Held, type SnapshotStore } from "./store";

/** Longest wait of a request for the load of another request, before it loads itself. */
export const SHARED_LOAD_MS = 5_000;

export type WaitUntil = (work: Promise<unknown>) => void;

export interface Outside {
	readonly now: () => number;
	readonly deadline: (ms: number) => Promise<void>;
	readonly log: Log;
}

export interface Loaded {
	readonly entry: Held | null;
	readonly app?: LoadedApp;
	/** Position of the feed in the load. */
	readonly seq?: number;
}

/** @param source undefined: every replacement is loaded from D1 */
export function createReplacements(
	{ now }: Outside,
	feed: ChangeFeed,
	store: SnapshotStore,
	source: SnapshotSource | undefined,
) {
	/** Replacements in progress, by UUID and token. */
	const replacing = new Map<string, { readonly work: Promise<Held | null>; readonly atMs: number }>();

	/** A cold isolate finds the app in the store when the database does not answer. */
	async function storeLater(limited: Database, loaded: Loaded | undefined): Promise<void> {
		const { entry, app: found, seq = 0 } = loaded ?? {};
		if (source === undefined || entry == null || found === undefined) return;
		await source.pause();
		const { app } = entry.snapshot;
		if (app.token === "" || store.get(app.publicId) !== entry || entry.supersededBy !== undefined) return;
		const db = limited.unlimited ?? limited;
		const wanted = { appId: app.id, publicId: app.publicId, token: app.token, seq };
		await obtain(db, wanted, async () => found.content() ?? loadContent(db, app.publicId));
	}

	/** The load of a stored snapshot. */
	async function loadContent(db: Database, publicAppId: string): Promise<Content | null> {
		const question = feed.begin();
		const { changes, apps } = await readApps(db, [publicAppId], feed.statement(), question.atMs, true);
		await feed.settle(db, question, changes);
		return apps[0]?.content() ?? null;
	}

	/** The stored snapshot, which is loaded if it is not the wanted one. */
	async function obtain(db: Database, wanted: Pointer, load: () => Promise<Content | null>): Promise<Content | null> {
		if (source === undefined) return load();
		const content = await source.obtain(wanted, load);
		if (content === null || content.token === wanted.token) return content;
		// Newer than what this isolate knows of the feed, or from before the database was restored: the feed decides.
		await feed.confirm(db, () => undefined, feed.mark());
		const entry = store.get(wanted.publicId);
		const token = entry?.supersededBy?.token ?? entry?.snapshot.app.token ?? wanted.token;
		if (token === content.token) return content;
		return source.obtain({ ...wanted, token, seq: Number.POSITIVE_INFINITY }, () => loadContent(db, wanted.publicId));
	}

	/** Replaces a superseded snapshot. Not limited by address: the changes of the apps in memory bound it. */
	async function replace(limited: Database, entry: Held, pointer: Pointer): Promise<Held | null> {
		const db = limited.unlimited ?? limited;
		const { app } = entry.snapshot;
		const content = await obtain(db, pointer, () => loadContent(db, app.publicId));
		const current = store.get(app.publicId);
		if (content === null) {
			if (current === entry) store.drop(app.publicId);
			return null;
		}
		const replaced = entryFromText(app.publicId, content, { appId: app.id, before: entry });
		if (replaced === undefined) throw new Error(`the stored snapshot of ${app.publicId} is not this app's`);
		if (current === undefined) return replaced;
		const { supersededBy, currentAtMs, mark } = current;
		if (supersededBy?.token === content.token) store.keep({ ...replaced, mark });
		// Newer than the current entry, and superseded again.
		else if (current === entry) store.keep({ ...replaced, supersededBy, currentAtMs, mark });
		return store.get(app.publicId) ?? replaced;
	}

	function replaceShared(db: Database, entry: Held, pointer: Pointer, waitUntil: WaitUntil): Promise<Held | null> {
		const key = `${pointer.appId} ${pointer.token}`;
		const shared = replacing.get(key);
		// Work that began long ago has ended with its request.
		if (shared !== undefined && now() - shared.atMs < SHARED_LOAD_MS) return shared.work;
		const work = replace(db, entry, pointer).finally(() => {
			if (replacing.get(key)?.work === work) replacing.delete(key);
		});
		replacing.set(key, { work, atMs: now() });
		waitUntil(work.catch(() => undefined));
		return work;
	}

	/** The app's last stored snapshot, which nothing shows to be current. */
	async function fromSource(publicAppId: string): Promise<Held | undefined> {
		const content = await source?.latest(publicAppId);
		const entry = content === undefined ? undefined : entryFromText(publicAppId, content);
		if (entry !== undefined && store.get(publicAppId) === undefined) store.keep(entry);
		return entry;
	}

	/** From the app's last stored snapshot, if that has the same bundle. */
	async function storedManifest(snapshot: AppSnapshot, bundleId: number): Promise<readonly SnapshotFile[] | undefined> {
		const content = await source?.latest(snapshot.app.publicId);
		const entry = content === undefined ? undefined : entryFromText(snapshot.app.publicId, content);
		const [wanted, found] = [snapshot, entry?.snapshot].map((of) => JSON.stringify(of?.bundles.get(bundleId)));
		const manifest = entry?.snapshot.app.id === snapshot.app.id ? entry.manifests.get(bundleId) : undefined;
		return manifest === undefined || wanted !== found ? undefined : filesOfHeld(manifest);
	}

	return { storeLater, replaceShared, fromSource, storedManifest };
}
