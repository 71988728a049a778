/**
 * Messages that the consumer could not do in all its tries. The Queue moves them to a queue of their own, whose consumer writes them into
 * `dead_messages`, where they outlive the Queue's four days and a person can look at them (src/cli/dead-messages.ts). What a person marks
 * with `resend` the sweep sends again: nothing of it is counted twice. They are kept for as long as their events would still be counted.
 * Events of devices are not kept while the database is nearly full.
 */
import { sql } from "kysely";
import { jsonList, openDb, query } from "../db/client";
import type { Deps } from "../deps";
import { firstCountedDay, startOfDayMs } from "./days";
import { isFull } from "./device-rows";
import type { QueueMessage } from "./messages";

/** The queue whose name ends so is that of the dead. */
export const DEAD_LETTERS = "-dead";
/** A message is 128 KB at most. */
const MOST_RESENT = 50;

interface DeadMessage {
	readonly id: string;
	readonly timestamp: Date;
	readonly body: QueueMessage;
}

/** @throws {ApiError} `service_unavailable`: the Queue brings them again */
export async function bury(deps: Deps, messages: readonly DeadMessage[]): Promise<void> {
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
	const kept = isFull(deps, db) ? rows.filter(({ kind }) => kind !== "device_events") : rows;
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

/** Sends again what a person marked, forgets what is too old to be counted, and says in the log how many there are. */
export async function tendDeadMessages(deps: Deps): Promise<void> {
	const db = openDb(deps.d1, "first-primary");
	const tooOldMs = startOfDayMs(firstCountedDay(deps.config, deps.now()));
	const [forgotten, marked, left] = await db.batch([
		query.deleteFrom("dead_messages").where("sent_at_ms", "<", tooOldMs).compile(),
		query.selectFrom("dead_messages").select(["id", "body"]).where("resend", "=", 1).limit(MOST_RESENT).compile(),
		sql<{ messages: number }>`SELECT count(*) AS messages FROM dead_messages WHERE resend = 0`.compile(query),
	]);
	if (forgotten.changes > 0) deps.log("error", "dead_messages_forgotten", { messages: forgotten.changes });
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
