/** An organization's name, its policies about API keys, which are tried before they hold, and its end, which can be undone for a while. */
import { Alert, Button, Group, NumberInput, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { MOST_EXPIRATION_DAYS } from "../../../src/domain/key-policy";
import { type AnswerOf, useAsk, useChange } from "../api";
import type { OrganizationScreenProps } from "../app";
import { Answer, Problem } from "../parts/answer";
import { Confirm } from "../parts/confirm";
import { Facts } from "../parts/facts";
import { say } from "../parts/say";
import { Screen, Section } from "../parts/screen";
import { countOf, sizeText } from "../parts/size";
import { timeText } from "../parts/time";
import { useOrganizationMay } from "../permissions";
import { useOrganizationDeletionPlan } from "../plans";
import { SigningKeys } from "./signing-keys";
import { Usage } from "./usage";

type Organization = Exclude<AnswerOf<"GET /organization">, readonly unknown[]>;

type Gone = AnswerOf<"DELETE /organization">;

export default function Settings({ orgId }: OrganizationScreenProps) {
	const [gone, setGone] = useState<Gone | undefined>();
	// Of what is deleted nothing can be asked, not even what the reader may do there.
	const organization = useAsk("GET /organization", { query: { orgId } }, { enabled: gone === undefined });
	if (gone !== undefined) {
		return (
			<Screen title="Policies and settings">
				<Undo gone={gone} />
			</Screen>
		);
	}
	return (
		<Screen title="Policies and settings">
			<Answer query={organization} what="the organization">
				{(answer) => {
					const record = Array.isArray(answer) ? undefined : (answer as Organization);
					return record === undefined ? null : <Parts organization={record} onGone={setGone} />;
				}}
			</Answer>
		</Screen>
	);
}

function Parts({
	organization,
	onGone,
}: {
	readonly organization: Organization;
	readonly onGone: (gone: Gone) => void;
}) {
	const may = useOrganizationMay(organization.id);
	const mayChange = may("org.update_settings") === true;
	return (
		<>
			{mayChange ? <Names organization={organization} /> : null}
			{mayChange ? <Policies organization={organization} /> : <ReadOnly organization={organization} />}
			<SigningKeys orgId={organization.id} isRequired={organization.require_signed_bundles} mayChange={mayChange} />
			<Usage orgId={organization.id} />
			{may("org.delete") === true ? <End organization={organization} onGone={onGone} /> : null}
		</>
	);
}

const yes = (value: boolean) => (value ? "Yes" : "No");

function ReadOnly({ organization }: { readonly organization: Organization }) {
	return (
		<Section title="Policies about API keys">
			<Facts
				facts={[
					["Secrets kept as hashes alone", yes(organization.enforce_hashed_api_keys)],
					["Every key expires", yes(organization.require_apikey_expiration)],
					["Days a key may live", organization.max_apikey_expiration_days ?? "Any number"],
				]}
			/>
			<Text size="sm" c="dimmed">
				Administrators of the organization can change them.
			</Text>
		</Section>
	);
}

function Names({ organization }: { readonly organization: Organization }) {
	const [name, setName] = useState(organization.name);
	const [website, setWebsite] = useState(organization.website ?? "");
	const [email, setEmail] = useState(organization.management_email ?? "");
	const save = useChange("POST /organization", () => say("The organization is changed."));
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
						required
						maxLength={128}
						value={name}
						onChange={(event) => setName(event.currentTarget.value)}
					/>
					<TextInput
						type="url"
						label="Website"
						placeholder="https://example.com"
						value={website}
						onChange={(event) => setWebsite(event.currentTarget.value)}
					/>
					<TextInput
						type="email"
						label="Contact"
						value={email}
						onChange={(event) => setEmail(event.currentTarget.value)}
					/>
					{save.isError ? <Problem error={save.error} /> : null}
					<Group>
						<Button type="submit" variant="default" loading={save.isPending}>
							Save
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
	const asked = JSON.stringify(body);
	const attempt = useChange("POST /organization", (answer) => setPlan({ answer, of: asked }));
	const save = useChange("POST /organization", () => {
		say("The policies hold from now on.");
		setPlan(undefined);
	});
	const isTried = plan?.of === asked;
	return (
		<Section title="Policies about API keys">
			<Text size="sm" c="dimmed">
				A key that does not meet them stops working. See first which ones that would be.
			</Text>
			<form
				onSubmit={(event) => {
					event.preventDefault();
					if (isTried) save.mutate({ body });
					else attempt.mutate({ body: { ...body, dry_run: true } });
				}}
			>
				<Stack maw="32rem">
					<Switch
						label="Secrets are kept as hashes alone"
						description="No key's secret can be looked at again."
						checked={isHashed}
						onChange={(event) => setHashed(event.currentTarget.checked)}
					/>
					<Switch
						label="Every key expires"
						checked={mustExpire}
						onChange={(event) => setMustExpire(event.currentTarget.checked)}
					/>
					<NumberInput
						label="Days that a key may live at most"
						description={`${MOST_EXPIRATION_DAYS} at most. Empty: any number of days.`}
						min={1}
						max={MOST_EXPIRATION_DAYS}
						value={mostDays}
						onChange={setMostDays}
					/>
					{plan === undefined || !isTried ? null : <Stopped answer={plan.answer} />}
					{attempt.isError ? <Problem error={attempt.error} /> : null}
					{save.isError ? <Problem error={save.error} /> : null}
					<Group>
						<Button
							type="submit"
							variant={isTried ? "filled" : "default"}
							loading={attempt.isPending || save.isPending}
						>
							{isTried ? "Let these policies hold" : "See what would stop"}
						</Button>
					</Group>
				</Stack>
			</form>
		</Section>
	);
}

function Stopped({ answer: { stopped_api_keys, stopped_api_key_count } }: { readonly answer: Changed }) {
	if (stopped_api_key_count === 0) {
		return (
			<Alert color="green" title="No working key would stop" role="status">
				Nothing was changed yet.
			</Alert>
		);
	}
	return (
		<Alert color="orange" title={`${countOf(stopped_api_key_count, "key")} would stop working`} role="status">
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
			Nothing was changed yet.
		</Alert>
	);
}

function End({ organization, onGone }: { readonly organization: Organization; readonly onGone: (gone: Gone) => void }) {
	const [isAsking, setAsking] = useState(false);
	const remove = useChange("DELETE /organization", onGone);
	return (
		<Section title="Delete the organization">
			<Text size="sm">With everything in it. It can be undone for 30 days.</Text>
			<Group>
				<Button color="red" variant="default" onClick={() => setAsking(true)}>
					Delete {organization.name}
				</Button>
			</Group>
			{isAsking ? (
				<AskForEnd
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

function AskForEnd({
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
			<Answer query={plan} what="what would go">
				{({ removes, other_organizations: { known, others }, restorable_until }) => (
					<>
						<Text size="sm">
							Devices of its apps get no more updates. It can be undone until {timeText(restorable_until)}. With it go:
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

function Undo({ gone }: { readonly gone: Gone }) {
	const [, navigate] = useLocation();
	const restore = useChange("POST /organization/restore", () => {
		say(`${gone.name} is back, as it was.`);
		location.reload();
	});
	return (
		<Alert color="orange" title={`${gone.name} is deleted`} role="alert">
			<Stack align="flex-start" gap="sm">
				It can be undone until {timeText(gone.restorable_until)}, with POST /organization/restore or here.
				{restore.isError ? <Problem error={restore.error} /> : null}
				<Group>
					<Button
						variant="default"
						loading={restore.isPending}
						onClick={() => restore.mutate({ body: { orgId: gone.id } })}
					>
						Undo
					</Button>
					<Button variant="default" onClick={() => navigate("/organizations")}>
						Leave it deleted
					</Button>
				</Group>
			</Stack>
		</Alert>
	);
}
