/**
 * DELETE /bundle. A bundle that a channel uses is never deleted.
 */
import type { RawBuilder } from "kysely";
import * as v from "valibot";
import type { AppId } from "../../authz/decide";
import { deleteBundles } from "../../db/bundle-deletion";
import {
	type BundleListRow,
	bundleByName,
	bundleIsLive,
	bundleIsPending,
	bundlesKeptForRollback,
	type DoomedBundle,
	doomedBundles,
	liveBundles,
	unusedBundles,
} from "../../db/bundles";
import { bundleUnusedExceptBy } from "../../db/channels";
import { guard } from "../../db/client";
import { bumpRevision } from "../../db/snapshot";
import { openTelemetry, reportedVersions } from "../../db/telemetry-reads";
import type { Deps } from "../../deps";
import { type Context, endpoint } from "../../http/endpoint";
import { MAY_WAIT } from "../../http/pipeline/wait-visible";
import { acknowledgement, booleanText, bundleGoingSchema, OK, optional, publicAppId, text } from "../../http/schemas";
import { type AppScopeRow, appScope, bundleNotFound } from "../../http/scope";
import { collectGarbageSoon, removeBytes } from "../../queue/garbage";
import { bundleInUse } from "../channels/delete";
import { bundleAlreadyReady } from "./upload-errors";

const deleteBundleQuery = v.pipe(
	v.object({
		app_id: publicAppId,
		version: optional(text(128)),
		all: optional(booleanText),
		dry_run: optional(booleanText),
	}),
	v.check(
		({ version, all }) => (version === undefined ? all !== false : all !== true),
		"send either version=<version> or all=true (every unused bundle)",
	),
);

/** A dry run names the newest ones and counts all. */
const MOST_BUNDLES_NAMED = 100;

export const deleteBundle = endpoint({
	method: "DELETE",
	path: "/bundle",
	tag: "Bundles",
	summary: "Delete one bundle, or every unused bundle",
	description: [
		"Without `version` every unused bundle is deleted, with `all=true` or without.",
		"An unknown or an empty parameter is refused, so that a misspelt `version` deletes nothing.",
		"A bundle is unused if no channel and no rollout serves it, and if it is not one of the last bundles",
		"that were live on a channel (the app's",
		"`keep_live_bundles`), because a channel can be rolled back to those.",
		"`version` deletes such a bundle too, and then no channel can be rolled back to it.",
		"`dry_run=true` changes nothing.",
		"It answers with the bundles that would be deleted (the newest 100 in `bundles`), the number of",
		"devices that run each, the channels that could be rolled back to it, and `kept_for_rollback`, the",
		"number of bundles outside of channels that `all=true` keeps.",
		"It fails where the deletion would fail.",
	],
	access: { permission: "bundle.delete", scope: appScope("query.app_id") },
	query: deleteBundleQuery,
	queryOrBody: true,
	headers: MAY_WAIT,
	response: v.union([
		acknowledgement,
		v.strictObject({
			status: v.literal("ok"),
			dry_run: v.literal(true),
			removes: v.strictObject({
				bundles: v.number(),
				bundle_bytes: v.number(),
				device_overrides: v.number(),
				devices: v.number(),
			}),
			kept_for_rollback: v.number(),
			bundles: v.array(v.strictObject({ ...bundleGoingSchema.entries, rollback_target_of: v.array(v.string()) })),
		}),
	]),
	errors: ["bundle_not_found", "bundle_in_use"],
	example: { query: { app_id: "com.example.app", version: "1.4.0-pr.128" }, response: OK },
	load: ({ query: { app_id, version } }) => ({
		bundle: version === undefined ? undefined : bundleByName(app_id, version),
	}),
	async handle(context) {
		const { db, deps, scope, input, loaded, nowMs, actor, waitUntil } = context;
		const dryRun = input.query.dry_run === true;
		if (input.query.version === undefined) {
			const unused = unusedBundles(scope.appId);
			if (dryRun) return wouldRemove(context, unused);
			await db.batch([...deleteBundles({ actor, nowMs, appId: scope.appId }, unused), bumpRevision(scope.appId)]);
			waitUntil(collectGarbageSoon(deps));
			return OK;
		}
		const [bundle] = loaded.bundle;
		if (bundle === undefined) throw bundleNotFound();
		if (dryRun) {
			refuseUsed(bundle);
			return wouldRemove(context, liveBundles(scope.appId, [bundle.id]));
		}
		await deleteBundleRow(context, bundle);
		return OK;
	},
});

type AppContext = Context<string, undefined, undefined, AppScopeRow, readonly []>;

async function wouldRemove(
	{ deps, db, scope, scopeRow }: Pick<AppContext, "deps" | "db" | "scope" | "scopeRow">,
	which: RawBuilder<unknown>,
) {
	const [{ rows: found }, { rows: kept }] = await db.batch([
		doomedBundles(which, MOST_BUNDLES_NAMED),
		bundlesKeptForRollback(scope.appId),
	]);
	const doomed = await withDevices(deps, scope.appId, scopeRow.telemetry_binding, found);
	const [first] = doomed;
	return {
		...OK,
		dry_run: true as const,
		removes: {
			bundles: first?.bundles ?? 0,
			bundle_bytes: first?.bundle_bytes ?? 0,
			device_overrides: first?.device_overrides ?? 0,
			devices: first?.devices_of_all ?? 0,
		},
		kept_for_rollback: kept[0]?.bundles ?? 0,
		bundles: doomed.map(({ id, name, size_bytes, devices, rollback_target_of }) => ({
			id,
			version: name,
			size: size_bytes,
			devices,
			rollback_target_of: JSON.parse(rollback_target_of) as string[],
		})),
	};
}

async function withDevices(deps: Deps, appId: AppId, binding: string, doomed: readonly DoomedBundle[]) {
	const names = JSON.parse(doomed[0]?.all_names ?? "[]") as string[];
	if (names.length === 0) return [];
	const [{ rows }] = await openTelemetry(deps, binding).batch([reportedVersions(appId, names)]);
	const devicesOf = new Map(rows.map(({ name, devices }) => [name, devices]));
	const all = rows.reduce((sum, { devices }) => sum + devices, 0);
	return doomed.map((row) => ({ ...row, devices: devicesOf.get(row.name) ?? 0, devices_of_all: all }));
}

function refuseUsed(bundle: BundleListRow): void {
	const channels: string[] = JSON.parse(bundle.channels);
	if (channels.length > 0) throw bundleInUse(channels, bundle.name);
}

/**
 * @throws {ApiError} `bundle_in_use`, `bundle_not_found`, or `bundle_already_ready` with
 * `pendingOnly`
 */
export async function deleteBundleRow(
	context: Pick<AppContext, "db" | "deps" | "scope" | "scopeRow" | "nowMs" | "actor" | "waitUntil">,
	bundle: BundleListRow,
	{ pendingOnly = false } = {},
): Promise<void> {
	const { db, deps, scope, nowMs, actor, waitUntil } = context;
	refuseUsed(bundle);
	await db.batch([
		guard(bundleIsLive(scope.appId, bundle.id), bundleNotFound),
		guard(bundleUnusedExceptBy(scope.appId, bundle.id, 0), () => bundleInUse([], bundle.name)),
		...(pendingOnly ? [guard(bundleIsPending(scope.appId, bundle.id), bundleAlreadyReady)] : []),
		...deleteBundles({ actor, nowMs, appId: scope.appId }, liveBundles(scope.appId, [bundle.id])),
		bumpRevision(scope.appId),
	]);
	await removeBytes(deps, [bundle], waitUntil);
}
