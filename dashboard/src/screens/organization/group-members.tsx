/**
 * The people in a group. Who joins gets all roles of the group, and who leaves loses them, with the
 * keys that depend on them.
 */
import { Button, NativeSelect, Text } from "@mantine/core";
import { useState } from "react";
import { type AnswerOf, useAllPages, useChange } from "../../api";
import { Answer } from "../../components/answer";
import { Note } from "../../components/card";
import { formErrors } from "../../components/field-errors";
import { Confirm, FormDialog } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { LoweredKeys } from "../../components/role-effects";
import { Section } from "../../components/screen";
import { DataTable } from "../../components/table";
import { Time } from "../../components/time";
import { useGroupAdditionPlan, useGroupRemovalPlan } from "../../dry-runs";
import { useAppsOfOrganization } from "../../organizations";
import { useRoles } from "../../roles";
import type { GroupRecord, OfGroup } from "./groups";
import { bindingText } from "./member-bindings";

type GroupMember = AnswerOf<"GET /organization/groups/:id/members">[number];

const useMembersOfGroup = (groupId: string) =>
	useAllPages("GET /organization/groups/:id/members", {
		params: { id: groupId },
		query: { limit: "1000" },
	});

export function GroupMembers({
	orgId,
	group,
	mayChange,
}: {
	readonly orgId: string;
	readonly group: GroupRecord;
	readonly mayChange: boolean;
}) {
	const members = useMembersOfGroup(group.id);
	const [dialog, setDialog] = useState<"add" | GroupMember | undefined>();
	const close = () => setDialog(undefined);
	return (
		<Section
			title="Members"
			actions={
				mayChange ? (
					<Button size="xs" variant="default" onClick={() => setDialog("add")}>
						Add member
					</Button>
				) : undefined
			}
		>
			<Answer query={members} what="the members of the group">
				{(items) =>
					items.length === 0 ? (
						<Text size="sm">No members yet.</Text>
					) : (
						<DataTable
							label="Members of the group"
							rows={items}
							rowKey={({ user_id }) => user_id}
							columns={[
								{ title: "Person", cell: ({ email }) => email },
								{ title: "Added", wideOnly: true, cell: ({ added_at }) => <Time value={added_at} /> },
								...(mayChange
									? [
											{
												title: "Actions",
												cell: (member: GroupMember) => (
													<Button
														size="xs"
														variant="default"
														aria-label={`Remove ${member.email} from the group`}
														onClick={() => setDialog(member)}
													>
														Remove
													</Button>
												),
											},
										]
									: []),
							]}
						/>
					)
				}
			</Answer>
			{dialog === "add" ? (
				<AddMember
					orgId={orgId}
					group={group}
					present={(members.data ?? []).map(({ email }) => email)}
					onClose={close}
				/>
			) : null}
			{typeof dialog === "object" ? (
				<RemoveFromGroup orgId={orgId} group={group} member={dialog} onClose={close} />
			) : null}
		</Section>
	);
}

const MEMBER_ERRORS = ["email", "member_not_found", "permission_denied"];

function AddMember({ orgId, group, present, onClose }: OfGroup & { readonly present: readonly string[] }) {
	const members = useAllPages("GET /organization/members", { query: { orgId, limit: "1000" } });
	const roles = useRoles(orgId);
	const apps = useAppsOfOrganization(orgId).data ?? [];
	const [email, setEmail] = useState("");
	const plan = useGroupAdditionPlan(group.id, email);
	const add = useChange("POST /organization/groups/:id/members", () => {
		notify(`${email} is now in ${group.name}.`);
		onClose();
	});
	const errors = formErrors(add.error ?? plan.error, MEMBER_ERRORS);
	// An invited person joins groups after the invitation is accepted.
	const choices = (members.data ?? []).filter((member) => !member.is_tmp && !present.includes(member.email));
	return (
		<FormDialog
			title={`Add a member to ${group.name}`}
			action="Add member"
			isPending={add.isPending}
			isReady={email !== "" && plan.data != null}
			error={errors.rest}
			onSubmit={() => add.mutate({ params: { id: group.id }, body: { email } })}
			onClose={onClose}
		>
			<NativeSelect
				label="Member"
				required
				error={errors.at(...MEMBER_ERRORS)}
				value={email}
				onChange={(event) => setEmail(event.currentTarget.value)}
				data={[
					{ value: "", label: "Choose a member" },
					...choices.map((member) => ({ value: member.email, label: member.email })),
				]}
			/>
			{plan.data == null ? null : (
				<div role="status">
					{plan.data.bindings.length === 0 ? (
						<Note>The group has no roles yet, so they gain nothing.</Note>
					) : (
						<Note tone="info" title="They get these roles">
							<ul>
								{plan.data.bindings.map((binding) => (
									<li key={binding.id}>{bindingText(binding, roles, apps)}</li>
								))}
							</ul>
						</Note>
					)}
				</div>
			)}
		</FormDialog>
	);
}

function RemoveFromGroup({ orgId, group, member, onClose }: OfGroup & { readonly member: GroupMember }) {
	const roles = useRoles(orgId);
	const apps = useAppsOfOrganization(orgId).data ?? [];
	const plan = useGroupRemovalPlan(group.id, member.user_id);
	const remove = useChange("DELETE /organization/groups/:id/members/:user_id", () => {
		notify(`${member.email} is no longer in ${group.name}.`);
		onClose();
	});
	return (
		<Confirm
			title={`Remove ${member.email} from ${group.name}?`}
			action="Remove from group"
			isPending={remove.isPending}
			isReady={plan.data !== undefined}
			error={remove.error}
			onClose={onClose}
			onConfirm={() => remove.mutate({ params: { id: group.id, user_id: member.user_id } })}
		>
			<Text size="sm">
				{group.bindings.length === 0
					? "The group has no roles, so they lose nothing."
					: `They lose the roles of the group: ${group.bindings.map((binding) => bindingText(binding, roles, apps)).join(", ")}. Their own roles stay.`}
			</Text>
			<Answer query={plan} what="the consequences">
				{({ lowered_api_keys }) => <LoweredKeys keys={lowered_api_keys} roles={roles} />}
			</Answer>
		</Confirm>
	);
}
