/**
 * POST /channel/what_if: who would get what if a channel were changed. The change is planned by the code that makes it, the devices are
 * those that were seen, and each is decided twice by the decision of the live check: as things are and as they would be. Nothing is
 * written. One request looks at so many devices and no more; the answer says where the next one goes on.
 */
import type { CompiledQuery } from "kysely";
import * as v from "valibot";
import { promoting } from "../api/bundle-signing";
import {
	channelBody,
	channelChangeReads,
	FORM_REFUSALS,
	formRequired,
	plannedChange,
	promotedBundles,
} from "../api/channel-change";
import { endpoint } from "../api/endpoint";
import { optional, uuid } from "../api/schemas";
import { appNotFound, appScope } from "../api/scope";
import { refuseSettings } from "../api/stock-settings";
import type { AppId } from "../authz/decide";
import type { ChannelValues, Platforms } from "../db/channels";
import { batchOrFail, type Database, guard } from "../db/client";
import { type FleetDevice, fleetPage } from "../db/devices";
import { bundlesAreSigned } from "../db/signing-keys";
import { type SnapshotBundle, type SnapshotChannel, snapshotBundles, snapshotStatements } from "../db/snapshot";
import { type AppSnapshot, assemble } from "../db/snapshot-cache";
import { DAY_MS } from "../domain/time";
import { BUILTIN, type Decision, decideUpdate } from "../domain/update-decision";
import { requiredForm } from "../domain/update-package";
import { readVersion } from "../domain/version";
import { type DeviceBody, decisionSnapshot, deviceOf, hasManifest, hasZip, PLATFORMS } from "./device";

/** Devices that one request reads: about three D1 rows and a tenth of a millisecond each. */
const PAGE_DEVICES = 5_000;
const MOST_EXAMPLES = 5;
/** Ids of rows begin with 1. */
const NOT_CREATED_YET = 0;

const told = v.strictObject({
	outcome: v.picklist(["update", "builtin", "none"]),
	version: v.nullable(v.string()),
	error: v.nullable(v.string()),
	kind: v.nullable(v.picklist(["up_to_date", "blocked", "failed"])),
	channel: v.nullable(v.string()),
	/** In which form an update is offered. */
	package: v.nullable(v.picklist(["all", "zip", "delta"])),
});
type Told = v.InferOutput<typeof told>;
export const outcomesSchema = v.array(
	v.strictObject({
		before: told,
		after: told,
		changed: v.boolean(),
		devices: v.number(),
		examples: v.array(v.string()),
	}),
);

export const whatIf = endpoint({
	method: "POST",
	path: "/channel/what_if",
	tag: "Channels",
	summary: "Ask who would get what if a channel were changed",
	description: [
		"The body is that of POST /channel, with `days`: each device that was seen in them (30 by default) is decided as things are and as they would be, and counted under both answers. An answer without an update has its `error` and `kind`: `up_to_date`, `blocked` by a rule of the channel, or `failed`. Nothing is written.",
		"`channel_devices` are the devices that the channel decides after the change. `first_seen_today` of them are new today (UTC): a rollout that starts today does not count them unless `rolloutCountNewDevices` is on.",
		"One request reads 5,000 devices in the order of their ids, which are random, so the counts of a large fleet are those of a fair sample (`sampled`); sending `after` with the `next` of an answer reads the following ones, and the counts of all answers add up to the whole fleet's. A new rollout draws its devices when it starts: its counts are those of one draw (`cohort_is_drawn_anew`).",
	].join("\n\n"),
	body: v.object({
		...channelBody.entries,
		days: v.optional(
			v.pipe(
				v.number(),
				v.integer("must be a whole number of days"),
				v.minValue(1, "must be at least 1"),
				v.maxValue(365, "must be at most 365"),
			),
			30,
		),
		after: optional(uuid),
	}),
	onlyReads: true,
	load: ({ body }, nowMs) => channelChangeReads(body, nowMs),
	access: {
		permissions: ["app.read_devices", "channel.read"],
		// What is told is of all of the app's channels, whichever is changed.
		scope: appScope("body.app_id"),
		choose: () => ["app.read_devices", "channel.read"],
	},
	response: v.strictObject({
		devices: v.number(),
		changed: v.number(),
		unjudged: v.number(),
		channel_devices: v.number(),
		first_seen_today: v.number(),
		sampled: v.boolean(),
		next: v.nullable(v.string()),
		cohort_is_drawn_anew: v.boolean(),
		outcomes: outcomesSchema,
	}),
	errors: [
		"bundle_not_found",
		"bundle_not_ready",
		"bundle_not_signed",
		"channel_delta_required",
		"channel_has_no_platform",
		"channel_zip_required",
		"missing_rollout_version",
		"setting_not_supported",
	],
	example: {
		body: { app_id: "com.example.app", channel: "production", version: "1.4.0", days: 30 },
		response: {
			devices: 1200,
			changed: 1100,
			unjudged: 3,
			channel_devices: 1150,
			first_seen_today: 12,
			sampled: false,
			next: null,
			cohort_is_drawn_anew: false,
			outcomes: [
				{
					before: {
						outcome: "none",
						version: null,
						error: "no_new_version_available",
						kind: "up_to_date",
						channel: "production",
						package: null,
					},
					after: {
						outcome: "update",
						version: "1.4.0",
						error: null,
						kind: null,
						channel: "production",
						package: "zip",
					},
					changed: true,
					devices: 1100,
					examples: ["b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61"],
				},
			],
		},
	},
	async handle({ db, deps, scope, input, loaded, nowMs }) {
		const { body } = input;
		refuseSettings("POST /channel", body);
		const [channel, stable, rollout] = [loaded[0].rows[0], loaded[1].rows[0], loaded[2].rows[0]];
		const protectedPublic = loaded[4].rows;
		const { values, taken } = plannedChange({ body, channel, stable, rollout, protectedPublic }, deps.newId(), nowMs);
		const app = { appId: scope.appId, publicAppId: body.app_id };
		const check = (after: AppSnapshot) => {
			if (Object.keys(values).length > 0) refuseMissingForm(after, body.channel);
		};
		const promoted = promotedBundles(values, channel);
		const change = { values, taken, promoted };
		return {
			...(await promoting({ deps, db }, scope.appId, promoted, (verified) =>
				whatWouldChange(db, app, body, { ...change, verified }, nowMs, check),
			)),
			cohort_is_drawn_anew: typeof values.rollout_id === "string",
		};
	},
});

/** Same check as `formGuards`, for the change itself. */
function refuseMissingForm({ channelsByName, bundles }: AppSnapshot, name: string): void {
	const channel = channelsByName.get(name);
	const form = requiredForm(channel?.update_package ?? "all");
	for (const id of [channel?.version_id, channel?.rollout_version_id]) {
		const bundle = id == null ? undefined : bundles.get(id);
		if (form === undefined || bundle === undefined) continue;
		if (!(form === "zip" ? hasZip(bundle) : hasManifest(bundle))) throw formRequired(form);
	}
}

/** Effect of a channel change on the app's devices: one page of devices, each decided before and after the change. */
export async function whatWouldChange(
	db: Database,
	{ appId, publicAppId }: { readonly appId: AppId; readonly publicAppId: string },
	{ channel, days, after: afterDevice }: { channel: string; days: number; after?: string | undefined },
	{
		values,
		taken,
		promoted,
		verified,
	}: {
		readonly values: ChannelValues;
		readonly taken: Platforms;
		readonly promoted: readonly number[];
		readonly verified: readonly CompiledQuery[];
	},
	nowMs: number,
	check: (after: AppSnapshot) => void = () => undefined,
) {
	const app = { appId, publicAppId };
	const [apps, channels, bundles, asked, fleet] = await batchOrFail(
		db,
		[
			...effectReads(app, bundlesOf(values), afterDevice),
			...verified,
			guard("bundle_signed", bundlesAreSigned(appId, promoted)),
		],
		FORM_REFUSALS,
	);
	return effectOf(
		[apps, channels, bundles, asked, fleet],
		app,
		{ channel, days, after: afterDevice },
		{ values, taken },
		nowMs,
		check,
	);
}

/** Bundles that a change newly points to. */
export const bundlesOf = ({ version_id, rollout_version_id }: ChannelValues): number[] =>
	[version_id, rollout_version_id].filter((id) => typeof id === "number");

/** Reads for `effectOf`: the app as it is, bundles that it would serve, and a page of its devices. */
export function effectReads(
	{ appId, publicAppId }: { readonly appId: AppId; readonly publicAppId: string },
	newBundles: readonly number[],
	afterDevice?: string,
) {
	const [app, channels, bundles] = snapshotStatements(publicAppId);
	const fleet = fleetPage(appId, afterDevice ?? "", PAGE_DEVICES + 1);
	return [app, channels, bundles, snapshotBundles(appId, newBundles), fleet] as const;
}

type RowsOf<Reads> = {
	readonly [Index in keyof Reads]: Reads[Index] extends CompiledQuery<infer Row> ? { readonly rows: Row[] } : never;
};

/** Each device of the page, decided before and after the change. */
export function effectOf(
	[apps, held, pointedTo, asked, fleet]: RowsOf<ReturnType<typeof effectReads>>,
	{ appId, publicAppId }: { readonly appId: AppId; readonly publicAppId: string },
	{ channel, days, after: afterDevice }: { channel: string; days: number; after?: string | undefined },
	{ values, taken }: { readonly values: ChannelValues; readonly taken: Platforms },
	nowMs: number,
	check: (after: AppSnapshot) => void = () => undefined,
) {
	const [found] = apps.rows;
	if (found === undefined) throw appNotFound();
	const allBundles = [...pointedTo.rows, ...asked.rows] as readonly SnapshotBundle[];
	const snapshotOf = (rows: readonly SnapshotChannel[]) => assemble(publicAppId, found, rows, allBundles, []);
	const before = snapshotOf(held.rows);
	const after = snapshotOf(changedChannels(held.rows, appId, channel, values, taken));
	check(after);

	const page = fleet.rows.slice(0, PAGE_DEVICES);
	const more = fleet.rows.length > PAGE_DEVICES;
	const seen = page.filter(({ last_seen_at_ms }) => (last_seen_at_ms ?? 0) >= nowMs - days * DAY_MS);
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
		outcomes: counted.map(({ first_seen_today: _, ...outcome }) => outcome),
	};
}

/** The app's channels as the change would leave them. */
function changedChannels(
	channels: readonly SnapshotChannel[],
	appId: AppId,
	name: string,
	values: ChannelValues,
	taken: Platforms,
): SnapshotChannel[] {
	const changed = { ...(channels.find((channel) => channel.name === name) ?? newChannel(appId, name)), ...values };
	const others = channels.filter((channel) => channel.name !== name).map((channel) => withoutPlatforms(channel, taken));
	return [...others, changed as SnapshotChannel];
}

/** What `yieldPublicPlatforms` writes. */
function withoutPlatforms(channel: SnapshotChannel, taken: Platforms): SnapshotChannel {
	if (channel.public === 0 || !PLATFORMS.some((platform) => taken[platform] === 1 && channel[platform] === 1)) {
		return channel;
	}
	const left = Object.fromEntries(
		PLATFORMS.map((platform) => [platform, taken[platform] === 1 ? 0 : channel[platform]]),
	) as unknown as Platforms;
	return { ...channel, ...left, public: left.ios + left.android + left.electron > 0 ? 1 : 0 };
}

/** A channel as the database makes it where nothing is said. */
function newChannel(appId: string, name: string): SnapshotChannel {
	return {
		id: NOT_CREATED_YET,
		app_id: appId,
		name,
		version_id: null,
		is_preview: 0,
		public: 0,
		ios: 1,
		android: 1,
		electron: 1,
		allow_device_self_set: 0,
		allow_emulator: 1,
		allow_device: 1,
		allow_dev: 1,
		allow_prod: 1,
		disable_auto_update: "major",
		disable_auto_update_under_native: 1,
		update_package: "all",
		rollout_version_id: null,
		rollout_id: null,
		rollout_percentage_bps: 0,
		rollout_enabled: 0,
		rollout_paused_at_ms: null,
		rollout_pause_reason: null,
		created_by: "",
		created_by_key: null,
		created_at_ms: 0,
		updated_at_ms: 0,
	};
}

type AskingDevice = FleetDevice & {
	readonly platform: DeviceBody["platform"];
	readonly version_build: string;
	readonly plugin_version: string;
};

/** Whether the device could ask as it was last seen; one that only sent reports may have said too little. */
function canAsk(device: FleetDevice): device is AskingDevice {
	return (
		(PLATFORMS as readonly (string | null)[]).includes(device.platform) &&
		device.version_build !== null &&
		device.plugin_version !== null &&
		readVersion(device.plugin_version) !== null
	);
}

interface Outcome {
	readonly before: Told;
	readonly after: Told;
	readonly changed: boolean;
	devices: number;
	first_seen_today: number;
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
		const pair = { before: toldTo(before, publicAppId, device), after: toldTo(after, publicAppId, device) };
		const key = JSON.stringify(pair);
		const known = outcomes.get(key);
		const outcome = known ?? {
			...pair,
			changed: JSON.stringify(pair.before) !== JSON.stringify(pair.after),
			devices: 0,
			first_seen_today: 0,
			examples: [],
		};
		if (known === undefined) outcomes.set(key, outcome);
		outcome.devices += 1;
		if (device.created_at_ms >= todayMs) outcome.first_seen_today += 1;
		if (outcome.examples.length < MOST_EXAMPLES) outcome.examples.push(device.device_id);
	}
	return [...outcomes.values()].sort((left, right) => right.devices - left.devices);
}

/** What the device would be told if it asked as it was last seen. */
function toldTo(snapshot: AppSnapshot, publicAppId: string, row: AskingDevice): Told {
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
	const override = {
		device_id: row.device_id,
		channel_id: row.override_channel_id,
		version_id: row.override_version_id,
	};
	return toldBy(decideUpdate(decisionSnapshot(snapshot, device, override, row.runs_ready_bundle === 1), device));
}

function toldBy(decision: Decision): Told {
	return {
		outcome: decision.outcome,
		version: decision.outcome === "update" ? decision.bundle.version : null,
		error: decision.outcome === "none" ? decision.error : null,
		kind: decision.outcome === "none" ? decision.kind : null,
		channel: decision.resolved?.name ?? null,
		package: decision.outcome === "update" ? decision.form : null,
	};
}
