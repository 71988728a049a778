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
								{ title: "How", wideOnly: true, cell: (release) => howText(release, all) },
								{
									title: "From",
									cell: ({ at, channel, release_id }) => (
										<TextLink to={releasePath(appId, channel.name, release_id ?? version)}>
											<Time value={at} />
											<span className="sr"> View release</span>
										</TextLink>
									),
								},
								{ title: "Until", cell: (release) => <Until release={release} all={all} /> },
								{ title: "By", wideOnly: true, cell: (release) => actorOf(release).name },
							]}
						/>
					);
				}}
			</Answer>
		</Section>
	);
}

const ROLLOUT_ENDS = ["rollout_finished", "rollout_rolled_back", "rollout_replaced", "rollout_stopped"];

/** The entries of a rollout after its start, oldest first. */
const courseOf = (started: Release, all: readonly Release[]) =>
	all
		.filter(({ at, channel, release_id }) => {
			const isSame = channel.name === started.channel.name && release_id === started.release_id;
			return isSame && at > started.at;
		})
		.sort((one, other) => (one.at < other.at ? -1 : 1));

/** A rollout with the largest share that it reached. */
function howText(release: Release, all: readonly Release[]): string {
	const went = WENT_LIVE[release.action];
	if (went !== undefined) return went;
	const shares = [release, ...courseOf(release, all)].map(({ rollout_percentage_bps: bps }) => bps ?? 0);
	return `Rolled out to ${percentText(Math.max(...shares))}`;
}

function Until({ release, all }: { readonly release: Release; readonly all: readonly Release[] }) {
	if (release.is_live) return <Badge tone="ok">Live now</Badge>;
	if (release.until !== null) return <Time value={release.until} />;
	if (release.action !== "rollout_started") return <span className="muted">Replaced</span>;
	const course = courseOf(release, all);
	const end = course.find(({ action }) => ROLLOUT_ENDS.includes(action));
	if (end !== undefined) return <Time value={end.at} />;
	return course.at(-1)?.action === "rollout_paused" ? (
		<Badge tone="warn">Paused</Badge>
	) : (
		<Badge tone="info">Rolling out</Badge>
	);
}
