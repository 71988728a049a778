/**
 * The acts of a person on a release, from harmless to dangerous: pause, finish, release another
 * bundle, and at the far right the way back. Acts without an ellipsis are undone by the same
 * button; all others open a dialog with numbers.
 */
import { Button } from "@mantine/core";
import { useState } from "react";
import { useChange } from "../../api";
import { Problem } from "../../components/answer";
import type { Channel } from "../../components/channel-badges";
import { Icon } from "../../components/icon";
import { notifyChannelChange } from "../../components/notify";
import { RollBack } from "../../components/roll-back";
import { percentText } from "../../components/size";
import { IconArrowBackUp, IconPlayerPause, IconPlayerPlay, IconRocket } from "../../icons";
import { ChangeShare, EndRollout, FinishRollout } from "../rollouts/rollout-actions";
import { nameOf, type Release } from "./release-texts";

type Act = "share" | "finish" | "end" | "back";

export function ReleaseActs({
	appId,
	channel,
	release,
	onRelease,
}: {
	readonly appId: string;
	readonly channel: Channel;
	readonly release: Release;
	/** Opens the release dialog of the channel. */
	readonly onRelease: (version?: string) => void;
}) {
	const [act, setAct] = useState<Act | undefined>();
	const { state, version, before, percentage_bps: bps, bundle_deleted } = release;
	const close = () => setAct(undefined);
	const change = useChange("POST /channel", (answer, { body }) =>
		notifyChannelChange(answer, body.rolloutPaused === true ? `Paused ${version}.` : `Continued ${version}.`),
	);
	const set = (fields: { readonly rolloutPaused?: boolean; readonly rolloutEnabled?: boolean }) =>
		change.mutate({ body: { app_id: appId, channel: channel.name, ...fields } });
	const share = percentText(bps);
	const isRunning = state === "rolling_out" || state === "ready_to_finish";
	const isRollout = isRunning || state === "paused" || state === "off";
	const of = { appId, channel, version: version ?? "", onClose: close };
	return (
		<>
			<footer className="acts">
				{isRunning ? (
					<Button
						variant="default"
						loading={change.isPending}
						leftSection={<Icon of={IconPlayerPause} size="s" />}
						onClick={() => set({ rolloutPaused: true })}
					>
						Pause
					</Button>
				) : null}
				{state === "paused" ? (
					<>
						<Button leftSection={<Icon of={IconRocket} size="s" />} data-release onClick={() => onRelease()}>
							Release a fix…
						</Button>
						<Button
							variant="default"
							loading={change.isPending}
							leftSection={<Icon of={IconPlayerPlay} size="s" />}
							onClick={() => set({ rolloutPaused: false })}
						>
							Continue at {share}
						</Button>
					</>
				) : null}
				{state === "off" ? (
					<Button variant="default" loading={change.isPending} onClick={() => set({ rolloutEnabled: true })}>
						Switch on at {share}
					</Button>
				) : null}
				{isRunning || state === "paused" ? (
					<>
						{state === "ready_to_finish" ? null : (
							<Button variant="default" onClick={() => setAct("share")}>
								Change share…
							</Button>
						)}
						<Button variant={state === "ready_to_finish" ? "filled" : "default"} onClick={() => setAct("finish")}>
							{state === "ready_to_finish" ? "Finish…" : "Finish now…"}
						</Button>
					</>
				) : null}
				{state === "live" ? (
					<Button
						variant="default"
						leftSection={<Icon of={IconRocket} size="s" />}
						data-release
						onClick={() => onRelease()}
					>
						Release another bundle…
					</Button>
				) : null}
				{(state === "replaced" || state === "rolled_back") && version !== null && !bundle_deleted ? (
					<Button
						variant="default"
						leftSection={<Icon of={IconRocket} size="s" />}
						data-release
						onClick={() => onRelease(version)}
					>
						Release {version} again…
					</Button>
				) : null}
				{(isRollout || state === "live") && before !== null ? (
					<Button
						variant="danger"
						className="right"
						leftSection={<Icon of={IconArrowBackUp} size="s" />}
						onClick={() => setAct(isRollout ? "end" : "back")}
					>
						Roll back to {nameOf(before.version)}…
					</Button>
				) : null}
			</footer>
			{change.isError ? (
				<div className="pad">
					<Problem error={change.error} />
				</div>
			) : null}
			{act === "share" ? <ChangeShare {...of} percentage={bps / 100} /> : null}
			{act === "finish" ? <FinishRollout {...of} /> : null}
			{act === "end" ? <EndRollout {...of} stable={nameOf(before?.version ?? null)} /> : null}
			{act === "back" ? (
				<RollBack appId={appId} channel={channel.name} version={before?.version ?? null} onClose={close} />
			) : null}
		</>
	);
}
