/**
 * Statements about dead messages, for the operator at the command line. Marking one again and removing one that is gone change nothing, so
 * a command whose answer was lost may be given again.
 */
import { type CompiledQuery, sql } from "kysely";
import { jsonList, query } from "./client";

export interface DeadMessage {
	readonly id: string;
	/** What kind of work it is. */
	readonly kind: string;
	readonly body: string;
	readonly sent_at_ms: number;
	readonly died_at_ms: number;
	/** 1: the next sweep sends it again. */
	readonly resend: number;
}

/** The oldest first, of each so much of its body. */
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

/** Marks them for the next sweep; those that are there are given back. */
export function resendDeadMessages(chosen: Chosen): CompiledQuery<{ readonly id: string }> {
	return query
		.updateTable("dead_messages")
		.set({ resend: 1 })
		.$if(chosen !== "all", (rows) => rows.where("id", "in", jsonList(JSON.stringify(chosen))))
		.returning("id")
		.compile() as CompiledQuery<{ readonly id: string }>;
}

/** Gives up what they would have counted. */
export function dropDeadMessages(chosen: Chosen): CompiledQuery<{ readonly id: string }> {
	return query
		.deleteFrom("dead_messages")
		.$if(chosen !== "all", (rows) => rows.where("id", "in", jsonList(JSON.stringify(chosen))))
		.returning("id")
		.compile() as CompiledQuery<{ readonly id: string }>;
}
