/** One API key: its roles and dates; edit, rotate (the old secret stays valid for a while) and revoke it. */
import { Button, NativeSelect, Text } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { useAsk, useChange } from "../../api";
import { Answer, Problem } from "../../components/answer";
import { KeyValues } from "../../components/card";
import { Confirm, FormDialog } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { Screen } from "../../components/screen";
import { SecretDialog } from "../../components/secret";
import { Time, timeText } from "../../components/time";
import { useAppsOfOrganization } from "../../organizations";
import { organizationPath } from "../../paths";
import { covers, useHeldIn, useMayCreateOrganizations } from "../../permissions";
import { isBuiltIn, roleIn, useRoles, useRolesOf } from "../../roles";
import type { OrganizationItemProps } from "../../screen-props";
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
 * Changing a key needs all of its permissions, in every organization, because a new secret grants them all. Revoking needs only those in
 * this organization. Undefined while the roles load.
 */
function useMayChangeKey(orgId: string, { bindings, global_permissions }: KeyRecord) {
	const orgIds = [...new Set(bindings.map(({ org_id }) => org_id))];
	const held = useHeldIn(orgIds);
	const roles = useRolesOf(
		orgIds.map((id) =>
			bindings.some(({ org_id, role_name }) => org_id === id && !isBuiltIn(role_name)) ? id : undefined,
		),
	);
	const mayCreate = useMayCreateOrganizations();
	const isKnown = !held.includes(undefined) && !roles.includes(undefined);
	// A binding that the service created ends with its parent binding.
	const isCovered = ({ org_id, role_name, parent_binding_id }: KeyRecord["bindings"][number]) => {
		const index = orgIds.indexOf(org_id);
		return parent_binding_id !== null || covers(held[index], roleIn(roles[index] ?? [], role_name));
	};
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
	const roles = useRoles(orgId);
	const edit = useChange("PUT /apikey/:id", () => {
		notify(`Key ${record.name} saved.`);
		close();
	});
	const revoke = useChange("DELETE /apikey/:id", () => {
		notify(`Key ${record.name} revoked.`);
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
			note={<span className="mono">{record.key_hint}</span>}
			actions={
				<>
					{mayChange && !isForeign ? (
						<>
							<Button onClick={() => setDialog("rotate")}>Rotate secret</Button>
							{record.is_hashed_key ? null : (
								<Button
									variant="default"
									loading={reveal.isPending}
									onClick={() => reveal.mutate({ params: { id: record.id }, query: { reveal: "true" } })}
								>
									Reveal secret
								</Button>
							)}
							<Button variant="default" onClick={() => setDialog("edit")}>
								Edit key
							</Button>
						</>
					) : null}
					{mayRevoke ? (
						<Button variant="danger" onClick={() => setDialog("revoke")}>
							Revoke key
						</Button>
					) : null}
				</>
			}
		>
			{mayChange === false && !isForeign ? (
				<Text size="sm" c="dimmed">
					This key has permissions that you do not have, so you cannot change it.
				</Text>
			) : null}
			{reveal.isError ? <Problem error={reveal.error} /> : null}
			<KeyValues
				items={[
					[
						"Roles",
						<BindingList
							key="bindings"
							bindings={record.bindings}
							apps={apps.data ?? []}
							roles={roles}
							orgId={orgId}
						/>,
					],
					["Expires", <Expiry key="expiry" at={record.expires_at} />],
					["Last used", record.last_used_at === null ? "Never" : <Time key="used" value={record.last_used_at} />],
					["Created", <Time key="created" value={record.created_at} />],
					["May create organizations", record.global_permissions.includes("org.create") ? "Yes" : "No"],
					["Allowed IP addresses", record.ip_allow_list.length === 0 ? "Any" : record.ip_allow_list.join(", ")],
					[
						"Secret",
						record.is_hashed_key ? (
							"Stored as a hash only"
						) : record.revealed_at === null ? (
							"Stored encrypted, can be revealed"
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
								Valid until <Time value={record.previous_key_valid_until} />
							</Text>
						),
					],
				]}
			/>
			{dialog === "edit" ? (
				<KeyForm
					orgId={orgId}
					title={`Edit ${record.name}`}
					action="Save key"
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
					onDone={(created) => {
						close();
						setSecret({ value: created, isNew: true });
					}}
				/>
			) : null}
			{dialog === "revoke" ? (
				<Confirm
					title={isForeign ? `Remove the roles of ${record.name}?` : `Revoke the key ${record.name}?`}
					action={isForeign ? "Remove roles" : "Revoke key"}
					isPending={revoke.isPending}
					error={revoke.error}
					onClose={close}
					onConfirm={() => revoke.mutate({ params: { id: record.id }, query: isForeign ? { org_id: orgId } : {} })}
				>
					<Text size="sm">
						{isForeign
							? "The key belongs to another organization. It loses its roles in this one immediately."
							: "Everything that uses it stops working immediately, also in other organizations. This cannot be undone."}
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
						? "Copy it now: it is not shown again. Replace the old secret while that one is still valid."
						: secret.isNew
							? "Replace the old secret while that one is still valid. You can reveal the new one here again."
							: "Anyone who has it can use the key. The audit log records that you revealed it."}
				</SecretDialog>
			)}
		</Screen>
	);
}

const OVERLAPS = [
	{ value: "3600", label: "1 hour" },
	{ value: "86400", label: "1 day" },
	{ value: "900", label: "15 minutes" },
	{ value: "0", label: "Revoke it immediately: it was lost or stolen" },
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
			title={`Rotate the secret of ${record.name}`}
			action="Create new secret"
			isPending={rotate.isPending}
			error={rotate.error}
			onSubmit={() =>
				rotate.mutate({ params: { id: record.id }, body: { regenerate: true, overlap_seconds: Number(overlap) } })
			}
			onClose={onClose}
		>
			<Text size="sm">The key keeps its name, its roles and its expiry.</Text>
			<NativeSelect
				label="Keep the old secret valid for"
				data={OVERLAPS}
				value={overlap}
				onChange={(event) => setOverlap(event.currentTarget.value)}
			/>
		</FormDialog>
	);
}
