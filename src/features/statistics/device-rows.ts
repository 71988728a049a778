/**
 * Merges the reports of devices into their rows, and counts them: devices by day and version, and
 * downloads, installs and failures. A device counts once a day, under the version that it reported
 * last on that day; messages may arrive twice and in any order (device-record.ts,
 * recent-reports.ts). A row is written only if something changed, always in one batch with the
 * counts that change with it; its revision is the optimistic lock of both. The sketches of moved
 * devices are written before it, because a device that is counted must not be in the sketch of a
 * version as well; the other sketches after it, because a conflict may change the version that the
 * device counts under. If the consumer ends in between, the repeated message completes it.
 */

import { chunksOf } from "../../db/chunks";
import type { Database } from "../../db/client";
import { DailySums } from "../../db/daily-sums";
import { type LoggedEvent, logEvents } from "../../db/device-events";
import type { SketchKey } from "../../db/device-sketches";
import { retryOnConflict } from "../../db/optimistic";
import type { Deps } from "../../deps";
import { isTelemetryFull } from "../../domain/quotas";
import { dayOf, firstRememberedDay } from "../../domain/statistics/days";
import { DeviceRecord, runsBuild, type SketchEntry } from "../../domain/statistics/device-record";
import { type DeviceStory, storedEvent } from "../../domain/statistics/device-story";
import { bucketOf } from "../../domain/statistics/duration-histogram";
import { storedCause } from "../../domain/statistics/failure-causes";
import { isSignal } from "../../domain/statistics/health-signals";
import { RecentReports } from "../../domain/statistics/recent-reports";
import { BUILTIN } from "../../domain/updates/model";
import type { CountedEvent, DeviceSeen, OverrideChanged } from "../../messages";
import {
	addedToday,
	type KnownRow,
	knownRows,
	knownVersions,
	type RowChange,
	unchanged,
	writeRows,
} from "./device-row-statements";
import { attributed, storyOf } from "./device-stories";
import { causesOf, type DownloadNews, newsOf } from "./failures";

/** The reports of one device. Events are in the order of their times. */
interface DeviceReports {
	readonly appId: string;
	readonly deviceId: string;
	readonly seen: readonly DeviceSeen[];
	readonly counted: readonly CountedEvent[];
	readonly overrides: readonly OverrideChanged[];
}

/** Adds devices to sketches of their days. */
type AddToSketches = (added: readonly AddedDevices[]) => Promise<void>;

export interface AddedDevices extends SketchKey {
	readonly devices: ReadonlySet<string>;
}

/**
 * New devices beyond the daily limit of their app or address, or while the database is nearly full,
 * are refused; known devices are always written. Refused devices are counted for the app, again for
 * each repeated message. Downloads, installs and failures of refused devices are lost, and all of
 * them while the database is nearly full.
 */
export async function writeDevices(
	deps: Deps,
	db: Database,
	events: readonly (DeviceSeen | CountedEvent | OverrideChanged)[],
	addToSketches: AddToSketches,
): Promise<readonly DownloadNews[]> {
	const nowMs = deps.now();
	const context = {
		deps,
		db,
		addToSketches,
		firstDay: firstRememberedDay(deps.config, nowMs),
		today: dayOf(nowMs),
	};
	const news: DownloadNews[] = [];
	for (const chunk of chunksOf(byDevice(events))) {
		const moved: MovedDays = new Map();
		news.push(...(await retryOnConflict(() => writeChunk(context, chunk, moved))));
	}
	return news;
}

interface Writing {
	readonly deps: Deps;
	readonly db: Database;
	readonly addToSketches: AddToSketches;
	readonly firstDay: number;
	readonly today: number;
}

/**
 * Days whose sketches of moved devices got the device in an earlier attempt. What the other
 * consumer wrote may leave its version unchanged on such a day, but the sketch keeps it out of the
 * sketches of versions.
 */
type MovedDays = Map<DeviceReports, Set<number>>;

function byDevice(events: readonly (DeviceSeen | CountedEvent | OverrideChanged)[]): DeviceReports[] {
	type Own = DeviceReports & { seen: DeviceSeen[]; counted: CountedEvent[]; overrides: OverrideChanged[] };
	const devices = new Map<string, Own>();
	for (const event of events) {
		const { appId, deviceId } = event;
		// The start of a download that cannot be timed has no effect.
		if (event.type === "count" && event.metric === "start" && !event.timed) continue;
		const key = `${appId} ${deviceId}`;
		const reports = devices.get(key) ?? { appId, deviceId, seen: [], counted: [], overrides: [] };
		devices.set(key, reports);
		if (event.type === "seen") reports.seen.push(event);
		else if (event.type === "override") reports.overrides.push(event);
		else reports.counted.push(event);
	}
	for (const { seen, counted } of devices.values()) {
		seen.sort((one, other) => one.atMs - other.atMs);
		counted.sort((one, other) => one.atMs - other.atMs);
	}
	return [...devices.values()];
}

/** @throws {Conflict} if another consumer wrote one of the devices at the same time */
async function writeChunk(
	{ deps, db, firstDay, today, addToSketches }: Writing,
	reported: readonly DeviceReports[],
	moved: MovedDays,
): Promise<DownloadNews[]> {
	const versionsOf = ({ appId, seen, counted }: DeviceReports) =>
		[...seen, ...counted].map(({ versionName }) => [appId, versionName] as const);
	const [rows, versions, added] = await db.batch([
		knownRows(reported),
		knownVersions(reported.flatMap(versionsOf)),
		addedToday(
			reported.map(({ appId }) => appId),
			today,
		),
	]);
	const chunk: Chunk = {
		deps,
		firstDay,
		today,
		moved,
		known: new Set(versions.rows.map(({ app, version }) => `${app} ${version}`)),
		isFull: isTelemetryFull(deps.config.telemetryMaxBytes, db.sizeBytes),
		newDevices: new Map(added.rows.map(({ app, devices }) => [app, devices])),
		sums: new DailySums(),
		sketches: sketchesOfChunk(),
		log: new Map(),
		news: [],
		changes: [],
		lost: 0,
	};
	for (const row of rows.rows) {
		const reports = reported[row.position];
		if (reports !== undefined) mergeDevice(chunk, reports, row);
	}
	const { changes, sums, sketches, log, news, lost, isFull } = chunk;
	if (lost > 0) deps.log("error", "events_not_stored", { events: lost, full: isFull });
	const statements = [
		...(changes.length === 0 ? [] : [unchanged(changes)]),
		...sums.statements(),
		...writeRows(changes),
		...logEvents(log, deps.now(), deps.newId),
	];
	const byMoved = Map.groupBy(sketches.added(), ({ kind }) => kind === "moved");
	await addToSketches(byMoved.get(true) ?? []);
	if (statements.length > 0) await db.batch(statements);
	await addToSketches(byMoved.get(false) ?? []);
	return news;
}

/** A chunk of devices: the facts that were read for it, and what its devices have added so far. */
interface Chunk {
	readonly deps: Deps;
	readonly firstDay: number;
	readonly today: number;
	readonly moved: MovedDays;
	/** App and version, of versions that the app has or had. */
	readonly known: ReadonlySet<string>;
	/** No report is stored, because the database is nearly full. */
	readonly isFull: boolean;
	/** New devices of today by app. */
	readonly newDevices: Map<string, number>;
	readonly sums: DailySums;
	readonly sketches: ReturnType<typeof sketchesOfChunk>;
	readonly log: Map<string, LoggedEvent[]>;
	readonly news: DownloadNews[];
	readonly changes: RowChange[];
	lost: number;
}

/** Merges the reports of a device into its row, and adds to the chunk what follows from them. */
function mergeDevice(chunk: Chunk, reports: DeviceReports, row: KnownRow): void {
	const { deps, firstDay, isFull, moved, known, sketches, news } = chunk;
	const isNew = row.revision === null;
	const record = new DeviceRecord(isNew ? null : row, countedVersionOfRow(row), firstDay, moved.get(reports));
	for (const event of reports.seen) record.add(event, countedVersion(event, known));
	const recent = new RecentReports(row.recent_reports, firstDay);
	const { events, causes } = isFull ? { events: [], causes: [] } : freshOf(known, reports, row, recent);
	for (const { atMs } of [...events, ...causes]) record.addOther(atMs);
	// An override of a device that never reported is in the audit log alone.
	if (isNew && reports.seen.length + reports.counted.length === 0) return;
	const inStory = [...events, ...causes.filter(({ isAlone }) => isAlone)];
	const story = storyOf(reports, inStory, row, deps.config, deps.now());
	// Stores the attempts at downloads in `recent`, which may change it.
	const ownNews = isFull ? [] : newsOf(reports, events, recent, row, record.row.created_at_ms);
	const isChanged = record.needsWrite || recent.isChanged || story?.isNews === true;
	if (isNew && (isChanged || isFull) && !admitNew(chunk, reports, row.app)) return;
	if (isFull) lose(chunk, row.app, reports.counted.length);
	news.push(...ownNews);
	countReports(chunk, row.app, events, causes);
	sketches.add(reports, record.sketches);
	const movedDays = record.sketches.filter(({ kind }) => kind === "moved").map(({ day }) => day);
	if (movedDays.length > 0) moved.set(reports, new Set([...(moved.get(reports) ?? []), ...movedDays]));
	if (isChanged) changeRow(chunk, reports, row, { record, recent, story });
}

/** Counted events that are not repeated ones, and the causes of failures among them. */
function freshOf(known: Chunk["known"], reports: DeviceReports, row: KnownRow, recent: RecentReports) {
	const isKnownVersion = (event: CountedEvent) => isKnown(known, event);
	const isFresh = (event: CountedEvent) => recent.add(event, isKnownVersion(event));
	const [signals, others] = [true, false].map((are) =>
		reports.counted.filter(({ metric }) => metric !== "cause" && isSignal(metric) === are),
	);
	// Signals are attributed by what was set, so they come after it.
	const events = [
		...(others ?? []).filter(isFresh),
		...(signals ?? [])
			.map((event) => attributed(event, row, countedVersionOfRow(row), recent, isKnownVersion))
			.filter(isFresh),
	];
	return { events, causes: causesOf(reports, row, isKnownVersion).filter(isFresh) };
}

const isKnown = (known: Chunk["known"], { appId, versionName }: CountedEvent): boolean =>
	known.has(`${appId} ${versionName}`);

/** Counts a new device; false if it is beyond a limit, and then its reports are lost. */
function admitNew(chunk: Chunk, { seen, counted }: DeviceReports, app: string): boolean {
	const { deps, isFull, newDevices, sums, today } = chunk;
	const limit = isFull ? 0 : deps.config.newDevicesPerDay;
	const isCrowded = [...seen, ...counted].every(({ crowded }) => crowded === true);
	const addedBefore = newDevices.get(app) ?? 0;
	if (isCrowded || addedBefore >= limit) {
		sums.addTotal(app, today, "refused_device_count", 1);
		lose(chunk, app, counted.length);
		return false;
	}
	newDevices.set(app, addedBefore + 1);
	sums.addTotal(app, today, "new_device_count", 1);
	return true;
}

function lose(chunk: Chunk, app: string, reports: number): void {
	chunk.lost += reports;
	if (reports > 0) chunk.sums.addTotal(app, chunk.today, "lost_event_count", reports);
}

function countReports(
	{ sums, known }: Chunk,
	app: string,
	events: readonly CountedEvent[],
	causes: ReturnType<typeof causesOf>,
): void {
	for (const { atMs, cause, versionName } of causes) {
		sums.addHealth(app, dayOf(atMs), versionName, storedCause(cause), 0, 1);
	}
	for (const event of events) addEvent(sums, app, event, isKnown(known, event));
}

/** Writes the row of the device, with the counts and the log that change with it. */
function changeRow(
	{ sums, log, changes }: Chunk,
	{ deviceId }: DeviceReports,
	row: KnownRow,
	merged: { readonly record: DeviceRecord; readonly recent: RecentReports; readonly story: DeviceStory | undefined },
): void {
	const { record, recent, story } = merged;
	const { app } = row;
	for (const { day, before, after } of record.countChanges) {
		sums.addCount(app, day, after, "", "devices", 1);
		if (before !== undefined) sums.addCount(app, day, before, "", "devices", -1);
	}
	for (const { day, versionName, bucket, amount } of recent.installTimeChanges) {
		sums.addInstallTime(app, day, versionName, bucket, amount);
	}
	for (const event of story?.added ?? []) {
		log.set(app, [...(log.get(app) ?? []), [deviceId, ...storedEvent(event)]]);
	}
	// Without news of the device itself, its last report costs no row of the index by it, as when the
	// row is not written at all.
	const stored = row.revision === null || record.needsWrite ? record.row : row;
	changes.push({ deviceId, before: row, row: { ...stored, recent_reports: recent.textWith(story?.stored) } });
}

const TOTAL_OF = { get: "get_count", install: "install_count", fail: "fail_count" } as const;

/** A version that the app never had counts only for the app. */
function addEvent(sums: DailySums, app: string, event: CountedEvent, isKnownVersion: boolean): void {
	const { metric, atMs, versionName, channelName } = event;
	if (metric === "start" || metric === "cause") return;
	const day = dayOf(atMs);
	if (isSignal(metric)) {
		const name = isKnownVersion || versionName === BUILTIN ? versionName : "";
		sums.addHealth(app, day, name, metric, metric === "launch" ? bucketOf(event.durationMs ?? 0) : 0, 1);
		return;
	}
	sums.addCount(app, day, isKnownVersion ? versionName : "", channelName, metric, 1);
	sums.addTotal(app, day, TOTAL_OF[metric], 1);
}

/** The devices of a chunk by sketch. */
function sketchesOfChunk() {
	const byKey = new Map<string, AddedDevices & { readonly devices: Set<string> }>();
	const addOne = (key: SketchKey, deviceId: string) => {
		const text = JSON.stringify([key.appId, key.day, key.kind, key.version]);
		const entry = byKey.get(text) ?? { ...key, devices: new Set() };
		byKey.set(text, entry);
		entry.devices.add(deviceId);
	};
	return {
		add({ appId, deviceId, seen }: DeviceReports, entries: readonly SketchEntry[]): void {
			const days = new Set(seen.map(({ atMs }) => dayOf(atMs)));
			for (const day of days) addOne({ appId, day, kind: "all", version: "" }, deviceId);
			for (const { day, kind, version } of entries) addOne({ appId, day, kind, version }, deviceId);
		},
		added: (): readonly AddedDevices[] => [...byKey.values()],
	};
}

/**
 * A bundle's name, `builtin`, or empty for a version that the app never had; undefined if the event
 * has no version.
 */
function countedVersion(event: DeviceSeen, known: ReadonlySet<string>): string | undefined {
	if (event.versionName === "") return undefined;
	if (known.has(`${event.appId} ${event.versionName}`)) return event.versionName;
	return runsBuild(event) ? BUILTIN : "";
}

/** Undefined if the device has reported no version. */
function countedVersionOfRow({ version_name, version_build, version_known }: KnownRow): string | undefined {
	if (version_name === null) return undefined;
	if (version_known === 1) return String(version_name);
	const runs = { versionName: String(version_name), versionBuild: String(version_build ?? "") };
	return runsBuild(runs) ? BUILTIN : "";
}
