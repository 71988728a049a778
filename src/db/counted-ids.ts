/**
 * Ids of counted events that are not about one device, so that a message that arrives again is not
 * counted again. The ids of five minutes share a row, because each written row costs: a batch of
 * the consumer writes one or two.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { MINUTE_MS } from "../domain/time";
import { query, reportQuery } from "./client";

const PERIOD_MS = 5 * MINUTE_MS;
/**
 * About 10,000 ids, because each event of a batch searches the row, and D1 allows two megabytes.
 * Beyond it, an event whose message arrives again is counted again.
 */
const MOST_CHARACTERS = 400_000;
const MOST_ROWS_DELETED = 1_000;

type Value<Type> = RawBuilder<Type>;

const periodOf = (atMs: Value<number>) => sql<number>`${atMs} / ${sql.lit(PERIOD_MS)}`;
const spaced = (ids: Value<string>) => sql<string>`' ' || ${ids} || ' '`;

/**
 * SQL: the event was counted.
 * @param atMs time of the event, which is the same each time that it arrives
 */
export function isCounted(id: Value<string>, atMs: Value<number>): Value<boolean> {
	return sql<boolean>`EXISTS (SELECT 1 FROM counted_ids c WHERE c.period = ${periodOf(atMs)} AND instr(c.ids, ${spaced(id)}) > 0)`;
}

/** Stores the ids of those events that were not counted, in the batch that counts them. */
export function storeIds(events: readonly { readonly id: string; readonly atMs: number }[]): CompiledQuery {
	const list = JSON.stringify(events.map(({ id, atMs }) => [id, atMs]));
	const [id, atMs] = [sql<string>`event.value ->> 0`, sql<number>`(event.value ->> 1)`];
	return sql`INSERT INTO counted_ids (period, ids)
		SELECT ${periodOf(atMs)}, ${spaced(sql`group_concat(${id}, ' ')`)} FROM json_each(${list}) AS event
		WHERE NOT ${isCounted(id, atMs)} GROUP BY 1
		ON CONFLICT (period) DO UPDATE SET ids = ids || excluded.ids WHERE length(ids) < ${sql.lit(MOST_CHARACTERS)}`.compile(
		query,
	);
}

/** @param startOfDayMs the consumer counts no event of an earlier day */
export function deleteIdsBefore(startOfDayMs: number): CompiledQuery {
	const old = reportQuery
		.selectFrom("counted_ids")
		.select("period")
		.where("period", "<", Math.floor(startOfDayMs / PERIOD_MS))
		.limit(MOST_ROWS_DELETED);
	return reportQuery.deleteFrom("counted_ids").where("period", "in", old).compile();
}
