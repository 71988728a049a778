/**
 * The update decision: what a device that asks is told, and why. One pure function over what is known of the app and the device; the
 * live route, its explanation and the tests all use it. It never throws, and every rule that was looked at leaves a step in the trace.
 */
import { isInRollout } from "./rollout";
import { type Forms, offeredForm, type PackageForm, type UpdatePackage, wantedForm } from "./update-package";
import { atLeastForMajor, compareVersions, readNativeVersion, readVersion, type SemVer } from "./version";

export type Platform = "ios" | "android" | "electron";

export interface Device {
	readonly deviceId: string;
	readonly platform: Platform;
	/** The bundle it runs: a version, or `builtin`. */
	readonly versionName: string;
	/** Version of the store binary. */
	readonly versionBuild: string;
	readonly pluginVersion: string;
	readonly isEmulator: boolean;
	readonly isProd: boolean;
	/** Empty when the device has none. */
	readonly defaultChannel: string;
	readonly keyId: string | undefined;
}

export interface Bundle extends Forms {
	readonly id: number;
	readonly version: string;
	/** Whether every byte of it is stored and checked; no other bundle is served. */
	readonly ready: boolean;
	readonly keyId: string | null;
	readonly minUpdateVersion: string | null;
}

export interface Channel {
	readonly id: number;
	readonly name: string;
	readonly public: boolean;
	readonly platforms: Readonly<Record<Platform, boolean>>;
	readonly allowDeviceSelfSet: boolean;
	readonly allowEmulator: boolean;
	readonly allowDevice: boolean;
	readonly allowDev: boolean;
	readonly allowProd: boolean;
	readonly disableAutoUpdate: "major" | "minor" | "patch" | "version_number" | "none";
	readonly disableAutoUpdateUnderNative: boolean;
	readonly updatePackage: UpdatePackage;
	/** Null: the bundle inside the store binary. */
	readonly bundle: Bundle | null;
	readonly rollout: Rollout | null;
}

export interface Rollout {
	readonly id: string;
	readonly bundle: Bundle;
	readonly percentageBps: number;
	readonly enabled: boolean;
	readonly paused: boolean;
}

/** What an operator set for this one device. */
export interface Override {
	/** Serves the device whatever the channel says of who may choose it; its other rules hold. */
	readonly channel: Channel | null;
	/** Takes the place of the bundle that the device's channel serves. */
	readonly bundle: Bundle | null;
}

/** What is known of the app at the moment of the decision. Channels that cannot matter to the device may be left out. */
export interface Snapshot {
	readonly channels: readonly Channel[];
	/** Whether the bundle that the device runs is still there. */
	readonly currentBundleExists: boolean;
	readonly override?: Override | undefined;
}

export type Kind = "up_to_date" | "blocked" | "failed";

export interface TraceStep {
	readonly rule: string;
	readonly outcome: "passed" | "decided" | "skipped";
	/** What was found, for a person to read. */
	readonly finding: string;
	/** The change that gets a device past this rule; src/domain/explanation.ts provides it for the rule that decided. */
	readonly remedy?: string;
}

export interface Refusal {
	readonly outcome: "none";
	readonly error: string;
	readonly message: string;
	readonly kind: Kind;
	/** Further fields of the answer. */
	readonly extra: Readonly<Record<string, string | boolean>>;
}

export type Verdict =
	/** The channel is null where the device's override alone serves it. */
	| {
			readonly outcome: "update";
			readonly bundle: Bundle;
			readonly form: PackageForm;
			readonly channel: Channel | null;
	  }
	| { readonly outcome: "builtin" }
	| Refusal;

export type Decision = Verdict & {
	readonly trace: readonly TraceStep[];
	/** Whose rules held, whatever came of it; null when no channel serves the device. */
	readonly resolved: Channel | null;
};

export const BUILTIN = "builtin";

/** From these versions of the native plugin on, `{"version":"builtin"}` brings a device back to its store build. */
export const REVERTS_TO_BUILTIN = { 6: "6.2.0" } as const;
/** Up to this version the native plugin names its key in another way, which compares with nothing. */
const LAST_WITH_OTHER_KEY_IDS = "8.40.7";

/** The decision for one device. */
export function decideUpdate(snapshot: Snapshot, device: Device): Decision {
	const trace: TraceStep[] = [];
	const resolved = { channel: null as Channel | null };
	const verdict = climb(snapshot, device, trace, resolved);
	return { ...verdict, trace, resolved: resolved.channel };
}

function climb(snapshot: Snapshot, device: Device, trace: TraceStep[], resolved: { channel: Channel | null }): Verdict {
	const native = readDevice(device, trace);
	if ("outcome" in native) return native;
	const channel = resolveChannel(snapshot, device, trace);
	resolved.channel = channel;
	const forced = overrideBundle(snapshot, trace);
	if (channel === null && forced === null) return goHomeOrStay(snapshot, device, trace);
	const target = forced ?? (channel === null ? null : targetOf(channel, device, trace));
	const candidate: Candidate = { device, native, channel, target };
	for (const { rule, check } of LADDER) {
		const finding = check(candidate);
		if (finding === undefined) {
			trace.push({ rule, outcome: "passed", finding: "nothing against it" });
			continue;
		}
		const { verdict, why } = finding;
		const homeless = verdict.kind !== "up_to_date" && bundleIsGone(snapshot, device);
		trace.push({ rule, outcome: homeless ? "passed" : "decided", finding: why });
		// It may not have what the channel serves, and must not stay on what was deleted.
		return homeless ? goHome(device, trace) : verdict;
	}
	if (target === null) {
		trace.push({ rule: "store_build", outcome: "decided", finding: "the channel serves the store build" });
		return { outcome: "builtin" };
	}
	const form = formFor(candidate, target, trace);
	const from = channel === null ? "the device's override" : `channel ${channel.name}`;
	trace.push({ rule: "serve", outcome: "decided", finding: `bundle ${target.version} of ${from}` });
	return { outcome: "update", bundle: target, form, channel };
}

const FORM_TEXTS: Readonly<Record<PackageForm, string>> = {
	all: "a zip and single files",
	zip: "a zip",
	delta: "single files",
};

/** The form in which the device is offered the bundle, as the channel's update package says. */
function formFor({ channel, device }: Candidate, target: Bundle, trace: TraceStep[]): PackageForm {
	const mode = channel?.updatePackage ?? "all";
	const wanted = wantedForm(mode, runsStoreBuild(device));
	const form = offeredForm(wanted, target);
	if (mode === "all") return form;
	const isOther = wanted !== "all" && form !== wanted;
	trace.push({
		rule: "update_package",
		outcome: isOther ? "skipped" : "passed",
		finding: isOther
			? `the channel offers ${FORM_TEXTS[wanted]} (${mode}), this device can use bundle ${target.version} only as ${FORM_TEXTS[form]} and gets that`
			: `the channel offers ${FORM_TEXTS[wanted]} (${mode})`,
		...(isOther ? { remedy: "Upload the bundle in that form too, or set updatePackage to all on the channel." } : {}),
	});
	return form;
}

/** The version of the store binary, or the refusal where the device alone is reason enough for one. */
function readDevice(device: Device, trace: TraceStep[]): SemVer | Refusal {
	const refuse = (error: string, message: string): Refusal => {
		trace.push({ rule: error, outcome: "decided", finding: message });
		return refusal("failed", error, message);
	};
	if (device.versionBuild === "unknown") {
		return refuse("unknown_version_build", "The version of the store binary is unknown.");
	}
	const native = readNativeVersion(device.versionBuild);
	if (native === null) {
		return refuse(
			"semver_error",
			"The version of the store binary (version_build) cannot be read as a version number.",
		);
	}
	// Electron's updater always says 0.0.1, so its version tells nothing.
	if (device.platform !== "electron" && readVersion(device.pluginVersion)?.major === 4) {
		return refuse("unsupported_plugin_version", "Version 4 of the plugin is too old.");
	}
	trace.push({ rule: "device", outcome: "passed", finding: `${device.platform}, store build ${native.version}` });
	return native;
}

interface Obstacle {
	readonly finding: string;
	readonly remedy: string;
}

/** The channel of the override, else the named default channel where it may serve the device, else the public one of its platform. */
export function resolveChannel(
	{ override, channels }: Pick<Snapshot, "override" | "channels">,
	device: Device,
	trace: TraceStep[] = [],
): Channel | null {
	const consider = (
		rule: string,
		channel: Channel | undefined,
		obstacle: Obstacle | undefined,
	): Channel | undefined => {
		if (obstacle !== undefined) trace.push({ rule, outcome: "skipped", ...obstacle });
		else if (channel !== undefined) trace.push({ rule, outcome: "passed", finding: `channel ${channel.name}` });
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
		consider("public_channel", open, obstacleToPublic(open, device) ?? unreadyStable(open)) ??
		null
	);
}

function obstacleToNamed(channel: Channel | undefined, device: Device): Obstacle | undefined {
	const name = `channel ${device.defaultChannel}`;
	if (channel === undefined) {
		return { finding: `${name} does not exist`, remedy: `Create ${name}, or correct defaultChannel in the app.` };
	}
	if (!channel.public && !channel.allowDeviceSelfSet) {
		return {
			finding: `${name} is private and devices may not choose it`,
			remedy: `Turn on allow_device_self_set on ${name}.`,
		};
	}
	if (!channel.platforms[device.platform]) {
		return { finding: `${name} is off for ${device.platform}`, remedy: `Turn on ${device.platform} on ${name}.` };
	}
	return undefined;
}

function obstacleToPublic(channel: Channel | undefined, device: Device): Obstacle | undefined {
	return channel === undefined
		? { finding: `no public channel for ${device.platform}`, remedy: `Make a channel public for ${device.platform}.` }
		: undefined;
}

function unreadyStable(channel: Channel | undefined): Obstacle | undefined {
	const bundle = channel?.bundle ?? null;
	return channel === undefined || bundle === null || bundle.ready
		? undefined
		: {
				finding: `bundle ${bundle.version} of channel ${channel.name} is not ready`,
				remedy: `Finish the upload of bundle ${bundle.version}, or promote another one to channel ${channel.name}.`,
			};
}

function overrideBundle({ override }: Snapshot, trace: TraceStep[]): Bundle | null {
	const bundle = override?.bundle ?? null;
	if (bundle === null) return null;
	const rule = "override_bundle";
	if (bundle.ready) {
		trace.push({ rule, outcome: "passed", finding: `bundle ${bundle.version}` });
		return bundle;
	}
	const remedy = `Finish the upload of bundle ${bundle.version}, or set another one for this device.`;
	trace.push({ rule, outcome: "skipped", finding: `bundle ${bundle.version} is not ready`, remedy });
	return null;
}

/** No channel serves the device: it stays where it is, unless what it runs was deleted, as a preview is; then it goes home. */
function goHomeOrStay(snapshot: Snapshot, device: Device, trace: TraceStep[]): Verdict {
	if (bundleIsGone(snapshot, device)) return goHome(device, trace);
	trace.push({
		rule: "no_channel",
		outcome: "decided",
		finding: "no channel serves this device",
	});
	return refusal(
		"failed",
		"no_channel",
		"No public channel serves this device, and it has no default channel that may.",
	);
}

/** Whether the device runs a bundle that was deleted, as a preview is when it is cleaned up. */
function bundleIsGone(snapshot: Snapshot, device: Device): boolean {
	return !runsStoreBuild(device) && !snapshot.currentBundleExists;
}

function goHome(device: Device, trace: TraceStep[]): Verdict {
	const stuck = backToStoreBuild(device);
	trace.push({
		rule: "go_home",
		outcome: "decided",
		finding: `bundle ${device.versionName} was deleted${stuck === undefined ? "" : ", and the plugin cannot go back to the store build"}`,
	});
	return stuck ?? { outcome: "builtin" };
}

/** The channel's bundle for this device: its stable one, or the one that is being rolled out. */
export function targetOf(channel: Channel, device: Device, trace: TraceStep[] = []): Bundle | null {
	const { rollout } = channel;
	if (rollout === null) return channel.bundle;
	const note = (finding: string) => trace.push({ rule: "rollout", outcome: "passed", finding });
	if (!rollout.enabled) {
		note("the rollout is off");
		return channel.bundle;
	}
	if (!rollout.bundle.ready) {
		note(`bundle ${rollout.bundle.version} of the rollout is not ready`);
		return channel.bundle;
	}
	if (device.versionName === rollout.bundle.version) {
		note("the device already runs the bundle that is rolled out and stays on it");
		return rollout.bundle;
	}
	if (rollout.paused) {
		note("the rollout is paused");
		return channel.bundle;
	}
	const share = `${rollout.percentageBps / 100} %`;
	if (isInRollout(rollout.id, device.deviceId, rollout.percentageBps)) {
		note(`the device is among the ${share} that get ${rollout.bundle.version}`);
		return rollout.bundle;
	}
	note(`the device is not among the ${share} that get ${rollout.bundle.version}`);
	return channel.bundle;
}

interface Candidate {
	readonly device: Device;
	/** The version of the store binary. */
	readonly native: SemVer;
	/** Null: the device's override alone serves it. */
	readonly channel: Channel | null;
	/** Null: the store build. */
	readonly target: Bundle | null;
}

interface Finding {
	readonly verdict: Refusal;
	readonly why: string;
}

interface Rule<Given> {
	readonly rule: string;
	readonly check: (given: Given) => Finding | undefined;
}

const BUNDLE_RULES: readonly Rule<Candidate>[] = [
	{
		rule: "bundle_has_content",
		check: ({ target }) =>
			target !== null && !target.hasZip && !target.hasManifest
				? refused("failed", "no_bundle", `Bundle ${target.version} has no file.`, {})
				: undefined,
	},
	{
		rule: "encryption_key",
		check: ({ target, device }) => {
			const [bundleKeyId, deviceKeyId] = [target?.keyId ?? "", device.keyId ?? ""];
			if (bundleKeyId === "" || deviceKeyId === "" || bundleKeyId === deviceKeyId) return undefined;
			if (device.platform !== "electron" && compare(device.pluginVersion, LAST_WITH_OTHER_KEY_IDS) <= 0)
				return undefined;
			return refused("blocked", "key_id_mismatch", "The bundle was encrypted with another key than the device has.", {
				deviceKeyId,
				bundleKeyId,
			});
		},
	},
	{
		rule: "already_there",
		check: (given) =>
			given.target !== null && runsTarget(given, given.target.version)
				? refused("up_to_date", "no_new_version_available", "No new version available.", {})
				: undefined,
	},
];

/** The settings of the channel. Gates compare the store binary, not the bundle in use. */
const CHANNEL_RULES: readonly Rule<Candidate & { readonly channel: Channel }>[] = [
	{
		rule: "disabled_platform",
		check: ({ channel, target, device }) =>
			channel.platforms[device.platform]
				? undefined
				: refused("blocked", `disabled_platform_${device.platform}`, `The channel is off for ${device.platform}.`, {
						version: target?.version ?? BUILTIN,
						old: device.versionName,
					}),
	},
	{
		rule: "disable_auto_update_to_major",
		check: (given) => gate(given, "major", (to, from) => to.major > from.major),
	},
	{
		rule: "disable_auto_update_to_minor",
		check: (given) => gate(given, "minor", (to, from) => to.major !== from.major || to.minor !== from.minor),
	},
	{
		rule: "disable_auto_update_to_patch",
		check: (given) =>
			gate(given, "patch", (to, from) => to.major !== from.major || to.minor !== from.minor || to.patch !== from.patch),
	},
	{
		rule: "disable_auto_update_to_metadata",
		check: ({ target, native, channel }) => {
			if (channel.disableAutoUpdate !== "version_number" || target === null) return undefined;
			const facts = { version: target.version, old: native.version };
			if (target.minUpdateVersion === null) {
				return refused(
					"blocked",
					"misconfigured_channel",
					"The channel updates by minimum version, and the bundle has none.",
					facts,
				);
			}
			return compare(target.minUpdateVersion, native.version) > 0
				? refused(
						"blocked",
						"disable_auto_update_to_metadata",
						`The bundle needs store build ${target.minUpdateVersion}.`,
						{ ...facts, major: true },
					)
				: undefined;
		},
	},
	{
		rule: "disable_auto_update_under_native",
		check: ({ target, device, native, channel }) =>
			channel.disableAutoUpdateUnderNative && target !== null && compare(target.version, native.version) < 0
				? refused("blocked", "disable_auto_update_under_native", "The bundle is older than the store build.", {
						version: target.version,
						old: device.versionName,
					})
				: undefined,
	},
	{
		rule: "disable_prod_build",
		check: (given) => kindOfBuild(given, given.device.isProd, "allowProd", "disable_prod_build"),
	},
	{
		rule: "disable_dev_build",
		check: (given) => kindOfBuild(given, !given.device.isProd, "allowDev", "disable_dev_build"),
	},
	{
		rule: "disable_device",
		check: (given) => kindOfBuild(given, !given.device.isEmulator, "allowDevice", "disable_device"),
	},
	{
		rule: "disable_emulator",
		check: (given) => kindOfBuild(given, given.device.isEmulator, "allowEmulator", "disable_emulator"),
	},
];

/** What is left for a channel that serves the store build. */
const STORE_BUILD_RULES: readonly Rule<Candidate>[] = [
	{
		rule: "already_on_builtin",
		check: ({ target, device }) =>
			target === null && runsStoreBuild(device)
				? refused("up_to_date", "already_on_builtin", "The device runs the store build already.", {})
				: undefined,
	},
	{
		rule: "revert_to_builtin",
		check: ({ target, device }) => {
			const verdict = target === null ? backToStoreBuild(device) : undefined;
			return verdict && { verdict, why: "the plugin cannot go back to the store build" };
		},
	},
];

/** In this order the first rule that finds something decides. A device that no channel serves is under no channel's rules. */
const LADDER: readonly Rule<Candidate>[] = [
	...BUNDLE_RULES,
	...CHANNEL_RULES.map(({ rule, check }) => ({
		rule,
		check: (given: Candidate) => (given.channel === null ? undefined : check({ ...given, channel: given.channel })),
	})),
	...STORE_BUILD_RULES,
];

/** A refusal where the plugin is too old to go back; undefined where it can. */
function backToStoreBuild(device: Device): Refusal | undefined {
	if (device.platform === "electron" || atLeastForMajor(device.pluginVersion, REVERTS_TO_BUILTIN)) return undefined;
	return refusal(
		"failed",
		"revert_to_builtin_plugin_version_too_old",
		"The plugin is too old to go back to the store build.",
	);
}

export function runsStoreBuild(device: Pick<Device, "versionName" | "versionBuild">): boolean {
	return device.versionName === "" || device.versionName === BUILTIN || device.versionName === device.versionBuild;
}

/** The store build counts as the version that it was built from, however that is written. */
function runsTarget({ device, native }: Candidate, target: string): boolean {
	if (!runsStoreBuild(device)) return device.versionName === target;
	return target === native.version || target === device.versionBuild;
}

function gate(
	{ channel, target, native }: Candidate & { readonly channel: Channel },
	level: "major" | "minor" | "patch",
	exceeds: (to: SemVer, from: SemVer) => boolean,
): Finding | undefined {
	if (channel.disableAutoUpdate !== level || target === null) return undefined;
	const to = readVersion(target.version);
	if (to === null || !exceeds(to, native)) return undefined;
	return refused(
		"blocked",
		`disable_auto_update_to_${level}`,
		`The channel does not update across a ${level} version of the store build.`,
		{ major: true, version: target.version, old: native.version },
	);
}

function kindOfBuild(
	{ channel, target, device }: Candidate & { readonly channel: Channel },
	concerned: boolean,
	setting: "allowProd" | "allowDev" | "allowDevice" | "allowEmulator",
	error: string,
): Finding | undefined {
	if (!concerned || channel[setting]) return undefined;
	const messages: Readonly<Record<string, string>> = {
		allowProd: "The channel is off for production builds.",
		allowDev: "The channel is off for development builds.",
		allowDevice: "The channel is off for physical devices.",
		allowEmulator: "The channel is off for emulators.",
	};
	return refused("blocked", error, messages[setting] ?? error, {
		version: target?.version ?? BUILTIN,
		old: device.versionName,
	});
}

function compare(one: string, other: string): number {
	const [left, right] = [readVersion(one), readVersion(other)];
	return left === null || right === null ? 0 : compareVersions(left, right);
}

function refusal(kind: Kind, error: string, message: string, extra: Refusal["extra"] = {}): Refusal {
	return { outcome: "none", error, message, kind, extra };
}

function refused(kind: Kind, error: string, message: string, extra: Refusal["extra"]): Finding {
	return { verdict: refusal(kind, error, message, extra), why: message };
}
