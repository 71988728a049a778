/**
 * One group: its members and its roles on apps and channels. Every change that takes a right from
 * people names the consequences first.
 */
import { Button, Text } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { useChange } from "../../api";
import { Answer } from "../../components/answer";
import { Confirm, FormDialog } from "../../components/form-dialog";
import { Found, Missing } from "../../components/missing";
import { notify } from "../../components/notify";
import { LoweredKeys } from "../../components/role-effects";
import { Screen } from "../../components/screen";
import { countOf } from "../../components/size";
import { useGroupDeletionPlan } from "../../dry-runs";
import { organizationPath } from "../../paths";
import { covers, useHeld, useOrganizationMay } from "../../permissions";
import { roleIn, useRoles } from "../../roles";
import type { OrganizationItemProps } from "../../screen-props";
import { GroupMembers } from "./group-members";
import { GroupRoles } from "./group-roles";
import { GroupFields, type GroupRecord, groupErrors, useGroups } from "./groups";

export default function Group({ orgId, item }: OrganizationItemProps) {
	const groups = useGroups(orgId);
	const missing = {
		kind: "group",
		name: item,
		because: "It was deleted, or it belongs to another organization.",
		list: { to: organizationPath(orgId, "groups"), label: "All groups" },
	};
	return (
		<Found query={groups} {...missing}>
			{(all) => {
				const group = all.find(({ id }) => id === item);
				return group === undefined ? <Missing {...missing} /> : <Details orgId={orgId} group={group} />;
			}}
		</Found>
	);
}

function Details({ orgId, group }: { readonly orgId: string; readonly group: GroupRecord }) {
	const [dialog, setDialog] = useState<"rename" | "delete" | undefined>();
	const close = () => setDialog(undefined);
	const roles = useRoles(orgId);
	const held = useHeld(orgId);
	const mayChange = useOrganizationMay(orgId)("org.update_user_roles") === true;
	// Adding and removing people gives and takes all roles of the group.
	const coversAll = group.bindings.every(({ role_name }) => covers(held, roleIn(roles, role_name)));
	return (
		<Screen
			title={group.name}
			note={group.description}
			actions={
				mayChange ? (
					<>
						<Button variant="default" onClick={() => setDialog("rename")}>
							Edit group
						</Button>
						{coversAll ? (
							<Button variant="danger" onClick={() => setDialog("delete")}>
								Delete group
							</Button>
						) : null}
					</>
				) : undefined
			}
		>
			{mayChange && !coversAll ? (
				<Text size="sm" c="dimmed">
					This group has a role that permits more than yours, so you cannot change its members.
				</Text>
			) : null}
			<GroupRoles orgId={orgId} group={group} mayChange={mayChange} />
			<GroupMembers orgId={orgId} group={group} mayChange={mayChange && coversAll} />
			{dialog === "rename" ? <EditGroup group={group} onClose={close} /> : null}
			{dialog === "delete" ? <DeleteGroup orgId={orgId} group={group} onClose={close} /> : null}
		</Screen>
	);
}

function EditGroup({ group, onClose }: { readonly group: GroupRecord; readonly onClose: () => void }) {
	const [fields, setFields] = useState({ name: group.name, description: group.description });
	const change = useChange("PUT /organization/groups/:id", ({ name }) => {
		notify(`Group ${name} saved.`);
		onClose();
	});
	return (
		<FormDialog
			title={`Edit ${group.name}`}
			action="Save group"
			isPending={change.isPending}
			isReady={fields.name !== ""}
			error={groupErrors(change.error).rest}
			onSubmit={() => change.mutate({ params: { id: group.id }, body: fields })}
			onClose={onClose}
		>
			<GroupFields {...fields} error={change.error} onChange={setFields} />
		</FormDialog>
	);
}

function DeleteGroup({
	orgId,
	group,
	onClose,
}: {
	readonly orgId: string;
	readonly group: GroupRecord;
	readonly onClose: () => void;
}) {
	const [, navigate] = useLocation();
	const roles = useRoles(orgId);
	const plan = useGroupDeletionPlan(group.id);
	const remove = useChange("DELETE /organization/groups/:id", () => {
		notify(`Group ${group.name} deleted.`);
		navigate(organizationPath(orgId, "groups"));
	});
	return (
		<Confirm
			title={`Delete the group ${group.name}?`}
			action="Delete group"
			isPending={remove.isPending}
			isReady={plan.data !== undefined}
			error={remove.error}
			onClose={onClose}
			onConfirm={() => remove.mutate({ params: { id: group.id } })}
		>
			<Text size="sm">
				{group.member_count === 0
					? "It has no members."
					: `${countOf(group.member_count, "member")} ${group.member_count === 1 ? "loses" : "lose"} ${countOf(group.bindings.length, "role")} of the group. Their own roles stay.`}
			</Text>
			<Answer query={plan} what="the consequences">
				{({ lowered_api_keys }) => <LoweredKeys keys={lowered_api_keys} roles={roles} />}
			</Answer>
		</Confirm>
	);
}
