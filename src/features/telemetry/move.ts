/**
 * Moves the reports of apps from the main database to telemetry databases, one app after another: a part of the scheduled clean-up.
 *
 * 1. A row of `telemetry_homes` (`copying`) fences the app: triggers refuse every write of its reports in the main database, so its rows do
 *    not change. The consumer postpones the app's events meanwhile, and readers read the rows.
 * 2. The rows are copied in steps. A step inserts only rows that are missing, so any of them may be repeated after a crash.
 * 3. `moved`: readers and consumers of all isolates use the telemetry database from then on. This cannot be undone.
 * 4. The next run deletes the old rows (`settled`). It comes minutes later, when every request that read the old state has ended.
 *
 * The rows of an app that was removed are deleted in the telemetry database afterwards (`removed`).
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { chunk, jsonChunks } from "../../db/chunks";
import { type Database, guard, openDb, query } from "../../db/client";
import { conflict } from "../../db/optimistic";
import {
	bindingFor,
	FENCE,
	fenceTriggers,
	homesIn,
	mayChangeHere,
	REPORT_TABLES,
	type TelemetryDeps,
	type TelemetryHome,
	telemetryD1,
} from "../../db/telemetry-homes";
import type { Deps } from "../../deps";
import { causeText } from "../../errors";

/** Round trips of one run; a Worker has a thousand. */
const MOST_TRIPS = 400;
/** Rows of each table that one step copies; a sketch has up to 22 kB. */
const COPIED_ROWS = 500;
const COPIED_SKETCHES = 50;
/** Bytes of one batch of inserts. */
const BATCH_BYTES = 3_000_000;
/** Rows of each table that one step deletes. */
const DELETED_ROWS = 1_000;
const MOST_HOMES = 50;
/** Longer than any run, so that two runs never copy at the same time. */
const LEASE_MS = 20 * 60_000;

interface Moving {
	readonly deps: TelemetryDeps & Pick<Deps, "now" | "log">;
	readonly main: Database;
	readonly nowMs: number;
	/** Round trips that are left. */
	left: number;
}

/** @throws {Error} if an app could not be moved; the next run continues */
export async function moveTelemetry(deps: Moving["deps"], mostTrips = MOST_TRIPS): Promise<void> {
	const moving: Moving = { deps, main: openDb(deps.d1, "first-primary"), nowMs: deps.now(), left: mostTrips };
	const [moved, copying, removed, triggers] = await moving.main.batch([
		homesIn("moved", MOST_HOMES),
		homesIn("copying", MOST_HOMES),
		homesIn("removed", MOST_HOMES),
		sql<{
			fence: number;
			next: string | null;
		}>`SELECT ${fenceTriggers} AS fence, (${nextApp(sql`id`)}) AS next`.compile(query),
	]);
	const [state] = triggers.rows;
	const hasDatabases = Object.keys(deps.telemetry).length > 0;
	const isIdle = moved.rows.length + copying.rows.length + removed.rows.length === 0;
	if (state === undefined || (isIdle && (!hasDatabases || state.next === null))) return;
	if (!(await takeLease(moving))) return;
	try {
		if (state.fence < FENCE.length) await moving.main.batch(FENCE.map((text) => sql.raw(text).compile(query)));
		let failure: unknown;
		const each = async (homes: readonly TelemetryHome[], work: (home: TelemetryHome) => Promise<void>) => {
			for (const home of homes) {
				if (moving.left <= 0) return;
				try {
					await work(home);
				} catch (error) {
					deps.log("error", "telemetry_not_moved", { app: home.app_id, state: home.state, cause: causeText(error) });
					failure = error;
				}
			}
		};
		await each(moved.rows, (home) => settle(moving, home));
		await each(removed.rows, (home) => removeReports(moving, home));
		await each(copying.rows, (home) => copy(moving, home));
		// One app after another, because the reports of an app wait while it is copied.
		while (moving.left > 0 && failure === undefined && hasDatabases) {
			const home = await claim(moving);
			if (home === undefined) break;
			await each([home], (claimed) => copy(moving, claimed));
		}
		if (failure !== undefined) throw failure;
	} finally {
		await moving.main.batch([writePosition(LEASE, "0")]);
	}
}

const LEASE = "telemetry_lease";
const CLAIMED = "telemetry_claimed";

const readPosition = (step: string) =>
	sql`coalesce((SELECT CAST(position AS INTEGER) FROM sweep_positions WHERE step = ${step}), 0)`;

function writePosition(step: string, position: string | RawBuilder<unknown>, condition = sql`true`): CompiledQuery {
	return sql`INSERT INTO sweep_positions (step, position) VALUES (${step}, ${position})
		ON CONFLICT (step) DO UPDATE SET position = excluded.position WHERE ${condition}`.compile(query);
}

async function takeLease(moving: Moving): Promise<boolean> {
	const isOver = sql`CAST(sweep_positions.position AS INTEGER) <= ${moving.nowMs}`;
	const [taken] = await run(moving, moving.main, [writePosition(LEASE, String(moving.nowMs + LEASE_MS), isOver)]);
	return taken?.changes === 1;
}

async function run<Result = unknown>(moving: Moving, db: Database, statements: readonly CompiledQuery<Result>[]) {
	moving.left -= 1;
	return db.batch(statements);
}

/** New apps have the highest rowids, but SQLite gives those of removed apps again. So an idle run reads so many apps, whatever their number. */
const LOOKED_BACK = 100;
const nextApp = (column: RawBuilder<unknown>) =>
	sql`SELECT ${column} FROM apps WHERE rowid > min(${readPosition(CLAIMED)}, (SELECT max(rowid) FROM apps)) - ${sql.lit(LOOKED_BACK)}
		AND ${mayChangeHere(sql`apps.id`)} ORDER BY rowid LIMIT 1`;

async function claim(moving: Moving): Promise<TelemetryHome | undefined> {
	const [found] = await run(moving, moving.main, [nextApp(sql`rowid AS place, id`).compile(query)]);
	const next = found?.rows[0] as { readonly place: number; readonly id: string } | undefined;
	if (next === undefined) return undefined;
	const binding = bindingFor(next.id, moving.deps.telemetry);
	if (binding === undefined) return undefined;
	await run(moving, moving.main, [
		sql`INSERT INTO telemetry_homes (app_id, binding, state) SELECT id, ${binding}, 'copying' FROM apps WHERE id = ${next.id}
			ON CONFLICT (app_id) DO NOTHING`.compile(query),
		writePosition(CLAIMED, String(next.place)),
	]);
	return { app_id: next.id, binding, state: "copying", position: null };
}

interface CopiedTable {
	readonly name: string;
	readonly key: readonly string[];
	/** Rows of one step. */
	readonly most: number;
	readonly rows: (app: string, after: RawBuilder<unknown>, most: number) => RawBuilder<Row>;
}

type Row = Readonly<Record<string, string | number | null>>;

const COPIED: readonly CopiedTable[] = [
	{
		name: "bundles",
		key: ["name"],
		most: COPIED_ROWS,
		rows: (app, after, most) =>
			sql<Row>`SELECT app_id, name, 'ready' AS status, max(object_key) AS object_key FROM bundles
				WHERE app_id = ${app} AND status <> 'pending' AND ${after} GROUP BY name ORDER BY name LIMIT ${most}`,
	},
	...REPORT_TABLES.map(({ name, key }) => ({
		name,
		key,
		most: name === "device_sketches" ? COPIED_SKETCHES : COPIED_ROWS,
		rows: (app: string, after: RawBuilder<unknown>, most: number) =>
			sql<Row>`SELECT * FROM ${sql.table(name)} WHERE app_id = ${app} AND ${after}
				ORDER BY ${sql.join(key.map((column) => sql.ref(column)))} LIMIT ${most}`,
	})),
];

/** By table: the key of the last copied row, empty before the first; without an entry, the table is complete. */
type Position = Readonly<Record<string, readonly (string | number)[]>>;

async function copy(moving: Moving, home: TelemetryHome): Promise<void> {
	const { app_id: app } = home;
	const telemetry = openDb(telemetryD1(moving.deps, home.binding), "first-primary");
	let position: Position = Object.fromEntries(COPIED.map(({ name }) => [name, []]));
	if (home.position !== null) position = JSON.parse(home.position);
	else {
		// Rows from before the main database was set back to an earlier time.
		if (!(await removeRows(moving, telemetry, app))) return;
		await run(moving, telemetry, [insertApp(app)]);
		await run(moving, moving.main, [setPosition(app, position)]);
	}
	for (;;) {
		const tables = COPIED.filter(({ name }) => position[name] !== undefined);
		if (tables.length === 0) return finish(moving, home);
		if (moving.left <= 0) return;
		const reads = tables.map(({ name, key, rows, most }) =>
			rows(app, isAfter(key, position[name] ?? []), most).compile(query),
		);
		const chunks = await run(moving, moving.main, reads);
		const inserts = tables.flatMap(({ name }, index) => insertMissing(name, chunks[index]?.rows ?? []));
		const bytesOf = ({ parameters }: CompiledQuery) => String(parameters[0]).length;
		for (const batch of chunk(inserts, bytesOf, { bytes: BATCH_BYTES })) await run(moving, telemetry, batch);
		const next = tables.flatMap(({ name, key, most }, index): [string, (string | number)[]][] => {
			const { rows = [] } = chunks[index] ?? {};
			const last = rows.at(-1);
			return last === undefined || rows.length < most ? [] : [[name, key.map((column) => last[column] ?? "")]];
		});
		position = Object.fromEntries(next);
		if (next.length > 0) await run(moving, moving.main, [setPosition(app, position)]);
	}
}

const setPosition = (app: string, position: Position) =>
	sql`UPDATE telemetry_homes SET position = ${JSON.stringify(position)} WHERE app_id = ${app} AND state = 'copying'`.compile(
		query,
	);

function isAfter(key: readonly string[], after: readonly (string | number)[]): RawBuilder<unknown> {
	if (after.length === 0) return sql`true`;
	return sql`(${sql.join(key.map((column) => sql.ref(column)))}) > (${sql.join(after)})`;
}

const insertApp = (app: string) =>
	sql`INSERT INTO apps (id, app_id) VALUES (${app}, ${app}) ON CONFLICT DO NOTHING`.compile(query);

/** In as many statements as their size requires. */
function insertMissing(table: string, rows: readonly Row[]): CompiledQuery[] {
	const columns = Object.keys(rows[0] ?? {});
	const names = sql.join(columns.map((name) => sql.ref(name)));
	const values = sql.join(columns.map((_, index) => sql`value ->> ${sql.lit(index)}`));
	return jsonChunks(rows.map((row) => columns.map((name) => row[name]))).map(({ json }) =>
		sql`INSERT INTO ${sql.table(table)} (${names}) SELECT ${values} FROM json_each(${json}) WHERE true
			ON CONFLICT DO NOTHING`.compile(query),
	);
}

/** Every isolate uses the telemetry database from here on. */
async function finish(moving: Moving, { app_id: app }: TelemetryHome): Promise<void> {
	await run(moving, moving.main, [
		// Without the fence, rows could have changed after they were copied.
		guard(sql<boolean>`${fenceTriggers} = ${FENCE.length}`, conflict),
		// Devices that a rollout excludes are judged again when its rules change.
		sql`UPDATE rollout_devices SET device_created_at_ms = (SELECT d.created_at_ms FROM devices d
				WHERE d.app_id = ${app} AND d.device_id = rollout_devices.device_id)
			WHERE device_created_at_ms IS NULL AND not_counted IS NOT NULL
				AND rollout_id IN (SELECT id FROM rollouts WHERE app_id = ${app} AND ended_at_ms IS NULL)`.compile(query),
		sql`UPDATE telemetry_homes SET state = 'moved', position = NULL, moved_at_ms = ${moving.nowMs}
			WHERE app_id = ${app} AND state = 'copying'`.compile(query),
	]);
}

/** Rows of an app, from each table a part. */
function deleteSome(app: string, condition: (table: string) => RawBuilder<unknown>): CompiledQuery[] {
	return REPORT_TABLES.map(({ name, key }) => {
		const columns = sql.join(key.map((column) => sql.ref(column)));
		return sql`DELETE FROM ${sql.table(name)} WHERE app_id = ${app} AND (${columns}) IN (
			SELECT ${columns} FROM ${sql.table(name)} WHERE app_id = ${app} AND ${condition(name)} LIMIT ${DELETED_ROWS})`.compile(
			query,
		);
	});
}

/** Deletes the old rows in the main database. The row of a device with an override stays for its foreign key, without the report. */
async function settle(moving: Moving, { app_id: app }: TelemetryHome): Promise<void> {
	const isSet = sql`EXISTS (SELECT 1 FROM device_overrides o WHERE o.app_id = devices.app_id AND o.device_id = devices.device_id)`;
	const deletions = deleteSome(app, (table) => (table === "devices" ? sql`NOT ${isSet}` : sql`true`));
	const emptied =
		sql`UPDATE devices SET last_seen_at_ms = NULL, version_name = NULL, channel_id = NULL, custom_id = NULL,
			default_channel = NULL, key_id = NULL, recent_reports = NULL
		WHERE app_id = ${app} AND last_seen_at_ms IS NOT NULL AND ${isSet}`.compile(query);
	while (moving.left > 0) {
		const results = await run(moving, moving.main, deletions);
		if (results.some(({ changes }) => changes >= DELETED_ROWS)) continue;
		await run(moving, moving.main, [
			emptied,
			sql`UPDATE telemetry_homes SET state = 'settled' WHERE app_id = ${app} AND state = 'moved'`.compile(query),
		]);
		return;
	}
}

/** @returns whether no row is left */
async function removeRows(moving: Moving, telemetry: Database, app: string): Promise<boolean> {
	const deletions = deleteSome(app, () => sql`true`);
	while (moving.left > 0) {
		const results = await run(moving, telemetry, deletions);
		if (results.some(({ changes }) => changes >= DELETED_ROWS)) continue;
		await run(moving, telemetry, [sql`DELETE FROM apps WHERE id = ${app}`.compile(query)]);
		return true;
	}
	return false;
}

/** The reports of an app that does not exist any more. */
async function removeReports(moving: Moving, { app_id: app, binding }: TelemetryHome): Promise<void> {
	const telemetry = openDb(telemetryD1(moving.deps, binding), "first-primary");
	if (!(await removeRows(moving, telemetry, app))) return;
	await run(moving, moving.main, [
		sql`DELETE FROM telemetry_homes WHERE app_id = ${app} AND state = 'removed'`.compile(query),
	]);
}
