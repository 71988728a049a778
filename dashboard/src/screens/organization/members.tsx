/**
 * Members of an organization and open invitations: invite, change roles on the organization and
 * below it, remove.
 */

import { Button, Group, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { INVITATION_DAYS } from "../../../../src/domain/defaults";
import { useAllPages, useAsk } from "../../api";
import { Answer } from "../../components/answer";
import { Badge } from "../../components/badge";
import { useDo } from "../../components/do";
import { useIsPhone } from "../../components/phone";
import { Screen } from "../../components/screen";
import { SecretDialog } from "../../components/secret";
import { WholeList } from "../../components/whole-list";
import { useAppsOfOrganization } from "../../organizations";
import { covers, type MemberBinding, useHeld, useOrganizationMay } from "../../permissions";
import { roleIn, titleOf, useRoles } from "../../roles";
import type { OrganizationScreenProps } from "../../screen-props";
import { AddMemberRole, bindingText, MemberRoles, RemoveMemberRole } from "./member-bindings";
import { ChangeRole, Invite, type Member, RemoveMember } from "./member-dialogs";

type Dialog =
	| "invite"
	| { readonly kind: "role" | "remove" | "add"; readonly member: Member }
	| { readonly kind: "revoke"; readonly binding: MemberBinding };

export default function Members({ orgId }: OrganizationScreenProps) {
	const members = useAllPages("GET /organization/members", { query: { orgId, limit: "50" } });
	const bindings = useAllPages("GET /organization/members/bindings", { query: { orgId, limit: "1000" } });
	const apps = useAppsOfOrganization(orgId).data ?? [];
	const account = useAsk("GET /account", {});
	const roles = useRoles(orgId);
	const may = useOrganizationMay(orgId);
	const held = useHeld(orgId);
	const [dialog, setDialog] = useState<Dialog | undefined>();
	const [invitation, setInvitation] = useState<{ readonly email: string; readonly link: string } | undefined>();
	const close = () => setDialog(undefined);
	// There is no room for another column.
	const isPhone = useIsPhone();
	useDo("invite", () => setDialog("invite"), may("org.invite_user") === true);
	const mayChange = may("org.update_user_roles") === true;
	const bindingsOf = ({ uid }: Member) => (bindings.data ?? []).filter((binding) => binding.uid === uid);
	const rolesOf = (member: Member) => (
		<MemberRoles
			role={titleOf(roles, member.role)}
			email={member.email}
			bindings={bindingsOf(member)}
			roles={roles}
			apps={apps}
			onRemove={
				mayChange
					? (binding) =>
							covers(held, roleIn(roles, binding.role_name)) ? () => setDialog({ kind: "revoke", binding }) : undefined
					: undefined
			}
		/>
	);
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
						textOf={(member) =>
							[
								member.email,
								titleOf(roles, member.role),
								...bindingsOf(member).map((binding) => bindingText(binding, roles, apps)),
							].join(" ")
						}
						first="person"
						rows={items}
						rowKey={({ uid }) => uid}
						columns={[
							{
								title: "Person",
								sort: "person",
								value: ({ email }) => email,
								cell: (member) => (
									<Stack gap={4} align="flex-start">
										{member.email}
										{member.is_tmp ? <Badge tone="warn">Invited</Badge> : null}
										{member.uid === account.data?.uid ? <Badge>You</Badge> : null}
										{isPhone ? rolesOf(member) : null}
									</Stack>
								),
							},
							{
								title: "Role",
								sort: "role",
								value: ({ role }) => titleOf(roles, role),
								wideOnly: true,
								cell: rolesOf,
							},
							...(mayChange
								? [
										{
											title: "Actions",
											cell: (member: Member) => (
												<MemberActions
													member={member}
													isCovered={covers(held, roleIn(roles, member.role))}
													title={titleOf(roles, member.role)}
													onOpen={(kind) => setDialog({ kind, member })}
												/>
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
				<RemoveMember orgId={orgId} member={dialog.member} onClose={close} />
			) : null}
			{typeof dialog === "object" && dialog.kind === "add" ? (
				<AddMemberRole orgId={orgId} email={dialog.member.email} apps={apps} onClose={close} />
			) : null}
			{typeof dialog === "object" && dialog.kind === "revoke" ? (
				<RemoveMemberRole orgId={orgId} binding={dialog.binding} apps={apps} onClose={close} />
			) : null}
			{invitation === undefined ? null : (
				<SecretDialog
					title={`Invitation for ${invitation.email}`}
					label="Link"
					value={invitation.link}
					onClose={() => setInvitation(undefined)}
				>
					Send this link to {invitation.email} only. It is valid once and for {INVITATION_DAYS} days, and is not shown
					again. Earlier links are no longer valid.
				</SecretDialog>
			)}
		</Screen>
	);
}

/** An invitation gets roles on apps and channels after it is accepted. */
function MemberActions({
	member: { email, is_tmp },
	isCovered,
	title,
	onOpen,
}: {
	readonly member: Member;
	/** Whether the user holds everything that the member's role permits. */
	readonly isCovered: boolean;
	readonly title: string;
	readonly onOpen: (kind: "role" | "remove" | "add") => void;
}) {
	if (!isCovered) {
		return (
			<Text size="sm" c="dimmed">
				Only for the role {title}
			</Text>
		);
	}
	return (
		<Group gap="xs">
			<Button size="xs" variant="default" aria-label={`Change role of ${email}`} onClick={() => onOpen("role")}>
				Change role
			</Button>
			{is_tmp ? null : (
				<Button size="xs" variant="default" aria-label={`Add role for ${email}`} onClick={() => onOpen("add")}>
					Add role
				</Button>
			)}
			<Button
				size="xs"
				variant="default"
				aria-label={`${is_tmp ? "Withdraw the invitation for" : "Remove"} ${email}`}
				onClick={() => onOpen("remove")}
			>
				{is_tmp ? "Withdraw" : "Remove"}
			</Button>
		</Group>
	);
}
