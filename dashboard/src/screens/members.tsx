/** The people of an organization and the invitations that are open: inviting, changing roles, removing. */
import { Badge, Button, Checkbox, Group, NativeSelect, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { type AnswerOf, type RequestOf, useAsk, useChange, usePage } from "../api";
import type { OrganizationScreenProps } from "../app";
import { Answer } from "../parts/answer";
import { Confirm } from "../parts/confirm";
import { FormDialog } from "../parts/form";
import { say } from "../parts/say";
import { Screen } from "../parts/screen";
import { SecretDialog } from "../parts/secret";
import { countOf } from "../parts/size";
import { DataTable, Pager, usePageNumber } from "../parts/table";
import {
	administers,
	covers,
	memberRoles,
	roleText,
	useMayCreateOrganizations,
	useOrganizationMay,
	useOwnRole,
} from "../permissions";
import { useRemovalPlan, useRolePlan } from "../plans";

type Member = AnswerOf<"GET /organization/members">[number];
type MemberRole = RequestOf<"PUT /organization/members">["body"]["role"];
type Dialog = "invite" | { readonly kind: "role" | "remove"; readonly member: Member };

export default function Members({ orgId }: OrganizationScreenProps) {
	const [page, setPage] = usePageNumber();
	const members = usePage("GET /organization/members", { query: { orgId, limit: "50" } }, page);
	const account = useAsk("GET /account", {});
	const may = useOrganizationMay(orgId);
	const own = useOwnRole(orgId);
	const [dialog, setDialog] = useState<Dialog | undefined>();
	const [invitation, setInvitation] = useState<{ readonly email: string; readonly link: string } | undefined>();
	const close = () => setDialog(undefined);
	const mayChange = may("org.update_user_roles") === true;
	return (
		<Screen
			title="Members"
			note="People, and invitations that were not accepted yet."
			actions={
				may("org.invite_user") === true ? (
					<Button onClick={() => setDialog("invite")}>Invite someone</Button>
				) : undefined
			}
		>
			<Answer query={members} what="members">
				{({ items, hasNext }) => (
					<Stack gap="sm">
						<DataTable
							label="Members"
							rows={items}
							rowKey={({ uid }) => uid}
							columns={[
								{
									title: "Person",
									cell: ({ email, is_tmp, uid }) => (
										<Stack gap={4} align="flex-start">
											{email}
											{is_tmp ? (
												<Badge variant="light" color="orange" tt="none">
													Invited
												</Badge>
											) : null}
											{uid === account.data?.uid ? (
												<Badge variant="light" tt="none">
													You
												</Badge>
											) : null}
										</Stack>
									),
								},
								{ title: "Role", cell: ({ role }) => <span className="nowrap">{roleText(role)}</span> },
								...(mayChange
									? [
											{
												title: "Change",
												cell: (member: Member) =>
													covers(own, member.role) ? (
														<Group gap="xs">
															<Button
																size="xs"
																variant="default"
																aria-label={`Change the role of ${member.email}`}
																onClick={() => setDialog({ kind: "role", member })}
															>
																Role
															</Button>
															<Button
																size="xs"
																variant="default"
																aria-label={`${member.is_tmp ? "Withdraw the invitation of" : "Remove"} ${member.email}`}
																onClick={() => setDialog({ kind: "remove", member })}
															>
																{member.is_tmp ? "Withdraw" : "Remove"}
															</Button>
														</Group>
													) : (
														<Text size="sm" c="dimmed">
															Needs the role {roleText(member.role)}
														</Text>
													),
											},
										]
									: []),
							]}
						/>
						<Pager page={page} hasNext={hasNext} onPage={setPage} />
					</Stack>
				)}
			</Answer>
			{dialog === "invite" ? (
				<Invite
					orgId={orgId}
					onClose={close}
					onDone={(made) => {
						close();
						setInvitation(made);
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
					title={`Invitation of ${invitation.email}`}
					label="Link"
					value={invitation.link}
					onClose={() => setInvitation(undefined)}
				>
					Send this link to {invitation.email} only. It works once, within 7 days of the invitation, and is not shown
					again. Earlier links no longer work.
				</SecretDialog>
			)}
		</Screen>
	);
}

function RoleSelect({
	orgId,
	value,
	onChange,
}: {
	readonly orgId: string;
	readonly value: MemberRole;
	readonly onChange: (role: MemberRole) => void;
}) {
	const own = useOwnRole(orgId);
	return (
		<NativeSelect
			label="Role"
			description="Members see everything and may make apps; administrators change everything; owners may also delete the organization."
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
	return (
		<FormDialog
			title="Invite someone"
			action="Make the invitation"
			isPending={invite.isPending}
			error={invite.error}
			onSubmit={() => invite.mutate({ body: { orgId, email, role } })}
			onClose={onClose}
		>
			<TextInput
				type="email"
				label="E-mail address"
				description="No mail is sent; you get a link to pass on."
				required
				data-autofocus
				value={email}
				onChange={(event) => setEmail(event.currentTarget.value)}
			/>
			<RoleSelect orgId={orgId} value={role} onChange={setRole} />
		</FormDialog>
	);
}

/** The role, and what goes beside a role that administers: creating organizations. Two changes of the API, one after the other. */
function ChangeRole({
	orgId,
	member,
	onClose,
	onLink,
}: {
	readonly orgId: string;
	readonly member: Member;
	readonly onClose: () => void;
	/** A pending invitation has a new link with its new role. */
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
	const submit = async () => {
		try {
			if (role !== member.role) await roles.mutateAsync({ body: { orgId, email, role, keep_keys: keepsKeys } });
			if (mayGive && wantsCreate !== createdBefore) {
				await permissions.mutateAsync({
					body: { orgId, email, global_permissions: wantsCreate ? ["org.create"] : [] },
				});
			}
			say(`${email} has the role ${roleText(role)}.`);
			onClose();
		} catch {
			// The form shows what was refused.
		}
	};
	return (
		<FormDialog
			title={`Role of ${email}`}
			action="Change role"
			isPending={roles.isPending || permissions.isPending}
			isReady={role !== member.role || wantsCreate !== createdBefore}
			error={roles.error ?? permissions.error}
			onSubmit={() => void submit()}
			onClose={onClose}
		>
			<RoleSelect orgId={orgId} value={role} onChange={setRole} />
			{mayGive && administers(role) ? (
				<Checkbox
					label="May create organizations"
					description="In every organization that they administer."
					checked={mayCreate}
					onChange={(event) => setMayCreate(event.currentTarget.checked)}
				/>
			) : null}
			{lowered.length === 0 ? null : (
				<>
					<Text size="sm">Lowers these API keys of theirs as well: {lowered.map(({ name }) => name).join(", ")}.</Text>
					<Checkbox
						label="Keep what these keys hold"
						description="They can still manage no keys and no members."
						checked={keepsKeys}
						onChange={(event) => setKeepsKeys(event.currentTarget.checked)}
					/>
				</>
			)}
			<SecretsSeen keys={revealed} />
		</FormDialog>
	);
}

/** Asks the API first what would go, and names it. */
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
		say(member.is_tmp ? `The invitation of ${member.email} is withdrawn.` : `${member.email} is removed.`);
		onClose();
	});
	return (
		<Confirm
			title={member.is_tmp ? `Withdraw the invitation of ${member.email}?` : `Remove ${member.email}?`}
			action={member.is_tmp ? "Withdraw" : "Remove member"}
			isPending={remove.isPending}
			isReady={plan.data !== undefined}
			error={remove.error}
			onClose={onClose}
			onConfirm={() => remove.mutate({ query: { orgId, email: member.email } })}
		>
			<Answer query={plan} what="what would go">
				{({ revoked_api_keys, revealed_api_keys, other_organizations: { known, others } }) => (
					<>
						<Text size="sm">
							{member.is_tmp
								? "Their link stops working."
								: "They lose every role in this organization at once, and the invitations that they made are withdrawn."}
						</Text>
						{revoked_api_keys.length === 0 ? null : (
							<>
								<Text size="sm">These API keys of theirs stop working at once:</Text>
								<ul>
									{revoked_api_keys.map(({ id, name }) => (
										<li key={id}>{name}</li>
									))}
								</ul>
							</>
						)}
						<SecretsSeen keys={revealed_api_keys} />
						{known.length + others === 0 ? null : (
							<Text size="sm">
								They are used in{" "}
								{[
									...known.map(({ name }) => name),
									...(others > 0 ? [countOf(others, "other organization")] : []),
								].join(", ")}{" "}
								as well.
							</Text>
						)}
					</>
				)}
			</Answer>
		</Confirm>
	);
}

function SecretsSeen({ keys }: { readonly keys: readonly { readonly name: string }[] }) {
	return keys.length === 0 ? null : (
		<Text size="sm">
			They have seen the secrets of {keys.map(({ name }) => name).join(", ")}. Regenerate these keys.
		</Text>
	);
}
