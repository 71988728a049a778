/**
 * One release, from its first step to what replaced it: state and steps, acts, failures beside who
 * has it, what changed beside the timeline. Its address is what a person sends to a colleague, and
 * what mails, webhooks and commands link to.
 */
import { Button } from "@mantine/core";
import { useEffect, useState } from "react";
import { useLocation } from "wouter";
import { useAsk } from "../../api";
import { Badge, Dot } from "../../components/badge";
import type { Channel } from "../../components/channel-badges";
import { useCopy } from "../../components/copy-chip";
import { Icon } from "../../components/icon";
import { TextLink } from "../../components/link";
import { Found, isMissing } from "../../components/missing";
import { RolloutNotice } from "../../components/rollout-notice";
import { Screen } from "../../components/screen";
import { roundedShare } from "../../components/size";
import { IconAlertTriangle, IconCheck, IconLink } from "../../icons";
import { appPath, channelPath, releasePath } from "../../paths";
import { useChannelMay } from "../../permissions";
import { ReleaseDialog } from "../../release-dialog";
import type { AppReleaseProps } from "../../screen-props";
import { ReleaseActs } from "./release-acts";
import { ReleaseChanges } from "./release-changes";
import { Moment, ReleaseEntries, ReleaseFacts } from "./release-facts";
import { ReleaseFailures } from "./release-failures";
import { ReleaseReach } from "./release-reach";
import { ReleaseSteps } from "./release-steps";
import { failedText, headline, healthOf, nameOf, type Release, stateBadge } from "./release-texts";
import "./release.css";

const LOOK_AGAIN_MS = 5_000;
const OPEN: readonly Release["state"][] = ["rolling_out", "ready_to_finish", "paused"];

export default function ReleasePage({ appId, orgId, channel: name, release: id }: AppReleaseProps) {
	const of = { app_id: appId, channel: name };
	const release = useAsk("GET /release", { query: { ...of, id } }, { everyMs: LOOK_AGAIN_MS });
	const channel = useAsk("GET /channel", { query: of }, { everyMs: LOOK_AGAIN_MS * 2 });
	const [, navigate] = useLocation();
	// A version in the address means the newest release of it, which may be another one tomorrow.
	const found = release.data?.id;
	useEffect(() => {
		if (found !== undefined && String(found) !== id) navigate(releasePath(appId, name, found), { replace: true });
	}, [found, id, appId, name, navigate]);
	return (
		<Found
			query={release}
			kind="release"
			name={`${id} on ${name}`}
			because="The channel has no such release, or it is older than the newest 1,000 entries of its history."
			list={
				isMissing(channel.error)
					? { to: appPath(appId), label: "All releases" }
					: { to: channelPath(appId, name), label: "Open the channel" }
			}
		>
			{(answer) => (
				<Details
					appId={appId}
					orgId={orgId}
					release={answer}
					channel={channel.data === undefined || Array.isArray(channel.data) ? undefined : (channel.data as Channel)}
				/>
			)}
		</Found>
	);
}

function Details({
	appId,
	orgId,
	release,
	channel,
}: {
	readonly appId: string;
	readonly orgId: string | undefined;
	readonly release: Release;
	readonly channel: Channel | undefined;
}) {
	const { id, version, state, channel: on } = release;
	const isOpen = OPEN.includes(state);
	const rollout = useAsk(
		"GET /channel/rollout",
		{ query: { app_id: appId, channel: on.name } },
		{ enabled: isOpen, everyMs: LOOK_AGAIN_MS },
	);
	const may = useChannelMay(appId, orgId, channel?.id ?? 0);
	const mayPromote = may("channel.promote_bundle") === true;
	const [releasing, setReleasing] = useState<{ readonly version: string | undefined } | undefined>();
	const { isCopied, copy } = useCopy(`${location.origin}/dashboard${releasePath(appId, on.name, id)}`);
	const nowMs = Date.now();
	const [badge, tone] = stateBadge(release);
	const isFailing = state === "paused" && release.paused_by === "service";
	const health = healthOf(release);
	const dot = isOpen || state === "live" ? (health === "above" ? "bad" : health === "below" ? "ok" : "ring") : "ring";
	return (
		<Screen
			title={`${nameOf(version)} on ${on.name}`}
			note={
				<div className="stack">
					<div className="row wrap" aria-live="polite">
						<Badge tone={tone}>{badge}</Badge>
						<TextLink to={channelPath(appId, on.name)}>Channel {on.name}</TextLink>
					</div>
					<ReleaseFacts release={release} nowMs={nowMs} />
				</div>
			}
			actions={
				<Button variant="default" leftSection={<Icon of={isCopied ? IconCheck : IconLink} size="s" />} onClick={copy}>
					{isCopied ? "Address copied" : "Share"}
				</Button>
			}
		>
			{channel !== undefined && channel.rollout_release_id === id ? (
				<RolloutNotice appId={appId} orgId={orgId} channel={channel} />
			) : null}
			<section className={isFailing ? "card is-bad" : "card"} aria-label="State">
				{isFailing ? <PauseHead release={release} nowMs={nowMs} /> : null}
				<div className="pad sec">
					<p className="lead row start">
						<Dot tone={dot} />
						<span>{isFailing ? gateText(release) : headline(release, rollout.data, nowMs)}</span>
					</p>
					<ReleaseSteps release={release} rollout={isOpen ? rollout.data : undefined} nowMs={nowMs} />
				</div>
				{mayPromote && channel !== undefined ? (
					<ReleaseActs
						appId={appId}
						channel={channel}
						release={release}
						onRelease={(chosen) => setReleasing({ version: chosen })}
					/>
				) : null}
			</section>
			<div className="cols even">
				<div className="page">
					<ReleaseFailures release={release} />
					<ReleaseChanges appId={appId} release={release} nowMs={nowMs} />
				</div>
				<div className="page">
					<ReleaseReach
						appId={appId}
						release={release}
						isAlone={channel !== undefined && channel.rollout_version_info === null}
					/>
					<ReleaseEntries appId={appId} release={release} nowMs={nowMs} />
				</div>
			</div>
			{releasing === undefined || channel === undefined ? null : (
				<ReleaseDialog
					appId={appId}
					orgId={orgId}
					channel={channel.name}
					version={releasing.version}
					onClose={() => setReleasing(undefined)}
				/>
			)}
		</Screen>
	);
}

function PauseHead({ release, nowMs }: { readonly release: Release; readonly nowMs: number }) {
	const pause = release.entries.find(({ action }) => action === "rollout_paused");
	return (
		<header>
			<Icon of={IconAlertTriangle} />
			<h2>Paused: too many devices fail</h2>
			{pause === undefined ? null : <Moment value={pause.at} nowMs={nowMs} />}
		</header>
	);
}

/** The failures now; the timeline has those of the moment of the pause. */
function gateText({ failures: { release, limit, population } }: Release): string {
	if (release === null) return "No device that counts has reported since it continued.";
	return `${failedText(release, population)}. Allowing for chance, at least ${roundedShare(release.lowerBound)} fail; the limit is ${roundedShare(limit)}.`;
}
