/**
 * One history of a channel: its releases with a way back, or every change of its settings as well.
 * The choice is in the address.
 */
import { useSearchParams } from "wouter";
import { useAsk } from "../../api";
import { Answer } from "../../components/answer";
import { ChangeList } from "../../components/changes";
import type { Channel } from "../../components/channel-badges";
import { TextLink } from "../../components/link";
import { Older, type Outcome, ReleaseTimeline } from "../../components/release-timeline";
import { Empty, Section } from "../../components/screen";
import { IconHistory } from "../../icons";
import { activityPath } from "../../paths";
import type { useReleases } from "../../releases";

export function ChannelHistory({
	appId,
	channel,
	history,
	outcomes,
	mayPromote,
	mayReadChanges,
}: {
	readonly appId: string;
	readonly channel: Channel;
	readonly history: ReturnType<typeof useReleases>;
	readonly outcomes: readonly Outcome[];
	readonly mayPromote: boolean;
	readonly mayReadChanges: boolean;
}) {
	const [address, setAddress] = useSearchParams();
	const isEverything = address.get("history") === "everything" && mayReadChanges;
	const choose = (everything: boolean) =>
		setAddress(
			(before) => {
				const after = new URLSearchParams(before);
				if (everything) after.set("history", "everything");
				else after.delete("history");
				return after;
			},
			{ replace: true },
		);
	return (
		<Section
			title="History"
			actions={
				mayReadChanges ? (
					<div className="seg">
						<button type="button" aria-pressed={!isEverything} onClick={() => choose(false)}>
							Releases
						</button>
						<button type="button" aria-pressed={isEverything} onClick={() => choose(true)}>
							Everything
						</button>
					</div>
				) : undefined
			}
		>
			{isEverything ? (
				<Everything appId={appId} channel={channel} />
			) : (
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
									outcomes={outcomes}
									limitOf={() => channel.autoPauseFailureRateBps / 10_000}
									withChannel={false}
									mayRollBack={mayPromote}
								/>
								<Older history={history} />
							</>
						);
					}}
				</Answer>
			)}
		</Section>
	);
}

function Everything({ appId, channel }: { readonly appId: string; readonly channel: Channel }) {
	const target = `channel:${channel.id}`;
	const changes = useAsk("GET /app/:app_id/audit", { params: { app_id: appId }, query: { target } });
	return (
		<Answer query={changes} what="changes">
			{(entries) =>
				!Array.isArray(entries) || entries.length === 0 ? (
					<Empty title="No changes yet" icon={IconHistory} />
				) : (
					<>
						<ChangeList changes={entries} label={`Everything that changed ${channel.name}`} />
						<TextLink to={activityPath(appId, { target })}>Older changes in the activity</TextLink>
					</>
				)
			}
		</Answer>
	);
}
