/**
 * Rows of devices, and how many devices there were on each day under each version. A device counts once a day, under the version that it
 * last told of on that day; messages may come again and in any order (device-record.ts). A row is written when something changed or on a
 * new day, never for a device that is as it was, and together with the counts that follow from it, or not at all.
 */
import { type CompiledQuery, sql } from "kysely";
import { batchOrFail, type Database, guard, query } from "../db/client";
import type { Deps } from "../deps";
import { BUILTIN } from "../domain/update-decision";
import { chunksOf, jsonChunks } from "./chunks";
import { dayOf, firstRememberedDay } from "./days";
import { DeviceRecord, FACT_NAMES, type RecordRow, runsBuild } from "./device-record";
import type { DeviceSeen } from "./messages";
import { inTurns, Overtaken } from "./turns";

type Words = readonly [DeviceSeen, ...DeviceSeen[]];

/**
 * Devices that an app or an address adds beyond its limit of a day, or while the database is nearly full, are not written; those that are
 * known never suffer. What was refused is counted for the app, more than once where a message comes again.
 * @returns app and id of those that were refused
 */
export async function writeDevices(
	deps: Deps,
	db: Database,
	seen: readonly DeviceSeen[],
): Promise<ReadonlySet<string>> {
	const nowMs = deps.now();
	const refused = new Set<string>();
	const context = { deps, db, firstDay: firstRememberedDay(deps.config, nowMs), today: dayOf(nowMs), refused };
	for (const part of chunksOf(byDevice(seen))) await inTurns(() => writePart(context, part));
	return refused;
}

interface Writing {
	readonly deps: Deps;
	readonly db: Database;
	readonly firstDay: number;
	readonly today: number;
	readonly refused: Set<string>;
}

export const deviceKey = ({ appId, deviceId }: { readonly appId: string; readonly deviceId: string }) =>
	`${appId} ${deviceId}`;

/** Whether the database is so large that no more telemetry is stored; what people and their CI do needs the rest. */
export function isFull({ config }: Deps, { sizeBytes }: Database): boolean {
	return sizeBytes !== undefined && sizeBytes >= config.telemetryMaxBytes;
}

/** What each device said, the earliest first. */
function byDevice(seen: readonly DeviceSeen[]): Words[] {
	const devices = new Map<string, [DeviceSeen, ...DeviceSeen[]]>();
	for (const event of seen) {
		const key = deviceKey(event);
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
async function writePart({ deps, db, firstDay, today, refused }: Writing, part: readonly Words[]): Promise<void> {
	const [rows, versions, added] = await db.batch([selectRows(part), selectVersions(part), selectAdded(part, today)]);
	const known = new Set(versions.rows.map(({ app, version }) => `${app} ${version}`));
	const limit = isFull(deps, db) ? 0 : deps.config.newDevicesPerDay;
	const addedToday = new Map(added.rows.map(({ app, devices }) => [app, devices]));
	const newcomers = new Map<string, { added: number; refused: number }>();
	const changes = rows.rows.flatMap((row): Change[] => {
		const words = part[row.position];
		if (words === undefined) return [];
		const isNew = row.revision === null;
		const record = new DeviceRecord(isNew ? null : row, firstDay);
		for (const event of words) record.add(event, countedVersion(event, known));
		if (!record.leavesTrace) return [];
		const { app, revision } = row;
		if (isNew) {
			const of = newcomers.get(app) ?? { added: 0, refused: 0 };
			newcomers.set(app, of);
			const isCrowded = words.every(({ crowded }) => crowded === true);
			if (isCrowded || (addedToday.get(app) ?? 0) + of.added >= limit) {
				of.refused += 1;
				refused.add(deviceKey(words[0]));
				return [];
			}
			of.added += 1;
		}
		const after = record.row;
		const movesIndexes = isNew || INDEXED.some((name) => after[name] !== row[name]);
		return [{ app, deviceId: words[0].deviceId, revision, row: after, movesIndexes, recounts: record.recounts }];
	});
	const statements = [
		...(changes.length === 0 ? [] : [unchanged(changes)]),
		...(newcomers.size === 0 ? [] : [countNewcomers(newcomers, today)]),
		...countRecounts(changes),
		...touchRows(changes.filter(({ movesIndexes }) => !movesIndexes)),
		...upsertRows(changes.filter(({ movesIndexes }) => movesIndexes)),
	];
	if (statements.length > 0) await batchOrFail(db, statements, { device_changed: () => new Overtaken() });
}

/** Devices that each app has added today. Two consumers at once may add some too many. */
function selectAdded(part: readonly Words[], today: number): CompiledQuery<{ app: string; devices: number }> {
	const appIds = JSON.stringify([...new Set(part.map(([{ appId }]) => appId))]);
	return sql<{ app: string; devices: number }>`SELECT apps.id AS app, t.new_device_count AS devices
		FROM json_each(${appIds}) CROSS JOIN apps ON apps.app_id = value
		CROSS JOIN daily_totals t ON t.app_id = apps.id AND t.day = ${today}`.compile(query);
}

function countNewcomers(
	newcomers: ReadonlyMap<string, { readonly added: number; readonly refused: number }>,
	today: number,
): CompiledQuery {
	const counts = JSON.stringify([...newcomers].map(([app, { added, refused }]) => [app, added, refused]));
	return sql`INSERT INTO daily_totals (app_id, day, new_device_count, refused_device_count)
		SELECT apps.id, ${today}, value ->> 1, value ->> 2
		FROM json_each(${counts}) CROSS JOIN apps ON apps.id = value ->> 0 WHERE true
		ON CONFLICT (app_id, day) DO UPDATE SET new_device_count = new_device_count + excluded.new_device_count,
			refused_device_count = refused_device_count + excluded.refused_device_count`.compile(query);
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

const BOOKKEEPING = [
	"last_seen_at_ms",
	"created_at_ms",
	"updated_at_ms",
	"told_at",
	"counted_days",
	"custom_id_first_at_ms",
	"custom_id_changed_at_ms",
] as const;
const COLUMNS = [...FACT_NAMES, ...BOOKKEEPING];
const INDEXED: readonly (typeof COLUMNS)[number][] = ["version_name", "channel_id", "custom_id"];
const UNINDEXED = COLUMNS.filter((name) => !INDEXED.includes(name));

/** The app, the device and the columns of each change, in that order; as many lists as a statement's length needs. */
function listsOf(changes: readonly Change[], columns: typeof COLUMNS): string[] {
	const rows = changes.map(({ app, deviceId, row }) => [app, deviceId, ...columns.map((name) => row[name])]);
	return jsonChunks(rows).map(({ json }) => json);
}

function touchRows(changes: readonly Change[]): CompiledQuery[] {
	const values = UNINDEXED.map((name, index) => sql`${sql.ref(name)} = value ->> ${sql.lit(index + 2)}`);
	return listsOf(changes, UNINDEXED).map((list) =>
		sql`UPDATE devices SET ${sql.join(values)}, revision = revision + 1 FROM json_each(${list})
			WHERE devices.app_id = value ->> 0 AND devices.device_id = value ->> 1`.compile(query),
	);
}

function upsertRows(changes: readonly Change[]): CompiledQuery[] {
	const columns = sql.join(COLUMNS.map((name) => sql.ref(name)));
	const values = sql.join(COLUMNS.map((_, index) => sql`value ->> ${sql.lit(index + 2)}`));
	const sets = sql.join(COLUMNS.map((name) => sql`${sql.ref(name)} = excluded.${sql.ref(name)}`));
	return listsOf(changes, COLUMNS).map((list) =>
		sql`INSERT INTO devices (app_id, device_id, ${columns}, revision)
			SELECT apps.id, value ->> 1, ${values}, 1
			FROM json_each(${list}) CROSS JOIN apps ON apps.id = value ->> 0 WHERE true
			ON CONFLICT (app_id, device_id) DO UPDATE SET ${sets}, revision = revision + 1`.compile(query),
	);
}
