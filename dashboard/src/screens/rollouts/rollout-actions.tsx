/**
 * Actions on a rollout: pause and resume it, change its share, finish it, or roll it back.
 */

import { Button, Text } from "@mantine/core";
import { useState } from "react";
import { useChange } from "../../api";
import { Problem } from "../../components/answer";
import { useChangePreview } from "../../components/change-preview";
import type { Channel } from "../../components/channel-badges";
import { formErrors } from "../../components/field-errors";
import { Confirm, FormDialog } from "../../components/form-dialog";
import { Icon } from "../../components/icon";
import { notifyChannelChange } from "../../components/notify";
import { NumberField } from "../../components/number-field";
import { IconArrowBackUp } from "../../icons";

type RolloutAction = "share" | "rollback" | "finish";

export function RolloutActions({
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
		notifyChannelChange(answer, isPaused ? `Rollout of ${version} resumed.` : `Rollout of ${version} paused.`),
	);
	const close = () => setAsking(undefined);
	const stable = channel.version?.name ?? "the store build";
	const of = { appId, channel, version, onClose: close };
	return (
		<>
			<div className="row wrap">
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
					{percentage === 100 ? "Finish…" : "Finish now…"}
				</Button>
				<Button
					size="xs"
					variant="danger"
					leftSection={<Icon of={IconArrowBackUp} size="s" />}
					onClick={() => setAsking("rollback")}
				>
					Roll back to {stable}
				</Button>
			</div>
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

export function ChangeShare({
	appId,
	channel,
	version,
	percentage,
	onClose,
}: OfRollout & { readonly percentage: number }) {
	const [share, setShare] = useState<number | string>(percentage);
	const isOther = share !== "" && Number(share) !== percentage;
	const body = { app_id: appId, channel: channel.name, rolloutPercentage: Number(share) };
	const preview = useChangePreview(isOther ? body : null, channel.public);
	const change = useChange("POST /channel", (answer) => {
		notifyChannelChange(answer, `${version} is now rolled out to ${share} % of devices.`);
		onClose();
	});
	const errors = formErrors(change.error, ["rolloutPercentage"]);
	return (
		<FormDialog
			title={`Change the share of ${version}`}
			action="Set share"
			isPending={change.isPending}
			isReady={isOther && preview.isReady}
			error={errors.rest}
			onSubmit={() => change.mutate({ body })}
			onClose={onClose}
		>
			<NumberField
				label="Share of devices, in %"
				error={errors.at("rolloutPercentage")}
				description={`Lowering the share takes ${version} from no device. Each change starts a new step.`}
				required
				min={0}
				max={100}
				decimals={2}
				value={share}
				onChange={setShare}
			/>
			{preview.view}
		</FormDialog>
	);
}

export function EndRollout({ appId, channel, version, stable, onClose }: OfRollout & { readonly stable: string }) {
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

export function FinishRollout({ appId, channel, version, onClose }: OfRollout) {
	const body = { app_id: appId, channel: channel.name, promoteToStable: true };
	const preview = useChangePreview(body, channel.public);
	const change = useChange("POST /channel", (answer) => {
		notifyChannelChange(answer, `Finished the rollout of ${version}: it is live on ${channel.name}.`);
		onClose();
	});
	const stable = channel.version?.name;
	return (
		<FormDialog
			title={`Finish the rollout of ${version}?`}
			action={`Finish ${version}`}
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
