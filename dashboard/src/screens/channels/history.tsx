/** History of a channel: releases, rollouts, rollbacks and proposals as sentences, with a rollback to each bundle that still exists. */
import { Answer } from "../../components/answer";
import type { Channel } from "../../components/channel-badges";
import { Older, ReleaseTimeline } from "../../components/release-timeline";
import { Empty, Section } from "../../components/screen";
import { IconHistory } from "../../icons";
import { useReleases } from "../../releases";

export function ChannelHistory({
	appId,
	channel,
	mayPromote,
}: {
	readonly appId: string;
	readonly channel: Channel;
	readonly mayPromote: boolean;
}) {
	const history = useReleases(appId, { channel: channel.name });
	return (
		<Section title="History">
			<Answer query={history} what="the history">
				{({ pages }) => {
					const releases = pages.flat();
					if (releases.length === 0) return <Empty title="No releases yet" icon={IconHistory} />;
					return (
						<>
							<ReleaseTimeline
								label={`History of ${channel.name}`}
								appId={appId}
								releases={releases}
								withChannel={false}
								mayRollBack={mayPromote}
							/>
							<Older history={history} />
						</>
					);
				}}
			</Answer>
		</Section>
	);
}
