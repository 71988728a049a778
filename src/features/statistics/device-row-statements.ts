/**
 * Statements about the rows that a batch of reports changes (device-rows.ts). Devices are named by
 * the UUID of their app and their own id, and rows of apps that the database does not know are left
 * out.
 */
import { type CompiledQuery, sql } from "kysely";
import type { Flag } from "../../authz/principal";
import { jsonChunks } from "../../db/chunks";
import { guard, query } from "../../db/client";
import { conflict } from "../../db/optimistic";
import { FIELD_NAMES, type RecordRow } from "../../domain/statistics/device-record";

interface NamedDevice {
	/** UUID of the app. */
	readonly appId: string;
	readonly deviceId: string;
}

type StoredRow = RecordRow & { readonly recent_reports: string | null };

export interface KnownRow extends StoredRow {
	/** Index of the device. */
	readonly position: number;
	/** UUID of the app. */
	readonly app: string;
	/** Null if there is no row. */
	readonly revision: number | null;
	/** 1: the app has, or had, the version of the row. */
	readonly version_known: Flag;
}

export interface RowChange {
	readonly deviceId: string;
	readonly before: KnownRow;
	readonly row: StoredRow;
}

const BOOKKEEPING = [
	"last_seen_at_ms",
	"created_at_ms",
	"updated_at_ms",
	"reported_at",
	"counted_days",
	"custom_id_first_at_ms",
	"custom_id_changed_at_ms",
	"recent_reports",
] as const;
const COLUMNS = [...FIELD_NAMES, ...BOOKKEEPING];
type Column = (typeof COLUMNS)[number];
/**
 * Columns of indexes. A statement that sets one of them writes a row of its index, even if the
 * value stays the same.
 */
const INDEXED: readonly Column[] = [
	"version_name",
	"channel_id",
	"last_seen_at_ms",
	"custom_id",
	"default_channel",
	"key_id",
];
const UNINDEXED = COLUMNS.filter((name) => !INDEXED.includes(name));

const listOf = (devices: readonly NamedDevice[]) =>
	JSON.stringify(devices.map(({ appId, deviceId }) => [appId, deviceId]));

export function knownRows(devices: readonly NamedDevice[]): CompiledQuery<KnownRow> {
	const columns = sql.join([...COLUMNS, "revision"].map((name) => sql.ref(`d.${name}`)));
	return sql<KnownRow>`SELECT key AS position, apps.id AS app, ${columns}, EXISTS (SELECT 1 FROM bundles
			WHERE bundles.app_id = d.app_id AND bundles.name = d.version_name) AS version_known
		FROM json_each(${listOf(devices)}) CROSS JOIN apps ON apps.id = value ->> 0
		LEFT JOIN devices d ON d.app_id = apps.id AND d.device_id = value ->> 1`.compile(query);
}

/** Those that the app has, or had. */
export function knownVersions(
	reported: readonly (readonly [appId: string, version: string])[],
): CompiledQuery<{ app: string; version: string }> {
	const once = new Map(reported.map((pair) => [JSON.stringify(pair), pair]));
	return sql<{ app: string; version: string }>`SELECT value ->> 0 AS app, value ->> 1 AS version
		FROM json_each(${JSON.stringify([...once.values()])}) CROSS JOIN apps ON apps.id = value ->> 0
		WHERE EXISTS (SELECT 1 FROM bundles WHERE bundles.app_id = apps.id AND bundles.name = value ->> 1)`.compile(query);
}

/**
 * Devices that each app has added today. Consumers that run at the same time may exceed the limit a
 * little.
 */
export function addedToday(appIds: readonly string[], today: number): CompiledQuery<{ app: string; devices: number }> {
	return sql<{ app: string; devices: number }>`SELECT apps.id AS app, t.new_device_count AS devices
		FROM json_each(${JSON.stringify([...new Set(appIds)])}) CROSS JOIN apps ON apps.id = value
		CROSS JOIN daily_totals t ON t.app_id = apps.id AND t.day = ${today}`.compile(query);
}

/** Guard: nobody wrote the rows since they were read. */
export function unchanged(changes: readonly RowChange[]): CompiledQuery {
	const expected = JSON.stringify(changes.map(({ before: { app, revision }, deviceId }) => [app, deviceId, revision]));
	return guard(
		sql<boolean>`NOT EXISTS (SELECT 1 FROM json_each(${expected})
			LEFT JOIN devices d ON d.app_id = value ->> 0 AND d.device_id = value ->> 1 WHERE d.revision IS NOT value ->> 2)`,
		conflict,
	);
}

/** Writes as few rows as possible: changes that set the same indexed columns share a statement. */
export function writeRows(changes: readonly RowChange[]): CompiledQuery[] {
	const isNew = ({ before }: RowChange) => before.revision === null;
	const moved = ({ before, row }: RowChange) => INDEXED.filter((name) => row[name] !== before[name]);
	const byMoved = Map.groupBy(
		changes.filter((change) => !isNew(change)),
		(change) => moved(change).join(),
	);
	return [
		...insertRows(changes.filter(isNew)),
		...[...byMoved.values()].flatMap(([first, ...others]) =>
			first === undefined ? [] : updateRows([first, ...others], [...UNINDEXED, ...moved(first)]),
		),
	];
}

/**
 * App, device and columns of each change, in that order, in as many JSON lists as the limit of a
 * statement requires.
 */
function listsOf(changes: readonly RowChange[], columns: readonly Column[]): string[] {
	const rows = changes.map(({ before: { app }, deviceId, row }) => [
		app,
		deviceId,
		...columns.map((name) => row[name]),
	]);
	return jsonChunks(rows).map(({ json }) => json);
}

function updateRows(changes: readonly RowChange[], columns: readonly Column[]): CompiledQuery[] {
	const values = columns.map((name, index) => sql`${sql.ref(name)} = value ->> ${sql.lit(index + 2)}`);
	return listsOf(changes, columns).map((list) =>
		sql`UPDATE devices SET ${sql.join(values)}, revision = revision + 1 FROM json_each(${list})
			WHERE devices.app_id = value ->> 0 AND devices.device_id = value ->> 1`.compile(query),
	);
}

function insertRows(changes: readonly RowChange[]): CompiledQuery[] {
	const columns = sql.join(COLUMNS.map((name) => sql.ref(name)));
	const values = sql.join(COLUMNS.map((_, index) => sql`value ->> ${sql.lit(index + 2)}`));
	return listsOf(changes, COLUMNS).map((list) =>
		sql`INSERT INTO devices (app_id, device_id, ${columns}, revision)
			SELECT apps.id, value ->> 1, ${values}, 1
			FROM json_each(${list}) CROSS JOIN apps ON apps.id = value ->> 0`.compile(query),
	);
}
