/**
 * Messages that failed all retries. The Queue moves them to a dead letter queue, whose consumer
 * writes them into `dead_messages`, where they outlive the Queue's four days for inspection
 * (src/operator/dead-messages.ts). Clean-up resends those marked with `resend`, without counting
 * anything twice. They are kept as long as their events would be counted. Device events are dropped
 * while the database is nearly full.
 */

import { sql } from "kysely";
import { jsonList, openDb, query } from "../db/client";
import type { Deps } from "../deps";
import { isTelemetryFull } from "../domain/quotas";
import { firstCountedDay, startOfDayMs } from "../domain/statistics/days";
import type { QueueMessage } from "../messages";

/** Suffix of the dead letter queue's name. */
export const DEAD_LETTERS = "-dead";
/** The limit of a message is 128 KB. */
const MOST_RESENT = 50;

interface DeadMessage {
	readonly id: string;
	readonly timestamp: Date;
	readonly body: QueueMessage;
}

/** @throws {ApiError} `service_unavailable`; the Queue delivers the messages again */
export async function storeDeadLetters(deps: Deps, messages: readonly DeadMessage[]): Promise<void> {
	const rows = messages.map(({ id, timestamp, body }) => ({
		id,
		kind: String(body?.kind),
		body: JSON.stringify(body ?? null),
		sent_at_ms: timestamp.getTime(),
		died_at_ms: deps.now(),
	}));
	for (const { id, kind, sent_at_ms } of rows) deps.log("error", "message_died", { id, kind, sentAtMs: sent_at_ms });
	const db = openDb(deps.d1, "first-primary");
	await db.batch([sql`SELECT 1`.compile(query)]);
	const kept = isTelemetryFull(deps.config.telemetryMaxBytes, db.sizeBytes)
		? rows.filter(({ kind }) => kind !== "device_events")
		: rows;
	if (kept.length === 0) return;
	await db.batch(
		kept.map((row) =>
			query
				.insertInto("dead_messages")
				.values(row)
				.onConflict((conflict) => conflict.doNothing())
				.compile(),
		),
	);
}

/**
 * Resends marked messages, deletes those that are too old to be counted, and logs how many are
 * left.
 */
export async function resendDeadLetters(deps: Deps): Promise<void> {
	const db = openDb(deps.d1, "first-primary");
	const tooOldMs = startOfDayMs(firstCountedDay(deps.config, deps.now()));
	const [expired, marked, left] = await db.batch([
		query.deleteFrom("dead_messages").where("sent_at_ms", "<", tooOldMs).compile(),
		query.selectFrom("dead_messages").select(["id", "body"]).where("resend", "=", 1).limit(MOST_RESENT).compile(),
		sql<{ messages: number }>`SELECT count(*) AS messages FROM dead_messages WHERE resend = 0`.compile(query),
	]);
	if (expired.changes > 0) deps.log("error", "dead_messages_expired", { messages: expired.changes });
	const messages = left.rows[0]?.messages ?? 0;
	if (messages > 0) deps.log("error", "dead_messages", { messages });
	const sent: string[] = [];
	try {
		for (const { id, body } of marked.rows) {
			await deps.events.send(JSON.parse(body));
			sent.push(id);
		}
	} finally {
		if (sent.length > 0) {
			await db.batch([
				query
					.deleteFrom("dead_messages")
					.where("id", "in", jsonList(JSON.stringify(sent)))
					.compile(),
			]);
		}
	}
}
