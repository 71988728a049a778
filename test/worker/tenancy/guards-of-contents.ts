/**
 * Guards on the contents of an organization: apps, bundles, channels, rollouts, uploads and
 * overrides. Beside the conditions that hold stand their neighbours, which differ in one value and
 * do not hold.
 */
import type { Expression, SqlBool } from "kysely";
import {
	hasManifest,
	manifestIsNewOrHas,
	manifestIsNewOrHolds,
	manifestIsSetOrBundleUnused,
	manifestIsStored,
} from "../../../src/compat/capgo-cli/queries";
import { appsAreOf } from "../../../src/db/api-keys";
import { appIsLive } from "../../../src/db/apps";
import { bundleUnusedExceptBy, channelStillPointsTo } from "../../../src/db/channels";
import { hasOverride } from "../../../src/db/device-overrides";
import { rolloutIs } from "../../../src/db/rollouts";
import { bundlesAreSigned } from "../../../src/db/signing-keys";
import { uploadExists } from "../../../src/db/uploads";
import { A, ABSENT, B, CROSSED } from "../support/tenants";

/** A manifest with one file, as the stock CLI sends it. */
export const storedManifest = (path: string) => JSON.stringify([{ s3_path: path }]);

const FILES = JSON.stringify([{ file_name: "a.js", s3_path: "shared", file_hash: "hash" }]);
const OTHER_FILES = JSON.stringify([{ file_name: "b.js", s3_path: "shared", file_hash: "hash" }]);

/** Conditions that hold, and conditions that differ from these in one value and do not hold. */
export type Guards = Readonly<Record<string, () => Readonly<Record<"yes" | "no", readonly Expression<SqlBool>[]>>>>;

export const GUARDS_OF_CONTENTS: Guards = {
	appIsLive: () => ({
		yes: [appIsLive(B.org, B.app)],
		no: [appIsLive(B.deletedOrg, B.deletedApp)],
	}),
	appsAreOf: () => ({
		yes: [appsAreOf(B.org, [B.app, B.app]), appsAreOf(B.org, [])],
		no: [appsAreOf(B.org, [B.app, A.app]), appsAreOf(B.org, [A.app])],
	}),
	hasManifest: () => ({ yes: [hasManifest(B.stable)], no: [hasManifest(B.next), hasManifest(ABSENT.stable)] }),
	manifestIsNewOrHas: () => ({
		yes: [manifestIsNewOrHas(B.stable, 1), manifestIsNewOrHas(B.next, 2)],
		no: [manifestIsNewOrHas(B.stable, 2)],
	}),
	manifestIsNewOrHolds: () => ({
		yes: [manifestIsNewOrHolds(B.stable, FILES, B.key), manifestIsNewOrHolds(B.next, OTHER_FILES, B.key)],
		no: [manifestIsNewOrHolds(B.stable, OTHER_FILES, B.key)],
	}),
	manifestIsSetOrBundleUnused: () => ({
		yes: [manifestIsSetOrBundleUnused(B.app, B.stable), manifestIsSetOrBundleUnused(B.app, B.unused)],
		no: [manifestIsSetOrBundleUnused(B.app, B.next)],
	}),
	hasOverride: () => ({
		yes: [hasOverride(B.app, "device-1")],
		no: [hasOverride(B.app, "device-3"), hasOverride(B.deletedApp, "device-1")],
	}),
	rolloutIs: () => ({
		yes: [rolloutIs(B.app, B.channel, B.rollout), rolloutIs(B.app, B.beta, B.pausedRollout)],
		no: [
			rolloutIs(B.app, B.channel, B.endedRollout),
			rolloutIs(B.app, B.beta, B.rollout),
			rolloutIs(B.app, A.channel, A.rollout),
		],
	}),
	channelStillPointsTo: () => ({
		yes: [channelStillPointsTo(B.app, B.channel, B.stable, B.next)],
		no: [
			channelStillPointsTo(B.app, B.beta, B.stable, B.next),
			channelStillPointsTo(B.app, A.channel, A.stable, A.next),
			channelStillPointsTo(B.app, B.channel, B.stable, null),
			channelStillPointsTo(B.app, B.channel, B.unused, B.next),
		],
	}),
	uploadExists: () => ({
		yes: [uploadExists(B.app, B.upload)],
		no: [
			uploadExists(B.app, "absent"),
			uploadExists(B.app, A.upload),
			uploadExists(B.deletedApp, `${B.upload}-in-deleted`),
		],
	}),
	bundlesAreSigned: () => ({
		yes: [
			bundlesAreSigned(B.app, []),
			bundlesAreSigned(B.app, [B.stable]),
			bundlesAreSigned(A.app, [A.stable]),
			// Bundles of another app are none of this one's.
			bundlesAreSigned(A.app, [B.next]),
		],
		no: [
			bundlesAreSigned(B.app, [B.next]),
			bundlesAreSigned(B.app, [B.stable, B.unused]),
			bundlesAreSigned(B.app, [B.unused]),
		],
	}),
	bundleUnusedExceptBy: () => ({
		yes: [bundleUnusedExceptBy(B.app, B.unused, 0), bundleUnusedExceptBy(B.app, B.stable, B.channel)],
		no: [bundleUnusedExceptBy(B.app, B.stable, 0), bundleUnusedExceptBy(B.app, B.next, B.beta)],
	}),
	manifestIsStored: () => ({
		yes: [
			manifestIsStored(B.app, storedManifest("shared"), B.key),
			manifestIsStored(B.app, storedManifest("own"), B.key),
		],
		no: [
			manifestIsStored(B.app, storedManifest("only-a"), B.key),
			manifestIsStored(B.app, storedManifest("own"), A.key),
			manifestIsStored(B.app, storedManifest("own"), CROSSED.key),
		],
	}),
};
