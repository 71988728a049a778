/**
 * Roles of an organization: those that it defined, which can be changed, and the built-in ones,
 * each with what it permits in plain words.
 */
import { Button, Code, Group, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { permissionText, permissionTexts } from "../../../../src/authz/permission-texts";
import { useAsk } from "../../api";
import { Answer } from "../../components/answer";
import { useDo } from "../../components/do";
import { Icon } from "../../components/icon";
import { useIsPhone } from "../../components/phone";
import { Empty, Screen, Section } from "../../components/screen";
import { countOf } from "../../components/size";
import { DataTable } from "../../components/table";
import { IconChevronRight } from "../../icons";
import { covers, useHeld, useOrganizationMay } from "../../permissions";
import { type KnownRole, knownRole, LEVEL_TEXTS } from "../../roles";
import type { OrganizationScreenProps } from "../../screen-props";
import { DeleteRole } from "./role-deletion";
import { ChangeRoleForm, NewRoleForm } from "./role-form";

type Dialog = "new" | { readonly kind: "change" | "delete"; readonly role: KnownRole };

export default function Roles({ orgId }: OrganizationScreenProps) {
	const answer = useAsk("GET /organization/roles", { query: { orgId } });
	const mayChange = useOrganizationMay(orgId)("org.update_user_roles") === true;
	const held = useHeld(orgId);
	const [dialog, setDialog] = useState<Dialog | undefined>();
	const close = () => setDialog(undefined);
	useDo("new", () => setDialog("new"), mayChange);
	const open = mayChange ? (kind: "change" | "delete", role: KnownRole) => setDialog({ kind, role }) : undefined;
	return (
		<Screen
			title="Roles"
			note="A role permits a set of actions on the organization, on one app or on one channel."
			actions={mayChange ? <Button onClick={() => setDialog("new")}>New role</Button> : undefined}
		>
			<Answer query={answer} what="roles">
				{(records) => {
					const roles = records.map(knownRole);
					const custom = roles.filter(({ isCustom }) => isCustom);
					return (
						<>
							<Section title="Custom roles">
								{custom.length === 0 ? (
									<Empty title="No custom roles yet">
										{mayChange
											? "Create one if no built-in role permits exactly what a person or a key needs."
											: "An administrator can create roles of your organization."}
									</Empty>
								) : (
									<RoleTable
										label="Custom roles"
										roles={custom}
										actions={
											open === undefined
												? undefined
												: (role) => (covers(held, role) ? <RoleActions role={role} onOpen={open} /> : <OnlyStronger />)
										}
									/>
								)}
							</Section>
							<Section title="Built-in roles">
								<RoleTable
									label="Built-in roles"
									roles={roles.filter(({ isCustom, assignable }) => !isCustom && assignable)}
								/>
							</Section>
						</>
					);
				}}
			</Answer>
			{dialog === "new" ? <NewRoleForm orgId={orgId} onClose={close} /> : null}
			{typeof dialog === "object" && dialog.kind === "change" ? (
				<ChangeRoleForm orgId={orgId} role={dialog.role} onClose={close} />
			) : null}
			{typeof dialog === "object" && dialog.kind === "delete" ? (
				<DeleteRole orgId={orgId} role={dialog.role} onClose={close} />
			) : null}
		</Screen>
	);
}

const OnlyStronger = () => (
	<Text size="sm" c="dimmed">
		Permits more than your role
	</Text>
);

function RoleActions({
	role,
	onOpen,
}: {
	readonly role: KnownRole;
	readonly onOpen: (kind: "change" | "delete", role: KnownRole) => void;
}) {
	return (
		<Group gap="xs">
			<Button size="xs" variant="default" aria-label={`Change ${role.title}`} onClick={() => onOpen("change", role)}>
				Change
			</Button>
			<Button size="xs" variant="default" aria-label={`Delete ${role.title}`} onClick={() => onOpen("delete", role)}>
				Delete
			</Button>
		</Group>
	);
}

function RoleTable({
	label,
	roles,
	actions,
}: {
	readonly label: string;
	readonly roles: readonly KnownRole[];
	readonly actions?: ((role: KnownRole) => React.ReactNode) | undefined;
}) {
	// There is no room for another column.
	const isPhone = useIsPhone();
	return (
		<DataTable
			label={label}
			rows={roles}
			rowKey={({ name }) => name}
			columns={[
				{
					title: "Role",
					cell: (role) => (
						<Stack gap={2}>
							<span>{role.title}</span>
							{role.isCustom ? <Code w="fit-content">{role.name}</Code> : null}
							{role.description === "" ? null : (
								<Text size="sm" c="dimmed">
									{role.description}
								</Text>
							)}
							{isPhone ? <Permissions role={role} /> : null}
						</Stack>
					),
				},
				{ title: "Given on", wideOnly: true, cell: ({ scopeType }) => LEVEL_TEXTS[scopeType] },
				{ title: "Permissions", wideOnly: true, cell: (role) => <Permissions role={role} /> },
				...(actions === undefined ? [] : [{ title: "Actions", cell: actions }]),
			]}
		/>
	);
}

/** Longer lists are folded. */
const SEEN_AT_ONCE = 4;

function Permissions({ role: { title, permissions } }: { readonly role: KnownRole }) {
	if (permissions.length <= SEEN_AT_ONCE) return <Text size="sm">{permissionTexts(permissions)}</Text>;
	return (
		<details className="fold">
			<summary aria-label={`${countOf(permissions.length, "permission")} of ${title}`}>
				<Icon of={IconChevronRight} size="s" />
				{countOf(permissions.length, "permission")}
			</summary>
			<ul>
				{permissions.map((permission) => (
					<li key={permission}>{permissionText(permission)}</li>
				))}
			</ul>
		</details>
	);
}
