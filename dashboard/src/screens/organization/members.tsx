/** Members of an organization and open invitations: invite, change roles, remove. */
import { Button, Checkbox, Group, NativeSelect, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { type AnswerOf, type RequestOf, useAllPages, useAsk, useChange } from "../../api";
import { Answer } from "../../components/answer";
import { Badge } from "../../components/badge";
import { useDo } from "../../components/do";
import { formErrors } from "../../components/field-errors";
import { Confirm, FormDialog } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { Screen } from "../../components/screen";
import { SecretDialog } from "../../components/secret";
import { countOf } from "../../components/size";
import { WholeList } from "../../components/whole-list";
import { useRemovalPlan, useRolePlan } from "../../dry-runs";
import {
	administers,
	covers,
	memberRoles,
	roleText,
	useMayCreateOrganizations,
	useOrganizationMay,
	useOwnRole,
} from "../../permissions";
import type { OrganizationScreenProps } from "../../screen-props";

type Member = AnswerOf<"GET /organization/members">[number];
type MemberRole = RequestOf<"PUT /organization/members">["body"]["role"];
type Dialog = "invite" | { readonly kind: "role" | "remove"; readonly member: Member };

export default function Members({ orgId }: OrganizationScreenProps) {
	const members = useAllPages("GET /organization/members", { query: { orgId, limit: "50" } });
	const account = useAsk("GET /account", {});
	const may = useOrganizationMay(orgId);
	const own = useOwnRole(orgId);
	const [dialog, setDialog] = useState<Dialog | undefined>();
	const [invitation, setInvitation] = useState<{ readonly email: string; readonly link: string } | undefined>();
	const close = () => setDialog(undefined);
	useDo("invite", () => setDialog("invite"), may("org.invite_user") === true);
	const mayChange = may("org.update_user_roles") === true;
	return (
		<Screen
			title="Members"
			note="Members and open invitations."
			actions={
				may("org.invite_user") === true ? <Button onClick={() => setDialog("invite")}>Invite member</Button> : undefined
			}
		>
			<Answer query={members} what="members">
				{(items) => (
					<WholeList
						label="Members"
						noun={["member", "members"]}
						textOf={({ email, role }) => `${email} ${roleText(role)}`}
						first="person"
						rows={items}
						rowKey={({ uid }) => uid}
						columns={[
							{
								title: "Person",
								sort: "person",
								value: ({ email }) => email,
								cell: ({ email, is_tmp, uid }) => (
									<Stack gap={4} align="flex-start">
										{email}
										{is_tmp ? <Badge tone="warn">Invited</Badge> : null}
										{uid === account.data?.uid ? <Badge>You</Badge> : null}
									</Stack>
								),
							},
							{
								title: "Role",
								sort: "role",
								value: ({ role }) => roleText(role),
								cell: ({ role }) => <span className="nowrap">{roleText(role)}</span>,
							},
							...(mayChange
								? [
										{
											title: "Actions",
											cell: (member: Member) =>
												covers(own, member.role) ? (
													<Group gap="xs">
														<Button
															size="xs"
															variant="default"
															aria-label={`Change role of ${member.email}`}
															onClick={() => setDialog({ kind: "role", member })}
														>
															Change role
														</Button>
														<Button
															size="xs"
															variant="default"
															aria-label={`${member.is_tmp ? "Withdraw the invitation for" : "Remove"} ${member.email}`}
															onClick={() => setDialog({ kind: "remove", member })}
														>
															{member.is_tmp ? "Withdraw" : "Remove"}
														</Button>
													</Group>
												) : (
													<Text size="sm" c="dimmed">
														Only for the role {roleText(member.role)}
													</Text>
												),
										},
									]
								: []),
						]}
					/>
				)}
			</Answer>
			{dialog === "invite" ? (
				<Invite
					orgId={orgId}
					onClose={close}
					onDone={(created) => {
						close();
						// A person who is a member already gets the role and no link.
						if ("link" in created) setInvitation(created);
					}}
				/>
			) : null}
			{typeof dialog === "object" && dialog.kind === "role" ? (
				<ChangeRole orgId={orgId} member={dialog.member} onClose={close} onLink={setInvitation} />
			) : null}
			{typeof dialog === "object" && dialog.kind === "remove" ? (
				<Remove orgId={orgId} member={dialog.member} onClose={close} />
			) : null}
			{invitation === undefined ? null : (
				<SecretDialog
					title={`Invitation for ${invitation.email}`}
					label="Link"
					value={invitation.link}
					onClose={() => setInvitation(undefined)}
				>
					Send this link to {invitation.email} only. It is valid once and for 7 days, and is not shown again. Earlier
					links are no longer valid.
				</SecretDialog>
			)}
		</Screen>
	);
}

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
	const own = useOwnRole(orgId);
	return (
		<NativeSelect
			label="Role"
			error={error}
			description="Billing administrators see the organization and its members, and no apps. Members see everything and can create apps. Administrators change everything. Owners can also delete the organization."
			data={memberRoles(own).map((role) => ({ value: role, label: roleText(role) }))}
			value={value}
			onChange={(event) => onChange(event.currentTarget.value as MemberRole)}
		/>
	);
}

function Invite({
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
	const invite = useChange("POST /organization/members", onDone);
	const errors = formErrors(invite.error, [...ADDRESS_ERRORS, ...ROLE_ERRORS]);
	return (
		<FormDialog
			title="Invite member"
			action="Create invite link"
			isPending={invite.isPending}
			error={errors.rest}
			onSubmit={() => invite.mutate({ body: { orgId, email, role } })}
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
		</FormDialog>
	);
}

/** Changes a role and, for administering roles, the permission to create organizations: two requests, one after the other. */
function ChangeRole({
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
	const { email } = member;
	const wantsCreate = mayCreate && administers(role);
	const errors = formErrors(roles.error ?? permissions.error, [...ROLE_ERRORS, "global_permissions"]);
	const submit = async () => {
		try {
			if (role !== member.role) await roles.mutateAsync({ body: { orgId, email, role, keep_keys: keepsKeys } });
			if (mayGive && wantsCreate !== createdBefore) {
				await permissions.mutateAsync({
					body: { orgId, email, global_permissions: wantsCreate ? ["org.create"] : [] },
				});
			}
			notify(`${email} is now ${roleText(role)}.`);
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
			{mayGive && administers(role) ? (
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
function Remove({
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
