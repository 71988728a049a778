/**
 * The rows of a snapshot: read whole from D1, or those that were read before with the rows that
 * changed since. Both give the same rows, in whatever order; tests compare them. An app whose
 * changes cannot be followed from the earlier rows is not read, and the caller reads it whole.
 */
import type { CompiledQuery } from "kysely";
import { type ChangedItemRow, type ChangedNameRow, changedRows, type FollowedAppRow } from "../db/changed-rows";
import type { ChangeRow } from "../db/changes";
import type { Database } from "../db/client";
import {
	MOST_AT_ONCE,
	MOST_HELD_NAMES,
	MOST_HELD_OVERRIDES,
	type SnapshotAppRow,
	type SnapshotBundleRow,
	type SnapshotChannelRow,
	type SnapshotOverrideRow,
	type SnapshotZipOnlyRow,
	snapshotStatements,
} from "../db/snapshot-load";

export interface SnapshotRows {
	readonly app: SnapshotAppRow;
	readonly channels: readonly SnapshotChannelRow[];
	readonly bundles: readonly SnapshotBundleRow[];
	/** Null: there are too many to hold. */
	readonly overrides: readonly SnapshotOverrideRow[] | null;
	/** Names of ready bundles. Null: there are too many to hold. */
	readonly names: readonly string[] | null;
	readonly zipOnly: readonly SnapshotZipOnlyRow[];
}

export interface WantedApp {
	readonly publicAppId: string;
	/** Rows from before. */
	readonly base: SnapshotRows | undefined;
	/** Without a base: read even if it has more than `MOST_AT_ONCE` channels. */
	readonly isWhole: boolean;
}

export interface ReadRows {
	readonly rows: SnapshotRows;
	/** Versions whose bundle changed. Undefined: they were read without a base. */
	readonly changedVersions?: readonly string[];
}

export interface ReadWithFeed<Value> {
	readonly changes: readonly ChangeRow[];
	readonly value: Value;
}

type Results = readonly { readonly rows: unknown[] }[];

/**
 * Reads apps and the change feed in one batch.
 * @returns for each app null if it does not exist, and undefined if it cannot be read this way
 */
export async function readRows(
	db: Database,
	apps: readonly WantedApp[],
	feed: CompiledQuery<ChangeRow>,
): Promise<ReadWithFeed<(ReadRows | null | undefined)[]>> {
	const statements = apps.map(({ publicAppId, base, isWhole }): readonly CompiledQuery[] =>
		base === undefined
			? snapshotStatements(publicAppId, isWhole ? undefined : MOST_AT_ONCE + 1)
			: changedRows(publicAppId, base.app),
	);
	const [changes, ...results] = await db.batch([feed, ...statements.flat()]);
	const value = apps.map(({ base, isWhole }, index) => {
		const own = results.splice(0, statements[index]?.length);
		return base === undefined ? wholeRows(own, isWhole) : followed(base, own);
	});
	return { changes: changes.rows, value };
}

function wholeRows(results: Results, isWhole: boolean): ReadRows | null | undefined {
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
	if (!isWhole && channels.length > MOST_AT_ONCE) return undefined;
	const rows = {
		app,
		channels,
		bundles,
		overrides: atMost(MOST_HELD_OVERRIDES, overrides),
		names: atMost(
			MOST_HELD_NAMES,
			names.map(({ name }) => name),
		),
		zipOnly,
	};
	return { rows };
}

const atMost = <Row>(most: number, rows: readonly Row[]) => (rows.length > most ? null : rows);

function followed(base: SnapshotRows, results: Results): ReadRows | null | undefined {
	const [found, items, channels, bundles, overrides, names, zipOnly] = results.map(({ rows }) => rows) as unknown as [
		FollowedAppRow[],
		ChangedItemRow[],
		SnapshotChannelRow[],
		SnapshotBundleRow[],
		SnapshotOverrideRow[],
		ChangedNameRow[],
		SnapshotZipOnlyRow[],
	];
	const [first] = found;
	if (first === undefined) return null;
	const { is_followed, ...app } = first;
	if (is_followed !== 1) return undefined;
	const changed = (kind: ChangedItemRow["kind"]) => items.filter((of) => of.kind === kind).map(({ item }) => item);
	const devices = changed("device");
	const byDevice = ({ device_id }: { readonly device_id: string }) => device_id;
	const rows = {
		app,
		channels: replaced(base.channels, ({ id }) => String(id), changed("channel"), channels),
		overrides: base.overrides && atMost(MOST_HELD_OVERRIDES, replaced(base.overrides, byDevice, devices, overrides)),
		names: base.names && atMost(MOST_HELD_NAMES, replacedNames(base.names, names)),
		zipOnly: replaced(base.zipOnly, byDevice, devices, zipOnly),
	};
	const known = replaced(base.bundles, ({ id }) => String(id), changed("bundle"), bundles);
	const changedVersions = names.map(({ name }) => name);
	return { rows: { ...rows, bundles: served(known, rows) }, changedVersions };
}

/** The rows without those of the changed keys, which are added as they are now. */
function replaced<Row>(
	rows: readonly Row[],
	keyOf: (row: Row) => string,
	changed: readonly string[],
	now: readonly Row[],
): readonly Row[] {
	if (changed.length === 0 && now.length === 0) return rows;
	const byKey = new Map(rows.map((row) => [keyOf(row), row]));
	for (const key of changed) byKey.delete(key);
	for (const row of now) byKey.set(keyOf(row), row);
	return [...byKey.values()];
}

function replacedNames(names: readonly string[], changed: readonly ChangedNameRow[]): readonly string[] {
	const ready = new Set(names);
	for (const { name, is_ready } of changed) {
		if (is_ready === 1) ready.add(name);
		else ready.delete(name);
	}
	return [...ready];
}

/** The bundles that a channel or an override serves. */
function served(
	bundles: readonly SnapshotBundleRow[],
	{ channels, overrides }: Pick<SnapshotRows, "channels" | "overrides">,
): readonly SnapshotBundleRow[] {
	// Those of overrides that are not held are unknown.
	if (overrides === null) return bundles;
	const ids = new Set(channels.flatMap((of) => [of.version_id, of.rollout_version_id]));
	for (const { version_id } of overrides) ids.add(version_id);
	return bundles.filter(({ id }) => ids.has(id));
}
