/**
 * Summary badges of a channel: its audience, whether it reaches any device, and whether its rollout
 * is running.
 */
import { platformNames } from "../../../src/domain/words/releases";
import type { AnswerOf } from "../api";
import { Badge } from "./badge";
import { percentText } from "./size";

export type Channel = Extract<AnswerOf<"GET /channel">, readonly unknown[]>[number];

export function platformsOf(channel: Channel): string {
	const names = platformNames(channel);
	return names.length === 0 ? "no platform" : names.join(", ");
}

export function ChannelBadges({ channel }: { readonly channel: Channel }) {
	const { rollout_version_info: rollout, rolloutEnabled, rolloutPausedAt, rolloutPercentageBps } = channel;
	return (
		<div className="row wrap">
			{channel.public ? <Badge tone="info">Public</Badge> : <Badge>Private</Badge>}
			{channel.protected ? <Badge>Protected</Badge> : null}
			{channel.allow_device_self_set ? <Badge>Devices can join</Badge> : null}
			{channel.misconfigured.length === 0 ? null : <Badge tone="bad">Misconfigured</Badge>}
			{rollout === null || !rolloutEnabled ? null : (
				<Badge tone={rolloutPausedAt === null ? "info" : "bad"}>
					{rolloutPausedAt === null ? "Rolling out" : "Paused at"} {percentText(rolloutPercentageBps)}
				</Badge>
			)}
		</div>
	);
}
