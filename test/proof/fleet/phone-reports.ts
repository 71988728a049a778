/**
 * Reports of a device: the plugin's queue, reports that are sent alone or twice, and what the truth
 * records when the product first receives them. A repetition is not recorded.
 */
import { DAY_MS } from "../../../src/domain/time";
import { infoOf, type Phone } from "./phone";
import { post, type SessionContext } from "./phone-requests";
import { below, happens } from "./random";
import type { ReportedEvent } from "./truth";

/** Size of the plugin's report queue. */
const MOST_PENDING = 200;
/** Probability that the answer to reports is lost, so the plugin sends the reports again. */
export const UNHEARD = 0.06;

/** Notes the fields that every request of the device carries. */
export function noteReport(phone: Phone, runs?: string): void {
	const { known } = phone;
	known.versionBuild = phone.build;
	known.osVersion = phone.os;
	known.pluginVersion = phone.plugin;
	if (phone.customId !== "") known.customId = phone.customId;
	if (runs !== undefined) known.versionName = runs;
}

/** Puts a report into the plugin's queue. */
export function note(phone: Phone, context: SessionContext, action: string, versionName: string): void {
	// Two reports of a device never have the same timestamp.
	const timestamp = Math.max(phone.lastTimestamp + 1, context.nowMs + phone.clockAheadMs + below(phone, 20_000));
	phone.lastTimestamp = timestamp;
	phone.pending.push({ action, versionName, timestamp });
	if (phone.pending.length > MOST_PENDING) phone.pending.shift();
}

/** Sends the queue as one array, and again if the answer is lost. */
export async function flush(phone: Phone, context: SessionContext): Promise<void> {
	const events = phone.pending;
	if (events.length === 0) return;
	phone.pending = [];
	const body = events.map((event) => bodyOf(phone, event));
	await post(phone, context, "/stats", body);
	hear(phone, context, events);
	if (happens(phone, UNHEARD)) await post(phone, context, "/stats", body);
	// Two copies arrive concurrently.
	if (happens(phone, UNHEARD)) {
		await Promise.all([post(phone, context, "/stats", body), post(phone, context, "/stats", body)]);
	}
}

/** Sends one report without a timestamp immediately, as an object. */
export async function reportAlone(
	phone: Phone,
	context: SessionContext,
	action: string,
	versionName: string,
	twice = false,
): Promise<void> {
	const event = { action, versionName, timestamp: undefined };
	const body = bodyOf(phone, event);
	await post(phone, context, "/stats", body);
	hear(phone, context, [event]);
	if (twice) await post(phone, context, "/stats", body);
}

function bodyOf(phone: Phone, { action, versionName, timestamp }: ReportedEvent): Record<string, unknown> {
	const event = { ...infoOf(phone), version_name: versionName, old_version_name: "", action };
	return timestamp === undefined ? event : { ...event, timestamp };
}

function hear(phone: Phone, context: SessionContext, events: readonly ReportedEvent[]): void {
	const { truth } = phone.app;
	const { nowMs } = context;
	const id = phone.app.decidingChannel(phone.deviceId, phone.platform, phone.defaultChannel);
	const channel = id === null ? "" : (truth.channels.get(id) ?? "");
	noteReport(phone);
	for (const event of events) {
		if (context.address === undefined) followRollout(phone, event, nowMs);
		if (isCounted(event, nowMs)) {
			truth.reported(phone.number, event, nowMs, channel);
			if (event.action === "set") installed(phone, event.versionName, nowMs);
		}
		if (RUNS.has(event.action)) noteReport(phone, event.versionName);
	}
	truth.seen(phone.number, nowMs);
}

/** Days of EVENT_MEMORY_DAYS. */
const REMEMBERED_DAYS = 14;

/**
 * A report of an earlier day, by the device's clock, may have been counted before. A clock that is
 * a year behind is never counted.
 */
function isCounted({ timestamp }: ReportedEvent, nowMs: number): boolean {
	return timestamp === undefined || Math.floor(timestamp / DAY_MS) >= Math.floor(nowMs / DAY_MS) - REMEMBERED_DAYS;
}

const OUTCOMES: Readonly<Record<string, "installed" | "failed" | "crashed" | "errored">> = {
	set: "installed",
	set_fail: "failed",
	update_fail: "failed",
	download_fail: "failed",
	app_crash: "crashed",
	app_crash_native: "crashed",
	app_anr: "crashed",
	webview_javascript_error: "errored",
};

function followRollout({ app, number }: Phone, { action, versionName }: ReportedEvent, nowMs: number): void {
	const outcome = OUTCOMES[action];
	if (outcome !== undefined && app.rollout?.version === versionName) app.rollout.reports(number, outcome, nowMs);
}

/** Sends a false report about a device, usually from another address. */
export async function reportFalsely(
	phone: Phone,
	action: string,
	versionName: string,
	context: SessionContext,
): Promise<void> {
	note(phone, context, action, versionName);
	await flush(phone, context);
	phone.busyUntilMs = context.nowMs;
}

/** The install time runs from the last reported start of the download to the reported `set`. */
function installed(phone: Phone, version: string, nowMs: number): void {
	const startedMs = phone.started.get(version);
	if (startedMs === undefined) return;
	phone.started.delete(version);
	phone.app.truth.installTook(version, nowMs - startedMs, nowMs);
}

/** Actions whose version the device runs. That of a crash ran when the app ended. */
const RUNS = new Set(["set", "reset", "app_moved_to_foreground", "app_moved_to_background"]);
