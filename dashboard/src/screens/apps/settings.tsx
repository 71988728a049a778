/** Settings of an app in cards, and how it leaves the organization in the last one. */
import { Button, Switch, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { RESTORABLE_DAYS } from "../../../../src/domain/defaults";
import { isSampleAppId } from "../../../../src/domain/sample-app";
import { useAsk, useChange } from "../../api";
import { Answer } from "../../components/answer";
import { CopyChip } from "../../components/copy-chip";
import { timeText } from "../../components/dates";
import { formErrors } from "../../components/field-errors";
import { Confirm } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { SampleNote } from "../../components/sample-app";
import { Screen } from "../../components/screen";
import { SettingsAct, SettingsCard, SettingsFacts } from "../../components/settings-card";
import { changeText, switchText, useDraft } from "../../components/settings-draft";
import { countOf, sizeText } from "../../components/size";
import { Time } from "../../components/time";
import { useAppDeletionPlan } from "../../dry-runs";
import { organizationPath } from "../../paths";
import { useAppMay } from "../../permissions";
import type { AppScreenProps } from "../../screen-props";
import { type AppRecord, type AppSettingsProps, DeviceSettings, PreviewSettings } from "./device-settings";
import { AppRetention } from "./retention";
import { TransferApp } from "./transfer-app";

export default function AppSettings({ appId, orgId }: AppScreenProps) {
	const app = useAsk("GET /app/:app_id", { params: { app_id: appId } });
	const may = useAppMay(appId, orgId);
	const mayChange = may("app.update_settings") === true;
	return (
		<Screen title="Settings">
			<Answer query={app} what="the app">
				{(record) => (
					<>
						<Identity app={record} mayChange={mayChange} />
						<Uploads app={record} mayChange={mayChange} />
						<DeviceSettings app={record} mayChange={mayChange} />
						<PreviewSettings app={record} mayChange={mayChange} />
						<AppRetention app={record} mayChange={mayChange} />
						{may("app.delete") === true ? <Leave app={record} /> : null}
					</>
				)}
			</Answer>
		</Screen>
	);
}

function Identity({ app, mayChange }: AppSettingsProps) {
	const { values, changed, set, discard, settle } = useDraft({ name: app.name, icon_url: app.icon_url ?? "" });
	const save = useChange("PUT /app/:app_id", () => notify("App saved."));
	const errors = formErrors(save.error, ["name", "icon_url"]);
	return (
		<SettingsCard
			title="App"
			note="How people find it. The id is in every build and cannot change."
			present={
				<>
					<bdi>{app.name}</bdi>, {app.icon_url === null ? "without an icon" : "with an icon"}, created{" "}
					<Time value={app.created_at} />.{" "}
					<span className="row wrap">
						App id <CopyChip value={app.app_id} />
					</span>
				</>
			}
			mayChange={mayChange}
			action="Save app"
			changes={[
				...(changed.name === undefined ? [] : [changeText("name", app.name, values.name)]),
				...(changed.icon_url === undefined ? [] : ["icon"]),
			]}
			isReady={values.name.trim() !== ""}
			isPending={save.isPending}
			error={errors.rest}
			onDiscard={discard}
			onSave={() =>
				save.mutate(
					{
						params: { app_id: app.app_id },
						body: {
							...(changed.name === undefined ? {} : { name: values.name }),
							...(changed.icon_url === undefined ? {} : { icon_url: values.icon_url.trim() || null }),
						},
					},
					{ onSuccess: () => settle(changed) },
				)
			}
		>
			<div className="settings-pair">
				<TextInput
					label="Name"
					error={errors.at("name")}
					maxLength={128}
					value={values.name}
					onChange={(event) => set({ name: event.currentTarget.value })}
				/>
				<TextInput
					type="url"
					label="Icon address (optional)"
					error={errors.at("icon_url")}
					placeholder="https://example.com/icon.png"
					value={values.icon_url}
					onChange={(event) => set({ icon_url: event.currentTarget.value })}
				/>
			</div>
		</SettingsCard>
	);
}

const CHANNEL_ERRORS = ["default_upload_channel", "channel_not_found", "channel_name_reserved"];
const NOTES_LABEL = "Send release notes and link to devices";

function Uploads({ app, mayChange }: AppSettingsProps) {
	const { values, changed, set, discard, settle } = useDraft({
		default_upload_channel: app.default_upload_channel,
		expose_metadata: app.expose_metadata,
	});
	const save = useChange("PUT /app/:app_id", () => notify("App saved."));
	const errors = formErrors(save.error, CHANNEL_ERRORS);
	return (
		<SettingsCard
			title="Uploads"
			note="The channel of uploads that name none, and what devices learn of a bundle."
			present={
				<>
					Uploads go to <bdi>{app.default_upload_channel}</bdi>. Devices get{" "}
					{app.expose_metadata ? "the release notes and the link." : "no release notes and no link."}
				</>
			}
			mayChange={mayChange}
			action="Save uploads"
			changes={[
				...(changed.default_upload_channel === undefined
					? []
					: [changeText("channel", app.default_upload_channel, values.default_upload_channel)]),
				...(changed.expose_metadata === undefined ? [] : [switchText(NOTES_LABEL, values.expose_metadata)]),
			]}
			isReady={values.default_upload_channel.trim() !== ""}
			isPending={save.isPending}
			error={errors.rest}
			onDiscard={discard}
			onSave={() =>
				save.mutate({ params: { app_id: app.app_id }, body: changed }, { onSuccess: () => settle(changed) })
			}
		>
			<TextInput
				label="Default upload channel"
				error={errors.at(...CHANNEL_ERRORS)}
				value={values.default_upload_channel}
				onChange={(event) => set({ default_upload_channel: event.currentTarget.value })}
			/>
			<Switch
				label={NOTES_LABEL}
				checked={values.expose_metadata}
				onChange={(event) => set({ expose_metadata: event.currentTarget.checked })}
			/>
		</SettingsCard>
	);
}

function Leave({ app }: { readonly app: AppRecord }) {
	const [isAsking, setAsking] = useState(false);
	if (isSampleAppId(app.app_id)) return <SampleNote appId={app.app_id} orgId={app.owner_org} />;
	return (
		<SettingsFacts
			title="Move or delete"
			note={`A deletion can be undone for ${RESTORABLE_DAYS} days. The new organization decides about a move back.`}
		>
			<TransferApp app={app} />
			<SettingsAct text="Deletes the app with its channels, bundles, devices and statistics.">
				<Button variant="danger" onClick={() => setAsking(true)}>
					Delete {app.name}
				</Button>
			</SettingsAct>
			{isAsking ? <DeleteApp app={app} onClose={() => setAsking(false)} /> : null}
		</SettingsFacts>
	);
}

function DeleteApp({ app, onClose }: { readonly app: AppRecord; readonly onClose: () => void }) {
	const [, navigate] = useLocation();
	const plan = useAppDeletionPlan(app.app_id);
	const remove = useChange("DELETE /app/:app_id", () => {
		notify(`${app.name} deleted. To undo this, see Deleted apps.`);
		navigate(organizationPath(app.owner_org));
	});
	return (
		<Confirm
			title={`Delete ${app.name}?`}
			action="Delete app"
			typed={app.app_id}
			isPending={remove.isPending}
			isReady={plan.isSuccess}
			error={remove.error}
			onConfirm={() => remove.mutate({ params: { app_id: app.app_id } })}
			onClose={onClose}
		>
			<Answer query={plan} what="the consequences">
				{({ removes, restorable_until }) => (
					<>
						<Text size="sm">
							Devices keep their current bundle and get no more updates. You can undo this until{" "}
							{timeText(restorable_until)}. This deletes:
						</Text>
						<ul>
							<li>{countOf(removes.channels, "channel")}</li>
							<li>
								{countOf(removes.bundles, "bundle")}, {sizeText(removes.bundle_bytes)}
							</li>
							<li>its devices and statistics</li>
							{removes.api_key_bindings === 0 ? null : (
								<li>{countOf(removes.api_key_bindings, "role")} of members and API keys</li>
							)}
						</ul>
					</>
				)}
			</Answer>
		</Confirm>
	);
}
