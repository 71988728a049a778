/**
 * The rules that can refuse an update, in the order in which they apply: bundle, channel settings, way back to the store build. Each rule
 * is pure and looks at one candidate; src/domain/updates/decision.ts walks through the list.
 */
import {
	BUILTIN,
	type Bundle,
	type Channel,
	type Device,
	REVERTS_TO_BUILTIN,
	readsManifest,
	runsStoreBuild,
} from "./model";
import { atLeastForMajor, compareVersions, equalVersion, readVersion, type SemVer } from "./version";

/** Up to this version the native plugin computes its key id in another way, so the ids cannot be compared. */
const LAST_WITH_OTHER_KEY_IDS = "8.40.7";

export type Kind = "up_to_date" | "blocked" | "failed";

export interface Refusal {
	readonly outcome: "none";
	readonly error: string;
	readonly message: string;
	readonly kind: Kind;
	/** Further fields of the answer. */
	readonly extra: Readonly<Record<string, string | boolean>>;
}

/** A bundle that a device would be offered. */
export interface Candidate {
	readonly device: Device;
	/** The version of the store binary. */
	readonly native: SemVer;
	/** Null: only the device's override serves it. */
	readonly channel: Channel | null;
	/** Null: the store build. */
	readonly target: Bundle | null;
}

interface Finding {
	readonly verdict: Refusal;
	readonly why: string;
}

export interface Rule<Given> {
	readonly rule: string;
	readonly check: (given: Given) => Finding | undefined;
}

const BUNDLE_RULES: readonly Rule<Candidate>[] = [
	{
		rule: "bundle_has_content",
		check: ({ target, device }) =>
			target !== null && !target.hasZip && !(target.hasManifest && readsManifest(device))
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

/** A candidate that a channel serves. */
type OfChannel = Candidate & { readonly channel: Channel };

/** Settings of the channel. Version gates compare with the store binary, not with the bundle in use. */
const CHANNEL_RULES: readonly Rule<OfChannel>[] = [
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

/** Rules for a channel that serves the store build. */
const STORE_BUILD_RULES: readonly Rule<Candidate>[] = [
	{
		rule: "already_on_builtin",
		check: ({ target, device }) =>
			target === null && runsStoreBuild(device)
				? refused("up_to_date", "already_on_builtin", "The device already runs the store build.", {})
				: undefined,
	},
	{
		rule: "revert_to_builtin",
		check: ({ target, device }) => {
			const verdict = target === null ? refuseRevert(device) : undefined;
			return verdict && { verdict, why: "the plugin cannot go back to the store build" };
		},
	},
];

/** The first rule that refuses decides. Channel rules do not apply to a device that only its override serves. */
export const RULES: readonly Rule<Candidate>[] = [
	...BUNDLE_RULES,
	...CHANNEL_RULES.map(({ rule, check }) => ({
		rule,
		check: (given: Candidate) => (isOfChannel(given) ? check(given) : undefined),
	})),
	...STORE_BUILD_RULES,
];

function isOfChannel(given: Candidate): given is OfChannel {
	return given.channel !== null;
}

/** The refusal if the plugin is too old to revert to the store build. */
export function refuseRevert(device: Device): Refusal | undefined {
	if (device.platform === "electron" || atLeastForMajor(device.pluginVersion, REVERTS_TO_BUILTIN)) return undefined;
	return refusal(
		"failed",
		"revert_to_builtin_plugin_version_too_old",
		"The plugin is too old to go back to the store build.",
	);
}

/** The store build counts as the bundle with the same version, with or without build metadata; see `equalVersion`. */
function runsTarget({ device }: Candidate, target: string): boolean {
	if (!runsStoreBuild(device)) return device.versionName === target;
	return target === device.versionBuild || target === equalVersion(device.versionBuild);
}

function gate(
	{ channel, target, native }: OfChannel,
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

const OFF_FOR = {
	allowProd: "The channel is off for production builds.",
	allowDev: "The channel is off for development builds.",
	allowDevice: "The channel is off for physical devices.",
	allowEmulator: "The channel is off for emulators.",
} as const;

function kindOfBuild(
	{ channel, target, device }: OfChannel,
	concerned: boolean,
	setting: keyof typeof OFF_FOR,
	error: string,
): Finding | undefined {
	if (!concerned || channel[setting]) return undefined;
	return refused("blocked", error, OFF_FOR[setting], {
		version: target?.version ?? BUILTIN,
		old: device.versionName,
	});
}

function compare(one: string, other: string): number {
	const [left, right] = [readVersion(one), readVersion(other)];
	return left === null || right === null ? 0 : compareVersions(left, right);
}

export function refusal(kind: Kind, error: string, message: string, extra: Refusal["extra"] = {}): Refusal {
	return { outcome: "none", error, message, kind, extra };
}

function refused(kind: Kind, error: string, message: string, extra: Refusal["extra"]): Finding {
	return { verdict: refusal(kind, error, message, extra), why: message };
}
