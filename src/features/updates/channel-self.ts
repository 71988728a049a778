/**
 * /channel_self: a device asks for its channel, for the channels that it may choose, and whether it
 * may choose one. Current plugins keep the choice and send it as `defaultChannel`, so nothing is
 * stored here; the answer uses the resolution of the next update check. A refusal is HTTP 200 with
 * `error` and `status: "error"`, because Electron's updater takes an answer without that status for
 * a success.
 */
import * as v from "valibot";
import { resolveChannel, servesByName } from "../../domain/updates/decision";
import type { Asking, Override, Platform } from "../../domain/updates/model";
import { UNDECIDED } from "../../domain/updates/refusals";
import { atLeastForMajor } from "../../domain/updates/version";
import { type Context, endpoint } from "../../http/endpoint";
import { booleanText, optional, publicAppId, textUpTo, uuid } from "../../http/schemas";
import type { AppSnapshot, SnapshotChannel } from "../../snapshots/app-snapshot";
import { heldOverride, overrideIn } from "../../snapshots/lookups";
import { decisionInput } from "./device";
import { CHECK_LIMIT_BYTES, type DeviceBody } from "./device-body";
import { deviceFields, EXAMPLE_DEVICE } from "./device-request";

/** From these versions on the plugin keeps the chosen channel. */
const KEEPS_ITS_CHANNEL = { 5: "5.34.0", 6: "6.34.0", 7: "7.34.0", 8: "8.0.0" };

const selfFields = {
	...deviceFields,
	// Clients that run their store build may send no version here.
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
const unknownApp = () => refuse("app_not_found", UNDECIDED.app_not_found.message);
const PUBLIC = { public: "Devices have no key. They learn which channels of their app devices may choose." };

/** Electron's updater always sends version 0.0.1, and keeps its channel. */
function keepsItsChannel(body: Pick<DeviceBody, "platform" | "plugin_version">): boolean {
	return body.platform === "electron" || atLeastForMajor(body.plugin_version, KEEPS_ITS_CHANNEL);
}

export const chooseChannel = endpoint({
	method: "POST",
	path: "/channel_self",
	tag: "Devices",
	summary: "Ask, as a device, to be on a channel",
	description: [
		"`ok` when devices may choose the channel, which the device then sends as `defaultChannel`.",
		"A name that the device may not choose gets the same answer as one that does not exist.",
		"Choosing the public channel of the platform answers",
		"`unset`, because the device is on it without a choice.",
		'With `action: "unset"` Electron\'s updater gives up its choice.',
	],
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
		const { snapshot } = await snapshots.read(db, body.app_id, { waitUntil });
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
		if (override?.channel != null) {
			return refuse(
				"cannot_override",
				"An operator has set the channel of this device; ask an operator to remove the override.",
			);
		}
		const channel = snapshot.channelsByName.get(body.channel);
		if (channel !== undefined && !channel.allowDeviceSelfSet && snapshot.publicChannels[body.platform] === channel) {
			return { status: "ok" as const, allowSet: true, allow_set: true, unset: true };
		}
		if (channel?.public === true && !channel.allowDeviceSelfSet) {
			return refuse("public_channel_self_set_not_allowed", `Channel ${channel.name} may not be chosen by devices.`);
		}
		// The same answer for both, so that it does not reveal the names of private channels.
		if (
			channel === undefined ||
			!channel.allowDeviceSelfSet ||
			!channel.platforms[body.platform] ||
			!servesByName(channel)
		) {
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
		"Uses the `defaultChannel` of the body, as the check does. `status` is `override` if an operator set the channel. The native plugin keeps the answer.",
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
		const { snapshot } = await snapshots.read(db, body.app_id, { waitUntil });
		if (snapshot === null) return unknownApp();
		const device = { platform: body.platform, defaultChannel: body.defaultChannel ?? "" };
		return currentOf(snapshot, device, await overrideOf(context, snapshot, body.device_id));
	},
});

/**
 * The override of the device. A database query counts against the limit of new devices of the
 * address.
 */
async function overrideOf(
	{
		db,
		eventBuffer,
		callerLimits,
		actor,
		nowMs,
	}: Pick<
		Context<string, undefined, undefined, undefined, readonly []>,
		"db" | "eventBuffer" | "callerLimits" | "actor" | "nowMs"
	>,
	snapshot: AppSnapshot,
	deviceId: string,
): Promise<Override | undefined> {
	const { app } = snapshot;
	const isHeld = heldOverride(snapshot, deviceId) !== undefined;
	if (!isHeld && !eventBuffer.knows(app.publicId, deviceId)) {
		await callerLimits.admitNewDevices(actor.ipAddress, app.publicId, 1, nowMs);
	}
	return overrideIn(db.unlimited ?? db, snapshot, deviceId);
}

function currentOf(snapshot: AppSnapshot, device: Asking, override: Override | undefined) {
	const channel = resolveChannel(decisionInput(snapshot, device, override), device);
	if (channel === null) return refuse("channel_not_found", "No channel of this app serves the device.");
	return {
		channel: channel.name,
		status: override?.channel === channel ? ("override" as const) : ("default" as const),
		allowSet: channel.allowDeviceSelfSet,
		allow_set: channel.allowDeviceSelfSet,
	};
}

export const unsetChannel = endpoint({
	method: "DELETE",
	path: "/channel_self",
	tag: "Devices",
	summary: "Give up, as a device, the channel that it chose",
	description: "Nothing is stored for a choice, so nothing is removed. Older plugins send this request all the same.",
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
	description: [
		"Lists the public channels and those that devices may choose.",
		"Preview channels are not listed; devices join them by name.",
		"Native plugins get an array.",
		"`platform=electron` gets an object: `channels` with `action=list`, else the channel of the device.",
	],
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
		const { platform } = query;
		const { snapshot } = await snapshots.read(db, query.app_id, { waitUntil });
		if (snapshot === null) return unknownApp();
		if (platform === "electron" && query.action !== "list") {
			const override = query.device_id === undefined ? undefined : await overrideOf(context, snapshot, query.device_id);
			return currentOf(snapshot, { platform, defaultChannel: query.defaultChannel ?? "" }, override);
		}
		const channels = [...snapshot.channelsByName.values()]
			.filter((channel) => mayBeOn(channel, query))
			.sort((left, right) => left.name.localeCompare(right.name, "en") || left.id - right.id)
			.map((channel) => ({
				id: channel.id,
				name: channel.name,
				public: channel.public,
				allow_self_set: channel.allowDeviceSelfSet,
			}));
		return platform === "electron" ? { channels } : channels;
	},
});

function mayBeOn(
	channel: SnapshotChannel,
	device: {
		readonly platform: Platform;
		readonly is_emulator?: boolean | undefined;
		readonly is_prod?: boolean | undefined;
	},
): boolean {
	// Devices join a preview channel by its name.
	if (!channel.public && (!channel.allowDeviceSelfSet || channel.preview !== null)) return false;
	if (!channel.platforms[device.platform]) return false;
	const kind = (device.is_emulator ?? false) ? channel.allowEmulator : channel.allowDevice;
	const build = (device.is_prod ?? true) ? channel.allowProd : channel.allowDev;
	return kind && build;
}
