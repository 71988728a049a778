/**
 * The roles of a group on apps and channels: listed, added and removed. Each member of the group
 * gets or loses them at once.
 */
import { Button, Text } from "@mantine/core";
import { useState } from "react";
import { permissionTexts } from "../../../../src/authz/permission-texts";
import { useChange } from "../../api";
import { Answer } from "../../components/answer";
import { Note } from "../../components/card";
import { formErrors } from "../../components/field-errors";
import { Confirm, FormDialog } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { LoweredKeys } from "../../components/role-effects";
import { Section } from "../../components/screen";
import { countOf } from "../../components/size";
import { DataTable } from "../../components/table";
import { useGroupGrantPlan, useGroupRevocationPlan } from "../../dry-runs";
import { useAppsOfOrganization } from "../../organizations";
import { covers, useHeld } from "../../permissions";
import { roleIn, titleOf, useRoles } from "../../roles";
import type { GroupRecord, OfGroup } from "./groups";
import { bindingText, placeText } from "./member-bindings";
import { isComplete, NO_PLACE, PLACE_ERRORS, type PlacedRole, PlacedRoleFields, placedBody } from "./placed-role";

type GroupBinding = GroupRecord["bindings"][number];

export function GroupRoles({
	orgId,
	group,
	mayChange,
}: {
	readonly orgId: string;
	readonly group: GroupRecord;
	readonly mayChange: boolean;
}) {
	const [dialog, setDialog] = useState<"add" | GroupBinding | undefined>();
	const close = () => setDialog(undefined);
	const roles = useRoles(orgId);
	const held = useHeld(orgId);
	const apps = useAppsOfOrganization(orgId).data ?? [];
	return (
		<Section
			title="Roles"
			actions={
				mayChange ? (
					<Button size="xs" variant="default" onClick={() => setDialog("add")}>
						Add role
					</Button>
				) : undefined
			}
		>
			{group.bindings.length === 0 ? (
				<Text size="sm">No roles yet. The members of the group get nothing by it.</Text>
			) : (
				<DataTable
					label="Roles of the group"
					rows={group.bindings}
					rowKey={({ id }) => id}
					columns={[
						{ title: "Role", cell: ({ role_name }) => titleOf(roles, role_name) },
						{ title: "On", cell: (binding) => placeText(binding, apps) },
						...(mayChange
							? [
									{
										title: "Actions",
										cell: (binding: GroupBinding) =>
											covers(held, roleIn(roles, binding.role_name)) ? (
												<Button
													size="xs"
													variant="default"
													aria-label={`Remove ${bindingText(binding, roles, apps)}`}
													onClick={() => setDialog(binding)}
												>
													Remove
												</Button>
											) : null,
									},
								]
							: []),
					]}
				/>
			)}
			{dialog === "add" ? <AddGroupRole orgId={orgId} group={group} onClose={close} /> : null}
			{typeof dialog === "object" ? (
				<RemoveGroupRole orgId={orgId} group={group} binding={dialog} onClose={close} />
			) : null}
		</Section>
	);
}

function AddGroupRole({ orgId, group, onClose }: OfGroup) {
	const roles = useRoles(orgId);
	const apps = useAppsOfOrganization(orgId).data ?? [];
	const [placed, setPlaced] = useState<PlacedRole>(NO_PLACE);
	const body = isComplete(placed, roles) ? placedBody(placed) : undefined;
	const plan = useGroupGrantPlan(group.id, body);
	const grant = useChange("POST /organization/groups/:id/bindings", (binding) => {
		notify(`${group.name} is now ${bindingText(binding, roles, apps)}.`);
		onClose();
	});
	const errors = formErrors(grant.error ?? plan.error, PLACE_ERRORS);
	return (
		<FormDialog
			title={`Add a role for ${group.name}`}
			action="Add role"
			isPending={grant.isPending}
			isReady={body !== undefined && plan.data != null}
			error={errors.rest}
			onSubmit={() => {
				if (body !== undefined) grant.mutate({ params: { id: group.id }, body });
			}}
			onClose={onClose}
		>
			<PlacedRoleFields orgId={orgId} apps={apps} placed={placed} errors={errors} onChange={setPlaced} />
			{plan.data == null || body === undefined ? null : (
				<div role="status">
					<Note
						tone="info"
						title={
							plan.data.member_count === 0
								? "The group has no members yet"
								: `${countOf(plan.data.member_count, "member")} ${plan.data.member_count === 1 ? "gets" : "get"} this role`
						}
					>
						It permits: {permissionTexts(roleIn(roles, placed.role)?.permissions ?? [])}.
					</Note>
				</div>
			)}
		</FormDialog>
	);
}

function RemoveGroupRole({ orgId, group, binding, onClose }: OfGroup & { readonly binding: GroupBinding }) {
	const roles = useRoles(orgId);
	const apps = useAppsOfOrganization(orgId).data ?? [];
	const text = bindingText(binding, roles, apps);
	const plan = useGroupRevocationPlan(group.id, binding.id);
	const remove = useChange("DELETE /organization/groups/:id/bindings/:binding_id", () => {
		notify(`${group.name} is no longer ${text}.`);
		onClose();
	});
	return (
		<Confirm
			title={`Remove a role from ${group.name}?`}
			action="Remove role"
			isPending={remove.isPending}
			isReady={plan.data !== undefined}
			error={remove.error}
			onClose={onClose}
			onConfirm={() => remove.mutate({ params: { id: group.id, binding_id: binding.id } })}
		>
			<Text size="sm">
				{text}. {countOf(group.member_count, "member")} {group.member_count === 1 ? "loses" : "lose"} what no other role
				of theirs permits there.
			</Text>
			<Answer query={plan} what="the consequences">
				{({ lowered_api_keys }) => <LoweredKeys keys={lowered_api_keys} roles={roles} />}
			</Answer>
		</Confirm>
	);
}
