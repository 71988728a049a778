/**
 * Each statement that writes, audit entries included, changes exactly the listed rows of its
 * tenant. Two tenants have things of the same names, and a third has rows that point into both.
 * Statements run for the second tenant, because a name that is looked up without its tenant finds
 * the first.
 */
import { sql } from "kysely";
import { beforeEach, describe, test } from "vitest";
import type { AppId } from "../../../src/authz/decide";
import { claimDeltaObject, insertManifest, setDeleteMark } from "../../../src/compat/capgo-cli/queries";
import { updateApp } from "../../../src/db/apps";
import { auditBundleDeletions, auditDeleteMarks, auditManifest } from "../../../src/db/audit/bundles";
import { auditChannelChange, yieldingChannels } from "../../../src/db/audit/channels";
import { auditEach } from "../../../src/db/audit/entries";
import { deleteBundles, dropRegistration } from "../../../src/db/bundle-deletion";
import { expiredBundles, liveBundles, pendingBundle, unusedBundles, updateBundle } from "../../../src/db/bundles";
import { deleteChannel, updateChannel, yieldPublicPlatforms } from "../../../src/db/channels";
import { deleteApp } from "../../../src/db/deleted-apps";
import { deleteOverride } from "../../../src/db/device-overrides";
import {
	type ActiveRolloutRow,
	deleteEarlyOutcomes,
	deleteEndedRollouts,
	followRollout,
	recountExcluded,
	rolloutChecked,
} from "../../../src/db/rollouts";
import { deleteSigningKey } from "../../../src/db/signing-keys";
import { bumpRevision } from "../../../src/db/snapshot";
import {
	completeUpload,
	deleteOpenUploadsOfBundle,
	deleteUpload,
	insertUploadForNewBundle,
	redundantDeltaObjectToGarbage,
	uploadsOfBundleToGarbage,
} from "../../../src/db/uploads";
import { insertTenants } from "../support/tenant-rows";
import { type Change, expectChanges } from "../support/tenant-statements";
import { A, B, type TenantRows } from "../support/tenants";
import { NOW_MS } from "../support/world";

const ACTOR = { type: "system", id: null, name: "Test", requestId: "", ipAddress: null } as const;
const BUNDLE_APP = { uuid: B.app, id: B.publicAppId };
const CHANNEL_SCOPE = { orgId: B.org, appId: B.app, channelId: B.channel, publicAppId: B.publicAppId };
const NOTING = { counted: true, uncounted: true };
const STANDING = { rollout_id: B.rollout, app_id: B.app, step_at_ms: 1 } as ActiveRolloutRow;

const UPLOAD = {
	id: "new",
	object_prefix: "prefix/",
	created_by: "x",
	created_by_key: "x",
	created_by_job: null,
	expires_at_ms: NOW_MS,
	created_at_ms: 1,
};

/** An object of the second tenant, which the app may use under the path. */
const redundant = (app: AppId, path: string, object: string) =>
	redundantDeltaObjectToGarbage(app, path, `${B.app}/delta/${object}`, "p/", 2);
const PLATFORMS = { ios: 1, android: 1, electron: 1 } as const;
const DELETION = { actor: ACTOR, nowMs: 2, appId: B.app };
const deletionIn = (of: TenantRows) => ({ ...DELETION, appId: of.app });

const PENDING_DROPPED = [
	"+ audit_log org-b bundle.delete 215 {version:2.0.0,checksum:null,size:null,status:pending} app-b com.example.b",
	"+ garbage_objects app-b/upload-b-expired/",
	"+ garbage_objects app-b/upload-b/",
	"- bundles 215",
	"- uploads upload-b",
	"- uploads upload-b-crossed",
	"- uploads upload-b-expired",
	"~ apps app-b bundle_count=3",
];

const BUNDLES: Readonly<Record<string, Change>> = {
	"deleteBundles of a bundle in a device's override": [
		() => deleteBundles(DELETION, liveBundles(B.app, [A.unused, B.next])),
		[
			"+ audit_log org-b bundle.delete 212 {version:1.1.0,checksum:null,size:212,status:ready} app-b com.example.b",
			"+ garbage_objects app-b/212",
			"~ apps app-b storage_bytes=1060 bundle_count=3",
			"~ bundles 212 status=deleted object_key= deleted_at_ms=2 updated_at_ms=2",
			"~ device_overrides app-b device-1 version_id=",
			"~ organizations org-b storage_bytes=1060",
		],
	],
	"deleteBundles of a bundle with a manifest": [
		(of, thing) => deleteBundles(deletionIn(of), liveBundles(of.app, [thing.stable])),
		[
			"+ audit_log org-b bundle.delete 211 {version:1.0.0,checksum:null,size:211,status:ready} app-b com.example.b",
			"+ garbage_objects app-b/211",
			"+ garbage_objects app-b/upload-b-stable/",
			"- bundle_files 211 a.js",
			"- device_overrides app-b device-2",
			"~ apps app-b storage_bytes=1061 bundle_count=3",
			"~ bundles 211 status=deleted object_key= deleted_at_ms=2 updated_at_ms=2",
			"~ organizations org-b storage_bytes=1061",
		],
	],
	"deleteBundles of a pending bundle": [
		() => deleteBundles(DELETION, liveBundles(B.app, [B.pending])),
		PENDING_DROPPED,
	],
	"deleteBundles of another tenant's bundle": [() => deleteBundles(DELETION, liveBundles(B.app, [A.unused])), []],
	"deleteBundles of a deleted bundle": [() => deleteBundles(DELETION, liveBundles(B.app, [B.deleted])), []],
	dropRegistration: [(of, thing) => dropRegistration(deletionIn(of), thing.pending), PENDING_DROPPED],
	"dropRegistration of a ready bundle": [() => dropRegistration(DELETION, B.unused), []],
	"deleteBundles of unused bundles": [
		() => deleteBundles(DELETION, unusedBundles(B.app)),
		[
			"+ audit_log org-b bundle.delete 213 {version:1.2.0,checksum:null,size:213,status:ready} app-b com.example.b",
			"+ garbage_objects app-b/213",
			"~ apps app-b storage_bytes=1059 bundle_count=3",
			"~ bundles 213 status=deleted object_key= deleted_at_ms=2 updated_at_ms=2",
			"~ organizations org-b storage_bytes=1059",
		],
	],
	"deleteBundles of expired bundles": [
		() => deleteBundles(DELETION, expiredBundles(B.app, [A.unused, B.stable, B.unused], 2)),
		[],
	],
	"deleteBundles of unused bundles in overrides of devices": [
		() => deleteBundles(DELETION, unusedBundles(B.app)),
		[
			"+ audit_log org-b bundle.delete 212 {version:1.1.0,checksum:null,size:212,status:ready} app-b com.example.b",
			"+ audit_log org-b bundle.delete 213 {version:1.2.0,checksum:null,size:213,status:ready} app-b com.example.b",
			"+ garbage_objects app-b/212",
			"+ garbage_objects app-b/213",
			"~ apps app-b storage_bytes=847 bundle_count=2",
			"~ bundles 212 status=deleted object_key= deleted_at_ms=2 updated_at_ms=2",
			"~ bundles 213 status=deleted object_key= deleted_at_ms=2 updated_at_ms=2",
			"~ device_overrides app-b device-1 version_id=",
			"~ organizations org-b storage_bytes=847",
		],
		[sql`UPDATE channels SET rollout_version_id = NULL WHERE app_id = ${B.app}`],
	],
	updateBundle: [
		(of, thing) => updateBundle(of.app, thing.unused, { comment: "changed" }),
		["~ bundles 213 comment=changed"],
	],
	"updateBundle of a deleted bundle": [() => updateBundle(B.app, B.deleted, { comment: "changed" }), []],
	setDeleteMark: [
		(of, thing) => setDeleteMark(of.app, [thing.unused, thing.deleted], 2),
		["~ bundles 213 delete_marked_at_ms=2"],
	],
	auditBundleDeletions: [
		() => auditBundleDeletions(ACTOR, 2, liveBundles(B.app, [A.unused, B.unused])),
		["+ audit_log org-b bundle.delete 213 {version:1.2.0,checksum:null,size:213,status:ready} app-b com.example.b"],
	],
	"auditBundleDeletions of a pending bundle": [
		() => auditBundleDeletions(ACTOR, 2, pendingBundle(B.app, B.pending)),
		["+ audit_log org-b bundle.delete 215 {version:2.0.0,checksum:null,size:null,status:pending} app-b com.example.b"],
	],
	"auditDeleteMarks of a new mark": [
		() => auditDeleteMarks(ACTOR, 2, true, liveBundles(B.app, [B.unused, B.deleted])),
		[
			"+ audit_log org-b bundle.mark_for_deletion 213 {marked_for_deletion:false} {marked_for_deletion:true} app-b com.example.b",
		],
	],
	"auditDeleteMarks of a mark that was never set": [
		() => auditDeleteMarks(ACTOR, 2, false, liveBundles(B.app, [B.unused, B.deleted])),
		[],
	],
	"auditDeleteMarks of a live bundle": [
		() => auditDeleteMarks(ACTOR, 2, true, liveBundles(B.app, [B.unused])),
		[
			"+ audit_log org-b bundle.mark_for_deletion 213 {marked_for_deletion:false} {marked_for_deletion:true} app-b com.example.b",
		],
	],
	auditManifest: [
		(of, thing) => auditManifest(ACTOR, 2, of.app, thing.next, 1),
		["+ audit_log org-b bundle.set_manifest 212 {manifest_files:1} app-b com.example.b"],
	],
	"auditManifest of a bundle that has a manifest": [() => auditManifest(ACTOR, 2, B.app, B.stable, 1), []],
	insertManifest: [
		() => insertManifest(B.app, B.next, MANIFEST, B.key),
		["+ bundle_files 212 app-b key-b:own", "+ bundle_files 212 app-b shared"],
	],
	"insertManifest by another tenant's key": [
		() => insertManifest(B.app, B.next, SHARED, A.key),
		["+ bundle_files 212 app-b shared"],
	],
	"claimDeltaObject of an object that all may use": [
		() => claimDeltaObject(B.app, "shared", B.key, 2),
		["~ delta_objects app-b shared last_claimed_at_ms=2"],
	],
	claimDeltaObject: [
		(of, thing) => claimDeltaObject(of.app, "own", thing.key, 2),
		["~ delta_objects app-b key-b:own last_claimed_at_ms=2"],
	],
	uploadsOfBundleToGarbage: [
		(of, thing) => uploadsOfBundleToGarbage(of.app, thing.pending, 2),
		["+ garbage_objects app-b/upload-b-expired/", "+ garbage_objects app-b/upload-b/"],
	],
	deleteUpload: [(of, thing) => deleteUpload(of.app, thing.upload), ["- uploads upload-b"]],
	deleteSigningKey: [(of, thing) => deleteSigningKey(of.org, `signing-${thing.name}`), ["- signing_keys signing-b"]],
	deleteOpenUploadsOfBundle: [
		(of, thing) => deleteOpenUploadsOfBundle(of.app, thing.pending),
		["- uploads upload-b", "- uploads upload-b-expired"],
	],
	deleteApp: [
		(of, thing) => deleteApp(of.org, thing.app, "grave", "Test", 2),
		[
			"+ app_reservations com.example.b org-b",
			"+ changed_items app-b",
			"+ changes app-b",
			"+ deleted_apps app-b org-b",
			"+ organizations grave",
			"~ apps app-b app_id=app-b owner_org=grave",
			"~ organizations org-b app_count=1 storage_bytes=0",
		],
	],
	completeUpload: [(of, thing) => completeUpload(of.app, thing.upload, 2), ["~ uploads upload-b completed_at_ms=2"]],
	insertUploadForNewBundle: [
		() => insertUploadForNewBundle(B.app, "2.0.0", UPLOAD),
		["+ uploads app-b 215 prefix/ org-b"],
	],
	"insertUploadForNewBundle of a name that is not pending": [
		() => insertUploadForNewBundle(B.emptyApp, "2.0.0", UPLOAD),
		[],
	],
	"redundantDeltaObjectToGarbage of the object that the app uses": [() => redundant(B.app, "shared", "shared"), []],
	"redundantDeltaObjectToGarbage of another app": [
		() => redundant(A.app, "shared", "shared"),
		["+ garbage_objects p/"],
	],
	"redundantDeltaObjectToGarbage of another path": [
		() => redundant(B.app, "absent", "shared"),
		["+ garbage_objects p/"],
	],
	"redundantDeltaObjectToGarbage of another object": [
		() => redundant(B.app, "shared", "another"),
		["+ garbage_objects p/"],
	],
	updateApp: [() => updateApp(B.app, { name: "changed" }), ["~ apps app-b name=changed"]],
	bumpRevision: [() => bumpRevision(B.app), ["+ changed_items app-b", "+ changes app-b", "~ apps app-b revision=1"]],
};

const MANIFEST = JSON.stringify([
	{ file_name: "a.js", s3_path: "shared", file_hash: "hash" },
	{ file_name: "b.js", s3_path: "own", file_hash: "hash" },
]);
const SHARED = JSON.stringify([{ file_name: "a.js", s3_path: "shared", file_hash: "hash" }]);

const CHANNELS: Readonly<Record<string, Change>> = {
	updateChannel: [
		(of, thing) => updateChannel(of.app, thing.beta, { allow_dev: 0 }, 2),
		["~ channels 202 allow_dev=0 updated_at_ms=2"],
	],
	deleteChannel: [
		(of, thing) => deleteChannel(of.app, thing.beta),
		[
			"- channels 202",
			"- device_overrides app-b device-1",
			"- role_bindings b-key-channel",
			"- rollout_devices paused-b device-1",
			"- rollouts paused-b",
			"~ apps app-b channel_count=1",
		],
	],
	"updateChannel to the current value": [() => updateChannel(B.app, B.beta, { allow_dev: 1 }, 2), []],
	auditChannelChange: [
		(of, { channel }) => {
			const scope = { orgId: of.org, appId: of.app, channelId: channel, publicAppId: of.publicAppId };
			return auditChannelChange(ACTOR, 2, "channel.update", scope, { allow_dev: 0, ios: 1 }, new Map());
		},
		["+ audit_log org-b channel.update 201 {allow_dev:true} {allow_dev:false} app-b com.example.b"],
	],
	"auditChannelChange of the rollout's bundle": [
		() => auditChannelChange(ACTOR, 2, "channel.update", CHANNEL_SCOPE, { rollout_version_id: null }, new Map()),
		["+ audit_log org-b channel.update 201 {rolloutVersion:1.1.0} {rolloutVersion:null} app-b com.example.b"],
	],
	"auditChannelChange to the current value": [
		() => auditChannelChange(ACTOR, 2, "channel.update", CHANNEL_SCOPE, { allow_dev: 1 }, new Map()),
		[],
	],
	"auditChannelChange of the live bundle": [
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
	"yieldPublicPlatforms except for the channel that takes them": [
		() => yieldPublicPlatforms(B.app, "production", PLATFORMS, 2),
		[],
	],
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
	"yieldingChannels except for the channel that takes them": [
		() =>
			auditEach(
				ACTOR,
				2,
				{ action: "channel.update", targetType: "channel", ofApps: true },
				yieldingChannels(B.org, BUNDLE_APP, "production", PLATFORMS),
			),
		[],
	],
	"followRollout of an ended rollout": [
		() => followRollout(B.app, B.channel, 3),
		["~ rollouts 0-b ended_at_ms=3 ended_as=rolled_back", "~ rollouts rollout-b ended_at_ms=3 ended_as=rolled_back"],
		[sql`UPDATE channels SET rollout_id = NULL`],
	],
	"followRollout of a changed rollout": [
		() => followRollout(B.app, { name: "production" }, 3),
		["~ rollouts 0-b ended_at_ms=3 ended_as=replaced", "~ rollouts rollout-b percentage_bps=2 step_at_ms=3"],
		[sql`UPDATE channels SET rollout_percentage_bps = 2`],
	],
	"followRollout of a new rollout": [
		() => followRollout(B.app, B.channel, 3),
		[
			"+ rollouts app-b 201",
			"~ rollouts 0-b ended_at_ms=3 ended_as=replaced",
			"~ rollouts rollout-b ended_at_ms=3 ended_as=replaced",
		],
		[sql`UPDATE channels SET rollout_id = 'new-' || app_id WHERE rollout_id IS NOT NULL`],
	],
	"followRollout of a channel without a rollout": [() => followRollout(B.app, B.beta, 3), []],
	recountExcluded: [
		() => [recountExcluded(B.app, B.channel)],
		["~ rollout_devices rollout-b device-1 not_counted="],
		[
			sql`UPDATE rollout_devices SET not_counted = 'newer' WHERE device_id = 'device-1'`,
			sql`UPDATE rollouts SET started_at_ms = ${2 * 86_400_000}`,
		],
	],
	"recountExcluded of a device of unknown age": [
		() => [recountExcluded(B.app, B.channel)],
		[],
		[
			sql`UPDATE rollout_devices SET not_counted = 'newer', device_created_at_ms = NULL`,
			sql`UPDATE rollouts SET started_at_ms = ${2 * 86_400_000}`,
		],
	],
	"recountExcluded of another app's channel": [
		() => [recountExcluded(A.app, B.channel)],
		[],
		[sql`UPDATE rollout_devices SET not_counted = 'newer'`, sql`UPDATE rollouts SET started_at_ms = ${2 * 86_400_000}`],
	],
	deleteEarlyOutcomes: [
		() => deleteEarlyOutcomes(2, 10),
		["- rollout_devices rollout-b device-1"],
		[
			sql`UPDATE rollout_devices SET first_served_at_ms = NULL WHERE rollout_id = ${B.rollout} AND device_id = 'device-1'`,
		],
	],
	deleteEndedRollouts: [
		() => deleteEndedRollouts(2, 10),
		[
			"- rollout_devices ended-a device-1",
			"- rollout_devices ended-b device-1",
			"- rollouts ended-a",
			"- rollouts ended-b",
		],
	],
	"deleteEndedRollouts with devices left": [() => deleteEndedRollouts(2, 10).slice(1), []],
	rolloutChecked: [() => rolloutChecked(STANDING, NOTING, false, null, 2), ["~ rollouts rollout-b checked_at_ms=2"]],
	"rolloutChecked of another app": [() => rolloutChecked({ ...STANDING, app_id: A.app }, NOTING, false, null, 2), []],
	"rolloutChecked of an ended step": [() => rolloutChecked({ ...STANDING, step_at_ms: 7 }, NOTING, false, null, 2), []],
	deleteOverride: [() => deleteOverride(B.app, "device-1"), ["- device_overrides app-b device-1"]],
	"deleteOverride of a device without an override": [() => deleteOverride(B.app, "device-3"), []],
};

describe.each([
	["bundles", BUNDLES],
	["channels", CHANNELS],
])("writes to %s", (_, changes) => {
	beforeEach(insertTenants);

	test.each(Object.entries(changes))("%s changes only the expected rows", (_, change) => expectChanges(change));
});
