/**
 * How bundles are deleted: the statements of a batch, the same for a request, for a deleted channel
 * and for retention. A ready bundle becomes a tombstone without bytes and manifest, and its version
 * is free again unless devices got it (used-versions.ts). A registration that never became ready
 * leaves no row.
 */
import { type CompiledQuery, type RawBuilder, type SqlBool, sql } from "kysely";
import type { AppId } from "../authz/decide";
import { DAY_MS } from "../domain/time";
import { auditBundleDeletions, type DeletionReason } from "./audit/bundles";
import type { Actor } from "./audit/entries";
import { pendingBundle } from "./bundles";
import { dropRollbackTargets } from "./channel-history";
import { type Database, isOfApp, jsonList, openDb, query } from "./client";
import { releaseDeltaFiles } from "./delta-files";
import { Failures } from "./failures";
import { type Walk, walk } from "./table-walk";
import type { TelemetryDeps } from "./telemetry-databases";
import { openTelemetry, reportedVersions } from "./telemetry-reads";
import { bytesOfBundlesToGarbage, uploadsOfBundlesToGarbage } from "./uploads";

interface Deletion {
	readonly actor: Actor;
	readonly nowMs: number;
	readonly appId: AppId;
	/** Details of the audit entries, for a deletion that nobody requested. */
	readonly details?: DeletionReason;
}

/**
 * Deletes the bundles of a condition (`liveBundles`, `unusedBundles`, `expiredBundles`), with an
 * audit entry each. Every statement evaluates the condition again, so a bundle that came into use
 * since it was read stays.
 */
export function deleteBundles(deletion: Deletion, which: RawBuilder<SqlBool>): CompiledQuery[] {
	const { appId, nowMs } = deletion;
	const selected = query.selectFrom("bundles").select("id").where(which);
	return [
		...dropPending(deletion, which),
		bytesOfBundlesToGarbage(which, nowMs),
		query.deleteFrom("bundle_files").where(isOfApp(appId)).where("bundle_id", "in", selected).compile(),
		query
			.deleteFrom("device_overrides")
			.where(isOfApp(appId))
			.where("version_id", "in", selected)
			.where(sql<boolean>`+channel_id IS NULL`)
			.compile(),
		query
			.updateTable("device_overrides")
			.set({ version_id: null })
			.where(isOfApp(appId))
			.where("version_id", "in", selected)
			.compile(),
		dropRollbackTargets(appId, sql`IN ${selected}`),
		query
			.updateTable("bundles")
			.set({
				status: "deleted",
				object_key: null,
				delete_marked_at_ms: null,
				deleted_at_ms: nowMs,
				updated_at_ms: nowMs,
			})
			.where(which)
			.compile(),
	];
}

/** Removes a registration that is still pending, with everything that its uploads stored. */
export function dropRegistration(deletion: Deletion, bundleId: number): CompiledQuery[] {
	return dropPending(deletion, pendingBundle(deletion.appId, bundleId));
}

function dropPending({ actor, nowMs, appId, details }: Deletion, which: RawBuilder<SqlBool>): CompiledQuery[] {
	return [
		auditBundleDeletions(actor, nowMs, which, details),
		uploadsOfBundlesToGarbage(appId, sql`IN (SELECT id FROM bundles WHERE ${which})`, nowMs),
		releaseDeltaFiles(which, nowMs),
		query.deleteFrom("bundles").where(which).where("status", "=", "pending").compile(),
	];
}

/** Tombstones are kept this long, and then as long as something refers to them. */
const TOMBSTONE_MS = 90 * DAY_MS;
const MOST_TOMBSTONES = 500;

/**
 * Removes rows of bundles that were deleted long ago. History, statistics and proposals have copies
 * of the name. A version that a device still reports keeps its row, because events of unknown
 * versions are not counted by version, and so does a used one, which stays taken. Bundles whose
 * telemetry database fails keep their rows until the walk returns to them.
 * @throws {Error} at the end, if a telemetry database failed
 */
export async function removeTombstones(deps: TelemetryDeps, nowMs: number): Promise<void> {
	const db = openDb(deps.d1, "first-primary");
	const tombstones: Walk = {
		step: "deleted_bundles",
		table: "bundles",
		key: ["deleted_at_ms", "id"],
		first: "[0,0]",
		within: sql`deleted_at_ms <= ${nowMs - TOMBSTONE_MS} AND used_by IS NULL`,
		rows: MOST_TOMBSTONES,
	};
	const failures = new Failures();
	await walk(db, tombstones, async (range) => [
		sql`DELETE FROM bundles WHERE ${range}
			AND id NOT IN ${jsonList(await reportedIn(deps, db, range, failures))}
			AND NOT EXISTS (SELECT 1 FROM channels WHERE version_id = bundles.id)
			AND NOT EXISTS (SELECT 1 FROM channels WHERE rollout_version_id = bundles.id)
			AND NOT EXISTS (SELECT 1 FROM device_overrides WHERE version_id = bundles.id)`.compile(query),
	]);
	failures.throwFirst();
}

/**
 * JSON array: bundles of the range whose versions devices report, or may report.
 * @param failures of telemetry databases, which are asked no more
 */
async function reportedIn(
	deps: TelemetryDeps,
	db: Database,
	range: RawBuilder<SqlBool>,
	failures: Failures,
): Promise<string> {
	const [found] = await db.batch([
		query
			.selectFrom("bundles")
			.select((eb) => [
				"id",
				"name",
				eb.ref("app_id").$castTo<AppId>().as("app_id"),
				eb.selectFrom("apps").select("apps.telemetry_binding").whereRef("apps.id", "=", "bundles.app_id").as("binding"),
			])
			.where(range)
			.compile(),
	]);
	const kept: number[] = [];
	for (const [key, bundles] of Map.groupBy(found.rows, ({ binding }) => binding)) {
		const binding = key ?? "";
		const ofApps = [...Map.groupBy(bundles, ({ app_id }) => app_id)];
		const reported = failures.has(binding)
			? undefined
			: await failures.during(binding, () => reportedOf(deps, binding, ofApps));
		for (const [index, [, ofApp]] of ofApps.entries()) {
			const those = reported?.[index];
			kept.push(...ofApp.filter(({ name }) => those?.has(name) ?? true).map(({ id }) => id));
		}
	}
	return JSON.stringify(kept);
}

/** Versions that devices of each app report, in one round trip. */
async function reportedOf(
	deps: TelemetryDeps,
	binding: string,
	ofApps: readonly (readonly [app: AppId, bundles: readonly { readonly name: string }[]])[],
): Promise<ReadonlySet<string>[]> {
	const statements = ofApps.map(([app, bundles]) =>
		reportedVersions(
			app,
			bundles.map(({ name }) => name),
		),
	);
	const results = await openTelemetry(deps, binding).batch(statements);
	return results.map(({ rows }) => new Set(rows.map(({ name }) => name)));
}
