/** Giving an app to another organization: the offer on the app's settings, and the offers that an organization received. */
import { Button, Group, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { type AnswerOf, useAsk, useChange } from "../api";
import { Answer, Problem } from "../parts/answer";
import { Dialog } from "../parts/dialog";
import { say } from "../parts/say";
import { Section } from "../parts/screen";
import { countOf } from "../parts/size";
import { DataTable } from "../parts/table";
import { Day } from "../parts/time";
import { appPath } from "../paths";
import { useOrganizationMay } from "../permissions";
import { useTransferPlan } from "../plans";

type AppRecord = AnswerOf<"GET /app/:app_id">;

/** An organization's id, as its address shows it. */
const ORGANIZATION_ID = /[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}/i;

export function TransferApp({ app }: { readonly app: AppRecord }) {
	const [isAsking, setAsking] = useState(false);
	const mayOffer = useOrganizationMay(app.owner_org)("org.update_settings") === true;
	const offers = useAsk("GET /app/transfer", { query: { orgId: app.owner_org } }, { enabled: mayOffer });
	const withdraw = useChange("DELETE /app/transfer", () => say("The offer is withdrawn."));
	const offer = offers.data?.find(({ id, direction }) => id === app.id && direction === "outgoing");
	if (!mayOffer) return null;
	return (
		<Section title="Transfer to another organization">
			{offer === undefined ? (
				<Text size="sm">The app moves with everything in it when the other organization accepts.</Text>
			) : (
				<Text size="sm">
					Offered to the organization {offer.to_org}, which can accept until <Day value={offer.expires_at} />.
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
						Withdraw the offer
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
		say(`${app.name} is offered.`);
		onClose();
	});
	return (
		<Dialog onClose={onClose} title={`Offer ${app.name}`} size="lg">
			<form
				onSubmit={(event) => {
					event.preventDefault();
					if (toOrg !== undefined && plan.isSuccess) offer.mutate({ body: { app_id: app.app_id, to_org: toOrg } });
				}}
			>
				<Stack>
					<TextInput
						label="Organization"
						description="Its id, or the address of its page in the dashboard. Ask its administrator."
						required
						data-autofocus
						autoComplete="off"
						value={address}
						onChange={(event) => setAddress(event.currentTarget.value)}
					/>
					{toOrg === undefined ? null : (
						<Answer query={plan} what="what would end">
							{({ ends }) => (
								<Text size="sm">
									Nothing changes until the offer is accepted. Then {countOf(ends.binding_count, "role")} that members
									and API keys have on the app will end
									{ends.bindings.length === 0
										? ""
										: `: ${ends.bindings.map(({ holder_name }) => holder_name).join(", ")}`}
									.
								</Text>
							)}
						</Answer>
					)}
					{offer.isError ? <Problem error={offer.error} /> : null}
					<Group justify="flex-end">
						<Button variant="default" onClick={onClose}>
							Cancel
						</Button>
						<Button type="submit" loading={offer.isPending} disabled={toOrg === undefined || !plan.isSuccess}>
							Offer app
						</Button>
					</Group>
				</Stack>
			</form>
		</Dialog>
	);
}

/** Nothing where nothing is offered. */
export function OfferedApps({ orgId }: { readonly orgId: string }) {
	const [, navigate] = useLocation();
	const offers = useAsk("GET /app/transfer", { query: { orgId } });
	const accept = useChange("POST /app/transfer/accept", ({ app_id }) => {
		say(`${app_id} is this organization's now.`);
		navigate(appPath(app_id));
	});
	const decline = useChange("POST /app/transfer/decline", () => say("The offer is declined."));
	const incoming = offers.data?.filter(({ direction }) => direction === "incoming") ?? [];
	if (incoming.length === 0) return null;
	return (
		<Section title="Offered apps">
			<Text size="sm">Another organization offers these apps, with their devices, bundles and history.</Text>
			<DataTable
				label="Offered apps"
				rows={incoming}
				rowKey={({ id }) => id}
				columns={[
					{ title: "App", cell: ({ app_id }) => app_id },
					{ title: "From", cell: ({ from_org_name }) => from_org_name },
					{ title: "Until", wideOnly: true, cell: ({ expires_at }) => <Day value={expires_at} /> },
					{
						title: "Change",
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
