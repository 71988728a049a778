/**
 * The change that gets a device past a refusal: channel settings, another bundle or a newer store
 * build. A remedy is true: its settings are applied to a copy of the decision's input, and the
 * device is decided again.
 */
import { type Decision, decideUpdate, type Snapshot } from "./decision";
import type { Bundle, Channel, Device, Platform } from "./model";
import { API_NAMES, type ChannelSettings, type Names, type RefusalCode, refusalOf, SCREEN_NAMES } from "./refusals";
import { compareVersions, readNativeVersion, readVersion, type SemVer } from "./version";

export interface Fix {
	readonly channel: string;
	readonly settings: ChannelSettings;
	/** Errors that the settings remove, in the order of the rules. */
	readonly codes: readonly RefusalCode[];
}

/**
 * Changes one setting after the other until no rule refuses; undefined if something other than a
 * setting refuses.
 */
export function settingsThatServe(snapshot: Snapshot, device: Device): Fix | undefined {
	let current = snapshot;
	let settings: ChannelSettings = {};
	const codes: RefusalCode[] = [];
	for (;;) {
		const decision = decideUpdate(current, device);
		if (decision.outcome !== "none" || decision.kind === "up_to_date") {
			const channel = decision.resolved?.name;
			return codes.length === 0 || channel === undefined ? undefined : { channel, settings, codes };
		}
		const channel = decision.resolved ?? current.channels.find(({ name }) => name === device.defaultChannel);
		const change = channel === undefined ? undefined : settingAgainst(decision.error, channel, device);
		// The loop ends, because each error is fixed at most once.
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

/** The settings of the channel that remove a refusal; undefined if none does. */
function settingsOf(code: RefusalCode): ChannelSettings | undefined {
	const refusal = refusalOf(code);
	return refusal.decidedBy === "channel_rule" ? refusal.settings : undefined;
}

function settingAgainst(error: RefusalCode, channel: Channel, { platform }: Device): ChannelSettings | undefined {
	if (error !== "no_channel") return settingsOf(error);
	if (channel.bundle?.ready === false) return undefined;
	return {
		...(channel.public || channel.allowDeviceSelfSet ? {} : { allow_device_self_set: true as const }),
		...(channel.platforms[platform] ? {} : { [platform]: true as const }),
	};
}

const serving = (platform: Platform) => (channel: Channel) => ({
	platforms: { ...channel.platforms, [platform]: true },
});

/** The change of the channel by each setting, to the value of `ENDING_SETTINGS`. */
const CHANGES: Readonly<Record<keyof ChannelSettings, (channel: Channel) => Partial<Channel>>> = {
	ios: serving("ios"),
	android: serving("android"),
	electron: serving("electron"),
	allow_device_self_set: () => ({ allowDeviceSelfSet: true }),
	allow_emulator: () => ({ allowEmulator: true }),
	allow_device: () => ({ allowDevice: true }),
	allow_dev: () => ({ allowDev: true }),
	allow_prod: () => ({ allowProd: true }),
	disableAutoUpdate: () => ({ disableAutoUpdate: "none" }),
	disableAutoUpdateUnderNative: () => ({ disableAutoUpdateUnderNative: false }),
};

function withSettings(channel: Channel, settings: ChannelSettings): Channel {
	const changed = { ...channel };
	for (const name of Object.keys(settings) as (keyof ChannelSettings)[]) Object.assign(changed, CHANGES[name](changed));
	return changed;
}

/** "Turn on allow_prod and set disableAutoUpdate to none", as part of a sentence. */
export function settingsText(settings: ChannelSettings): string {
	const words = Object.entries(settings).map(([name, value]) =>
		typeof value === "string" ? `set ${name} to ${value}` : `turn ${value ? "on" : "off"} ${name}`,
	);
	return listText(words, "and");
}

function isAboutVersions(code: RefusalCode): boolean {
	const refusal = refusalOf(code);
	return refusal.decidedBy === "channel_rule" && refusal.aboutVersions;
}

/**
 * Refusals because of versions can be solved by another bundle, a newer store build or settings;
 * all others only by settings.
 */
export function ruleRemedy(decision: Decision, device: Device, codes: readonly RefusalCode[]): string {
	const { resolved: channel } = decision;
	if (channel === null) return "";
	const aboutVersions = codes.filter(isAboutVersions);
	const others = codes.filter((code) => !isAboutVersions(code));
	const changesOf = (some: readonly RefusalCode[]) => settingsText(Object.assign({}, ...some.map(settingsOf)));
	const sentences: string[] = [];
	if (aboutVersions.length > 0) {
		const ways = [
			...waysBesidesSettings(decision, device, aboutVersions, API_NAMES),
			`${changesOf(aboutVersions)} on channel ${channel.name}`,
		];
		sentences.push(`${capital(listText(ways, "or"))}.`);
	}
	if (others.length > 0) {
		sentences.push(`${aboutVersions.length > 0 ? "Also " : ""}${changesOf(others)} on channel ${channel.name}.`);
	}
	return sentences.map(capital).join(" ");
}

/** Another bundle or a newer store build, in words for people; null if only settings help. */
export function otherRemedy(decision: Decision, device: Device, codes: readonly RefusalCode[]): string | null {
	const aboutVersions = codes.filter(isAboutVersions);
	const ways = aboutVersions.length === 0 ? [] : waysBesidesSettings(decision, device, aboutVersions, SCREEN_NAMES);
	return ways.length === 0 ? null : `${capital(listText(ways, "or"))}.`;
}

function waysBesidesSettings(
	decision: Decision,
	device: Device,
	aboutVersions: readonly RefusalCode[],
	names: Names,
): readonly string[] {
	const { resolved: channel, target } = decision;
	const native = readNativeVersion(device.versionBuild);
	if (channel === null || native === null) return [];
	const which = acceptedBundles(channel, native, names);
	const store = target === null ? undefined : storeBuildFor(aboutVersions, target, native);
	return [
		...(which === undefined ? [] : [giving(decision, which)]),
		...(store === undefined ? [] : [`ship store build ${store}`]),
	];
}

/**
 * The bundles that the channel offers to devices with this store build; undefined if it offers only
 * the build itself.
 */
function acceptedBundles(
	{
		disableAutoUpdate,
		disableAutoUpdateUnderNative,
	}: Pick<Channel, "disableAutoUpdate" | "disableAutoUpdateUnderNative">,
	native: SemVer,
	names: Names,
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
			return `a bundle ${newer}with a ${names.minUpdateVersion} of at most ${version}`;
		}
		default:
			return undefined;
	}
}

/**
 * The store build to which the channel would offer the bundle; undefined if it would be older than
 * the device's.
 */
function storeBuildFor(codes: readonly RefusalCode[], target: Bundle, native: SemVer): string | undefined {
	const [code, other] = codes;
	const to = readVersion(target.version);
	if (code === undefined || other !== undefined || to === null || compareVersions(to, native) < 0) return undefined;
	const refusal = refusalOf(code);
	return refusal.decidedBy === "channel_rule" ? refusal.storeBuild?.(target, to) : undefined;
}

function listText(words: readonly string[], last: "and" | "or"): string {
	const [only] = words;
	if (words.length < 2) return only ?? "";
	const comma = words.length > 2 || last === "or" ? "," : "";
	return `${words.slice(0, -1).join(", ")}${comma} ${last} ${words.at(-1)}`;
}

export function capital(text: string): string {
	return text.charAt(0).toUpperCase() + text.slice(1);
}

/** How to give the device another bundle: on its channel, in the rollout, or by its override. */
export function giving({ resolved: channel, targetBy }: Decision, which: string): string {
	if (targetBy === "override") return `set ${which} for this device`;
	return targetBy === "rollout"
		? `roll out ${which} on channel ${channel?.name}`
		: `release ${which} to channel ${channel?.name}`;
}
