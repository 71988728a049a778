/**
 * Explains in words why a device gets its answer, and what to change so that it gets the bundle.
 * For people only: update checks never ask.
 */

import { type Decision, decideUpdate, type Snapshot, type TraceStep } from "./decision";
import { BUILTIN, type Device } from "./model";
import { API_NAMES, type RefusedCase, refusalOf, SCREEN_NAMES, type SettingsOfChannel } from "./refusals";
import { capital, giving, otherRemedy, ruleRemedy, settingsText, settingsThatServe } from "./remedy";
import { readNativeVersion } from "./version";

export interface Remedy {
	/** The fix, naming the channel and the values. */
	readonly message: string;
	/**
	 * The change of one channel with which the device gets the bundle; null if no setting prevents it.
	 */
	readonly settings: SettingsOfChannel | null;
	/**
	 * The remedy besides the settings, with names of screens instead of fields; null if only settings
	 * help.
	 */
	readonly otherwise: string | null;
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
	/**
	 * The deciding factor: an override, the serving channel, one of its rules, the bundle, or the
	 * device itself.
	 */
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
	const refusal = refusalOf(decision.error);
	const refused = caseOf(snapshot, device, decision);
	const { decidedBy } = refusal;
	if (decidedBy !== "channel_rule" && decidedBy !== "no_channel") {
		const message = refusal.remedy(refused, API_NAMES);
		const otherwise = refusal.remedy(refused, SCREEN_NAMES);
		return { decidedBy, because: refusal.because(refused), remedy: { message, settings: null, otherwise } };
	}
	const fix = settingsThatServe(snapshot, device);
	const settings = fix === undefined ? null : { channel: fix.channel, ...fix.settings };
	if (decidedBy === "no_channel") {
		const first = fix === undefined ? "" : `${capital(settingsText(fix.settings))} on channel ${fix.channel}. Or `;
		const message = capital(first + refusal.remedy(refused, API_NAMES));
		const otherwise = capital(refusal.remedy(refused, SCREEN_NAMES));
		return { decidedBy, because: refusal.because(refused), remedy: { message, settings, otherwise } };
	}
	const { channel, isChannelOverride } = refused;
	const codes = fix?.codes ?? [decision.error];
	return {
		decidedBy,
		because: `channel ${channel?.name}${isChannelOverride ? ", which is set for this device," : ""} ${refusal.because(refused)}`,
		remedy: {
			message: ruleRemedy(decision, device, codes),
			settings,
			otherwise: otherRemedy(decision, device, codes),
		},
	};
}

/** The facts for the sentences of the table of refusals. */
function caseOf(snapshot: Snapshot, device: Device, decision: RefusedDecision): RefusedCase {
	const { resolved: channel, target, targetBy, currentBundleDeleted } = decision;
	const { versionBuild } = device;
	return {
		device,
		build: readNativeVersion(versionBuild)?.version ?? versionBuild,
		channel,
		channels: snapshot.channels,
		target,
		bundle: `bundle ${target?.version ?? BUILTIN}`,
		isOverride: targetBy === "override",
		isChannelOverride: channelOrigin(snapshot, device, decision) === "device_channel",
		isCurrentBundleDeleted: currentBundleDeleted,
		giving: (which) => giving(decision, which),
	};
}
