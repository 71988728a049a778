/**
 * The update decision: which bundle a device gets, and why. One pure function over what is known of
 * the app and the device; the update check, its explanation, what-if and the tests all use it. It
 * never throws. The decision states everything that code needs; the trace is for people, and it is
 * recorded only when the caller passes an array for it.
 */
import { isInRollout } from "../rollouts/rollout";
import {
	type Asking,
	type Bundle,
	type Channel,
	type Device,
	NO_OBJECTION,
	type Override,
	type Platform,
	type Rollout,
	readsManifest,
	runsStoreBuild,
} from "./model";
import { offeredForm, type PackageForm, wantedForm } from "./package";
import type { SettingsOfChannel } from "./refusals";
import type { RuleName } from "./rule-names";
import { type Candidate, type Refusal, RULES, refusal, refuseRevert } from "./rules";
import { readNativeVersion, readVersion, type SemVer } from "./version";

/** Input of the decision. Channels that cannot matter to the device may be left out. */
export interface Snapshot {
	readonly channels: readonly Channel[];
	/**
	 * The bundle that the device runs still exists. It matters only if the decision says so
	 * (`dependsOnCurrentBundle`).
	 */
	readonly currentBundleExists: boolean;
	readonly override?: Override | undefined;
	/** The single files of this bundle failed on the device, so it is offered the zip. */
	readonly zipOnlyBundleId?: number | undefined;
}

export interface TraceStep {
	readonly rule: RuleName;
	readonly outcome: "passed" | "decided" | "skipped";
	/** The rule's result, for a person to read. */
	readonly finding: string;
	/**
	 * The change that gets a device past this rule; src/domain/updates/explanation.ts provides it for
	 * the rule that decided.
	 */
	readonly remedy?: string;
	/** The settings that the remedy names. */
	readonly settings?: SettingsOfChannel;
}
type Trace = TraceStep[] | undefined;

export type Verdict =
	/** The channel is null if only the device's override serves it. */
	| {
			readonly outcome: "update";
			readonly bundle: Bundle;
			readonly form: PackageForm;
			readonly channel: Channel | null;
	  }
	| { readonly outcome: "builtin" }
	| Refusal;

/** The facts that led to the verdict. */
export interface Basis {
	/** Channel whose rules applied; null if no channel serves the device. */
	readonly resolved: Channel | null;
	/**
	 * Bundle that the rules were applied to; null: the store build, or none because nothing serves the
	 * device.
	 */
	readonly target: Bundle | null;
	/** Origin of the bundle: the device's override, the channel's rollout, or the channel itself. */
	readonly targetBy: "override" | "rollout" | "channel";
	/**
	 * An enabled rollout chose between its bundle and the channel's. An override leaves it no choice.
	 */
	readonly rolloutConsidered: boolean;
	/** The verdict would be another one if the bundle that the device runs did not exist any more. */
	readonly dependsOnCurrentBundle: boolean;
	/** The bundle that the device runs was deleted, so the device should revert to its store build. */
	readonly currentBundleDeleted: boolean;
}

export type Decision = Verdict & Basis;

type Draft = { -readonly [Key in keyof Basis]: Basis[Key] };

/**
 * The decision for one device.
 * @param trace receives one step for every rule that was applied
 */
export function decideUpdate(snapshot: Snapshot, device: Device, trace?: TraceStep[]): Decision {
	const basis: Draft = {
		resolved: null,
		target: null,
		targetBy: "channel",
		rolloutConsidered: false,
		dependsOnCurrentBundle: false,
		currentBundleDeleted: false,
	};
	const verdict = evaluate(snapshot, device, basis, trace);
	return { ...verdict, ...basis };
}

function evaluate(snapshot: Snapshot, device: Device, basis: Draft, trace: Trace): Verdict {
	const native = readDevice(device, trace);
	if ("outcome" in native) return native;
	const channel = resolveChannel(snapshot, device, trace);
	basis.resolved = channel;
	const forced = overrideBundle(snapshot, trace);
	if (forced !== null) {
		basis.target = forced;
		basis.targetBy = "override";
	} else if (channel === null) {
		return noChannel(snapshot, device, basis, trace);
	} else {
		const takesRollout = joinsRollout(channel.rollout, device, trace);
		basis.rolloutConsidered = channel.rollout?.enabled === true;
		basis.target = takesRollout && channel.rollout !== null ? channel.rollout.bundle : channel.bundle;
		basis.targetBy = takesRollout ? "rollout" : "channel";
	}
	const { target } = basis;
	const candidate: Candidate = { device, native, channel, target };
	for (const { rule, check } of RULES) {
		const finding = check(candidate);
		if (finding === undefined) {
			trace?.push({ rule, outcome: "passed", finding: NO_OBJECTION });
			continue;
		}
		const { verdict, why } = finding;
		// A device that may not have the channel's bundle must not stay on a deleted one.
		const reverts = verdict.kind !== "up_to_date" && mustRevert(snapshot, device, basis);
		trace?.push({ rule, outcome: reverts ? "passed" : "decided", finding: why });
		return reverts ? revertToBuiltin(device, basis, trace) : verdict;
	}
	if (target === null) {
		trace?.push({ rule: "store_build", outcome: "decided", finding: "the channel serves the store build" });
		return { outcome: "builtin" };
	}
	const form = formFor(candidate, target, snapshot.zipOnlyBundleId === target.id, trace);
	trace?.push({
		rule: "serve",
		outcome: "decided",
		finding: `bundle ${target.version} of ${channel === null ? "the device's override" : `channel ${channel.name}`}`,
	});
	return { outcome: "update", bundle: target, form, channel };
}

const FORM_TEXTS: Readonly<Record<PackageForm, string>> = {
	all: "a zip and single files",
	zip: "a zip",
	delta: "single files",
};

/**
 * The form in which the device is offered the bundle: the one of the channel's update package if
 * bundle and device have it.
 */
function formFor({ channel, device }: Candidate, target: Bundle, isZipOnly: boolean, trace: Trace): PackageForm {
	const mode = channel?.updatePackage ?? "all";
	const wanted = wantedForm(mode, runsStoreBuild(device));
	const hasManifest = target.hasManifest && readsManifest(device);
	if (hasManifest && target.hasZip && (isZipOnly || device.failedFilesOf === target.version)) {
		const finding = `single files of bundle ${target.version} failed twice on this device, so it gets the zip`;
		trace?.push({ rule: "update_package", outcome: "passed", finding });
		return "zip";
	}
	const form = offeredForm(wanted, { hasZip: target.hasZip, hasManifest });
	if (mode === "all") return form;
	const isOther = wanted !== "all" && form !== wanted;
	trace?.push({
		rule: "update_package",
		outcome: isOther ? "skipped" : "passed",
		finding: isOther
			? `the channel offers ${FORM_TEXTS[wanted]} (${mode}), but this device can use bundle ${target.version} only as ${FORM_TEXTS[form]}`
			: `the channel offers ${FORM_TEXTS[wanted]} (${mode})`,
		...(isOther ? { remedy: "Upload the bundle in that form too, or set updatePackage to all on the channel." } : {}),
	});
	return form;
}

/** The version of the store binary, or the refusal if the device itself cannot be served. */
function readDevice(device: Device, trace: Trace): SemVer | Refusal {
	const refuse = (error: "unknown_version_build" | "semver_error" | "unsupported_plugin_version"): Refusal => {
		const refused = refusal(error, { device, target: null });
		trace?.push({ rule: error, outcome: "decided", finding: refused.message });
		return refused;
	};
	if (device.versionBuild === "unknown") {
		return refuse("unknown_version_build");
	}
	const native = readNativeVersion(device.versionBuild);
	if (native === null) {
		return refuse("semver_error");
	}
	// Electron's updater always sends 0.0.1 as its version.
	if (device.platform !== "electron" && readVersion(device.pluginVersion)?.major === 4) {
		return refuse("unsupported_plugin_version");
	}
	trace?.push({ rule: "device", outcome: "passed", finding: `${device.platform}, store build ${native.version}` });
	return native;
}

interface Obstacle {
	readonly finding: string;
	readonly remedy: string;
	readonly settings?: SettingsOfChannel;
}

/**
 * The override's channel, else the default channel that the device names, else the public channel
 * of its platform.
 */
export function resolveChannel(
	{ override, channels }: Pick<Snapshot, "override" | "channels">,
	device: Asking,
	trace?: TraceStep[],
): Channel | null {
	const consider = (
		rule: RuleName,
		channel: Channel | undefined,
		obstacle: Obstacle | undefined,
	): Channel | undefined => {
		if (obstacle !== undefined) trace?.push({ rule, outcome: "skipped", ...obstacle });
		else if (channel !== undefined) trace?.push({ rule, outcome: "passed", finding: `channel ${channel.name}` });
		return obstacle === undefined ? channel : undefined;
	};
	const forced = override?.channel ?? undefined;
	const named = channels.find((channel) => channel.name === device.defaultChannel);
	const open = channels.find((channel) => channel.public && channel.platforms[device.platform]);
	return (
		(forced && consider("override_channel", forced, unreadyStable(forced))) ??
		(device.defaultChannel === ""
			? undefined
			: consider("default_channel", named, obstacleToNamed(named, device) ?? unreadyStable(named))) ??
		consider("public_channel", open, obstacleToPublic(open, device.platform) ?? unreadyStable(open)) ??
		null
	);
}

/** Whether devices that send the channel's name may be served by it, apart from its settings. */
export const servesByName = ({ preview }: Pick<Channel, "preview">): boolean =>
	preview === null || (preview.hasForm && !preview.isNamedByFleet);

function obstacleToNamed(channel: Channel | undefined, device: Asking): Obstacle | undefined {
	const name = `channel ${device.defaultChannel}`;
	if (channel === undefined) {
		return { finding: `${name} does not exist`, remedy: `Create ${name}, or correct defaultChannel in the app.` };
	}
	if (!channel.public && !channel.allowDeviceSelfSet) {
		return {
			finding: `${name} is private and devices may not choose it`,
			remedy: `Turn on allow_device_self_set on ${name}.`,
			settings: { channel: channel.name, allow_device_self_set: true },
		};
	}
	if (channel.preview?.hasForm === false) {
		return {
			finding: `${name} is a preview, and its name lacks the form of a preview`,
			remedy: "Open the preview again with POST /preview, which gives it such a name.",
		};
	}
	if (channel.preview?.isNamedByFleet === true) {
		return {
			finding: `${name} is a preview, and more devices than testers send its name`,
			remedy: "Open the preview by its link, or set its channel for the device.",
		};
	}
	if (channel.preview !== null && channel.bundle === null) {
		return {
			finding: `${name} is a preview without a bundle`,
			remedy: `Release a bundle to ${name}.`,
		};
	}
	if (!channel.platforms[device.platform]) {
		return {
			finding: `${name} is off for ${device.platform}`,
			remedy: `Turn on ${device.platform} on ${name}.`,
			settings: { channel: channel.name, [device.platform]: true },
		};
	}
	return undefined;
}

function obstacleToPublic(channel: Channel | undefined, platform: Platform): Obstacle | undefined {
	return channel === undefined
		? { finding: `no public channel for ${platform}`, remedy: `Make a channel public for ${platform}.` }
		: undefined;
}

function unreadyStable(channel: Channel | undefined): Obstacle | undefined {
	const bundle = channel?.bundle ?? null;
	return channel === undefined || bundle === null || bundle.ready
		? undefined
		: {
				finding: `bundle ${bundle.version} of channel ${channel.name} is not ready`,
				remedy: `Finish the upload of bundle ${bundle.version}, or release another one to channel ${channel.name}.`,
			};
}

function overrideBundle({ override }: Snapshot, trace: Trace): Bundle | null {
	const bundle = override?.bundle ?? null;
	if (bundle === null) return null;
	const rule = "override_bundle";
	if (bundle.ready) {
		trace?.push({ rule, outcome: "passed", finding: `bundle ${bundle.version}` });
		return bundle;
	}
	const remedy = `Finish the upload of bundle ${bundle.version}, or set another one for this device.`;
	trace?.push({ rule, outcome: "skipped", finding: `bundle ${bundle.version} is not ready`, remedy });
	return null;
}

/** No channel serves the device: it keeps its bundle, unless that was deleted. */
function noChannel(snapshot: Snapshot, device: Device, basis: Draft, trace: Trace): Verdict {
	if (mustRevert(snapshot, device, basis)) return revertToBuiltin(device, basis, trace);
	trace?.push({ rule: "no_channel", outcome: "decided", finding: "no channel serves this device" });
	return refusal("no_channel", { device, target: null });
}

/** The device runs a bundle that was deleted, as previews are when they are cleaned up. */
function mustRevert(snapshot: Snapshot, device: Device, basis: Draft): boolean {
	basis.dependsOnCurrentBundle = !runsStoreBuild(device);
	return basis.dependsOnCurrentBundle && !snapshot.currentBundleExists;
}

function revertToBuiltin(device: Device, basis: Draft, trace: Trace): Verdict {
	const refused = refuseRevert(device);
	basis.currentBundleDeleted = true;
	trace?.push({
		rule: "go_home",
		outcome: "decided",
		finding: `bundle ${device.versionName} was deleted${refused === undefined ? "" : ", and the plugin cannot revert to the store build"}`,
	});
	return refused ?? { outcome: "builtin" };
}

/** Whether the device gets the bundle of the rollout rather than the channel's. */
function joinsRollout(rollout: Rollout | null, device: Device, trace: Trace): boolean {
	if (rollout === null) return false;
	if (!rollout.enabled) {
		trace?.push(rolloutStep("the rollout is off"));
		return false;
	}
	if (!rollout.bundle.ready) {
		trace?.push(rolloutStep(`bundle ${rollout.bundle.version} of the rollout is not ready`));
		return false;
	}
	if (device.versionName === rollout.bundle.version) {
		trace?.push(rolloutStep("the device already runs the bundle that is rolled out and stays on it"));
		return true;
	}
	if (rollout.paused) {
		trace?.push(rolloutStep("the rollout is paused"));
		return false;
	}
	const joins = isInRollout(rollout.id, device.deviceId, rollout.percentageBps);
	trace?.push(
		rolloutStep(
			`the device is ${joins ? "" : "not "}among the ${rollout.percentageBps / 100} % that get ${rollout.bundle.version}`,
		),
	);
	return joins;
}

const rolloutStep = (finding: string): TraceStep => ({ rule: "rollout", outcome: "passed", finding });
