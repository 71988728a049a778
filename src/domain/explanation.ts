/**
 * Why a device gets what it gets, in words, and what to change so that it gets the bundle. For people: the live check never asks.
 *
 * A remedy is true: the settings that it names were applied to a copy of what the decision knows, and the device was decided again. Where
 * no setting can help, the message alone says what to do.
 */
import {
	BUILTIN,
	type Bundle,
	type Channel,
	type Decision,
	type Device,
	decideUpdate,
	REVERTS_TO_BUILTIN,
	type Snapshot,
	targetOf,
} from "./update-decision";
import { compareVersions, readNativeVersion, readVersion, type SemVer } from "./version";

/** Fields of POST /channel. */
export interface ChannelSettings {
	readonly ios?: true;
	readonly android?: true;
	readonly electron?: true;
	readonly allow_device_self_set?: true;
	readonly allow_emulator?: true;
	readonly allow_device?: true;
	readonly allow_dev?: true;
	readonly allow_prod?: true;
	readonly disableAutoUpdate?: "none";
	readonly disableAutoUpdateUnderNative?: false;
}

export interface Remedy {
	/** The fix, naming the channel and the values. */
	readonly message: string;
	/** The change of one channel with which the device gets the bundle; null where no setting is in its way. */
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
	/** Goes on after "because". */
	readonly because: string;
	/** Null where the device gets something. */
	readonly remedy: Remedy | null;
}

export function explainDecision(snapshot: Snapshot, device: Device): Explanation {
	const decision = decideUpdate(snapshot, device);
	const place = placeOf(snapshot, device, decision);
	if (decision.outcome === "none") return explainRefusal(snapshot, device, decision, place);
	if (decision.trace.at(-1)?.rule === "go_home") {
		const because = `bundle ${device.versionName}, which it runs, was deleted`;
		return { decidedBy: "deleted_bundle", because, remedy: null };
	}
	const decidedBy = place.isForced ? "device_bundle" : place.isRollout ? "rollout" : place.channelBy;
	return { decidedBy, because: whyServed(place, device), remedy: null };
}

/** Input of the decision: the channel, the bundle, and the origin of both. */
interface Place {
	readonly channel: Channel | null;
	readonly target: Bundle | null;
	/** The bundle is set for the device. */
	readonly isForced: boolean;
	readonly isRollout: boolean;
	readonly channelBy: "device_channel" | "default_channel" | "public_channel" | "no_channel";
}

function placeOf({ override }: Snapshot, device: Device, { resolved: channel }: Decision): Place {
	const forced = override?.bundle?.ready === true ? override.bundle : null;
	const target = forced ?? (channel === null ? null : targetOf(channel, device));
	const channelBy =
		channel === null
			? "no_channel"
			: channel === override?.channel
				? "device_channel"
				: channel.name === device.defaultChannel
					? "default_channel"
					: "public_channel";
	const isRollout = forced === null && target !== null && target === channel?.rollout?.bundle;
	return { channel, target, isForced: forced !== null, isRollout, channelBy };
}

function whyServed({ channel, target, isForced, isRollout, channelBy }: Place, device: Device): string {
	if (isForced) return `bundle ${target?.version} is set for this device`;
	const serves = target === null ? "serves the store build" : `serves bundle ${target.version}`;
	if (channelBy === "device_channel") return `channel ${channel?.name} is set for this device and ${serves}`;
	if (isRollout) {
		const share = (channel?.rollout?.percentageBps ?? 0) / 100;
		return `channel ${channel?.name} rolls out bundle ${target?.version} to ${share} % of its devices, and this is one of them`;
	}
	return channelBy === "default_channel"
		? `the device asks for channel ${channel?.name}, which ${serves}`
		: `${channel?.name} is the public channel for ${device.platform} and ${serves}`;
}

type RefusedDecision = Extract<Decision, { outcome: "none" }>;

function explainRefusal(snapshot: Snapshot, device: Device, decision: RefusedDecision, place: Place): Explanation {
	const { because, decidedBy, message } = refusalText(snapshot, device, decision, place);
	if (decidedBy !== "channel_rule" && decidedBy !== "no_channel") {
		return { decidedBy, because, remedy: { message, settings: null } };
	}
	const fix = settingsThatServe(snapshot, device);
	if (decidedBy === "no_channel") {
		const settings = fix === undefined ? null : { channel: fix.channel, ...fix.settings };
		const first = fix === undefined ? "" : `${capital(settingsText(fix.settings))} on channel ${fix.channel}. Or `;
		return { decidedBy, because, remedy: { message: capital(first + message), settings } };
	}
	const channel = place.channel as Channel;
	const remedy = {
		message: ruleRemedy(place, device, channel, fix?.codes ?? [decision.error]),
		settings: fix === undefined ? null : { channel: fix.channel, ...fix.settings },
	};
	return { decidedBy, because, remedy };
}

/** The obstacle, and its remedy unless channel settings fix it. */
function refusalText(
	snapshot: Snapshot,
	device: Device,
	decision: RefusedDecision,
	place: Place,
): { readonly because: string; readonly decidedBy: Explanation["decidedBy"]; readonly message: string } {
	const { channel, target } = place;
	const { versionBuild, pluginVersion } = device;
	const build = readNativeVersion(versionBuild)?.version ?? versionBuild;
	const bundle = `bundle ${target?.version ?? BUILTIN}`;
	const another = (which: string) => giving(place, which);
	const nothing = "Nothing needs to change. To change what it runs, ";
	const native =
		"Set the version of the native app, or version in the plugin's configuration, to a number such as 1.2.3, and ship that store build.";
	const plugin = (version: string) => `update the plugin to ${version} or newer in the next store build`;
	const ofChannel = (rule: string) => ({
		decidedBy: "channel_rule" as const,
		because: `channel ${channel?.name} ${rule}`,
		message: "",
	});
	switch (decision.error) {
		case "unknown_version_build":
			return {
				decidedBy: "device",
				because: "the device does not know the version of its store build",
				message: native,
			};
		case "semver_error": {
			const because = `the version of its store build, "${versionBuild}", is no version number`;
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
			const because = place.isForced
				? `it runs bundle ${target?.version} already, which is set for this device`
				: `it runs bundle ${target?.version} already`;
			return { decidedBy: "bundle", because, message: `${nothing}${another("another bundle")}.` };
		}
		case "already_on_builtin": {
			const because = `channel ${channel?.name} serves the store build, which it runs already`;
			return { decidedBy: "bundle", because, message: `${nothing}${another("a bundle")}.` };
		}
		case "revert_to_builtin_plugin_version_too_old": {
			const isGone = decision.trace.at(-1)?.rule === "go_home";
			const because = isGone
				? `bundle ${device.versionName} was deleted, and its plugin ${pluginVersion} cannot go back to the store build`
				: `channel ${channel?.name} serves the store build, and its plugin ${pluginVersion} cannot go back to it`;
			const first = isGone ? `serve it a bundle from a channel` : another("a bundle");
			return { decidedBy: "device", because, message: capital(`${first}, or ${plugin(REVERTS_TO_BUILTIN[6])}.`) };
		}
		case "misconfigured_channel":
			return ofChannel(`updates by min_update_version, and ${bundle} has none`);
		case "disable_auto_update_to_metadata":
			return ofChannel(
				`serves ${bundle}, which needs store build ${target?.minUpdateVersion}; the device has ${build}`,
			);
		case "disable_auto_update_under_native":
			return ofChannel(`gives no bundle that is older than the store build: ${target?.version} is older than ${build}`);
		case "disable_prod_build":
			return ofChannel("is off for production builds");
		case "disable_dev_build":
			return ofChannel("is off for development builds");
		case "disable_device":
			return ofChannel("is off for physical devices");
		case "disable_emulator":
			return ofChannel("is off for emulators");
		default: {
			const level = /^disable_auto_update_to_(\w+)$/.exec(decision.error)?.[1];
			return ofChannel(
				level === undefined
					? `is off for ${device.platform}`
					: `gives no other ${level} version than that of the store build: ${target?.version} on ${build}`,
			);
		}
	}
}

/** How the device comes to another bundle: on its channel, in the rollout, or set for it alone. */
function giving({ channel, isForced, isRollout }: Pick<Place, "channel" | "isForced" | "isRollout">, which: string) {
	if (isForced) return `set ${which} for this device`;
	return isRollout ? `roll out ${which} on channel ${channel?.name}` : `promote ${which} to channel ${channel?.name}`;
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

interface Fix {
	readonly channel: string;
	readonly settings: ChannelSettings;
	/** The refusals that the settings take away, in the order of the rules. */
	readonly codes: readonly string[];
}

/** Changes one setting after the other until nothing refuses; undefined where something else than a setting does. */
function settingsThatServe(snapshot: Snapshot, device: Device): Fix | undefined {
	let current = snapshot;
	let settings: ChannelSettings = {};
	const codes: string[] = [];
	for (;;) {
		const decision = decideUpdate(current, device);
		if (decision.outcome !== "none" || decision.kind === "up_to_date") {
			const channel = decision.resolved?.name;
			return codes.length === 0 || channel === undefined ? undefined : { channel, settings, codes };
		}
		const channel = decision.resolved ?? current.channels.find(({ name }) => name === device.defaultChannel);
		const change = channel === undefined ? undefined : settingAgainst(decision.error, channel, device);
		// A setting that helped is not asked for twice, so this ends.
		if (channel === undefined || change === undefined || codes.includes(decision.error)) return undefined;
		settings = { ...settings, ...change };
		codes.push(decision.error);
		const changed = withSettings(channel, change);
		const replace = (one: Channel) => (one.id === channel.id ? changed : one);
		const { override } = current;
		current = {
			...current,
			channels: current.channels.map(replace),
			override: override?.channel == null ? override : { ...override, channel: replace(override.channel) },
		};
	}
}

const SETTING_AGAINST: Readonly<Record<string, ChannelSettings>> = {
	disabled_platform_ios: { ios: true },
	disabled_platform_android: { android: true },
	disabled_platform_electron: { electron: true },
	disable_auto_update_to_major: { disableAutoUpdate: "none" },
	disable_auto_update_to_minor: { disableAutoUpdate: "none" },
	disable_auto_update_to_patch: { disableAutoUpdate: "none" },
	disable_auto_update_to_metadata: { disableAutoUpdate: "none" },
	misconfigured_channel: { disableAutoUpdate: "none" },
	disable_auto_update_under_native: { disableAutoUpdateUnderNative: false },
	disable_prod_build: { allow_prod: true },
	disable_dev_build: { allow_dev: true },
	disable_device: { allow_device: true },
	disable_emulator: { allow_emulator: true },
};

function settingAgainst(error: string, channel: Channel, { platform }: Device): ChannelSettings | undefined {
	if (error !== "no_channel") return SETTING_AGAINST[error];
	if (channel.bundle?.ready === false) return undefined;
	return {
		...(channel.public || channel.allowDeviceSelfSet ? {} : { allow_device_self_set: true as const }),
		...(channel.platforms[platform] ? {} : { [platform]: true as const }),
	};
}

function withSettings(channel: Channel, settings: ChannelSettings): Channel {
	const { ios, android, electron } = channel.platforms;
	return {
		...channel,
		platforms: {
			ios: settings.ios ?? ios,
			android: settings.android ?? android,
			electron: settings.electron ?? electron,
		},
		allowDeviceSelfSet: settings.allow_device_self_set ?? channel.allowDeviceSelfSet,
		allowEmulator: settings.allow_emulator ?? channel.allowEmulator,
		allowDevice: settings.allow_device ?? channel.allowDevice,
		allowDev: settings.allow_dev ?? channel.allowDev,
		allowProd: settings.allow_prod ?? channel.allowProd,
		disableAutoUpdate: settings.disableAutoUpdate ?? channel.disableAutoUpdate,
		disableAutoUpdateUnderNative: settings.disableAutoUpdateUnderNative ?? channel.disableAutoUpdateUnderNative,
	};
}

/** "Turn on allow_prod and set disableAutoUpdate to none", as part of a sentence. */
function settingsText(settings: ChannelSettings): string {
	const words = Object.entries(settings).map(([name, value]) =>
		typeof value === "string" ? `set ${name} to ${value}` : `turn ${value ? "on" : "off"} ${name}`,
	);
	return listText(words, "and");
}

const ABOUT_VERSIONS = /^(disable_auto_update|misconfigured)/;

/** The refusals about versions have two ways out, another bundle or the settings; the others only the settings. */
function ruleRemedy(place: Place, device: Device, channel: Channel, codes: readonly string[]): string {
	const native = readNativeVersion(device.versionBuild);
	const aboutVersions = codes.filter((code) => ABOUT_VERSIONS.test(code));
	const others = codes.filter((code) => !ABOUT_VERSIONS.test(code));
	const settingsOf = (some: readonly string[]) =>
		settingsText(Object.assign({}, ...some.map((code) => SETTING_AGAINST[code])));
	const sentences: string[] = [];
	if (aboutVersions.length > 0) {
		const which = native === null ? undefined : acceptedBundles(channel, native);
		const store =
			native === null || place.target === null ? undefined : storeBuildFor(aboutVersions, place.target, native);
		const ways = [
			...(which === undefined ? [] : [giving(place, which)]),
			...(store === undefined ? [] : [`ship store build ${store}`]),
			`${settingsOf(aboutVersions)} on channel ${channel.name}`,
		];
		sentences.push(`${capital(listText(ways, "or"))}.`);
	}
	if (others.length > 0) {
		sentences.push(`${aboutVersions.length > 0 ? "Also " : ""}${settingsOf(others)} on channel ${channel.name}.`);
	}
	return sentences.map(capital).join(" ");
}

/** The bundles that the channel offers to devices with this store build; undefined if it offers only the build itself. */
export function acceptedBundles(
	{
		disableAutoUpdate,
		disableAutoUpdateUnderNative,
	}: Pick<Channel, "disableAutoUpdate" | "disableAutoUpdateUnderNative">,
	native: SemVer,
): string | undefined {
	const { major, minor, version } = native;
	switch (disableAutoUpdate) {
		case "none":
			return disableAutoUpdateUnderNative ? `a bundle of at least ${version}` : "any bundle";
		case "major":
			return disableAutoUpdateUnderNative
				? `a bundle from ${version} to below ${major + 1}.0.0`
				: `a bundle below ${major + 1}.0.0`;
		case "minor":
			return disableAutoUpdateUnderNative
				? `a bundle ${major}.${minor}.x of at least ${version}`
				: `a bundle ${major}.${minor}.x`;
		case "version_number": {
			const newer = disableAutoUpdateUnderNative ? `of at least ${version} ` : "";
			return `a bundle ${newer}with a min_update_version of at most ${version}`;
		}
		default:
			return undefined;
	}
}

/** The store build with which the channel would give the bundle; undefined where it would have to be older than the device's. */
function storeBuildFor(codes: readonly string[], target: Bundle, native: SemVer): string | undefined {
	const to = readVersion(target.version);
	if (codes.length > 1 || to === null || compareVersions(to, native) < 0) return undefined;
	switch (codes[0]) {
		case "disable_auto_update_to_major":
			return `${to.major}.0.0`;
		case "disable_auto_update_to_minor":
			return `${to.major}.${to.minor}.0`;
		case "disable_auto_update_to_metadata":
			return target.minUpdateVersion ?? undefined;
		default:
			return undefined;
	}
}

function listText(words: readonly string[], last: "and" | "or"): string {
	const [only] = words;
	if (words.length < 2) return only ?? "";
	const comma = words.length > 2 || last === "or" ? "," : "";
	return `${words.slice(0, -1).join(", ")}${comma} ${last} ${words.at(-1)}`;
}

function capital(text: string): string {
	return text.charAt(0).toUpperCase() + text.slice(1);
}
