/**
 * Statements of the operator's command for dead messages. All are idempotent, so a command can be
 * repeated.
 */
import { type CompiledQuery, sql } from "kysely";
import { jsonList, query } from "./client";

export interface DeadMessage {
	readonly id: string;
	/** The `kind` of the message. */
	readonly kind: string;
	readonly body: string;
	readonly sent_at_ms: number;
	readonly died_at_ms: number;
	/** 1: the next clean-up sends it again. */
	readonly resend: number;
}

/** Oldest first, with the beginning of each body. */
export function deadMessages(limit: number, bodyCharacters: number): CompiledQuery<DeadMessage> {
	return query
		.selectFrom("dead_messages")
		.select(["id", "kind", "sent_at_ms", "died_at_ms", "resend"])
		.select(sql<string>`substr(body, 1, ${bodyCharacters})`.as("body"))
		.orderBy("died_at_ms")
		.orderBy("id")
		.limit(limit)
		.compile();
}

export type Chosen = readonly string[] | "all";

/** Marks messages for the next clean-up, and returns the existing ones. */
/** Counted up to this number, so that the question stays cheap. */
const MOST_COUNTED = 1_000;

export function countDeadMessages(): CompiledQuery<{ readonly dead: number }> {
	return query
		.selectFrom(query.selectFrom("dead_messages").select("id").limit(MOST_COUNTED).as("counted"))
		.select((eb) => eb.fn.countAll<number>().as("dead"))
		.compile();
}

export function resendDeadMessages(chosen: Chosen): CompiledQuery<{ readonly id: string }> {
	return query
		.updateTable("dead_messages")
		.set({ resend: 1 })
		.$if(chosen !== "all", (rows) => rows.where("id", "in", jsonList(JSON.stringify(chosen))))
		.returning("id")
		.compile() as CompiledQuery<{ readonly id: string }>;
}

/** Deletes the messages; what they would have counted is lost. */
export function dropDeadMessages(chosen: Chosen): CompiledQuery<{ readonly id: string }> {
	return query
		.deleteFrom("dead_messages")
		.$if(chosen !== "all", (rows) => rows.where("id", "in", jsonList(JSON.stringify(chosen))))
		.returning("id")
		.compile() as CompiledQuery<{ readonly id: string }>;
}
