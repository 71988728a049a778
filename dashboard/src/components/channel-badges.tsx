/** Summary badges of a channel: its audience, whether it reaches any device, and whether its rollout is running. */
import { Badge, Group, Text } from "@mantine/core";
import type { AnswerOf } from "../api";
import { percentText } from "./size";

export type Channel = Extract<AnswerOf<"GET /channel">, readonly unknown[]>[number];

export function platformsOf({ ios, android, electron }: Channel): string {
	const names = [ios && "iOS", android && "Android", electron && "Electron"].filter((name) => name !== false);
	return names.length === 0 ? "no platform" : names.join(", ");
}

/** Reasons why no device gets the channel's bundle, with remedies. */
export function ChannelProblems({ channel }: { readonly channel: Channel }) {
	return channel.misconfigured.map(({ code, message }) => (
		<Text key={code} size="sm" c="red">
			{message}
		</Text>
	));
}

export function ChannelBadges({ channel }: { readonly channel: Channel }) {
	const { rollout_version_info: rollout, rolloutEnabled, rolloutPausedAt, rolloutPercentageBps } = channel;
	return (
		<Group gap={6}>
			{channel.public ? (
				<Badge variant="light" tt="none">
					Public
				</Badge>
			) : (
				<Badge variant="light" color="gray" tt="none">
					Private
				</Badge>
			)}
			{channel.protected ? (
				<Badge variant="light" color="violet" tt="none">
					Protected
				</Badge>
			) : null}
			{channel.allow_device_self_set ? (
				<Badge variant="light" color="gray" tt="none">
					Devices can join
				</Badge>
			) : null}
			{channel.misconfigured.length === 0 ? null : (
				<Badge
					variant="light"
					color="red"
					tt="none"
					title={channel.misconfigured.map(({ message }) => message).join(" ")}
				>
					Misconfigured
				</Badge>
			)}
			{rollout === null || !rolloutEnabled ? null : (
				<Badge variant="light" color={rolloutPausedAt === null ? "green" : "orange"} tt="none">
					{rolloutPausedAt === null ? "Rolling out" : "Paused at"} {percentText(rolloutPercentageBps)}
				</Badge>
			)}
		</Group>
	);
}
