/** The settings of a webhook in cards: what it gets and where, its signing, and its end. */
import { Button, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { useChange } from "../../api";
import { Problem } from "../../components/answer";
import { formErrors } from "../../components/field-errors";
import { Confirm } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { Copyable } from "../../components/secret";
import { SettingsAct, SettingsCard, SettingsFacts } from "../../components/settings-card";
import { Time } from "../../components/time";
import { webhookPath } from "../../paths";
import { TryAddress } from "./try-address";
import { chosenOf, EventsField, eventsText, isComplete, sentEvents } from "./webhook-events";
import { type Webhook, WebhookSecret } from "./webhooks";

export interface WebhookOwner {
	readonly orgId: string;
	/** The app of the screen; undefined: a screen of the organization. */
	readonly appId?: string | undefined;
}

interface Props extends WebhookOwner {
	readonly webhook: Webhook;
}

export function WebhookSettings(props: Props) {
	return (
		<>
			<Target {...props} />
			{props.webhook.format === "standard" ? <Signing {...props} /> : null}
			<End {...props} />
		</>
	);
}

function Target({ orgId, webhook }: Props) {
	const stored = chosenOf(webhook.events);
	const [name, setName] = useState(webhook.description);
	const [url, setUrl] = useState("");
	const [events, setEvents] = useState(stored);
	const discard = () => {
		setName(webhook.description);
		setUrl("");
		setEvents(stored);
	};
	const save = useChange("PUT /webhook", () => {
		setUrl("");
		notify("Webhook saved.");
	});
	const errors = formErrors(save.error, ["url", "description", "events"]);
	const isReady = events === undefined || isComplete(events);
	const sent = events === undefined ? webhook.events : sentEvents(events);
	const isOther = !isReady || [...sent].sort().join() !== [...webhook.events].sort().join();
	const isRenamed = name.trim() !== webhook.description;
	const changes = [
		...(isRenamed ? ["name"] : []),
		...(url === "" ? [] : ["address"]),
		...(isOther ? [`${eventsText(webhook.events)} → ${isReady ? eventsText(sent) : "none yet"}`] : []),
	];
	return (
		<SettingsCard
			title="Address and events"
			note="Events are sent to the address within seconds, each signed."
			present={`Gets ${eventsText(webhook.events)} at ${webhook.url}`}
			action="Save webhook"
			changes={changes}
			keeps={url === "" ? undefined : "Deliveries that wait go to the new address."}
			isReady={name.trim() !== "" && isReady}
			isPending={save.isPending}
			error={errors.rest}
			onDiscard={discard}
			onSave={() =>
				save.mutate({
					body: {
						orgId,
						id: webhook.id,
						...(isRenamed ? { description: name.trim() } : {}),
						...(url === "" ? {} : { url }),
						...(isOther && events !== undefined ? { events: sentEvents(events) } : {}),
					},
				})
			}
		>
			<TextInput
				label="Name"
				error={errors.at("description")}
				maxLength={128}
				value={name}
				onChange={(event) => setName(event.currentTarget.value)}
			/>
			<TextInput
				label="New address"
				error={errors.at("url")}
				description={`Now ${webhook.url} The rest of it is a secret and is not shown. Empty: it stays.`}
				type="url"
				maxLength={2048}
				value={url}
				onChange={(event) => setUrl(event.currentTarget.value)}
			/>
			{url === "" ? null : (
				<TryAddress body={{ orgId, id: webhook.id, url }} isSigned={webhook.format === "standard" ? "own" : "no"} />
			)}
			{events === undefined ? (
				<Text size="sm">
					Gets {eventsText(webhook.events)}, in the form of Capgo's API. Change them there, with PUT /webhooks.
				</Text>
			) : (
				<EventsField ofApp={webhook.app_id !== null} value={events} onChange={setEvents} />
			)}
		</SettingsCard>
	);
}

function Signing({ orgId, webhook: { id, public_key, previous_secret_valid_until } }: Props) {
	const [isAsking, setAsking] = useState(false);
	const [secret, setSecret] = useState<string | undefined>();
	const rotate = useChange("POST /webhook/rotate", (rotated) => {
		setAsking(false);
		setSecret(rotated.secret ?? "");
	});
	return (
		<SettingsFacts title="Signing" note="Your server verifies each delivery with the secret, or with the public key.">
			{public_key === null ? null : <Copyable label="Public key (v1a signatures)" value={public_key} />}
			<SettingsAct
				text={
					previous_secret_valid_until === null ? (
						"The secret was shown once. A new one can replace it."
					) : (
						<>
							The previous secret signs as well until <Time value={previous_secret_valid_until} />.
						</>
					)
				}
			>
				<Button variant="default" onClick={() => setAsking(true)}>
					Rotate secret
				</Button>
			</SettingsAct>
			{isAsking ? (
				<Confirm
					title="Rotate the secret?"
					action="Rotate secret"
					isPending={rotate.isPending}
					error={rotate.error}
					onConfirm={() => rotate.mutate({ body: { orgId, id } })}
					onClose={() => setAsking(false)}
				>
					<Text size="sm">
						For a day both secrets sign, so your server can change to the new one at any time in it.
					</Text>
				</Confirm>
			) : null}
			{secret === undefined ? null : <WebhookSecret value={secret} onClose={() => setSecret(undefined)} />}
		</SettingsFacts>
	);
}

function End({ orgId, appId, webhook: { id, description, enabled } }: Props) {
	const [, navigate] = useLocation();
	const [isAsking, setAsking] = useState(false);
	const body = { orgId, id };
	const enable = useChange("PUT /webhook", (changed) =>
		notify(changed.enabled ? "Webhook enabled." : "Webhook disabled."),
	);
	const remove = useChange("DELETE /webhook", () => {
		notify(`Webhook ${description} deleted.`);
		navigate(webhookPath(orgId, appId));
	});
	return (
		<SettingsFacts title="Disable or delete" note="A disabled webhook keeps its deliveries and gets no events.">
			{enable.error === null ? null : <Problem error={enable.error} />}
			<SettingsAct
				text={
					enabled
						? "Disabling it ends deliveries that wait. They can be replayed later."
						: "The webhook is disabled. What it missed meanwhile is not sent later."
				}
			>
				<Button
					variant="default"
					loading={enable.isPending}
					onClick={() => enable.mutate({ body: { ...body, enabled: !enabled } })}
				>
					{enabled ? "Disable" : "Enable"}
				</Button>
			</SettingsAct>
			<SettingsAct text="Deletes the webhook with its deliveries. This cannot be undone.">
				<Button variant="danger" onClick={() => setAsking(true)}>
					Delete webhook
				</Button>
			</SettingsAct>
			{isAsking ? (
				<Confirm
					title={`Delete ${description}?`}
					action="Delete"
					isPending={remove.isPending}
					error={remove.error}
					onConfirm={() => remove.mutate({ query: body })}
					onClose={() => setAsking(false)}
				>
					<Text size="sm">Its deliveries are deleted as well. Waiting ones are not sent.</Text>
				</Confirm>
			) : null}
		</SettingsFacts>
	);
}
