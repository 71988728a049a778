/** The API keys of an organization: all of them, or those that nobody has used for long. */
import { Badge, Button, Checkbox, Code, Group, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useChange, usePage } from "../api";
import type { OrganizationScreenProps } from "../app";
import { Answer } from "../parts/answer";
import { useAppsOfOrganization } from "../parts/app-list";
import { useFilters } from "../parts/filters";
import { TextLink } from "../parts/link";
import { Empty, Screen } from "../parts/screen";
import { SecretDialog } from "../parts/secret";
import { DataTable, Pager, usePageNumber } from "../parts/table";
import { Time } from "../parts/time";
import { keyPath } from "../paths";
import { useOrganizationMay } from "../permissions";
import { BindingList } from "./key-bindings";
import { KeyForm } from "./key-form";

const UNUSED_DAYS = "90";

export default function Keys({ orgId }: OrganizationScreenProps) {
	const [page, setPage] = usePageNumber();
	const [filters, setFilters] = useFilters(["unused"]);
	const isUnusedOnly = filters.unused !== "";
	const [isOpen, setOpen] = useState(false);
	const [secret, setSecret] = useState<string | undefined>();
	const may = useOrganizationMay(orgId);
	const apps = useAppsOfOrganization(orgId);
	const keys = usePage(
		"GET /apikey",
		{ query: { org_id: orgId, ...(isUnusedOnly ? { unused_for_days: UNUSED_DAYS } : {}) } },
		page,
	);
	const create = useChange("POST /apikey", ({ key }) => {
		setOpen(false);
		setSecret(key);
	});
	const mayManage = may("org.manage_apikeys") === true;
	return (
		<Screen
			title="API keys"
			note="What programs carry: CI, scripts, the command line."
			actions={mayManage ? <Button onClick={() => setOpen(true)}>New key</Button> : undefined}
		>
			<Checkbox
				label="Only keys that nobody used for 90 days"
				checked={isUnusedOnly}
				onChange={(event) => setFilters({ unused: event.currentTarget.checked ? "yes" : "" })}
			/>
			<Answer query={keys} what="API keys">
				{({ items, hasNext }) =>
					items.length === 0 && page === 0 ? (
						<Empty title={isUnusedOnly ? "Every key is in use" : "No API keys"}>
							{isUnusedOnly
								? "Keys that were made or used within 90 days are not listed here."
								: mayManage
									? "Make one for your CI, with no more rights than it needs."
									: "Ask an administrator of the organization for one."}
						</Empty>
					) : (
						<Stack gap="sm">
							<DataTable
								label="API keys"
								rows={items}
								rowKey={({ id }) => id}
								columns={[
									{
										title: "Name",
										cell: (key) => (
											<Stack gap={2}>
												<TextLink to={keyPath(orgId, key.id)}>{key.name}</TextLink>
												<Code w="fit-content">{key.key_hint}</Code>
												{key.revealed_at === null ? null : (
													<Text size="xs" c="dimmed">
														Secret seen <Time value={key.revealed_at} />
													</Text>
												)}
											</Stack>
										),
									},
									{
										title: "May act as",
										wideOnly: true,
										cell: ({ bindings, global_permissions }) => (
											<Stack gap={4}>
												<BindingList bindings={bindings} apps={apps.data ?? []} orgId={orgId} />
												{global_permissions.length === 0 ? null : <Text size="sm">creates organizations</Text>}
											</Stack>
										),
									},
									{ title: "Expires", cell: ({ expires_at }) => <Expiry at={expires_at} /> },
									{
										title: "Last used",
										wideOnly: true,
										cell: ({ last_used_at }) => (last_used_at === null ? "Never" : <Time value={last_used_at} />),
									},
								]}
							/>
							<Pager page={page} hasNext={hasNext} onPage={setPage} />
						</Stack>
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
					This is the only time that it is shown. Keep it where you keep passwords, for example as a secret of your CI.
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
			{isOver ? (
				<Badge variant="light" color="red" tt="none">
					Expired
				</Badge>
			) : null}
		</Group>
	);
}
