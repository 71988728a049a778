/**
 * The time of the last clean-up, for `npm run doctor`: one row, which each run overwrites. A run
 * that the platform ends early leaves the time of the run before it.
 */
import { type CompiledQuery, sql } from "kysely";
import { query } from "./client";

/** Beside the positions of its steps. */
const STEP = "clean_up";

export function storeJobRun(atMs: number): CompiledQuery {
	const position = JSON.stringify([atMs]);
	return query
		.insertInto("job_positions")
		.values({ step: STEP, position })
		.onConflict((conflict) => conflict.column("step").doUpdateSet({ position }))
		.compile();
}

/** No row before the first run. */
export function lastJobRun(): CompiledQuery<{ readonly at_ms: number }> {
	return query
		.selectFrom("job_positions")
		.select(sql<number>`${sql.ref("position")} ->> 0`.as("at_ms"))
		.where("step", "=", STEP)
		.compile();
}
