/**
 * Reads by name: a record of statements that one batch runs in the order of the keys, and the rows
 * of each under the same key. A request that does not need a statement gives `undefined` for it,
 * and reads no rows there, so that no statement runs for nothing.
 */
import type { CompiledQuery } from "kysely";
import type { Database, StatementResult } from "./batch";

/** One statement, several whose rows belong together, or undefined: nothing to read. */
type NamedRead = CompiledQuery | readonly CompiledQuery[] | undefined;
export type NamedReads = Readonly<Record<string, NamedRead>>;

type RowOf<Read> =
	Read extends CompiledQuery<infer Row> ? Row : Read extends readonly CompiledQuery<infer Row>[] ? Row : never;

/** The rows under the names of their statements. Those of several statements follow each other. */
export type NamedRows<Reads> = { readonly [Name in keyof Reads]: readonly RowOf<NonNullable<Reads[Name]>>[] };

const statementsOf = (read: NamedRead): readonly CompiledQuery[] => [read ?? []].flat();

/** The statements in the order of the keys. */
export function listReads(reads: NamedReads): readonly CompiledQuery[] {
	return Object.values(reads).flatMap(statementsOf);
}

/** @param results those of `listReads`, in its order */
export function nameRows<Reads extends NamedReads>(
	reads: Reads,
	results: readonly StatementResult<unknown>[],
): NamedRows<Reads> {
	let start = 0;
	const named = Object.entries(reads).map(([name, read]) => {
		const end = start + statementsOf(read).length;
		const rows = results.slice(start, end).flatMap((result) => result.rows);
		start = end;
		return [name, rows];
	});
	return Object.fromEntries(named);
}

/** Runs the statements in one batch. */
export async function readNamed<const Reads extends NamedReads>(db: Database, reads: Reads): Promise<NamedRows<Reads>> {
	return nameRows(reads, await db.batch(listReads(reads)));
}
