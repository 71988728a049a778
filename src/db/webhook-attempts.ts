/**
 * Statements about the attempts of deliveries: what each receiver answered. They belong to their
 * delivery, through which each read finds its tenant, and end with it.
 */
import { type CompiledQuery, type Selectable, sql } from "kysely";
import { query } from "./client";
import type { WebhookAttemptsTable } from "./schema";

export type WebhookAttempt = Selectable<WebhookAttemptsTable>;

/**
 * Keeps an attempt. It replaces one of the same number from before a replay, but not one that
 * began after it. Nothing if the delivery was deleted meanwhile.
 */
export function insertAttempt(attempt: WebhookAttempt): CompiledQuery {
	const columns = Object.keys(attempt) as (keyof WebhookAttempt)[];
	return query
		.insertInto("webhook_attempts")
		.orReplace()
		.columns(columns)
		.expression((eb) =>
			eb
				.selectFrom("webhook_deliveries")
				.select(columns.map((column) => sql`${attempt[column]}`.as(column)))
				.where("id", "=", attempt.delivery_id)
				.where((where) =>
					where.not(
						where.exists(
							where
								.selectFrom("webhook_attempts as newer")
								.select("newer.number")
								.where("newer.delivery_id", "=", attempt.delivery_id)
								.where("newer.number", "=", attempt.number)
								.where("newer.at_ms", ">", attempt.at_ms),
						),
					),
				),
		)
		.compile();
}

/** Oldest first. */
export function attemptsOf(orgId: string, deliveryId: string): CompiledQuery<WebhookAttempt> {
	return query
		.selectFrom("webhook_attempts as t")
		.innerJoin("webhook_deliveries as d", "d.id", "t.delivery_id")
		.selectAll("t")
		.where("t.delivery_id", "=", deliveryId)
		.where("d.org_id", "=", orgId)
		.orderBy("t.at_ms")
		.orderBy("t.number")
		.compile();
}
