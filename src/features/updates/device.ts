/**
 * A device that asks, as the decision sees it, and the decision from its app's snapshot. Update
 * checks, their explanation and the channel endpoints share this code, so they cannot disagree. It
 * loads no schema.
 */
import type { Database } from "../../db/batch";
import { type Decision, decideUpdate, type Snapshot } from "../../domain/updates/decision";
import { type Asking, BUILTIN, type Device, type Override } from "../../domain/updates/model";
import { serviceUnavailable } from "../../errors";
import type { DeviceSeen } from "../../messages";
import type { AppSnapshot } from "../../snapshots/app-snapshot";
import type { SnapshotCache } from "../../snapshots/cache";
import { LATE, type Waiter } from "../../snapshots/freshness";
import { heldOverride } from "../../snapshots/lookups";
import type { DeviceBody } from "./device-body";

/**
 * @param failedFilesOf the bundle whose single files failed on the device
 * (src/domain/updates/failed-files.ts)
 */
export function deviceOf(body: DeviceBody, failedFilesOf?: string): Device {
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
		failedFilesOf,
	};
}

/**
 * The report as it is stored: with the app id as the app spells it, and without a custom id if the
 * app keeps none.
 */
export function recordedReport<Report extends { readonly app_id: string; readonly custom_id?: string | undefined }>(
	report: Report,
	{ app }: AppSnapshot,
): Report {
	if (app.keepsCustomIds && report.app_id === app.publicId) return report;
	return { ...report, app_id: app.publicId, custom_id: app.keepsCustomIds ? report.custom_id : undefined };
}

/** The event of a check. */
export function seenOf(body: DeviceBody, atMs: number, decision: Decision): DeviceSeen {
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
		channelId: decision.resolved?.id ?? null,
		decision: decision.outcome === "none" ? decision.error : decision.outcome,
		...(decision.outcome === "update" ? { offered: decision.bundle.version } : {}),
	};
}

/**
 * The decision for the device, from memory; the rare fact that is not in memory is read from the
 * database.
 * @param waiter with the deadline of a check; without one the database may take as long as it needs
 * @throws {ApiError} `service_unavailable` if the check would change the device's bundle, and its
 * override did not arrive in time
 */
export async function resolve(
	snapshots: SnapshotCache,
	db: Database,
	snapshot: AppSnapshot,
	device: Device,
	waiter: Waiter,
): Promise<Decision> {
	const held = heldOverride(snapshot, device.deviceId);
	// The limit on device ids per address bounds this query.
	const found =
		held === undefined ? await snapshots.override(db.unlimited ?? db, snapshot, device.deviceId, waiter) : held;
	const override = found === LATE ? undefined : (found ?? undefined);
	const decision = decideUpdate(decisionInput(snapshot, device, override), device);
	// An operator may have withheld the bundle from this device.
	if (found === LATE && decision.outcome !== "none") throw serviceUnavailable(new Error("the override is not known"));
	if (!decision.dependsOnCurrentBundle) return decision;
	const known = snapshot.readyVersions.get(device.versionName);
	const exists = known ?? (await snapshots.hasReadyBundle(db, snapshot, device.versionName, waiter));
	if (exists !== false) return decision;
	return decideUpdate(decisionInput(snapshot, device, override, false), device);
}

/** The same without the database; undefined if it needs the database. */
export function resolveFromMemory(snapshot: AppSnapshot, device: Device): Decision | undefined {
	const held = heldOverride(snapshot, device.deviceId);
	if (held === undefined) return undefined;
	const override = held ?? undefined;
	const decision = decideUpdate(decisionInput(snapshot, device, override), device);
	if (!decision.dependsOnCurrentBundle) return decision;
	const exists = snapshot.readyVersions.get(device.versionName);
	if (exists === undefined || exists) return exists ? decision : undefined;
	return decideUpdate(decisionInput(snapshot, device, override, false), device);
}

/** Input of the decision: the two channels that can matter to the device, beside its override. */
export function decisionInput(
	{ channelsByName, publicChannels, zipOnly }: AppSnapshot,
	device: Asking & { readonly deviceId?: string },
	override: Override | undefined,
	currentBundleExists = true,
): Snapshot {
	const named = channelsByName.get(device.defaultChannel);
	const open = publicChannels[device.platform];
	const channels = [named, open === named ? undefined : open].filter((channel) => channel !== undefined);
	const zipOnlyBundleId = device.deviceId === undefined ? undefined : zipOnly.get(device.deviceId);
	return { channels, currentBundleExists, override, zipOnlyBundleId };
}
