/**
 * Assigns events to the databases of their apps, before anything is written. The main database decides: it has the apps, their versions and
 * which database their reports are in. Statements find an app in a telemetry database by its UUID, so its events name the app by it.
 */
import { type CompiledQuery, sql } from "kysely";
import { chunk, chunksOf, utf8Length } from "../../db/chunks";
import { openDb, query } from "../../db/client";
import { isCounted } from "../../db/counted-ids";
import { type TelemetryHome, telemetryD1 } from "../../db/telemetry-homes";
import type { Deps } from "../../deps";
import { firstRememberedDay, startOfDayMs } from "../../domain/days";
import { BUILTIN } from "../../domain/update-model";
import {
	type DeviceEvent,
	type DeviceSeen,
	isRolloutEvent,
	type OverrideChanged,
	type RolloutEvent,
	rolloutDeviceKey,
} from "../../messages";

type Report = Exclude<DeviceEvent, RolloutEvent>;

/** The events of the apps of one database. */
export interface AssignedEvents {
	/** `d1` is the database of the reports. */
	readonly deps: Deps;
	/** Name apps as this database does. Fails if the database does. */
	readonly reports: () => Promise<readonly Report[]>;
	/** Name apps by their public ids, because rollouts are in the main database. */
	readonly rolloutEvents: readonly RolloutEvent[];
	/** When the devices of the rollout events were first seen, by `rolloutDeviceKey`; undefined: the main database has them. */
	readonly knownSince: (() => Promise<ReadonlyMap<string, number>>) | undefined;
}

interface Assignment {
	readonly groups: readonly AssignedEvents[];
	/** Events of apps that are being copied. */
	readonly postponed: readonly DeviceEvent[];
}

interface Home extends Pick<TelemetryHome, "state" | "binding"> {
	readonly app_id: string;
	readonly public_app_id: string;
	readonly moved_at_ms: number | null;
}

/** An isolate asks again after this time, because an app can be deleted or renamed; where its reports are never changes. */
const FRESH_MS = 10_000;
const MOST_CACHED = 20_000;

interface Cached {
	/** By UUID and by public id; only apps whose reports have moved. */
	readonly homes: Map<string, { readonly home: Home; readonly untilMs: number }>;
	/** Versions and objects that the telemetry database of the app knows. */
	readonly versions: Set<string>;
}
const caches = new WeakMap<Deps["telemetry"], Cached>();

const appNameOf = (event: DeviceEvent) => (event.type === "served" ? event.appUuid : event.appId);

export async function assignEvents(deps: Deps, events: readonly DeviceEvent[]): Promise<Assignment> {
	const all = here(deps, events);
	if (Object.keys(deps.telemetry).length === 0) return { groups: [all], postponed: [] };
	const cached = caches.get(deps.telemetry) ?? { homes: new Map(), versions: new Set() };
	caches.set(deps.telemetry, cached);
	const { homes, versions } = await readHomes(deps, cached, events);
	if (homes.size === 0) return { groups: [all], postponed: [] };
	const placed = Map.groupBy(events, (event) => {
		const home = homes.get(appNameOf(event));
		return home === undefined ? HERE : home.state === "copying" ? POSTPONED : home.binding;
	});
	const groups: AssignedEvents[] = [here(deps, placed.get(HERE) ?? [])];
	for (const [binding, ofBinding] of placed) {
		if (binding === HERE || binding === POSTPONED) continue;
		const those = versions.filter(({ app_id }) => homes.get(app_id)?.binding === binding);
		groups.push(moved(deps, cached, binding, ofBinding, homes, those));
	}
	return { groups, postponed: placed.get(POSTPONED) ?? [] };
}

const HERE = "";
const POSTPONED = "postponed";

function here(deps: Deps, events: readonly DeviceEvent[]): AssignedEvents {
	return {
		deps,
		reports: async () => events.filter((event) => !isRolloutEvent(event)),
		rolloutEvents: events.filter(isRolloutEvent),
		knownSince: undefined,
	};
}

/** Homes by the name of the app in events, and versions of the events. One round trip, or none if the cache has everything. */
async function readHomes(
	deps: Deps,
	cached: Cached,
	events: readonly DeviceEvent[],
): Promise<{ readonly homes: ReadonlyMap<string, Home>; readonly versions: readonly VersionRow[] }> {
	const nowMs = deps.now();
	const names = [...new Set(events.map(appNameOf))];
	const known = new Map<string, Home>();
	for (const name of names) {
		const entry = cached.homes.get(name);
		if (entry !== undefined && entry.untilMs > nowMs) known.set(name, entry.home);
	}
	const unknownVersions = versionsOf(events).filter((version) => {
		const home = known.get(version.app);
		return home === undefined || !cached.versions.has(versionKey(home.app_id, version));
	});
	if (known.size === names.length && unknownVersions.length === 0) return { homes: known, versions: [] };
	const db = openDb(deps.d1, "first-primary");
	const [found, ...versions] = await db.batch([selectHomes(names), ...chunksOf(unknownVersions).map(selectVersions)]);
	for (const home of found.rows as Home[]) {
		for (const name of [home.app_id, home.public_app_id]) {
			known.set(name, home);
			if (home.state === "copying") continue;
			if (cached.homes.size >= MOST_CACHED) cached.homes.clear();
			cached.homes.set(name, { home, untilMs: nowMs + FRESH_MS });
		}
	}
	return { homes: known, versions: versions.flatMap(({ rows }) => rows as VersionRow[]) };
}

function selectHomes(names: readonly string[]): CompiledQuery<Home> {
	return sql<Home>`SELECT home.app_id, apps.app_id AS public_app_id, home.binding, home.state, home.moved_at_ms
		FROM json_each(${JSON.stringify(names)})
			CROSS JOIN apps ON apps.id = coalesce((SELECT id FROM apps WHERE app_id = value), value)
			CROSS JOIN telemetry_homes AS home ON home.app_id = apps.id AND home.state <> 'removed'`.compile(query);
}

/** A version that an event names, or the object of one. */
interface Version {
	readonly app: string;
	readonly name?: string;
	readonly object?: string;
}

interface VersionRow {
	readonly app_id: string;
	readonly name: string;
	readonly object_key: string | null;
}

const versionKey = (appUuid: string, { name, object }: Omit<Version, "app">) =>
	name === undefined ? `object ${appUuid} ${object}` : `version ${appUuid} ${name}`;

function versionsOf(events: readonly DeviceEvent[]): Version[] {
	const versions = new Map<string, Version>();
	for (const event of events) {
		const app = appNameOf(event);
		const named: Version[] =
			event.type === "seen" || event.type === "count"
				? [event.versionName].filter((name) => name !== "" && name !== BUILTIN).map((name) => ({ app, name }))
				: event.type === "served"
					? Object.keys(event.bytes).map((object) => ({ app, object }))
					: [];
		for (const version of named) versions.set(versionKey(app, version), version);
	}
	return [...versions.values()];
}

/** Versions of apps whose reports have moved. */
function selectVersions(versions: readonly Version[]): CompiledQuery<VersionRow> {
	const list = JSON.stringify(versions.map(({ app, name, object }) => [app, name ?? null, object ?? null]));
	return sql<VersionRow>`SELECT apps.id AS app_id, b.name, b.object_key
		FROM json_each(${list}) CROSS JOIN apps ON apps.id = coalesce((SELECT id FROM apps WHERE app_id = value ->> 0), value ->> 0)
			CROSS JOIN telemetry_homes AS home ON home.app_id = apps.id AND home.state IN ('moved', 'settled')
			CROSS JOIN bundles b ON b.id = coalesce(
				(SELECT id FROM bundles WHERE app_id = apps.id AND name = value ->> 1 AND status <> 'pending'
					ORDER BY object_key IS NULL, id DESC LIMIT 1),
				(SELECT id FROM bundles WHERE object_key = value ->> 2 AND app_id = apps.id LIMIT 1))`.compile(query);
}

/** Lets a telemetry database know versions that were registered since the app was moved. */
async function storeVersions(own: Deps, cached: Cached, versions: readonly VersionRow[]): Promise<void> {
	const rows = versions.filter(
		({ app_id, name, object_key: object }) =>
			!cached.versions.has(versionKey(app_id, { name })) ||
			(object !== null && !cached.versions.has(versionKey(app_id, { object }))),
	);
	if (rows.length === 0) return;
	const list = JSON.stringify(rows.map(({ app_id, name, object_key }) => [app_id, name, object_key]));
	await openDb(own.d1, "first-primary").batch([
		sql`INSERT INTO bundles (app_id, name, object_key) SELECT apps.id, value ->> 1, value ->> 2
			FROM json_each(${list}) CROSS JOIN apps ON apps.id = value ->> 0 WHERE true
			ON CONFLICT (app_id, name) DO UPDATE SET object_key = excluded.object_key
				WHERE object_key IS NOT excluded.object_key AND excluded.object_key IS NOT NULL`.compile(query),
	]);
	if (cached.versions.size >= MOST_CACHED) cached.versions.clear();
	for (const { app_id, name, object_key } of rows) {
		cached.versions.add(versionKey(app_id, { name }));
		if (object_key !== null) cached.versions.add(versionKey(app_id, { object: object_key }));
	}
}

function moved(
	deps: Deps,
	cached: Cached,
	binding: string,
	events: readonly DeviceEvent[],
	homes: ReadonlyMap<string, Home>,
	versions: readonly VersionRow[],
): AssignedEvents {
	const own: Deps = { ...deps, d1: telemetryD1(deps, binding) };
	const rolloutEvents = events.filter(isRolloutEvent);
	const named = (event: Report): Report =>
		event.type === "served" ? event : { ...event, appId: homes.get(event.appId)?.app_id ?? event.appId };
	return {
		deps: own,
		async reports() {
			await storeVersions(own, cached, versions);
			const reports = events.filter((event) => !isRolloutEvent(event));
			return (await withoutCounted(deps, reports, homes)).map(named);
		},
		rolloutEvents,
		knownSince: () => readKnownSince(own, rolloutEvents, homes),
	};
}

/** Until they are too old, ids of events from before the move are in the main database, and the events do not count again. */
async function withoutCounted(
	deps: Deps,
	events: readonly Report[],
	homes: ReadonlyMap<string, Home>,
): Promise<Report[]> {
	const firstDay = firstRememberedDay(deps.config, deps.now());
	const mayBeCounted = (event: Report): event is Exclude<Report, DeviceSeen | OverrideChanged> =>
		event.type !== "seen" &&
		event.type !== "override" &&
		(homes.get(appNameOf(event))?.moved_at_ms ?? 0) >= startOfDayMs(firstDay);
	const asked = [...new Map(events.filter(mayBeCounted).map(({ id, atMs }) => [id, [id, atMs] as const])).values()];
	if (asked.length === 0) return [...events];
	const reads = chunksOf(asked).map((part) =>
		sql<{ id: string }>`SELECT value ->> 0 AS id FROM json_each(${JSON.stringify(part)})
			WHERE ${isCounted(sql`value ->> 0`, sql`(value ->> 1)`)}`.compile(query),
	);
	const found = await openDb(deps.d1, "first-primary").batch(reads);
	const counted = new Set(found.flatMap(({ rows }) => rows.map(({ id }) => id)));
	return events.filter((event) => !(mayBeCounted(event) && counted.has(event.id)));
}

/** For the devices of rollout events, with public ids. */
async function readKnownSince(
	own: Deps,
	events: readonly RolloutEvent[],
	homes: ReadonlyMap<string, Home>,
): Promise<Map<string, number>> {
	const known = new Map<string, number>();
	if (events.length === 0) return known;
	const devices = [...new Map(events.map((event) => [rolloutDeviceKey(event), event])).values()];
	for (const part of chunksOf(devices)) {
		const list = JSON.stringify(part.map(({ appId, deviceId }) => [homes.get(appId)?.app_id ?? "", deviceId]));
		const [found] = await openDb(own.d1, "first-primary").batch([
			sql<{ position: number; created_at_ms: number }>`SELECT key AS position, d.created_at_ms
				FROM json_each(${list}) CROSS JOIN devices d ON d.app_id = value ->> 0 AND d.device_id = value ->> 1`.compile(
				query,
			),
		]);
		for (const { position, created_at_ms } of found.rows) {
			const device = part[position];
			if (device !== undefined) known.set(rolloutDeviceKey(device), created_at_ms);
		}
	}
	return known;
}

/** Seconds until events of an app that is being copied are delivered again. */
const POSTPONED_SECONDS = 60;
/** A message of the Queue has at most 128 kB. */
const MESSAGE_BYTES = 100_000;

/** Ids of events stay, so that a repetition counts nothing again. */
export async function postpone(deps: Pick<Deps, "events" | "newId">, events: readonly DeviceEvent[]): Promise<void> {
	for (const part of chunk(events, (event) => utf8Length(JSON.stringify(event)), { bytes: MESSAGE_BYTES })) {
		const message = { kind: "device_events", id: deps.newId(), events: part } as const;
		await deps.events.send(message, { delaySeconds: POSTPONED_SECONDS });
	}
}
