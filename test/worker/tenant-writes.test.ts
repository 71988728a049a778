/**
 * What statements that write, and those that write the audit log, make of two tenants whose things have the same names: exactly these
 * rows of the one that they are run for, beside rows of a third that point into it. They are run for the second tenant: a name that is
 * looked up without its tenant finds the first.
 */
import type { CompiledQuery, RawBuilder } from "kysely";
import { sql } from "kysely";
import { beforeEach, describe, expect, test } from "vitest";
import type { OrgId } from "../../src/authz/decide";
import { auditEmailChange, changeEmail, deleteAccountStatements } from "../../src/db/accounts";
import { deleteApiKey, deleteBindings, insertChannelBinding, updateApiKey } from "../../src/db/api-keys";
import { auditEach } from "../../src/db/audit";
import {
	auditBindingGiven,
	auditBindingsElsewhere,
	auditBindingsOfApp,
	auditBindingsOfChannel,
	auditBindingsOfKeys,
	auditBindingsTaken,
	auditForeignBindings,
} from "../../src/db/binding-audit";
import { auditBundlesGoing, auditDeleteMarks, auditManifest } from "../../src/db/bundle-audit";
import {
	bundlesWithIds,
	deleteUnusedBundles,
	liveBundle,
	markBundleDeleted,
	outlived,
	pendingBundle,
	updateBundle,
} from "../../src/db/bundles";
import { auditChannelChange, yieldingChannels } from "../../src/db/channel-audit";
import { deleteChannel, updateChannel, yieldPublicPlatforms } from "../../src/db/channels";
import { query } from "../../src/db/client";
import { claimDeltaObject, insertManifest, setDeleteMark } from "../../src/db/compat";
import { deleteApp } from "../../src/db/deleted-apps";
import { deleteOverride } from "../../src/db/devices";
import { removeForeignBindings, takeGlobalPermissionsWith } from "../../src/db/foreign-bindings";
import { changeInvitation } from "../../src/db/invitations";
import { deleteKeysOfMember, deleteMemberRoles, removeMember, setMemberPermissions } from "../../src/db/members";
import { markOrganizationDeleted, updateOrganization } from "../../src/db/organizations";
import {
	countByNewRules,
	followRollout,
	forgetEarlyOutcomes,
	forgetEndedRollouts,
	rolloutChecked,
	type StandingRow,
} from "../../src/db/rollouts";
import { deleteSigningKey } from "../../src/db/signing-keys";
import { bumpRevision } from "../../src/db/snapshot";
import { deleteOpenUploadsOfBundle, deleteUpload, uploadsOfBundleToGarbage } from "../../src/db/uploads";
import { A, ADMINISTERING, B, changesBy, insertTenants, rowsOfAll } from "./support/tenants";
import { NOW_MS } from "./support/world";

const ACTOR = { type: "system", id: null, name: "Test", requestId: "", ipAddress: null } as const;
const BUNDLE_APP = { uuid: B.app, id: B.publicAppId };
const CHANNEL_SCOPE = { orgId: B.org, appId: B.app, channelId: B.channel, publicAppId: B.publicAppId };
const NOTING = { counted: true, uncounted: true };
const STANDING = { rollout_id: B.rollout, app_id: B.app, step_at_ms: 1 } as StandingRow;
const yes = sql<boolean>`true`;
const ROLES = { owning: ADMINISTERING, administering: ADMINISTERING } as const;
const INVITED = { role_name: "org_admin", invited_by: "user-shared", token_hash: "new" } as const;
/** A binding on the channel, from one that its holder has; `userId` where it is no key. */
const onChannel = (keyId: string | null, parent: string, userId = "") =>
	insertChannelBinding(
		{
			...{ id: "new", holder: { userId, keyId }, role: "channel_preview", orgId: B.org, appId: B.app },
			createdAtMs: 2,
		},
		"production",
		parent,
	);
const PLATFORMS = { ios: 1, android: 1, electron: 1 } as const;

/** What is run, what it makes of the rows, and what is arranged before. */
type Change = readonly [
	() => CompiledQuery | readonly CompiledQuery[],
	readonly string[],
	(readonly RawBuilder<unknown>[])?,
];

const BUNDLES: Readonly<Record<string, Change>> = {
	markBundleDeleted: [
		() => markBundleDeleted(B.app, B.next, 2),
		[
			"~ apps app-b storage_bytes=1060",
			"~ bundles 212 status=deleted object_key= deleted_at_ms=2 updated_at_ms=2",
			"~ device_overrides app-b device-1 version_id=",
		],
	],
	"markBundleDeleted, with a manifest": [
		() => markBundleDeleted(B.app, B.stable, 2),
		[
			"- bundle_files 211 a.js",
			"- device_overrides app-b device-2",
			"~ apps app-b storage_bytes=1061",
			"~ bundles 211 status=deleted object_key= deleted_at_ms=2 updated_at_ms=2",
		],
	],
	"markBundleDeleted, files of another app": [
		() => markBundleDeleted(B.app, B.unused, 2),
		["~ apps app-b storage_bytes=1059", "~ bundles 213 status=deleted object_key= deleted_at_ms=2 updated_at_ms=2"],
	],
	deleteUnusedBundles: [
		() => deleteUnusedBundles(B.app, 2, (doomed) => auditBundlesGoing(ACTOR, 2, doomed)),
		[
			"+ audit_log org-b bundle.delete 213 {version:1.2.0,checksum:null,size:213,status:ready} app-b com.example.b",
			"+ garbage_objects app-b/213",
			"~ apps app-b storage_bytes=1059",
			"~ bundles 213 status=deleted object_key= deleted_at_ms=2 updated_at_ms=2",
		],
	],
	"deleteUnusedBundles, those that are named": [
		() =>
			deleteUnusedBundles(B.app, 2, () => sql`SELECT 1`.compile(query), bundlesWithIds(B.app, [A.unused, B.stable])),
		[],
	],
	"deleteUnusedBundles, those that are outlived": [
		() => deleteUnusedBundles(B.app, 2, () => sql`SELECT 1`.compile(query), outlived(2)),
		[],
	],
	"deleteUnusedBundles, with what devices were given": [
		() => deleteUnusedBundles(B.app, 2, () => sql`SELECT 1`.compile(query)),
		[
			"+ garbage_objects app-b/212",
			"+ garbage_objects app-b/213",
			"~ apps app-b storage_bytes=847",
			"~ bundles 212 status=deleted object_key= deleted_at_ms=2 updated_at_ms=2",
			"~ bundles 213 status=deleted object_key= deleted_at_ms=2 updated_at_ms=2",
			"~ device_overrides app-b device-1 version_id=",
		],
		[sql`UPDATE channels SET rollout_version_id = NULL WHERE app_id = ${B.app}`],
	],
	updateBundle: [() => updateBundle(B.app, B.unused, { comment: "changed" }), ["~ bundles 213 comment=changed"]],
	"updateBundle, of another's": [() => updateBundle(B.app, A.unused, { comment: "changed" }), []],
	"updateBundle, of a deleted one": [() => updateBundle(B.app, B.deleted, { comment: "changed" }), []],
	setDeleteMark: [
		() => setDeleteMark(B.app, [A.unused, B.unused, B.deleted], 2),
		["~ bundles 213 delete_marked_at_ms=2"],
	],
	auditBundlesGoing: [
		() => auditBundlesGoing(ACTOR, 2, bundlesWithIds(B.app, [A.unused, B.unused])),
		["+ audit_log org-b bundle.delete 213 {version:1.2.0,checksum:null,size:213,status:ready} app-b com.example.b"],
	],
	"auditBundlesGoing, a pending one": [
		() => auditBundlesGoing(ACTOR, 2, pendingBundle(B.app, B.pending)),
		["+ audit_log org-b bundle.delete 215 {version:2.0.0,checksum:null,size:null,status:pending} app-b com.example.b"],
	],
	"auditDeleteMarks, set": [
		() => auditDeleteMarks(ACTOR, 2, true, bundlesWithIds(B.app, [B.unused, B.deleted])),
		[
			"+ audit_log org-b bundle.mark_for_deletion 213 {marked_for_deletion:false} {marked_for_deletion:true} app-b com.example.b",
		],
	],
	"auditDeleteMarks, taken back": [
		() => auditDeleteMarks(ACTOR, 2, false, bundlesWithIds(B.app, [B.unused, B.deleted])),
		[],
	],
	"auditDeleteMarks, of a live bundle": [
		() => auditDeleteMarks(ACTOR, 2, true, liveBundle(B.app, B.unused)),
		[
			"+ audit_log org-b bundle.mark_for_deletion 213 {marked_for_deletion:false} {marked_for_deletion:true} app-b com.example.b",
		],
	],
	auditManifest: [
		() => auditManifest(ACTOR, 2, B.app, B.next, 1),
		["+ audit_log org-b bundle.set_manifest 212 {manifest_files:1} app-b com.example.b"],
	],
	"auditManifest, of one that has it": [() => auditManifest(ACTOR, 2, B.app, B.stable, 1), []],
	"auditManifest, of another's": [() => auditManifest(ACTOR, 2, B.app, A.next, 1), []],
	insertManifest: [
		() => insertManifest(B.app, B.next, MANIFEST, B.key),
		["+ bundle_files 212 app-b key-b:own", "+ bundle_files 212 app-b shared"],
	],
	"insertManifest, by another's key": [
		() => insertManifest(B.app, B.next, SHARED, A.key),
		["+ bundle_files 212 app-b shared"],
	],
	"claimDeltaObject, of those that all may use": [
		() => claimDeltaObject(B.app, "shared", B.key, 2),
		["~ delta_objects app-b shared last_claimed_at_ms=2"],
	],
	claimDeltaObject: [
		() => claimDeltaObject(B.app, "own", B.key, 2),
		["~ delta_objects app-b key-b:own last_claimed_at_ms=2"],
	],
	uploadsOfBundleToGarbage: [
		() => uploadsOfBundleToGarbage(B.app, B.pending, 2),
		["+ garbage_objects app-b/upload-b-expired/", "+ garbage_objects app-b/upload-b/"],
	],
	deleteUpload: [() => deleteUpload(B.app, B.upload), ["- uploads upload-b"]],
	"deleteUpload, of another tenant": [() => deleteUpload(B.app, A.upload), []],
	deleteSigningKey: [() => deleteSigningKey(B.org, "signing-b"), ["- signing_keys signing-b"]],
	"deleteSigningKey, of another tenant": [() => deleteSigningKey(B.org, "signing-a"), []],
	deleteOpenUploadsOfBundle: [
		() => deleteOpenUploadsOfBundle(B.app, B.pending),
		["- uploads upload-b", "- uploads upload-b-expired"],
	],
	deleteApp: [
		() => deleteApp(B.org, B.app, "grave", "Test", 2),
		[
			"+ app_reservations com.example.b org-b",
			"+ deleted_apps app-b org-b",
			"+ organizations ",
			"~ apps app-b app_id=app-b owner_org=grave",
		],
	],
	"deleteApp, of another's": [() => deleteApp(A.org, B.app, "grave", "Test", 2), []],
	bumpRevision: [() => bumpRevision(B.app), ["~ apps app-b revision=1"]],
};
const MANIFEST = JSON.stringify([
	{ file_name: "a.js", s3_path: "shared", file_hash: "hash" },
	{ file_name: "b.js", s3_path: "own", file_hash: "hash" },
]);
const SHARED = JSON.stringify([{ file_name: "a.js", s3_path: "shared", file_hash: "hash" }]);

const CHANNELS: Readonly<Record<string, Change>> = {
	updateChannel: [
		() => updateChannel(B.app, B.beta, { allow_dev: 0 }, 2),
		["~ channels 202 allow_dev=0 updated_at_ms=2"],
	],
	"updateChannel, of another's": [() => updateChannel(B.app, A.beta, { allow_dev: 0 }, 2), []],
	deleteChannel: [
		() => deleteChannel(B.app, B.beta),
		[
			"- channels 202",
			"- device_overrides app-b device-1",
			"- role_bindings b-key-channel",
			"- rollout_devices paused-b device-1",
			"- rollouts paused-b",
		],
	],
	"deleteChannel, of another's": [() => deleteChannel(B.app, A.beta), []],
	"updateChannel, to what it is": [() => updateChannel(B.app, B.beta, { allow_dev: 1 }, 2), []],
	auditChannelChange: [
		() => auditChannelChange(ACTOR, 2, "channel.update", CHANNEL_SCOPE, { allow_dev: 0, ios: 1 }, new Map()),
		["+ audit_log org-b channel.update 201 {allow_dev:true} {allow_dev:false} app-b com.example.b"],
	],
	"auditChannelChange, of another's": [
		() =>
			auditChannelChange(
				ACTOR,
				2,
				"channel.update",
				{ ...CHANNEL_SCOPE, channelId: A.channel },
				{ allow_dev: 0 },
				new Map(),
			),
		[],
	],
	"auditChannelChange, of the rollout's bundle": [
		() => auditChannelChange(ACTOR, 2, "channel.update", CHANNEL_SCOPE, { rollout_version_id: null }, new Map()),
		["+ audit_log org-b channel.update 201 {rolloutVersion:1.1.0} {rolloutVersion:null} app-b com.example.b"],
	],
	"auditChannelChange, to what it is": [
		() => auditChannelChange(ACTOR, 2, "channel.update", CHANNEL_SCOPE, { allow_dev: 1 }, new Map()),
		[],
	],
	"auditChannelChange, of bundles": [
		() =>
			auditChannelChange(
				ACTOR,
				2,
				"channel.update",
				CHANNEL_SCOPE,
				{ version_id: B.unused },
				new Map([[B.unused, "1.2.0"]]),
			),
		["+ audit_log org-b channel.update 201 {version:1.0.0} {version:1.2.0} app-b com.example.b"],
	],
	yieldPublicPlatforms: [
		() => yieldPublicPlatforms(B.app, "another", PLATFORMS, 2),
		["~ channels 201 public=0 ios=0 android=0 electron=0 updated_at_ms=2"],
	],
	"yieldPublicPlatforms, but for the one": [() => yieldPublicPlatforms(B.app, "production", PLATFORMS, 2), []],
	yieldingChannels: [
		() =>
			auditEach(
				ACTOR,
				2,
				{ action: "channel.update", targetType: "channel", ofApps: true },
				yieldingChannels(B.org, BUNDLE_APP, "another", PLATFORMS),
			),
		[
			"+ audit_log org-b channel.update 201 {public:true,ios:true,android:true,electron:true} {public:false,ios:false,android:false,electron:false} app-b com.example.b",
		],
	],
	"yieldingChannels, but for the one": [
		() =>
			auditEach(
				ACTOR,
				2,
				{ action: "channel.update", targetType: "channel", ofApps: true },
				yieldingChannels(B.org, BUNDLE_APP, "production", PLATFORMS),
			),
		[],
	],
	"followRollout, that ended": [
		() => followRollout(B.app, B.channel, 3),
		["~ rollouts 0-b ended_at_ms=3 ended_as=rolled_back", "~ rollouts rollout-b ended_at_ms=3 ended_as=rolled_back"],
		[sql`UPDATE channels SET rollout_id = NULL`],
	],
	"followRollout, that changed": [
		() => followRollout(B.app, { name: "production" }, 3),
		["~ rollouts 0-b ended_at_ms=3 ended_as=replaced", "~ rollouts rollout-b percentage_bps=2 step_at_ms=3"],
		[sql`UPDATE channels SET rollout_percentage_bps = 2`],
	],
	"followRollout, that is another": [
		() => followRollout(B.app, B.channel, 3),
		[
			"+ rollouts app-b 201",
			"~ rollouts 0-b ended_at_ms=3 ended_as=replaced",
			"~ rollouts rollout-b ended_at_ms=3 ended_as=replaced",
		],
		[sql`UPDATE channels SET rollout_id = 'new-' || app_id WHERE rollout_id IS NOT NULL`],
	],
	"followRollout, where there is none": [() => followRollout(B.app, B.beta, 3), []],
	countByNewRules: [
		() => [countByNewRules(B.app, B.channel)],
		["~ rollout_devices rollout-b device-1 not_counted="],
		[
			sql`UPDATE rollout_devices SET not_counted = 'newer' WHERE device_id = 'device-1'`,
			sql`UPDATE rollouts SET started_at_ms = ${2 * 86_400_000}`,
		],
	],
	"countByNewRules, of another app's channel": [
		() => [countByNewRules(A.app, B.channel)],
		[],
		[sql`UPDATE rollout_devices SET not_counted = 'newer'`, sql`UPDATE rollouts SET started_at_ms = ${2 * 86_400_000}`],
	],
	forgetEarlyOutcomes: [
		() => forgetEarlyOutcomes(2, 10),
		["- rollout_devices rollout-b device-1"],
		[
			sql`UPDATE rollout_devices SET first_served_at_ms = NULL WHERE rollout_id = ${B.rollout} AND device_id = 'device-1'`,
		],
	],
	forgetEndedRollouts: [
		() => forgetEndedRollouts(2, 10),
		[
			"- rollout_devices ended-a device-1",
			"- rollout_devices ended-b device-1",
			"- rollouts ended-a",
			"- rollouts ended-b",
		],
	],
	"forgetEndedRollouts, with devices left": [() => forgetEndedRollouts(2, 10).slice(1), []],
	rolloutChecked: [() => rolloutChecked(STANDING, NOTING, false, 2), ["~ rollouts rollout-b checked_at_ms=2"]],
	"rolloutChecked, of another app": [() => rolloutChecked({ ...STANDING, app_id: A.app }, NOTING, false, 2), []],
	"rolloutChecked, of a step that is over": [
		() => rolloutChecked({ ...STANDING, step_at_ms: 7 }, NOTING, false, 2),
		[],
	],
	deleteOverride: [() => deleteOverride(B.app, "device-1"), ["- device_overrides app-b device-1"]],
	"deleteOverride, of a device without": [() => deleteOverride(B.app, "device-3"), []],
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
	"removeMember, with a key from elsewhere": [
		() => removeMember(B.org, A.user, ADMINISTERING, ACTOR, NOW_MS),
		["+ audit_log org-b binding.delete key-a a-key-elsewhere", "- role_bindings a-key-elsewhere"],
	],
	"removeMember, who was invited": [
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
	"deleteMemberRoles, but for those on apps": [
		() => deleteMemberRoles(B.org, B.user),
		["- role_bindings b-user", "- role_bindings b-user-ending"],
		[sql`UPDATE role_bindings SET scope_type = 'app', app_id = ${B.app} WHERE id = 'b-user-ended'`],
	],
	deleteKeysOfMember: [
		() => deleteKeysOfMember(B.org, "user-shared"),
		["- api_keys key-expired-b", "- api_keys key-shared-b", "- role_bindings b-key-shared"],
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
	"removeForeignBindings, the last that administers": [
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
	"removeForeignBindings, beside a role that ran out": [
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
	"removeForeignBindings, beside a role that will run out": [
		() => removeForeignBindings(B.org, sql`1`, ADMINISTERING, ACTOR, NOW_MS),
		[
			"+ audit_log org-b binding.delete key-a a-key-elsewhere",
			"+ audit_log org-b binding.delete key-x x-b-ended",
			"- role_bindings a-key-elsewhere",
			"- role_bindings x-b-ended",
		],
		[ADMINISTERS_ELSEWHERE, sql`UPDATE role_bindings SET expires_at_ms = ${NOW_MS + 1} WHERE id = 'a-key'`],
	],
	"removeForeignBindings, beside a role on an app": [
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
	"takeGlobalPermissionsWith, of other bindings": [
		() => takeGlobalPermissionsWith(B.org, sql`('b-key', 'x-key')`, ADMINISTERING, ACTOR, NOW_MS),
		[],
		ADMINISTERS_ELSEWHERE_ALONE,
	],
	"takeGlobalPermissionsWith, where another role goes": [
		() => takeGlobalPermissionsWith(B.org, sql`(SELECT id FROM role_bindings)`, ADMINISTERING, ACTOR, NOW_MS),
		[],
		[sql`UPDATE role_bindings SET role_name = 'org_member' WHERE id = 'a-key'`],
	],
	"takeGlobalPermissionsWith, where a role on an app goes": [
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
	"setMemberPermissions, of somebody with a role on an app alone": [
		() => setMemberPermissions(B.org, "user-shared", ["org.create"]),
		[],
		[sql`UPDATE role_bindings SET scope_type = 'app', app_id = ${B.app} WHERE id = 'b-shared'`],
	],
	changeInvitation: [
		() => changeInvitation(B.org, B.invitation, INVITED),
		["~ invitations invitation-b role_name=org_admin token_hash=new invited_by=user-shared"],
	],
	"changeInvitation, of another's": [() => changeInvitation(B.org, A.invitation, INVITED), []],
	auditBindingGiven: [
		() => auditBindingGiven(ACTOR, 2, B.org, "b-key"),
		["+ audit_log org-b binding.create key-b b-key"],
	],
	"auditBindingGiven, to a person": [
		() => auditBindingGiven(ACTOR, 2, B.org, "b-user", { userId: B.user, keyId: null }),
		["+ audit_log org-b binding.create user-b b-user"],
	],
	"auditBindingGiven, in another organization": [
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
	updateApiKey: [() => updateApiKey(B.org, B.key, { name: "changed" }), ["~ api_keys key-b name=changed"]],
	"updateApiKey, of another's": [() => updateApiKey(B.org, A.key, { name: "changed" }), []],
	deleteApiKey: [
		() => deleteApiKey(B.org, "key-shared-b"),
		["- api_keys key-shared-b", "- role_bindings b-key-shared"],
	],
	"deleteApiKey, of another's": [() => deleteApiKey(B.org, A.key), []],
	deleteBindings: [
		() => deleteBindings(B.org, B.key, ["b-key", "a-key", "a-key-elsewhere", "b-key-elsewhere", "b-key-shared"]),
		["- role_bindings b-key"],
	],
	insertChannelBinding: [() => onChannel(B.key, "b-key"), ["+ role_bindings org-b app-b 201"]],
	"insertChannelBinding, from another key's": [() => onChannel(B.key, "b-key-shared"), []],
	"insertChannelBinding, to a person": [() => onChannel(null, "b-user", B.user), ["+ role_bindings org-b app-b 201"]],
	"insertChannelBinding, from another person's": [() => onChannel(null, "b-shared", B.user), []],
};

const ACCOUNTS: Readonly<Record<string, Change>> = {
	"deleteAccountStatements, what the account made": [
		() => deleteAccountStatements({ id: B.user, email: B.email }, [], ROLES, ACTOR, 2).slice(0, 1),
		["~ organizations org-b created_by=user-shared"],
		[
			sql`UPDATE role_bindings SET role_name = 'org_admin' WHERE id IN ('a-shared', 'b-shared')`,
			// In the first's organization this person comes before its owner, in the second's after.
			sql`UPDATE role_bindings SET created_at_ms = 2 WHERE id = 'b-shared'`,
		],
	],
	"deleteAccountStatements, where nobody else owns": [
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
		() => changeEmail({ userId: B.user, sessionId: B.session }, "new@example.com", "new", yes, 2),
		[
			"- sessions other-session-b",
			"~ sessions session-b token_hash=new",
			"~ users user-b email=new@example.com email_verified_at_ms=2",
		],
	],
	"changeEmail, in another's session": [
		() => changeEmail({ userId: B.user, sessionId: A.session }, "new@example.com", "new", yes, 2),
		[
			"- sessions other-session-b",
			"- sessions session-b",
			"~ users user-b email=new@example.com email_verified_at_ms=2",
		],
	],
	"changeEmail, the session's token": [
		() => changeEmail({ userId: B.user, sessionId: B.session }, "new@example.com", "new", yes, 2).slice(2),
		["~ sessions session-b token_hash=new"],
	],
	updateOrganization: [() => updateOrganization(B.org, { name: "changed" }), ["~ organizations org-b name=changed"]],
	"updateOrganization, a deleted one": [() => updateOrganization(B.deletedOrg as OrgId, { name: "changed" }), []],
	markOrganizationDeleted: [() => markOrganizationDeleted(B.org, 5), ["~ organizations org-b deleted_at_ms=5"]],
	"markOrganizationDeleted, a deleted one": [() => markOrganizationDeleted(B.deletedOrg as OrgId, 5), []],
};

describe.each(Object.entries({ BUNDLES, CHANNELS, MEMBERS, KEYS, ACCOUNTS }))("of %s", (_, changes) => {
	beforeEach(insertTenants);

	test.each(Object.entries(changes))(
		"%s: changes this and nothing else",
		async (_, [change, expected, arranged = []]) => {
			if (arranged.length > 0) await rowsOfAll(arranged.map((statement) => statement.compile(query)));
			expect(await changesBy(change())).toEqual(expected);
		},
	);
});
