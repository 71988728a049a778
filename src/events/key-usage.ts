/**
 * When keys were last used, to the minute and without a database write in any request: the first use of a key in a minute sends one
 * message, and the queue consumer writes it. What an isolate has told in this minute it remembers, so a busy key costs one message a
 * minute and isolate; one that could not be sent is sent at the next use.
 */
import { type CompiledQuery, sql } from "kysely";
import { query } from "../db/client";
import type { Deps } from "../deps";
import { causeText } from "../errors";
import type { KeyUsed } from "./messages";

const MINUTE_MS = 60_000;

export interface UsedKey {
	readonly keyId: string;
	readonly orgId: string;
	readonly lastUsedAtMs: number | null;
}

/** Notes uses of keys; one for each isolate. */
export function createKeyUsage(deps: Pick<Deps, "events" | "log">) {
	let minuteMs = 0;
	let told = new Set<string>();
	return function note(key: UsedKey, nowMs: number, waitUntil: (work: Promise<unknown>) => void): void {
		const atMs = nowMs - (nowMs % MINUTE_MS);
		if (key.lastUsedAtMs !== null && key.lastUsedAtMs >= atMs) return;
		if (minuteMs !== atMs) {
			minuteMs = atMs;
			told = new Set();
		}
		if (told.has(key.keyId)) return;
		told.add(key.keyId);
		const message: KeyUsed = { kind: "key_used", keyId: key.keyId, orgId: key.orgId, atMs };
		waitUntil(
			deps.events.send(message).catch((error: unknown) => {
				if (minuteMs === atMs) told.delete(key.keyId);
				deps.log("warn", "queue_send_failed", { kind: message.kind, cause: causeText(error) });
			}),
		);
	};
}

/** One statement for all uses of a batch; a later time is never replaced by an earlier one, so order and repetition do not matter. */
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
