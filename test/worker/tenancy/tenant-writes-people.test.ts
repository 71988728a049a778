/**
 * Statements that write members, keys and accounts, audit entries included: each changes the rows
 * of its tenant and no others.
 */
import { sql } from "kysely";
import { beforeEach, describe, test } from "vitest";
import type { OrgId } from "../../../src/authz/decide";
import { auditEmailChange, changeEmail, deleteAccountStatements } from "../../../src/db/accounts";
import { deleteApiKey, updateApiKey } from "../../../src/db/api-keys";
import {
	auditBindingGiven,
	auditBindingsElsewhere,
	auditBindingsOfApp,
	auditBindingsOfChannel,
	auditBindingsOfKeys,
	auditBindingsTaken,
	auditForeignBindings,
} from "../../../src/db/audit/bindings";
import { removeForeignBindings, takeGlobalPermissionsWith } from "../../../src/db/foreign-bindings";
import { changeInvitation, deleteInvitation } from "../../../src/db/invitations";
import { deleteKeysOfMember, deleteMemberRoles, removeMember, setMemberPermissions } from "../../../src/db/members";
import { conflict } from "../../../src/db/optimistic";
import { markOrganizationDeleted, restoreOrganization, updateOrganization } from "../../../src/db/organizations";
import { deleteBindings, insertChannelBinding } from "../../../src/db/role-bindings";
import { insertTenants } from "../support/tenant-rows";
import { type Change, expectChanges } from "../support/tenant-statements";
import { A, ADMINISTERING, B, CROSSED } from "../support/tenants";
import { NOW_MS } from "../support/world";

const ACTOR = { type: "system", id: null, name: "Test", requestId: "", ipAddress: null } as const;
const BUNDLE_APP = { uuid: B.app, id: B.publicAppId };
const yes = sql<boolean>`true`;
const ROLES = { owning: ADMINISTERING, administering: ADMINISTERING } as const;
const INVITED = { role_name: "org_admin", invited_by: "user-shared", note: null, token_hash: "new" } as const;

/** A binding on the channel, from one that its holder has; `userId` where it is no key. */
const onChannel = (keyId: string | null, parent: string, userId = "", appId = B.app, channel = "production") => {
	const binding = { id: "new", holder: { userId, keyId }, role: "channel_preview", orgId: B.org, appId } as const;
	return insertChannelBinding({ ...binding, createdAtMs: 2 }, channel, parent);
};

/** The first tenant's key administers the second one, too; and it alone. */
const ADMINISTERS_ELSEWHERE = sql`UPDATE role_bindings SET role_name = 'org_admin' WHERE id = 'a-key-elsewhere'`;

const ADMINISTERS_ELSEWHERE_ALONE = [
	ADMINISTERS_ELSEWHERE,
	sql`UPDATE role_bindings SET role_name = 'org_member' WHERE id = 'a-key'`,
];

const MEMBERS: Readonly<Record<string, Change>> = {
	removeMember: [
		() => removeMember(B.org, B.user, ADMINISTERING, ACTOR, NOW_MS),
		[
			"+ audit_log deleted-org-b binding.delete key-b b-key-deleted",
			"+ audit_log deleted-org-b binding.delete key-b b-key-deleted-owner",
			"+ audit_log org-a binding.delete key-b b-key-elsewhere",
			"+ audit_log org-b api_key.delete key-b {name:Same,user_id:user-b,is_hashed_key:false,expires_at:2026-11-21T08:00:00.001Z,bindings:[b-key,b-key-app,b-key-elsewhere,b-key-deleted,b-key-deleted-owner,b-key-ended,b-key-channel]}",
			"+ audit_log org-b binding.delete key-b b-key",
			"+ audit_log org-b binding.delete key-b b-key-app",
			"+ audit_log org-b binding.delete key-b b-key-channel",
			"+ audit_log org-b binding.delete key-b b-key-ended",
			"+ audit_log org-b invitation.delete invitation-b {email:invited@example.com,role:org_member}",
			"+ audit_log org-b invitation.delete invitation-b-late {email:late@example.com,role:org_member}",
			"- invitations invitation-b",
			"- invitations invitation-b-late",
			"- role_bindings b-user",
			"- role_bindings b-user-app",
			"- role_bindings b-user-ended",
			"- role_bindings b-user-ending",
		],
	],
	"removeMember with a foreign key": [
		() => removeMember(B.org, A.user, ADMINISTERING, ACTOR, NOW_MS),
		["+ audit_log org-b binding.delete key-a a-key-elsewhere", "- role_bindings a-key-elsewhere"],
	],
	"removeMember with an open invitation for the member": [
		() => removeMember(B.org, B.user, ADMINISTERING, ACTOR, NOW_MS),
		[
			"+ audit_log deleted-org-b binding.delete key-b b-key-deleted",
			"+ audit_log deleted-org-b binding.delete key-b b-key-deleted-owner",
			"+ audit_log org-a binding.delete key-b b-key-elsewhere",
			"+ audit_log org-b api_key.delete key-b {name:Same,user_id:user-b,is_hashed_key:false,expires_at:2026-11-21T08:00:00.001Z,bindings:[b-key,b-key-app,b-key-elsewhere,b-key-deleted,b-key-deleted-owner,b-key-ended,b-key-channel]}",
			"+ audit_log org-b binding.delete key-b b-key",
			"+ audit_log org-b binding.delete key-b b-key-app",
			"+ audit_log org-b binding.delete key-b b-key-channel",
			"+ audit_log org-b binding.delete key-b b-key-ended",
			"+ audit_log org-b invitation.delete invitation-b {email:b@example.com,role:org_member}",
			"- invitations invitation-b",
			"- role_bindings b-user",
			"- role_bindings b-user-app",
			"- role_bindings b-user-ended",
			"- role_bindings b-user-ending",
		],
		[
			sql`UPDATE invitations SET invited_by = 'user-shared'`,
			sql`UPDATE invitations SET email = ${B.email} WHERE id IN (${A.invitation}, ${B.invitation})`,
		],
	],
	deleteMemberRoles: [() => deleteMemberRoles(B.org, "user-shared"), ["- role_bindings b-shared"]],
	"deleteMemberRoles of a member with a role on an app": [
		() => deleteMemberRoles(B.org, B.user),
		["- role_bindings b-user", "- role_bindings b-user-ending"],
		[sql`UPDATE role_bindings SET scope_type = 'app', app_id = ${B.app} WHERE id = 'b-user-ended'`],
	],
	deleteKeysOfMember: [
		() => deleteKeysOfMember(B.org, "user-shared"),
		[
			"- api_keys key-expired-b",
			"- api_keys key-shared-b",
			"- role_bindings b-key-shared",
			"~ organizations org-b api_key_count=1",
		],
	],
	removeForeignBindings: [
		() => removeForeignBindings(B.org, sql`1`, ADMINISTERING, ACTOR, NOW_MS),
		[
			"+ audit_log org-b binding.delete key-a a-key-elsewhere",
			"+ audit_log org-b binding.delete key-x x-b-ended",
			"- role_bindings a-key-elsewhere",
			"- role_bindings x-b-ended",
		],
	],
	"removeForeignBindings of the last administrator role of a key": [
		() => removeForeignBindings(B.org, sql`1`, ADMINISTERING, ACTOR, NOW_MS),
		[
			"+ audit_log org-a api_key.update key-a {global_permissions:[org.create]} {global_permissions:[]}",
			"+ audit_log org-b binding.delete key-a a-key-elsewhere",
			"+ audit_log org-b binding.delete key-x x-b-ended",
			"- role_bindings a-key-elsewhere",
			"- role_bindings x-b-ended",
			`~ api_keys key-a global_permissions=[] updated_at_ms=${NOW_MS}`,
		],
		ADMINISTERS_ELSEWHERE_ALONE,
	],
	"removeForeignBindings beside an expired role": [
		() => removeForeignBindings(B.org, sql`1`, ADMINISTERING, ACTOR, NOW_MS),
		[
			"+ audit_log org-a api_key.update key-a {global_permissions:[org.create]} {global_permissions:[]}",
			"+ audit_log org-b binding.delete key-a a-key-elsewhere",
			"+ audit_log org-b binding.delete key-x x-b-ended",
			"- role_bindings a-key-elsewhere",
			"- role_bindings x-b-ended",
			`~ api_keys key-a global_permissions=[] updated_at_ms=${NOW_MS}`,
		],
		[ADMINISTERS_ELSEWHERE, sql`UPDATE role_bindings SET expires_at_ms = ${NOW_MS} WHERE id = 'a-key'`],
	],
	"removeForeignBindings beside a role that expires later": [
		() => removeForeignBindings(B.org, sql`1`, ADMINISTERING, ACTOR, NOW_MS),
		[
			"+ audit_log org-b binding.delete key-a a-key-elsewhere",
			"+ audit_log org-b binding.delete key-x x-b-ended",
			"- role_bindings a-key-elsewhere",
			"- role_bindings x-b-ended",
		],
		[ADMINISTERS_ELSEWHERE, sql`UPDATE role_bindings SET expires_at_ms = ${NOW_MS + 1} WHERE id = 'a-key'`],
	],
	"removeForeignBindings beside a role on an app": [
		() => removeForeignBindings(B.org, sql`1`, ADMINISTERING, ACTOR, NOW_MS),
		[
			"+ audit_log org-a api_key.update key-a {global_permissions:[org.create]} {global_permissions:[]}",
			"+ audit_log org-b binding.delete key-a a-key-elsewhere",
			"+ audit_log org-b binding.delete key-x x-b-ended",
			"- role_bindings a-key-elsewhere",
			"- role_bindings x-b-ended",
			`~ api_keys key-a global_permissions=[] updated_at_ms=${NOW_MS}`,
		],
		[ADMINISTERS_ELSEWHERE, sql`UPDATE role_bindings SET scope_type = 'app', app_id = ${A.app} WHERE id = 'a-key'`],
	],
	takeGlobalPermissionsWith: [
		() => takeGlobalPermissionsWith(B.org, sql`(SELECT id FROM role_bindings)`, ADMINISTERING, ACTOR, NOW_MS),
		[
			"+ audit_log org-a api_key.update key-a {global_permissions:[org.create]} {global_permissions:[]}",
			`~ api_keys key-a global_permissions=[] updated_at_ms=${NOW_MS}`,
		],
		ADMINISTERS_ELSEWHERE_ALONE,
	],
	"takeGlobalPermissionsWith other bindings": [
		() => takeGlobalPermissionsWith(B.org, sql`('b-key', 'x-key')`, ADMINISTERING, ACTOR, NOW_MS),
		[],
		ADMINISTERS_ELSEWHERE_ALONE,
	],
	"takeGlobalPermissionsWith the removal of another role": [
		() => takeGlobalPermissionsWith(B.org, sql`(SELECT id FROM role_bindings)`, ADMINISTERING, ACTOR, NOW_MS),
		[],
		[sql`UPDATE role_bindings SET role_name = 'org_member' WHERE id = 'a-key'`],
	],
	"takeGlobalPermissionsWith the removal of a role on an app": [
		() => takeGlobalPermissionsWith(B.org, sql`(SELECT id FROM role_bindings)`, ADMINISTERING, ACTOR, NOW_MS),
		[],
		[
			...ADMINISTERS_ELSEWHERE_ALONE,
			sql`UPDATE role_bindings SET scope_type = 'app', app_id = ${B.app} WHERE id = 'a-key-elsewhere'`,
		],
	],
	setMemberPermissions: [
		() => setMemberPermissions(B.org, "user-shared", ["org.create"]),
		['~ users user-shared global_permissions=["org.create"]'],
	],
	"setMemberPermissions of a person with a role on an app only": [
		() => setMemberPermissions(B.org, "user-shared", ["org.create"]),
		[],
		[sql`UPDATE role_bindings SET scope_type = 'app', app_id = ${B.app} WHERE id = 'b-shared'`],
	],
	changeInvitation: [
		(of, thing) => changeInvitation(of.org, thing.invitation, INVITED),
		["~ invitations invitation-b role_name=org_admin token_hash=new invited_by=user-shared"],
	],
	deleteInvitation: [() => deleteInvitation(B.org, "late@example.com"), ["- invitations invitation-b-late"]],
	"deleteInvitation of an address without an invitation": [() => deleteInvitation(B.org, "absent@example.com"), []],
	auditBindingGiven: [
		() => auditBindingGiven(ACTOR, 2, B.org, "b-key"),
		["+ audit_log org-b binding.create key-b b-key"],
	],
	"auditBindingGiven to a person": [
		() => auditBindingGiven(ACTOR, 2, B.org, "b-user", { userId: B.user, keyId: null }),
		["+ audit_log org-b binding.create user-b b-user"],
	],
	"auditBindingGiven in another organization": [
		() => auditBindingGiven(ACTOR, 2, B.org, "a-user", { userId: A.user, keyId: null }),
		[],
	],
	auditBindingsOfKeys: [
		() => auditBindingsOfKeys(ACTOR, 2, B.org, sql`k.user_id = ${B.user}`, {}),
		[
			"+ audit_log deleted-org-b binding.delete key-b b-key-deleted",
			"+ audit_log deleted-org-b binding.delete key-b b-key-deleted-owner",
			"+ audit_log org-a binding.delete key-b b-key-elsewhere",
			"+ audit_log org-b binding.delete key-b b-key",
			"+ audit_log org-b binding.delete key-b b-key-app",
			"+ audit_log org-b binding.delete key-b b-key-channel",
			"+ audit_log org-b binding.delete key-b b-key-ended",
		],
	],
	auditBindingsElsewhere: [
		() => auditBindingsElsewhere(ACTOR, 2, B.org, sql`1`, {}),
		[
			"+ audit_log deleted-org-b binding.delete key-b b-key-deleted",
			"+ audit_log deleted-org-b binding.delete key-b b-key-deleted-owner",
			"+ audit_log org-a binding.delete key-b b-key-elsewhere",
		],
	],
	auditForeignBindings: [
		() => auditForeignBindings(ACTOR, 2, B.org, sql`1`, {}),
		["+ audit_log org-a binding.delete key-a a-key-elsewhere", "+ audit_log org-x binding.delete key-x x-b-ended"],
	],
	auditBindingsTaken: [
		() => auditBindingsTaken(ACTOR, 2, B.org, sql`k.id = ${B.key}`, {}),
		[
			"+ audit_log org-b binding.delete key-b b-key",
			"+ audit_log org-b binding.delete key-b b-key-app",
			"+ audit_log org-b binding.delete key-b b-key-channel",
			"+ audit_log org-b binding.delete key-b b-key-ended",
		],
	],
	auditBindingsOfApp: [
		() => auditBindingsOfApp(ACTOR, 2, B.org, BUNDLE_APP),
		["+ audit_log org-b binding.delete key-b b-key-app", "+ audit_log org-b binding.delete key-b b-key-channel"],
	],
	auditBindingsOfChannel: [
		() => auditBindingsOfChannel(ACTOR, 2, B.org, { appId: B.app, id: B.beta, name: "beta" }),
		["+ audit_log org-b binding.delete key-b b-key-channel"],
	],
};

const KEYS: Readonly<Record<string, Change>> = {
	updateApiKey: [
		(of, thing) => updateApiKey(of.org, thing.key, { name: "changed" }),
		["~ api_keys key-b name=changed"],
	],
	deleteApiKey: [
		(of, thing) => deleteApiKey(of.org, `key-shared-${thing.name}`),
		["- api_keys key-shared-b", "- role_bindings b-key-shared", "~ organizations org-b api_key_count=2"],
	],
	deleteBindings: [
		() => deleteBindings(B.org, B.key, ["b-key", "a-key", "a-key-elsewhere", "b-key-elsewhere", "b-key-shared"]),
		["- role_bindings b-key"],
	],
	"deleteBindings of the tenant's key": [
		(of, thing) => deleteBindings(of.org, thing.key, [`${thing.name}-key`]),
		["- role_bindings b-key"],
	],
	"deleteBindings of another key": [() => deleteBindings(B.org, A.key, ["b-key"]), []],
	insertChannelBinding: [() => onChannel(B.key, "b-key"), ["+ role_bindings org-b app-b 201"]],
	"insertChannelBinding from another key's binding": [() => onChannel(B.key, "b-key-shared"), []],
	"insertChannelBinding to another key": [() => onChannel(A.key, "b-key"), []],
	"insertChannelBinding from a binding that does not exist": [() => onChannel(B.key, "absent"), []],
	"insertChannelBinding on an app without the channel": [() => onChannel(B.key, "b-key", "", B.emptyApp), []],
	"insertChannelBinding on a channel of another app": [
		() => onChannel(B.key, "b-key", "", CROSSED.app, "production"),
		[],
	],
	"insertChannelBinding to a person": [() => onChannel(null, "b-user", B.user), ["+ role_bindings org-b app-b 201"]],
	"insertChannelBinding from another person's binding": [() => onChannel(null, "b-shared", B.user), []],
};

const ACCOUNTS: Readonly<Record<string, Change>> = {
	"deleteAccountStatements for what the account created": [
		() => deleteAccountStatements({ id: B.user, email: B.email }, [], ROLES, ACTOR, 2).slice(0, 1),
		["~ organizations org-b created_by=user-shared"],
		[
			sql`UPDATE role_bindings SET role_name = 'org_admin' WHERE id IN ('a-shared', 'b-shared')`,
			// In the first's organization this person comes before its owner, in the second's after.
			sql`UPDATE role_bindings SET created_at_ms = 2 WHERE id = 'b-shared'`,
		],
	],
	"deleteAccountStatements without another owner": [
		() => deleteAccountStatements({ id: B.user, email: B.email }, [], ROLES, ACTOR, 2).slice(0, 1),
		[],
	],
	auditEmailChange: [
		() => auditEmailChange(B.user, "new@example.com", yes, ACTOR, 2),
		[
			"+ audit_log deleted-org-b member.change_email user-b {email:b@example.com} {email:new@example.com}",
			"+ audit_log org-a member.change_email user-b {email:b@example.com} {email:new@example.com}",
			"+ audit_log org-b member.change_email user-b {email:b@example.com} {email:new@example.com}",
		],
	],
	changeEmail: [
		() => changeEmail({ userId: B.user, sessionId: B.session }, "new@example.com", "new", yes, 2, conflict),
		[
			"- sessions other-session-b",
			"~ sessions session-b token_hash=new",
			"~ users user-b email=new@example.com email_verified_at_ms=2",
		],
	],
	"changeEmail in another person's session": [
		() => changeEmail({ userId: B.user, sessionId: A.session }, "new@example.com", "new", yes, 2, conflict),
		[
			"- sessions other-session-b",
			"- sessions session-b",
			"~ users user-b email=new@example.com email_verified_at_ms=2",
		],
	],
	"changeEmail's replacement of the session's token": [
		() => changeEmail({ userId: B.user, sessionId: B.session }, "new@example.com", "new", yes, 2, conflict).slice(2),
		["~ sessions session-b token_hash=new"],
	],
	updateOrganization: [() => updateOrganization(B.org, { name: "changed" }), ["~ organizations org-b name=changed"]],
	"updateOrganization of a deleted organization": [
		() => updateOrganization(B.deletedOrg as OrgId, { name: "changed" }),
		[],
	],
	markOrganizationDeleted: [
		() => markOrganizationDeleted(B.org, 5),
		["+ changes app-b", "+ changes empty-app-b", "~ organizations org-b deleted_at_ms=5"],
	],
	restoreOrganization: [
		() => restoreOrganization(B.deletedOrg as OrgId, NOW_MS - 1),
		["+ changes deleted-app-b", "~ organizations deleted-org-b deleted_at_ms="],
	],
	"restoreOrganization after the restoration period": [() => restoreOrganization(B.deletedOrg as OrgId, NOW_MS), []],
	"restoreOrganization of an organization that is not deleted": [() => restoreOrganization(B.org, NOW_MS - 1), []],
	"markOrganizationDeleted of a deleted organization": [() => markOrganizationDeleted(B.deletedOrg as OrgId, 5), []],
};

describe.each([
	["members", MEMBERS],
	["keys", KEYS],
	["accounts", ACCOUNTS],
])("writes to %s", (_, changes) => {
	beforeEach(insertTenants);

	test.each(Object.entries(changes))("%s changes only the expected rows", (_, change) => expectChanges(change));
});
