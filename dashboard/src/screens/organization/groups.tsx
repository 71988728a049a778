/**
 * Groups of an organization: people who get the same roles on apps and channels. A new group has
 * neither people nor roles.
 */
import { Button, Stack, Text, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { type AnswerOf, useAllPages, useChange } from "../../api";
import { Answer } from "../../components/answer";
import { useDo } from "../../components/do";
import { formErrors } from "../../components/field-errors";
import { FormDialog } from "../../components/form-dialog";
import { TextLink } from "../../components/link";
import { notify } from "../../components/notify";
import { useIsPhone } from "../../components/phone";
import { Empty, Screen } from "../../components/screen";
import { countText } from "../../components/size";
import { WholeList } from "../../components/whole-list";
import { useAppsOfOrganization } from "../../organizations";
import { groupPath } from "../../paths";
import { useOrganizationMay } from "../../permissions";
import { useRoles } from "../../roles";
import type { OrganizationScreenProps } from "../../screen-props";
import { bindingText } from "./member-bindings";

export type GroupRecord = AnswerOf<"GET /organization/groups">[number];

/** Properties of a dialog about one group. */
export interface OfGroup {
	readonly orgId: string;
	readonly group: GroupRecord;
	readonly onClose: () => void;
}

export const useGroups = (orgId: string) => useAllPages("GET /organization/groups", { query: { orgId } });

export default function Groups({ orgId }: OrganizationScreenProps) {
	const groups = useGroups(orgId);
	const roles = useRoles(orgId);
	const apps = useAppsOfOrganization(orgId).data ?? [];
	const mayChange = useOrganizationMay(orgId)("org.update_user_roles") === true;
	const [isOpen, setOpen] = useState(false);
	// There is no room for another column.
	const isPhone = useIsPhone();
	useDo("new", () => setOpen(true), mayChange);
	const rolesOf = ({ bindings }: GroupRecord) =>
		bindings.length === 0 ? (
			<Text size="sm" c="dimmed">
				No roles
			</Text>
		) : (
			<Stack gap={2}>
				{bindings.map((binding) => (
					<Text size="sm" key={binding.id}>
						{bindingText(binding, roles, apps)}
					</Text>
				))}
			</Stack>
		);
	return (
		<Screen
			title="Groups"
			note="The members of a group get its roles on apps and channels, beside their own."
			actions={mayChange ? <Button onClick={() => setOpen(true)}>New group</Button> : undefined}
		>
			<Answer query={groups} what="groups">
				{(items) =>
					items.length === 0 ? (
						<Empty title="No groups yet">
							{mayChange
								? "Create one to give several people the same roles at once."
								: "An administrator can create groups of people with the same roles."}
						</Empty>
					) : (
						<WholeList
							label="Groups"
							noun={["group", "groups"]}
							isLinked
							first="name"
							rows={items}
							rowKey={({ id }) => id}
							textOf={({ name, description, bindings }) =>
								[name, description, ...bindings.map((binding) => bindingText(binding, roles, apps))].join(" ")
							}
							columns={[
								{
									title: "Group",
									sort: "name",
									value: ({ name }) => name,
									cell: (group) => (
										<Stack gap={2}>
											<TextLink to={groupPath(orgId, group.id)}>{group.name}</TextLink>
											{group.description === "" ? null : (
												<Text size="sm" c="dimmed">
													{group.description}
												</Text>
											)}
											{isPhone ? rolesOf(group) : null}
										</Stack>
									),
								},
								{
									title: "Members",
									sort: "members",
									value: ({ member_count }) => member_count,
									alignEnd: true,
									cell: ({ member_count }) => countText(member_count),
								},
								{ title: "Roles", wideOnly: true, cell: rolesOf },
							]}
						/>
					)
				}
			</Answer>
			{isOpen ? <NewGroup orgId={orgId} onClose={() => setOpen(false)} /> : null}
		</Screen>
	);
}

const NAME_ERRORS = ["name", "group_already_exists"];

/** Name and description of a group, for the forms that create and rename one. */
export function GroupFields({
	name,
	description,
	error,
	onChange,
}: {
	readonly name: string;
	readonly description: string;
	readonly error: Error | null;
	readonly onChange: (fields: { readonly name: string; readonly description: string }) => void;
}) {
	const errors = groupErrors(error);
	return (
		<>
			<TextInput
				label="Name"
				required
				data-autofocus
				maxLength={128}
				error={errors.at(...NAME_ERRORS)}
				value={name}
				onChange={(event) => onChange({ name: event.currentTarget.value, description })}
			/>
			<Textarea
				label="Description"
				autosize
				maxLength={500}
				error={errors.at("description")}
				value={description}
				onChange={(event) => onChange({ name, description: event.currentTarget.value })}
			/>
		</>
	);
}

export const groupErrors = (error: Error | null) => formErrors(error, [...NAME_ERRORS, "description"]);

function NewGroup({ orgId, onClose }: { readonly orgId: string; readonly onClose: () => void }) {
	const [fields, setFields] = useState({ name: "", description: "" });
	const [, navigate] = useLocation();
	const create = useChange("POST /organization/groups", ({ id, name }) => {
		notify(`Group ${name} created.`);
		navigate(groupPath(orgId, id));
	});
	return (
		<FormDialog
			title="New group"
			action="Create group"
			isPending={create.isPending}
			isReady={fields.name !== ""}
			error={groupErrors(create.error).rest}
			onSubmit={() => create.mutate({ body: { orgId, ...fields } })}
			onClose={onClose}
		>
			<GroupFields {...fields} error={create.error} onChange={setFields} />
		</FormDialog>
	);
}
