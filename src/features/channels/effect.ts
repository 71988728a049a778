/**
 * The effect of a channel change on the devices of the app: each device of a page is decided twice
 * by the decision of the live check, with the channels as they are and as the change would leave
 * them. Writes nothing.
 */
import type { CompiledQuery } from "kysely";
import * as v from "valibot";
import type { AppId } from "../../authz/decide";
import type { ChannelRow, ChannelValues, Platforms } from "../../db/channels";
import type { Database } from "../../db/client";
import { decidedChannels } from "../../db/decided-channels";
import { fleetPage, type ReportedDevice } from "../../db/fleet";
import type { SnapshotChannelRow } from "../../db/snapshot-load";
import { openTelemetry, tryTelemetry } from "../../db/telemetry-reads";
import type { Deps } from "../../deps";
import { REFRESHED_AFTER_DAYS } from "../../domain/statistics/device-record";
import { DAY_MS } from "../../domain/time";
import { CHANNEL_FIELDS, defaultsOf } from "../../domain/updates/channel-fields";
import { type Decision, decideUpdate } from "../../domain/updates/decision";
import { BUILTIN, PLATFORMS } from "../../domain/updates/model";
import { REFUSAL_CODES, REFUSAL_KINDS } from "../../domain/updates/refusals";
import { readVersion } from "../../domain/updates/version";
import { appNotFound } from "../../http/scope";
import { type AppSnapshot, assembleSnapshot } from "../../snapshots/app-snapshot";
import { batchPromoting, promotingRules } from "../signing/verify";
import { decisionInput, deviceOf } from "../updates/device";
import type { DeviceBody } from "../updates/device-body";
import { promotedBundles } from "./needs";
import { newBundles } from "./values";

/** Devices that one request reads: a row and 0.1 ms each. */
const PAGE_DEVICES = 5_000;
const MOST_EXAMPLES = 5;
/** Ids begin with 1. */
const NOT_CREATED_YET = 0;

const answer = v.strictObject({
	outcome: v.picklist(["update", "builtin", "none"]),
	version: v.nullable(v.string()),
	error: v.nullable(v.picklist(REFUSAL_CODES)),
	kind: v.nullable(v.picklist(REFUSAL_KINDS)),
	channel: v.nullable(v.string()),
	/** Form of the offered update. */
	package: v.nullable(v.picklist(["all", "zip", "delta"])),
	/** The bundle is set for the device, so no channel decides it. */
	pinned: v.boolean(),
});
type Answer = v.InferOutput<typeof answer>;
export const outcomesSchema = v.array(
	v.strictObject({
		before: answer,
		after: answer,
		changed: v.boolean(),
		devices: v.number(),
		examples: v.array(v.string()),
	}),
);

/** Devices that the channel decides after the change, by the version of their store build. */
export const storeBuildsSchema = v.array(
	v.strictObject({
		version_build: v.string(),
		devices: v.number(),
		/** Devices that are offered a bundle, by its version. */
		offered: v.record(v.string(), v.number()),
		up_to_date: v.number(),
		/** Devices that get nothing, by the error of their answer. */
		refused: v.record(v.string(), v.number()),
	}),
);
/** The most frequent store builds; an app has few, and anybody can report others. */
const MOST_STORE_BUILDS = 50;

/** Devices that the change gives another version, by the one that they run. */
export const fromVersionsSchema = v.array(v.strictObject({ version_name: v.string(), devices: v.number() }));
/** The most frequent versions, as with store builds. */
const MOST_VERSIONS = 50;

interface EffectApp {
	readonly appId: AppId;
	readonly publicAppId: string;
	/** Binding of the telemetry database that has its devices. */
	readonly telemetry_binding: string;
}

/** Which page of devices is decided: those seen in the last `days`, after the device `after`. */
interface EffectQuery {
	/** Name of the changed channel. */
	readonly channel: string;
	readonly days: number;
	readonly after?: string | undefined;
	/** Devices of a page; `PAGE_DEVICES` unless it says otherwise. */
	readonly most?: number | undefined;
}

interface PlannedChange {
	readonly values: ChannelValues;
	/** Platforms that other channels lose. */
	readonly taken: Platforms;
}

/**
 * Reads and computes the effect in one round trip, and one more to the telemetry database.
 * @param check validates the app after the change
 * @throws {ApiError} `bundle_not_signed`, as the change itself would
 */
export async function readEffect(
	context: { readonly deps: Pick<Deps, "bundles" | "config" | "telemetry">; readonly db: Database },
	app: EffectApp,
	asked: EffectQuery,
	change: PlannedChange & { readonly row: ChannelRow | undefined },
	nowMs: number,
	check?: (after: AppSnapshot) => void,
) {
	const signatures = promotingRules(app.appId, promotedBundles(change.values, change.row));
	const reported = await readReported(context.deps, app, asked.after);
	const reads = decidedChannels(app, [asked.channel], reported, newBundles(change.values));
	const statements = [...reads, ...signatures.guards] as const;
	const [apps, channels, bundles, overrides, ready] = await batchPromoting(context, signatures, statements);
	return effectOf([apps, channels, bundles, overrides, ready], reported, app, asked, change, nowMs, check);
}

/**
 * The first page of the app's devices; undefined if the telemetry database does not answer in time.
 */
export function tryReported(
	deps: Pick<Deps, "telemetry" | "deadline" | "log">,
	{ appId, telemetry_binding }: EffectApp,
	most = PAGE_DEVICES,
) {
	return tryTelemetry(deps, telemetry_binding, fleetPage(appId, "", most + 1));
}

async function readReported(
	deps: Pick<Deps, "telemetry">,
	{ appId, telemetry_binding }: EffectApp,
	afterDevice?: string,
): Promise<readonly ReportedDevice[]> {
	const [page] = await openTelemetry(deps, telemetry_binding).batch([
		fleetPage(appId, afterDevice ?? "", PAGE_DEVICES + 1),
	]);
	return page.rows;
}

type RowsOf<Reads> = {
	readonly [Index in keyof Reads]: Reads[Index] extends CompiledQuery<infer Row> ? { readonly rows: Row[] } : never;
};

/** Counts of the outcomes before and after the change, the most frequent first. */
export function effectOf(
	[apps, held, served, overrides, ready]: RowsOf<ReturnType<typeof decidedChannels>>,
	reported: readonly ReportedDevice[],
	{ publicAppId }: EffectApp,
	{ channel, days, after: afterDevice, most = PAGE_DEVICES }: EffectQuery,
	{ values, taken }: PlannedChange,
	nowMs: number,
	check: (after: AppSnapshot) => void = () => undefined,
) {
	const [app] = apps.rows;
	if (app === undefined) throw appNotFound();
	const names = ready.rows.map(({ name }) => name);
	const snapshotOf = (channels: readonly SnapshotChannelRow[]) =>
		assembleSnapshot({ app, channels, bundles: served.rows, overrides: overrides.rows, names, zipOnly: [] });
	const before = snapshotOf(held.rows);
	const after = snapshotOf(changedChannels(held.rows, channel, values, taken));
	check(after);

	const page = reported.slice(0, most);
	const more = reported.length > most;
	// A device that changes nothing may have been seen later than its row says.
	const sinceMs = nowMs - (days + REFRESHED_AFTER_DAYS) * DAY_MS;
	const seen = page.filter(({ last_seen_at_ms }) => (last_seen_at_ms ?? 0) >= sinceMs);
	const judged = seen.filter(canAsk);
	const counted = countOutcomes(before, after, publicAppId, judged, nowMs - (nowMs % DAY_MS));
	const ofChannel = counted.filter((outcome) => outcome.after.channel === channel);
	const sum = (of: readonly Outcome[], figure: "devices" | "first_seen_today") =>
		of.reduce((total, outcome) => total + outcome[figure], 0);
	return {
		devices: seen.length,
		changed: sum(
			counted.filter(({ changed }) => changed),
			"devices",
		),
		unjudged: seen.length - judged.length,
		channel_devices: sum(ofChannel, "devices"),
		first_seen_today: sum(ofChannel, "first_seen_today"),
		sampled: more || afterDevice !== undefined,
		next: more ? (page.at(-1)?.device_id ?? null) : null,
		store_builds: countStoreBuilds(after, publicAppId, judged, channel),
		from_versions: sumVersions(counted),
		outcomes: counted.map(({ first_seen_today: _, versions: __, ...outcome }) => outcome),
	};
}

/** The app's channels as the change would leave them. */
function changedChannels(
	channels: readonly SnapshotChannelRow[],
	name: string,
	values: ChannelValues,
	taken: Platforms,
): SnapshotChannelRow[] {
	const changed = { ...(channels.find((channel) => channel.name === name) ?? newChannel(name)), ...values };
	const others = channels.filter((channel) => channel.name !== name).map((channel) => withoutPlatforms(channel, taken));
	return [...others, changed as SnapshotChannelRow];
}

/** The effect of `yieldPublicPlatforms`. */
function withoutPlatforms(channel: SnapshotChannelRow, taken: Platforms): SnapshotChannelRow {
	if (channel.public === 0 || !PLATFORMS.some((platform) => taken[platform] === 1 && channel[platform] === 1)) {
		return channel;
	}
	const left = Object.fromEntries(
		PLATFORMS.map((platform) => [platform, taken[platform] === 1 ? 0 : channel[platform]]),
	) as unknown as Platforms;
	return { ...channel, ...left, public: left.ios + left.android + left.electron > 0 ? 1 : 0 };
}

/** A channel with the defaults of the database. */
function newChannel(name: string): SnapshotChannelRow {
	return {
		...defaultsOf(CHANNEL_FIELDS),
		id: NOT_CREATED_YET,
		name,
		is_preview: 0,
		named_by_fleet_at_ms: null,
		page_id: null,
	};
}

type AskingDevice = ReportedDevice & {
	readonly platform: DeviceBody["platform"];
	readonly version_build: string;
	readonly plugin_version: string;
};

/**
 * Whether the last known state of the device makes an update check; a device that only sent reports
 * may lack fields.
 */
function canAsk(device: ReportedDevice): device is AskingDevice {
	return (
		(PLATFORMS as readonly (string | null)[]).includes(device.platform) &&
		device.version_build !== null &&
		device.plugin_version !== null &&
		readVersion(device.plugin_version) !== null
	);
}

interface Outcome {
	readonly before: Answer;
	readonly after: Answer;
	readonly changed: boolean;
	devices: number;
	first_seen_today: number;
	/** Devices by the version that they run. */
	readonly versions: Map<string, number>;
	readonly examples: string[];
}

/** The most frequent first. */
function countOutcomes(
	before: AppSnapshot,
	after: AppSnapshot,
	publicAppId: string,
	devices: readonly AskingDevice[],
	todayMs: number,
): Outcome[] {
	const outcomes = new Map<string, Outcome>();
	for (const device of devices) {
		const pair = { before: answerTo(before, publicAppId, device), after: answerTo(after, publicAppId, device) };
		const key = JSON.stringify(pair);
		const known = outcomes.get(key);
		const outcome = known ?? {
			...pair,
			changed: JSON.stringify(pair.before) !== JSON.stringify(pair.after),
			devices: 0,
			first_seen_today: 0,
			versions: new Map<string, number>(),
			examples: [],
		};
		if (known === undefined) outcomes.set(key, outcome);
		outcome.devices += 1;
		const version = device.version_name ?? BUILTIN;
		outcome.versions.set(version, (outcome.versions.get(version) ?? 0) + 1);
		if (device.created_at_ms >= todayMs) outcome.first_seen_today += 1;
		if (outcome.examples.length < MOST_EXAMPLES) outcome.examples.push(device.device_id);
	}
	return [...outcomes.values()].sort((left, right) => right.devices - left.devices);
}

/**
 * Versions that devices leave because of the change, the most frequent first. A device that would
 * get the same bundle without it is not counted.
 */
function sumVersions(outcomes: readonly Outcome[]): v.InferOutput<typeof fromVersionsSchema> {
	const sums = new Map<string, number>();
	for (const { before, after, versions } of outcomes) {
		if (after.outcome === "none" || (before.outcome === after.outcome && before.version === after.version)) continue;
		for (const [version, devices] of versions) sums.set(version, (sums.get(version) ?? 0) + devices);
	}
	return [...sums]
		.map(([version_name, devices]) => ({ version_name, devices }))
		.sort((one, other) => other.devices - one.devices)
		.slice(0, MOST_VERSIONS);
}

/** The most frequent first. */
function countStoreBuilds(
	after: AppSnapshot,
	publicAppId: string,
	devices: readonly AskingDevice[],
	channel: string,
): v.InferOutput<typeof storeBuildsSchema> {
	const builds = new Map<string, v.InferOutput<typeof storeBuildsSchema>[number]>();
	for (const device of devices) {
		const { channel: decided, version, error, kind } = answerTo(after, publicAppId, device);
		if (decided !== channel) continue;
		const { version_build } = device;
		const build = builds.get(version_build) ?? { version_build, devices: 0, offered: {}, up_to_date: 0, refused: {} };
		builds.set(version_build, build);
		build.devices += 1;
		if (version !== null) build.offered[version] = (build.offered[version] ?? 0) + 1;
		else if (kind === "up_to_date") build.up_to_date += 1;
		else if (error !== null) build.refused[error] = (build.refused[error] ?? 0) + 1;
	}
	return [...builds.values()].sort((one, other) => other.devices - one.devices).slice(0, MOST_STORE_BUILDS);
}

/** The answer to an update check with the last known state of the device. */
function answerTo(snapshot: AppSnapshot, publicAppId: string, row: AskingDevice): Answer {
	const device = deviceOf({
		app_id: publicAppId,
		device_id: row.device_id,
		platform: row.platform,
		version_name: row.version_name ?? BUILTIN,
		version_build: row.version_build,
		plugin_version: row.plugin_version,
		is_emulator: row.is_emulator === 1,
		is_prod: row.is_prod !== 0,
		defaultChannel: row.default_channel ?? undefined,
		key_id: row.key_id ?? undefined,
		custom_id: undefined,
		install_source: undefined,
		version_os: undefined,
		version_code: undefined,
	});
	const override = snapshot.overrides?.get(row.device_id);
	const runsReadyBundle = snapshot.readyVersions.get(device.versionName);
	return answerOf(decideUpdate(decisionInput(snapshot, device, override, runsReadyBundle), device));
}

function answerOf(decision: Decision): Answer {
	return {
		outcome: decision.outcome,
		version: decision.outcome === "update" ? decision.bundle.version : null,
		error: decision.outcome === "none" ? decision.error : null,
		kind: decision.outcome === "none" ? decision.kind : null,
		channel: decision.resolved?.name ?? null,
		package: decision.outcome === "update" ? decision.form : null,
		pinned: decision.targetBy === "override",
	};
}
