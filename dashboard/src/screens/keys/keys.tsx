/**
 * The API keys of an organization: which expire, which nobody uses, and a new secret from the row.
 */
import { Button, Text } from "@mantine/core";
import { useState } from "react";
import { UNUSED_DAYS } from "../../../../src/domain/defaults";
import { useAllPages, useChange } from "../../api";
import { Answer } from "../../components/answer";
import { useDo } from "../../components/do";
import { TextLink } from "../../components/link";
import { Empty, Screen } from "../../components/screen";
import { SecretDialog } from "../../components/secret";
import { Day, Time } from "../../components/time";
import { WholeList } from "../../components/whole-list";
import { type AppRecord, useAppsOfOrganization } from "../../organizations";
import { keyPath } from "../../paths";
import { useOrganizationMay } from "../../permissions";
import { titleOf, useRoles } from "../../roles";
import type { OrganizationScreenProps } from "../../screen-props";
import { BindingList } from "./key-bindings";
import { KeyForm, type KeyRecord } from "./key-form";
import { expiresSoon, hasExpired, isUnused, KeyState } from "./key-state";
import { RotateKey, useMayChangeKey } from "./rotate-key";

export default function Keys({ orgId }: OrganizationScreenProps) {
	const [isOpen, setOpen] = useState(false);
	const [rotated, setRotated] = useState<KeyRecord | undefined>();
	const [secret, setSecret] = useState<{ readonly value: string; readonly of?: KeyRecord } | undefined>();
	const may = useOrganizationMay(orgId);
	const keys = useAllPages("GET /apikey", { query: { org_id: orgId } });
	const apps = useAppsOfOrganization(orgId);
	const roles = useRoles(orgId);
	const create = useChange("POST /apikey", ({ key }) => {
		setOpen(false);
		setSecret({ value: key });
	});
	const mayManage = may("org.manage_apikeys") === true;
	useDo("new", () => setOpen(true), mayManage);
	return (
		<Screen
			title="API keys"
			note="For CI, scripts and the CLI."
			actions={mayManage ? <Button onClick={() => setOpen(true)}>New key</Button> : undefined}
		>
			<Answer query={keys} what="API keys">
				{(items) =>
					items.length === 0 ? (
						<Empty title="No API keys yet">
							{mayManage
								? "Create one for your CI, with only the roles that it needs."
								: "Ask an administrator of the organization to create one."}
						</Empty>
					) : (
						<KeyList orgId={orgId} keys={items} apps={apps.data ?? []} roles={roles} onRotate={setRotated} />
					)
				}
			</Answer>
			{isOpen ? (
				<KeyForm
					orgId={orgId}
					title="New API key"
					action="Create key"
					isPending={create.isPending}
					error={create.error}
					onClose={() => setOpen(false)}
					onSubmit={(fields) => create.mutate({ body: { ...fields, expires_at: fields.expires_at ?? null } })}
				/>
			) : null}
			{rotated === undefined ? null : (
				<RotateKey
					record={rotated}
					onClose={() => setRotated(undefined)}
					onDone={(value) => {
						setRotated(undefined);
						setSecret({ value, of: rotated });
					}}
				/>
			)}
			{secret === undefined ? null : (
				<SecretDialog
					title={secret.of === undefined ? "Your new API key" : `New secret of ${secret.of.name}`}
					label="Secret"
					value={secret.value}
					onClose={() => setSecret(undefined)}
				>
					{secret.of === undefined
						? "Copy it now: it is not shown again. Store it like a password, for example as a secret in your CI."
						: "Copy it now, and replace the old secret while that one is still valid."}
				</SecretDialog>
			)}
		</Screen>
	);
}

function KeyList({
	orgId,
	keys,
	apps,
	roles,
	onRotate,
}: {
	readonly orgId: string;
	readonly keys: readonly KeyRecord[];
	readonly apps: readonly AppRecord[];
	readonly roles: ReturnType<typeof useRoles>;
	readonly onRotate: (record: KeyRecord) => void;
}) {
	return (
		<WholeList
			label="API keys"
			noun={["API key", "API keys"]}
			isLinked
			rows={keys}
			rowKey={({ id }) => id}
			textOf={({ name, key_hint, bindings }) =>
				[name, key_hint, ...bindings.map(({ role_name }) => titleOf(roles, role_name))].join(" ")
			}
			first="name"
			descending={["used"]}
			chips={KINDS}
			columns={[
				{
					title: "Key",
					sort: "name",
					value: ({ name }) => name,
					cell: (key) => (
						<span className="named">
							<TextLink to={keyPath(orgId, key.id)}>
								<bdi title={key.name}>{key.name}</bdi>
							</TextLink>
							<KeyState record={key} />
						</span>
					),
				},
				{
					title: "Roles",
					wideOnly: true,
					width: 260,
					cell: ({ bindings, global_permissions }) => (
						<>
							<BindingList bindings={bindings} apps={apps} roles={roles} orgId={orgId} />
							{global_permissions.length === 0 ? null : <Text size="sm">May create organizations</Text>}
						</>
					),
				},
				{
					title: "Last used",
					sort: "used",
					value: ({ last_used_at }) => last_used_at,
					wideOnly: true,
					width: 116,
					cell: ({ last_used_at }) => (last_used_at === null ? "Never" : <Time value={last_used_at} />),
				},
				{
					title: "Expires",
					sort: "expires",
					value: ({ expires_at }) => expires_at,
					wideOnly: true,
					width: 116,
					cell: ({ expires_at }) => (expires_at === null ? "Never" : <Day value={expires_at} />),
				},
				{
					title: "Actions",
					width: 100,
					cell: (key) => <RotateInRow orgId={orgId} record={key} onRotate={() => onRotate(key)} />,
				},
			]}
		/>
	);
}

const KINDS = [
	{ value: "expiring", label: "Expiring", has: expiresSoon },
	{ value: "expired", label: "Expired", has: hasExpired },
	{ value: "unused", label: `Not used, ${UNUSED_DAYS} days`, has: isUnused },
];

/** Absent where the reader may not change the key. */
function RotateInRow({
	orgId,
	record,
	onRotate,
}: {
	readonly orgId: string;
	readonly record: KeyRecord;
	readonly onRotate: () => void;
}) {
	const { mayChange } = useMayChangeKey(orgId, record);
	if (mayChange !== true || record.org_id !== orgId) return null;
	return (
		<Button size="xs" variant="default" aria-label={`Rotate the secret of ${record.name}`} onClick={onRotate}>
			Rotate
		</Button>
	);
}
