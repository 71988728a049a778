/**
 * Removes organizations for good that were deleted and not restored in time: the bytes become garbage in the batch that removes the
 * rows which know them. One run does a bounded amount of it, a batch for each organization, and the next run goes on where it stopped;
 * the organization's own row goes last, so that nothing is forgotten.
 */
import { sql } from "kysely";
import { GuardFailed, guard, openDb, query } from "../db/client";
import { RESTORABLE_MS } from "../db/organizations";
import { selectedToGarbage } from "../db/uploads";
import type { Deps } from "../deps";
import { causeText } from "../errors";

/** What one run does at most. */
const MOST_ORGANIZATIONS = 5;
const MOST_APPS = 10;
const MOST_AUDIT_ENTRIES = 5000;

/** @throws {Error} when one of them could not be removed; the others were */
export async function purgeOrganizations(deps: Deps): Promise<void> {
	const deletedBeforeMs = deps.now() - RESTORABLE_MS;
	const db = openDb(deps.d1, "first-primary");
	const [due] = await db.batch([
		query
			.selectFrom("organizations")
			.select("id")
			.where("deleted_at_ms", "<=", deletedBeforeMs)
			.orderBy("deleted_at_ms")
			.limit(MOST_ORGANIZATIONS)
			.compile(),
	]);
	let failure: unknown;
	for (const { id } of due.rows) {
		const apps = sql`(SELECT id FROM apps WHERE owner_org = ${id} ORDER BY name, id LIMIT ${MOST_APPS})`;
		const entries = sql`(SELECT id FROM audit_log WHERE org_id = ${id} ORDER BY id LIMIT ${MOST_AUDIT_ENTRIES})`;
		try {
			await db.batch([
				guard(
					"organization_deleted",
					sql<boolean>`EXISTS (SELECT 1 FROM organizations WHERE id = ${id} AND deleted_at_ms <= ${deletedBeforeMs})`,
				),
				// Keys of objects begin with the app's UUID.
				selectedToGarbage(sql`SELECT id || '/' AS object_prefix FROM apps WHERE id IN ${apps}`, deps.now()),
				sql`DELETE FROM apps WHERE id IN ${apps}`.compile(query),
				sql`DELETE FROM audit_log WHERE id IN ${entries}`.compile(query),
				sql`DELETE FROM organizations WHERE id = ${id}
					AND NOT EXISTS (SELECT 1 FROM apps WHERE owner_org = ${id})
					AND NOT EXISTS (SELECT 1 FROM audit_log WHERE org_id = ${id})`.compile(query),
			]);
		} catch (error) {
			// It was restored meanwhile.
			if (error instanceof GuardFailed) continue;
			// One that cannot be removed must not keep the others.
			deps.log("error", "organization_purge_failed", { organization: id, cause: causeText(error) });
			failure = error;
		}
	}
	if (failure !== undefined) throw failure;
}
