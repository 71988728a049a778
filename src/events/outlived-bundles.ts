/**
 * The sweep's work on bundles that an app keeps no longer (`apps.retention`). What is to go is read first, a bounded number of each app, and
 * asked again by every statement of the batch that deletes it: a bundle that comes into use in between stays, and whoever points a channel
 * at one that went is told that it is not there. One app that cannot be done keeps none of the others.
 */
import { sql } from "kysely";
import type { Actor } from "../db/audit";
import { auditBundlesGoing } from "../db/bundle-audit";
import { bundlesWithIds, deleteUnusedBundles, outlived, outlivedBundles } from "../db/bundles";
import { openDb } from "../db/client";
import { bumpRevision } from "../db/snapshot";
import type { Deps } from "../deps";
import { causeText } from "../errors";

/** The rest waits for the next run. */
const MOST_BUNDLES = 200;
const MOST_BUNDLES_OF_APP = 50;

/** @throws {Error} when one app's could not be deleted; the others' were */
export async function deleteOutlivedBundles(deps: Deps, actor: Actor): Promise<void> {
	const nowMs = deps.now();
	const db = openDb(deps.d1, "first-primary");
	const [found] = await db.batch([outlivedBundles(nowMs, MOST_BUNDLES_OF_APP, MOST_BUNDLES)]);
	let failure: unknown;
	for (const [appId, bundles] of Map.groupBy(found.rows, ({ app_id }) => app_id)) {
		const ids = bundles.map(({ id }) => id);
		const which = sql`${bundlesWithIds(appId, ids)} AND ${outlived(nowMs)}`;
		const audit = (doomed: Parameters<typeof auditBundlesGoing>[2]) =>
			auditBundlesGoing(actor, nowMs, doomed, { reason: "retention" });
		try {
			await db.batch([...deleteUnusedBundles(appId, nowMs, audit, which), bumpRevision(appId)]);
		} catch (error) {
			deps.log("error", "outlived_bundles_failed", { app: appId, cause: causeText(error) });
			failure = error;
		}
	}
	if (failure !== undefined) throw failure;
}
