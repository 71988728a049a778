/**
 * One webhook: its deliveries with what the receiver answered, test, replay, rotation of its
 * secret, and deletion.
 */

import { Alert, Button, Group, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { DELIVERY_DAYS } from "../../../../src/domain/defaults";
import { type AnswerOf, useAsk, useChange, usePage } from "../../api";
import { Answer } from "../../components/answer";
import { Badge } from "../../components/badge";
import { Confirm } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { Empty, Screen, Section } from "../../components/screen";
import { Copyable } from "../../components/secret";
import { DataTable, Pager, usePageNumber } from "../../components/table";
import { Time } from "../../components/time";
import { webhookPath } from "../../paths";
import type { AppItemProps, OrganizationItemProps } from "../../screen-props";
import { type Webhook, WebhookSecret, WebhookState } from "./webhooks";

type Delivery = AnswerOf<"GET /webhook/delivery">[number];

export function OrganizationWebhook({ orgId, item }: OrganizationItemProps) {
	return <Found orgId={orgId} id={item} />;
}

export function AppWebhook({ appId, orgId, item }: AppItemProps) {
	return orgId === undefined ? null : <Found orgId={orgId} appId={appId} id={item} />;
}

interface Whose {
	readonly orgId: string;
	/** The app of the screen; undefined: a screen of the organization. */
	readonly appId?: string | undefined;
}

function Found({ orgId, appId, id }: Whose & { readonly id: string }) {
	const query = { orgId, ...(appId === undefined ? {} : { app_id: appId }) };
	const webhooks = useAsk("GET /webhook", { query });
	return (
		<Answer query={webhooks} what="the webhook">
			{(rows) => {
				const webhook = rows.find((row) => row.id === id);
				if (webhook === undefined) {
					return (
						<Screen title="Webhook">
							<Empty title="No such webhook">It may have been deleted.</Empty>
						</Screen>
					);
				}
				return <One orgId={orgId} appId={appId} webhook={webhook} />;
			}}
		</Answer>
	);
}

function One({ orgId, appId, webhook }: Whose & { readonly webhook: Webhook }) {
	const { id, description, enabled, format, url, public_key, previous_secret_valid_until } = webhook;
	const [, navigate] = useLocation();
	const [dialog, setDialog] = useState<"rotate" | "delete" | undefined>();
	const [secret, setSecret] = useState<string | undefined>();
	const close = () => setDialog(undefined);
	const body = { orgId, id };
	const test = useChange("POST /webhook/test", () => notify("Test event queued. Its delivery is listed below."));
	const enable = useChange("PUT /webhook", (changed) =>
		notify(changed.enabled ? "Webhook enabled." : "Webhook disabled."),
	);
	const rotate = useChange("POST /webhook/rotate", (rotated) => {
		close();
		setSecret(rotated.secret ?? "");
	});
	const remove = useChange("DELETE /webhook", () => {
		notify(`Webhook ${description} deleted.`);
		navigate(webhookPath(orgId, appId));
	});
	const failure = test.error ?? enable.error;
	return (
		<Screen
			title={description}
			note={url}
			actions={
				<>
					<Button disabled={!enabled} loading={test.isPending} onClick={() => test.mutate({ body })}>
						Send test event
					</Button>
					<Button
						variant="default"
						loading={enable.isPending}
						onClick={() => enable.mutate({ body: { ...body, enabled: !enabled } })}
					>
						{enabled ? "Disable" : "Enable"}
					</Button>
				</>
			}
		>
			{failure === null ? null : (
				<Alert color="red" role="alert">
					{failure.message}
				</Alert>
			)}
			<Group>
				<WebhookState webhook={webhook} />
				{webhook.failing_since === null ? null : (
					<Text size="sm">
						Attempts fail since <Time value={webhook.failing_since} />.
					</Text>
				)}
			</Group>
			<Deliveries orgId={orgId} id={id} />
			<Section title="Settings">
				<Stack gap="sm">
					<Text size="sm">
						{webhook.events.length === 0 ? "All events" : webhook.events.join(", ")}
						{webhook.app_id === null ? "" : ` of ${webhook.app_id}`}
					</Text>
					{public_key === null ? null : <Copyable label="Public key (v1a signatures)" value={public_key} />}
					{previous_secret_valid_until === null ? null : (
						<Text size="sm">
							The previous secret signs as well until <Time value={previous_secret_valid_until} />.
						</Text>
					)}
					<Group>
						{format === "standard" ? (
							<Button variant="default" onClick={() => setDialog("rotate")}>
								Rotate secret
							</Button>
						) : null}
						<Button color="red" variant="light" onClick={() => setDialog("delete")}>
							Delete webhook
						</Button>
					</Group>
				</Stack>
			</Section>
			{dialog === "rotate" ? (
				<Confirm
					title="Rotate the secret?"
					action="Create secret"
					isPending={rotate.isPending}
					error={rotate.error}
					onConfirm={() => rotate.mutate({ body })}
					onClose={close}
				>
					<Text size="sm">
						For a day both secrets sign, so your server can change to the new one at any time in it.
					</Text>
				</Confirm>
			) : null}
			{dialog === "delete" ? (
				<Confirm
					title={`Delete ${description}?`}
					action="Delete"
					isPending={remove.isPending}
					error={remove.error}
					onConfirm={() => remove.mutate({ query: body })}
					onClose={close}
				>
					<Text size="sm">Its deliveries are deleted as well. Waiting ones are not sent.</Text>
				</Confirm>
			) : null}
			{secret === undefined ? null : <WebhookSecret value={secret} onClose={() => setSecret(undefined)} />}
		</Screen>
	);
}

const STATES = {
	delivered: ["ok", "Delivered"],
	pending: ["warn", "Waiting"],
	failed: ["bad", "Failed"],
} as const;

function Deliveries({ orgId, id }: { readonly orgId: string; readonly id: string }) {
	const [page, setPage] = usePageNumber();
	const deliveries = usePage("GET /webhook/delivery", { query: { orgId, id } }, page);
	const replay = useChange("POST /webhook/delivery/replay", () => notify("The event is queued again."));
	return (
		<Section
			title="Deliveries"
			actions={
				<Button size="xs" variant="default" loading={deliveries.isFetching} onClick={() => void deliveries.refetch()}>
					Reload
				</Button>
			}
		>
			{replay.error === null ? null : (
				<Alert color="red" role="alert">
					{replay.error.message}
				</Alert>
			)}
			<Answer query={deliveries} what="the deliveries">
				{({ items, hasNext }) =>
					items.length === 0 && page === 0 ? (
						<Text size="sm">Nothing was sent in the last {DELIVERY_DAYS} days.</Text>
					) : (
						<Stack gap="sm">
							<DataTable
								label="Deliveries"
								rows={items}
								rowKey={(delivery) => delivery.id}
								columns={[
									{
										title: "Event",
										cell: ({ summary, type }) => (
											<Stack gap={2}>
												<Text size="sm">{summary}</Text>
												<Text size="xs" c="dimmed" className="mono">
													{type}
												</Text>
											</Stack>
										),
									},
									{ title: "State", cell: (delivery) => <DeliveryState delivery={delivery} /> },
									{ title: "Time", wideOnly: true, cell: ({ at }) => <Time value={at} /> },
									{
										title: "Actions",
										cell: (delivery) => (
											<Button
												size="xs"
												variant="default"
												{...(replay.isPending || delivery.state === "pending" ? { disabled: true } : {})}
												onClick={() => replay.mutate({ body: { orgId, id: delivery.id } })}
											>
												Replay
											</Button>
										),
									},
								]}
							/>
							<Pager page={page} hasNext={hasNext} onPage={setPage} />
						</Stack>
					)
				}
			</Answer>
		</Section>
	);
}

function DeliveryState({ delivery }: { readonly delivery: Delivery }) {
	const { state, attempts, status_code, duration_ms, error, next_attempt_at } = delivery;
	const [tone, text] = STATES[state];
	return (
		<Stack gap={2} align="flex-start">
			<Badge tone={tone}>{text}</Badge>
			<Text size="xs" c="dimmed">
				{status_code === null ? "" : `${status_code} after ${duration_ms ?? 0} ms, `}
				{attempts === 1 ? "1 attempt" : `${attempts} attempts`}
				{error === null ? "" : `: ${error}`}
			</Text>
			{state === "pending" && next_attempt_at !== null ? (
				<Text size="xs" c="dimmed">
					Next attempt <Time value={next_attempt_at} />
				</Text>
			) : null}
		</Stack>
	);
}
