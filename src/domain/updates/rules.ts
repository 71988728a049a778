/**
 * The rules that can refuse an update, in the order in which they apply: bundle, channel settings,
 * way back to the store build. Each rule is pure and looks at one candidate;
 * src/domain/updates/decision.ts walks through the list.
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
import { type RefusalCode, type RefusalKind, refusalOf } from "./refusals";
import type { RuleName } from "./rule-names";
import { atLeastForMajor, compareVersions, equalVersion, readVersion, type SemVer } from "./version";

/**
 * Up to this version the native plugin computes its key id in another way, so the ids cannot be
 * compared.
 */
const LAST_WITH_OTHER_KEY_IDS = "8.40.7";

export interface Refusal {
	readonly outcome: "none";
	readonly error: RefusalCode;
	readonly message: string;
	readonly kind: RefusalKind;
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
	readonly rule: RuleName;
	readonly check: (given: Given) => Finding | undefined;
}

const BUNDLE_RULES: readonly Rule<Candidate>[] = [
	{
		rule: "bundle_has_content",
		check: (given) => {
			const { target, device } = given;
			return target !== null && !target.hasZip && !(target.hasManifest && readsManifest(device))
				? refused("no_bundle", given)
				: undefined;
		},
	},
	{
		rule: "encryption_key",
		check: (given) => {
			const { target, device } = given;
			const [bundleKeyId, deviceKeyId] = [target?.keyId ?? "", device.keyId ?? ""];
			if (bundleKeyId === "" || deviceKeyId === "" || bundleKeyId === deviceKeyId) return undefined;
			if (device.platform !== "electron" && compare(device.pluginVersion, LAST_WITH_OTHER_KEY_IDS) <= 0)
				return undefined;
			return refused("key_id_mismatch", given, { deviceKeyId, bundleKeyId });
		},
	},
	{
		rule: "already_there",
		check: (given) =>
			given.target !== null && runsTarget(given, given.target.version)
				? refused("no_new_version_available", given)
				: undefined,
	},
];

/** A candidate that a channel serves. */
type OfChannel = Candidate & { readonly channel: Channel };

/**
 * Settings of the channel. Version gates compare with the store binary, not with the bundle in use.
 */
const CHANNEL_RULES: readonly Rule<OfChannel>[] = [
	{
		rule: "disabled_platform",
		check: (given) => {
			const { channel, device } = given;
			return channel.platforms[device.platform] ? undefined : off(`disabled_platform_${device.platform}`, given);
		},
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
		check: (given) => {
			const { target, native, channel } = given;
			if (channel.disableAutoUpdate !== "version_number" || target === null) return undefined;
			const facts = { version: target.version, old: native.version };
			if (target.minUpdateVersion === null) return refused("misconfigured_channel", given, facts);
			return compare(target.minUpdateVersion, native.version) > 0
				? refused("disable_auto_update_to_metadata", given, { ...facts, major: true })
				: undefined;
		},
	},
	{
		rule: "disable_auto_update_under_native",
		check: (given) => {
			const { target, native, channel } = given;
			return channel.disableAutoUpdateUnderNative && target !== null && compare(target.version, native.version) < 0
				? off("disable_auto_update_under_native", given)
				: undefined;
		},
	},
	{
		rule: "disable_prod_build",
		check: (given) => (given.device.isProd && !given.channel.allowProd ? off("disable_prod_build", given) : undefined),
	},
	{
		rule: "disable_dev_build",
		check: (given) => (!given.device.isProd && !given.channel.allowDev ? off("disable_dev_build", given) : undefined),
	},
	{
		rule: "disable_device",
		check: (given) =>
			!given.device.isEmulator && !given.channel.allowDevice ? off("disable_device", given) : undefined,
	},
	{
		rule: "disable_emulator",
		check: (given) =>
			given.device.isEmulator && !given.channel.allowEmulator ? off("disable_emulator", given) : undefined,
	},
];

/** Rules for a channel that serves the store build. */
const STORE_BUILD_RULES: readonly Rule<Candidate>[] = [
	{
		rule: "already_on_builtin",
		check: (given) =>
			given.target === null && runsStoreBuild(given.device) ? refused("already_on_builtin", given) : undefined,
	},
	{
		rule: "revert_to_builtin",
		check: ({ target, device }) => {
			const verdict = target === null ? refuseRevert(device) : undefined;
			return verdict && { verdict, why: "the plugin cannot go back to the store build" };
		},
	},
];

/**
 * The first rule that refuses decides. Channel rules do not apply to a device that only its
 * override serves.
 */
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
	return refusal("revert_to_builtin_plugin_version_too_old", { device, target: null });
}

/**
 * The store build counts as the bundle with the same version, with or without build metadata; see
 * `equalVersion`.
 */
function runsTarget({ device }: Candidate, target: string): boolean {
	if (!runsStoreBuild(device)) return device.versionName === target;
	return target === device.versionBuild || target === equalVersion(device.versionBuild);
}

function gate(
	given: OfChannel,
	level: "major" | "minor" | "patch",
	exceeds: (to: SemVer, from: SemVer) => boolean,
): Finding | undefined {
	const { channel, target, native } = given;
	if (channel.disableAutoUpdate !== level || target === null) return undefined;
	const to = readVersion(target.version);
	if (to === null || !exceeds(to, native)) return undefined;
	const facts = { major: true, version: target.version, old: native.version };
	return refused(`disable_auto_update_to_${level}`, given, facts);
}

/** The answer names the bundle that the channel serves, and the one that the device keeps. */
function off(error: RefusalCode, given: OfChannel): Finding {
	return refused(error, given, { version: given.target?.version ?? BUILTIN, old: given.device.versionName });
}

function compare(one: string, other: string): number {
	const [left, right] = [readVersion(one), readVersion(other)];
	return left === null || right === null ? 0 : compareVersions(left, right);
}

export function refusal(
	error: RefusalCode,
	given: Pick<Candidate, "device" | "target">,
	extra: Refusal["extra"] = {},
): Refusal {
	const { kind, message } = refusalOf(error);
	return {
		outcome: "none",
		error,
		message: typeof message === "string" ? message : message(given),
		kind,
		extra,
	};
}

function refused(error: RefusalCode, given: Candidate, extra: Refusal["extra"] = {}): Finding {
	const verdict = refusal(error, given, extra);
	return { verdict, why: verdict.message };
}
