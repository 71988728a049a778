/**
 * The choices of the release dialog and what they send: the proposed channel, version and way, and
 * the body of POST /channel. Pure. "Every device at once" is never preselected for a channel with
 * many devices, nor before their number is known.
 */
import type { AnswerOf, RequestOf } from "../../../src/client/client";
import { percentText } from "../components/size";

/** "Every device at once" is never preselected for a channel with more devices than this. */
const MANY_DEVICES = 50;
export const STEPS: readonly number[] = [5, 25, 100];
const FIRST_CHANNEL = "production";

/** `share`: a share of the devices, which a person raises. */
export type Way = "all" | "steps" | "share";

type Channel = Extract<AnswerOf<"GET /channel">, readonly unknown[]>[number];
type ChannelBody = RequestOf<"POST /channel">["body"];

/** The public channel; for an app without channels the one that its first release creates. */
export function proposedChannel(channels: readonly Channel[]): string {
	return channels.find((channel) => channel.public)?.name ?? channels[0]?.name ?? FIRST_CHANNEL;
}

/**
 * The patch after the highest release: `1.4.0-beta.1` is none. The first is above the usual version
 * of a store build.
 */
export function proposedVersion(names: readonly string[]): string {
	const highest = names
		.flatMap((name) => {
			const found = /^(\d+)\.(\d+)\.(\d+)$/.exec(name);
			return found === null ? [] : [found.slice(1).map(Number)];
		})
		.sort(([a = 0, b = 0, c = 0], [x = 0, y = 0, z = 0]) => x - a || y - b || z - c)[0];
	if (highest === undefined) return "1.0.1";
	const [major = 1, minor = 0, patch = 0] = highest;
	return `${major}.${minor}.${patch + 1}`;
}

/**
 * The version of another rollout that only a part of the devices has. While it runs, steps of
 * `version` would return its devices to an older bundle.
 */
export function partlyRolledOut(channel: Channel, version: string): string | undefined {
	const { rolloutEnabled, rolloutPercentageBps, rolloutPausedAt, rollout_version_info: rollout } = channel;
	if (!rolloutEnabled || (rolloutPercentageBps === 10_000 && rolloutPausedAt === null)) return undefined;
	return rollout === null || rollout.name === version ? undefined : rollout.name;
}

/**
 * The preselected way. The channel's habit decides for few devices; many or an unknown number of
 * devices get it in steps, or nothing is preselected if steps are not possible.
 * @param devices of the channel; undefined while unknown
 */
export function usualWay(channel: Channel, version: string, devices: number | undefined, maySet: boolean) {
	const hasSteps = channel.rolloutSteps !== null;
	const staged: Way = maySet || hasSteps ? "steps" : "share";
	const isPossible = partlyRolledOut(channel, version) === undefined;
	const isMany = devices === undefined || devices > MANY_DEVICES;
	if (isMany) return isPossible ? staged : undefined;
	return hasSteps && isPossible ? staged : "all";
}

export interface Rules {
	/** Share of the devices at the start, for the way `share`. */
	readonly share: number | string;
	readonly limitBps: number;
	readonly countsNew: boolean;
}

/**
 * The body of POST /channel.
 * @param way undefined for a channel that does not exist yet
 */
export function releaseBody(
	of: { readonly appId: string; readonly name: string; readonly channel: Channel | undefined },
	version: string,
	way: Way | undefined,
	rules: Rules,
	maySet: boolean,
): ChannelBody {
	const { appId, name, channel } = of;
	const target = { app_id: appId, channel: name };
	if (channel === undefined) return { ...target, version, public: true };
	if (way === "all" || way === undefined) return { ...target, version };
	const settings = {
		rolloutCountNewDevices: rules.countsNew,
		...(way === "share"
			? { rolloutSteps: null }
			: { rolloutSteps: [...stepsOf(channel)], autoPauseFailureRateBps: rules.limitBps }),
	};
	return {
		...target,
		rolloutVersion: version,
		rolloutEnabled: true,
		...(way === "share" ? { rolloutPercentage: Number(rules.share) } : {}),
		...(maySet ? settings : {}),
	};
}

export const stepsOf = (channel: Channel) => channel.rolloutSteps ?? STEPS;

/** "5, 25, 100 %" */
export const stepsText = (channel: Channel) => `${stepsOf(channel).join(", ")}\u00a0%`;

type RolloutOf = Pick<
	Channel,
	"version" | "rollout_version_info" | "rolloutEnabled" | "rolloutPausedAt" | "rolloutPercentageBps"
>;

interface PlannedRelease {
	readonly version: string;
	readonly way: Way;
	/** The share at the start, for the way `share`. */
	readonly percentage: number;
}

/** The effect of a release on the channel's current rollout; undefined if there is none. */
export function rolloutEffect(channel: RolloutOf, { version, way, percentage }: PlannedRelease): string | undefined {
	const rollout = channel.rollout_version_info?.name;
	if (rollout === undefined) return undefined;
	const share = percentText(channel.rolloutPercentageBps);
	const isPaused = channel.rolloutPausedAt !== null;
	if (way === "all") {
		if (version === rollout) {
			return `This finishes the rollout of ${rollout}: it becomes the live bundle, and every device gets it.`;
		}
		return `The rollout of ${rollout} ends: devices that run ${rollout} get ${version} at their next check.`;
	}
	if (version !== rollout) {
		if (!channel.rolloutEnabled) return `This replaces the rollout of ${rollout}, which is switched off.`;
		if (!isPaused && channel.rolloutPercentageBps === 10_000) {
			return `${rollout} is rolled out to every device: it becomes the stable bundle, and the rollout of ${version} starts.`;
		}
		return `The rollout of ${rollout} has reached ${share}: finish it or roll it back before you start the rollout of ${version}.`;
	}
	const paused = isPaused ? " It stays paused until you resume it." : "";
	if (way === "steps") {
		return `The rollout of ${rollout} continues with the same devices: it stays at ${share} and grows from there.${paused}`;
	}
	const lowered =
		percentage * 100 < channel.rolloutPercentageBps ? ` Devices that run ${rollout} already keep it.` : "";
	return `The rollout of ${rollout} continues with the same devices: its share changes from ${share} to ${percentText(percentage * 100)}.${lowered}${paused}`;
}
