/**
 * The current rollout of a channel: its share and steps, its health beside the limits and the live
 * bundle, which devices do not count and why, and actions to change, stop or finish it.
 */
import { Button } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { useAsk, useChange } from "../../api";
import { Answer, Problem } from "../../components/answer";
import { Dot } from "../../components/badge";
import { Card, Note } from "../../components/card";
import type { Channel } from "../../components/channel-badges";
import { TextLink } from "../../components/link";
import { notify } from "../../components/notify";
import { notCountedText, type RolloutAnswer } from "../../components/rollout-texts";
import { Section } from "../../components/screen";
import { countOf, percentText } from "../../components/size";
import { Time } from "../../components/time";
import { releasePath } from "../../paths";
import { RolloutActions } from "./rollout-actions";
import { Checks, HealthBadge, type LiveOutcome, RateIntervals } from "./rollout-health";
import { RolloutSettings, RolloutSettingsList } from "./rollout-settings";

const LOOK_AGAIN_MS = 5_000;

const ENDED_AS = { promoted: "finished", rolled_back: "rolled back", replaced: "replaced" } as const;

export function Rollout({
	appId,
	channel,
	live,
	note,
	mayPromote,
	maySet,
}: {
	readonly appId: string;
	readonly channel: Channel;
	/** Installs of the live bundle on this channel. */
	readonly live: LiveOutcome | undefined;
	/** Notes of the bundle, and who started its rollout. */
	readonly note?: ReactNode;
	readonly mayPromote: boolean;
	readonly maySet: boolean;
}) {
	const [isSetting, setSetting] = useState(false);
	const isThere = channel.rollout_version_info !== null;
	const rollout = useAsk(
		"GET /channel/rollout",
		{ query: { app_id: appId, channel: channel.name } },
		isThere ? { everyMs: LOOK_AGAIN_MS } : {},
	);
	return (
		<Section
			title="Rollout"
			actions={
				maySet ? (
					<Button size="xs" variant="default" onClick={() => setSetting(true)}>
						Rollout settings
					</Button>
				) : undefined
			}
		>
			<Answer query={rollout} what="the rollout">
				{(answer) =>
					answer.state === "none" || answer.version === null ? (
						<p className="muted">
							No rollout.
							{answer.previous === null
								? null
								: ` Last rollout: ${answer.previous.version}${answer.previous.endedAs === null ? "" : `, ${ENDED_AS[answer.previous.endedAs]}`}.`}
						</p>
					) : (
						<Card
							title={
								<span className="row">
									<Dot tone={answer.state === "running" ? "info" : "warn"} />
									<TextLink to={releasePath(appId, channel.name, channel.rollout_release_id ?? answer.version)}>
										{titleOf(answer, answer.version)}
									</TextLink>
								</span>
							}
							actions={<HealthBadge rollout={answer} />}
						>
							<div className="sec">
								{note}
								<Steps rollout={answer} />
								{answer.state === "paused" ? (
									<Note tone="bad" title="No further device gets it">
										{answer.pauseReason ?? "A person paused the rollout."} Devices that have it keep it.
									</Note>
								) : null}
								{answer.state === "off" ? (
									<Note tone="warn" title="The rollout is off">
										Its devices get the live bundle at their next check.
									</Note>
								) : null}
								{answer.readyToFinish ? (
									<Note tone="info" title="Ready to finish">
										Every device gets {answer.version} at its next check. Finish the rollout to make it the live bundle.
									</Note>
								) : null}
								<RateIntervals rollout={answer} live={live} />
								<Checks rollout={answer} nowMs={Date.now()} />
								<NotCounted appId={appId} channel={channel} rollout={answer} maySet={maySet} />
								{mayPromote ? (
									<RolloutActions
										appId={appId}
										channel={channel}
										version={answer.version}
										isPaused={answer.state === "paused"}
										percentage={answer.percentageBps / 100}
									/>
								) : null}
							</div>
						</Card>
					)
				}
			</Answer>
			<RolloutSettingsList channel={channel} />
			{isSetting ? <RolloutSettings appId={appId} channel={channel} onClose={() => setSetting(false)} /> : null}
		</Section>
	);
}

function titleOf({ state, percentageBps }: RolloutAnswer, version: string): string {
	const share = percentText(percentageBps);
	if (state === "paused") return `Rollout of ${version} is paused at ${share}`;
	return state === "off" ? `Rollout of ${version} is off` : `Rolling out ${version} to ${share}`;
}

/** The share of devices, with a mark at each automatic step. */
function Steps({ rollout }: { readonly rollout: RolloutAnswer }) {
	const { percentageBps, steps, running, version, startedAt, state } = rollout;
	const share = percentageBps / 100;
	const stepTexts = steps?.map((step) => (step === share ? `${step} % now` : `${step} %`));
	return (
		<div className="steps">
			<svg role="img" aria-label={`${percentText(percentageBps)} of the devices`}>
				<rect className="track" y="4" width="100%" height="10" rx="5" />
				<rect className={state === "running" ? "share" : "is-still"} y="4" width={`${share}%`} height="10" rx="5" />
				{steps?.slice(0, -1).map((step) => (
					<line key={step} x1={`${step}%`} x2={`${step}%`} y1="1" y2="17" />
				))}
			</svg>
			<span className="small muted">
				{countOf(running, "device")} {running === 1 ? "runs" : "run"} {version}.{" "}
				{startedAt === null ? null : (
					<>
						Started <Time value={startedAt} />.{" "}
					</>
				)}
				{stepTexts === undefined ? null : `Steps: ${stepTexts.join(", ")}.`}
			</span>
		</div>
	);
}

/** Explains why devices run the bundle although few of them count. */
function NotCounted({
	appId,
	channel,
	rollout,
	maySet,
}: {
	readonly appId: string;
	readonly channel: Channel;
	readonly rollout: RolloutAnswer;
	readonly maySet: boolean;
}) {
	const change = useChange("POST /channel", () => notify("New devices now count."));
	const text = notCountedText(rollout, channel.rolloutDevicesPerNetwork);
	if (text === undefined) return null;
	return (
		<Note title={rollout.devices.served === 0 ? "No device counts yet" : "Some devices do not count"}>
			<span>{text}</span>
			<span>
				They get the bundle like all others. Anyone can invent device ids, so only{" "}
				{channel.rolloutCountNewDevices ? "" : "devices that are older than the rollout, and "}a few devices of each
				network decide whether it continues.
			</span>
			{maySet && rollout.notCounted.newer > 0 && !channel.rolloutCountNewDevices ? (
				<Button
					size="xs"
					variant="default"
					loading={change.isPending}
					onClick={() =>
						change.mutate({ body: { app_id: appId, channel: channel.name, rolloutCountNewDevices: true } })
					}
				>
					Count new devices
				</Button>
			) : null}
			{change.isError ? <Problem error={change.error} /> : null}
		</Note>
	);
}
