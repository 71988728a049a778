/**
 * Statements of constant text, without the query builder, for the way of an update check: an
 * isolate that starts with a check loads little code and compiles no query.
 */
import type { CompiledQuery } from "kysely";

/** @param sql with numbered parameters (`?1`) */
export function plain<Row = unknown>(
	sql: string,
	...parameters: readonly (string | number | null)[]
): CompiledQuery<Row> {
	// `Database.batch` reads only the text and its parameters.
	return { sql, parameters } as unknown as CompiledQuery<Row>;
}
