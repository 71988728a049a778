/**
 * Denied attempts as entries in the audit log of the organization or in the log of the account,
 * because logs of the Worker are sampled. Attackers choose their number, so it is bounded twice: an
 * isolate reports each kind of attempt once an hour and a limited number in total, and the consumer
 * writes a limited number per log and hour.
 */

import { type CompiledQuery, sql } from "kysely";
import { query } from "../db/client";
import type { Deps } from "../deps";
import { HOUR_MS } from "../domain/time";
import { causeText } from "../errors";
import type { AccessDenied } from "../messages";

/** Distinct attempts that an isolate reports per hour. */
const MOST_REPORTS = 500;
/** Those of them by unknown callers. */
const MOST_ANONYMOUS_REPORTS = 20;
/** Entries per organization and hour by known callers, and by unknown ones. */
const MOST_ENTRIES = 50;
const MOST_ANONYMOUS_ENTRIES = 20;
/** Entries per account and hour. */
const MOST_ACCOUNT_ENTRIES = 10;

/** Reports denied attempts; one per isolate. */
export function createDeniedReports(deps: Pick<Deps, "events" | "log">) {
	let hourMs = 0;
	let reported = new Set<string>();
	let anonymous = 0;
	return function report(denied: AccessDenied, waitUntil: (work: Promise<unknown>) => void): void {
		const startMs = hourOf(denied.atMs);
		if (hourMs !== startMs) {
			hourMs = startMs;
			reported = new Set();
			anonymous = 0;
		}
		const { actor, account } = denied;
		const isAnonymous = actor.id === null && account === undefined;
		const kind = JSON.stringify([denied.orgId, actor.id ?? actor.ipAddress, denied.what, account]);
		if (reported.has(kind) || reported.size >= MOST_REPORTS) return;
		if (isAnonymous && ++anonymous > MOST_ANONYMOUS_REPORTS) return;
		reported.add(kind);
		const send = async () => deps.events.send(denied);
		waitUntil(
			send().catch((error: unknown) => {
				deps.log("warn", "queue_send_failed", { kind: denied.kind, cause: causeText(error) });
			}),
		);
	};
}

const hourOf = (atMs: number) => atMs - (atMs % HOUR_MS);

/** The entry of a denied attempt; idempotent. */
export function deniedStatement({ orgId, account, actor, what, details, atMs }: AccessDenied): CompiledQuery {
	const hourMs = hourOf(atMs);
	if (account !== undefined) {
		const user =
			"userId" in account
				? sql`${account.userId}`
				: sql`(SELECT u.id FROM sign_in_attempts a INNER JOIN users u ON u.id = a.user_id OR (a.user_id IS NULL AND u.email = a.email)
					WHERE a.token_hash = ${account.attempt})`;
		const earlier = sql`FROM account_log WHERE user_id = users.id AND action = 'sign_in.refused' AND at_ms >= ${hourMs}`;
		return sql`INSERT INTO account_log (user_id, at_ms, action, details, request_id, ip_address)
			SELECT id, ${atMs}, 'sign_in.refused', ${JSON.stringify(details)}, ${actor.requestId}, ${actor.ipAddress} FROM users
			WHERE id = ${user} AND NOT EXISTS (SELECT 1 ${earlier} AND ip_address IS ${actor.ipAddress})
				AND (SELECT count(*) ${earlier}) < ${MOST_ACCOUNT_ENTRIES}`.compile(query);
	}
	// Attempts without a valid key are for the operator.
	const org = orgId === null ? sql`(SELECT first_org_id FROM installation)` : sql`${orgId}`;
	const isAnonymous = actor.id === null;
	const earlier = sql`FROM audit_log WHERE org_id = o.id AND action = 'access.denied' AND at_ms >= ${hourMs}
		AND (actor_id IS NULL) = ${isAnonymous ? 1 : 0}`;
	const same = sql`target_id = ${what} AND actor_id IS ${actor.id} ${isAnonymous ? sql`AND ip_address IS ${actor.ipAddress}` : sql``}`;
	return sql`INSERT INTO audit_log (org_id, at_ms, actor_type, actor_id, actor_name, action, target_type, target_id, details, request_id,
			ip_address)
		SELECT o.id, ${atMs}, ${actor.type}, ${actor.id}, ${actor.name}, 'access.denied', 'access', ${what}, ${JSON.stringify(details)},
			${actor.requestId}, ${actor.ipAddress} FROM organizations o
		WHERE o.id = ${org} AND NOT EXISTS (SELECT 1 ${earlier} AND ${same})
			AND (SELECT count(*) ${earlier}) < ${isAnonymous ? MOST_ANONYMOUS_ENTRIES : MOST_ENTRIES}`.compile(query);
}
