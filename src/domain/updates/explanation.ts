/**
 * Explains in words why a device gets its answer, and what to change so that it gets the bundle. For people only: update checks never ask.
 */

import { type Decision, decideUpdate, type Snapshot, type TraceStep } from "./decision";
import { BUILTIN, type Device, REVERTS_TO_BUILTIN } from "./model";
import { type ChannelSettings, capital, giving, ruleRemedy, settingsText, settingsThatServe } from "./remedy";
import { readNativeVersion } from "./version";

export interface Remedy {
	/** The fix, naming the channel and the values. */
	readonly message: string;
	/** The change of one channel with which the device gets the bundle; null if no setting prevents it. */
	readonly settings: (ChannelSettings & { readonly channel: string }) | null;
}

export const DECIDED_BY = [
	"device_bundle",
	"device_channel",
	"default_channel",
	"public_channel",
	"rollout",
	"channel_rule",
	"bundle",
	"device",
	"deleted_bundle",
	"no_channel",
] as const;

export interface Explanation {
	/** The deciding factor: an override, the serving channel, one of its rules, the bundle, or the device itself. */
	readonly decidedBy: (typeof DECIDED_BY)[number];
	/** Continues a sentence after "because". */
	readonly because: string;
	/** Null if the device gets an update or the store build. */
	readonly remedy: Remedy | null;
}

export function explainDecision(snapshot: Snapshot, device: Device, trace?: TraceStep[]): Explanation {
	const decision = decideUpdate(snapshot, device, trace);
	if (decision.outcome === "none") return explainRefusal(snapshot, device, decision);
	if (decision.currentBundleDeleted) {
		const because = `bundle ${device.versionName}, which it runs, was deleted`;
		return { decidedBy: "deleted_bundle", because, remedy: null };
	}
	const { targetBy } = decision;
	const channelBy = channelOrigin(snapshot, device, decision);
	const decidedBy = targetBy === "override" ? "device_bundle" : targetBy === "rollout" ? "rollout" : channelBy;
	return { decidedBy, because: whyServed(decision, channelBy, device), remedy: null };
}

type ChannelOrigin = "device_channel" | "default_channel" | "public_channel" | "no_channel";

function channelOrigin({ override }: Snapshot, device: Device, { resolved: channel }: Decision): ChannelOrigin {
	if (channel === null) return "no_channel";
	if (channel === override?.channel) return "device_channel";
	return channel.name === device.defaultChannel ? "default_channel" : "public_channel";
}

function whyServed(
	{ resolved: channel, target, targetBy }: Decision,
	channelBy: ChannelOrigin,
	device: Device,
): string {
	if (targetBy === "override") return `bundle ${target?.version} is set for this device`;
	const serves = target === null ? "serves the store build" : `serves bundle ${target.version}`;
	if (channelBy === "device_channel") return `channel ${channel?.name} is set for this device and ${serves}`;
	if (targetBy === "rollout") {
		const share = (channel?.rollout?.percentageBps ?? 0) / 100;
		return `channel ${channel?.name} rolls out bundle ${target?.version} to ${share} % of its devices, and this is one of them`;
	}
	return channelBy === "default_channel"
		? `the device asks for channel ${channel?.name}, which ${serves}`
		: `${channel?.name} is the public channel for ${device.platform} and ${serves}`;
}

type RefusedDecision = Extract<Decision, { outcome: "none" }>;

function explainRefusal(snapshot: Snapshot, device: Device, decision: RefusedDecision): Explanation {
	const { because, decidedBy, message } = refusalText(snapshot, device, decision);
	if (decidedBy !== "channel_rule" && decidedBy !== "no_channel") {
		return { decidedBy, because, remedy: { message, settings: null } };
	}
	const fix = settingsThatServe(snapshot, device);
	if (decidedBy === "no_channel") {
		const settings = fix === undefined ? null : { channel: fix.channel, ...fix.settings };
		const first = fix === undefined ? "" : `${capital(settingsText(fix.settings))} on channel ${fix.channel}. Or `;
		return { decidedBy, because, remedy: { message: capital(first + message), settings } };
	}
	const remedy = {
		message: ruleRemedy(decision, device, fix?.codes ?? [decision.error]),
		settings: fix === undefined ? null : { channel: fix.channel, ...fix.settings },
	};
	return { decidedBy, because, remedy };
}

/** The obstacle, and its remedy unless channel settings fix it. */
function refusalText(
	snapshot: Snapshot,
	device: Device,
	decision: RefusedDecision,
): { readonly because: string; readonly decidedBy: Explanation["decidedBy"]; readonly message: string } {
	const { resolved: channel, target } = decision;
	const { versionBuild, pluginVersion } = device;
	const build = readNativeVersion(versionBuild)?.version ?? versionBuild;
	const bundle = `bundle ${target?.version ?? BUILTIN}`;
	const another = (which: string) => giving(decision, which);
	const nothing = "Nothing needs to change. To change what it runs, ";
	const native =
		"Set the version of the native app, or version in the plugin's configuration, to a number such as 1.2.3, and ship that store build.";
	const plugin = (version: string) => `update the plugin to ${version} or newer in the next store build`;
	const isSet = channelOrigin(snapshot, device, decision) === "device_channel";
	switch (decision.error) {
		case "unknown_version_build":
			return {
				decidedBy: "device",
				because: "the device does not know the version of its store build",
				message: native,
			};
		case "semver_error": {
			const because = `the version of its store build, "${versionBuild}", is not a version number`;
			return { decidedBy: "device", because, message: native };
		}
		case "unsupported_plugin_version": {
			const because = `its plugin ${pluginVersion} is too old`;
			return { decidedBy: "device", because, message: capital(`${plugin("5.0.0")}.`) };
		}
		case "no_channel":
			return {
				decidedBy: "no_channel",
				because: whyNoChannel(snapshot, device),
				message: noChannelRemedy(snapshot, device),
			};
		case "no_bundle": {
			const message = `Upload the files of ${bundle} with a zip under another version, and ${another("that one")}.`;
			return { decidedBy: "bundle", because: `${bundle} has no file that this device can read`, message };
		}
		case "key_id_mismatch": {
			const [bundleKey, deviceKey] = [target?.keyId, device.keyId];
			const because = `${bundle} is encrypted with the key ${bundleKey}, and the device has the key ${deviceKey}`;
			const upload = `Upload a bundle that is encrypted with the key ${deviceKey} and ${another("it")}`;
			return {
				decidedBy: "bundle",
				because,
				message: `${upload}, or ship a store build that has the key ${bundleKey}.`,
			};
		}
		case "no_new_version_available": {
			const runs =
				device.versionName === BUILTIN
					? `its store build has the version of bundle ${target?.version} already`
					: `it runs bundle ${target?.version} already`;
			const because =
				decision.targetBy === "override"
					? `${runs}, which is set for this device`
					: `${runs}${isSet ? `, from channel ${channel?.name}, which is set for this device` : ""}`;
			return { decidedBy: "bundle", because, message: `${nothing}${another("another bundle")}.` };
		}
		case "already_on_builtin": {
			const because = `channel ${channel?.name} serves the store build, which it runs already`;
			return { decidedBy: "bundle", because, message: `${nothing}${another("a bundle")}.` };
		}
		case "revert_to_builtin_plugin_version_too_old": {
			const isGone = decision.currentBundleDeleted;
			const because = isGone
				? `bundle ${device.versionName} was deleted, and its plugin ${pluginVersion} cannot go back to the store build`
				: `channel ${channel?.name} serves the store build, and its plugin ${pluginVersion} cannot go back to it`;
			const first = isGone ? `serve it a bundle from a channel` : another("a bundle");
			return { decidedBy: "device", because, message: capital(`${first}, or ${plugin(REVERTS_TO_BUILTIN[6])}.`) };
		}
		default:
			return {
				decidedBy: "channel_rule",
				because: `channel ${channel?.name}${isSet ? ", which is set for this device," : ""} ${ruleText(device, decision, bundle, build)}`,
				message: "",
			};
	}
}

/** The rule of the channel that refuses, after the name of the channel. Its settings are the remedy. */
function ruleText(device: Device, { error, target }: RefusedDecision, bundle: string, build: string): string {
	switch (error) {
		case "misconfigured_channel":
			return `updates by min_update_version, and ${bundle} has none`;
		case "disable_auto_update_to_metadata":
			return `serves ${bundle}, which needs store build ${target?.minUpdateVersion}; the device has ${build}`;
		case "disable_auto_update_under_native":
			return `offers no bundle older than the store build: ${target?.version} is older than ${build}`;
		case "disable_prod_build":
			return "is off for production builds";
		case "disable_dev_build":
			return "is off for development builds";
		case "disable_device":
			return "is off for physical devices";
		case "disable_emulator":
			return "is off for emulators";
		default: {
			const level = /^disable_auto_update_to_(\w+)$/.exec(error)?.[1];
			return level === undefined
				? `is off for ${device.platform}`
				: `allows only the ${level} version of the store build: ${target?.version} on ${build}`;
		}
	}
}

function whyNoChannel({ channels }: Snapshot, { defaultChannel, platform }: Device): string {
	const missing = `${platform} has no public channel that can serve`;
	if (defaultChannel === "") return missing;
	const named = channels.find(({ name }) => name === defaultChannel);
	return `the device may not use channel ${defaultChannel}${named === undefined ? ", which does not exist" : ""}, and ${missing}`;
}

function noChannelRemedy({ channels }: Snapshot, { defaultChannel, platform }: Device): string {
	const unready = channels.find(
		({ bundle, name, public: isPublic }) => bundle?.ready === false && (isPublic || name === defaultChannel),
	);
	if (unready !== undefined) {
		return `finish the upload of bundle ${unready.bundle?.version}, or promote another one to channel ${unready.name}.`;
	}
	const named = channels.find(({ name }) => name === defaultChannel);
	const create =
		defaultChannel === "" || named !== undefined
			? ""
			: `create channel ${defaultChannel} and let devices choose it (allow_device_self_set), or `;
	return `${create}make a channel public for ${platform}.`;
}
