/** An app at a glance: the live bundle of each channel, adoption, install health and recent changes. */
import { Group, Stack, Text } from "@mantine/core";
import { useAsk, usePage } from "../../api";
import { Answer } from "../../components/answer";
import { Figures } from "../../components/card";
import { ChangeList } from "../../components/changes";
import { ChannelBadges, platformsOf } from "../../components/channel-badges";
import { CopyChip } from "../../components/copy-chip";
import { Graph, graphSource } from "../../components/graph";
import { ButtonLink, TextLink } from "../../components/link";
import { RolloutNotice } from "../../components/rollout-notice";
import { Empty, Screen, Section } from "../../components/screen";
import { countOf, countText, percentText, shareText } from "../../components/size";
import { DataTable, Pager, usePageNumber } from "../../components/table";
import { utcDay } from "../../components/time";
import { appPath, bundlePath, channelPath } from "../../paths";
import type { AppScreenProps } from "../../screen-props";

const HEALTH_DAYS = 7;
const ADOPTION_DAYS = 30;
const CHANGES_SHOWN = 8;

export default function Overview({ appId, orgId }: AppScreenProps) {
	const app = useAsk("GET /app/:app_id", { params: { app_id: appId } });
	return (
		<Screen title={app.data?.name ?? appId} note={<CopyChip value={appId} isWhole />}>
			<Health appId={appId} />
			<Live appId={appId} orgId={orgId} />
			<Section title="Adoption in the last 30 days">
				<Graph
					source={graphSource(`/statistics/app/${encodeURIComponent(appId)}/bundle_usage`, {
						graph: "stacked",
						from: utcDay(1 - ADOPTION_DAYS),
						to: utcDay(0),
					})}
					label="Share of devices on each bundle, by day. Statistics has the numbers as CSV"
				/>
			</Section>
			<Recent appId={appId} />
		</Screen>
	);
}

/** Percentiles are exact to 2.5 %, so more than two digits would be false precision. */
function secondsText(ms: number): string {
	const seconds = ms / 1000;
	return seconds.toFixed(seconds < 10 ? 1 : 0);
}

function Health({ appId }: { readonly appId: string }) {
	const days = { from: utcDay(1 - HEALTH_DAYS), to: utcDay(0) };
	const totals = useAsk("GET /statistics/app/:app_id", { params: { app_id: appId }, query: days });
	const installs = useAsk("GET /statistics/app/:app_id/installs", { params: { app_id: appId }, query: days });
	const last = Array.isArray(totals.data) ? totals.data.at(-1) : undefined;
	return (
		<Answer query={installs} what="the app's health">
			{(answer) => {
				if (!("total" in answer)) return null;
				const { install, fail, p95_ms } = answer.total;
				return (
					<Section title="Health in the last 7 days">
						<Figures
							figures={[
								{ label: "Active devices", value: countText(last?.mau ?? 0), note: "in 30 days" },
								{ label: "Installs", value: countText(install), note: `${countText(fail)} failed` },
								{
									label: "Success",
									value: shareText(install, install + fail),
									note: install + fail === 0 ? "No installs reported yet" : `of ${countOf(install + fail, "install")}`,
								},
								{
									label: "Install time (p95)",
									value: p95_ms === null ? "—" : `${secondsText(p95_ms)} s`,
									note: p95_ms === null ? "No install times yet" : "95 % of installs are faster",
								},
							]}
						/>
					</Section>
				);
			}}
		</Answer>
	);
}

function Live({ appId, orgId }: { readonly appId: string; readonly orgId: string | undefined }) {
	const [page, setPage] = usePageNumber();
	const channels = usePage("GET /channel", { query: { app_id: appId } }, page);
	return (
		<Section title="Live on each channel">
			<Answer query={channels} what="channels">
				{({ items, hasNext }) =>
					items.length === 0 && page === 0 ? (
						<Empty title="No channels yet">
							<Stack gap="sm" align="center">
								A channel decides which bundle its devices get.
								<Group>
									<ButtonLink to={appPath(appId, "channels")} variant="default">
										Create channel
									</ButtonLink>
									<ButtonLink to={appPath(appId, "connect")}>Connect your app</ButtonLink>
								</Group>
							</Stack>
						</Empty>
					) : (
						<Stack gap="sm">
							{items.map((channel) => (
								<RolloutNotice key={channel.id} appId={appId} orgId={orgId} channel={channel} isLinked />
							))}
							<DataTable
								label="Channels and their bundles"
								rows={items}
								rowKey={({ id }) => id}
								columns={[
									{
										title: "Channel",
										cell: (channel) => (
											<Stack gap={4}>
												<TextLink to={channelPath(appId, channel.name)}>{channel.name}</TextLink>
												<ChannelBadges channel={channel} />
											</Stack>
										),
									},
									{
										title: "Live bundle",
										cell: ({ version, rollout_version_info, rolloutEnabled, rolloutPercentageBps }) => (
											<Stack gap={4}>
												{version === null ? (
													<Text size="sm" c="dimmed">
														None: devices run the store build
													</Text>
												) : (
													<TextLink to={bundlePath(appId, version.name)}>{version.name}</TextLink>
												)}
												{rollout_version_info === null || !rolloutEnabled ? null : (
													<Text size="sm">
														<TextLink to={bundlePath(appId, rollout_version_info.name)}>
															{rollout_version_info.name}
														</TextLink>{" "}
														for {percentText(rolloutPercentageBps)}
													</Text>
												)}
											</Stack>
										),
									},
									{ title: "Platforms", wideOnly: true, cell: platformsOf },
								]}
							/>
							<Pager page={page} hasNext={hasNext} onPage={setPage} />
						</Stack>
					)
				}
			</Answer>
		</Section>
	);
}

function Recent({ appId }: { readonly appId: string }) {
	const changes = useAsk("GET /app/:app_id/audit", { params: { app_id: appId } });
	return (
		<Section title="Recent changes" actions={<TextLink to={appPath(appId, "changes")}>All changes</TextLink>}>
			<Answer query={changes} what="changes">
				{(entries) =>
					Array.isArray(entries) && entries.length > 0 ? (
						<ChangeList changes={entries.slice(0, CHANGES_SHOWN)} />
					) : (
						<Empty title="No changes yet" />
					)
				}
			</Answer>
		</Section>
	);
}
