/** Adds a webhook: address, format, and which events of which app. */
import { NativeSelect, TextInput } from "@mantine/core";
import { useState } from "react";
import { useChange } from "../../api";
import { formErrors } from "../../components/field-errors";
import { FormDialog } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { useAppsOfOrganization } from "../../organizations";
import { TryAddress } from "./try-address";
import { type ChosenEvents, EventsField, isComplete, sentEvents } from "./webhook-events";

const FORMATS = [
	{ value: "standard", label: "Your server (Standard Webhooks)" },
	{ value: "slack", label: "Slack" },
	{ value: "discord", label: "Discord" },
	{ value: "teams", label: "Microsoft Teams" },
] as const;
type Format = (typeof FORMATS)[number]["value"];

export function AddWebhook({
	orgId,
	appId: onlyApp,
	onClose,
	onSecret,
}: {
	readonly orgId: string;
	/** The app of the screen; undefined: the form offers a choice. */
	readonly appId: string | undefined;
	readonly onClose: () => void;
	readonly onSecret: (secret: string) => void;
}) {
	const apps = useAppsOfOrganization(orgId);
	const [description, setDescription] = useState("");
	const [url, setUrl] = useState("");
	const [format, setFormat] = useState<Format>("standard");
	const [appId, setAppId] = useState(onlyApp ?? "");
	const [events, setEvents] = useState<ChosenEvents>({ isAll: true, chosen: [] });
	const add = useChange("POST /webhook", ({ secret, description: name }) => {
		notify(`Webhook ${name} added.`);
		onClose();
		if (secret !== null) onSecret(secret);
	});
	const errors = formErrors(add.error, ["url", "description", "format", "app_id", "app_not_found"]);
	const body = {
		orgId,
		url,
		format,
		events: sentEvents(events),
		...(description === "" ? {} : { description }),
		...(appId === "" ? {} : { app_id: appId }),
	};
	return (
		<FormDialog
			title="Add webhook"
			action="Add"
			isPending={add.isPending}
			isReady={isComplete(events)}
			error={errors.rest}
			onClose={onClose}
			onSubmit={() => add.mutate({ body })}
		>
			<NativeSelect
				label="Format"
				error={errors.at("format")}
				data={[...FORMATS]}
				value={format}
				onChange={(event) =>
					setFormat(FORMATS.find(({ value }) => value === event.currentTarget.value)?.value ?? "standard")
				}
			/>
			<TextInput
				label="Address"
				error={errors.at("url")}
				description={
					format === "standard"
						? "An https address of your server."
						: "The address of the incoming webhook. Treat it as a secret."
				}
				type="url"
				required
				maxLength={2048}
				value={url}
				onChange={(event) => setUrl(event.currentTarget.value)}
			/>
			<TryAddress
				body={{ orgId, url, format, ...(appId === "" ? {} : { app_id: appId }) }}
				isSigned={format === "standard" ? "trial" : "no"}
			/>
			<TextInput
				label="Name"
				error={errors.at("description")}
				maxLength={128}
				value={description}
				onChange={(event) => setDescription(event.currentTarget.value)}
			/>
			{onlyApp === undefined ? (
				<NativeSelect
					label="Apps"
					error={errors.at("app_id", "app_not_found")}
					data={[
						{ value: "", label: "All apps, and the organization" },
						...(apps.data ?? []).map(({ app_id, name }) => ({ value: app_id, label: name })),
					]}
					value={appId}
					onChange={(event) => {
						setAppId(event.currentTarget.value);
						setEvents({ ...events, chosen: [] });
					}}
				/>
			) : null}
			<EventsField ofApp={appId !== ""} value={events} onChange={setEvents} />
		</FormDialog>
	);
}
