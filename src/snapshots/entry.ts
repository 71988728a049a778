/**
 * Makes entries of the snapshot cache: from the rows of D1, or from a stored snapshot, whose app is compared with the wanted one.
 */
import type { CompiledQuery } from "kysely";
import { type ChangeRow, changesFrom } from "../db/changes";
import type { Database } from "../db/client";
import {
	MOST_STORED_FILES,
	type SnapshotAppRow,
	type SnapshotBundleRow,
	type SnapshotChannelRow,
	type SnapshotFile,
	type SnapshotOverrideRow,
	type SnapshotZipOnlyRow,
	servedManifests,
	snapshotStatements,
} from "../db/snapshot-load";
import { assembleSnapshot } from "./app-snapshot";
import { Backoff } from "./freshness";
import type { Content } from "./objects";
import { bytesOf, type CachedManifest, type CacheEntry } from "./store";
import { readSnapshotText, type SnapshotRows, textOf } from "./text";

export interface LoadedApp {
	readonly rows: SnapshotRows;
	/** As it is stored; null if the manifests of its bundles were not read. */
	readonly content: () => Content | null;
}

const STATEMENTS = 6;

/** Reads apps and the change feed in one batch; null for an app that does not exist. */
export async function readApps(
	db: Database,
	publicAppIds: readonly string[],
	feed: CompiledQuery<ChangeRow>,
	atMs: number,
	withManifests = false,
): Promise<{ readonly changes: readonly ChangeRow[]; readonly apps: readonly (LoadedApp | null)[] }> {
	const results = await db.batch([
		feed,
		...publicAppIds.flatMap((id) => [...snapshotStatements(id), ...(withManifests ? [servedManifests(id)] : [])]),
	]);
	const changes = (results[0]?.rows ?? []) as readonly ChangeRow[];
	const count = withManifests ? STATEMENTS + 1 : STATEMENTS;
	const apps = publicAppIds.map((_, index) => {
		const [found, channels, bundles, overrides, names, zipOnly, files] = results
			.slice(1 + count * index, 1 + count * (index + 1))
			.map((result) => result.rows) as unknown as [
			SnapshotAppRow[],
			SnapshotChannelRow[],
			SnapshotBundleRow[],
			SnapshotOverrideRow[],
			{ readonly name: string }[],
			SnapshotZipOnlyRow[],
			(SnapshotFile & { readonly bundle_id: number })[]?,
		];
		const [app] = found;
		if (app === undefined) return null;
		const rows = { app, channels, bundles, overrides, names: names.map(({ name }) => name), zipOnly };
		const hasManifests = bundles.some(({ has_manifest, external_url }) => has_manifest === 1 && external_url === null);
		const content = () =>
			hasManifests && files === undefined
				? null
				: {
						token: app.revision_token ?? "",
						text: textOf(atMs, rows, files ?? [], MOST_STORED_FILES),
					};
		return { rows, content };
	});
	return { changes, apps };
}

/** An app as it is stored, for jobs, which follow no feed; null if it does not exist. */
export async function loadContent(db: Database, publicAppId: string, atMs: number): Promise<Content | null> {
	const { apps } = await readApps(db, [publicAppId], changesFrom(Number.MAX_SAFE_INTEGER), atMs, true);
	return apps[0]?.content() ?? null;
}

function entryOf(rows: SnapshotRows, before: CacheEntry | undefined): CacheEntry {
	const { app, channels, bundles, overrides, names, zipOnly } = rows;
	const snapshot = assembleSnapshot(app, channels, bundles, overrides, names, zipOnly);
	// The manifest of a ready bundle never changes, so manifests are kept for as long as their bundles.
	const known = before?.snapshot.app.id === app.id ? [...before.manifests] : [];
	const manifests = new Map(known.filter(([id]) => snapshot.bundles.has(id)));
	const lists = bytesOf(channels) + bytesOf(bundles) + bytesOf(overrides) + bytesOf(zipOnly);
	const bytes = lists + names.reduce((sum, name) => sum + name.length + 50, 0) + 1_000;
	return {
		snapshot,
		manifests,
		bytes,
		isUnconfirmed: false,
		supersededBy: undefined,
		currentAtMs: 0,
		mark: 0,
		backoff: new Backoff(),
	};
}

export function entryFromRows({ rows }: LoadedApp, before: CacheEntry | undefined): CacheEntry {
	return entryOf(rows, before);
}

/**
 * @param wanted the app; without it, the entry is unconfirmed
 * @returns undefined for the snapshot of another app
 */
export function entryFromText(
	publicAppId: string,
	{ token, text }: Content,
	wanted?: { readonly appId: string; readonly before: CacheEntry },
): CacheEntry | undefined {
	const { atMs, rows, manifests: stored } = readSnapshotText(text);
	const { app } = rows;
	const isWanted =
		wanted === undefined ? app.app_id.toLowerCase() === publicAppId.toLowerCase() : app.id === wanted.appId;
	if (!isWanted || app.revision_token !== token) return undefined;
	const entry = entryOf(rows, wanted?.before);
	for (const [bundleId, files] of stored) entry.manifests.set(bundleId, cachedManifest(files));
	return wanted === undefined ? { ...entry, isUnconfirmed: true, currentAtMs: atMs } : entry;
}

const cachedManifest = (files: string): CachedManifest => ({ files, bytes: 2 * files.length });
