/**
 * The home of an app: what is live on which channel, how its devices follow, and who released what,
 * with the way back.
 */
import { Button } from "@mantine/core";
import { useCallback, useRef, useState } from "react";
import { versionTones } from "../../../../src/charts/palette";
import { isSampleAppId } from "../../../../src/domain/sample-app";
import { DAY_MS, MINUTE_MS } from "../../../../src/domain/time";
import { useAllPages, useAsk } from "../../api";
import { Lanes } from "../../charts/lanes";
import { dayName, daysFromTo } from "../../charts/time-axis";
import { Answer } from "../../components/answer";
import { ApprovalNotes } from "../../components/approval-notes";
import { AppTile } from "../../components/avatar";
import { Dot } from "../../components/badge";
import { Card, type Figure, Figures, Note } from "../../components/card";
import type { Channel } from "../../components/channel-badges";
import { CopyChip } from "../../components/copy-chip";
import { useDo } from "../../components/do";
import { FileDrop } from "../../components/file-drop";
import { Icon } from "../../components/icon";
import { TextLink } from "../../components/link";
import type { Outcome } from "../../components/release-timeline";
import { RolloutNotice } from "../../components/rollout-notice";
import { progressText } from "../../components/rollout-texts";
import { SampleNote } from "../../components/sample-app";
import { Screen, Section } from "../../components/screen";
import { countOf, countText, percentText, shareText } from "../../components/size";
import { utcDay } from "../../components/time";
import { useFirstSteps } from "../../first-steps";
import { IconChevronRight, IconRocket } from "../../icons";
import { channelPath, releasePath } from "../../paths";
import { useAppMay } from "../../permissions";
import { ReleaseDialog } from "../../release-dialog";
import { useReleases } from "../../releases";
import type { AppScreenProps } from "../../screen-props";
import { FirstDevice, FirstStepsCard, type Releasing } from "./first-run";
import { laneOf } from "./release-lanes";
import { Releases } from "./releases";

const HEALTH_DAYS = 7;
const LANE_DAYS = 14;
const CHANNELS_SHOWN = 6;
const LOOK_AGAIN_MS = 15_000;

export default function Overview({ appId, orgId }: AppScreenProps) {
	const app = useAsk("GET /app/:app_id", { params: { app_id: appId } }, { everyMs: LOOK_AGAIN_MS });
	const channels = useAllPages("GET /channel", { query: { app_id: appId } }, { everyMs: LOOK_AGAIN_MS });
	const may = useAppMay(appId, orgId);
	const [releasing, setReleasing] = useState<Releasing | undefined>();
	const name = app.data?.name ?? appId;
	const [isAsked, setAsked] = useState(false);
	useDo("start", () => setAsked(true));
	const steps = useFirstSteps(appId, "card", isAsked);
	const isSample = isSampleAppId(appId);
	// Who watched the steps sees how they end.
	const wasWatched = useRef(false);
	wasWatched.current ||= steps.isDone === false && !isSample;
	// Before the first release the checklist has the button.
	const mayRelease = may("channel.promote_bundle") === true && (channels.data?.length ?? 0) > 0;
	useDo("release", () => setReleasing({}), mayRelease);
	const mayUpload = may("app.upload_bundle") === true && may("channel.promote_bundle") === true;
	const releaseFile = useCallback((file: File) => setReleasing({ file }), []);
	return (
		<Screen
			title={name}
			picture={<AppTile appId={appId} name={name} icon={app.data?.icon_url} isLarge />}
			note={<CopyChip value={appId} isWhole />}
			actions={
				mayRelease ? (
					<Button leftSection={<Icon of={IconRocket} />} data-release onClick={() => setReleasing({})}>
						Release
					</Button>
				) : undefined
			}
		>
			<ApprovalNotes appId={appId} approvals={app.data?.approvals ?? []} />
			{isSample && orgId !== undefined ? <SampleNote appId={appId} orgId={orgId} /> : null}
			{orgId !== undefined && (isAsked || (steps.isDone === false && !isSample)) ? (
				<FirstStepsCard
					appId={appId}
					orgId={orgId}
					name={name}
					steps={steps}
					mayRelease={mayUpload}
					onRelease={setReleasing}
					{...(steps.isDone === true ? { onClose: () => setAsked(false) } : {})}
				/>
			) : null}
			{wasWatched.current && steps.isDone === true && steps.device !== undefined && !isAsked ? (
				<FirstDevice appId={appId} device={steps.device} />
			) : null}
			<Answer query={channels} what="channels">
				{(all) => (all.length > 0 ? <Released appId={appId} orgId={orgId} channels={all} /> : null)}
			</Answer>
			{/* Figures and releases are other answers, so they stay without the channels. */}
			{channels.isError && channels.data === undefined ? (
				<Released appId={appId} orgId={orgId} channels={undefined} />
			) : null}
			{mayUpload && releasing === undefined ? (
				<FileDrop text="Drop the zip to release it" onFile={releaseFile} />
			) : null}
			{releasing === undefined ? null : (
				<ReleaseDialog appId={appId} orgId={orgId} {...releasing} onClose={() => setReleasing(undefined)} />
			)}
		</Screen>
	);
}

/** Channels of pull requests would hide the others. */
const isPreview = ({ is_preview }: Channel) => is_preview;

function Released({
	appId,
	orgId,
	channels: answered,
}: {
	readonly appId: string;
	readonly orgId: string | undefined;
	/** Undefined: the server does not answer them. */
	readonly channels: readonly Channel[] | undefined;
}) {
	const channels = answered ?? [];
	const may = useAppMay(appId, orgId);
	const days = { from: utcDay(1 - HEALTH_DAYS), to: utcDay(0) };
	const installs = useAsk("GET /statistics/app/:app_id/installs", { params: { app_id: appId }, query: days });
	const outcomes = "byBundleAndChannel" in (installs.data ?? {}) ? outcomesOf(installs.data) : [];
	const limits = new Map(channels.map((channel) => [channel.name, channel.autoPauseFailureRateBps / 10_000]));
	const shown = channels
		.filter((channel) => !isPreview(channel))
		.sort((one, other) => Number(other.public) - Number(one.public))
		.slice(0, CHANNELS_SHOWN);
	return (
		<>
			{shown.map((channel) => (
				<Banner key={channel.id} appId={appId} orgId={orgId} channel={channel} />
			))}
			<Live appId={appId} channels={shown} previews={channels.filter(isPreview)} outcomes={outcomes} />
			<Health appId={appId} live={answered === undefined ? undefined : shown} />
			<Releases
				appId={appId}
				outcomes={outcomes}
				limitOf={(name) => limits.get(name)}
				previews={channels.some(isPreview)}
				mayRollBack={may("channel.promote_bundle") === true}
			/>
		</>
	);
}

function outcomesOf(answer: unknown): readonly Outcome[] {
	return (answer as { readonly byBundleAndChannel: readonly Outcome[] }).byBundleAndChannel;
}

/**
 * Things that need attention: a running, paused or failing rollout, and a channel that no device
 * can use.
 */
function Banner({
	appId,
	orgId,
	channel,
}: {
	readonly appId: string;
	readonly orgId: string | undefined;
	readonly channel: Channel;
}) {
	const { rollout_version_info: rollout, rolloutEnabled, rolloutPausedAt, rolloutPauseReason } = channel;
	return (
		<>
			{channel.misconfigured.length === 0 ? null : (
				<Note tone="bad" title={`${channel.name} reaches no device`}>
					<span>
						{channel.misconfigured.map(({ message }) => message).join(" ")}{" "}
						<TextLink to={channelPath(appId, channel.name)}>Open {channel.name}</TextLink>
					</span>
				</Note>
			)}
			<RolloutNotice appId={appId} orgId={orgId} channel={channel} isLinked={rollout === null || !rolloutEnabled} />
			{rollout === null || !rolloutEnabled ? null : rolloutPausedAt === null ? (
				<RunningRollout appId={appId} channel={channel} version={rollout.name} />
			) : (
				<Note tone="bad" title={`The rollout of ${rollout.name} on ${channel.name} is paused`}>
					<span>
						{rolloutPauseReason ?? `It is at ${percentText(channel.rolloutPercentageBps)}.`}{" "}
						<TextLink to={releasePath(appId, channel.name, channel.rollout_release_id ?? rollout.name)}>
							View release
						</TextLink>
					</span>
				</Note>
			)}
		</>
	);
}

/** How far it is, how it goes, and what happens next by itself. */
function RunningRollout({
	appId,
	channel: { name, rolloutPercentageBps, rollout_release_id },
	version,
}: {
	readonly appId: string;
	readonly channel: Channel;
	readonly version: string;
}) {
	const query = { app_id: appId, channel: name };
	const rollout = useAsk("GET /channel/rollout", { query }, { everyMs: LOOK_AGAIN_MS });
	return (
		<Card>
			<div className="row wrap">
				<Dot tone="info" />
				<span className="grow">
					<strong className="strong">
						{version} is rolling out to {name}.
					</strong>{" "}
					It is at {percentText(rolloutPercentageBps)} of the devices.{" "}
					{rollout.data === undefined ? null : progressText(rollout.data, Date.now())}
				</span>
				<progress value={rolloutPercentageBps} max={10_000} aria-label={`Rollout of ${version} on ${name}`} />
				<TextLink to={releasePath(appId, name, rollout_release_id ?? version)}>
					View release
					<Icon of={IconChevronRight} size="s" />
				</TextLink>
			</div>
		</Card>
	);
}

function Live({
	appId,
	channels,
	previews,
	outcomes,
}: {
	readonly appId: string;
	readonly channels: readonly Channel[];
	readonly previews: readonly Channel[];
	readonly outcomes: readonly Outcome[];
}) {
	const releases = useReleases(appId, {}, 50);
	// The axis ends with the newest answer, so that a release of a moment ago is on it.
	const [openedMs] = useState(() => Date.now());
	const toMs = Math.max(openedMs, releases.dataUpdatedAt);
	const query = { from: utcDay(1 - LANE_DAYS), to: utcDay(0) };
	const usage = useAsk(
		"GET /statistics/app/:app_id/bundle_usage",
		{ params: { app_id: appId }, query },
		{ everyMs: LOOK_AGAIN_MS * 4 },
	);
	const entries = releases.data?.pages.flat() ?? [];
	const data = usage.data !== undefined && "datasets" in usage.data ? usage.data : undefined;
	const datasets = data?.datasets.filter(({ metaCounts }) => metaCounts.some((count) => (count ?? 0) > 0)) ?? [];
	const days = data?.labels ?? daysFromTo(query.from, query.to);
	// A young app has no empty days before its first channel or device.
	const isUsed = (_: string, index: number) => datasets.some(({ metaCounts }) => (metaCounts[index] ?? 0) > 0);
	const createdMs = Math.min(...[...channels, ...previews].map(({ created_at }) => Date.parse(created_at)), toMs);
	// Devices of its first day came after the channel, however early that day began.
	const usedMs = days
		.filter(isUsed)
		.filter((day) => day < dayName(createdMs))
		.map((day) => Date.parse(day));
	const isEmpty = channels.length + previews.length === 0;
	const firstMs = isEmpty ? 0 : Math.min(createdMs, ...usedMs);
	const fromMs = Math.max(toMs - LANE_DAYS * DAY_MS, Math.min(firstMs, toMs - MINUTE_MS));
	const skipped = days.filter((day) => day < dayName(fromMs)).length;
	const lanes = channels.map((channel) =>
		laneOf(channel, entries, { fromMs, toMs }, channelPath(appId, channel.name), failuresText(channel, outcomes)),
	);
	const versions = versionsOf(
		datasets.map(({ label }) => label),
		lanes.flatMap(({ segments }) => segments.map(({ version }) => version)),
		channels.flatMap(({ rollout_version_info }) => rollout_version_info?.name ?? []),
	);
	const [main] = channels;
	const tones = versionTones(versions, main?.version?.name, main?.rollout_version_info?.name);
	const series = versions.flatMap((version) => {
		const found = datasets.find(({ label }) => label === version);
		return found === undefined ? [] : [{ name: version, values: found.metaCounts.slice(skipped) }];
	});
	return (
		<Section title="Live now">
			<Card>
				<Lanes
					label={`Bundles live on each channel since ${dayName(fromMs)}`}
					fromMs={fromMs}
					toMs={toMs}
					lanes={lanes}
					tones={tones}
					previews={previews.map(({ name, created_at }) => ({ name, fromMs: Date.parse(created_at), toMs }))}
					{...(series.length === 0 ? {} : { adoption: { days: days.slice(skipped), series } })}
				/>
			</Card>
		</Section>
	);
}

/** From old to new. */
function versionsOf(...lists: readonly (readonly string[])[]): string[] {
	const collator = new Intl.Collator("en", { numeric: true });
	return [...new Set(lists.flat())].sort(collator.compare);
}

function failuresText({ name, version }: Channel, outcomes: readonly Outcome[]): string {
	const found = outcomes.find((outcome) => outcome.channel === name && outcome.version === version?.name);
	const reports = (found?.install ?? 0) + (found?.fail ?? 0);
	return found === undefined || reports === 0 ? "" : `${shareText(found.fail, reports)} failed`;
}

/** Percentiles are exact to 2.5 %, so more than two digits would be false precision. */
function secondsText(ms: number): string {
	const seconds = ms / 1000;
	return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
}

function Health({ appId, live }: { readonly appId: string; readonly live: readonly Channel[] | undefined }) {
	const days = { from: utcDay(1 - HEALTH_DAYS), to: utcDay(0) };
	const totals = useAsk("GET /statistics/app/:app_id", { params: { app_id: appId }, query: days });
	const installs = useAsk("GET /statistics/app/:app_id/installs", { params: { app_id: appId }, query: days });
	const usage = useAsk("GET /statistics/app/:app_id/bundle_usage", {
		params: { app_id: appId },
		query: { from: utcDay(1 - LANE_DAYS), to: utcDay(0) },
	});
	const last = Array.isArray(totals.data) ? totals.data.at(-1) : undefined;
	return (
		<Answer query={installs} what="the app's health">
			{(answer) => {
				if (!("total" in answer)) return null;
				const { install, fail, p50_ms, p95_ms } = answer.total;
				const figures: Figure[] = [
					{ label: "Active devices", value: countText(last?.mau ?? 0), note: `in ${HEALTH_DAYS} days` },
					latestShare(usage.data, live),
					{
						label: `Failed installs, ${HEALTH_DAYS} days`,
						value: shareText(fail, install + fail),
						note:
							install + fail === 0
								? "No installs reported yet"
								: `${countText(fail)} of ${countOf(install + fail, "install")}`,
					},
					{
						label: "Time to install",
						value: p50_ms === null ? "—" : secondsText(p50_ms),
						note: p95_ms === null ? "No install times yet" : `median; 95 % within ${secondsText(p95_ms)}`,
					},
				];
				return <Figures figures={figures} />;
			}}
		</Answer>
	);
}

/** Devices on a bundle that is live or rolling out somewhere, on the last day with devices. */
function latestShare(usage: unknown, channels: readonly Channel[] | undefined): Figure {
	const label = "On a current bundle";
	if (channels === undefined) return { label, value: "—", note: "The channels are not loaded" };
	const datasets = (
		usage as { datasets?: readonly { label: string; metaCounts: readonly (number | null)[] }[] } | undefined
	)?.datasets;
	const current = new Set(
		channels.flatMap(({ version, rollout_version_info }) => [version?.name, rollout_version_info?.name]),
	);
	const length = datasets?.[0]?.metaCounts.length ?? 0;
	for (let day = length - 1; day >= 0; day--) {
		const all = datasets?.reduce((sum, { metaCounts }) => sum + (metaCounts[day] ?? 0), 0) ?? 0;
		if (all === 0) continue;
		const on = datasets?.reduce(
			(sum, dataset) => sum + (current.has(dataset.label) ? (dataset.metaCounts[day] ?? 0) : 0),
			0,
		);
		return { label, value: shareText(on ?? 0, all), note: `of ${countOf(all, "device")}` };
	}
	return { label, value: "—", note: "No device has reported yet" };
}
