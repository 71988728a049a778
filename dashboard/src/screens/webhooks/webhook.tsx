/**
 * One webhook: its deliveries with request and response, a test event, and its settings in cards.
 */
import { Button } from "@mantine/core";
import { useAsk, useChange } from "../../api";
import { Answer, Problem } from "../../components/answer";
import { Note } from "../../components/card";
import { notify } from "../../components/notify";
import { Empty, Screen } from "../../components/screen";
import { Time } from "../../components/time";
import type { AppItemProps, OrganizationItemProps } from "../../screen-props";
import { Deliveries } from "./deliveries";
import { eventsText } from "./webhook-events";
import { type WebhookOwner, WebhookSettings } from "./webhook-settings";
import { type Webhook, WebhookState } from "./webhooks";

export function OrganizationWebhook({ orgId, item }: OrganizationItemProps) {
	return <FoundWebhook orgId={orgId} id={item} />;
}

export function AppWebhook({ appId, orgId, item }: AppItemProps) {
	return orgId === undefined ? null : <FoundWebhook orgId={orgId} appId={appId} id={item} />;
}

function FoundWebhook({ orgId, appId, id }: WebhookOwner & { readonly id: string }) {
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
				return <WebhookScreen key={id} orgId={orgId} appId={appId} webhook={webhook} />;
			}}
		</Answer>
	);
}

function WebhookScreen({ orgId, appId, webhook }: WebhookOwner & { readonly webhook: Webhook }) {
	const { id, description, enabled, url } = webhook;
	const test = useChange("POST /webhook/test", () => notify("Test event queued."));
	const events = eventsText(webhook.events);
	const sent = `${events.slice(0, 1).toUpperCase()}${events.slice(1)}`;
	return (
		<Screen
			title={description}
			note={
				<span className="row wrap">
					<WebhookState webhook={webhook} />
					<span className="mono">{url}</span>
					<span>
						{sent} of {webhook.app_id ?? "all apps"}
					</span>
				</span>
			}
			actions={
				<Button
					variant="default"
					disabled={!enabled}
					loading={test.isPending}
					onClick={() => test.mutate({ body: { orgId, id } })}
				>
					Send test event
				</Button>
			}
		>
			{test.error === null ? null : <Problem error={test.error} />}
			{enabled && webhook.failing_since !== null ? (
				<Note tone="warn" title="No attempt has succeeded lately">
					<span>
						The first of them failed <Time value={webhook.failing_since} />. After five days the webhook is disabled.
					</span>
				</Note>
			) : null}
			<Deliveries orgId={orgId} id={id} isEnabled={enabled} />
			<WebhookSettings orgId={orgId} appId={appId} webhook={webhook} />
		</Screen>
	);
}
