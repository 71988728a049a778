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
import { type AppRecord, useAppsOfOrganization } from "../../organizations";
import { covers, type MemberBinding, useHeld, useOrganizationMay } from "../../permissions";
import { roleIn, titleOf, useRoles } from "../../roles";
import type { OrganizationScreenProps } from "../../screen-props";
import { AddMemberRole, bindingText, MemberRoles, RemoveMemberRole } from "./member-bindings";
import { ChangeRole, Invite, type Member, RemoveMember } from "./member-dialogs";

type Dialog =
	| "invite"
	| { readonly kind: "role" | "remove" | "add"; readonly member: Member }
	| { readonly kind: "revoke"; readonly binding: MemberBinding };

interface Invitation {
	readonly email: string;
	readonly link: string;
}

export default function Members({ orgId }: OrganizationScreenProps) {
	const members = useAllPages("GET /organization/members", { query: { orgId, limit: "50" } });
	const facts = useMemberFacts(orgId);
	const may = useOrganizationMay(orgId);
	const mayInvite = may("org.invite_user") === true;
	const [dialog, setDialog] = useState<Dialog | undefined>();
	const [invitation, setInvitation] = useState<Invitation | undefined>();
	useDo("invite", () => setDialog("invite"), mayInvite);
	return (
		<Screen
			title="Members"
			note="Members and open invitations."
			actions={mayInvite ? <Button onClick={() => setDialog("invite")}>Invite member</Button> : undefined}
		>
			<Answer query={members} what="members">
				{(items) => <MemberList members={items} facts={facts} onOpen={setDialog} />}
			</Answer>
			<OpenDialog
				orgId={orgId}
				apps={facts.apps}
				dialog={dialog}
				onClose={() => setDialog(undefined)}
				onInvited={setInvitation}
			/>
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

/** Loaded beside the members, so that the list has its buttons when it appears. */
function useMemberFacts(orgId: string) {
	return {
		bindings: useAllPages("GET /organization/members/bindings", { query: { orgId, limit: "1000" } }).data ?? [],
		apps: useAppsOfOrganization(orgId).data ?? [],
		ownId: useAsk("GET /account", {}).data?.uid,
		roles: useRoles(orgId),
		held: useHeld(orgId),
		mayChange: useOrganizationMay(orgId)("org.update_user_roles") === true,
	};
}

function MemberList({
	members,
	facts: { bindings, apps, ownId, roles, held, mayChange },
	onOpen,
}: {
	readonly members: readonly Member[];
	readonly facts: ReturnType<typeof useMemberFacts>;
	readonly onOpen: (dialog: Dialog) => void;
}) {
	// There is no room for another column.
	const isPhone = useIsPhone();
	const bindingsOf = ({ uid }: Member) => bindings.filter((binding) => binding.uid === uid);
	const mayRevoke = (binding: MemberBinding) => covers(held, roleIn(roles, binding.role_name));
	const rolesOf = (member: Member) => (
		<MemberRoles
			role={titleOf(roles, member.role)}
			email={member.email}
			bindings={bindingsOf(member)}
			roles={roles}
			apps={apps}
			onRemove={
				mayChange
					? (binding) => (mayRevoke(binding) ? () => onOpen({ kind: "revoke", binding }) : undefined)
					: undefined
			}
		/>
	);
	const actions = {
		title: "Actions",
		cell: (member: Member) => (
			<MemberActions
				member={member}
				isCovered={covers(held, roleIn(roles, member.role))}
				title={titleOf(roles, member.role)}
				onOpen={(kind) => onOpen({ kind, member })}
			/>
		),
	};
	return (
		<WholeList
			label="Members"
			noun={["member", "members"]}
			textOf={(member) => {
				const below = bindingsOf(member).map((binding) => bindingText(binding, roles, apps));
				return [member.email, titleOf(roles, member.role), ...below].join(" ");
			}}
			first="person"
			rows={members}
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
							{member.uid === ownId ? <Badge>You</Badge> : null}
							{isPhone ? rolesOf(member) : null}
						</Stack>
					),
				},
				{ title: "Role", sort: "role", value: ({ role }) => titleOf(roles, role), wideOnly: true, cell: rolesOf },
				...(mayChange ? [actions] : []),
			]}
		/>
	);
}

function OpenDialog({
	orgId,
	apps,
	dialog,
	onClose,
	onInvited,
}: {
	readonly orgId: string;
	readonly apps: readonly AppRecord[];
	readonly dialog: Dialog | undefined;
	readonly onClose: () => void;
	readonly onInvited: (invitation: Invitation) => void;
}) {
	if (dialog === undefined) return null;
	if (dialog === "invite") {
		return (
			<Invite
				orgId={orgId}
				onClose={onClose}
				onDone={(created) => {
					onClose();
					// A person who is a member already gets the role and no link.
					if ("link" in created) onInvited(created);
				}}
			/>
		);
	}
	if (dialog.kind === "revoke") {
		return <RemoveMemberRole orgId={orgId} binding={dialog.binding} apps={apps} onClose={onClose} />;
	}
	const { kind, member } = dialog;
	if (kind === "role") return <ChangeRole orgId={orgId} member={member} onClose={onClose} onLink={onInvited} />;
	if (kind === "remove") return <RemoveMember orgId={orgId} member={member} onClose={onClose} />;
	return <AddMemberRole orgId={orgId} email={member.email} apps={apps} onClose={onClose} />;
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
