/**
 * Deletes a channel. Names the consequences first: devices that lose their channel, bundles,
 * overrides and roles.
 */
import { Checkbox, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { useChange, usePage } from "../../api";
import { Answer } from "../../components/answer";
import type { Channel as ChannelOf } from "../../components/channel-badges";
import { Confirm } from "../../components/form-dialog";
import { runsItText } from "../../components/kept-until";
import { notify } from "../../components/notify";
import { countOf, sizeText } from "../../components/size";
import { useChannelDeletionPlan } from "../../dry-runs";
import { appPath } from "../../paths";

export function DeleteChannel({
	appId,
	channel,
	onClose,
}: {
	readonly appId: string;
	readonly channel: ChannelOf;
	readonly onClose: () => void;
}) {
	const [, navigate] = useLocation();
	const [withBundle, setWithBundle] = useState(false);
	const pointedTo = [channel.version, channel.rollout_version_info].flatMap((bundle) =>
		bundle === null ? [] : [bundle.name],
	);
	const devices = usePage("GET /device", { query: { app_id: appId, channel: channel.name } }, 0);
	const plan = useChannelDeletionPlan(appId, channel.name, withBundle);
	const remove = useChange("DELETE /channel", () => {
		notify(`Channel ${channel.name} deleted.`);
		navigate(appPath(appId, "channels"));
	});
	return (
		<Confirm
			title={`Delete the channel ${channel.name}?`}
			action="Delete channel"
			isPending={remove.isPending}
			isReady={!devices.isPending && plan.isSuccess && !plan.isPlaceholderData}
			error={remove.error}
			onClose={onClose}
			onConfirm={() =>
				remove.mutate({
					query: { app_id: appId, channel: channel.name, ...(withBundle ? { delete_bundle: "true" } : {}) },
				})
			}
		>
			<Text size="sm">This cannot be undone. It deletes:</Text>
			<ul>
				<li>the channel {channel.name} and its settings</li>
				{channel.rollout_version_info === null ? null : (
					<li>
						the rollout of {channel.rollout_version_info.name}
						{withBundle ? "" : "; the bundle is kept"}
					</li>
				)}
				<li>
					<Answer query={devices} what="its devices">
						{({ items, hasNext }) => (
							<>
								{items.length === 0
									? "the channel of no known device"
									: `the channel of ${hasNext ? "more than " : ""}${countOf(items.length, "known device")}; at their next check they get ${channel.public ? "the store build, unless another channel serves them" : "the bundle of the public channel"}`}
							</>
						)}
					</Answer>
				</li>
				<li>its history, which also kept former bundles for rollback</li>
				{plan.data?.bundles.map(({ id, version, size, devices: running }) => (
					<li key={id}>
						the bundle <strong>{version}</strong> with its {size === null ? "files" : `${sizeText(size)} of files`};{" "}
						{runsItText(running)}
					</li>
				))}
				{(plan.data?.removes.device_overrides ?? 0) > 0 ? (
					<li>the override of {countOf(plan.data?.removes.device_overrides ?? 0, "device")}</li>
				) : null}
				{(plan.data?.removes.api_key_bindings ?? 0) > 0 ? (
					<li>{countOf(plan.data?.removes.api_key_bindings ?? 0, "role")} of members and API keys</li>
				) : null}
			</ul>
			<Answer query={plan} what="the consequences">
				{() => null}
			</Answer>
			{pointedTo.length === 0 ? null : (
				<Stack gap={4}>
					<Checkbox
						label={`Delete the bundle${pointedTo.length > 1 ? "s" : ""} ${pointedTo.join(" and ")} too`}
						checked={withBundle}
						onChange={(event) => setWithBundle(event.currentTarget.checked)}
					/>
				</Stack>
			)}
		</Confirm>
	);
}
