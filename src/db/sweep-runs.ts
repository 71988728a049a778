/**
 * The time of the last clean-up, for `npm run doctor`: one row, which each run overwrites. A run that the platform ends early leaves the time of
 * the run before it.
 */
import { type CompiledQuery, sql } from "kysely";
import { query } from "./client";

/** Beside the positions of its steps. */
const STEP = "sweep";

export function storeSweepRun(atMs: number): CompiledQuery {
	return sql`INSERT INTO sweep_positions (step, position) VALUES (${STEP}, json_array(${atMs}))
		ON CONFLICT (step) DO UPDATE SET position = excluded.position`.compile(query);
}

/** No row before the first run. */
export function lastSweepRun(): CompiledQuery<{ readonly at_ms: number }> {
	return sql<{ at_ms: number }>`SELECT position ->> 0 AS at_ms FROM sweep_positions WHERE step = ${STEP}`.compile(
		query,
	);
}
