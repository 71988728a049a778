/**
 * When keys and sessions were last used, without a database write before any answer. The first use
 * of a key in a minute sends one message, which the queue consumer writes; a session's row is
 * written after the answer when it is five minutes old. A write that fails is repeated by the next
 * use.
 */
import { type CompiledQuery, sql } from "kysely";
import type { SessionPrincipal } from "../../authz/principal";
import { openDb, query } from "../../db/client";
import { markSessionSeen } from "../../db/sessions";
import type { Deps } from "../../deps";
import { MINUTE_MS } from "../../domain/time";
import { causeText } from "../../errors";
import type { KeyUsed } from "../../messages";

const SESSION_RESOLUTION_MS = 5 * MINUTE_MS;

interface UsedKey {
	readonly keyId: string;
	readonly orgId: string;
	readonly lastUsedAtMs: number | null;
}

/** Reports uses of keys. One per isolate: it remembers the keys that it reported in this minute. */
export function createKeyUsage(deps: Pick<Deps, "events" | "log">) {
	let minuteMs = 0;
	let reported = new Set<string>();
	return function note(key: UsedKey, nowMs: number, waitUntil: (work: Promise<unknown>) => void): void {
		const atMs = nowMs - (nowMs % MINUTE_MS);
		if (key.lastUsedAtMs !== null && key.lastUsedAtMs >= atMs) return;
		if (minuteMs !== atMs) {
			minuteMs = atMs;
			reported = new Set();
		}
		if (reported.has(key.keyId)) return;
		reported.add(key.keyId);
		const message: KeyUsed = { kind: "key_used", keyId: key.keyId, orgId: key.orgId, atMs };
		// A deployment may lack the binding, and the doctor must be able to ask it.
		const send = async () => deps.events.send(message);
		waitUntil(
			send().catch((error: unknown) => {
				if (minuteMs === atMs) reported.delete(key.keyId);
				deps.log("warn", "queue_send_failed", { kind: message.kind, cause: causeText(error) });
			}),
		);
	};
}

/**
 * One statement for all uses of a batch. A later time is never replaced by an earlier one, so it is
 * idempotent in any order.
 */
export function keyUsageStatement(uses: readonly KeyUsed[]): CompiledQuery {
	const latest = new Map<string, KeyUsed>();
	for (const use of uses) {
		if (use.atMs > (latest.get(use.keyId)?.atMs ?? 0)) latest.set(use.keyId, use);
	}
	const rows = [...latest.values()].map(({ keyId, orgId, atMs }) => [keyId, orgId, atMs]);
	return sql`UPDATE api_keys SET last_used_at_ms = used.at_ms
		FROM (SELECT value ->> 0 AS key_id, value ->> 1 AS org_id, value ->> 2 AS at_ms FROM json_each(${JSON.stringify(rows)})) AS used
		WHERE api_keys.id = used.key_id AND api_keys.org_id = used.org_id
			AND coalesce(api_keys.last_used_at_ms, 0) < used.at_ms`.compile(query);
}

export function noteSessionUse(
	deps: Deps,
	session: SessionPrincipal,
	nowMs: number,
	waitUntil: (work: Promise<unknown>) => void,
): void {
	if (session.lastSeenAtMs > nowMs - SESSION_RESOLUTION_MS) return;
	const written = openDb(deps.d1, "first-primary").batch([markSessionSeen(session.userId, session.sessionId, nowMs)]);
	waitUntil(written.catch((error) => deps.log("warn", "session_use_not_written", { cause: causeText(error) })));
}
