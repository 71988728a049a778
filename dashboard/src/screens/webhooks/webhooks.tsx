/**
 * The webhooks of an organization, or of one app: where events are sent, and whether they arrive.
 */
import { Button } from "@mantine/core";
import { useState } from "react";
import { type AnswerOf, useAsk } from "../../api";
import { Answer } from "../../components/answer";
import { Badge } from "../../components/badge";
import { TextLink } from "../../components/link";
import { Empty, Screen } from "../../components/screen";
import { SecretDialog } from "../../components/secret";
import { Time } from "../../components/time";
import { WholeList } from "../../components/whole-list";
import { webhookPath } from "../../paths";
import { type May, useAppMay, useOrganizationMay } from "../../permissions";
import type { AppScreenProps, OrganizationScreenProps } from "../../screen-props";
import { eventsText } from "./webhook-events";
import { AddWebhook } from "./webhook-form";

export type Webhook = AnswerOf<"GET /webhook">[number];

export function OrganizationWebhooks({ orgId }: OrganizationScreenProps) {
	const may = useOrganizationMay(orgId);
	return <Webhooks orgId={orgId} mayManage={may("org.update_settings")} />;
}

export function AppWebhooks({ appId, orgId }: AppScreenProps) {
	const may = useAppMay(appId, orgId);
	return orgId === undefined ? null : <Webhooks orgId={orgId} appId={appId} mayManage={may("app.update_settings")} />;
}

function Webhooks({
	orgId,
	appId,
	mayManage,
}: {
	readonly orgId: string;
	readonly appId?: string;
	readonly mayManage: ReturnType<May>;
}) {
	const query = { orgId, ...(appId === undefined ? {} : { app_id: appId }) };
	const webhooks = useAsk("GET /webhook", { query }, { enabled: mayManage === true });
	const [isAdding, setAdding] = useState(false);
	const [secret, setSecret] = useState<string | undefined>();
	return (
		<Screen
			title="Webhooks"
			note={`Send releases, rollouts, previews and other events${appId === undefined ? "" : " of this app"} to your server or chat.`}
			actions={mayManage === true ? <Button onClick={() => setAdding(true)}>Add webhook</Button> : undefined}
		>
			{mayManage === false ? (
				<Empty title="Only administrators see webhooks">Ask an administrator to add your server or chat.</Empty>
			) : (
				<Answer query={webhooks} what="the webhooks">
					{(rows) =>
						rows.length === 0 ? (
							<Empty title="No webhooks yet">
								Add the address of your server, or of an incoming webhook of Slack, Discord or Teams.
							</Empty>
						) : (
							<WholeList
								label="Webhooks"
								noun={["webhook", "webhooks"]}
								textOf={({ description, url, events, app_id }) => [description, url, app_id ?? "", ...events].join(" ")}
								first="name"
								descending={["added"]}
								chips={KINDS}
								isLinked
								rows={rows}
								rowKey={({ id }) => id}
								columns={[
									{
										title: "Name",
										sort: "name",
										value: ({ description }) => description,
										cell: (webhook) => (
											<span className="named">
												<TextLink to={webhookPath(orgId, appId, webhook.id)}>
													<bdi title={webhook.description}>{webhook.description}</bdi>
												</TextLink>
												<WebhookState webhook={webhook} />
											</span>
										),
									},
									{
										title: "Address",
										wideOnly: true,
										width: 250,
										cell: ({ url }) => (
											<span className="mono cut" title={url}>
												{url}
											</span>
										),
									},
									{
										title: "Events",
										wideOnly: true,
										width: 250,
										cell: ({ events, app_id }) => {
											const text = `${eventsText(events)}${app_id === null || appId !== undefined ? "" : ` of ${app_id}`}`;
											return (
												<span className="cut" title={text}>
													{text.slice(0, 1).toUpperCase()}
													{text.slice(1)}
												</span>
											);
										},
									},
									{
										title: "Added",
										sort: "added",
										value: ({ created_at }) => created_at,
										wideOnly: true,
										width: 124,
										cell: ({ created_at }) => <Time value={created_at} />,
									},
								]}
							/>
						)
					}
				</Answer>
			)}
			{isAdding ? (
				<AddWebhook orgId={orgId} appId={appId} onClose={() => setAdding(false)} onSecret={setSecret} />
			) : null}
			{secret === undefined ? null : <WebhookSecret value={secret} onClose={() => setSecret(undefined)} />}
		</Screen>
	);
}

const KINDS = [
	{
		value: "failing",
		label: "Attempts fail",
		has: ({ enabled, failing_since }: Webhook) => enabled && failing_since !== null,
	},
	{ value: "disabled", label: "Disabled", has: ({ enabled }: Webhook) => !enabled },
];

const REASONS = {
	requested: "Disabled",
	failing: "Disabled: it failed for days",
	gone: "Disabled: its receiver is gone",
};

export function WebhookState({ webhook }: { readonly webhook: Webhook }) {
	const { enabled, disabled_reason, failing_since } = webhook;
	if (!enabled) {
		return (
			<Badge tone={disabled_reason === "requested" ? undefined : "bad"}>
				{REASONS[disabled_reason ?? "requested"]}
			</Badge>
		);
	}
	return failing_since === null ? null : <Badge tone="warn">Attempts fail</Badge>;
}

export function WebhookSecret({ value, onClose }: { readonly value: string; readonly onClose: () => void }) {
	return (
		<SecretDialog title="Signing secret" label="Secret" value={value} onClose={onClose}>
			Your server verifies deliveries with it, by the libraries of Standard Webhooks. It is shown only now.
		</SecretDialog>
	);
}
