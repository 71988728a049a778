/**
 * Snapshots of apps in the isolate's memory, so that an update check touches no database. One is believed for two seconds; then the
 * next check asks for the app's revision behind its answer, and one that is older than four seconds is never answered from without
 * asking. When the database does not answer within half a second, the last good snapshot does, and says how old it is.
 *
 * An isolate that changed an app forgets it (`forget`), so its own next check sees the change at once; other isolates see it within
 * four seconds. Nothing that belongs to a request is kept: plain data alone. Requests that miss the same app share one load. Everything
 * here is bounded by bytes, and apps that do not exist have a list of their own, so that made-up ids displace no app.
 */

import { recentMap } from "../domain/recent";
import { ApiError } from "../errors";
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
/** How long a check waits for the database while there is a snapshot to answer from. */
const PATIENCE_MS = 500;
/** How long a request waits for the load that another request has begun, before it loads itself. */
const SHARED_LOAD_MS = 5_000;
/** Channels, bundles, overrides and files that are held in all. */
const MOST_HELD_BYTES = 24 * 1024 * 1024;
/** Ids of apps that do not exist, of up to 128 characters. */
const MOST_ABSENT = 5_000;
/** An app or a manifest that is read again so soon, though it did not change, was displaced from memory: strangers can cause that. */
const DISPLACED_WITHIN_MS = 10_000;
/** Apps and manifests whose last reading is remembered; about 100 bytes each. */
const MOST_READINGS = 10_000;
/** How long an absent app is still reported as absent while its address may not ask again. */
const ABSENT_MS = 60_000;

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
	/** Overrides that were looked up singly, because there are too many to hold. Null: the device has none. */
	readonly askedOverrides: Map<string, SnapshotOverride | null>;
	/** Which versions have a ready bundle, as far as it was asked: true for as long as the rest is. */
	readonly readyVersions: Map<string, boolean>;
}

interface Held {
	readonly snapshot: AppSnapshot;
	/** When it was last known to be true. */
	readonly checkedAtMs: number;
	readonly refreshingSinceMs: number;
	readonly retryAtMs: number;
	readonly manifests: Map<number, HeldManifest>;
	/** Size of the snapshot; manifests are counted by themselves. */
	readonly bytes: number;
}

interface Reading {
	readonly atMs: number;
	readonly revision: number;
}

interface HeldManifest {
	readonly files: readonly SnapshotFile[];
	readonly bytes: number;
}

export interface ReadSnapshot {
	readonly snapshot: AppSnapshot | null;
	/** Milliseconds since it was last known to be true. */
	readonly ageMs: number;
}

type WaitUntil = (work: Promise<unknown>) => void;

interface Clock {
	readonly now: () => number;
	readonly deadline: (ms: number) => Promise<void>;
}

/** One for each isolate. The time is asked again after the database answered: a check may have waited long. */
export function createSnapshotCache({ now, deadline }: Clock) {
	const held = new Map<string, Held>();
	let heldBytes = 0;
	/** When each app was last known not to exist, the oldest first. */
	const absent = new Map<string, number>();
	/** Loads under way, each for all who miss the app. */
	const loading = new Map<string, Promise<Held | null>>();
	/** A load that began before an invalidation must not be cached. */
	let forgotten = 0;
	/** When an app, or a manifest, was read last, and at which revision of the app. */
	const readings = recentMap<Reading>(MOST_READINGS);

	/** Records a reading; true if it was the first of this revision in a while: such ones are bounded by what exists. */
	function noteReading(key: string, revision: number, atMs: number): boolean {
		const isFirst = !wasReadLately(key, revision, atMs);
		readings.set(key, { atMs, revision });
		return isFirst;
	}

	function wasReadLately(key: string, revision: number, atMs: number): boolean {
		const last = readings.get(key);
		return last !== undefined && last.revision === revision && atMs - last.atMs < DISPLACED_WITHIN_MS;
	}

	/** The key of an app in `held`: one for all spellings of its id, unless the app has a twin. */
	function keyOf(publicAppId: string): string {
		const exact = exactKey(publicAppId);
		return held.has(exact) ? exact : publicAppId.toLowerCase();
	}

	function keep(publicAppId: string, entry: Held): void {
		drop(publicAppId);
		const key = entry.snapshot.app.has_twin === 1 ? exactKey(publicAppId) : publicAppId.toLowerCase();
		held.set(key, entry);
		heldBytes += sizeOf(entry);
		// The first of a Map is the one that was kept longest ago; every answer from memory moves its app to the end.
		for (const oldest of held.keys()) {
			if (heldBytes <= MOST_HELD_BYTES || oldest === key) break;
			remove(oldest);
		}
		for (const [bundleId, { bytes }] of entry.manifests) {
			if (heldBytes <= MOST_HELD_BYTES || entry.manifests.size === 1) break;
			entry.manifests.delete(bundleId);
			heldBytes -= bytes;
		}
	}

	function drop(publicAppId: string): void {
		remove(exactKey(publicAppId));
		remove(publicAppId.toLowerCase());
	}

	function remove(key: string): void {
		const entry = held.get(key);
		if (entry === undefined) return;
		heldBytes -= sizeOf(entry);
		held.delete(key);
	}

	/** When the app was last known not to exist, in any spelling. */
	const absentSince = (publicAppId: string) => absent.get(publicAppId.toLowerCase()) ?? Number.NEGATIVE_INFINITY;

	function keepAbsent(publicAppId: string, atMs: number): void {
		drop(publicAppId);
		absent.delete(publicAppId.toLowerCase());
		absent.set(publicAppId.toLowerCase(), atMs);
		for (const oldest of absent.keys()) {
			if (absent.size <= MOST_ABSENT) break;
			absent.delete(oldest);
		}
	}

	/** @param version what the asking device runs, so that whether that is still there needs no question of its own */
	async function load(db: Database, publicAppIds: readonly string[], version: string): Promise<(Held | null)[]> {
		const checkedAtMs = now();
		const forgottenBefore = forgotten;
		const results = await db.batch(
			publicAppIds.flatMap((id) => [...snapshotStatements(id), readyBundleOf(id, version)] as const),
		);
		const loaded = publicAppIds.map((publicAppId, index) => {
			const [apps, channels, bundles, overrides, ready] = results.slice(5 * index, 5 * index + 5) as unknown as [
				{ rows: SnapshotApp[] },
				{ rows: SnapshotChannel[] },
				{ rows: SnapshotBundle[] },
				{ rows: SnapshotOverride[] },
				{ rows: unknown[] },
			];
			const isCurrent = forgotten === forgottenBefore;
			const [app] = apps.rows;
			if (app === undefined) {
				if (isCurrent) keepAbsent(publicAppId, checkedAtMs);
				return null;
			}
			const before = held.get(keyOf(publicAppId));
			const snapshot = assemble(publicAppId, app, channels.rows, bundles.rows, overrides.rows);
			snapshot.readyVersions.set(version, ready.rows.length > 0);
			// Manifests of ready bundles never change; a bundle that is gone takes its own along.
			const known = before?.snapshot.app.id === app.id ? [...before.manifests] : [];
			const manifests = new Map(known.filter(([id]) => snapshot.bundles.has(id)));
			const bytes = bytesOf(channels.rows) + bytesOf(bundles.rows) + bytesOf(overrides.rows) + 1_000;
			const entry = { snapshot, checkedAtMs, refreshingSinceMs: 0, retryAtMs: 0, manifests, bytes };
			if (isCurrent) {
				absent.delete(publicAppId.toLowerCase());
				keep(publicAppId, entry);
			}
			return entry;
		});
		// Apps that exist are loaded as often as they change; made-up ids, spellings of an app with a twin, and apps that displace
		// each other, without end.
		const isFirst = loaded.map((entry) => {
			const app = entry?.snapshot.app;
			return app?.has_twin === 0 && noteReading(app.id, app.revision, checkedAtMs);
		});
		if (isFirst.every(Boolean)) db.refund?.();
		return loaded;
	}

	/** The apps, in one batch; those that another request is loading come with its answer. */
	async function loadShared(
		db: Database,
		publicAppIds: readonly string[],
		waitUntil: WaitUntil,
		version: string,
	): Promise<(Held | null)[]> {
		const missing = publicAppIds.filter((id) => !loading.has(id));
		if (missing.length > 0) {
			const work = load(db, missing, version);
			for (const [index, id] of missing.entries()) {
				const one = work.then((loaded) => loaded[index] ?? null);
				loading.set(id, one);
				const done = () => {
					if (loading.get(id) === one) loading.delete(id);
				};
				// Others wait for it even when its own request is gone.
				waitUntil(one.then(done, done));
			}
		}
		return Promise.all(
			publicAppIds.map(async (id) => {
				const shared = loading.get(id);
				if (shared === undefined || missing.includes(id)) return (await shared) ?? null;
				try {
					const loaded = await within(SHARED_LOAD_MS, shared);
					if (loaded !== LATE) return loaded;
				} catch (error) {
					// The other address may have asked too often; the database may be down for all.
					if (error instanceof ApiError && error.code === "service_unavailable") throw error;
				}
				return (await load(db, [id], version))[0] ?? null;
			}),
		);
	}

	async function within<Value>(ms: number, work: Promise<Value>): Promise<Value | typeof LATE> {
		return Promise.race([work, deadline(ms).then((): typeof LATE => LATE)]);
	}

	/** Asks whether what is held is still true, and reads it again when it is not. Bounded by the apps that are held. */
	async function refresh(limited: Database, publicAppId: string, current: Held): Promise<Held | null> {
		const db = limited.unlimited ?? limited;
		const checkedAtMs = now();
		const forgottenBefore = forgotten;
		const [pointers] = await db.batch([appPointer(publicAppId)]);
		const [pointer] = pointers.rows;
		const { app } = current.snapshot;
		const unchanged = pointer !== undefined && pointer.id === app.id && pointer.revision === app.revision;
		// A replica that is behind says less than is known already.
		const behind = pointer !== undefined && pointer.id === app.id && pointer.revision < app.revision;
		if (!unchanged && !behind) return (await load(db, [publicAppId], ""))[0] ?? null;
		const entry = { ...(held.get(keyOf(publicAppId)) ?? current), checkedAtMs, refreshingSinceMs: 0, retryAtMs: 0 };
		if (forgotten === forgottenBefore) keep(publicAppId, entry);
		return entry;
	}

	/** @throws {ApiError} when a device may not ask for it, or the database does not answer, and nothing is known */
	async function readAll(
		db: Database,
		publicAppIds: readonly string[],
		waitUntil: WaitUntil,
		version: string,
	): Promise<ReadSnapshot[]> {
		const nowMs = now();
		const unknown = publicAppIds.filter((id) => !held.has(keyOf(id)) && nowMs - absentSince(id) >= STALE_MS);
		const loaded = new Map<string, Held | null>();
		if (unknown.length > 0) {
			try {
				const entries = await loadShared(db, unknown, waitUntil, version);
				for (const [index, id] of unknown.entries()) loaded.set(id, entries[index] ?? null);
			} catch (error) {
				const stillAbsent = (id: string) => nowMs - absentSince(id) < ABSENT_MS;
				if (!unknown.every(stillAbsent)) throw error;
			}
		}
		return Promise.all(
			publicAppIds.map(async (id) => {
				const entry = loaded.get(id);
				if (entry != null) return shown(entry);
				const current = held.get(keyOf(id));
				return current === undefined ? { snapshot: null, ageMs: 0 } : readHeld(db, id, current, waitUntil);
			}),
		);
	}

	async function readHeld(
		db: Database,
		publicAppId: string,
		current: Held,
		waitUntil: WaitUntil,
	): Promise<ReadSnapshot> {
		const nowMs = now();
		const ageMs = nowMs - current.checkedAtMs;
		if (ageMs < FRESH_MS || nowMs < current.retryAtMs) {
			moveToEnd(publicAppId, current);
			return shown(current);
		}
		const isRefreshing = nowMs - current.refreshingSinceMs <= REFRESH_LIFETIME_MS;
		if (ageMs < STALE_MS) {
			if (!isRefreshing) {
				keep(publicAppId, { ...current, refreshingSinceMs: nowMs });
				waitUntil(refresh(db, publicAppId, current).catch(() => postpone(publicAppId)));
			}
			return shown(current);
		}
		try {
			const asked = refresh(db, publicAppId, current);
			const entry = await within(PATIENCE_MS, asked);
			if (entry !== LATE) return entry === null ? { snapshot: null, ageMs: 0 } : shown(entry);
			waitUntil(asked.catch(() => undefined));
			postpone(publicAppId);
			return shown(current);
		} catch {
			postpone(publicAppId);
			return shown(current);
		}
	}

	return {
		/** @throws {ApiError} `service_unavailable` when the database does not answer and nothing is held */
		async read(db: Database, publicAppId: string, waitUntil: WaitUntil, version = ""): Promise<ReadSnapshot> {
			const [read] = await readAll(db, [publicAppId], waitUntil, version);
			return read ?? { snapshot: null, ageMs: 0 };
		},

		/** Several apps; all that are not held in one batch. */
		readMany: (db: Database, publicAppIds: readonly string[], waitUntil: WaitUntil): Promise<ReadSnapshot[]> =>
			readAll(db, publicAppIds, waitUntil, ""),

		/** One that is believed as it is; undefined where the database would be asked or there is no such app. */
		fresh(publicAppId: string, nowMs: number): AppSnapshot | undefined {
			const current = held.get(keyOf(publicAppId));
			if (current === undefined || nowMs - current.checkedAtMs >= FRESH_MS) return undefined;
			moveToEnd(publicAppId, current);
			return current.snapshot;
		},

		/** As the database has it now, whatever is held; for those who want to see their own last change from anywhere. */
		async readNow(db: Database, publicAppId: string, version: string): Promise<AppSnapshot | null> {
			return (await load(db, [publicAppId], version))[0]?.snapshot ?? null;
		},

		/** What an operator set for the device. */
		async override(db: Database, snapshot: AppSnapshot, deviceId: string): Promise<SnapshotOverride | undefined> {
			if (snapshot.overrides !== null) return snapshot.overrides.get(deviceId);
			const { askedOverrides } = snapshot;
			const known = askedOverrides.get(deviceId);
			if (known !== undefined) return known ?? undefined;
			const [found] = await db.batch([overrideOf(snapshot.app.id, deviceId)]);
			if (askedOverrides.size >= MOST_HELD_OVERRIDES) askedOverrides.clear();
			askedOverrides.set(deviceId, found.rows[0] ?? null);
			return found.rows[0];
		},

		/** Whether a bundle of this version is there and ready. Asked once for each revision. */
		async hasReadyBundle(db: Database, snapshot: AppSnapshot, version: string): Promise<boolean> {
			const { readyVersions } = snapshot;
			const remembered = readyVersions.get(version);
			if (remembered !== undefined) return remembered;
			const [found] = await db.batch([readyBundle(snapshot.app.id, version)]);
			const exists = found.rows.length > 0;
			// Devices send what they like as their version.
			if (readyVersions.size >= MOST_REMEMBERED_VERSIONS) readyVersions.clear();
			readyVersions.set(version, exists);
			return exists;
		},

		/** The files of a bundle, as far as they were read already. */
		knownManifest(snapshot: AppSnapshot, bundleId: number): readonly SnapshotFile[] | undefined {
			const known = held.get(keyOf(snapshot.publicAppId));
			return known?.snapshot === snapshot ? known.manifests.get(bundleId)?.files : undefined;
		},

		/** The same; read once for as long as it is held. */
		async manifest(db: Database, snapshot: AppSnapshot, bundleId: number): Promise<readonly SnapshotFile[]> {
			const remembered = this.knownManifest(snapshot, bundleId);
			if (remembered !== undefined) return remembered;
			// The first reading is bounded by the bundles that channels serve.
			const key = `${snapshot.app.id} ${bundleId}`;
			const { revision } = snapshot.app;
			const isDisplaced = wasReadLately(key, revision, now());
			const reader = isDisplaced ? db : (db.unlimited ?? db);
			const [files] = await reader.batch([manifestOf(snapshot.app.id, bundleId)]);
			noteReading(key, revision, now());
			const known = held.get(keyOf(snapshot.publicAppId));
			if (known?.snapshot === snapshot) {
				drop(snapshot.publicAppId);
				known.manifests.set(bundleId, { files: files.rows, bytes: bytesOf(files.rows) });
				keep(snapshot.publicAppId, known);
			}
			return files.rows;
		},

		/** The next check of this isolate reads the app again. */
		forget(publicAppId: string): void {
			forgotten += 1;
			drop(publicAppId);
			absent.delete(publicAppId.toLowerCase());
			for (const id of loading.keys()) if (id.toLowerCase() === publicAppId.toLowerCase()) loading.delete(id);
		},

		forgetAll(): void {
			forgotten += 1;
			held.clear();
			absent.clear();
			loading.clear();
			heldBytes = 0;
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

const LATE = "late";

export type SnapshotCache = ReturnType<typeof createSnapshotCache>;

/** Versions of one app; at most 128 characters each. */
const MOST_REMEMBERED_VERSIONS = 1_000;

/** The key of an app that has a twin (`SnapshotApp.has_twin`); no public id begins so. */
function exactKey(publicAppId: string): string {
	return `=${publicAppId}`;
}

function sizeOf({ bytes, manifests }: Held): number {
	let sum = bytes;
	for (const manifest of manifests.values()) sum += manifest.bytes;
	return sum;
}

const ROW_BYTES = 100;
const VALUE_BYTES = 8;

/** About what the rows take in memory. */
function bytesOf(rows: readonly object[]): number {
	let bytes = 0;
	for (const row of rows) {
		bytes += ROW_BYTES;
		for (const value of Object.values(row)) bytes += VALUE_BYTES + (typeof value === "string" ? value.length : 0);
	}
	return bytes;
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
		askedOverrides: new Map(),
		readyVersions: new Map(),
	};
}
