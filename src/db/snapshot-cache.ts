/**
 * Snapshots of apps in the isolate's memory, so that an update check touches no database. One is believed for two seconds; then the
 * next check asks for the app's revision behind its answer, and one that is older than four seconds is never answered from without
 * asking. When the database does not answer, the last good snapshot does, and says how old it is.
 *
 * An isolate that changed an app forgets it (`forget`), so its own next check sees the change at once; other isolates see it within
 * four seconds. Nothing that belongs to a request is kept: plain data alone.
 */
import type { Database } from "./client";
import {
	appPointer,
	MOST_HELD_OVERRIDES,
	manifestOf,
	overrideOf,
	readyBundle,
	readyBundleOf,
	type SnapshotApp,
	type SnapshotBundle,
	type SnapshotChannel,
	type SnapshotFile,
	type SnapshotOverride,
	snapshotStatements,
} from "./snapshot";

/** How long a snapshot is believed. */
const FRESH_MS = 2_000;
/** From this age on a check waits for the revision. */
export const STALE_MS = 4_000;
/** How long a failing database is left alone while there is something to answer from. */
const RETRY_MS = 1_000;
/** A refresh that was begun so long ago has died with its request. */
const REFRESH_LIFETIME_MS = 10_000;
/** Channels, bundles, overrides and files that are held in all; about a third of a kilobyte each. */
const MOST_HELD_ROWS = 100_000;

export type Platform = "ios" | "android" | "electron";
const PLATFORMS: readonly Platform[] = ["ios", "android", "electron"];

export interface AppSnapshot {
	readonly publicAppId: string;
	readonly app: SnapshotApp;
	readonly channelsByName: ReadonlyMap<string, SnapshotChannel>;
	readonly channelsById: ReadonlyMap<number, SnapshotChannel>;
	readonly publicChannels: Readonly<Partial<Record<Platform, SnapshotChannel>>>;
	readonly bundles: ReadonlyMap<number, SnapshotBundle>;
	/** Null: there are too many to hold. */
	readonly overrides: ReadonlyMap<string, SnapshotOverride> | null;
	/** Which versions have a ready bundle, as far as it was asked: true for as long as the rest is. */
	readonly readyVersions: Map<string, boolean>;
}

interface Held {
	/** Null: there is no such app. */
	readonly snapshot: AppSnapshot | null;
	/** When it was last known to be true. */
	readonly checkedAtMs: number;
	readonly refreshingSinceMs: number;
	readonly retryAtMs: number;
	readonly manifests: Map<number, readonly SnapshotFile[]>;
	readonly rows: number;
}

export interface ReadSnapshot {
	readonly snapshot: AppSnapshot | null;
	/** Milliseconds since it was last known to be true. */
	readonly ageMs: number;
}

type WaitUntil = (work: Promise<unknown>) => void;

/** One for each isolate. `now` is asked again after the database answered: a check may have waited long. */
export function createSnapshotCache(now: () => number) {
	const held = new Map<string, Held>();
	let heldRows = 0;
	/** What was read before something was forgotten may be what was forgotten. */
	let forgotten = 0;

	/** The key of an app in `held`: one for all spellings of its id, unless the app has a twin. */
	function keyOf(publicAppId: string): string {
		const exact = exactKey(publicAppId);
		return held.has(exact) ? exact : publicAppId.toLowerCase();
	}

	function keep(publicAppId: string, entry: Held): void {
		drop(publicAppId);
		const key = entry.snapshot?.app.has_twin === 1 ? exactKey(publicAppId) : publicAppId.toLowerCase();
		remove(key);
		held.set(key, entry);
		heldRows += entry.rows;
		// The first of a Map is the one that was kept longest ago; every answer from memory moves its app to the end.
		for (const oldest of held.keys()) {
			if (heldRows <= MOST_HELD_ROWS || oldest === key) break;
			remove(oldest);
		}
	}

	function drop(publicAppId: string): void {
		remove(exactKey(publicAppId));
		remove(publicAppId.toLowerCase());
	}

	function remove(key: string): void {
		heldRows -= held.get(key)?.rows ?? 0;
		held.delete(key);
	}

	/** @param version what the asking device runs, so that whether that is still there needs no question of its own */
	async function load(db: Database, publicAppId: string, version = ""): Promise<Held> {
		const checkedAtMs = now();
		const forgottenBefore = forgotten;
		const [apps, channels, bundles, overrides, ready] = await db.batch([
			...snapshotStatements(publicAppId),
			readyBundleOf(publicAppId, version),
		]);
		const [app] = apps.rows;
		const before = held.get(keyOf(publicAppId));
		const snapshot = app === undefined ? null : assemble(publicAppId, app, channels.rows, bundles.rows, overrides.rows);
		snapshot?.readyVersions.set(version, ready.rows.length > 0);
		const sameApp = app !== undefined && before?.snapshot?.app.id === app.id;
		// Manifests of ready bundles never change; a bundle that is gone takes its own along.
		const manifests = new Map(sameApp ? [...before.manifests].filter(([id]) => snapshot?.bundles.has(id)) : []);
		const rows = 1 + channels.rows.length + bundles.rows.length + overrides.rows.length + filesOf(manifests);
		const entry = {
			snapshot,
			checkedAtMs,
			refreshingSinceMs: 0,
			retryAtMs: 0,
			manifests,
			rows,
		};
		if (forgotten === forgottenBefore) keep(publicAppId, entry);
		return entry;
	}

	/** Asks whether what is held is still true, and reads it again when it is not. */
	async function refresh(db: Database, publicAppId: string, current: Held): Promise<Held> {
		const checkedAtMs = now();
		const forgottenBefore = forgotten;
		const [pointers] = await db.batch([appPointer(publicAppId)]);
		const [pointer] = pointers.rows;
		const app = current.snapshot?.app;
		const unchanged =
			pointer === undefined ? app === undefined : pointer.id === app?.id && pointer.revision === app.revision;
		// A replica that is behind says less than is known already.
		const behind = pointer !== undefined && pointer.id === app?.id && pointer.revision < app.revision;
		if (!unchanged && !behind) return load(db, publicAppId);
		const entry = { ...(held.get(keyOf(publicAppId)) ?? current), checkedAtMs, refreshingSinceMs: 0, retryAtMs: 0 };
		if (forgotten === forgottenBefore) keep(publicAppId, entry);
		return entry;
	}

	return {
		/** @throws {ApiError} `service_unavailable` when the database does not answer and nothing is held */
		async read(db: Database, publicAppId: string, waitUntil: WaitUntil, version = ""): Promise<ReadSnapshot> {
			const nowMs = now();
			const current = held.get(keyOf(publicAppId));
			if (current === undefined) return shown(await load(db, publicAppId, version));
			const ageMs = nowMs - current.checkedAtMs;
			if (ageMs < FRESH_MS || nowMs < current.retryAtMs) {
				moveToEnd(publicAppId, current);
				return shown(current);
			}
			if (ageMs < STALE_MS) {
				if (nowMs - current.refreshingSinceMs > REFRESH_LIFETIME_MS) {
					keep(publicAppId, { ...current, refreshingSinceMs: nowMs });
					waitUntil(refresh(db, publicAppId, current).catch(() => postpone(publicAppId)));
				}
				return shown(current);
			}
			try {
				return shown(await refresh(db, publicAppId, current));
			} catch {
				postpone(publicAppId);
				return shown(current);
			}
		},

		/** One that is believed as it is; undefined where the database would be asked or there is no such app. */
		fresh(publicAppId: string, nowMs: number): AppSnapshot | undefined {
			const current = held.get(keyOf(publicAppId));
			if (current === undefined || nowMs - current.checkedAtMs >= FRESH_MS) return undefined;
			moveToEnd(publicAppId, current);
			return current.snapshot ?? undefined;
		},

		/** As the database has it now, whatever is held; for those who want to see their own last change from anywhere. */
		async readNow(db: Database, publicAppId: string, version: string): Promise<AppSnapshot | null> {
			return (await load(db, publicAppId, version)).snapshot;
		},

		/** What an operator set for the device. */
		async override(db: Database, snapshot: AppSnapshot, deviceId: string): Promise<SnapshotOverride | undefined> {
			if (snapshot.overrides !== null) return snapshot.overrides.get(deviceId);
			const [found] = await db.batch([overrideOf(snapshot.app.id, deviceId)]);
			return found.rows[0];
		},

		/** Whether a bundle of this version is there and ready. Asked once for each revision. */
		async hasReadyBundle(db: Database, snapshot: AppSnapshot, version: string): Promise<boolean> {
			const { readyVersions } = snapshot;
			const remembered = readyVersions.get(version);
			if (remembered !== undefined) return remembered;
			const [found] = await db.batch([readyBundle(snapshot.app.id, version)]);
			const exists = found.rows.length > 0;
			if (readyVersions.size < MOST_REMEMBERED_VERSIONS) readyVersions.set(version, exists);
			return exists;
		},

		/** The files of a bundle, as far as they were read already. */
		knownManifest(snapshot: AppSnapshot, bundleId: number): readonly SnapshotFile[] | undefined {
			const known = held.get(keyOf(snapshot.publicAppId));
			return known?.snapshot === snapshot ? known.manifests.get(bundleId) : undefined;
		},

		/** The same; read once for as long as it is held. */
		async manifest(db: Database, snapshot: AppSnapshot, bundleId: number): Promise<readonly SnapshotFile[]> {
			const known = held.get(keyOf(snapshot.publicAppId));
			const remembered = this.knownManifest(snapshot, bundleId);
			if (remembered !== undefined) return remembered;
			const [files] = await db.batch([manifestOf(snapshot.app.id, bundleId)]);
			if (known?.snapshot === snapshot) {
				known.manifests.set(bundleId, files.rows);
				keep(snapshot.publicAppId, { ...known, rows: known.rows + files.rows.length });
			}
			return files.rows;
		},

		/** The next check of this isolate reads the app again. */
		forget(publicAppId: string): void {
			forgotten += 1;
			drop(publicAppId);
		},

		forgetAll(): void {
			forgotten += 1;
			held.clear();
			heldRows = 0;
		},
	};

	function moveToEnd(publicAppId: string, current: Held): void {
		const key = keyOf(publicAppId);
		held.delete(key);
		held.set(key, current);
	}

	function postpone(publicAppId: string): void {
		const current = held.get(keyOf(publicAppId));
		if (current !== undefined) keep(publicAppId, { ...current, refreshingSinceMs: 0, retryAtMs: now() + RETRY_MS });
	}

	function shown(entry: Held): ReadSnapshot {
		return { snapshot: entry.snapshot, ageMs: now() - entry.checkedAtMs };
	}
}

export type SnapshotCache = ReturnType<typeof createSnapshotCache>;

/** Devices send what they like as their version; only so many different ones are remembered. */
const MOST_REMEMBERED_VERSIONS = 1_000;

/** The key of an app that has a twin (`SnapshotApp.has_twin`); no public id begins so. */
function exactKey(publicAppId: string): string {
	return `=${publicAppId}`;
}

function filesOf(manifests: ReadonlyMap<number, readonly SnapshotFile[]>): number {
	let files = 0;
	for (const manifest of manifests.values()) files += manifest.length;
	return files;
}

/** What checks are answered from, of the rows that make it. */
export function assemble(
	publicAppId: string,
	app: SnapshotApp,
	channels: readonly SnapshotChannel[],
	bundles: readonly SnapshotBundle[],
	overrides: readonly SnapshotOverride[],
): AppSnapshot {
	const publicChannels: Partial<Record<Platform, SnapshotChannel>> = {};
	for (const platform of PLATFORMS) {
		const open = channels.find((channel) => channel.public === 1 && channel[platform] === 1);
		if (open !== undefined) publicChannels[platform] = open;
	}
	return {
		publicAppId,
		app,
		channelsByName: new Map(channels.map((channel) => [channel.name, channel])),
		channelsById: new Map(channels.map((channel) => [channel.id, channel])),
		publicChannels,
		bundles: new Map(bundles.map((bundle) => [bundle.id, bundle])),
		overrides:
			overrides.length > MOST_HELD_OVERRIDES
				? null
				: new Map(overrides.map((override) => [override.device_id, override])),
		readyVersions: new Map(),
	};
}
