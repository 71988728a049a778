/** One API key: what it may do and since when, changing it, giving it a new secret while the old one still works, revoking it. */
import { Button, Code, Group, NativeSelect, Text } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { useAsk, useChange } from "../api";
import type { OrganizationItemProps } from "../app";
import { Answer, Problem } from "../parts/answer";
import { useAppsOfOrganization } from "../parts/app-list";
import { Confirm } from "../parts/confirm";
import { Facts } from "../parts/facts";
import { FormDialog } from "../parts/form";
import { say } from "../parts/say";
import { Screen } from "../parts/screen";
import { SecretDialog } from "../parts/secret";
import { Time, timeText } from "../parts/time";
import { organizationPath } from "../paths";
import { covers, useMayCreateOrganizations, useOwnRoles } from "../permissions";
import { BindingList } from "./key-bindings";
import { KeyForm, type KeyRecord } from "./key-form";
import { Expiry } from "./keys";

export default function Key({ orgId, item }: OrganizationItemProps) {
	const key = useAsk("GET /apikey/:id", { params: { id: item } });
	return (
		<Answer query={key} what="the API key">
			{(record) => <Details orgId={orgId} record={record} />}
		</Answer>
	);
}

interface Shown {
	readonly value: string;
	readonly isNew: boolean;
}

/**
 * Who has the key's secret may do all that it may, wherever that is, so that changing it takes all of it; revoking it only what it may do
 * in this organization. Undefined while it is not known.
 */
function useMayChangeKey(orgId: string, { bindings, global_permissions }: KeyRecord) {
	const orgIds = [...new Set(bindings.map(({ org_id }) => org_id))];
	const roles = useOwnRoles(orgIds);
	const mayCreate = useMayCreateOrganizations();
	const isKnown = !roles.includes(undefined);
	// What the service gave goes with the binding that it was given for.
	const isCovered = ({ org_id, role_name, parent_binding_id }: KeyRecord["bindings"][number]) =>
		parent_binding_id !== null || covers(roles[orgIds.indexOf(org_id)], role_name);
	return {
		mayChange: isKnown ? bindings.every(isCovered) && (mayCreate || global_permissions.length === 0) : undefined,
		mayRevoke: isKnown ? bindings.filter(({ org_id }) => org_id === orgId).every(isCovered) : undefined,
	};
}

function Details({ orgId, record }: { readonly orgId: string; readonly record: KeyRecord }) {
	const [dialog, setDialog] = useState<"edit" | "rotate" | "revoke" | undefined>();
	const [secret, setSecret] = useState<Shown | undefined>();
	const close = () => setDialog(undefined);
	const [, navigate] = useLocation();
	const apps = useAppsOfOrganization(orgId);
	const edit = useChange("PUT /apikey/:id", () => {
		say(`The key ${record.name} is changed.`);
		close();
	});
	const revoke = useChange("DELETE /apikey/:id", () => {
		say(`The key ${record.name} is revoked.`);
		navigate(organizationPath(orgId, "keys"));
	});
	const reveal = useChange("GET /apikey/:id", (answer) => {
		if ("key" in answer) setSecret({ value: answer.key, isNew: false });
	});
	const isForeign = record.org_id !== orgId;
	const { mayChange, mayRevoke } = useMayChangeKey(orgId, record);
	return (
		<Screen
			title={record.name}
			note={<Code>{record.key_hint}</Code>}
			actions={
				<>
					{mayChange && !isForeign ? (
						<>
							<Button onClick={() => setDialog("rotate")}>New secret</Button>
							{record.is_hashed_key ? null : (
								<Button
									variant="default"
									loading={reveal.isPending}
									onClick={() => reveal.mutate({ params: { id: record.id }, query: { reveal: "true" } })}
								>
									Show the secret
								</Button>
							)}
							<Button variant="default" onClick={() => setDialog("edit")}>
								Edit
							</Button>
						</>
					) : null}
					{mayRevoke ? (
						<Button variant="default" onClick={() => setDialog("revoke")}>
							Revoke
						</Button>
					) : null}
				</>
			}
		>
			{mayChange === false && !isForeign ? (
				<Text size="sm" c="dimmed">
					This key may do what you may not, so it is changed by those who may do that too.
				</Text>
			) : null}
			{reveal.isError ? <Problem error={reveal.error} /> : null}
			<Facts
				facts={[
					[
						"May act as",
						<BindingList key="bindings" bindings={record.bindings} apps={apps.data ?? []} orgId={orgId} />,
					],
					["Expires", <Expiry key="expiry" at={record.expires_at} />],
					["Last used", record.last_used_at === null ? "Never" : <Time key="used" value={record.last_used_at} />],
					["Created", <Time key="created" value={record.created_at} />],
					["Creates organizations", record.global_permissions.includes("org.create") ? "Yes" : "No"],
					["Addresses", record.ip_allow_list.length === 0 ? "Everywhere" : record.ip_allow_list.join(", ")],
					[
						"Secret",
						record.is_hashed_key ? (
							"Stored as a hash only"
						) : record.revealed_at === null ? (
							"Can be revealed"
						) : (
							<Text key="seen" inherit>
								Last revealed <Time value={record.revealed_at} />
							</Text>
						),
					],
					[
						"Old secret",
						record.previous_key_valid_until === null ? (
							"None"
						) : (
							<Text key="old" inherit>
								Works until <Time value={record.previous_key_valid_until} />
							</Text>
						),
					],
				]}
			/>
			{dialog === "edit" ? (
				<KeyForm
					orgId={orgId}
					title={`Edit ${record.name}`}
					action="Save"
					record={record}
					isPending={edit.isPending}
					error={edit.error}
					onClose={close}
					onSubmit={(fields) =>
						edit.mutate({ params: { id: record.id }, body: { ...fields, expires_at: fields.expires_at ?? "never" } })
					}
				/>
			) : null}
			{dialog === "rotate" ? (
				<Rotate
					record={record}
					onClose={close}
					onDone={(made) => {
						close();
						setSecret({ value: made, isNew: true });
					}}
				/>
			) : null}
			{dialog === "revoke" ? (
				<Confirm
					title={isForeign ? `Take the rights of ${record.name}?` : `Revoke the key ${record.name}?`}
					action={isForeign ? "Take its rights" : "Revoke key"}
					isPending={revoke.isPending}
					error={revoke.error}
					onClose={close}
					onConfirm={() => revoke.mutate({ params: { id: record.id }, query: isForeign ? { org_id: orgId } : {} })}
				>
					<Text size="sm">
						{isForeign
							? "The key belongs to another organization; what it holds in this one goes at once."
							: "Whatever uses it stops working at once, in other organizations as well. This cannot be undone."}
						{record.last_used_at === null
							? " It was never used."
							: ` It was last used ${timeText(record.last_used_at)}.`}
					</Text>
				</Confirm>
			) : null}
			{secret === undefined ? null : (
				<SecretDialog
					title={`${secret.isNew ? "New secret" : "Secret"} of ${record.name}`}
					label="Secret"
					value={secret.value}
					closeText={secret.isNew ? undefined : "Close"}
					onClose={() => setSecret(undefined)}
				>
					{secret.isNew && record.is_hashed_key
						? "This is the only time that it is shown. Put it in place while the old one still works."
						: secret.isNew
							? "Put it in place while the old one still works. It can be looked at again here."
							: "Whoever has it can do all that the key may. The audit log says that you looked."}
				</SecretDialog>
			)}
		</Screen>
	);
}

const OVERLAPS = [
	{ value: "3600", label: "An hour" },
	{ value: "86400", label: "A day" },
	{ value: "900", label: "A quarter of an hour" },
	{ value: "0", label: "Not at all: it was lost or stolen" },
];

function Rotate({
	record,
	onClose,
	onDone,
}: {
	readonly record: KeyRecord;
	readonly onClose: () => void;
	readonly onDone: (secret: string) => void;
}) {
	const [overlap, setOverlap] = useState("3600");
	const rotate = useChange("PUT /apikey/:id", (answer) => {
		if ("key" in answer) onDone(answer.key);
	});
	return (
		<FormDialog
			title={`New secret for ${record.name}`}
			action="Make the new secret"
			isPending={rotate.isPending}
			error={rotate.error}
			onSubmit={() =>
				rotate.mutate({ params: { id: record.id }, body: { regenerate: true, overlap_seconds: Number(overlap) } })
			}
			onClose={onClose}
		>
			<Group>
				<Text size="sm">The key keeps its name, its rights and its expiry.</Text>
			</Group>
			<NativeSelect
				label="How long the old secret works too"
				data={OVERLAPS}
				value={overlap}
				onChange={(event) => setOverlap(event.currentTarget.value)}
			/>
		</FormDialog>
	);
}
