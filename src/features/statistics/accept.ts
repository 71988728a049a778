/**
 * Accepts the reports of one request: reads their apps, applies the limits of the address, and
 * buffers their events. The endpoint and the fast path share it. It loads no schema, so that a
 * device that reports first in an isolate does not wait for them.
 */
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import type { Database } from "../../db/batch";
import { dayOf, firstRememberedDay, startOfDayMs } from "../../domain/statistics/days";
import { failsSingleFiles, failureCauseOf } from "../../domain/statistics/failure-causes";
import { happenedAtMs, type Signal, signalOf } from "../../domain/statistics/health-signals";
import { DAY_MS } from "../../domain/time";
import { resolveChannel } from "../../domain/updates/decision";
import { BUILTIN, PLATFORMS } from "../../domain/updates/model";
import { UNDECIDED, type UndecidedCode } from "../../domain/updates/refusals";
import { invalidRequest } from "../../errors";
import type { DeviceState } from "../../http/device-state";
import type { CountedEvent, CountedMetric, DeviceEvent } from "../../messages";
import type { AppSnapshot } from "../../snapshots/app-snapshot";
import { reportEvents, rolloutNetworkOf, withoutSuperseded } from "../rollouts/reports";
import { decisionInput, recordedReport } from "../updates/device";
import { BLOCKED, isBlocked } from "../updates/review-networks";
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

/**
 * Actions whose version is the running one. In others it is downloaded, removed or failed, or ran
 * when the app ended.
 */
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

/**
 * Something that the answer to an accepted report says, because the report does not count as it was
 * sent.
 */
type Remark =
	| { readonly not_counted: "too_old" | "too_many_reports"; readonly message: string }
	| { readonly note: "in_the_future"; readonly message: string };

/** Undefined: the report counts as it was sent. */
export type Outcome = Refused | Remark | undefined;

export const statusOf = (outcome: Outcome): "ok" | "error" =>
	outcome !== undefined && "error" in outcome ? "error" : "ok";

/** A device's clock may be ahead, e.g. by a wrong time zone. */
const AHEAD_MS = DAY_MS;
/** Beyond this a time says nothing, not even about the device's clock. */
const MOST_AHEAD_MS = 366 * DAY_MS;
/** No plugin is older; a smaller number is a time in seconds. */
const FIRST_TIME_MS = Date.UTC(2000, 0, 1);

const TOO_OLD: Remark = {
	not_counted: "too_old",
	message:
		"timestamp: events of that time are not counted any more, because the same report may have been counted before.",
};
const TOO_MANY: Remark = {
	not_counted: "too_many_reports",
	message: "This address has sent too many reports in a short time; the report is not counted.",
};
const IN_THE_FUTURE: Remark = {
	note: "in_the_future",
	message:
		"timestamp: is more than a day ahead of the server; the report counts as of now. Send milliseconds since 1970.",
};

const refusedAs = (code: UndecidedCode): Refused => ({ error: code, message: UNDECIDED[code].message });

type ReportContext = Pick<DeviceState, "deps" | "snapshots" | "eventBuffer" | "callerLimits" | "failedFiles"> & {
	readonly request: Request;
	readonly address: string | null;
	readonly nowMs: number;
	readonly waitUntil: (work: Promise<unknown>) => void;
};

/**
 * Buffers the reports. All apps are read together, and the limits of the address apply before any
 * event is buffered.
 * @returns an outcome for each report
 * @throws {ApiError} `too_many_requests`, `invalid_request`
 */
export async function accept(
	context: ReportContext & { readonly db: Database },
	reports: readonly StatsEvent[],
): Promise<readonly Outcome[]> {
	const { db, deps, request, snapshots, address, nowMs, waitUntil } = context;
	const refused = new Map<string, Refused>();
	const byApp = Map.groupBy(reports, ({ app_id }) => app_id);
	if (byApp.size > MOST_APPS) {
		throw invalidRequest([
			{ path: "app_id", message: `names ${byApp.size} apps in one request; send at most ${MOST_APPS}` },
		]);
	}
	const read = await snapshots.readMany(db, [...byApp.keys()], { waitUntil });
	const taken = new Map<string, AppSnapshot>();
	for (const [index, [appId, own]] of [...byApp].entries()) {
		const snapshot = read[index]?.snapshot ?? null;
		if (snapshot === null) refused.set(appId, refusedAs("app_not_found"));
		else if (isBlocked(deps.config, snapshot, request)) refused.set(appId, refusedAs(BLOCKED));
		else {
			await admit(context, snapshot, own);
			taken.set(appId, snapshot);
		}
	}
	const events: DeviceEvent[] = [];
	const outcomes = reports.map((report): Outcome => {
		const snapshot = taken.get(report.app_id);
		if (snapshot === undefined) return refused.get(report.app_id);
		const read = eventsOf(context, snapshot, report);
		events.push(...read.events);
		return read.remark;
	});
	context.eventBuffer.add(context.callerLimits.markCrowded(withoutSuperseded(events), address, nowMs), waitUntil);
	return outcomes;
}

/**
 * The same for a single report of an app in memory.
 * @throws {ApiError} `too_many_requests`
 */
export function acceptOne(
	context: ReportContext,
	snapshot: AppSnapshot,
	report: StatsEvent,
): Outcome | Promise<Outcome> {
	if (isBlocked(context.deps.config, snapshot, context.request)) return refusedAs(BLOCKED);
	const admission = admit(context, snapshot, [report]);
	if (admission !== undefined) return admission.then(() => bufferOne(context, snapshot, report));
	return bufferOne(context, snapshot, report);
}

function bufferOne(context: ReportContext, snapshot: AppSnapshot, report: StatsEvent): Remark | undefined {
	const { eventBuffer, callerLimits, address, nowMs, waitUntil } = context;
	const { events, remark } = eventsOf(context, snapshot, report);
	eventBuffer.add(callerLimits.markCrowded(events, address, nowMs), waitUntil);
	return remark;
}

interface ReadReport {
	readonly events: readonly DeviceEvent[];
	readonly remark: Remark | undefined;
}

/** The limit on new devices; undefined when nothing need be awaited. */
function admit(
	{ eventBuffer, callerLimits, address, nowMs }: ReportContext,
	{ app }: AppSnapshot,
	reports: readonly StatsEvent[],
): Promise<void> | undefined {
	const unknown = new Set<string>();
	for (const { device_id } of reports) if (!eventBuffer.knows(app.publicId, device_id)) unknown.add(device_id);
	return callerLimits.admitNewDevices(address, app.publicId, unknown.size, nowMs);
}

function eventsOf(
	{ deps, eventBuffer, callerLimits, failedFiles, address, nowMs, waitUntil }: ReportContext,
	snapshot: AppSnapshot,
	sent: StatsEvent,
): ReadReport {
	const report = recordedReport(sent, snapshot);
	const appId = snapshot.app.publicId;
	const versionName = versionOf(report);
	const seen = seenOf(report, versionName, nowMs);
	const own: DeviceEvent[] = [seen];
	const action = report.action ?? "";
	const sentAtMs = timeOf(report.timestamp);
	const aheadMs = (sentAtMs ?? nowMs) - nowMs;
	const deviceAtMs = aheadMs > MOST_AHEAD_MS ? null : sentAtMs;
	failedFiles.note(appId, report.device_id, action, versionName, deviceAtMs);
	const signal = signalEvent(eventBuffer, report, versionName, { address, deviceAtMs, nowMs });
	const cause = failureCauseOf(action);
	const metric =
		signal?.metric ??
		(Object.hasOwn(METRIC_OF_ACTION, action) ? METRIC_OF_ACTION[action] : cause === undefined ? undefined : "cause");
	// The id of an older event may be removed already, so the same report may have been counted
	// before.
	const isForgotten = deviceAtMs !== null && deviceAtMs < startOfDayMs(firstRememberedDay(deps.config, nowMs));
	if (metric !== undefined && !isForgotten) {
		if (callerLimits.takeReports(address, appId, 1, nowMs) === 0) {
			eventBuffer.addLost(appId, 2, waitUntil);
			return { events: [], remark: TOO_MANY };
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
			detail: cause !== undefined ? action : (readMetadata(report.metadata)?.message ?? ""),
			...signal,
			...(cause === undefined ? {} : { cause }),
			...(cause === "download" || failsSingleFiles(action) ? { network: rolloutNetworkOf(address) } : {}),
		});
	}
	const remark = metric !== undefined && isForgotten ? TOO_OLD : aheadMs > AHEAD_MS ? IN_THE_FUTURE : undefined;
	// A signal that repeats another one is no news for a rollout either.
	if (!snapshot.hasRollout || (signal === undefined && signalOf(action) !== undefined)) return { events: own, remark };
	const happened = signal === undefined ? deviceAtMs : (readMetadata(report.metadata)?.exitAtMs ?? null);
	const ofRollout = reportEvents(appId, report, versionName, { address, atMs: nowMs, deviceAtMs: happened });
	return { events: [...own, ...ofRollout], remark };
}

/**
 * Fields that a health signal adds to its event; undefined if the report is not a signal or repeats
 * one.
 */
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

/** By the device's clock: milliseconds, seconds, or a date and time; null if it is none of them. */
function timeOf(timestamp: StatsEvent["timestamp"]): number | null {
	const numeric = Number(timestamp ?? Number.NaN);
	const sent = Number.isNaN(numeric) && typeof timestamp === "string" ? Date.parse(timestamp) : numeric;
	if (!Number.isFinite(sent)) return null;
	const atMs = Math.round(sent < FIRST_TIME_MS ? sent * 1000 : sent);
	return Number.isSafeInteger(atMs) && atMs >= FIRST_TIME_MS ? atMs : null;
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

/**
 * The channel that serves the device now. In an app with more overrides than memory holds,
 * overrides do not count here.
 */
function channelOf(event: StatsEvent, snapshot: AppSnapshot): string {
	const platform = PLATFORMS.find((known) => known === event.platform);
	if (platform === undefined) return "";
	const device = { platform, defaultChannel: event.defaultChannel ?? "" };
	const override = snapshot.overrides?.get(event.device_id);
	return resolveChannel(decisionInput(snapshot, device, override), device)?.name ?? "";
}

/**
 * The same id for repeated reports of an event. An event without a time counts once per device and
 * day, because some clients send no time and all clients repeat requests.
 */
function eventId(event: StatsEvent, action: string, versionName: string, nowMs: number): string {
	const when = event.timestamp ?? `day ${dayOf(nowMs)}`;
	const content = [event.app_id, event.device_id, action, versionName, event.old_version_name ?? "", when];
	return bytesToHex(sha256(utf8ToBytes(JSON.stringify(content)))).slice(0, EVENT_ID_LENGTH);
}
