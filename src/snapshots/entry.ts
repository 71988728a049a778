/**
 * Makes entries of the snapshot cache: from the rows of D1, or from a stored snapshot, whose app is compared with the wanted one.
 */
import type { CompiledQuery } from "kysely";
import type { ChangeRow } from "../db/changes";
import type { Database } from "../db/client";
import {
	MOST_STORED_FILES,
	type SnapshotAppRow,
	type SnapshotBundleRow,
	type SnapshotChannelRow,
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

const STATEMENTS = 6;

/** The rows of an app from the results of its statements; null if it does not exist. */
function rowsOf(results: readonly { readonly rows: unknown[] }[]): SnapshotRows | null {
	const [found, channels, bundles, overrides, names, zipOnly] = results.map(({ rows }) => rows) as unknown as [
		SnapshotAppRow[],
		SnapshotChannelRow[],
		SnapshotBundleRow[],
		SnapshotOverrideRow[],
		{ readonly name: string }[],
		SnapshotZipOnlyRow[],
	];
	const [app] = found;
	if (app === undefined) return null;
	return { app, channels, bundles, overrides, names: names.map(({ name }) => name), zipOnly };
}

interface ReadWithFeed<Value> {
	readonly changes: readonly ChangeRow[];
	readonly value: Value;
}

/** Reads apps and the change feed in one batch. */
export async function readApps(
	db: Database,
	publicAppIds: readonly string[],
	feed: CompiledQuery<ChangeRow>,
): Promise<ReadWithFeed<(SnapshotRows | null)[]>> {
	const [changes, ...results] = await db.batch([feed, ...publicAppIds.flatMap((id) => snapshotStatements(id))]);
	const value = publicAppIds.map((_, index) => rowsOf(results.slice(STATEMENTS * index, STATEMENTS * (index + 1))));
	return { changes: changes.rows, value };
}

/** Reads an app as it is stored, with manifests, and the change feed in one batch. */
export async function readContent(
	db: Database,
	publicAppId: string,
	feed: CompiledQuery<ChangeRow>,
	atMs: number,
): Promise<ReadWithFeed<Content | null>> {
	const statements = [feed, servedManifests(publicAppId), ...snapshotStatements(publicAppId)] as const;
	const [changes, files, ...results] = await db.batch(statements);
	const rows = rowsOf(results);
	if (rows === null) return { changes: changes.rows, value: null };
	const text = textOf(atMs, rows, files.rows, MOST_STORED_FILES);
	return { changes: changes.rows, value: { token: rows.app.revision_token ?? "", text } };
}

export function entryFromRows(rows: SnapshotRows, before: CacheEntry | undefined): CacheEntry {
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

/**
 * @param wanted the app; without it, the entry is unconfirmed
 * @returns undefined for the snapshot of another app, and for a text that cannot be read
 */
export function entryFromText(
	publicAppId: string,
	{ token, text }: Content,
	wanted?: { readonly appId: string; readonly before: CacheEntry },
): CacheEntry | undefined {
	const read = readable(text);
	if (read === undefined) return undefined;
	const { atMs, rows, manifests: stored } = read;
	const { app } = rows;
	const isWanted =
		wanted === undefined ? app.app_id.toLowerCase() === publicAppId.toLowerCase() : app.id === wanted.appId;
	if (!isWanted || app.revision_token !== token) return undefined;
	const entry = entryFromRows(rows, wanted?.before);
	for (const [bundleId, files] of stored) entry.manifests.set(bundleId, cachedManifest(files));
	return wanted === undefined ? { ...entry, isUnconfirmed: true, currentAtMs: atMs } : entry;
}

/** A text of another build has the same format, or its object counts as missing; this guards against a mistake in that. */
function readable(text: string): ReturnType<typeof readSnapshotText> | undefined {
	try {
		return readSnapshotText(text);
	} catch {
		return undefined;
	}
}

const cachedManifest = (files: string): CachedManifest => ({ files, bytes: 2 * files.length });
