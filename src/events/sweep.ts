/**
 * The scheduled sweep: what crashes and lost connections left behind is put right here. It gives up uploads that were not finished in
 * time, takes back clean-up marks whose second half never came, lets go of delta files that nothing uses, forgets invitations that ran
 * out, removes organizations whose deletion was not undone, and removes garbage from R2. Every step is one atomic batch and safe to
 * repeat.
 *
 * Garbage is removed twice, a day apart: a request whose upload was given up under it may store its bytes after the first removal, and
 * no request sends for a day.
 */
import { sql } from "kysely";
import { jsonList, openDb, query } from "../db/client";
import { selectedToGarbage } from "../db/uploads";
import type { Deps } from "../deps";
import { removeAll } from "../storage/objects";
import { purgeOrganizations } from "./organization-purge";

const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;
/** How long the stock CLI may take between the two calls of its clean-up. */
const DELETE_MARK_LIFETIME_MS = HOUR_MS;
/** An uploader that found a file in the delta store refers to it within this time. */
const DELTA_GRACE_MS = DAY_MS;
/** Between the first and the second removal of garbage. */
const SECOND_LOOK_MS = DAY_MS;
/** Rows that one run looks at, so that it stays within a Worker's limits; the rest waits for the next run. */
const MOST_ROWS = 200;

export async function sweep(deps: Deps): Promise<void> {
	await giveUpUnfinished(deps);
	await purgeOrganizations(deps);
	await collectGarbage(deps);
}

/** One batch: whatever expired becomes garbage. */
async function giveUpUnfinished(deps: Deps): Promise<void> {
	const nowMs = deps.now();
	const expired = sql`(SELECT id FROM uploads WHERE expires_at_ms <= ${nowMs} ORDER BY expires_at_ms, id LIMIT ${MOST_ROWS})`;
	const unusedDelta = sql`last_claimed_at_ms <= ${nowMs - DELTA_GRACE_MS} AND NOT EXISTS (
		SELECT 1 FROM bundle_files WHERE bundle_files.app_id = delta_objects.app_id AND bundle_files.path = delta_objects.path)`;
	const statements = [
		selectedToGarbage(sql`SELECT object_prefix FROM uploads WHERE id IN ${expired} AND completed_at_ms IS NULL`, nowMs),
		sql`DELETE FROM uploads WHERE id IN ${expired}`,
		// A registration lives as long as its latest upload may still come.
		sql`DELETE FROM bundles WHERE status = 'pending' AND expires_at_ms <= ${nowMs}
			AND NOT EXISTS (SELECT 1 FROM uploads WHERE uploads.bundle_id = bundles.id)`,
		sql`UPDATE bundles SET delete_marked_at_ms = NULL
			WHERE delete_marked_at_ms <= ${nowMs - DELETE_MARK_LIFETIME_MS} AND deleted_at_ms IS NULL`,
		sql`DELETE FROM invitations WHERE id IN (
			SELECT id FROM invitations WHERE expires_at_ms <= ${nowMs} ORDER BY expires_at_ms, id LIMIT ${MOST_ROWS})`,
		// Files of no bytes share an object that stays.
		selectedToGarbage(
			sql`SELECT object_key AS object_prefix FROM delta_objects WHERE ${unusedDelta} AND size_bytes > 0`,
			nowMs,
		),
		sql`DELETE FROM delta_objects WHERE ${unusedDelta}`,
	];
	await openDb(deps.d1, "first-primary").batch(
		statements.map((statement) => ("compile" in statement ? statement.compile(query) : statement)),
	);
}

/**
 * Removes garbage from R2, object first and row after it, so that a crash between the two is repeated and not forgotten.
 * @returns whether more of it may be waiting
 */
export async function collectGarbage(deps: Deps): Promise<boolean> {
	const nowMs = deps.now();
	const db = openDb(deps.d1, "first-primary");
	const [garbage] = await db.batch([
		query
			.selectFrom("garbage_objects")
			.select("object_prefix")
			.where("due_at_ms", "<=", nowMs)
			.orderBy("due_at_ms")
			.limit(MOST_ROWS)
			.compile(),
	]);
	const removed: string[] = [];
	for (const { object_prefix } of garbage.rows) {
		try {
			await removeAll(deps.bundles, object_prefix);
			removed.push(object_prefix);
		} catch (error) {
			deps.log("warn", "object_removal_failed", { cause: String(error) });
		}
	}
	if (removed.length === 0) return false;
	const thoseRemoved = sql`object_prefix IN ${jsonList(JSON.stringify(removed))} AND due_at_ms <= ${nowMs}`;
	await db.batch([
		sql`DELETE FROM garbage_objects WHERE ${thoseRemoved} AND due_at_ms > created_at_ms`.compile(query),
		sql`UPDATE garbage_objects SET due_at_ms = ${nowMs + SECOND_LOOK_MS} WHERE ${thoseRemoved}`.compile(query),
	]);
	return removed.length === MOST_ROWS;
}
