/**
 * The current rollout of a channel: its share, what devices reported, which devices do not count and why, the next step, and actions to
 * change, stop or finish it.
 */
import { Alert, Button, Group, NumberInput, Paper, Progress, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useAsk, useChange } from "../../api";
import { Answer, Problem } from "../../components/answer";
import { useChangePreview } from "../../components/change-preview";
import type { Channel } from "../../components/channel-badges";
import { Confirm, FormDialog } from "../../components/form-dialog";
import { notify, notifyChannelChange } from "../../components/notify";
import { Section } from "../../components/screen";
import { percentText } from "../../components/size";
import { Time } from "../../components/time";
import { RolloutSettings, RolloutSettingsList } from "./rollout-settings";
import { countsText, failuresText, nextStepText, notCountedText, type RolloutAnswer } from "./rollout-texts";

const LOOK_AGAIN_MS = 5_000;

const ENDED_AS = { promoted: "promoted", rolled_back: "rolled back", replaced: "replaced" } as const;

export function Rollout({
	appId,
	channel,
	mayPromote,
	maySet,
}: {
	readonly appId: string;
	readonly channel: Channel;
	readonly mayPromote: boolean;
	readonly maySet: boolean;
}) {
	const [isSetting, setSetting] = useState(false);
	const isThere = channel.rollout_version_info !== null;
	const rollout = useAsk(
		"GET /channel/rollout",
		{ query: { app_id: appId, channel: channel.name } },
		{ everyMs: isThere ? LOOK_AGAIN_MS : false },
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
						<Text size="sm" c="dimmed">
							No rollout.
							{answer.previous === null
								? null
								: ` Last rollout: ${answer.previous.version}${answer.previous.endedAs === null ? "" : `, ${ENDED_AS[answer.previous.endedAs]}`}.`}
						</Text>
					) : (
						<Paper withBorder p="md">
							<Stack gap="sm">
								<RolloutStatus rollout={answer} version={answer.version} />
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
							</Stack>
						</Paper>
					)
				}
			</Answer>
			<RolloutSettingsList channel={channel} />
			{isSetting ? <RolloutSettings appId={appId} channel={channel} onClose={() => setSetting(false)} /> : null}
		</Section>
	);
}

function RolloutStatus({ rollout, version }: { readonly rollout: RolloutAnswer; readonly version: string }) {
	const { state, percentageBps, devices, reason, pauseReason, startedAt, sampleFull } = rollout;
	const failures = failuresText(rollout);
	const next = nextStepText(rollout, Date.now());
	return (
		<>
			<Group justify="space-between">
				<Text fw={600}>
					{version} for {percentText(percentageBps)} of devices
				</Text>
				<Text size="sm" c="dimmed">
					{state === "paused" ? "Paused" : state === "off" ? "Off" : "Running"}
					{startedAt === null ? null : (
						<>
							, started <Time value={startedAt} />
						</>
					)}
				</Text>
			</Group>
			<Progress
				value={percentageBps / 100}
				aria-label="Share of devices"
				color={state === "running" ? "blue" : "orange"}
			/>
			<Text size="sm">{countsText(devices)}</Text>
			{failures === undefined ? null : <Text size="sm">{failures}</Text>}
			<Text size="sm" c="dimmed">
				{state === "paused"
					? pauseReason === null
						? "Paused."
						: `Paused: ${pauseReason}`
					: (next ?? stillText(rollout, reason))}
			</Text>
			{sampleFull ? (
				<Text size="sm" c="dimmed">
					This step has enough devices. Further ones are not counted.
				</Text>
			) : null}
		</>
	);
}

function stillText({ state }: RolloutAnswer, reason: string): string {
	return state === "off" ? "Off: its devices get the live bundle at their next check." : reason;
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
		<Alert color="gray" title={rollout.devices.served === 0 ? "No device counts yet" : "Some devices do not count"}>
			<Stack gap="xs" align="flex-start">
				<Text size="sm">{text}</Text>
				<Text size="sm">
					They get the bundle like all others. Anyone can invent device ids, so only{" "}
					{channel.rolloutCountNewDevices ? "" : "devices that are older than the rollout, and "}a few devices of each
					network decide whether it continues.
				</Text>
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
			</Stack>
		</Alert>
	);
}

type RolloutAction = "share" | "rollback" | "finish";

function RolloutActions({
	appId,
	channel,
	version,
	isPaused,
	percentage,
}: {
	readonly appId: string;
	readonly channel: Channel;
	readonly version: string;
	readonly isPaused: boolean;
	readonly percentage: number;
}) {
	const [asking, setAsking] = useState<RolloutAction | undefined>();
	const change = useChange("POST /channel", (answer) =>
		notifyChannelChange(answer, isPaused ? "Rollout resumed." : "Rollout paused."),
	);
	const close = () => setAsking(undefined);
	const stable = channel.version?.name ?? "the store build";
	const of = { appId, channel, version, onClose: close };
	return (
		<>
			<Group>
				<Button
					size="xs"
					variant="default"
					loading={change.isPending}
					onClick={() => change.mutate({ body: { app_id: appId, channel: channel.name, rolloutPaused: !isPaused } })}
				>
					{isPaused ? "Resume rollout" : "Pause rollout"}
				</Button>
				<Button size="xs" variant="default" onClick={() => setAsking("share")}>
					Change share
				</Button>
				<Button size="xs" variant="default" onClick={() => setAsking("finish")}>
					{percentage === 100 ? `Make ${version} live` : "Roll out to 100 %"}
				</Button>
				<Button size="xs" color="red" onClick={() => setAsking("rollback")}>
					Roll back to {stable}
				</Button>
			</Group>
			{change.isError ? <Problem error={change.error} /> : null}
			{asking === "share" ? <ChangeShare {...of} percentage={percentage} /> : null}
			{asking === "rollback" ? <EndRollout {...of} stable={stable} /> : null}
			{asking === "finish" ? <FinishRollout {...of} /> : null}
		</>
	);
}

interface OfRollout {
	readonly appId: string;
	readonly channel: Channel;
	readonly version: string;
	readonly onClose: () => void;
}

function ChangeShare({ appId, channel, version, percentage, onClose }: OfRollout & { readonly percentage: number }) {
	const [share, setShare] = useState<number | string>(percentage);
	const isOther = share !== "" && Number(share) !== percentage;
	const body = { app_id: appId, channel: channel.name, rolloutPercentage: Number(share) };
	const preview = useChangePreview(isOther ? body : null, channel.public);
	const change = useChange("POST /channel", (answer) => {
		notifyChannelChange(answer, `${version} is now rolled out to ${share} % of devices.`);
		onClose();
	});
	return (
		<FormDialog
			title={`Change the share of ${version}`}
			action="Set share"
			isPending={change.isPending}
			isReady={isOther && preview.isReady}
			error={change.error}
			onSubmit={() => change.mutate({ body })}
			onClose={onClose}
		>
			<NumberInput
				label="Share of devices, in %"
				description={`Lowering the share takes ${version} from no device. Each change starts a new step.`}
				required
				min={0}
				max={100}
				decimalScale={2}
				value={share}
				onChange={setShare}
			/>
			{preview.view}
		</FormDialog>
	);
}

function EndRollout({ appId, channel, version, stable, onClose }: OfRollout & { readonly stable: string }) {
	const body = { app_id: appId, channel: channel.name, rollback: true };
	const preview = useChangePreview(body, channel.public);
	const change = useChange("POST /channel", (answer) => {
		notifyChannelChange(answer, `Rollout of ${version} rolled back.`);
		onClose();
	});
	return (
		<Confirm
			title={`Roll back ${version}?`}
			action={`Roll back to ${stable}`}
			isPending={change.isPending}
			isReady={preview.isReady}
			error={change.error}
			onConfirm={() => change.mutate({ body })}
			onClose={onClose}
		>
			<Text size="sm">
				The rollout ends. At their next check, devices that run {version} get {stable} again. The bundle is kept, so you
				can roll it out again.
			</Text>
			{preview.view}
		</Confirm>
	);
}

function FinishRollout({ appId, channel, version, onClose }: OfRollout) {
	const body = { app_id: appId, channel: channel.name, promoteToStable: true };
	const preview = useChangePreview(body, channel.public);
	const change = useChange("POST /channel", (answer) => {
		notifyChannelChange(answer, `${version} is now live on ${channel.name}.`);
		onClose();
	});
	const stable = channel.version?.name;
	return (
		<FormDialog
			title={`Make ${version} live for all devices?`}
			action={`Make ${version} live`}
			isPending={change.isPending}
			isReady={preview.isReady}
			error={change.error}
			onSubmit={() => change.mutate({ body })}
			onClose={onClose}
		>
			<Text size="sm">
				{version} becomes the live bundle of {channel.name}
				{stable === undefined ? "" : ` instead of ${stable}. You can roll back to it`}. The rollout ends.
			</Text>
			{preview.view}
		</FormDialog>
	);
}
