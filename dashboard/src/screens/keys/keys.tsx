/** The API keys of an organization, optionally only the unused ones. */

import { Button, Checkbox, Code, Group, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { UNUSED_DAYS } from "../../../../src/domain/defaults";
import { useAllPages, useChange } from "../../api";
import { Answer } from "../../components/answer";
import { Badge } from "../../components/badge";
import { useDo } from "../../components/do";
import { useFilters } from "../../components/filters";
import { TextLink } from "../../components/link";
import { Empty, Screen } from "../../components/screen";
import { SecretDialog } from "../../components/secret";
import { Time } from "../../components/time";
import { WholeList } from "../../components/whole-list";
import { useAppsOfOrganization } from "../../organizations";
import { keyPath } from "../../paths";
import { useOrganizationMay } from "../../permissions";
import { titleOf, useRoles } from "../../roles";
import type { OrganizationScreenProps } from "../../screen-props";
import { BindingList } from "./key-bindings";
import { KeyForm } from "./key-form";

export default function Keys({ orgId }: OrganizationScreenProps) {
	const [filters, setFilters] = useFilters(["unused"]);
	const isUnusedOnly = filters.unused !== "";
	const [isOpen, setOpen] = useState(false);
	const [secret, setSecret] = useState<string | undefined>();
	const may = useOrganizationMay(orgId);
	const apps = useAppsOfOrganization(orgId);
	const roles = useRoles(orgId);
	const keys = useAllPages("GET /apikey", {
		query: { org_id: orgId, ...(isUnusedOnly ? { unused_for_days: String(UNUSED_DAYS) } : {}) },
	});
	const create = useChange("POST /apikey", ({ key }) => {
		setOpen(false);
		setSecret(key);
	});
	const mayManage = may("org.manage_apikeys") === true;
	useDo("new", () => setOpen(true), mayManage);
	return (
		<Screen
			title="API keys"
			note="For CI, scripts and the CLI."
			actions={mayManage ? <Button onClick={() => setOpen(true)}>New key</Button> : undefined}
		>
			<Checkbox
				label={`Only keys unused for ${UNUSED_DAYS} days`}
				checked={isUnusedOnly}
				onChange={(event) => setFilters({ unused: event.currentTarget.checked ? "yes" : "" })}
			/>
			<Answer query={keys} what="API keys">
				{(items) =>
					items.length === 0 ? (
						<Empty title={isUnusedOnly ? "No unused keys" : "No API keys yet"}>
							{isUnusedOnly
								? `Every key was created or used within the last ${UNUSED_DAYS} days.`
								: mayManage
									? "Create one for your CI, with only the roles that it needs."
									: "Ask an administrator of the organization to create one."}
						</Empty>
					) : (
						<WholeList
							label="API keys"
							noun={["API key", "API keys"]}
							isLinked
							rows={items}
							rowKey={({ id }) => id}
							textOf={({ name, key_hint, bindings }) =>
								[name, key_hint, ...bindings.map(({ role_name }) => titleOf(roles, role_name))].join(" ")
							}
							first="name"
							descending={["used"]}
							columns={[
								{
									title: "Name",
									sort: "name",
									value: ({ name }) => name,
									cell: (key) => (
										<Stack gap={2}>
											<TextLink to={keyPath(orgId, key.id)}>{key.name}</TextLink>
											<Code w="fit-content">{key.key_hint}</Code>
											{key.revealed_at === null ? null : (
												<Text size="xs" c="dimmed">
													Secret revealed <Time value={key.revealed_at} />
												</Text>
											)}
										</Stack>
									),
								},
								{
									title: "Roles",
									wideOnly: true,
									cell: ({ bindings, global_permissions }) => (
										<Stack gap={4}>
											<BindingList bindings={bindings} apps={apps.data ?? []} roles={roles} orgId={orgId} />
											{global_permissions.length === 0 ? null : <Text size="sm">May create organizations</Text>}
										</Stack>
									),
								},
								{
									title: "Expires",
									sort: "expires",
									value: ({ expires_at }) => expires_at,
									cell: ({ expires_at }) => <Expiry at={expires_at} />,
								},
								{
									title: "Last used",
									sort: "used",
									value: ({ last_used_at }) => last_used_at,
									wideOnly: true,
									cell: ({ last_used_at }) => (last_used_at === null ? "Never" : <Time value={last_used_at} />),
								},
							]}
						/>
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
			{secret === undefined ? null : (
				<SecretDialog title="Your new API key" label="Secret" value={secret} onClose={() => setSecret(undefined)}>
					Copy it now: it is not shown again. Store it like a password, for example as a secret in your CI.
				</SecretDialog>
			)}
		</Screen>
	);
}

export function Expiry({ at }: { readonly at: string | null }) {
	if (at === null) return <Text size="sm">Never</Text>;
	const isOver = new Date(at).getTime() < Date.now();
	return (
		<Group gap={6}>
			<Time value={at} />
			{isOver ? <Badge tone="bad">Expired</Badge> : null}
		</Group>
	);
}
