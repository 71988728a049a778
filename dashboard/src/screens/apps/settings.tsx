/** Settings of an app, and its deletion. */

import { Button, Group, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { RESTORABLE_DAYS } from "../../../../src/domain/defaults";
import { isSampleAppId } from "../../../../src/domain/sample-app";
import { type AnswerOf, useAsk, useChange } from "../../api";
import { Answer, Problem } from "../../components/answer";
import { KeyValues } from "../../components/card";
import { formErrors } from "../../components/field-errors";
import { Confirm } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { SampleNote } from "../../components/sample-app";
import { Screen, Section } from "../../components/screen";
import { countOf, sizeText } from "../../components/size";
import { Time, timeText } from "../../components/time";
import { useAppDeletionPlan } from "../../dry-runs";
import { organizationPath } from "../../paths";
import { useAppMay } from "../../permissions";
import type { AppScreenProps } from "../../screen-props";
import { DeviceSettings } from "./device-settings";
import { AppRetention } from "./retention";
import { TransferApp } from "./transfers";

type AppRecord = AnswerOf<"GET /app/:app_id">;

export default function AppSettings({ appId, orgId }: AppScreenProps) {
	const app = useAsk("GET /app/:app_id", { params: { app_id: appId } });
	const may = useAppMay(appId, orgId);
	return (
		<Screen title="Settings">
			<Answer query={app} what="the app">
				{(record) => (
					<>
						{may("app.update_settings") === true ? <Fields app={record} /> : <ReadOnly app={record} />}
						<DeviceSettings app={record} mayChange={may("app.update_settings") === true} />
						<AppRetention app={record} mayChange={may("app.update_settings") === true} />
						{may("app.delete") === true ? <TransferApp app={record} /> : null}
						{may("app.delete") === true ? <DeleteSection app={record} /> : null}
					</>
				)}
			</Answer>
		</Screen>
	);
}

function ReadOnly({ app }: { readonly app: AppRecord }) {
	return (
		<KeyValues
			items={[
				["Name", app.name],
				["App id", app.app_id],
				["Created", <Time key="created" value={app.created_at} />],
				["Default upload channel", app.default_upload_channel],
			]}
		/>
	);
}

const CHANNEL_ERRORS = ["default_upload_channel", "channel_not_found", "channel_name_reserved"];

function Fields({ app }: { readonly app: AppRecord }) {
	const [name, setName] = useState(app.name);
	const [upload, setUpload] = useState(app.default_upload_channel);
	const [isExposed, setExposed] = useState(app.expose_metadata);
	const save = useChange("PUT /app/:app_id", () => notify("App saved."));
	const errors = formErrors(save.error, ["name", ...CHANNEL_ERRORS]);
	return (
		<form
			onSubmit={(event) => {
				event.preventDefault();
				save.mutate({
					params: { app_id: app.app_id },
					body: {
						name,
						default_upload_channel: upload,
						expose_metadata: isExposed,
					},
				});
			}}
		>
			<Stack maw="32rem">
				<TextInput
					label="Name"
					error={errors.at("name")}
					required
					maxLength={128}
					value={name}
					onChange={(event) => setName(event.currentTarget.value)}
				/>
				<TextInput
					label="Default upload channel"
					error={errors.at(...CHANNEL_ERRORS)}
					required
					value={upload}
					onChange={(event) => setUpload(event.currentTarget.value)}
				/>
				<Switch
					label="Send release notes and link to devices"
					checked={isExposed}
					onChange={(event) => setExposed(event.currentTarget.checked)}
				/>
				{errors.rest === null ? null : <Problem error={errors.rest} />}
				<Group>
					<Button type="submit" loading={save.isPending}>
						Save app
					</Button>
				</Group>
			</Stack>
		</form>
	);
}

function DeleteSection({ app }: { readonly app: AppRecord }) {
	const [isAsking, setAsking] = useState(false);
	if (isSampleAppId(app.app_id)) return <SampleNote appId={app.app_id} orgId={app.owner_org} />;
	return (
		<Section title="Delete app">
			<Text size="sm">
				Deletes its channels, bundles, devices and statistics. You can undo this for {RESTORABLE_DAYS} days.
			</Text>
			<Group>
				<Button variant="danger" onClick={() => setAsking(true)}>
					Delete {app.name}
				</Button>
			</Group>
			{isAsking ? <DeleteApp app={app} onClose={() => setAsking(false)} /> : null}
		</Section>
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
