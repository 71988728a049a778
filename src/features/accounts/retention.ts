/**
 * Retention of what signing in leaves behind. Strangers cause some of these rows, so a run deletes
 * a bounded number of them, and no other row depends on them.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { SESSION_IDLE_MS } from "../../authz/session";
import { openDb, query } from "../../db/client";
import type { Deps } from "../../deps";
import { ACCOUNT_LOG_DAYS } from "../../domain/defaults";
import { DAY_MS } from "../../domain/time";

/** Limits on codes count attempts of the last day. */
const ATTEMPT_COUNTS_MS = DAY_MS;
/** Per statement. */
const MOST_ROWS = 5_000;

/**
 * Ended sessions, attempts that no limit counts, expired links, and old entries of the account log.
 */
export async function deleteOldSignIns(deps: Deps): Promise<void> {
	const nowMs = deps.now();
	await openDb(deps.d1, "first-primary").batch([
		oldest("sessions", "id", sql`expires_at_ms <= ${nowMs}`),
		oldest("sessions", "id", sql`last_seen_at_ms <= ${nowMs - SESSION_IDLE_MS}`),
		oldest("sign_in_attempts", "token_hash", sql`created_at_ms <= ${nowMs - ATTEMPT_COUNTS_MS}`),
		oldest("sign_in_links", "token_hash", sql`expires_at_ms <= ${nowMs}`),
		oldest("account_log", "id", sql`at_ms <= ${nowMs - ACCOUNT_LOG_DAYS * DAY_MS}`),
	]);
}

function oldest(table: string, key: string, condition: RawBuilder<unknown>): CompiledQuery {
	const [rows, id] = [sql.table(table), sql.ref(key)];
	return sql`DELETE FROM ${rows} WHERE ${id} IN (SELECT ${id} FROM ${rows} WHERE ${condition} LIMIT ${MOST_ROWS})`.compile(
		query,
	);
}
