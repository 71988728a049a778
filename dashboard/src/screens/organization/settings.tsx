/**
 * Settings of an organization: its name, its API key policies with a preview of their effect, and
 * its deletion, which can be undone.
 */

import { Alert, Button, Group, NumberInput, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { RESTORABLE_DAYS } from "../../../../src/domain/defaults";
import { MOST_EXPIRATION_DAYS } from "../../../../src/domain/key-policy";
import { type AnswerOf, useAsk, useChange } from "../../api";
import { Answer, Problem } from "../../components/answer";
import { KeyValues } from "../../components/card";
import { formErrors } from "../../components/field-errors";
import { Confirm } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { Screen, Section } from "../../components/screen";
import { countOf, sizeText } from "../../components/size";
import { timeText } from "../../components/time";
import { useOrganizationDeletionPlan } from "../../dry-runs";
import { useOrganizationMay } from "../../permissions";
import type { OrganizationScreenProps } from "../../screen-props";
import { SigningKeys } from "./signing-keys";
import { Usage } from "./usage";

type Organization = Exclude<AnswerOf<"GET /organization">, readonly unknown[]>;

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
			{mayChange ? <Names organization={organization} /> : null}
			{mayChange ? <Policies organization={organization} /> : <ReadOnly organization={organization} />}
			<SigningKeys orgId={organization.id} isRequired={organization.require_signed_bundles} mayChange={mayChange} />
			<Usage orgId={organization.id} />
			{may("org.delete") === true ? <DeleteOrganization organization={organization} onDeleted={onDeleted} /> : null}
		</>
	);
}

const yes = (value: boolean) => (value ? "Yes" : "No");

function ReadOnly({ organization }: { readonly organization: Organization }) {
	return (
		<Section title="API key policies">
			<KeyValues
				items={[
					["Never store key secrets", yes(organization.enforce_hashed_api_keys)],
					["Keys must expire", yes(organization.require_apikey_expiration)],
					["Longest key lifetime, in days", organization.max_apikey_expiration_days ?? "No limit"],
				]}
			/>
			<Text size="sm" c="dimmed">
				Administrators of the organization can change these policies.
			</Text>
		</Section>
	);
}

function Names({ organization }: { readonly organization: Organization }) {
	const [name, setName] = useState(organization.name);
	const [website, setWebsite] = useState(organization.website ?? "");
	const [email, setEmail] = useState(organization.management_email ?? "");
	const save = useChange("POST /organization", () => notify("Organization saved."));
	const errors = formErrors(save.error, ["name", "website", "management_email"]);
	return (
		<Section title="Organization">
			<form
				onSubmit={(event) => {
					event.preventDefault();
					save.mutate({ body: { orgId: organization.id, name, website, management_email: email } });
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
						type="url"
						label="Website"
						error={errors.at("website")}
						placeholder="https://example.com"
						value={website}
						onChange={(event) => setWebsite(event.currentTarget.value)}
					/>
					<TextInput
						type="email"
						label="Contact e-mail"
						error={errors.at("management_email")}
						value={email}
						onChange={(event) => setEmail(event.currentTarget.value)}
					/>
					{errors.rest === null ? null : <Problem error={errors.rest} />}
					<Group>
						<Button type="submit" variant="default" loading={save.isPending}>
							Save organization
						</Button>
					</Group>
				</Stack>
			</form>
		</Section>
	);
}

type Changed = AnswerOf<"POST /organization">;

function Policies({ organization }: { readonly organization: Organization }) {
	const [isHashed, setHashed] = useState(organization.enforce_hashed_api_keys);
	const [mustExpire, setMustExpire] = useState(organization.require_apikey_expiration);
	const [mostDays, setMostDays] = useState<number | string>(organization.max_apikey_expiration_days ?? "");
	const [plan, setPlan] = useState<{ readonly answer: Changed; readonly of: string } | undefined>();
	const body = {
		orgId: organization.id,
		enforce_hashed_api_keys: isHashed,
		require_apikey_expiration: mustExpire,
		max_apikey_expiration_days: mostDays === "" ? 0 : Number(mostDays),
	};
	const currentBody = JSON.stringify(body);
	const preview = useChange("POST /organization", (answer) => setPlan({ answer, of: currentBody }));
	const save = useChange("POST /organization", () => {
		notify("Policies saved.");
		setPlan(undefined);
	});
	const isPreviewed = plan?.of === currentBody;
	const errors = formErrors(preview.error ?? save.error, ["max_apikey_expiration_days"]);
	return (
		<Section title="API key policies">
			<Text size="sm" c="dimmed">
				A key that does not meet these policies stops working. Preview first which keys that affects.
			</Text>
			<form
				onSubmit={(event) => {
					event.preventDefault();
					if (isPreviewed) save.mutate({ body });
					else preview.mutate({ body: { ...body, dry_run: true } });
				}}
			>
				<Stack maw="32rem">
					<Switch
						label="Never store key secrets"
						description="Keys cannot be revealed after they are created."
						checked={isHashed}
						onChange={(event) => setHashed(event.currentTarget.checked)}
					/>
					<Switch
						label="Keys must expire"
						checked={mustExpire}
						onChange={(event) => setMustExpire(event.currentTarget.checked)}
					/>
					<NumberInput
						label="Longest key lifetime, in days"
						error={errors.at("max_apikey_expiration_days")}
						description={`At most ${MOST_EXPIRATION_DAYS}. Empty: no limit.`}
						min={1}
						max={MOST_EXPIRATION_DAYS}
						value={mostDays}
						onChange={setMostDays}
					/>
					{plan === undefined || !isPreviewed ? null : <StoppedKeys answer={plan.answer} />}
					{errors.rest === null ? null : <Problem error={errors.rest} />}
					<Group>
						<Button
							type="submit"
							variant={isPreviewed ? "filled" : "default"}
							loading={preview.isPending || save.isPending}
						>
							{isPreviewed ? "Save policies" : "Preview affected keys"}
						</Button>
					</Group>
				</Stack>
			</form>
		</Section>
	);
}

function StoppedKeys({ answer: { stopped_api_keys, stopped_api_key_count } }: { readonly answer: Changed }) {
	if (stopped_api_key_count === 0) {
		return (
			<Alert color="green" title="No key will stop working" role="status">
				Nothing has changed yet.
			</Alert>
		);
	}
	return (
		<Alert color="orange" title={`${countOf(stopped_api_key_count, "key")} will stop working`} role="status">
			<ul>
				{stopped_api_keys.map(({ id, name, expires_at }) => (
					<li key={id}>
						{name}
						{expires_at === null ? ", which never expires" : `, which expires ${timeText(expires_at)}`}
					</li>
				))}
				{stopped_api_key_count > stopped_api_keys.length ? (
					<li>and {stopped_api_key_count - stopped_api_keys.length} more</li>
				) : null}
			</ul>
			Nothing has changed yet.
		</Alert>
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
		<Section title="Delete organization">
			<Text size="sm">Deletes everything in it. You can undo this for {RESTORABLE_DAYS} days.</Text>
			<Group>
				<Button color="red" variant="danger" onClick={() => setAsking(true)}>
					Delete {organization.name}
				</Button>
			</Group>
			{isAsking ? (
				<ConfirmDeletion
					organization={organization}
					isPending={remove.isPending}
					error={remove.error}
					onConfirm={() => remove.mutate({ query: { orgId: organization.id } })}
					onClose={() => setAsking(false)}
				/>
			) : null}
		</Section>
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
