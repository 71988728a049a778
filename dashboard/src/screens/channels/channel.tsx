/** One channel: its live bundle, rollout, protection, history with rollback, and changes. */
import { Alert, Button, Checkbox, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { useAsk, useChange, usePage } from "../../api";
import { Answer } from "../../components/answer";
import { KeyValues } from "../../components/card";
import { ChangeList } from "../../components/changes";
import {
	ChannelBadges,
	type Channel as ChannelOf,
	ChannelProblems,
	platformsOf,
} from "../../components/channel-badges";
import { useDo } from "../../components/do";
import { Confirm } from "../../components/form-dialog";
import { runsItText } from "../../components/kept-until";
import { TextLink } from "../../components/link";
import { notify } from "../../components/notify";
import { RolloutNotice } from "../../components/rollout-notice";
import { Empty, Screen, Section } from "../../components/screen";
import { countOf, sizeText } from "../../components/size";
import { Time } from "../../components/time";
import { useChannelDeletionPlan } from "../../dry-runs";
import { appPath, bundlePath } from "../../paths";
import { useAppMay } from "../../permissions";
import type { AppItemProps } from "../../screen-props";
import { Rollout } from "../rollouts/rollout";
import { ChannelForm, UPDATE_LIMITS, UPDATE_PACKAGES } from "./channel-form";
import { ChannelHistory } from "./history";
import { Promote } from "./promote";
import { ChannelProtection, WaitingProposals } from "./protection";

type Dialog = "promote" | "edit" | "delete";
const CHANGES_SHOWN = 10;

export default function Channel({ appId, orgId, item }: AppItemProps) {
	const channel = useAsk("GET /channel", { query: { app_id: appId, channel: item } });
	return (
		<Answer query={channel} what={`the channel ${item}`}>
			{(answer) =>
				Array.isArray(answer) ? null : <Details appId={appId} orgId={orgId} channel={answer as ChannelOf} />
			}
		</Answer>
	);
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
	const may = useAppMay(appId, orgId);
	useDo("promote", () => setDialog("promote"), may("channel.promote_bundle") === true);
	const changes = useAsk("GET /app/:app_id/audit", {
		params: { app_id: appId },
		query: { target: `channel:${channel.id}` },
	});
	const entries = Array.isArray(changes.data) ? changes.data : undefined;
	const live = channel.version?.name;
	const edit = useChange("POST /channel", () => {
		notify(`Channel ${channel.name} saved.`);
		close();
	});
	return (
		<Screen
			title={channel.name}
			note={<ChannelBadges channel={channel} />}
			actions={
				<>
					{may("channel.promote_bundle") === true ? (
						<Button onClick={() => setDialog("promote")}>Promote bundle</Button>
					) : null}
					{may("channel.update_settings") === true && (!channel.protected || may("app.update_user_roles") === true) ? (
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
			{channel.misconfigured.length === 0 ? null : (
				<Alert color="red" title="Misconfigured: no device gets the bundle of this channel">
					<ChannelProblems channel={channel} />
				</Alert>
			)}
			<RolloutNotice appId={appId} orgId={orgId} channel={channel} />
			{channel.requires_approval ? <WaitingProposals appId={appId} channel={channel} /> : null}
			<KeyValues
				items={[
					[
						"Live bundle",
						live === undefined ? (
							"None: devices run the store build"
						) : (
							<TextLink key="live" to={bundlePath(appId, live)}>
								{live}
							</TextLink>
						),
					],
					["Platforms", platformsOf(channel)],
					[
						"Allowed updates",
						UPDATE_LIMITS.find(({ value }) => value === channel.disableAutoUpdate)?.label ?? channel.disableAutoUpdate,
					],
					[
						"Update format",
						UPDATE_PACKAGES.find(({ value }) => value === channel.updatePackage)?.label ?? channel.updatePackage,
					],
					["Changed", <Time key="changed" value={channel.updated_at} />],
				]}
			/>
			<Rollout
				appId={appId}
				channel={channel}
				mayPromote={may("channel.promote_bundle") === true}
				maySet={may("channel.update_settings") === true}
			/>
			<ChannelProtection appId={appId} channel={channel} maySet={may("app.update_user_roles") === true} />
			<ChannelHistory appId={appId} channel={channel} mayPromote={may("channel.promote_bundle") === true} />
			<Section title="Changes">
				<Answer query={changes} what="changes">
					{() =>
						entries === undefined || entries.length === 0 ? (
							<Empty title="No changes yet" />
						) : (
							<ChangeList changes={entries.slice(0, CHANGES_SHOWN)} />
						)
					}
				</Answer>
			</Section>
			{dialog === "promote" ? (
				<Promote appId={appId} channel={channel} maySet={may("channel.update_settings") === true} onClose={close} />
			) : null}
			{dialog === "edit" ? (
				<ChannelForm
					title={`Edit ${channel.name}`}
					action="Save channel"
					name={channel.name}
					settings={channel}
					isPending={edit.isPending}
					error={edit.error}
					onClose={close}
					onSubmit={(name, settings) => edit.mutate({ body: { app_id: appId, channel: name, ...settings } })}
				/>
			) : null}
			{dialog === "delete" ? <DeleteChannel appId={appId} channel={channel} onClose={close} /> : null}
		</Screen>
	);
}

/** Names the consequences first: devices that lose their channel, bundles, overrides and roles. */
function DeleteChannel({
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
