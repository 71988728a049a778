/**
 * How a snapshot in memory is replaced after a change, and how an app is stored for other isolates: as an R2 object (objects.ts), which the
 * request that changed the app publishes.
 */

import type { Database } from "../db/client";
import type { SnapshotFile } from "../db/snapshot-load";
import type { Log } from "../deps";
import type { AppSnapshot } from "./app-snapshot";
import { entryFromText, type LoadedApp, readApps } from "./entry";
import type { ChangeFeed, Pointer } from "./feed";
import type { Content, SnapshotObjects } from "./objects";
import { filesOfHeld, type Held, type SnapshotStore } from "./store";

/** Longest wait of a request for the load of another request, before it loads itself. */
export const SHARED_LOAD_MS = 5_000;

/** A snapshot that is loaded for one check is stored a little later. */
const STORE_AFTER_MS = 1_000;
/** Longest pause before a changed app that is not in R2 is loaded from D1, so that not all isolates load it. */
const LONGEST_PAUSE_MS = 300;

export type WaitUntil = (work: Promise<unknown>) => void;

export interface Outside {
	readonly now: () => number;
	readonly deadline: (ms: number) => Promise<void>;
	readonly delay: (ms: number) => Promise<void>;
	readonly randomBytes: (length: number) => Uint8Array;
	readonly log: Log;
}

export interface Loaded {
	readonly entry: Held | null;
	readonly app?: LoadedApp;
}

/** @param objects undefined: every replacement is loaded from D1 */
export function createReplacements(
	{ now, delay, randomBytes }: Outside,
	feed: ChangeFeed,
	store: SnapshotStore,
	objects: SnapshotObjects | undefined,
) {
	/** Replacements in progress, by UUID and token. */
	const replacing = new Map<string, { readonly work: Promise<Held | null>; readonly atMs: number }>();

	/** A cold isolate finds the app in R2 when the database does not answer. Later, so that the check does not pay for it. */
	async function storeLater(db: Database, { entry, app: found }: Loaded): Promise<void> {
		if (entry === null || found === undefined) return;
		await delay(STORE_AFTER_MS);
		const { app } = entry.snapshot;
		if (app.token === "" || store.get(app.publicId) !== entry || entry.supersededBy !== undefined) return;
		if ((await objects?.storedToken(app.publicId)) === app.token) return;
		const content = found.content();
		if (content === null) await publish(db, app.publicId);
		else await objects?.store(app.publicId, content);
	}

	/** Loads the app and stores it for all isolates. Not limited by address: changes and apps in memory bound it. */
	async function publish(limited: Database, publicAppId: string): Promise<Content | null> {
		const question = feed.begin();
		const db = limited.unlimited ?? limited;
		const { changes, apps } = await readApps(db, [publicAppId], feed.statement(), question.atMs, true);
		await feed.settle(db, question, changes);
		const content = apps[0]?.content() ?? null;
		if (content !== null) await objects?.store(publicAppId, content);
		return content;
	}

	/** The changed app: from R2, where its change published it; from D1 only if it is not there after a random pause. */
	async function obtain(db: Database, { publicId, token }: Pointer): Promise<Content | null> {
		for (const pauseMs of [0, LONGEST_PAUSE_MS * ((randomBytes(1)[0] ?? 0) / 256)]) {
			if (pauseMs > 0) await delay(pauseMs);
			const content = await objects?.read(publicId);
			if (content?.token === token) return content;
		}
		return publish(db, publicId);
	}

	async function replace(db: Database, entry: Held, pointer: Pointer): Promise<Held | null> {
		const { app } = entry.snapshot;
		const content = await obtain(db, pointer);
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
		const content = await objects?.read(publicAppId);
		const entry = content === undefined ? undefined : entryFromText(publicAppId, content);
		if (entry !== undefined && store.get(publicAppId) === undefined) store.keep(entry);
		return entry;
	}

	/** From the app's last stored snapshot, if that has the same bundle. */
	async function storedManifest(snapshot: AppSnapshot, bundleId: number): Promise<readonly SnapshotFile[] | undefined> {
		const content = await objects?.read(snapshot.app.publicId);
		const entry = content === undefined ? undefined : entryFromText(snapshot.app.publicId, content);
		const [wanted, found] = [snapshot, entry?.snapshot].map((of) => JSON.stringify(of?.bundles.get(bundleId)));
		const manifest = entry?.snapshot.app.id === snapshot.app.id ? entry.manifests.get(bundleId) : undefined;
		return manifest === undefined || wanted !== found ? undefined : filesOfHeld(manifest);
	}

	return { storeLater, publish, replaceShared, fromSource, storedManifest };
}
