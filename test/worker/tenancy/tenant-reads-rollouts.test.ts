/**
 * Statements that read rollouts, snapshots, statistics and uploads: each answers with the rows of
 * its tenant and no others.
 */
import { beforeAll, describe, test } from "vitest";
import { uploaderStatement } from "../../../src/db/principals";
import { activeRollout, dueRollouts, lastEndedRollout } from "../../../src/db/rollouts";
import { snapshotBundles } from "../../../src/db/snapshot";
import { manifestOf, manifestsOf, overrideOf, readyBundle, snapshotStatements } from "../../../src/db/snapshot-load";
import {
	dailySketches,
	dailyStorage,
	dailyTotals,
	dailyVersions,
	installTimesByBundle,
	installTimesByDay,
	outcomesByBundle,
	type StatisticsOf,
	statisticsApps,
} from "../../../src/db/statistics";
import { latestUploadOf, uploadById, uploadByLink } from "../../../src/db/uploads";
import { insertTenants } from "../support/tenant-rows";
import { expectReads, type Read, type Row } from "../support/tenant-statements";
import { A, B, CROSSED, DAY, type TenantRows } from "../support/tenants";
import { NOW_MS } from "../support/world";

const ALL = { limit: 100, offset: 0 } as const;

const standing = (of: TenantRows): Row => ({
	id: of.channel,
	app_id: of.app,
	public_app_id: of.publicAppId,
	org_id: of.org,
	version_name: `${of.rollout} of 1.1.0`,
	served: 2,
	installed: 2,
});

const ROLLOUTS: Readonly<Record<string, Read>> = {
	activeRollout: [(of) => activeRollout(of.publicAppId, "production", NOW_MS), (of) => [standing(of)]],
	"activeRollout that another app's channel names too": [
		(of) => activeRollout(of.publicAppId, "beta", NOW_MS),
		(of) => [{ id: of.beta, served: 1 }],
	],
	dueRollouts: [() => dueRollouts(NOW_MS, 2, NOW_MS), () => [standing(A), standing(B)]],
	"dueRollouts of deleted organizations": [
		() => dueRollouts(NOW_MS, ALL.limit, NOW_MS),
		() => [standing(A), standing(B)],
	],
	"activeRollout of a deleted organization": [
		(of) => activeRollout(of.deletedPublicAppId, "production", NOW_MS),
		() => [],
	],
	lastEndedRollout: [
		(of) => lastEndedRollout(of.publicAppId, "production"),
		(of) => [{ version_name: `${of.endedRollout} of 1.1.0` }],
	],
	"lastEndedRollout of a channel without one": [(of) => lastEndedRollout(of.publicAppId, "beta"), () => []],
};

const served = (of: TenantRows): Row[] => [
	{ id: of.stable, name: "1.0.0", has_manifest: 1 },
	{ id: of.next, name: "1.1.0", has_manifest: 0 },
];

const SNAPSHOTS: Readonly<Record<string, Read>> = {
	snapshotBundles: [(of) => snapshotBundles(of.app, [A.stable, B.stable, of.next]), (of) => served(of)],
	"snapshotStatements for the app": [
		(of) => snapshotStatements(of.publicAppId)[0],
		(of) => [{ id: of.app, owner_org: of.org }],
	],
	"snapshotStatements for channels": [
		(of) => snapshotStatements(of.publicAppId)[1],
		(of) => [{ id: of.channel, version_id: of.stable }, { id: of.beta }],
	],
	"snapshotStatements for bundles": [(of) => snapshotStatements(of.publicAppId)[2], (of) => served(of)],
	"snapshotStatements for bundles of other apps": [() => snapshotStatements(CROSSED.publicAppId)[2], () => []],
	"snapshotStatements for overrides": [
		(of) => snapshotStatements(of.publicAppId)[3],
		(of) => [
			{ device_id: "device-1", channel_id: of.beta, version_id: of.next },
			{ device_id: "device-2", channel_id: null, version_id: of.stable },
		],
	],
	overrideOf: [(of) => overrideOf(of.app, "device-1"), (of) => [{ device_id: "device-1", version_id: of.next }]],
	"overrideOf a device without an override": [(of) => overrideOf(of.app, "device-3"), () => []],
	readyBundle: [(of) => readyBundle(of.app, "1.0.0"), (of) => [{ id: of.stable }]],
	"snapshotStatements for the app of a deleted organization": [
		(of) => snapshotStatements(of.deletedPublicAppId)[0],
		() => [],
	],
	"snapshotStatements for names of ready bundles": [
		(of) => snapshotStatements(of.publicAppId)[4],
		() => [{ name: "1.0.0" }, { name: "1.1.0" }, { name: "1.2.0" }],
	],
	manifestsOf: [
		(of) => manifestsOf(of.publicAppId, [A.stable, B.stable, of.unused]),
		(of) => [{ bundle_id: of.stable, file_name: "a.js", object_key: `${of.app}/delta/shared` }],
	],
	manifestOf: [
		(of) => manifestOf(of.app, of.stable),
		(of) => [{ file_name: "a.js", object_key: `${of.app}/delta/shared` }],
	],
	"manifestOf a bundle with files of another app": [(of) => manifestOf(of.app, of.unused), () => []],
};
const RANGE = { firstDay: DAY, lastDay: DAY };

/** The tenant's ready bundles, and the files of its delta store, which have the same sizes. */
const inOrg = (of: TenantRows): StatisticsOf => ({ orgIds: [of.org], appIds: [] });
const inApp = (of: TenantRows): StatisticsOf => ({ orgIds: [], appIds: [of.app] });

const STATISTICS: Readonly<Record<string, Read>> = {
	"statisticsApps of an organization": [
		(of) => statisticsApps(inOrg(of)),
		(of) => [{ id: of.app }, { id: of.emptyApp }],
	],
	"statisticsApps of one app": [(of) => statisticsApps(inApp(of)), (of) => [{ id: of.app, app_id: of.publicAppId }]],
	dailyTotals: [
		(of) => dailyTotals([of.app, of.emptyApp], RANGE, true),
		(of) => [{ app: of.app, day: DAY, get_count: of.stable }],
	],
	dailyStorage: [
		(of) => dailyStorage(inOrg(of), RANGE, true),
		(of) => [{ app: of.app, day: DAY, size_bytes: of.stable }],
	],
	dailySketches: [
		(of) => dailySketches([of.app, of.emptyApp], RANGE),
		(of) => [{ app: of.app, day: DAY, sketch: `slot ${of.stable}` }],
	],
	dailyVersions: [
		(of) => dailyVersions(of.app, RANGE),
		(of) => [{ version_name: "1.0.0", day: DAY, amount: of.stable }],
	],
	outcomesByBundle: [
		(of) => outcomesByBundle(of.app, RANGE),
		(of) => [{ version_name: "1.0.0", channel_name: "production", install: of.stable, fail: 0 }],
	],
	installTimesByBundle: [
		(of) => installTimesByBundle(of.app, RANGE),
		(of) => [{ version_name: "1.0.0", bucket: 1, amount: of.stable }],
	],
	installTimesByDay: [(of) => installTimesByDay(of.app, RANGE), (of) => [{ day: DAY, bucket: 1, amount: of.stable }]],
};

const uploadRow = (of: TenantRows, id: string, bundleName: string | null): Row => {
	return { id, public_app_id: of.publicAppId, owner_org: of.org, bundle_name: bundleName };
};

const UPLOADS: Readonly<Record<string, Read>> = {
	uploadById: [(of) => uploadById(of.upload), (of) => [uploadRow(of, of.upload, "2.0.0")]],
	uploadByLink: [
		(of) => uploadByLink(of.upload),
		(of) => [{ ...uploadRow(of, of.upload, "2.0.0"), uploader_name: "Same" }],
	],
	"uploadByLink of a person": [
		(of) => uploadByLink(`${of.upload}-of-user`),
		(of) => [{ id: `${of.upload}-of-user`, uploader_name: of.email }],
	],
	"uploadByLink of a deleted organization": [(of) => uploadByLink(`${of.upload}-in-deleted`), () => []],
	"uploaderStatement of a person without a role in the organization": [
		(of) => uploaderStatement({ uploadId: `${of.upload}-of-other`, nowMs: NOW_MS }),
		(of) => [{ owner_org: of.org, key_id: null, key_bindings: "[]" }],
	],
	"uploaderStatement of a person whose role expired": [
		(of) => uploaderStatement({ uploadId: `${of.upload}-of-gone`, nowMs: NOW_MS }),
		(of) => [{ owner_org: of.org, key_id: null, key_bindings: "[]", account_bindings: "[]" }],
	],
	uploaderStatement: [
		(of) => uploaderStatement({ uploadId: of.upload, nowMs: NOW_MS }),
		(of) => [{ app_id: of.app, owner_org: of.org, job_is_live: 1, account_bindings: "[]" }],
	],
	"latestUploadOf a version that a deleted bundle had": [
		(of) => latestUploadOf(of.publicAppId, "1.0.0"),
		(of) => [uploadRow(of, `${of.upload}-stable`, "1.0.0")],
	],
	latestUploadOf: [(of) => latestUploadOf(of.publicAppId, "2.0.0"), (of) => [uploadRow(of, of.upload, "2.0.0")]],
};

beforeAll(insertTenants);

describe.each([
	["rollouts", ROLLOUTS],
	["snapshots", SNAPSHOTS],
	["statistics", STATISTICS],
	["uploads", UPLOADS],
])("reads of %s", (_, reads) => {
	test.each(Object.entries(reads))("%s returns only the tenant's rows", (_, read) => expectReads(read));
});
