/**
 * Offers an app to another organization, as an act of the app's settings. It is apart from the list
 * of offers, which the first screen loads.
 */
import { Button, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { type AnswerOf, useAsk, useChange } from "../../api";
import { Answer, Problem } from "../../components/answer";
import { formErrors } from "../../components/field-errors";
import { FormDialog } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { SettingsAct } from "../../components/settings-card";
import { countOf } from "../../components/size";
import { Day } from "../../components/time";
import { useTransferPlan } from "../../dry-runs";
import { useOrganizationMay } from "../../permissions";

type AppRecord = AnswerOf<"GET /app/:app_id">;

/** An organization's id, alone or within the URL of its page. */
const ORGANIZATION_ID = /[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}/i;

/** The act of the settings that offers the app. Renders nothing for those who may not. */
export function TransferApp({ app }: { readonly app: AppRecord }) {
	const [isAsking, setAsking] = useState(false);
	const mayOffer = useOrganizationMay(app.owner_org)("org.update_settings") === true;
	const offers = useAsk("GET /app/transfer", { query: { orgId: app.owner_org } }, { enabled: mayOffer });
	const withdraw = useChange("DELETE /app/transfer", () => notify("Offer withdrawn."));
	const offer = offers.data?.find(({ id, direction }) => id === app.id && direction === "outgoing");
	if (!mayOffer) return null;
	return (
		<>
			{offer === undefined ? (
				<SettingsAct text="Offers the app to another organization. It moves with all of its data when they accept.">
					<Button variant="default" onClick={() => setAsking(true)}>
						Offer {app.name}
					</Button>
				</SettingsAct>
			) : (
				<SettingsAct
					text={
						<>
							Offered to organization {offer.to_org}, which can accept until <Day value={offer.expires_at} />.
						</>
					}
				>
					<Button
						variant="default"
						loading={withdraw.isPending}
						onClick={() => withdraw.mutate({ query: { app_id: app.app_id } })}
					>
						Withdraw offer
					</Button>
				</SettingsAct>
			)}
			{offers.isError ? <Problem error={offers.error} /> : null}
			{withdraw.isError ? <Problem error={withdraw.error} /> : null}
			{isAsking ? <OfferApp app={app} onClose={() => setAsking(false)} /> : null}
		</>
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
