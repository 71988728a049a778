/**
 * Every refusal of an update check, in one table: its kind, the message of the answer, the reason
 * and the remedy that a person reads, the settings of the channel that remove it, and its words in
 * lists. Decision, explanation, schemas, documents, screens and command line derive from an entry,
 * so a new code is added here and decided by a rule (rules.ts). A code is never renamed, because
 * apps compare it.
 */
import { BUILTIN, type Bundle, type Channel, type Device, type Platform, REVERTS_TO_BUILTIN } from "./model";
import type { RuleName } from "./rule-names";
import type { SemVer } from "./version";

/** Nothing to do, kept from an update by a rule, or by a fault. */
export const REFUSAL_KINDS = ["up_to_date", "blocked", "failed"] as const;
export type RefusalKind = (typeof REFUSAL_KINDS)[number];

/** Fields of POST /channel with the values that end a refusal. */
export const ENDING_SETTINGS = {
	ios: true,
	android: true,
	electron: true,
	allow_device_self_set: true,
	allow_emulator: true,
	allow_device: true,
	allow_dev: true,
	allow_prod: true,
	disableAutoUpdate: "none",
	disableAutoUpdateUnderNative: false,
} as const;
export type ChannelSettings = Partial<typeof ENDING_SETTINGS>;

export type SettingsOfChannel = ChannelSettings & { readonly channel: string };

/** How a remedy names fields: as requests do, or as screens do. */
export interface Names {
	readonly minUpdateVersion: string;
	readonly selfSet: string;
}
export const API_NAMES: Names = { minUpdateVersion: "min_update_version", selfSet: "allow_device_self_set" };
export const SCREEN_NAMES: Names = { minUpdateVersion: "minimum store version", selfSet: "“Devices can join”" };

/** The facts that the sentences about a refusal use. */
export interface RefusedCase {
	readonly device: Device;
	/** The version of the store build, normalized if it is a version number. */
	readonly build: string;
	readonly channel: Channel | null;
	readonly channels: readonly Channel[];
	readonly target: Bundle | null;
	/** `bundle 1.4.3`, or `bundle builtin`. */
	readonly bundle: string;
	readonly isOverride: boolean;
	/** The channel is the one of the device's override. */
	readonly isChannelOverride: boolean;
	readonly isCurrentBundleDeleted: boolean;
	/** How to give the device another bundle: on its channel, in the rollout, or by its override. */
	giving(which: string): string;
}

interface Facts {
	readonly device: Device;
	readonly target: Bundle | null;
}

interface Common {
	readonly kind: RefusalKind;
	/** The rule that decides it. */
	readonly rule: RuleName;
	/** `message` of the device's answer. */
	readonly message: string | ((facts: Facts) => string);
	/** For lists: after "got none: ", or after the number of devices. */
	readonly words: string;
}

/** Solved by settings of the channel. */
interface ChannelRefusal extends Common {
	readonly kind: "blocked";
	readonly decidedBy: "channel_rule";
	/** Continues the name of the channel. */
	readonly because: (refused: RefusedCase) => string;
	readonly settings: ChannelSettings;
	/** A refusal because of versions can be solved by another bundle too. */
	readonly aboutVersions: boolean;
	/**
	 * Set if a newer store build gets the bundle: the first one, or undefined if that is the
	 * bundle's own version.
	 */
	readonly storeBuild?: (target: Bundle, to: SemVer) => string | undefined;
}

/** Solved by something other than settings. */
interface OtherRefusal extends Common {
	readonly decidedBy: "bundle" | "device" | "no_channel";
	/** Continues a sentence after "because". */
	readonly because: (refused: RefusedCase) => string;
	readonly remedy: (refused: RefusedCase, names: Names) => string;
}

type RefusalEntry = ChannelRefusal | OtherRefusal;

const offFor = (
	rule: RuleName,
	settings: ChannelSettings,
	devices: string,
	shown: string = devices,
): ChannelRefusal => ({
	kind: "blocked",
	rule,
	message: `The channel is off for ${devices}.`,
	words: `the channel is off for ${shown}`,
	decidedBy: "channel_rule",
	because: () => `is off for ${devices}`,
	settings,
	aboutVersions: false,
});

const offForPlatform = (platform: Platform, shown: string) =>
	offFor("disabled_platform", { [platform]: true }, platform, shown);

const versionGate = (
	level: "major" | "minor" | "patch",
	words: string,
	storeBuild: NonNullable<ChannelRefusal["storeBuild"]>,
): ChannelRefusal => ({
	kind: "blocked",
	rule: `disable_auto_update_to_${level}`,
	message: `The channel does not update across a ${level} version of the store build.`,
	words,
	decidedBy: "channel_rule",
	because: ({ target, build }) => `allows only the ${level} version of the store build: ${target?.version} on ${build}`,
	settings: { disableAutoUpdate: "none" },
	aboutVersions: true,
	storeBuild,
});

const NUMBER_THE_BUILD =
	"Set the version of the native app, or version in the plugin's configuration, to a number such as 1.2.3, and ship that store build.";
const NOTHING_NEEDS_TO_CHANGE = "Nothing needs to change. To change what it runs, ";
const updatePlugin = (version: string) => `update the plugin to ${version} or newer in the next store build`;
const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

export const REFUSALS = {
	unknown_version_build: {
		kind: "failed",
		rule: "unknown_version_build",
		message: "The version of the store binary is unknown.",
		words: "the version of the store build is unknown",
		decidedBy: "device",
		because: () => "the device does not know the version of its store build",
		remedy: () => NUMBER_THE_BUILD,
	},
	semver_error: {
		kind: "failed",
		rule: "semver_error",
		message: "The version of the store binary (version_build) cannot be read as a version number.",
		words: "the version of the store build is not a version number",
		decidedBy: "device",
		because: ({ device }) => `the version of its store build, "${device.versionBuild}", is not a version number`,
		remedy: () => NUMBER_THE_BUILD,
	},
	unsupported_plugin_version: {
		kind: "failed",
		rule: "unsupported_plugin_version",
		message: "Version 4 of the plugin is too old.",
		words: "the updater plugin is too old",
		decidedBy: "device",
		because: ({ device }) => `its plugin ${device.pluginVersion} is too old`,
		remedy: () => capital(`${updatePlugin("5.0.0")}.`),
	},
	no_channel: {
		kind: "failed",
		rule: "no_channel",
		message: "No public channel serves this device, and it has no default channel that may.",
		words: "no channel serves the device",
		decidedBy: "no_channel",
		because: whyNoChannel,
		remedy: noChannelRemedy,
	},
	no_bundle: {
		kind: "failed",
		rule: "bundle_has_content",
		message: ({ target }) => `Bundle ${target?.version} has no file.`,
		words: "the bundle has no files for the device",
		decidedBy: "bundle",
		because: ({ bundle }) => `${bundle} has no file that this device can read`,
		remedy: ({ bundle, giving }) =>
			`Upload the files of ${bundle} with a zip under another version, and ${giving("that one")}.`,
	},
	key_id_mismatch: {
		kind: "blocked",
		rule: "encryption_key",
		message: "The bundle was encrypted with another key than the device has.",
		words: "the bundle is encrypted with another key",
		decidedBy: "bundle",
		because: ({ bundle, target, device }) =>
			`${bundle} is encrypted with the key ${target?.keyId}, and the device has the key ${device.keyId}`,
		remedy: ({ target, device, giving }) =>
			`Upload a bundle that is encrypted with the key ${device.keyId} and ${giving("it")}, or ship a store build that has the key ${target?.keyId}.`,
	},
	no_new_version_available: {
		kind: "up_to_date",
		rule: "already_there",
		message: "No new version available.",
		words: "the device runs the bundle already",
		decidedBy: "bundle",
		because: ({ device, target, channel, isOverride, isChannelOverride }) => {
			const runs =
				device.versionName === BUILTIN
					? `its store build has the version of bundle ${target?.version} already`
					: `it runs bundle ${target?.version} already`;
			if (isOverride) return `${runs}, which is set for this device`;
			return `${runs}${isChannelOverride ? `, from channel ${channel?.name}, which is set for this device` : ""}`;
		},
		remedy: ({ giving }) => `${NOTHING_NEEDS_TO_CHANGE}${giving("another bundle")}.`,
	},
	disabled_platform_ios: offForPlatform("ios", "iOS"),
	disabled_platform_android: offForPlatform("android", "Android"),
	disabled_platform_electron: offForPlatform("electron", "Electron"),
	disable_auto_update_to_major: versionGate(
		"major",
		"the channel allows no new major version",
		(_, to) => `${to.major}.0.0`,
	),
	disable_auto_update_to_minor: versionGate(
		"minor",
		"the bundle is of another minor version",
		(_, to) => `${to.major}.${to.minor}.0`,
	),
	disable_auto_update_to_patch: versionGate("patch", "the bundle is of another patch version", () => undefined),
	disable_auto_update_to_metadata: {
		kind: "blocked",
		rule: "disable_auto_update_to_metadata",
		message: ({ target }) => `The bundle needs store build ${target?.minUpdateVersion}.`,
		words: "the bundle needs a newer store build",
		decidedBy: "channel_rule",
		because: ({ bundle, target, build }) =>
			`serves ${bundle}, which needs store build ${target?.minUpdateVersion}; the device has ${build}`,
		settings: { disableAutoUpdate: "none" },
		aboutVersions: true,
		storeBuild: (target) => target.minUpdateVersion ?? undefined,
	},
	misconfigured_channel: {
		kind: "blocked",
		rule: "disable_auto_update_to_metadata",
		message: "The channel updates by minimum version, and the bundle has none.",
		words: "the channel updates by minimum store version, and the bundle has none",
		decidedBy: "channel_rule",
		because: ({ bundle }) => `updates by min_update_version, and ${bundle} has none`,
		settings: { disableAutoUpdate: "none" },
		aboutVersions: true,
	},
	disable_auto_update_under_native: {
		kind: "blocked",
		rule: "disable_auto_update_under_native",
		message: "The bundle is older than the store build.",
		words: "the bundle is older than the store build",
		decidedBy: "channel_rule",
		because: ({ target, build }) =>
			`offers no bundle older than the store build: ${target?.version} is older than ${build}`,
		settings: { disableAutoUpdateUnderNative: false },
		aboutVersions: true,
	},
	disable_prod_build: offFor("disable_prod_build", { allow_prod: true }, "production builds"),
	disable_dev_build: offFor("disable_dev_build", { allow_dev: true }, "development builds"),
	disable_device: offFor("disable_device", { allow_device: true }, "physical devices"),
	disable_emulator: offFor("disable_emulator", { allow_emulator: true }, "emulators"),
	already_on_builtin: {
		kind: "up_to_date",
		rule: "already_on_builtin",
		message: "The device already runs the store build.",
		words: "the device runs the store build already",
		decidedBy: "bundle",
		because: ({ channel }) => `channel ${channel?.name} serves the store build, which it runs already`,
		remedy: ({ giving }) => `${NOTHING_NEEDS_TO_CHANGE}${giving("a bundle")}.`,
	},
	revert_to_builtin_plugin_version_too_old: {
		kind: "failed",
		rule: "revert_to_builtin",
		message: "The plugin is too old to go back to the store build.",
		words: "the updater plugin is too old to go back to the store build",
		decidedBy: "device",
		because: ({ device, channel, isCurrentBundleDeleted }) =>
			isCurrentBundleDeleted
				? `bundle ${device.versionName} was deleted, and its plugin ${device.pluginVersion} cannot go back to the store build`
				: `channel ${channel?.name} serves the store build, and its plugin ${device.pluginVersion} cannot go back to it`,
		remedy: ({ isCurrentBundleDeleted, giving }) => {
			const first = isCurrentBundleDeleted ? "serve it a bundle from a channel" : giving("a bundle");
			return capital(`${first}, or ${updatePlugin(REVERTS_TO_BUILTIN[6])}.`);
		},
	},
} as const satisfies Readonly<Record<string, RefusalEntry>>;

export type RefusalCode = keyof typeof REFUSALS;
export const REFUSAL_CODES = Object.keys(REFUSALS) as RefusalCode[];

/** Without the literal types of the table, whose entries differ in their fields. */
export const refusalOf = (code: RefusalCode): RefusalEntry => REFUSALS[code];

/** The entry of a code that was stored or received; undefined for one of another release. */
const knownRefusal = (code: string | null): RefusalEntry | undefined =>
	code !== null && Object.hasOwn(REFUSALS, code) ? refusalOf(code as RefusalCode) : undefined;

/**
 * For lists: after "got none: ", or after the number of devices. An unknown code is shown with
 * spaces.
 */
export const refusalWords = (code: string): string => knownRefusal(code)?.words ?? code.replaceAll("_", " ");

/** Whether the check had nothing to do, so its code is no obstacle. */
export const isUpToDate = (code: string | null): boolean => knownRefusal(code)?.kind === "up_to_date";

/** Whether a newer store build gets the bundle. */
export function needsStoreBuild(code: RefusalCode): boolean {
	const refusal = refusalOf(code);
	return refusal.decidedBy === "channel_rule" && refusal.storeBuild !== undefined;
}

/** Answers to a check that ends before a decision, by the code of the error. */
export const UNDECIDED = {
	app_not_found: {
		kind: "failed",
		message: "This server has no app with this id.",
		remedy: "Create the app under the id that the device sends (`capstan init`), or correct `appId` in the app.",
	},
	provider_infrastructure_request_blocked: {
		kind: "blocked",
		message: "This app answers no requests from the review networks of app stores.",
		remedy:
			"Turn off `block_provider_infra_requests` of the app (PUT /app/:app_id) if such devices should get updates.",
	},
} as const satisfies Readonly<
	Record<string, { readonly kind: RefusalKind; readonly message: string; readonly remedy: string }>
>;
export type UndecidedCode = keyof typeof UNDECIDED;
export const UNDECIDED_CODES = Object.keys(UNDECIDED) as UndecidedCode[];

export const undecidedAnswer = (error: UndecidedCode) => ({
	error,
	message: UNDECIDED[error].message,
	kind: UNDECIDED[error].kind,
});

function whyNoChannel({ channels, device: { defaultChannel, platform } }: RefusedCase): string {
	const missing = `${platform} has no public channel that can serve`;
	if (defaultChannel === "") return missing;
	const named = channels.find(({ name }) => name === defaultChannel);
	return `the device may not use channel ${defaultChannel}${named === undefined ? ", which does not exist" : ""}, and ${missing}`;
}

function noChannelRemedy({ channels, device: { defaultChannel, platform } }: RefusedCase, names: Names): string {
	const unready = channels.find(
		({ bundle, name, public: isPublic }) => bundle?.ready === false && (isPublic || name === defaultChannel),
	);
	if (unready !== undefined) {
		return `finish the upload of bundle ${unready.bundle?.version}, or release another one to channel ${unready.name}.`;
	}
	const named = channels.find(({ name }) => name === defaultChannel);
	const create =
		defaultChannel === "" || named !== undefined
			? ""
			: `create channel ${defaultChannel} and let devices choose it (${names.selfSet}), or `;
	return `${create}make a channel public for ${platform}.`;
}
