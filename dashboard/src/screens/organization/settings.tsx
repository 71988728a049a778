/**
 * Settings of an organization in cards: its name, its API key policies, its signed bundles, its
 * usage, and its deletion, which can be undone.
 */
import { Alert, Button, Group, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { RESTORABLE_DAYS } from "../../../../src/domain/defaults";
import { type AnswerOf, useAsk, useChange } from "../../api";
import { Answer, Problem } from "../../components/answer";
import { timeText } from "../../components/dates";
import { formErrors } from "../../components/field-errors";
import { Confirm } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { Screen } from "../../components/screen";
import { SettingsAct, SettingsCard, SettingsFacts } from "../../components/settings-card";
import { changeText, useDraft } from "../../components/settings-draft";
import { countOf, sizeText } from "../../components/size";
import { useOrganizationDeletionPlan } from "../../dry-runs";
import { useOrganizationMay } from "../../permissions";
import type { OrganizationScreenProps } from "../../screen-props";
import { KeyPolicies, type OrganizationSettingsProps } from "./key-policies";
import { SignedBundles } from "./signing-keys";
import { Usage } from "./usage";

type Organization = OrganizationSettingsProps["organization"];
type Deleted = AnswerOf<"DELETE /organization">;

export default function Settings({ orgId }: OrganizationScreenProps) {
	const [deleted, setDeleted] = useState<Deleted | undefined>();
	// A deleted organization answers nothing, not even the user's permissions.
	const organization = useAsk("GET /organization", { query: { orgId } }, { enabled: deleted === undefined });
	if (deleted !== undefined) {
		return (
			<Screen title="Organization settings">
				<Undo deleted={deleted} />
			</Screen>
		);
	}
	return (
		<Screen title="Organization settings">
			<Answer query={organization} what="the organization">
				{(answer) => {
					const record = Array.isArray(answer) ? undefined : (answer as Organization);
					return record === undefined ? null : <Sections organization={record} onDeleted={setDeleted} />;
				}}
			</Answer>
		</Screen>
	);
}

function Sections({
	organization,
	onDeleted,
}: {
	readonly organization: Organization;
	readonly onDeleted: (deleted: Deleted) => void;
}) {
	const may = useOrganizationMay(organization.id);
	const mayChange = may("org.update_settings") === true;
	return (
		<>
			<Identity organization={organization} mayChange={mayChange} />
			<KeyPolicies organization={organization} mayChange={mayChange} />
			<SignedBundles organization={organization} mayChange={mayChange} />
			<Usage orgId={organization.id} />
			{may("org.delete") === true ? <DeleteOrganization organization={organization} onDeleted={onDeleted} /> : null}
		</>
	);
}

function Identity({ organization, mayChange }: OrganizationSettingsProps) {
	const { id, name, website, management_email } = organization;
	const { values, changed, set, discard, settle } = useDraft({
		name,
		website: website ?? "",
		management_email: management_email ?? "",
	});
	const save = useChange("POST /organization", () => notify("Organization saved."));
	const errors = formErrors(save.error, ["name", "website", "management_email"]);
	return (
		<SettingsCard
			title="Organization"
			note="Its name is in invitations and mails. Members see the website and the contact."
			present={
				<>
					<bdi>{name}</bdi>, {website ? `website ${website}` : "no website"},{" "}
					{management_email ? `contact ${management_email}` : "no contact"}.
				</>
			}
			mayChange={mayChange}
			action="Save organization"
			changes={[
				...(changed.name === undefined ? [] : [changeText("name", name, values.name)]),
				...(changed.website === undefined ? [] : [changeText("website", website ?? "", values.website)]),
				...(changed.management_email === undefined
					? []
					: [changeText("contact", management_email ?? "", values.management_email)]),
			]}
			isReady={values.name.trim() !== ""}
			isPending={save.isPending}
			error={errors.rest}
			onDiscard={discard}
			onSave={() => save.mutate({ body: { orgId: id, ...changed } }, { onSuccess: () => settle(changed) })}
		>
			<TextInput
				label="Name"
				error={errors.at("name")}
				maxLength={128}
				value={values.name}
				onChange={(event) => set({ name: event.currentTarget.value })}
			/>
			<div className="settings-pair">
				<TextInput
					type="url"
					label="Website (optional)"
					error={errors.at("website")}
					placeholder="https://example.com"
					value={values.website}
					onChange={(event) => set({ website: event.currentTarget.value })}
				/>
				<TextInput
					type="email"
					label="Contact e-mail (optional)"
					error={errors.at("management_email")}
					value={values.management_email}
					onChange={(event) => set({ management_email: event.currentTarget.value })}
				/>
			</div>
		</SettingsCard>
	);
}

function DeleteOrganization({
	organization,
	onDeleted,
}: {
	readonly organization: Organization;
	readonly onDeleted: (deleted: Deleted) => void;
}) {
	const [isAsking, setAsking] = useState(false);
	const remove = useChange("DELETE /organization", onDeleted);
	return (
		<SettingsFacts title="Delete" note={`You can undo this for ${RESTORABLE_DAYS} days.`}>
			<SettingsAct text="Deletes the organization with its apps, members and keys. Devices get no more updates.">
				<Button variant="danger" onClick={() => setAsking(true)}>
					Delete {organization.name}
				</Button>
			</SettingsAct>
			{isAsking ? (
				<ConfirmDeletion
					organization={organization}
					isPending={remove.isPending}
					error={remove.error}
					onConfirm={() => remove.mutate({ query: { orgId: organization.id } })}
					onClose={() => setAsking(false)}
				/>
			) : null}
		</SettingsFacts>
	);
}

function ConfirmDeletion({
	organization,
	isPending,
	error,
	onConfirm,
	onClose,
}: {
	readonly organization: Organization;
	readonly isPending: boolean;
	readonly error: Error | null;
	readonly onConfirm: () => void;
	readonly onClose: () => void;
}) {
	const plan = useOrganizationDeletionPlan(organization.id);
	return (
		<Confirm
			title={`Delete ${organization.name}?`}
			action="Delete organization"
			typed={organization.name}
			isPending={isPending}
			isReady={plan.data !== undefined}
			error={error}
			onConfirm={onConfirm}
			onClose={onClose}
		>
			<Answer query={plan} what="the consequences">
				{({ removes, other_organizations: { known, others }, restorable_until }) => (
					<>
						<Text size="sm">
							Devices of its apps get no more updates. You can undo this until {timeText(restorable_until)}. This
							deletes:
						</Text>
						<ul>
							<li>{countOf(removes.apps, "app")}</li>
							<li>{countOf(removes.channels, "channel")}</li>
							<li>
								{countOf(removes.bundles, "bundle")}, {sizeText(removes.bundle_bytes)}
							</li>
							<li>{countOf(removes.members, "member")}</li>
							<li>{countOf(removes.api_keys, "API key")}</li>
							<li>{countOf(removes.invitations, "invitation")}</li>
						</ul>
						{known.length + others === 0 ? null : (
							<Text size="sm">
								Its keys are used in {known.map(({ name }) => name).join(", ")}
								{others > 0 ? ` and ${countOf(others, "other organization")}` : ""} as well.
							</Text>
						)}
					</>
				)}
			</Answer>
		</Confirm>
	);
}

function Undo({ deleted }: { readonly deleted: Deleted }) {
	const [, navigate] = useLocation();
	const restore = useChange("POST /organization/restore", () => {
		notify(`${deleted.name} is restored.`);
		location.reload();
	});
	return (
		<Alert color="orange" title={`${deleted.name} is deleted`} role="alert">
			<Stack align="flex-start" gap="sm">
				You can undo this until {timeText(deleted.restorable_until)}, here or under Organizations.
				{restore.isError ? <Problem error={restore.error} /> : null}
				<Group>
					<Button
						variant="default"
						loading={restore.isPending}
						onClick={() => restore.mutate({ body: { orgId: deleted.id } })}
					>
						Undo
					</Button>
					<Button variant="default" onClick={() => navigate("/organizations")}>
						Keep deleted
					</Button>
				</Group>
			</Stack>
		</Alert>
	);
}
