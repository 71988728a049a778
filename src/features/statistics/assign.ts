/**
 * Assigns events to the databases of their apps, before anything is written. The main database
 * decides: it has the apps, their versions and which telemetry database their reports are in.
 * Events of apps that do not exist are dropped.
 */
import { type CompiledQuery, sql } from "kysely";
import { chunksOf } from "../../db/chunks";
import { openDb, query } from "../../db/client";
import { insertReportedApps } from "../../db/telemetry-databases";
import { openTelemetry } from "../../db/telemetry-reads";
import type { Deps } from "../../deps";
import { MINUTE_MS } from "../../domain/time";
import { BUILTIN } from "../../domain/updates/model";
import { type DeviceEvent, isRolloutEvent, type RolloutEvent, rolloutDeviceKey } from "../../messages";

type Report = Exclude<DeviceEvent, RolloutEvent>;

interface ReportingApp {
	readonly id: string;
	readonly public_app_id: string;
	readonly telemetry_binding: string;
}

/** A version that the app has or had. */
interface AppVersion {
	readonly app_id: string;
	readonly name: string;
	readonly object_key: string | null;
}

/** The events of the apps of one telemetry database. */
export interface AssignedEvents {
	readonly binding: string;
	/** Name apps by their UUIDs, as this database does. */
	readonly reports: readonly Report[];
	/** Name apps by their public ids, because rollouts are in the main database. */
	readonly rolloutEvents: readonly RolloutEvent[];
	/** UUIDs of the apps, by UUID and by public id. */
	readonly appIds: ReadonlyMap<string, string>;
	/** Versions of the events that the main database has. */
	readonly versions: readonly AppVersion[];
}

/**
 * An isolate asks again after this time. An app can be deleted or renamed meanwhile: its last
 * reports then go to the app that had the name. The database of its reports never changes.
 */
const FRESH_MS = 10_000;
const MOST_CACHED = 20_000;

interface Cached {
	/** By UUID and by public id. */
	readonly apps: Map<string, { readonly app: ReportingApp; readonly untilMs: number }>;
	/** Apps, versions and objects that the telemetry database of the app knows. */
	readonly stored: Set<string>;
	forgetStoredAtMs: number;
}
/** An operator may set a telemetry database back to an earlier time. */
const STORED_MS = 10 * MINUTE_MS;
const caches = new WeakMap<Deps["telemetry"], Cached>();

function cacheOf({ telemetry, now }: Pick<Deps, "telemetry" | "now">): Cached {
	const cached = caches.get(telemetry) ?? { apps: new Map(), stored: new Set(), forgetStoredAtMs: 0 };
	caches.set(telemetry, cached);
	const nowMs = now();
	if (nowMs >= cached.forgetStoredAtMs) {
		cached.stored.clear();
		cached.forgetStoredAtMs = nowMs + STORED_MS;
	}
	return cached;
}

const appNameOf = (event: DeviceEvent) => (event.type === "served" ? event.appUuid : event.appId);

export async function assignEvents(deps: Deps, events: readonly DeviceEvent[]): Promise<readonly AssignedEvents[]> {
	const { apps, versions } = await readApps(deps, events);
	const byBinding = Map.groupBy(events, (event) => apps.get(appNameOf(event))?.telemetry_binding);
	const appIds = new Map([...apps].map(([name, { id }]) => [name, id]));
	return [...byBinding].flatMap(([binding, own]) => {
		if (binding === undefined) return [];
		const reports = own.filter((event) => !isRolloutEvent(event));
		return {
			binding,
			reports: reports.map((event) =>
				event.type === "served" ? event : { ...event, appId: appIds.get(event.appId) ?? event.appId },
			),
			rolloutEvents: own.filter(isRolloutEvent),
			appIds,
			versions: versions.filter(({ app_id }) => apps.get(app_id)?.telemetry_binding === binding),
		};
	});
}

/**
 * Apps by their names in events, and versions of the events. One round trip, or none if the cache
 * has everything.
 */
async function readApps(
	deps: Deps,
	events: readonly DeviceEvent[],
): Promise<{ readonly apps: ReadonlyMap<string, ReportingApp>; readonly versions: readonly AppVersion[] }> {
	const cached = cacheOf(deps);
	const nowMs = deps.now();
	const names = [...new Set(events.map(appNameOf))];
	const known = new Map<string, ReportingApp>();
	const add = (app: ReportingApp) => {
		for (const name of [app.id, app.public_app_id]) known.set(name, app);
	};
	for (const name of names) {
		const entry = cached.apps.get(name);
		if (entry !== undefined && entry.untilMs > nowMs) add(entry.app);
	}
	const unknownVersions = versionsOf(events).filter((version) => {
		const app = known.get(version.app);
		return app === undefined || !cached.stored.has(versionKey(app.id, version));
	});
	if (names.every((name) => known.has(name)) && unknownVersions.length === 0) return { apps: known, versions: [] };
	const db = openDb(deps.d1, "first-primary");
	const [found, ...versions] = await db.batch([selectApps(names), ...chunksOf(unknownVersions).map(selectVersions)]);
	for (const app of found.rows as ReportingApp[]) {
		add(app);
		if (cached.apps.size >= MOST_CACHED) cached.apps.clear();
		for (const name of [app.id, app.public_app_id]) cached.apps.set(name, { app, untilMs: nowMs + FRESH_MS });
	}
	return { apps: known, versions: versions.flatMap(({ rows }) => rows as AppVersion[]) };
}

const NAMED_APP = sql`apps.id = coalesce((SELECT id FROM apps WHERE app_id = value ->> 0), value ->> 0)`;

function selectApps(names: readonly string[]): CompiledQuery<ReportingApp> {
	return sql<ReportingApp>`SELECT apps.id, apps.app_id AS public_app_id, apps.telemetry_binding
		FROM json_each(${JSON.stringify(names.map((name) => [name]))}) CROSS JOIN apps ON ${NAMED_APP}`.compile(query);
}

/** A version that an event names, or the object of one. */
interface Version {
	readonly app: string;
	readonly name?: string;
	readonly object?: string;
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

function selectVersions(versions: readonly Version[]): CompiledQuery<AppVersion> {
	const list = JSON.stringify(versions.map(({ app, name, object }) => [app, name ?? null, object ?? null]));
	return sql<AppVersion>`SELECT apps.id AS app_id, b.name, b.object_key
		FROM json_each(${list}) CROSS JOIN apps ON ${NAMED_APP}
			CROSS JOIN bundles b ON b.id = coalesce(
				(SELECT id FROM bundles WHERE app_id = apps.id AND name = value ->> 1 AND status <> 'pending'
					ORDER BY object_key IS NULL, id DESC LIMIT 1),
				(SELECT id FROM bundles WHERE object_key = value ->> 2 AND app_id = apps.id LIMIT 1))`.compile(query);
}

/** Lets the telemetry database know the apps of the reports, and versions that it has not seen. */
export async function storeAppsAndVersions(
	deps: Deps,
	{ binding, reports, appIds, versions }: AssignedEvents,
): Promise<void> {
	const { stored } = cacheOf(deps);
	const used = new Set(reports.map((event) => appIds.get(appNameOf(event)) ?? ""));
	const apps = [...used].filter((id) => !stored.has(id));
	const rows = versions.filter(
		({ app_id, name, object_key: object }) =>
			!stored.has(versionKey(app_id, { name })) || (object !== null && !stored.has(versionKey(app_id, { object }))),
	);
	if (apps.length === 0 && rows.length === 0) return;
	const list = JSON.stringify(rows.map(({ app_id, name, object_key }) => [app_id, name, object_key]));
	await openTelemetry(deps, binding).batch([
		insertReportedApps(apps),
		sql`INSERT INTO bundles (app_id, name, object_key) SELECT apps.id, value ->> 1, value ->> 2
			FROM json_each(${list}) CROSS JOIN apps ON apps.id = value ->> 0 WHERE true
			ON CONFLICT (app_id, name) DO UPDATE SET object_key = excluded.object_key
				WHERE object_key IS NOT excluded.object_key AND excluded.object_key IS NOT NULL`.compile(query),
	]);
	if (stored.size >= MOST_CACHED) stored.clear();
	for (const id of apps) stored.add(id);
	for (const { app_id, name, object_key } of rows) {
		stored.add(versionKey(app_id, { name }));
		if (object_key !== null) stored.add(versionKey(app_id, { object: object_key }));
	}
}

/**
 * When the devices of rollout events were first seen, by `rolloutDeviceKey`. A rollout counts
 * devices that were known before, so this is read after the reports are stored.
 */
export async function readKnownSince(
	deps: Deps,
	{ binding, rolloutEvents, appIds }: AssignedEvents,
): Promise<ReadonlyMap<string, number>> {
	const known = new Map<string, number>();
	const devices = [...new Map(rolloutEvents.map((event) => [rolloutDeviceKey(event), event])).values()];
	for (const part of chunksOf(devices)) {
		const list = JSON.stringify(part.map(({ appId, deviceId }) => [appIds.get(appId) ?? "", deviceId]));
		const [found] = await openTelemetry(deps, binding).batch([
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
