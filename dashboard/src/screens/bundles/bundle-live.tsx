/**
 * The channels on which a bundle was and is live: channel, from when until when, and who released
 * it.
 */
import { useAsk } from "../../api";
import { Answer } from "../../components/answer";
import { Badge } from "../../components/badge";
import { TextLink } from "../../components/link";
import { Empty, Section } from "../../components/screen";
import { percentText } from "../../components/size";
import { DataTable } from "../../components/table";
import { Time } from "../../components/time";
import { IconHistory } from "../../icons";
import { channelPath, releasePath } from "../../paths";
import { actorOf, type Release } from "../../releases";

const WENT_LIVE: Readonly<Record<string, string>> = {
	created: "Released",
	promotion: "Released",
	rollback: "Rolled back to",
	rollout_finished: "Rollout finished",
};
const LIMIT = 100;

export function BundleLive({ appId, version }: { readonly appId: string; readonly version: string }) {
	const releases = useAsk("GET /app/:app_id/releases", {
		params: { app_id: appId },
		query: { version, limit: String(LIMIT) },
	});
	return (
		<Section title="Where it was live">
			<Answer query={releases} what="the channels of the bundle">
				{(all) => {
					const shown = all.filter(({ action }) => WENT_LIVE[action] !== undefined || action === "rollout_started");
					if (shown.length === 0) {
						return (
							<Empty title="Never live" icon={IconHistory}>
								No channel has served this bundle yet. Release it to give it to devices.
							</Empty>
						);
					}
					return (
						<DataTable
							label="Where it was live"
							rows={shown}
							rowKey={({ id }) => id}
							columns={[
								{
									title: "Channel",
									cell: ({ channel }) => <TextLink to={channelPath(appId, channel.name)}>{channel.name}</TextLink>,
								},
								{ title: "How", wideOnly: true, cell: howText },
								{
									title: "From",
									cell: ({ at, channel, release_id }) => (
										<TextLink to={releasePath(appId, channel.name, release_id ?? version)}>
											<Time value={at} />
											<span className="sr"> View release</span>
										</TextLink>
									),
								},
								{ title: "Until", cell: (release) => <Until release={release} /> },
								{ title: "By", wideOnly: true, cell: (release) => actorOf(release).name },
							]}
						/>
					);
				}}
			</Answer>
		</Section>
	);
}

function howText({ action, rollout_percentage_bps: bps }: Release): string {
	return WENT_LIVE[action] ?? `Rollout${bps === null ? "" : ` to ${percentText(bps)}`}`;
}

function Until({ release: { action, until, is_live } }: { readonly release: Release }) {
	if (is_live) return <Badge tone="ok">Live now</Badge>;
	if (until !== null) return <Time value={until} />;
	// The end of a rollout is an entry of its own.
	return <span className="muted">{action === "rollout_started" ? "—" : "Replaced"}</span>;
}
