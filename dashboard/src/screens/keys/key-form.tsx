/**
 * Form to create or edit an API key. It allows no expiry that the organization's policies would
 * refuse.
 */

import { Checkbox, Text, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";
import { DAY_MS } from "../../../../src/domain/time";
import { type AnswerOf, useAsk } from "../../api";
import { formErrors } from "../../components/field-errors";
import { FormDialog } from "../../components/form-dialog";
import { utcDay } from "../../components/time";
import { useAppsOfOrganization } from "../../organizations";
import { useHeld, useMayCreateOrganizations } from "../../permissions";
import { useRoles } from "../../roles";
import { BindingEditor, type Grant, newGrant } from "./key-bindings";

export type KeyRecord = AnswerOf<"GET /apikey">[number];
type Organization = Exclude<AnswerOf<"GET /organization">, readonly unknown[]>;

const USUAL_DAYS = 90;

const EXPIRY = ["expires_at", "expiration_required", "expiration_exceeds_max"];
const CREATION = ["global_permissions", "invalid_global_permissions"];
const HASHED = ["hashed", "hashed_api_key_required"];
const SHOWN = ["name", "bindings", "ip_allow_list", ...EXPIRY, ...CREATION, ...HASHED];

type Given =
	| { readonly scope_type: "org"; readonly role_name: string; readonly org_id: string }
	| { readonly scope_type: "app"; readonly role_name: string; readonly org_id: string; readonly app_id: string }
	| {
			readonly scope_type: "channel";
			readonly role_name: string;
			readonly org_id: string;
			readonly app_id: string;
			readonly channel_id: number;
	  };

interface KeyFields {
	readonly name: string;
	readonly hashed?: boolean;
	/** Undefined: never expires. */
	readonly expires_at?: string;
	readonly bindings: Given[];
	readonly global_permissions: "org.create"[];
	readonly ip_allow_list: string[];
}

function givenOf({ app, channel, role }: Grant, orgId: string): Given {
	const given = { role_name: role, org_id: orgId };
	if (app === "") return { scope_type: "org", ...given };
	if (channel === "") return { scope_type: "app", ...given, app_id: app };
	return { scope_type: "channel", ...given, app_id: app, channel_id: Number(channel) };
}

/**
 * The rows of the key's roles here, without those that the service adds to another role and removes
 * with it.
 */
function grantsOf(record: KeyRecord | undefined, orgId: string): readonly Grant[] {
	const own =
		record?.bindings.filter(({ org_id, parent_binding_id }) => org_id === orgId && parent_binding_id === null) ?? [];
	return own.length === 0
		? [newGrant()]
		: own.map(({ app_id, channel_id, role_name }) =>
				newGrant(app_id ?? "", channel_id === null ? "" : String(channel_id), role_name),
			);
}

const dayOf = (at: string | null) => (at === null ? "" : at.slice(0, 10));

export function KeyForm({
	orgId,
	title,
	action,
	name: proposedName = "",
	record,
	isPending,
	error,
	onSubmit,
	onClose,
}: {
	readonly orgId: string;
	readonly title: string;
	readonly action: string;
	/** Proposed for a new key. */
	readonly name?: string;
	/** The key to edit; undefined to create one. */
	readonly record?: KeyRecord;
	readonly isPending: boolean;
	readonly error: Error | null;
	readonly onSubmit: (fields: KeyFields) => void;
	readonly onClose: () => void;
}) {
	const answer = useAsk("GET /organization", { query: { orgId } });
	const organization =
		answer.data === undefined || Array.isArray(answer.data) ? undefined : (answer.data as Organization);
	const apps = useAppsOfOrganization(orgId);
	const roles = useRoles(orgId);
	const held = useHeld(orgId);
	const ownsCreation = useMayCreateOrganizations();
	const [name, setName] = useState(record?.name ?? proposedName);
	const [expiry, setExpiry] = useState<string | undefined>(record === undefined ? undefined : dayOf(record.expires_at));
	const [isRevealable, setRevealable] = useState(false);
	const [mayCreate, setMayCreate] = useState(record?.global_permissions.includes("org.create") ?? false);
	const [addresses, setAddresses] = useState(record?.ip_allow_list.join("\n") ?? "");
	const [grants, setGrants] = useState(() => grantsOf(record, orgId));
	const mostDays = organization?.max_apikey_expiration_days ?? undefined;
	const shownExpiry = expiry ?? utcDay(Math.min(mostDays ?? USUAL_DAYS, USUAL_DAYS));
	const isComplete = grants.every(({ role }) => role !== "");
	const errors = formErrors(error, SHOWN);
	const submit = () =>
		onSubmit({
			name,
			...(record === undefined ? { hashed: !isRevealable } : {}),
			...(shownExpiry === "" ? {} : { expires_at: endOfDay(shownExpiry, record?.expires_at ?? null, mostDays) }),
			bindings: grants.map((grant) => givenOf(grant, orgId)),
			global_permissions: mayCreate ? ["org.create"] : [],
			ip_allow_list: addresses.split(/[\s,]+/).filter((address) => address !== ""),
		});
	return (
		<FormDialog
			title={title}
			action={action}
			isPending={isPending}
			isReady={isComplete && name !== ""}
			error={errors.rest}
			onSubmit={submit}
			onClose={onClose}
		>
			<TextInput
				label="Name"
				description="The program that uses the key, e.g. GitHub Actions."
				required
				error={errors.at("name")}
				data-autofocus
				maxLength={128}
				value={name}
				onChange={(event) => setName(event.currentTarget.value)}
			/>
			<BindingEditor
				grants={grants}
				apps={apps.data ?? []}
				roles={roles}
				held={held}
				error={errors.at("bindings")}
				onChange={setGrants}
			/>
			<ExpiryField
				mostDays={mostDays}
				isRequired={mostDays !== undefined || organization?.require_apikey_expiration === true}
				error={errors.at(...EXPIRY)}
				value={shownExpiry}
				onChange={setExpiry}
			/>
			<Textarea
				label="Allowed IP addresses"
				description="One address or network per line, e.g. 192.0.2.0/24. Empty: any address."
				error={errors.at("ip_allow_list")}
				autosize
				minRows={2}
				value={addresses}
				onChange={(event) => setAddresses(event.currentTarget.value)}
			/>
			{ownsCreation || mayCreate ? (
				<Checkbox
					label="May create organizations"
					description="Effective only with a role that administers the organization."
					error={errors.at(...CREATION)}
					checked={mayCreate}
					onChange={(event) => setMayCreate(event.currentTarget.checked)}
				/>
			) : null}
			{record === undefined && organization?.enforce_hashed_api_keys === false ? (
				<Checkbox
					label="Allow the secret to be revealed later"
					description="Stores the secret encrypted instead of only its hash."
					error={errors.at(...HASHED)}
					checked={isRevealable}
					onChange={(event) => setRevealable(event.currentTarget.checked)}
				/>
			) : null}
			{record === undefined ? null : (
				<Text size="sm" c="dimmed">
					Its roles in other organizations stay.
				</Text>
			)}
		</FormDialog>
	);
}

function ExpiryField({
	mostDays,
	isRequired,
	error,
	value,
	onChange,
}: {
	/** The organization's limit. */
	readonly mostDays: number | undefined;
	readonly isRequired: boolean;
	readonly error: string | undefined;
	/** A day; empty for no expiry. */
	readonly value: string;
	readonly onChange: (day: string) => void;
}) {
	const rule = isRequired ? "The organization requires an expiry." : "Empty: never expires.";
	return (
		<TextInput
			type="date"
			label="Expires at the end of (UTC)"
			description={mostDays === undefined ? rule : `The organization allows at most ${mostDays} days.`}
			required={isRequired}
			error={error}
			min={utcDay(0)}
			{...(mostDays === undefined ? {} : { max: utcDay(mostDays) })}
			value={value}
			onChange={(event) => onChange(event.currentTarget.value)}
		/>
	);
}

/**
 * The end of the day, or the latest time that the policy allows. An unchanged day keeps its exact
 * time.
 */
function endOfDay(day: string, before: string | null, mostDays: number | undefined): string {
	if (before !== null && dayOf(before) === day) return before;
	const end = new Date(`${day}T23:59:59Z`).getTime();
	// One minute less, because the policy counts from the arrival of the request.
	const latest = mostDays === undefined ? end : Date.now() + mostDays * DAY_MS - 60_000;
	return new Date(Math.min(end, latest)).toISOString();
}
