/**
 * What devices send about themselves, and how a snapshot of their app answers them. The live check, its explanation and the channel
 * endpoints all resolve through here, so they cannot disagree.
 */
import * as v from "valibot";
import { optional, publicAppId, uuid } from "../api/schemas";
import type { Database } from "../db/client";
import { channelOf, type SnapshotBundle, type SnapshotChannel, type SnapshotOverride } from "../db/snapshot";
import type { AppSnapshot, SnapshotCache } from "../db/snapshot-cache";
import {
	BUILTIN,
	type Bundle,
	type Channel,
	type Decision,
	type Device,
	decideUpdate,
	runsStoreBuild,
	type Snapshot,
} from "../domain/update-decision";
import { atLeastForMajor, readVersion } from "../domain/version";
import type { DeviceSeen } from "../events/messages";

export const PLATFORMS = ["ios", "android", "electron"] as const;
export const textUpTo = (longest: number) =>
	v.pipe(v.string(), v.maxLength(longest, `must have at most ${longest} characters`));
const shortText = textUpTo(512);
/** The app's own text, of which so much is kept. */
const ownText = (longest: number) =>
	v.pipe(
		v.string(),
		v.transform((value) => value.slice(0, longest)),
	);
const versionText = v.pipe(
	v.string(),
	v.minLength(1, "must not be empty"),
	v.maxLength(128, "must have at most 128 characters"),
);

/** Longer texts are cut, alike in checks and reports; what is stored of a device stays below a kilobyte. */
export const LONGEST_CUSTOM_ID = 128;
export const LONGEST_OS_VERSION = 64;

/** A device sends some four hundred bytes. */
export const CHECK_LIMIT_BYTES = 16 * 1024;

/** The body of an update check. */
export const deviceFields = {
	app_id: publicAppId,
	device_id: uuid,
	// Empty is the store build: some clients have no name for it.
	version_name: textUpTo(128),
	version_build: versionText,
	platform: v.picklist(PLATFORMS, `must be one of ${PLATFORMS.join(", ")}`),
	plugin_version: v.pipe(
		versionText,
		v.check((version) => readVersion(version) !== null, 'must be a version such as "8.51.23"'),
	),
	is_emulator: optional(v.boolean()),
	is_prod: optional(v.boolean()),
	defaultChannel: optional(shortText),
	key_id: optional(textUpTo(20)),
	// The app's own texts, which decide nothing: too long is no reason to go without updates.
	custom_id: optional(ownText(LONGEST_CUSTOM_ID)),
	install_source: optional(textUpTo(64)),
	version_os: optional(ownText(LONGEST_OS_VERSION)),
	version_code: optional(ownText(64)),
};

const deviceObject = v.object(deviceFields);
export type DeviceBody = v.InferOutput<typeof deviceObject>;

export const EXAMPLE_DEVICE = {
	app_id: "com.example.app",
	device_id: "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61",
	version_name: "builtin",
	version_build: "1.0.0",
	platform: "android",
	plugin_version: "8.51.23",
	is_emulator: false,
	is_prod: true,
	defaultChannel: "pr-128",
};

export function deviceOf(body: DeviceBody): Device {
	return {
		deviceId: body.device_id,
		platform: body.platform,
		versionName: body.version_name,
		versionBuild: body.version_build,
		pluginVersion: body.plugin_version,
		isEmulator: body.is_emulator ?? false,
		isProd: body.is_prod ?? true,
		defaultChannel: body.defaultChannel ?? "",
		keyId: body.key_id,
	};
}

/** The report as it is recorded: under the app's id as stored, and without a custom id where the app keeps none. */
export function recordedReport<Report extends { readonly app_id: string; readonly custom_id?: string | undefined }>(
	report: Report,
	{ app }: AppSnapshot,
): Report {
	const keepsCustomId = app.allow_device_custom_id === 1;
	if (keepsCustomId && report.app_id === app.app_id) return report;
	return { ...report, app_id: app.app_id, custom_id: keepsCustomId ? report.custom_id : undefined };
}

/** That the device was there, for the fleet's records. */
export function seenOf(body: DeviceBody, atMs: number, channelId: number | null): DeviceSeen {
	return {
		type: "seen",
		appId: body.app_id,
		deviceId: body.device_id,
		atMs,
		platform: body.platform,
		versionName: body.version_name === "" ? BUILTIN : body.version_name,
		versionBuild: body.version_build,
		osVersion: body.version_os ?? "",
		pluginVersion: body.plugin_version,
		isProd: body.is_prod ?? true,
		isEmulator: body.is_emulator ?? false,
		customId: body.custom_id ?? "",
		installSource: body.install_source ?? "",
		keyId: body.key_id ?? "",
		defaultChannel: body.defaultChannel ?? "",
		channelId,
	};
}

/** From these versions on the native plugin reads a manifest. */
const READS_MANIFEST = { 5: "5.10.0", 6: "6.25.0", 7: "7.0.35", 8: "8.0.0" };

/** Electron's updater wants the zip whatever else there is. */
export function readsManifest(device: Device): boolean {
	return device.platform !== "electron" && atLeastForMajor(device.pluginVersion, READS_MANIFEST);
}

export interface Resolved {
	readonly decision: Decision;
	/** What an operator set for the device. */
	readonly override: SnapshotOverride | undefined;
}

/** The decision for the device, from what is held in memory; the rare question that memory cannot answer goes to the database. */
export async function resolve(
	snapshots: SnapshotCache,
	db: Database,
	snapshot: AppSnapshot,
	device: Device,
): Promise<Resolved> {
	// Bounded by the device ids that an address may show.
	const override = await snapshots.override(db.unlimited ?? db, snapshot, device.deviceId);
	const known = decideWith(snapshot, device, override, undefined);
	if (known !== undefined) return { decision: known, override };
	const exists = await snapshots.hasReadyBundle(db, snapshot, device.versionName);
	return { decision: decided(snapshot, device, override, exists), override };
}

/** The same without the database; undefined where it would have to be asked. */
export function resolveFromMemory(snapshot: AppSnapshot, device: Device): Decision | undefined {
	if (snapshot.overrides === null) return undefined;
	const override = snapshot.overrides.get(device.deviceId);
	return decideWith(snapshot, device, override, snapshot.readyVersions.get(device.versionName));
}

/**
 * @param exists whether the bundle that the device runs is still there; undefined: not known
 * @returns undefined where that must be known
 */
function decideWith(
	snapshot: AppSnapshot,
	device: Device,
	override: SnapshotOverride | undefined,
	exists: boolean | undefined,
): Decision | undefined {
	const decision = decided(snapshot, device, override, true);
	// Only a device that gets nothing is asked whether what it runs is still there.
	if (decision.outcome !== "none" || decision.kind === "up_to_date" || runsStoreBuild(device)) return decision;
	if (exists === undefined) return undefined;
	return exists ? decision : decided(snapshot, device, override, false);
}

function decided(
	snapshot: AppSnapshot,
	device: Device,
	override: SnapshotOverride | undefined,
	currentBundleExists: boolean,
): Decision {
	return decideUpdate(decisionSnapshot(snapshot, device, override, currentBundleExists), device);
}

/** The part of the app that can matter to the device. */
export function decisionSnapshot(
	snapshot: AppSnapshot,
	device: Device,
	override: SnapshotOverride | undefined,
	currentBundleExists: boolean,
): Snapshot {
	const manifestIsRead = readsManifest(device);
	const named = snapshot.channelsByName.get(device.defaultChannel);
	const open = snapshot.publicChannels[device.platform];
	const channels = [named, open === named ? undefined : open].filter((channel) => channel !== undefined);
	const forcedChannel = override?.channel_id == null ? undefined : snapshot.channelsById.get(override.channel_id);
	const forcedBundle = override?.version_id == null ? undefined : snapshot.bundles.get(override.version_id);
	return {
		channels: channels.map((channel) => channelIn(snapshot, channel, manifestIsRead)),
		currentBundleExists,
		override:
			forcedChannel === undefined && forcedBundle === undefined
				? undefined
				: {
						channel: forcedChannel === undefined ? null : channelIn(snapshot, forcedChannel, manifestIsRead),
						bundle: forcedBundle === undefined ? null : bundleOf(forcedBundle, manifestIsRead),
					},
	};
}

export const hasZip = (row: SnapshotBundle) => row.object_key !== null || row.external_url !== null;
/** An external bundle is offered whole. */
export const hasManifest = (row: SnapshotBundle) => row.has_manifest === 1 && row.external_url === null;

function bundleOf(row: SnapshotBundle, manifestIsRead: boolean): Bundle {
	return {
		id: row.id,
		version: row.name,
		ready: row.status === "ready",
		keyId: row.key_id,
		minUpdateVersion: row.min_update_version,
		hasZip: hasZip(row),
		hasManifest: manifestIsRead && hasManifest(row),
	};
}

function channelIn({ bundles }: AppSnapshot, row: SnapshotChannel, manifestIsRead: boolean): Channel {
	const bundle = (id: number | null) => {
		const found = id === null ? undefined : bundles.get(id);
		return found === undefined ? null : bundleOf(found, manifestIsRead);
	};
	return channelOf(row, bundle(row.version_id), bundle(row.rollout_version_id));
}
