/** A new API key, or the changes of one. The organization's policies are met before anything is sent: no later expiry than it allows. */
import { Checkbox, Text, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";
import { type AnswerOf, useAsk } from "../api";
import { useAppsOfOrganization } from "../parts/app-list";
import { FormDialog } from "../parts/form";
import { utcDay } from "../parts/time";
import { roleNamed, useMayCreateOrganizations, useOwnRole } from "../permissions";
import { BindingEditor, type Grant, newGrant } from "./key-bindings";

export type KeyRecord = AnswerOf<"GET /apikey">[number];
type Organization = Exclude<AnswerOf<"GET /organization">, readonly unknown[]>;

const USUAL_DAYS = 90;

type GivenRole = NonNullable<ReturnType<typeof roleGiven>>;
type Given =
	| { readonly scope_type: "org"; readonly role_name: GivenRole; readonly org_id: string }
	| { readonly scope_type: "app"; readonly role_name: GivenRole; readonly org_id: string; readonly app_id: string };

export interface KeyFields {
	readonly name: string;
	readonly hashed?: boolean;
	/** Undefined: it never expires. */
	readonly expires_at?: string;
	readonly bindings: Given[];
	readonly global_permissions: "org.create"[];
	readonly ip_allow_list: string[];
}

/** The service alone gives the role that is left out. */
function roleGiven(role: Grant["role"]) {
	return role === "" || role === "channel_preview" ? undefined : role;
}

const dayOf = (at: string | null) => (at === null ? "" : at.slice(0, 10));

export function KeyForm({
	orgId,
	title,
	action,
	record,
	isPending,
	error,
	onSubmit,
	onClose,
}: {
	readonly orgId: string;
	readonly title: string;
	readonly action: string;
	/** The key that is changed; undefined for a new one. */
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
	const ownRole = useOwnRole(orgId);
	const ownsCreation = useMayCreateOrganizations();
	const [name, setName] = useState(record?.name ?? "");
	const [expiry, setExpiry] = useState<string | undefined>(record === undefined ? undefined : dayOf(record.expires_at));
	const [isRevealable, setRevealable] = useState(false);
	const [mayCreate, setMayCreate] = useState(record?.global_permissions.includes("org.create") ?? false);
	const [addresses, setAddresses] = useState(record?.ip_allow_list.join("\n") ?? "");
	const [grants, setGrants] = useState<readonly Grant[]>(() => {
		const own = record?.bindings.filter(({ org_id, scope_type }) => org_id === orgId && scope_type !== "channel") ?? [];
		return own.length === 0
			? [newGrant()]
			: own.map(({ app_id, role_name }) => newGrant(app_id ?? "", roleNamed(role_name) ?? ""));
	});
	const mostDays = organization?.max_apikey_expiration_days ?? undefined;
	const mustExpire = organization?.require_apikey_expiration === true || mostDays !== undefined;
	const shownExpiry = expiry ?? utcDay(Math.min(mostDays ?? USUAL_DAYS, USUAL_DAYS));
	const isComplete = grants.every(({ role }) => role !== "");
	const submit = () =>
		onSubmit({
			name,
			...(record === undefined ? { hashed: !isRevealable } : {}),
			...(shownExpiry === "" ? {} : { expires_at: endOfDay(shownExpiry, record?.expires_at ?? null, mostDays) }),
			bindings: grants.flatMap(({ app, role }): Given[] => {
				const given = roleGiven(role);
				if (given === undefined) return [];
				return app === ""
					? [{ scope_type: "org", role_name: given, org_id: orgId }]
					: [{ scope_type: "app", role_name: given, org_id: orgId, app_id: app }];
			}),
			global_permissions: mayCreate ? ["org.create"] : [],
			ip_allow_list: addresses.split(/[\s,]+/).filter((address) => address !== ""),
		});
	return (
		<FormDialog
			title={title}
			action={action}
			isPending={isPending}
			isReady={isComplete && name !== ""}
			error={error}
			onSubmit={submit}
			onClose={onClose}
		>
			<TextInput
				label="Name"
				description="Says where it is used."
				required
				data-autofocus
				maxLength={128}
				value={name}
				onChange={(event) => setName(event.currentTarget.value)}
			/>
			<BindingEditor grants={grants} apps={apps.data ?? []} ownRole={ownRole} onChange={setGrants} />
			<TextInput
				type="date"
				label="Expires at the end of (UTC)"
				description={
					mostDays === undefined
						? mustExpire
							? "The organization wants every key to expire."
							: "Empty: never."
						: `The organization lets keys live ${mostDays} days at most.`
				}
				required={mustExpire}
				min={utcDay(0)}
				{...(mostDays === undefined ? {} : { max: utcDay(mostDays) })}
				value={shownExpiry}
				onChange={(event) => setExpiry(event.currentTarget.value)}
			/>
			<Textarea
				label="Addresses it may be used from"
				description="One address or network a line, e.g. 192.0.2.0/24. Empty: from everywhere."
				autosize
				minRows={2}
				value={addresses}
				onChange={(event) => setAddresses(event.currentTarget.value)}
			/>
			{ownsCreation || mayCreate ? (
				<Checkbox
					label="May create organizations"
					description="Needs a role that administers the organization."
					checked={mayCreate}
					onChange={(event) => setMayCreate(event.currentTarget.checked)}
				/>
			) : null}
			{record === undefined && organization?.enforce_hashed_api_keys === false ? (
				<Checkbox
					label="Its secret can be looked at again later"
					description="It is then kept encrypted, where otherwise only its hash is."
					checked={isRevealable}
					onChange={(event) => setRevealable(event.currentTarget.checked)}
				/>
			) : null}
			{record === undefined ? null : (
				<Text size="sm" c="dimmed">
					What it holds in other organizations stays.
				</Text>
			)}
		</FormDialog>
	);
}

const DAY_MS = 24 * 60 * 60 * 1000;

/** The end of the day, or what the policy allows if that is sooner; what was not changed stays to the second. */
function endOfDay(day: string, before: string | null, mostDays: number | undefined): string {
	if (before !== null && dayOf(before) === day) return before;
	const end = new Date(`${day}T23:59:59Z`).getTime();
	// A minute less: the policy counts from when the request arrives.
	const latest = mostDays === undefined ? end : Date.now() + mostDays * DAY_MS - 60_000;
	return new Date(Math.min(end, latest)).toISOString();
}
