/**
 * Accepts the reports of one request: reads their apps, applies the limits of the address, and buffers their events. The endpoint and the fast
 * path share it. It loads no schema, so that a device that reports first in an isolate does not wait for them.
 */
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import type { AppSnapshot } from "../../db/app-snapshot";
import type { Database } from "../../db/batch";
import { dayOf, firstRememberedDay, startOfDayMs } from "../../domain/days";
import { happenedAtMs, type Signal, signalOf } from "../../domain/health-signals";
import { resolveChannel } from "../../domain/update-decision";
import { BUILTIN, PLATFORMS } from "../../domain/update-model";
import { invalidRequest } from "../../errors";
import type { DeviceState } from "../../http/device-state";
import type { CountedEvent, CountedMetric, DeviceEvent } from "../../messages";
import { reportEvents, rolloutNetworkOf, withoutSuperseded } from "../rollouts/reports";
import { BLOCKED, decisionInput, isBlocked, recordedReport } from "../updates/device";
import { readMetadata, type StatsEvent } from "./report-body";

/** A device belongs to one app, so a request needs few. */
const MOST_APPS = 4;
const EVENT_ID_LENGTH = 32;

/** Metric that an action counts for. `get` is a complete download, not an offer. */
const METRIC_OF_ACTION: Readonly<Record<string, Exclude<CountedMetric, Signal>>> = {
	download_zip_start: "start",
	download_manifest_start: "start",
	set: "install",
	download_complete: "get",
	set_fail: "fail",
	update_fail: "fail",
	download_fail: "fail",
};

/** Actions whose version is the running one. In others it is downloaded, removed or failed, or ran when the app ended. */
const VERSION_RUNS = new Set([
	"set",
	"reset",
	"ping",
	"app_moved_to_foreground",
	"app_moved_to_background",
	"app_launch_start",
	"app_launch_ready",
]);

/** Actions after which the device runs another version. */
const MOVES = new Set(["set", "reset"]);

export interface Refused {
	readonly error: string;
	readonly message: string;
}

const APP_NOT_FOUND: Refused = { error: "app_not_found", message: "This server has no app with this id." };

type ReportContext = Pick<DeviceState, "deps" | "snapshots" | "eventBuffer" | "strangers"> & {
	readonly request: Request;
	readonly address: string | null;
	readonly nowMs: number;
	readonly waitUntil: (work: Promise<unknown>) => void;
};

/**
 * Buffers the reports. All apps are read together, and the limits of the address apply before any event is buffered.
 * @returns by app: why all of its reports are refused
 * @throws {ApiError} `too_many_requests`, `invalid_request`
 */
export async function accept(
	context: ReportContext & { readonly db: Database },
	reports: readonly StatsEvent[],
): Promise<ReadonlyMap<string, Refused>> {
	const { db, deps, request, snapshots, address, nowMs, waitUntil } = context;
	const refused = new Map<string, Refused>();
	const byApp = Map.groupBy(reports, ({ app_id }) => app_id);
	if (byApp.size > MOST_APPS) {
		throw invalidRequest([
			{ path: "app_id", message: `names ${byApp.size} apps in one request; send at most ${MOST_APPS}` },
		]);
	}
	const read = await snapshots.readMany(db, [...byApp.keys()], waitUntil);
	const taken = new Map<string, AppSnapshot>();
	for (const [index, [appId, own]] of [...byApp].entries()) {
		const snapshot = read[index]?.snapshot ?? null;
		if (snapshot === null) refused.set(appId, APP_NOT_FOUND);
		else if (isBlocked(deps.config, snapshot, request)) refused.set(appId, BLOCKED);
		else {
			await admit(context, snapshot, own);
			taken.set(appId, snapshot);
		}
	}
	const events = reports.flatMap((report) => {
		const snapshot = taken.get(report.app_id);
		return snapshot === undefined ? [] : eventsOf(context, snapshot, report);
	});
	context.eventBuffer.add(context.strangers.markCrowded(withoutSuperseded(events), address, nowMs), waitUntil);
	return refused;
}

/**
 * The same for a single report of an app in memory.
 * @returns why it is refused
 * @throws {ApiError} `too_many_requests`
 */
export function acceptOne(
	context: ReportContext,
	snapshot: AppSnapshot,
	report: StatsEvent,
): Refused | Promise<undefined> | undefined {
	if (isBlocked(context.deps.config, snapshot, context.request)) return BLOCKED;
	const admission = admit(context, snapshot, [report]);
	if (admission !== undefined) return admission.then(() => bufferOne(context, snapshot, report));
	return bufferOne(context, snapshot, report);
}

function bufferOne(context: ReportContext, snapshot: AppSnapshot, report: StatsEvent): undefined {
	const { eventBuffer, strangers, address, nowMs, waitUntil } = context;
	const events = eventsOf(context, snapshot, report);
	eventBuffer.add(strangers.markCrowded(events, address, nowMs), waitUntil);
}

/** The limit on new devices; undefined when nothing need be awaited. */
function admit(
	{ eventBuffer, strangers, address, nowMs }: ReportContext,
	{ app }: AppSnapshot,
	reports: readonly StatsEvent[],
): Promise<void> | undefined {
	const unknown = new Set<string>();
	for (const { device_id } of reports) if (!eventBuffer.knows(app.publicId, device_id)) unknown.add(device_id);
	return strangers.admitNewDevices(address, app.publicId, unknown.size, nowMs);
}

function eventsOf(
	{ deps, eventBuffer, strangers, address, nowMs, waitUntil }: ReportContext,
	snapshot: AppSnapshot,
	sent: StatsEvent,
): readonly DeviceEvent[] {
	const report = recordedReport(sent, snapshot);
	const appId = snapshot.app.publicId;
	const versionName = versionOf(report);
	const seen = seenOf(report, versionName, nowMs);
	const own: DeviceEvent[] = [seen];
	const action = report.action ?? "";
	const deviceAtMs = timeOf(report.timestamp);
	const signal = signalEvent(eventBuffer, report, versionName, { address, deviceAtMs, nowMs });
	const metric = signal?.metric ?? (Object.hasOwn(METRIC_OF_ACTION, action) ? METRIC_OF_ACTION[action] : undefined);
	// The id of an older event may be removed already, so the same report may have been counted before.
	const isForgotten = deviceAtMs !== null && deviceAtMs < startOfDayMs(firstRememberedDay(deps.config, nowMs));
	if (metric !== undefined && !isForgotten) {
		if (strangers.takeReports(address, appId, 1, nowMs) === 0) {
			eventBuffer.addLost(appId, 2, waitUntil);
			return [];
		}
		own.push({
			type: "count",
			id: eventId(report, action, versionName, nowMs),
			appId,
			deviceId: report.device_id,
			versionName,
			channelName: signal === undefined ? channelOf(report, snapshot) : "",
			metric,
			atMs: nowMs,
			deviceAtMs,
			// Electron's updater does not report the start of a download.
			timed: report.platform !== "electron",
			detail: metric === "fail" ? action : (readMetadata(report.metadata)?.message ?? ""),
			...signal,
		});
	}
	// A signal that repeats another one is no news for a rollout either.
	if (!snapshot.hasRollout || (signal === undefined && signalOf(action) !== undefined)) return own;
	const happened = signal === undefined ? deviceAtMs : (readMetadata(report.metadata)?.exitAtMs ?? null);
	return [...own, ...reportEvents(appId, report, versionName, { address, atMs: nowMs, deviceAtMs: happened })];
}

/** Fields that a health signal adds to its event; undefined if the report is not a signal or repeats one. */
function signalEvent(
	eventBuffer: ReportContext["eventBuffer"],
	{ action, app_id, device_id, version_build, ...report }: StatsEvent,
	versionName: string,
	{
		address,
		deviceAtMs,
		nowMs,
	}: { readonly address: string | null; readonly deviceAtMs: number | null; readonly nowMs: number },
): (Pick<CountedEvent, "versionName" | "happenedAtMs" | "durationMs"> & { readonly metric: Signal }) | undefined {
	const metric = signalOf(action ?? "");
	if (metric === undefined) return undefined;
	const metadata = readMetadata(report.metadata);
	const durationMs = metadata?.durationMs ?? null;
	if (metric === "launch" && durationMs === null) return undefined;
	const source = { appId: app_id, deviceId: device_id, versionName, network: rolloutNetworkOf(address) };
	if (!eventBuffer.takesSignal(metric, source, nowMs)) return undefined;
	return {
		metric,
		versionName: versionName !== "" && versionName === version_build ? BUILTIN : versionName,
		happenedAtMs: happenedAtMs(metadata?.exitAtMs ?? null, deviceAtMs, nowMs),
		...(metric === "launch" && durationMs !== null ? { durationMs } : {}),
	};
}

/** A failure of a single file has the file's name after the version. */
function versionOf(event: StatsEvent): string {
	const [versionName = ""] = (event.version_name ?? "").split(":");
	return versionName;
}

/** By the device's clock: milliseconds, or a date and time; null if it is neither. */
function timeOf(timestamp: StatsEvent["timestamp"]): number | null {
	const numeric = Number(timestamp ?? Number.NaN);
	const atMs = Number.isNaN(numeric) && typeof timestamp === "string" ? Date.parse(timestamp) : numeric;
	return Number.isSafeInteger(atMs) && atMs > 0 ? atMs : null;
}

function seenOf(event: StatsEvent, versionName: string, nowMs: number): DeviceEvent {
	const action = event.action ?? "";
	return {
		type: "seen",
		appId: event.app_id,
		deviceId: event.device_id,
		atMs: nowMs,
		platform: event.platform ?? "",
		versionName: VERSION_RUNS.has(action) ? versionName : "",
		versionBuild: event.version_build ?? "",
		osVersion: event.version_os ?? "",
		pluginVersion: event.plugin_version ?? "",
		isProd: event.is_prod ?? true,
		isEmulator: event.is_emulator ?? false,
		customId: event.custom_id ?? "",
		installSource: event.install_source ?? "",
		keyId: event.key_id ?? "",
		defaultChannel: event.defaultChannel ?? "",
		channelId: null,
		...(MOVES.has(action) ? { moved: true } : {}),
	};
}

/** The channel that serves the device now. In an app with more overrides than memory holds, overrides do not count here. */
function channelOf(event: StatsEvent, snapshot: AppSnapshot): string {
	const platform = PLATFORMS.find((known) => known === event.platform);
	if (platform === undefined) return "";
	const device = { platform, defaultChannel: event.defaultChannel ?? "" };
	const override = snapshot.overrides?.get(event.device_id);
	return resolveChannel(decisionInput(snapshot, device, override), device)?.name ?? "";
}

/**
 * The same id for repeated reports of an event. An event without a time counts once per device and day, because some clients send no time and
 * all clients repeat requests.
 */
function eventId(event: StatsEvent, action: string, versionName: string, nowMs: number): string {
	const when = event.timestamp ?? `day ${dayOf(nowMs)}`;
	const content = [event.app_id, event.device_id, action, versionName, event.old_version_name ?? "", when];
	return bytesToHex(sha256(utf8ToBytes(JSON.stringify(content)))).slice(0, EVENT_ID_LENGTH);
}
