/**
 * Makes entries of the snapshot cache: from the rows of D1, or from a stored snapshot, whose app is
 * compared with the wanted one. Stored snapshots are made here, too.
 */
import type { CompiledQuery } from "kysely";
import type { ChangeRow } from "../db/changes";
import type { Database } from "../db/client";
import { MOST_STORED_FILES, MOST_STORED_MANIFESTS, manifestsOf } from "../db/snapshot-load";
import { assembleSnapshot } from "./app-snapshot";
import { Backoff } from "./freshness";
import type { Content } from "./objects";
import { type ReadRows, type ReadWithFeed, readRows, type SnapshotRows, type WantedApp } from "./rows";
import { bytesOf, type CachedManifest, type CacheEntry } from "./store";
import { readSnapshotText, type StoredSnapshot, textOf } from "./text";

/**
 * Reads an app as it is stored, with manifests: what changed since it was stored last, or
 * everything.
 * @param stored the last stored content
 */
export async function readContent(
	db: Database,
	publicAppId: string,
	stored: Content | undefined,
	feed: CompiledQuery<ChangeRow>,
	atMs: number,
): Promise<ReadWithFeed<Content | null>> {
	const last = storedSnapshot(publicAppId, stored);
	const read = (base: SnapshotRows | undefined) =>
		readRows(db, [{ publicAppId, base, isWhole: true } satisfies WantedApp], feed);
	let { changes, value } = await read(last?.rows);
	if (value[0] === undefined) ({ changes, value } = await read(undefined));
	const rows = value[0]?.rows;
	if (rows === undefined) return { changes, value: null };
	const manifests = await manifestsFor(db, rows, last?.rows.app.id === rows.app.id ? last.manifests : new Map());
	return { changes, value: { token: rows.app.revision_token ?? "", text: textOf({ atMs, rows, manifests }) } };
}

/**
 * The manifests of the bundles that most devices are offered: those of public channels first, then
 * the newest ones.
 */
async function manifestsFor(
	db: Database,
	{ app, channels, bundles }: SnapshotRows,
	known: ReadonlyMap<number, string>,
): Promise<ReadonlyMap<number, string>> {
	const isPublic = new Set<number | null>();
	const isServed = new Set<number | null>();
	for (const channel of channels) {
		for (const id of [channel.version_id, channel.rollout_version_id]) {
			isServed.add(id);
			if (channel.public === 1) isPublic.add(id);
		}
	}
	const wanted = bundles
		.filter(({ id, external_url, has_manifest }) => external_url === null && has_manifest === 1 && isServed.has(id))
		.map(({ id }) => id)
		.sort((one, other) => Number(isPublic.has(other)) - Number(isPublic.has(one)) || other - one)
		.slice(0, MOST_STORED_MANIFESTS);
	const manifests = new Map(known);
	const missing = wanted.filter((id) => !manifests.has(id));
	if (missing.length > 0) {
		const [{ rows: files }] = await db.batch([manifestsOf(app.app_id, missing)]);
		// The last manifest may be incomplete.
		const cut = files.length > MOST_STORED_FILES ? files.at(-1)?.bundle_id : undefined;
		for (const [id, of] of Map.groupBy(files, ({ bundle_id }) => bundle_id)) {
			if (id !== cut) manifests.set(id, JSON.stringify(of.map(({ bundle_id: _, ...file }) => file)));
		}
	}
	return new Map(wanted.flatMap((id) => (manifests.has(id) ? [[id, manifests.get(id) ?? ""] as const] : [])));
}

export function entryFromRows({ rows, changedVersions }: ReadRows, before: CacheEntry | undefined): CacheEntry {
	const same = before?.snapshot.app.id === rows.app.id ? before : undefined;
	const ready = changedVersions && same?.snapshot.readyVersions.without(changedVersions);
	const snapshot = assembleSnapshot(rows, ready);
	// The manifest of a ready bundle never changes, so manifests are kept for as long as their
	// bundles.
	const manifests = new Map([...(same?.manifests ?? [])].filter(([id]) => snapshot.bundles.has(id)));
	const { channels, bundles, overrides, names, zipOnly } = rows;
	const lists = bytesOf(channels) + bytesOf(bundles) + bytesOf(overrides ?? []) + bytesOf(zipOnly);
	// In rows and in the objects that are made of them.
	const bytes = 2 * lists + (names ?? []).reduce((sum, name) => sum + name.length + 50, 0) + 1_000;
	return {
		snapshot,
		rows,
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
	content: Content,
	wanted?: { readonly appId: string; readonly before: CacheEntry },
): CacheEntry | undefined {
	const stored = storedSnapshot(publicAppId, content);
	if (stored === undefined) return undefined;
	const { atMs, rows, manifests } = stored;
	if (wanted !== undefined && rows.app.id !== wanted.appId) return undefined;
	const entry = entryFromRows({ rows }, wanted?.before);
	for (const [bundleId, files] of manifests) entry.manifests.set(bundleId, cachedManifest(files));
	return wanted === undefined ? { ...entry, isUnconfirmed: true, currentAtMs: atMs } : entry;
}

/**
 * Undefined for the snapshot of another app, and for a text that cannot be read, although a text of
 * another build counts as missing.
 */
export function storedSnapshot(publicAppId: string, content: Content | undefined): StoredSnapshot | undefined {
	if (content === undefined) return undefined;
	try {
		const stored = readSnapshotText(content.text);
		const { app_id, revision_token } = stored.rows.app;
		const isOfApp = app_id.toLowerCase() === publicAppId.toLowerCase();
		return isOfApp && revision_token === content.token ? stored : undefined;
	} catch {
		return undefined;
	}
}

const cachedManifest = (files: string): CachedManifest => ({ files, bytes: 2 * files.length });
