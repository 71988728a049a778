/**
 * One API key: its roles and dates; edit, rotate (the old secret stays valid for a while) and
 * revoke it.
 */
import { Button, Text } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { useAsk, useChange } from "../../api";
import { Problem } from "../../components/answer";
import { KeyValues } from "../../components/card";
import { timeText } from "../../components/dates";
import { useDo } from "../../components/do";
import { Confirm } from "../../components/form-dialog";
import { Found } from "../../components/missing";
import { notify } from "../../components/notify";
import { Screen } from "../../components/screen";
import { SecretDialog } from "../../components/secret";
import { Day, Time } from "../../components/time";
import { useAppsOfOrganization } from "../../organizations";
import { organizationPath } from "../../paths";
import { useRoles } from "../../roles";
import type { OrganizationItemProps } from "../../screen-props";
import { BindingList } from "./key-bindings";
import { KeyForm, type KeyRecord } from "./key-form";
import { KeyState } from "./key-state";
import { RotateKey, useMayChangeKey } from "./rotate-key";

export default function Key({ orgId, item }: OrganizationItemProps) {
	const key = useAsk("GET /apikey/:id", { params: { id: item } });
	return (
		<Found
			query={key}
			kind="API key"
			name={item}
			because="It was revoked, or you may not see it."
			list={{ to: organizationPath(orgId, "keys"), label: "All keys" }}
		>
			{(record) => <Details orgId={orgId} record={record} />}
		</Found>
	);
}

interface Shown {
	readonly value: string;
	readonly isNew: boolean;
}

interface KeyProps {
	readonly orgId: string;
	readonly record: KeyRecord;
}

type Dialog = "edit" | "rotate" | "revoke";

function Details({ orgId, record }: KeyProps) {
	const [dialog, setDialog] = useState<Dialog | undefined>();
	const [secret, setSecret] = useState<Shown | undefined>();
	const close = () => setDialog(undefined);
	const reveal = useChange("GET /apikey/:id", (answer) => {
		if ("key" in answer) setSecret({ value: answer.key, isNew: false });
	});
	const isForeign = record.org_id !== orgId;
	const { mayChange, mayRevoke } = useMayChangeKey(orgId, record);
	useDo("rotate", () => setDialog("rotate"), mayChange === true && !isForeign);
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
			<Facts orgId={orgId} record={record} />
			{dialog === "edit" ? <EditKey orgId={orgId} record={record} onClose={close} /> : null}
			{dialog === "rotate" ? (
				<RotateKey
					record={record}
					onClose={close}
					onDone={(created) => {
						close();
						setSecret({ value: created, isNew: true });
					}}
				/>
			) : null}
			{dialog === "revoke" ? <RevokeKey orgId={orgId} record={record} onClose={close} /> : null}
			{secret === undefined ? null : (
				<ShownSecret record={record} secret={secret} onClose={() => setSecret(undefined)} />
			)}
		</Screen>
	);
}

function Facts({ orgId, record }: KeyProps) {
	const apps = useAppsOfOrganization(orgId);
	const roles = useRoles(orgId);
	return (
		<KeyValues
			items={[
				[
					"Roles",
					<BindingList key="bindings" bindings={record.bindings} apps={apps.data ?? []} roles={roles} orgId={orgId} />,
				],
				[
					"Expires",
					<span className="row wrap" key="expiry">
						{record.expires_at === null ? "Never" : <Day value={record.expires_at} />}
						<KeyState record={record} />
					</span>,
				],
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
	);
}

function EditKey({ orgId, record, onClose }: KeyProps & { readonly onClose: () => void }) {
	const edit = useChange("PUT /apikey/:id", () => {
		notify(`Key ${record.name} saved.`);
		onClose();
	});
	return (
		<KeyForm
			orgId={orgId}
			title={`Edit ${record.name}`}
			action="Save key"
			record={record}
			isPending={edit.isPending}
			error={edit.error}
			onClose={onClose}
			onSubmit={(fields) =>
				edit.mutate({ params: { id: record.id }, body: { ...fields, expires_at: fields.expires_at ?? "never" } })
			}
		/>
	);
}

/** A key of another organization stays there, and loses its roles in this one. */
function RevokeKey({ orgId, record, onClose }: KeyProps & { readonly onClose: () => void }) {
	const [, navigate] = useLocation();
	const isForeign = record.org_id !== orgId;
	const revoke = useChange("DELETE /apikey/:id", () => {
		notify(isForeign ? `Roles of ${record.name} removed.` : `Key ${record.name} revoked.`);
		navigate(organizationPath(orgId, "keys"));
	});
	return (
		<Confirm
			title={isForeign ? `Remove the roles of ${record.name}?` : `Revoke the key ${record.name}?`}
			action={isForeign ? "Remove roles" : "Revoke key"}
			isPending={revoke.isPending}
			error={revoke.error}
			onClose={onClose}
			onConfirm={() => revoke.mutate({ params: { id: record.id }, query: isForeign ? { org_id: orgId } : {} })}
		>
			<Text size="sm">
				{isForeign
					? "The key belongs to another organization. It loses its roles in this one immediately."
					: "Everything that uses it stops working immediately, also in other organizations. This cannot be undone."}
				{record.last_used_at === null ? " It was never used." : ` It was last used ${timeText(record.last_used_at)}.`}
			</Text>
		</Confirm>
	);
}

function ShownSecret({
	record,
	secret,
	onClose,
}: {
	readonly record: KeyRecord;
	readonly secret: Shown;
	readonly onClose: () => void;
}) {
	return (
		<SecretDialog
			title={`${secret.isNew ? "New secret" : "Secret"} of ${record.name}`}
			label="Secret"
			value={secret.value}
			closeText={secret.isNew ? undefined : "Close"}
			onClose={onClose}
		>
			{secret.isNew && record.is_hashed_key
				? "Copy it now: it is not shown again. Replace the old secret while that one is still valid."
				: secret.isNew
					? "Replace the old secret while that one is still valid. You can reveal the new one here again."
					: "Anyone who has it can use the key. The audit log records that you revealed it."}
		</SecretDialog>
	);
}
