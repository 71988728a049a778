/**
 * /channel_self: a device asks which channel it is on, which it may choose, and whether it may choose one. Current plugins keep the
 * choice themselves and send it as `defaultChannel`, so nothing is stored here; what is answered is what the next check will do, by the
 * same resolution. Refusals are HTTP 200 with `error`, and with `status: "error"`, without which Electron's updater would take them for
 * a success.
 */
import * as v from "valibot";
import { type Context, endpoint } from "../api/endpoint";
import { booleanText, optional, publicAppId, uuid } from "../api/schemas";
import type { SnapshotChannel } from "../db/snapshot";
import type { AppSnapshot } from "../db/snapshot-cache";
import { resolveChannel } from "../domain/update-decision";
import { atLeastForMajor, readVersion } from "../domain/version";
import {
	CHECK_LIMIT_BYTES,
	type DeviceBody,
	decisionSnapshot,
	deviceFields,
	deviceOf,
	EXAMPLE_DEVICE,
	type PLATFORMS,
	textUpTo,
} from "./device";

/** From these versions on the plugin keeps the chosen channel itself. */
const KEEPS_ITS_CHANNEL = { 5: "5.34.0", 6: "6.34.0", 7: "7.34.0", 8: "8.0.0" };

const selfFields = {
	...deviceFields,
	// Clients on their store build have no name for it here.
	version_name: v.optional(textUpTo(128), ""),
	version_build: v.optional(textUpTo(128), ""),
};
const channelText = optional(textUpTo(128));

const refusal = v.strictObject({ status: v.literal("error"), error: v.string(), message: v.string() });
const chosen = v.strictObject({
	status: v.literal("ok"),
	allowSet: v.optional(v.boolean()),
	allow_set: v.optional(v.boolean()),
	unset: v.optional(v.boolean()),
});
const current = v.strictObject({
	channel: v.string(),
	status: v.picklist(["default", "override"]),
	allowSet: v.boolean(),
	allow_set: v.boolean(),
});
const channelItem = v.strictObject({
	id: v.number(),
	name: v.string(),
	public: v.boolean(),
	allow_self_set: v.boolean(),
});

const refuse = (error: string, message: string) => ({ status: "error" as const, error, message });
const unknownApp = () => refuse("app_not_found", "There is no such app on this server.");
const PUBLIC = { public: "Devices have no key. They learn of the channels that their own app lets devices choose." };

/** Electron's updater always calls itself 0.0.1, and keeps its channel. */
function keepsItsChannel(body: Pick<DeviceBody, "platform" | "plugin_version">): boolean {
	return body.platform === "electron" || atLeastForMajor(body.plugin_version, KEEPS_ITS_CHANNEL);
}

export const chooseChannel = endpoint({
	method: "POST",
	path: "/channel_self",
	tag: "Devices",
	summary: "Ask, as a device, to be on a channel",
	description:
		"`ok` when devices may choose the channel, which the device then sends as `defaultChannel`. A name that the device may not choose and one that does not exist are answered alike. Choosing the platform's public channel answers `unset`: the device is on it without a choice. `action: \"unset\"` is Electron's way to give a choice up.",
	access: PUBLIC,
	body: v.object({ ...selfFields, channel: channelText, action: optional(textUpTo(16)) }),
	bodyLimitBytes: CHECK_LIMIT_BYTES,
	response: v.union([chosen, refusal]),
	errors: [],
	example: {
		body: { ...EXAMPLE_DEVICE, channel: "beta" },
		response: { status: "ok", allowSet: true, allow_set: true },
	},
	async handle(context) {
		const { db, input, snapshots, waitUntil } = context;
		const { body } = input;
		const { snapshot } = await snapshots.read(db, body.app_id, waitUntil);
		if (snapshot === null) return unknownApp();
		if (body.action === "unset") return { status: "ok" as const };
		if (body.channel === undefined || body.channel === "") {
			return refuse("missing_channel", "The request names no channel; send channel.");
		}
		if (!keepsItsChannel(body)) {
			return refuse(
				"channel_self_server_storage_unavailable",
				"This version of the plugin cannot keep a channel; update it to 6.34, 7.34 or 8.",
			);
		}
		const override = await overrideOf(context, snapshot, body.device_id);
		if (override?.channel_id != null) {
			return refuse(
				"cannot_override",
				"An operator has set the channel of this device; ask for that to be taken away.",
			);
		}
		const channel = snapshot.channelsByName.get(body.channel);
		if (
			channel !== undefined &&
			channel.allow_device_self_set === 0 &&
			snapshot.publicChannels[body.platform] === channel
		) {
			return { status: "ok" as const, allowSet: true, allow_set: true, unset: true };
		}
		if (channel?.public === 1 && channel.allow_device_self_set === 0) {
			return refuse("public_channel_self_set_not_allowed", `Channel ${channel.name} may not be chosen by devices.`);
		}
		// One answer, so that nobody finds out the names of channels that are listed to nobody.
		if (channel === undefined || channel.allow_device_self_set === 0 || channel[body.platform] === 0) {
			const message = `This app has no channel ${body.channel} that this device may choose; check its name.`;
			return refuse("channel_not_found", message);
		}
		return { status: "ok" as const, allowSet: true, allow_set: true };
	},
});

export const currentChannel = endpoint({
	method: "PUT",
	path: "/channel_self",
	tag: "Devices",
	summary: "Ask, as a device, which channel decides its next update check",
	description:
		"Begins with the body's `defaultChannel`, as the check does. `status` is `override` when an operator set the channel. The native plugin keeps what it is told.",
	access: PUBLIC,
	body: v.object({ ...selfFields, channel: channelText }),
	bodyLimitBytes: CHECK_LIMIT_BYTES,
	response: v.union([current, refusal]),
	errors: [],
	example: {
		body: EXAMPLE_DEVICE,
		response: { channel: "pr-128", status: "default", allowSet: true, allow_set: true },
	},
	async handle(context) {
		const { db, input, snapshots, waitUntil } = context;
		const { body } = input;
		const { snapshot } = await snapshots.read(db, body.app_id, waitUntil);
		if (snapshot === null) return unknownApp();
		return currentOf(snapshot, body, await overrideOf(context, snapshot, body.device_id));
	},
});

type Override = Parameters<typeof decisionSnapshot>[2];

/** The override that an operator set for the device. A question to the database is bounded by the device ids that an address may show. */
async function overrideOf(
	{
		db,
		snapshots,
		gather,
		strangers,
		actor,
		nowMs,
	}: Pick<
		Context<string, undefined, undefined, undefined, readonly []>,
		"db" | "snapshots" | "gather" | "strangers" | "actor" | "nowMs"
	>,
	snapshot: AppSnapshot,
	deviceId: string,
): Promise<Override> {
	const { app, overrides, askedOverrides } = snapshot;
	const isHeld = overrides !== null || askedOverrides.has(deviceId);
	if (!isHeld && !gather.knows(app.app_id, deviceId)) {
		await strangers.admitNewDevices(actor.ipAddress, app.app_id, 1, nowMs);
	}
	return snapshots.override(db.unlimited ?? db, snapshot, deviceId);
}

function currentOf(
	snapshot: AppSnapshot,
	body: Omit<DeviceBody, "version_name" | "version_build"> & { version_name: string; version_build: string },
	override: Override,
) {
	const device = deviceOf(body);
	const channel = resolveChannel(decisionSnapshot(snapshot, device, override, true), device);
	if (channel === null) return refuse("channel_not_found", "No channel of this app serves the device.");
	return {
		channel: channel.name,
		status: override?.channel_id === channel.id ? ("override" as const) : ("default" as const),
		allowSet: channel.allowDeviceSelfSet,
		allow_set: channel.allowDeviceSelfSet,
	};
}

export const unsetChannel = endpoint({
	method: "DELETE",
	path: "/channel_self",
	tag: "Devices",
	summary: "Give up, as a device, the channel that it chose",
	description: "Nothing is stored for a choice, so there is nothing to remove; older plugins ask all the same.",
	access: PUBLIC,
	query: v.object({ app_id: publicAppId, device_id: uuid }),
	queryOrBody: true,
	bodyLimitBytes: CHECK_LIMIT_BYTES,
	response: v.strictObject({ status: v.literal("ok") }),
	errors: [],
	example: {
		query: { app_id: EXAMPLE_DEVICE.app_id, device_id: EXAMPLE_DEVICE.device_id },
		response: { status: "ok" },
	},
	async handle() {
		return { status: "ok" as const };
	},
});

export const selectableChannels = endpoint({
	method: "GET",
	path: "/channel_self",
	tag: "Devices",
	summary: "List the channels that a device may be on",
	description:
		"The public channels and those that devices may choose; preview channels are listed to nobody and joined by their name. A bare array for native plugins. For `platform=electron` an object: `channels` with `action=list`, else the channel that the device is on.",
	access: PUBLIC,
	query: v.object({
		app_id: publicAppId,
		platform: deviceFields.platform,
		device_id: optional(uuid),
		is_emulator: optional(booleanText),
		is_prod: optional(booleanText),
		plugin_version: optional(textUpTo(128)),
		version_name: optional(textUpTo(128)),
		version_build: optional(textUpTo(128)),
		defaultChannel: optional(textUpTo(512)),
		key_id: optional(textUpTo(20)),
		action: optional(textUpTo(16)),
	}),
	response: v.union([v.array(channelItem), v.strictObject({ channels: v.array(channelItem) }), current, refusal]),
	errors: [],
	example: {
		query: { app_id: EXAMPLE_DEVICE.app_id, platform: "android" },
		response: [{ id: 7, name: "beta", public: false, allow_self_set: true }],
	},
	async handle(context) {
		const { db, input, snapshots, waitUntil } = context;
		const { query } = input;
		const { snapshot } = await snapshots.read(db, query.app_id, waitUntil);
		if (snapshot === null) return unknownApp();
		if (query.platform === "electron" && query.action !== "list") {
			const device = {
				...query,
				device_id: query.device_id ?? "",
				version_name: query.version_name ?? "",
				version_build: query.version_build ?? "",
				plugin_version: readVersion(query.plugin_version ?? "") === null ? "0.0.1" : (query.plugin_version ?? ""),
				custom_id: undefined,
				install_source: undefined,
				version_os: undefined,
				version_code: undefined,
			};
			const override = query.device_id === undefined ? undefined : await overrideOf(context, snapshot, query.device_id);
			return currentOf(snapshot, device, override);
		}
		const channels = [...snapshot.channelsByName.values()]
			.filter((channel) => mayBeOn(channel, query))
			.sort((left, right) => left.name.localeCompare(right.name, "en") || left.id - right.id)
			.map((channel) => ({
				id: channel.id,
				name: channel.name,
				public: channel.public === 1,
				allow_self_set: channel.allow_device_self_set === 1,
			}));
		return query.platform === "electron" ? { channels } : channels;
	},
});

function mayBeOn(
	channel: SnapshotChannel,
	device: {
		readonly platform: (typeof PLATFORMS)[number];
		readonly is_emulator?: boolean | undefined;
		readonly is_prod?: boolean | undefined;
	},
): boolean {
	// Preview channels are joined by their name.
	if (channel.public === 0 && (channel.allow_device_self_set === 0 || channel.is_preview === 1)) return false;
	if (channel[device.platform] === 0) return false;
	const kind = (device.is_emulator ?? false) ? channel.allow_emulator : channel.allow_device;
	const build = (device.is_prod ?? true) ? channel.allow_prod : channel.allow_dev;
	return kind === 1 && build === 1;
}
