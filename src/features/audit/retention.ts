/**
 * Retention of the audit log (AUDIT_DAYS). Entries are in the order of their ids, which is that of
 * their times except for denied attempts, which arrive through the Queue; such an entry is removed
 * as soon as those before it are.
 */
import { sql } from "kysely";
import { openDb, query } from "../../db/client";
import type { Deps } from "../../deps";
import { DAY_MS } from "../../domain/time";

/** Entries of one statement. */
const MOST_ENTRIES = 5_000;

/** Reads one entry if the oldest one is kept. */
export async function removeAuditEntries(deps: Deps): Promise<void> {
	const oldestMs = deps.now() - deps.config.auditDays * DAY_MS;
	const oldest = sql`(SELECT id, at_ms FROM audit_log WHERE id > 0 ORDER BY id LIMIT ${MOST_ENTRIES})`;
	await openDb(deps.d1, "first-primary").batch([
		sql`DELETE FROM audit_log WHERE id < CASE WHEN (SELECT at_ms FROM audit_log WHERE id > 0 ORDER BY id LIMIT 1) < ${oldestMs}
			THEN coalesce((SELECT min(id) FROM ${oldest} WHERE at_ms >= ${oldestMs}), (SELECT max(id) + 1 FROM ${oldest})) ELSE 0 END`.compile(
			query,
		),
	]);
}
