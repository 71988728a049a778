/** One channel: what is live, its rollout with its health, who may change it, and one history. */
import { Button } from "@mantine/core";
import { useState } from "react";
import { FIELD_LABELS } from "../../../../src/domain/updates/channel-fields";
import { type AnswerOf, useAllPages, useAsk } from "../../api";
import { Card, Properties } from "../../components/card";
import { ChannelBadges, type Channel as ChannelOf, platformsOf } from "../../components/channel-badges";
import { ChannelProblems } from "../../components/channel-problems";
import { useDo } from "../../components/do";
import { Icon } from "../../components/icon";
import { Found, isMissing } from "../../components/missing";
import type { Outcome } from "../../components/release-timeline";
import { RolloutNotice } from "../../components/rollout-notice";
import { Screen } from "../../components/screen";
import { Time, utcDay } from "../../components/time";
import { IconRocket } from "../../icons";
import { appPath, channelPath } from "../../paths";
import { useChannelMay } from "../../permissions";
import { actorOf, useReleases } from "../../releases";
import type { AppItemProps } from "../../screen-props";
import { Rollout } from "../rollouts/rollout";
import { type ChannelDialog, ChannelDialogs } from "./channel-dialogs";
import { UPDATE_LIMITS, UPDATE_PACKAGES } from "./channel-form";
import { DeleteChannel } from "./delete-channel";
import { ChannelHistory } from "./history";
import { HEALTH_DAYS, LiveBundle } from "./live-bundle";
import { ChannelProtection, WaitingProposals } from "./protection";

type Dialog = ChannelDialog | "delete";

export default function Channel({ appId, orgId, item }: AppItemProps) {
	const channel = useAsk("GET /channel", { query: { app_id: appId, channel: item } });
	const others = useAllPages(
		"GET /channel",
		{ query: { app_id: appId, limit: "1000" } },
		{ enabled: isMissing(channel.error) },
	);
	return (
		<Found
			query={channel}
			kind="channel"
			name={item}
			others={others.data?.map(({ name }) => ({ name, to: channelPath(appId, name) }))}
			list={{ to: appPath(appId, "channels"), label: "All channels" }}
		>
			{(answer) =>
				Array.isArray(answer) ? null : <Details appId={appId} orgId={orgId} channel={answer as ChannelOf} />
			}
		</Found>
	);
}

/** Installs by bundle on this channel, newest days. */
function useOutcomes(appId: string, channel: string): readonly Outcome[] {
	const query = { from: utcDay(1 - HEALTH_DAYS), to: utcDay(0) };
	const { data } = useAsk("GET /statistics/app/:app_id/installs", { params: { app_id: appId }, query });
	if (data === undefined || !("byBundleAndChannel" in data)) return [];
	const { byBundleAndChannel } = data as Extract<
		AnswerOf<"GET /statistics/app/:app_id/installs">,
		{ byBundleAndChannel: unknown }
	>;
	return byBundleAndChannel.filter((outcome) => outcome.channel === channel);
}

/** The devices that start on this channel. */
function audienceText(channel: ChannelOf): string {
	if (channel.public) return `New devices on ${platformsOf(channel)} start here.`;
	return channel.allow_device_self_set
		? "Apps can move their devices here."
		: "Devices get here by their build or an override.";
}

function Details({
	appId,
	orgId,
	channel,
}: {
	readonly appId: string;
	readonly orgId: string | undefined;
	readonly channel: ChannelOf;
}) {
	const [dialog, setDialog] = useState<Dialog | undefined>();
	const close = () => setDialog(undefined);
	const may = useChannelMay(appId, orgId, channel.id);
	const [mayPromote, maySet] = [may("channel.promote_bundle") === true, may("channel.update_settings") === true];
	useDo("release", () => setDialog("release"), mayPromote);
	useDo("rollback", () => setDialog("rollback"), mayPromote);
	const mayEdit = maySet && (!channel.protected || may("app.update_user_roles") === true);
	useDo("edit", () => setDialog("edit"), mayEdit);
	const outcomes = useOutcomes(appId, channel.name);
	const history = useReleases(appId, { channel: channel.name });
	const releases = history.data?.pages.flat() ?? [];
	const [live, rollout] = [channel.version?.name, channel.rollout_version_info?.name];
	const liveOutcome = outcomes.find(({ version }) => version === live);
	const started = releases.find(({ action, version }) => action === "rollout_started" && version === rollout);
	const rolloutPart = (
		<Rollout
			appId={appId}
			channel={channel}
			live={liveOutcome}
			note={
				started === undefined ? null : (
					<p className="said">
						{started.notes === null ? "" : `“${started.notes}” `}Started by {actorOf(started).name}.
					</p>
				)
			}
			mayPromote={mayPromote}
			maySet={maySet}
		/>
	);
	const livePart = (
		<LiveBundle
			appId={appId}
			channel={channel}
			released={releases.find(({ is_live }) => is_live)}
			outcome={liveOutcome}
		/>
	);
	return (
		<Screen
			title={channel.name}
			note={
				<div className="stack">
					<ChannelBadges channel={channel} />
					<span>{audienceText(channel)}</span>
				</div>
			}
			actions={
				<>
					{mayPromote ? (
						<Button leftSection={<Icon of={IconRocket} />} data-release onClick={() => setDialog("release")}>
							Release
						</Button>
					) : null}
					{mayEdit ? (
						<Button variant="default" onClick={() => setDialog("edit")}>
							Edit channel
						</Button>
					) : null}
					{may("channel.delete") === true && !channel.protected ? (
						<Button variant="danger" onClick={() => setDialog("delete")}>
							Delete channel
						</Button>
					) : null}
				</>
			}
		>
			<ChannelProblems appId={appId} channel={channel} maySet={maySet} />
			<RolloutNotice appId={appId} orgId={orgId} channel={channel} />
			{channel.requires_approval ? <WaitingProposals appId={appId} channel={channel} /> : null}
			<div className="cols">
				<div className="page">
					{rollout === undefined ? livePart : rolloutPart}
					{rollout === undefined ? rolloutPart : null}
				</div>
				<div className="page">
					{rollout === undefined ? null : livePart}
					<Settings channel={channel} />
					<ChannelProtection
						appId={appId}
						orgId={orgId}
						channel={channel}
						maySet={may("app.update_user_roles") === true}
					/>
				</div>
			</div>
			<ChannelHistory
				appId={appId}
				channel={channel}
				history={history}
				outcomes={outcomes}
				mayPromote={mayPromote}
				mayReadChanges={may("app.read_audit") === true}
			/>
			{dialog === undefined || dialog === "delete" ? null : (
				<ChannelDialogs appId={appId} orgId={orgId} channel={channel} dialog={dialog} onClose={close} />
			)}
			{dialog === "delete" ? <DeleteChannel appId={appId} channel={channel} onClose={close} /> : null}
		</Screen>
	);
}

function Settings({ channel }: { readonly channel: ChannelOf }) {
	const kinds = [
		channel.allow_prod ? "production builds" : "",
		channel.allow_dev ? "development builds" : "",
		channel.allow_device ? "physical devices" : "",
		channel.allow_emulator ? "emulators" : "",
	].filter((kind) => kind !== "");
	const limit = UPDATE_LIMITS.find(({ value }) => value === channel.disableAutoUpdate)?.label;
	const form = UPDATE_PACKAGES.find(({ value }) => value === channel.updatePackage)?.label;
	const items = [
		["Platforms", platformsOf(channel)],
		["Serves", kinds.length === 4 ? "Every kind of build and device" : kinds.join(", ") || "Nothing"],
		[FIELD_LABELS.disableAutoUpdate, limit ?? channel.disableAutoUpdate],
		["Downgrades", channel.disableAutoUpdateUnderNative ? "Not below the store build" : "Also below the store build"],
		["Native packages", channel.requireCompatibleBundle ? "Only bundles that fit the store builds" : "Not checked"],
		[FIELD_LABELS.updatePackage, form ?? channel.updatePackage],
		["Changed", <Time key="changed" value={channel.updated_at} />],
	] as const;
	return (
		<Card title="Settings">
			<Properties items={items} />
		</Card>
	);
}
