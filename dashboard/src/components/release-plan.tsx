/**
 * The destination of a new bundle: the channel that is proposed for it, how many devices get it,
 * and how.
 */

import { NativeSelect, Radio, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { EFFECT_DAYS } from "../../../src/domain/defaults";
import { ask } from "../api";
import { Note } from "./card";
import type { Channel } from "./channel-badges";
import { countOf, countText } from "./size";

/** "Every device at once" is never preselected for a channel with more devices than this. */
const MANY_DEVICES = 50;
const STEPS = [5, 25, 100];
const FIRST_CHANNEL = "production";
const NO_CHANNEL = "";

export type Way = "all" | "steps";

export interface ReleasePlan {
	/** Empty: the bundle is only uploaded. */
	readonly channel: string;
	/** Undefined: as proposed. */
	readonly way: Way | undefined;
}

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

/** Devices of the channel that were seen in the last 30 days; undefined while unknown. */
export function useChannelDevices(appId: string, channel: Channel | undefined): number | undefined {
	const query = useQuery({
		queryKey: ["POST /channel/what_if", "devices", appId, channel?.name],
		queryFn: async () => {
			const body = { app_id: appId, channel: channel?.name ?? "", version: channel?.version?.name ?? "builtin" };
			return (await ask("POST /channel/what_if", { body })).channel_devices;
		},
		enabled: channel !== undefined,
		retry: false,
	});
	return channel === undefined ? 0 : query.data;
}

export const proposedWay = (devices: number | undefined): Way => ((devices ?? 0) > MANY_DEVICES ? "steps" : "all");

/** The body of POST /channel after the upload. */
export function releaseBody(appId: string, version: string, name: string, way: Way, channels: readonly Channel[]) {
	const channel = channels.find((known) => known.name === name);
	const first = channels.some((known) => known.public) || channel !== undefined ? {} : { public: true };
	if (way === "all") return { app_id: appId, channel: name, version, ...first };
	return {
		app_id: appId,
		channel: name,
		rolloutVersion: version,
		rolloutEnabled: true,
		rolloutPercentage: STEPS[0] ?? 100,
		rolloutSteps: [...(channel?.rolloutSteps ?? STEPS)],
	};
}

export function ReleasePlanFields({
	plan,
	way,
	version,
	channels,
	devices,
	isDisabled,
	onChange,
}: {
	readonly plan: ReleasePlan;
	readonly way: Way;
	readonly version: string;
	readonly channels: readonly Channel[];
	readonly devices: number | undefined;
	readonly isDisabled: boolean;
	readonly onChange: (plan: ReleasePlan) => void;
}) {
	const channel = channels.find(({ name }) => name === plan.channel);
	const choices = channels.length === 0 ? [{ value: FIRST_CHANNEL, label: `${FIRST_CHANNEL} (new)` }] : [];
	return (
		<>
			<NativeSelect
				label="Release to"
				disabled={isDisabled}
				value={plan.channel}
				onChange={(event) => onChange({ channel: event.currentTarget.value, way: undefined })}
				data={[
					...choices,
					...channels.map(({ name }) => ({ value: name, label: name })),
					{ value: NO_CHANNEL, label: "No channel: only upload" },
				]}
			/>
			{channel === undefined || plan.channel === NO_CHANNEL ? null : (
				<Radio.Group
					label="Devices"
					value={way}
					onChange={(value) => onChange({ ...plan, way: value === "steps" ? "steps" : "all" })}
				>
					<Stack gap="xs" mt="xs">
						<Radio value="all" disabled={isDisabled} label="Every device at once" />
						<Radio
							value="steps"
							disabled={isDisabled || partlyRolledOut(channel) !== undefined}
							label={`In steps of ${(channel.rolloutSteps ?? STEPS).join(", ")} %`}
							description={stepsText(channel)}
						/>
					</Stack>
				</Radio.Group>
			)}
			<Note>{effectText({ channel, name: plan.channel, version, way, devices })}</Note>
		</>
	);
}

/**
 * The version of a rollout that only a part of the devices has: another one would return them to an
 * older bundle.
 */
function partlyRolledOut(channel: Channel): string | undefined {
	const { rolloutEnabled, rolloutPercentageBps, rolloutPausedAt, rollout_version_info: rollout } = channel;
	if (!rolloutEnabled || (rolloutPercentageBps === 10_000 && rolloutPausedAt === null)) return undefined;
	return rollout?.name;
}

function stepsText(channel: Channel): string {
	const running = partlyRolledOut(channel);
	return running === undefined
		? "Capstan raises the share, and stops if too many devices fail."
		: `Finish or end the rollout of ${running} first.`;
}

function effectText({
	channel,
	name,
	version,
	way,
	devices,
}: {
	readonly channel: Channel | undefined;
	readonly name: string;
	readonly version: string;
	readonly way: Way;
	readonly devices: number | undefined;
}): string {
	const bundle = version === "" ? "the bundle" : version;
	if (name === NO_CHANNEL) return `Nothing changes for devices. Release ${bundle} later, from its page or a channel.`;
	if (channel === undefined) return `Creates the channel ${name} for every device of the app, with ${bundle} on it.`;
	if (channel.requires_approval)
		return `${name} is protected: another person approves the release before devices get it.`;
	const rollout = channel.rolloutEnabled ? channel.rollout_version_info?.name : undefined;
	const ends = rollout !== undefined && way === "all" ? ` Ends the rollout of ${rollout}.` : "";
	if (devices === undefined) return `Counting the devices of ${name}…`;
	if (devices === 0)
		return `No device of ${name} was seen in the last ${EFFECT_DAYS} days; the next ones get ${bundle}.${ends}`;
	const first = Math.max(1, Math.round((devices * (STEPS[0] ?? 100)) / 100));
	return way === "all"
		? `${countOf(devices, "device")} of ${name} may get ${bundle} at the next update check.${ends}`
		: `About ${countText(first)} of ${countOf(devices, "device")} may get ${bundle} first, then the others.${ends}`;
}
