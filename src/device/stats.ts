/**
 * POST /stats: what happened on devices. One object or an array; a client that hears nothing sends again, so an event has an id of its
 * own content and is counted once. One bad event never costs the others theirs: a batch answers for each. Unknown actions are heard,
 * too: they show that the device is there.
 */
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import * as v from "valibot";
import { type Context, endpoint } from "../api/endpoint";
import { optional, publicAppId, uuid } from "../api/schemas";
import type { AppSnapshot } from "../db/snapshot-cache";
import { BUILTIN, type Device, decideUpdate } from "../domain/update-decision";
import { invalidRequest } from "../errors";
import { dayOf } from "../events/days";
import type { CountedMetric, DeviceEvent } from "../events/messages";
import {
	decisionSnapshot,
	EXAMPLE_DEVICE,
	LONGEST_CUSTOM_ID,
	LONGEST_OS_VERSION,
	PLATFORMS,
	recordedReport,
} from "./device";
import { BLOCKED, isBlocked } from "./review-networks";
import { hasRollout, reportEvidence, withoutOvertaken } from "./rollout-evidence";

const MOST_EVENTS = 1_000;
const BODY_LIMIT_BYTES = 256 * 1024;
/** A device is of one app. */
const MOST_APPS = 4;
const EVENT_ID_LENGTH = 32;

/** What an action counts as. `get` is a download that is whole, not an offer. */
const METRIC_OF_ACTION: Readonly<Record<string, CountedMetric>> = {
	download_zip_start: "start",
	download_manifest_start: "start",
	set: "install",
	download_complete: "get",
	set_fail: "fail",
	update_fail: "fail",
	download_fail: "fail",
};

/** Of other actions the version is one that is downloaded, removed or failed, or that ran when the app ended. */
const VERSION_RUNS = new Set([
	"set",
	"reset",
	"ping",
	"app_moved_to_foreground",
	"app_moved_to_background",
	"app_launch_start",
	"app_launch_ready",
]);

/** From here on the device runs the version. */
const MOVES = new Set(["set", "reset"]);

/** What phones say of themselves is kept up to this length; too long is no reason not to hear what happened. */
const anyText = (longest: number) =>
	optional(
		v.pipe(
			v.string(),
			v.transform((value) => value.slice(0, longest)),
		),
	);

const eventSchema = v.object({
	app_id: publicAppId,
	device_id: uuid,
	platform: anyText(64),
	version_name: anyText(512),
	old_version_name: anyText(512),
	version_os: anyText(LONGEST_OS_VERSION),
	version_build: anyText(128),
	version_code: anyText(128),
	plugin_version: anyText(128),
	is_emulator: optional(v.boolean()),
	is_prod: optional(v.boolean()),
	action: anyText(128),
	install_source: anyText(64),
	custom_id: anyText(LONGEST_CUSTOM_ID),
	key_id: anyText(64),
	channel: anyText(128),
	defaultChannel: anyText(512),
	timestamp: optional(v.union([v.number(), v.string()])),
});
type StatsEvent = v.InferOutput<typeof eventSchema>;

const oneAnswer = v.strictObject({ status: v.literal("ok") });
const refusedAnswer = v.strictObject({ status: v.literal("error"), error: v.string(), message: v.string() });
const batchAnswer = v.strictObject({
	status: v.literal("ok"),
	results: v.array(
		v.strictObject({
			status: v.picklist(["ok", "error"]),
			index: v.number(),
			error: v.optional(v.string()),
			message: v.optional(v.string()),
		}),
	),
});

export const reportStats = endpoint({
	method: "POST",
	path: "/stats",
	tag: "Devices",
	summary: "Tell, as a device, what happened",
	description:
		"One event or an array of them, of at most four apps. An event that was sent already is answered like a new one and counted once. In a batch every event has its own result, and a bad one is not a reason to send the others again.",
	access: { public: "Devices have no key. Nothing is told but whether the event was understood." },
	body: v.union([
		v.pipe(v.array(v.unknown()), v.maxLength(MOST_EVENTS, `must have at most ${MOST_EVENTS} events`)),
		eventSchema,
	]),
	bodyLimitBytes: BODY_LIMIT_BYTES,
	response: v.union([oneAnswer, refusedAnswer, batchAnswer]),
	errors: [],
	example: {
		body: { ...EXAMPLE_DEVICE, action: "set", version_name: "1.4.0", timestamp: 1_795_248_000_000 },
		response: { status: "ok" },
	},
	async handle({ input, ...context }) {
		const items = Array.isArray(input.body) ? input.body : [input.body];
		const parsed = items.map((item) => v.safeParse(eventSchema, item));
		const reports = parsed.flatMap(({ success, output }) => (success ? [output] : []));
		const accepted = await accept(context, reports);
		const refusals = parsed.map((result) =>
			result.success ? accepted.get(result.output.app_id) : invalid(result.issues),
		);
		if (!Array.isArray(input.body)) {
			const [refused] = refusals;
			return refused === undefined ? { status: "ok" as const } : { status: "error" as const, ...refused };
		}
		const results = refusals.map((refused, index) =>
			refused === undefined ? { status: "ok" as const, index } : { status: "error" as const, index, ...refused },
		);
		return { status: "ok" as const, results };
	},
});

interface Refused {
	readonly error: string;
	readonly message: string;
}

/**
 * Puts the reports on their way. Apps are looked up together, and addresses are held to their limits before anything is kept.
 * @returns why all of an app's reports are refused, by app
 * @throws {ApiError} `too_many_requests`, `invalid_request`
 */
async function accept(
	{
		db,
		request,
		snapshots,
		gather,
		strangers,
		nowMs,
		waitUntil,
		deps,
		actor,
	}: Pick<
		Context<string, undefined, undefined, undefined, readonly []>,
		"db" | "request" | "snapshots" | "gather" | "strangers" | "nowMs" | "waitUntil" | "deps" | "actor"
	>,
	reports: readonly StatsEvent[],
): Promise<ReadonlyMap<string, Refused>> {
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
		if (snapshot === null) {
			refused.set(appId, { error: "app_not_found", message: "There is no such app on this server." });
		} else if (isBlocked(deps.config, snapshot, request)) refused.set(appId, BLOCKED);
		else {
			const stored = snapshot.app.app_id;
			const devices = new Set(own.map(({ device_id }) => device_id).filter((device) => !gather.knows(stored, device)));
			await strangers.admitNewDevices(actor.ipAddress, stored, devices.size, nowMs);
			taken.set(appId, snapshot);
		}
	}
	const events = reports.flatMap((report) => {
		const snapshot = taken.get(report.app_id);
		if (snapshot === undefined) return [];
		const appId = snapshot.app.app_id;
		const own = eventsOf(recordedReport(report, snapshot), snapshot, nowMs, deps.newId);
		if (own.length > 1 && strangers.takeReports(actor.ipAddress, appId, 1, nowMs) === 0) {
			gather.lose(appId, own.length, waitUntil);
			return [];
		}
		return hasRollout(snapshot)
			? [...own, ...reportEvidence(appId, report, versionOf(report), actor.ipAddress, nowMs)]
			: own;
	});
	gather(strangers.markCrowded(withoutOvertaken(events), actor.ipAddress, nowMs), waitUntil);
	return refused;
}

function invalid(issues: readonly v.BaseIssue<unknown>[]) {
	const [issue] = issues;
	const path = issue === undefined ? "" : (v.getDotPath(issue) ?? "");
	return { error: "invalid_event", message: `${path === "" ? "the event" : path} is not as it should be` };
}

/** A failure of a single file names it after the version. */
function versionOf(event: StatsEvent): string {
	const [versionName = ""] = (event.version_name ?? "").split(":");
	return versionName;
}

function eventsOf(event: StatsEvent, snapshot: AppSnapshot, nowMs: number, newId: () => string): DeviceEvent[] {
	const versionName = versionOf(event);
	const action = event.action ?? "";
	const metric = Object.hasOwn(METRIC_OF_ACTION, action) ? METRIC_OF_ACTION[action] : undefined;
	const seen: DeviceEvent = {
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
	if (metric === undefined) return [seen];
	const deviceAtMs = Number(event.timestamp ?? Number.NaN);
	const counted: DeviceEvent = {
		type: "count",
		id: eventId(event, versionName, nowMs, newId),
		appId: event.app_id,
		deviceId: event.device_id,
		versionName,
		channelName: channelOf(event, snapshot),
		metric,
		atMs: nowMs,
		deviceAtMs: Number.isSafeInteger(deviceAtMs) && deviceAtMs > 0 ? deviceAtMs : null,
		// Electron's updater does not tell when a download starts.
		timed: event.platform !== "electron",
	};
	return [seen, counted];
}

/**
 * The channel that decides for the device now: what it runs and which plugin it has do not change that. Of an app with more overrides
 * than are held in memory, what the channels alone say.
 */
function channelOf(event: StatsEvent, snapshot: AppSnapshot): string {
	const platform = PLATFORMS.find((known) => known === event.platform);
	if (platform === undefined) return "";
	const device: Device = {
		deviceId: event.device_id,
		platform,
		versionName: BUILTIN,
		versionBuild: "1.0.0",
		pluginVersion: "8.0.0",
		isEmulator: event.is_emulator ?? false,
		isProd: event.is_prod ?? true,
		defaultChannel: event.defaultChannel ?? "",
		keyId: event.key_id,
	};
	const override = snapshot.overrides?.get(event.device_id);
	return decideUpdate(decisionSnapshot(snapshot, device, override, true), device).resolved?.name ?? "";
}

/**
 * The same for the same event, however often it is sent. Without a time of its own an event of a device counts once a day: some clients
 * send no time, and all send again what they do not know to have arrived.
 */
function eventId(event: StatsEvent, versionName: string, nowMs: number, newId: () => string): string {
	if (event.action === undefined) return newId();
	const when = event.timestamp ?? `day ${dayOf(nowMs)}`;
	const content = [event.app_id, event.device_id, event.action, versionName, event.old_version_name ?? "", when];
	return bytesToHex(sha256(utf8ToBytes(JSON.stringify(content)))).slice(0, EVENT_ID_LENGTH);
}
