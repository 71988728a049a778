/**
 * Problems that keep every device, or those that send its name, from a channel's bundle, derived
 * from the channel and recent store builds. A channel without a bundle, or with a bundle that at
 * least one store build accepts, has no problem.
 */

import { MOST_DEVICES_BY_NAME } from "../ci/preview-names";
import { decideUpdate } from "./decision";
import { explainDecision } from "./explanation";
import type { Channel, Device, Platform } from "./model";
import type { ChannelSettings, RefusalCode } from "./refusals";
import { compareVersions, readNativeVersion } from "./version";

export const CHANNEL_PROBLEMS = [
	"no_platform",
	"no_device_kind",
	"no_build_kind",
	"no_min_update_version",
	"no_store_build",
	"name_without_preview_form",
	"named_by_many_devices",
] as const;

/** Settings of POST /channel that solve a problem. */
type ProblemSettings = Omit<ChannelSettings, "disableAutoUpdate"> & {
	readonly disableAutoUpdate?: "none" | "major";
};

interface ChannelProblem {
	readonly code: (typeof CHANNEL_PROBLEMS)[number];
	/** The problem and its fix, naming the channel and the values. */
	readonly message: string;
	/** The bundle that no device gets; null if the problem is that of the whole channel. */
	readonly version: string | null;
	/**
	 * Changes of the channel; each alone solves the problem. Empty if something else has to change.
	 */
	readonly settings: readonly ProblemSettings[];
	/** Why the newest of `store_builds` gets nothing; null for problems of other kinds. */
	readonly refusal: RefusalCode | null;
	/** Recent store builds that do not accept the bundle, newest first. */
	readonly store_builds: readonly string[];
}

const problemOf = (
	code: ChannelProblem["code"],
	message: string,
	settings: readonly ProblemSettings[],
	of: Partial<Pick<ChannelProblem, "version" | "refusal" | "store_builds">> = {},
): ChannelProblem => ({ code, message, version: null, settings, refusal: null, store_builds: [], ...of });

/** Builds that a message names. */
const MOST_NAMED = 3;
/** Builds of the data. */
const MOST_LISTED = 50;

/** @param storeBuilds versions as devices reported them, in any order */
export function channelProblems(channel: Channel, storeBuilds: readonly string[]): ChannelProblem[] {
	const { name, bundle, rollout } = channel;
	const served = [bundle, rollout?.enabled === true ? rollout.bundle : null].filter((each) => each !== null);
	const versions = served.map(({ version }) => version).join(" and ");
	const problems: ChannelProblem[] = namingProblems(channel);
	const ofName = problems.length;
	if (versions === "") return problems;
	const effect = `so no device gets bundle ${versions}`;
	const platform = (["ios", "android", "electron"] as const).find((each) => channel.platforms[each]);
	if (platform === undefined) {
		const message = `Channel ${name} is off for every platform, ${effect}. Turn on ios, android or electron.`;
		problems.push(problemOf("no_platform", message, [{ ios: true }, { android: true }, { electron: true }]));
	}
	if (!channel.allowDevice && !channel.allowEmulator) {
		const message = `Channel ${name} is off for physical devices and for emulators, ${effect}. Turn on allow_device or allow_emulator.`;
		problems.push(problemOf("no_device_kind", message, [{ allow_device: true }, { allow_emulator: true }]));
	}
	if (!channel.allowProd && !channel.allowDev) {
		const message = `Channel ${name} is off for production builds and for development builds, ${effect}. Turn on allow_prod or allow_dev.`;
		problems.push(problemOf("no_build_kind", message, [{ allow_prod: true }, { allow_dev: true }]));
	}
	if (platform === undefined || problems.length > ofName) return problems;
	for (const each of served) {
		if (channel.disableAutoUpdate === "version_number" && each.minUpdateVersion === null) {
			const message = `Channel ${name} updates by min_update_version, and bundle ${each.version} has none, so no device gets it. Upload it again with a min_update_version, or set disableAutoUpdate to major.`;
			const { version } = each;
			problems.push(problemOf("no_min_update_version", message, [{ disableAutoUpdate: "major" }], { version }));
			continue;
		}
		const problem = refusedByAll({ ...channel, bundle: each, rollout: null }, platform, storeBuilds);
		if (problem !== undefined) problems.push(problem);
	}
	return problems;
}

function namingProblems({ name, preview }: Channel): ChannelProblem[] {
	if (preview === null) return [];
	const reach = "Preview links and overrides of single devices still reach it.";
	if (!preview.hasForm) {
		const message = `The name of preview channel ${name} does not begin with the app's preview_channel_prefix, so devices that send it get the public channel. ${reach}`;
		return [problemOf("name_without_preview_form", message, [])];
	}
	if (!preview.isNamedByFleet) return [];
	const message = `More than ${MOST_DEVICES_BY_NAME} devices sent the name of preview channel ${name}, so it serves no device by its name any more. ${reach} Correct defaultChannel in the app, or delete the preview and open it again when fewer devices send the name.`;
	return [problemOf("named_by_many_devices", message, [])];
}

/**
 * The problem if the decision refuses the bundle to every store build; undefined otherwise, or
 * without store builds.
 */
function refusedByAll(
	channel: Channel,
	platform: Platform,
	storeBuilds: readonly string[],
): ChannelProblem | undefined {
	const builds = storeBuilds
		.flatMap((build) => {
			const version = readNativeVersion(build);
			return version === null ? [] : [{ build, version }];
		})
		.sort((one, other) => compareVersions(other.version, one.version));
	const [newest] = builds;
	if (newest === undefined) return undefined;
	const snapshot = { channels: [{ ...channel, public: true }], currentBundleExists: true, override: undefined };
	const refusalBy = (build: string) => {
		const decision = decideUpdate(snapshot, deviceFor(channel, platform, build));
		return decision.outcome === "none" && decision.kind === "blocked" ? decision.error : null;
	};
	if (builds.some(({ build }) => refusalBy(build) === null)) return undefined;
	const { because, remedy } = explainDecision(snapshot, deviceFor(channel, platform, newest.build));
	const named = builds.slice(0, MOST_NAMED).map(({ build }) => build);
	const others = builds.length - named.length;
	const list = `${named.join(", ")}${others === 0 ? "" : ` and ${others} more`}`;
	const version = channel.bundle?.version ?? null;
	const message = `No recent store build (${list}) accepts bundle ${version}: ${because}. ${remedy?.message}`;
	const { channel: _name, ...settings } = remedy?.settings ?? { channel: "" };
	return problemOf("no_store_build", message, Object.keys(settings).length === 0 ? [] : [settings], {
		version,
		refusal: refusalBy(newest.build),
		store_builds: builds.slice(0, MOST_LISTED).map(({ build }) => build),
	});
}

/** A device that only its store build can keep from the bundle. */
function deviceFor(channel: Channel, platform: Platform, versionBuild: string): Device {
	return {
		deviceId: "00000000-0000-0000-0000-000000000000",
		platform,
		versionName: "builtin",
		versionBuild,
		pluginVersion: "9999.0.0",
		isEmulator: !channel.allowDevice,
		isProd: channel.allowProd,
		defaultChannel: "",
		keyId: undefined,
	};
}
