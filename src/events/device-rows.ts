/**
 * Rows of devices, and how many devices there were on each day under each version. A device counts once a day, under the version that it
 * last told of on that day; messages may come again and in any order (device-record.ts). A row is written when something changed or on a
 * new day, never for a device that is as it was, and together with the counts that follow from it, or not at all.
 */
import { type CompiledQuery, sql } from "kysely";
import { batchOrFail, type Database, guard, openDb, query } from "../db/client";
import type { Deps } from "../deps";
import { BUILTIN } from "../domain/update-decision";
import { firstRememberedDay } from "./days";
import { DeviceRecord, FACT_NAMES, type RecordRow, runsBuild } from "./device-record";
import type { DeviceSeen } from "./messages";
import { partsOf } from "./parts";
import { inTurns, Overtaken } from "./turns";

type Words = readonly [DeviceSeen, ...DeviceSeen[]];

export async function writeDevices(deps: Deps, seen: readonly DeviceSeen[]): Promise<void> {
	const db = openDb(deps.d1, "first-primary");
	const firstDay = firstRememberedDay(deps.config, deps.now());
	for (const part of partsOf(byDevice(seen))) await inTurns(() => writePart(db, part, firstDay));
}

/** What each device said, the earliest first. */
function byDevice(seen: readonly DeviceSeen[]): Words[] {
	const devices = new Map<string, [DeviceSeen, ...DeviceSeen[]]>();
	for (const event of seen) {
		const key = `${event.appId} ${event.deviceId}`;
		const words = devices.get(key);
		if (words === undefined) devices.set(key, [event]);
		else words.push(event);
	}
	return [...devices.values()].map((words) => words.sort((one, other) => one.atMs - other.atMs));
}

interface KnownRow extends RecordRow {
	/** In the list that was asked for. */
	readonly position: number;
	readonly app: string;
	/** Null where there is no row. */
	readonly revision: number | null;
}

interface Change {
	readonly app: string;
	readonly deviceId: string;
	readonly revision: number | null;
	readonly row: RecordRow;
	/** What no index holds is written alone where that is all: one row, where each index would be one more. */
	readonly movesIndexes: boolean;
	readonly recounts: DeviceRecord["recounts"];
}

/** @throws {Overtaken} when another consumer wrote one of the devices meanwhile */
async function writePart(db: Database, part: readonly Words[], firstDay: number): Promise<void> {
	const [rows, versions] = await db.batch([selectRows(part), selectVersions(part)]);
	const known = new Set(versions.rows.map(({ app, version }) => `${app} ${version}`));
	const changes = rows.rows.flatMap((row): Change[] => {
		const words = part[row.position];
		if (words === undefined) return [];
		const isNew = row.revision === null;
		const record = new DeviceRecord(isNew ? null : row, firstDay);
		for (const event of words) record.add(event, countedVersion(event, known));
		if (!record.leavesTrace) return [];
		const after = record.row;
		const movesIndexes = isNew || INDEXED.some((name) => after[name] !== row[name]);
		const { app, revision } = row;
		return [{ app, deviceId: words[0].deviceId, revision, row: after, movesIndexes, recounts: record.recounts }];
	});
	if (changes.length === 0) return;
	const statements = [
		unchanged(changes),
		...countRecounts(changes),
		...touchRows(changes.filter(({ movesIndexes }) => !movesIndexes)),
		...upsertRows(changes.filter(({ movesIndexes }) => movesIndexes)),
	];
	await batchOrFail(db, statements, { device_changed: () => new Overtaken() });
}

/** A bundle's name, `builtin`, or empty for a version that the app never had; undefined where the device does not say. */
function countedVersion(event: DeviceSeen, known: ReadonlySet<string>): string | undefined {
	if (event.versionName === "") return undefined;
	if (known.has(`${event.appId} ${event.versionName}`)) return event.versionName;
	return runsBuild(event) ? BUILTIN : "";
}

function selectRows(part: readonly Words[]): CompiledQuery<KnownRow> {
	const devices = JSON.stringify(part.map(([{ appId, deviceId }]) => [appId, deviceId]));
	const columns = sql.join([...FACT_NAMES, ...BOOKKEEPING, "revision"].map((name) => sql.ref(`d.${name}`)));
	return sql<KnownRow>`SELECT key AS position, apps.id AS app, ${columns}
		FROM json_each(${devices}) CROSS JOIN apps ON apps.app_id = value ->> 0
		LEFT JOIN devices d ON d.app_id = apps.id AND d.device_id = value ->> 1`.compile(query);
}

/** Those of the versions told of that the app has, or had. */
function selectVersions(part: readonly Words[]): CompiledQuery<{ app: string; version: string }> {
	const told = new Map(part.flat().map(({ appId, versionName }) => [`${appId} ${versionName}`, [appId, versionName]]));
	return sql<{ app: string; version: string }>`SELECT value ->> 0 AS app, value ->> 1 AS version
		FROM json_each(${JSON.stringify([...told.values()])}) CROSS JOIN apps ON apps.app_id = value ->> 0
		WHERE EXISTS (SELECT 1 FROM bundles WHERE bundles.app_id = apps.id AND bundles.name = value ->> 1
			AND bundles.status <> 'pending')`.compile(query);
}

function unchanged(changes: readonly Change[]): CompiledQuery {
	const expected = JSON.stringify(changes.map(({ app, deviceId, revision }) => [app, deviceId, revision]));
	return guard(
		"device_changed",
		sql<boolean>`NOT EXISTS (SELECT 1 FROM json_each(${expected})
			LEFT JOIN devices d ON d.app_id = value ->> 0 AND d.device_id = value ->> 1 WHERE d.revision IS NOT value ->> 2)`,
	);
}

function countRecounts(changes: readonly Change[]): CompiledQuery[] {
	const versions = new Map<string, number>();
	const totals = new Map<string, number>();
	const add = (sums: Map<string, number>, key: readonly (string | number)[], amount: number) => {
		const text = JSON.stringify(key);
		sums.set(text, (sums.get(text) ?? 0) + amount);
	};
	for (const { app, recounts } of changes) {
		for (const { day, before, after } of recounts) {
			add(versions, [app, day, after], 1);
			if (before === undefined) add(totals, [app, day], 1);
			else add(versions, [app, day, before], -1);
		}
	}
	const list = (sums: ReadonlyMap<string, number>) =>
		`[${[...sums].filter(([, amount]) => amount !== 0).map(([key, amount]) => `[${key},${amount}]`)}]`;
	const [ofVersions, ofDays] = [list(versions), list(totals)];
	return [...(ofVersions === "[]" ? [] : [addToVersions(ofVersions)]), ...(ofDays === "[]" ? [] : [addToDays(ofDays)])];
}

function addToVersions(sums: string): CompiledQuery {
	return sql`INSERT INTO daily_counts (app_id, day, version_name, channel_name, metric, amount)
		SELECT apps.id, value ->> '$[0][1]', value ->> '$[0][2]', '', 'devices', value ->> 1
		FROM json_each(${sums}) CROSS JOIN apps ON apps.id = value ->> '$[0][0]' WHERE true
		ON CONFLICT (app_id, day, version_name, channel_name, metric) DO UPDATE SET amount = amount + excluded.amount`.compile(
		query,
	);
}

function addToDays(sums: string): CompiledQuery {
	return sql`INSERT INTO daily_totals (app_id, day, device_count)
		SELECT apps.id, value ->> '$[0][1]', value ->> 1
		FROM json_each(${sums}) CROSS JOIN apps ON apps.id = value ->> '$[0][0]' WHERE true
		ON CONFLICT (app_id, day) DO UPDATE SET device_count = device_count + excluded.device_count`.compile(query);
}

const BOOKKEEPING = ["last_seen_at_ms", "created_at_ms", "updated_at_ms", "told_at", "counted_days"] as const;
const COLUMNS = [...FACT_NAMES, ...BOOKKEEPING];
const INDEXED: readonly (typeof COLUMNS)[number][] = ["version_name", "channel_id", "custom_id"];
const UNINDEXED = COLUMNS.filter((name) => !INDEXED.includes(name));

/** Of each the app, the device and the columns, in that order. */
function listOf(changes: readonly Change[], columns: typeof COLUMNS): string {
	return JSON.stringify(changes.map(({ app, deviceId, row }) => [app, deviceId, ...columns.map((name) => row[name])]));
}

function touchRows(changes: readonly Change[]): CompiledQuery[] {
	if (changes.length === 0) return [];
	const values = UNINDEXED.map((name, index) => sql`${sql.ref(name)} = value ->> ${sql.lit(index + 2)}`);
	return [
		sql`UPDATE devices SET ${sql.join(values)}, revision = revision + 1 FROM json_each(${listOf(changes, UNINDEXED)})
			WHERE devices.app_id = value ->> 0 AND devices.device_id = value ->> 1`.compile(query),
	];
}

function upsertRows(changes: readonly Change[]): CompiledQuery[] {
	if (changes.length === 0) return [];
	const columns = sql.join(COLUMNS.map((name) => sql.ref(name)));
	const values = sql.join(COLUMNS.map((_, index) => sql`value ->> ${sql.lit(index + 2)}`));
	const sets = sql.join(COLUMNS.map((name) => sql`${sql.ref(name)} = excluded.${sql.ref(name)}`));
	return [
		sql`INSERT INTO devices (app_id, device_id, ${columns}, revision)
			SELECT apps.id, value ->> 1, ${values}, 1
			FROM json_each(${listOf(changes, COLUMNS)}) CROSS JOIN apps ON apps.id = value ->> 0 WHERE true
			ON CONFLICT (app_id, device_id) DO UPDATE SET ${sets}, revision = revision + 1`.compile(query),
	];
}
