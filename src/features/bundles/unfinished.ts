/**
 * Clean-up of what clients began and did not finish: uploads, the pending bundles that they were
 * for, and deletions of the stock CLI.
 */
import { sql } from "kysely";
import { auditBundleDeletions, auditDeleteMarks } from "../../db/audit/bundles";
import { systemActor } from "../../db/audit/entries";
import { openDb, query } from "../../db/client";
import { releaseDeltaFiles } from "../../db/delta-files";
import { selectedToGarbage } from "../../db/uploads";
import type { Deps } from "../../deps";
import { HOUR_MS } from "../../domain/time";

/** Per run; the next one continues. */
const MOST_UPLOADS = 200;
/** Longest time between the two calls of the stock CLI's clean-up. */
const DELETE_MARK_LIFETIME_MS = HOUR_MS;

/** Expired uploads become garbage, and pending bundles without an upload are deleted. */
export async function expireUploads(deps: Deps): Promise<void> {
	const nowMs = deps.now();
	// A pending bundle is kept while one of its uploads may still complete.
	const abandoned = sql`status = 'pending' AND expires_at_ms <= ${nowMs}
		AND NOT EXISTS (SELECT 1 FROM uploads WHERE uploads.bundle_id = bundles.id)`;
	const expired = sql`(SELECT id FROM uploads WHERE expires_at_ms <= ${nowMs} ORDER BY expires_at_ms, id LIMIT ${MOST_UPLOADS})`;
	await openDb(deps.d1, "first-primary").batch([
		selectedToGarbage(sql`SELECT object_prefix FROM uploads WHERE id IN ${expired} AND completed_at_ms IS NULL`, nowMs),
		sql`DELETE FROM uploads WHERE id IN ${expired}`.compile(query),
		auditBundleDeletions(systemActor(deps.newId()), nowMs, abandoned, { reason: "expired" }),
		releaseDeltaFiles(abandoned, nowMs),
		sql`DELETE FROM bundles WHERE ${abandoned}`.compile(query),
	]);
}

/**
 * The stock CLI deletes a bundle by two calls; a mark of the first one that no second one followed
 * is cleared.
 */
export async function clearDeleteMarks(deps: Deps): Promise<void> {
	const nowMs = deps.now();
	const unfinished = sql`delete_marked_at_ms <= ${nowMs - DELETE_MARK_LIFETIME_MS} AND deleted_at_ms IS NULL`;
	await openDb(deps.d1, "first-primary").batch([
		auditDeleteMarks(systemActor(deps.newId()), nowMs, false, unfinished),
		sql`UPDATE bundles SET delete_marked_at_ms = NULL WHERE ${unfinished}`.compile(query),
	]);
}
