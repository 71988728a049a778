/**
 * Transfers of apps between organizations: offer an app in its settings, accept or decline in the
 * receiving organization.
 */

import { Button, Group, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { type AnswerOf, useAsk, useChange } from "../../api";
import { Answer, Problem } from "../../components/answer";
import { formErrors } from "../../components/field-errors";
import { FormDialog } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { Section } from "../../components/screen";
import { countOf } from "../../components/size";
import { DataTable } from "../../components/table";
import { Day } from "../../components/time";
import { useTransferPlan } from "../../dry-runs";
import { appPath } from "../../paths";
import { useOrganizationMay } from "../../permissions";

type AppRecord = AnswerOf<"GET /app/:app_id">;

/** An organization's id, alone or within the URL of its page. */
const ORGANIZATION_ID = /[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}/i;

export function TransferApp({ app }: { readonly app: AppRecord }) {
	const [isAsking, setAsking] = useState(false);
	const mayOffer = useOrganizationMay(app.owner_org)("org.update_settings") === true;
	const offers = useAsk("GET /app/transfer", { query: { orgId: app.owner_org } }, { enabled: mayOffer });
	const withdraw = useChange("DELETE /app/transfer", () => notify("Offer withdrawn."));
	const offer = offers.data?.find(({ id, direction }) => id === app.id && direction === "outgoing");
	if (!mayOffer) return null;
	return (
		<Section title="Transfer app">
			{offer === undefined ? (
				<Text size="sm">Offer the app to another organization. It moves with all of its data when they accept.</Text>
			) : (
				<Text size="sm">
					Offered to organization {offer.to_org}, which can accept until <Day value={offer.expires_at} />.
				</Text>
			)}
			<Group>
				{offer === undefined ? (
					<Button variant="default" onClick={() => setAsking(true)}>
						Offer {app.name}
					</Button>
				) : (
					<Button
						variant="default"
						loading={withdraw.isPending}
						onClick={() => withdraw.mutate({ query: { app_id: app.app_id } })}
					>
						Withdraw offer
					</Button>
				)}
			</Group>
			{offers.isError ? <Problem error={offers.error} /> : null}
			{withdraw.isError ? <Problem error={withdraw.error} /> : null}
			{isAsking ? <OfferApp app={app} onClose={() => setAsking(false)} /> : null}
		</Section>
	);
}

function OfferApp({ app, onClose }: { readonly app: AppRecord; readonly onClose: () => void }) {
	const [address, setAddress] = useState("");
	const toOrg = ORGANIZATION_ID.exec(address)?.[0];
	const plan = useTransferPlan(app.app_id, toOrg);
	const offer = useChange("POST /app/transfer", () => {
		notify(`${app.name} offered.`);
		onClose();
	});
	const isUnreadable = address.trim() !== "" && toOrg === undefined;
	const errors = formErrors(offer.error ?? plan.error, ["to_org", "organization_not_found"]);
	return (
		<FormDialog
			title={`Offer ${app.name}`}
			action="Offer app"
			isPending={offer.isPending}
			isReady={toOrg !== undefined && plan.isSuccess}
			error={offer.error === null ? null : errors.rest}
			onSubmit={() => offer.mutate({ body: { app_id: app.app_id, to_org: toOrg ?? "" } })}
			onClose={onClose}
		>
			<TextInput
				label="Organization"
				description="The id of the organization, or the URL of its dashboard page. Ask its administrator."
				error={
					isUnreadable
						? "This has no organization id, such as 6f0f2c1a-58a3-4f7e-9d31-0c2b7e1d4a55."
						: errors.at("to_org", "organization_not_found")
				}
				required
				data-autofocus
				autoComplete="off"
				value={address}
				onChange={(event) => setAddress(event.currentTarget.value)}
			/>
			{toOrg === undefined || (plan.isError && errors.rest === null) ? null : (
				<Answer query={plan} what="the consequences">
					{({ ends }) => (
						<Text size="sm">
							Nothing changes until the offer is accepted. Then {countOf(ends.binding_count, "role")} that members and
							API keys have on the app will end
							{ends.bindings.length === 0 ? "" : `: ${ends.bindings.map(({ holder_name }) => holder_name).join(", ")}`}.
						</Text>
					)}
				</Answer>
			)}
		</FormDialog>
	);
}

/** Renders nothing if no app is offered. */
export function OfferedApps({ orgId }: { readonly orgId: string }) {
	const [, navigate] = useLocation();
	const offers = useAsk("GET /app/transfer", { query: { orgId } });
	const accept = useChange("POST /app/transfer/accept", ({ app_id }) => {
		notify(`${app_id} now belongs to this organization.`);
		navigate(appPath(app_id));
	});
	const decline = useChange("POST /app/transfer/decline", () => notify("Offer declined."));
	const incoming = offers.data?.filter(({ direction }) => direction === "incoming") ?? [];
	if (incoming.length === 0) return null;
	return (
		<Section title="Offered apps">
			<Text size="sm">Other organizations offer you these apps, with their devices, bundles and history.</Text>
			<DataTable
				label="Offered apps"
				rows={incoming}
				rowKey={({ id }) => id}
				columns={[
					{ title: "App", cell: ({ app_id }) => app_id },
					{ title: "From", cell: ({ from_org_name }) => from_org_name },
					{ title: "Expires", wideOnly: true, cell: ({ expires_at }) => <Day value={expires_at} /> },
					{
						title: "Actions",
						cell: ({ app_id }) => (
							<Group gap="xs">
								<Button
									size="xs"
									aria-label={`Accept ${app_id}`}
									loading={accept.isPending && accept.variables.body.app_id === app_id}
									onClick={() => accept.mutate({ body: { app_id } })}
								>
									Accept
								</Button>
								<Button
									size="xs"
									variant="default"
									aria-label={`Decline ${app_id}`}
									loading={decline.isPending && decline.variables.body.app_id === app_id}
									onClick={() => decline.mutate({ body: { app_id } })}
								>
									Decline
								</Button>
							</Group>
						),
					},
				]}
			/>
			{accept.isError ? <Problem error={accept.error} /> : null}
			{decline.isError ? <Problem error={decline.error} /> : null}
		</Section>
	);
}
