/**
 * Clean-up of tables that have no index for what is looked for: each run reads the next rows in the
 * order of a key, from the position at which the run before it ended. An idle run reads one range
 * of rows, whatever the size of the table. A run that finds much continues.
 */
import { type CompiledQuery, type RawBuilder, type SqlBool, sql } from "kysely";
import { type Database, query } from "./client";

export interface Walk {
	/** Name of the position. */
	readonly step: string;
	readonly table: string;
	/** First columns of an index, in its order. Rows that have them in common are in one range. */
	readonly key: readonly string[];
	/** JSON array: the position before the first row. After the last row the walk returns to it. */
	readonly first: string;
	/** JSON array: the position after the last row, if the walk does not return to the first one. */
	readonly afterLast?: string;
	/** Rows that may be walked. */
	readonly within?: RawBuilder<SqlBool>;
	/** Rows of one range. */
	readonly rows: number;
}

/** Ranges of one run. */
const MOST_RANGES = 10;
/** The run continues if at least one row of this many was removed. */
const WORTH_CONTINUING = 10;

/**
 * Two round trips for each range: its end, and what is removed from it together with the new
 * position.
 * @param removals the statements for the rows of a range; the last one deletes them
 */
export async function walk(
	db: Database,
	{ step, table, key, first, afterLast = first, within = sql<boolean>`true`, rows }: Walk,
	removals: (range: RawBuilder<SqlBool>) => readonly CompiledQuery[] | Promise<readonly CompiledQuery[]>,
): Promise<void> {
	const columns = sql.join(key.map((column) => sql.ref(column)));
	const valuesOf = (position: RawBuilder<unknown>) =>
		sql.join(key.map((_, index) => sql`${position} ->> ${sql.lit(index)}`));
	const start = valuesOf(sql`coalesce((SELECT position FROM job_positions WHERE step = ${step}), ${first})`);
	for (let range = 0; range < MOST_RANGES; range++) {
		const [end] = await db.batch([
			sql<{ position: string }>`SELECT json_array(${columns}) AS position FROM ${sql.table(table)}
				WHERE (${columns}) > (${start}) AND ${within} ORDER BY ${columns} LIMIT 1 OFFSET ${rows - 1}`.compile(query),
		]);
		const next = end.rows[0]?.position;
		const until = next === undefined ? within : sql`(${columns}) <= (${valuesOf(sql`${next}`)})`;
		const results = await db.batch([
			...(await removals(sql<boolean>`(${columns}) > (${start}) AND ${until}`)),
			query
				.insertInto("job_positions")
				.values({ step, position: next ?? afterLast })
				.onConflict((conflict) =>
					conflict
						.column("step")
						.doUpdateSet((eb) => ({ position: eb.ref("excluded.position") }))
						.whereRef("job_positions.position", "<>", "excluded.position"),
				)
				.compile(),
		]);
		if (next === undefined || (results.at(-2)?.changes ?? 0) * WORTH_CONTINUING < rows) return;
	}
}
