/**
 * One channel, for a person who holds a role on it and none on its app. The app, its bundles,
 * devices and statistics are hidden from them, so this screen asks only for the channel: its
 * bundle, its rollout, and what their role lets them do with it.
 */
import { Button } from "@mantine/core";
import { useState } from "react";
import { useAsk } from "../../api";
import { Card, Properties } from "../../components/card";
import { type Channel, ChannelBadges } from "../../components/channel-badges";
import { Icon } from "../../components/icon";
import { Found } from "../../components/missing";
import { Screen } from "../../components/screen";
import { percentText } from "../../components/size";
import { Time } from "../../components/time";
import { IconRocket } from "../../icons";
import { organizationPath } from "../../paths";
import { useChannelMay } from "../../permissions";
import type { AppItemProps } from "../../screen-props";
import { type ChannelDialog, ChannelDialogs } from "./channel-dialogs";

export default function SingleChannel({ appId, orgId, item }: AppItemProps) {
	const channel = useAsk("GET /channel", { query: { app_id: appId, channel: item } });
	return (
		<Found
			query={channel}
			kind="channel"
			name={item}
			because={`It does not exist in ${appId}, or you may not see it.`}
			list={orgId === undefined ? { to: "/", label: "All apps" } : { to: organizationPath(orgId), label: "All apps" }}
		>
			{(answer) => (Array.isArray(answer) ? null : <Details appId={appId} orgId={orgId} channel={answer as Channel} />)}
		</Found>
	);
}

function Details({
	appId,
	orgId,
	channel,
}: {
	readonly appId: string;
	readonly orgId: string | undefined;
	readonly channel: Channel;
}) {
	const [dialog, setDialog] = useState<ChannelDialog | undefined>();
	const close = () => setDialog(undefined);
	const may = useChannelMay(appId, orgId, channel.id);
	const [mayPromote, maySet] = [may("channel.promote_bundle") === true, may("channel.update_settings") === true];
	const live = channel.version?.name ?? null;
	const rollout = channel.rollout_version_info;
	return (
		<Screen
			title={channel.name}
			note={
				<div className="stack">
					<ChannelBadges channel={channel} />
					<span>Your role is for this channel of {appId} only.</span>
				</div>
			}
			actions={
				<>
					{mayPromote ? (
						<Button leftSection={<Icon of={IconRocket} />} data-release onClick={() => setDialog("release")}>
							Release
						</Button>
					) : null}
					{mayPromote ? (
						<Button variant="default" onClick={() => setDialog("rollback")}>
							Roll back
						</Button>
					) : null}
					{maySet && !channel.protected ? (
						<Button variant="default" onClick={() => setDialog("edit")}>
							Edit channel
						</Button>
					) : null}
				</>
			}
		>
			<Card title="Live bundle">
				<Properties
					items={[
						["Version", live ?? "Store build"],
						...(rollout === null
							? []
							: ([["Rollout", `${rollout.name} at ${percentText(channel.rolloutPercentageBps)}`]] as const)),
						["Changed", <Time key="changed" value={channel.updated_at} />],
					]}
				/>
			</Card>
			{dialog === undefined ? null : (
				<ChannelDialogs appId={appId} channel={channel} dialog={dialog} orgId={orgId} seesApp={false} onClose={close} />
			)}
		</Screen>
	);
}
