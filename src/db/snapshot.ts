/**
 * The revision of what an app's devices are offered, and the bundles of a snapshot by their ids.
 * Every batch that changes an answer to a device raises the app's revision; a trigger then writes
 * the change feed (change-triggers.ts), which the caches of all isolates follow.
 */
import { type CompiledQuery, type Expression, type SqlBool, sql } from "kysely";
import type { AppId } from "../authz/decide";
import { jsonList, query, type Statement } from "./client";
import { BUNDLE_COLUMNS, type SnapshotBundleRow } from "./snapshot-load";

/** Bundles of the app by their ids, as a snapshot has them. */
export function snapshotBundles(appId: AppId, ids: readonly number[]): CompiledQuery<SnapshotBundleRow> {
	return sql<SnapshotBundleRow>`SELECT ${sql.raw(BUNDLE_COLUMNS)} FROM bundles b
		WHERE +b.app_id = ${appId} AND b.id IN ${jsonList(JSON.stringify(ids))}`.compile(query);
}

/**
 * Every batch that changes the answers to the app's devices must contain it. `when` is evaluated
 * before the change, so place it first.
 */
export function bumpRevision(appId: AppId, when: Expression<SqlBool> = sql<boolean>`1`): Statement {
	const statement = query
		.updateTable("apps")
		.set({ revision: sql<number>`revision + 1` })
		.where("id", "=", appId)
		.where(when)
		.compile();
	return { ...statement, changedApp: appId };
}
