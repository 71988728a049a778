/**
 * Dialogs of the member list: invite a person, change a role, remove a member. What a change takes
 * away is shown before it.
 */
import { Checkbox, NativeSelect, Text, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";
import { administersOrganization } from "../../../../src/authz/permissions";
import { type AnswerOf, type RequestOf, useAsk, useChange } from "../../api";
import { Answer } from "../../components/answer";
import { formErrors } from "../../components/field-errors";
import { Confirm, FormDialog } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { countOf } from "../../components/size";
import { useRemovalPlan, useRolePlan } from "../../dry-runs";
import { memberRoles, useHeld, useMayCreateOrganizations } from "../../permissions";
import { roleIn, roleOptions, titleOf, useRoles } from "../../roles";

export type Member = AnswerOf<"GET /organization/members">[number];
type MemberRole = RequestOf<"PUT /organization/members">["body"]["role"];

const ADDRESS_ERRORS = ["email", "already_member"];
const ROLE_ERRORS = ["role", "cannot_remove_last_super_admin", "cannot_remove_higher_role"];

function RoleSelect({
	orgId,
	value,
	error,
	onChange,
}: {
	readonly orgId: string;
	readonly value: MemberRole;
	readonly error: string | undefined;
	readonly onChange: (role: MemberRole) => void;
}) {
	const roles = useRoles(orgId);
	const held = useHeld(orgId);
	const given = memberRoles(roles, held);
	const { description = "" } = roleIn(given, value) ?? {};
	return (
		<NativeSelect
			label="Role"
			error={error}
			description={
				roleIn(given, value)?.isCustom === true
					? description || "A role that your organization defined."
					: "Billing administrators see the organization and its members, and no apps. Members see everything and can create apps. Administrators change everything. Owners can also delete the organization."
			}
			data={roleOptions(given)}
			value={value}
			onChange={(event) => onChange(event.currentTarget.value as MemberRole)}
		/>
	);
}

export function Invite({
	orgId,
	onClose,
	onDone,
}: {
	readonly orgId: string;
	readonly onClose: () => void;
	readonly onDone: (invitation: AnswerOf<"POST /organization/members">) => void;
}) {
	const [email, setEmail] = useState("");
	const [role, setRole] = useState<MemberRole>("org_member");
	const [note, setNote] = useState("");
	const invite = useChange("POST /organization/members", onDone);
	const errors = formErrors(invite.error, [...ADDRESS_ERRORS, ...ROLE_ERRORS, "note"]);
	return (
		<FormDialog
			title="Invite member"
			action="Create invite link"
			isPending={invite.isPending}
			error={errors.rest}
			onSubmit={() =>
				invite.mutate({ body: { orgId, email, role, ...(note.trim() === "" ? {} : { note: note.trim() }) } })
			}
			onClose={onClose}
		>
			<TextInput
				type="email"
				label="E-mail address"
				error={errors.at(...ADDRESS_ERRORS)}
				description="Capstan sends no e-mail. You get a link to send to them."
				required
				data-autofocus
				value={email}
				onChange={(event) => setEmail(event.currentTarget.value)}
			/>
			<RoleSelect orgId={orgId} value={role} error={errors.at(...ROLE_ERRORS)} onChange={setRole} />
			<Textarea
				label="Note (optional)"
				description="They read it on the page of the link."
				error={errors.at("note")}
				autosize
				minRows={1}
				maxRows={5}
				maxLength={500}
				value={note}
				onChange={(event) => setNote(event.currentTarget.value)}
			/>
		</FormDialog>
	);
}

/**
 * Changes a role and, for administering roles, the permission to create organizations: two
 * requests, one after the other.
 */
export function ChangeRole({
	orgId,
	member,
	onClose,
	onLink,
}: {
	readonly orgId: string;
	readonly member: Member;
	readonly onClose: () => void;
	/** Changing the role of an open invitation creates a new link. */
	readonly onLink: (invitation: { readonly email: string; readonly link: string }) => void;
}) {
	const [role, setRole] = useState<MemberRole>(member.role as MemberRole);
	const createdBefore = member.global_permissions.includes("org.create");
	const [mayCreate, setMayCreate] = useState(createdBefore);
	const isOperator = useAsk("GET /account", {}).data?.is_operator === true;
	const mayGive = useMayCreateOrganizations() && isOperator && !member.is_tmp;
	const [keepsKeys, setKeepsKeys] = useState(false);
	const plan = useRolePlan(orgId, member.email, role === member.role ? undefined : role).data;
	const [lowered, revealed] = [plan?.lowered_api_keys ?? [], plan?.revealed_api_keys ?? []];
	const permissions = useChange("PUT /organization/members/permissions");
	const roles = useChange("PUT /organization/members", ({ link }) => {
		if (link !== null) onLink({ email: member.email, link });
	});
	const roleNames = useRoles(orgId);
	const { email } = member;
	const wantsCreate = mayCreate && administersOrganization(role);
	const errors = formErrors(roles.error ?? permissions.error, [...ROLE_ERRORS, "global_permissions"]);
	const submit = async () => {
		try {
			if (role !== member.role) await roles.mutateAsync({ body: { orgId, email, role, keep_keys: keepsKeys } });
			if (mayGive && wantsCreate !== createdBefore) {
				await permissions.mutateAsync({
					body: { orgId, email, global_permissions: wantsCreate ? ["org.create"] : [] },
				});
			}
			notify(`${email} is now ${titleOf(roleNames, role)}.`);
			onClose();
		} catch {
			// The form shows the error.
		}
	};
	return (
		<FormDialog
			title={`Change the role of ${email}`}
			action="Change role"
			isPending={roles.isPending || permissions.isPending}
			isReady={role !== member.role || wantsCreate !== createdBefore}
			error={errors.rest}
			onSubmit={() => void submit()}
			onClose={onClose}
		>
			<RoleSelect orgId={orgId} value={role} error={errors.at(...ROLE_ERRORS)} onChange={setRole} />
			{mayGive && administersOrganization(role) ? (
				<Checkbox
					label="May create organizations"
					description="Effective while they administer any organization."
					error={errors.at("global_permissions")}
					checked={mayCreate}
					onChange={(event) => setMayCreate(event.currentTarget.checked)}
				/>
			) : null}
			{lowered.length === 0 ? null : (
				<>
					<Text size="sm">
						These API keys of theirs get the lower role as well: {lowered.map(({ name }) => name).join(", ")}.
					</Text>
					<Checkbox
						label="Keep the roles of these keys"
						description="Even then these keys cannot manage keys or members."
						checked={keepsKeys}
						onChange={(event) => setKeepsKeys(event.currentTarget.checked)}
					/>
				</>
			)}
			<RevealedSecrets keys={revealed} />
		</FormDialog>
	);
}

/** Names the consequences first, from a dry run. */
export function RemoveMember({
	orgId,
	member,
	onClose,
}: {
	readonly orgId: string;
	readonly member: Member;
	readonly onClose: () => void;
}) {
	const plan = useRemovalPlan(orgId, member.email);
	const remove = useChange("DELETE /organization/members", () => {
		notify(member.is_tmp ? `Invitation for ${member.email} withdrawn.` : `${member.email} removed.`);
		onClose();
	});
	return (
		<Confirm
			title={member.is_tmp ? `Withdraw the invitation for ${member.email}?` : `Remove ${member.email}?`}
			action={member.is_tmp ? "Withdraw invitation" : "Remove member"}
			isPending={remove.isPending}
			isReady={plan.data !== undefined}
			error={remove.error}
			onClose={onClose}
			onConfirm={() => remove.mutate({ query: { orgId, email: member.email } })}
		>
			<Answer query={plan} what="the consequences">
				{({ revoked_api_keys, revealed_api_keys, other_organizations: { known, others } }) => (
					<>
						<Text size="sm">
							{member.is_tmp
								? "Their invite link is no longer valid."
								: "They lose every role in this organization immediately, and the invitations that they created are withdrawn."}
						</Text>
						{revoked_api_keys.length === 0 ? null : (
							<>
								<Text size="sm">These API keys of theirs stop working immediately:</Text>
								<ul>
									{revoked_api_keys.map(({ id, name }) => (
										<li key={id}>{name}</li>
									))}
								</ul>
							</>
						)}
						<RevealedSecrets keys={revealed_api_keys} />
						{known.length + others === 0 ? null : (
							<Text size="sm">
								These keys are also used in{" "}
								{[
									...known.map(({ name }) => name),
									...(others > 0 ? [countOf(others, "other organization")] : []),
								].join(", ")}
								.
							</Text>
						)}
					</>
				)}
			</Answer>
		</Confirm>
	);
}

function RevealedSecrets({ keys }: { readonly keys: readonly { readonly name: string }[] }) {
	return keys.length === 0 ? null : (
		<Text size="sm">They have seen the secrets of {keys.map(({ name }) => name).join(", ")}. Rotate these keys.</Text>
	);
}
