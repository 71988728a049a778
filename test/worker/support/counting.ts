/**
 * Rows that D1 reads and writes, by its own counters, which are what is billed: an index counts as
 * a row written, and so does a deletion.
 */

export interface CountedDatabase {
	readonly d1: D1Database;
	readonly read: number;
	readonly written: number;
	readonly trips: number;
	/** The statements that read or wrote most. */
	readonly statements: readonly { readonly text: string; readonly read: number; readonly written: number }[];
	/** Forgets the statements so far. */
	begin(): void;
}

export function countingRows(d1: D1Database, longest = 120): CountedDatabase {
	let [read, written, trips] = [0, 0, 0];
	let statements: { text: string; read: number; written: number }[] = [];
	const counting = {
		withSession(constraint: D1SessionConstraint) {
			const session = d1.withSession(constraint);
			return {
				prepare: (text: string) => ({
					bind: (...values: unknown[]) => ({ text, statement: session.prepare(text).bind(...values) }),
				}),
				async batch(list: { readonly text: string; readonly statement: D1PreparedStatement }[]) {
					trips += 1;
					const results = await session.batch(list.map(({ statement }) => statement));
					for (const [index, { meta }] of results.entries()) {
						read += meta.rows_read;
						written += meta.rows_written;
						const text = list[index]?.text.replaceAll(/\s+/g, " ").slice(0, longest) ?? "";
						statements.push({ text, read: meta.rows_read, written: meta.rows_written });
					}
					statements = statements
						.sort((one, other) => other.read + other.written - one.read - one.written)
						.slice(0, 12);
					return results;
				},
			};
		},
	};
	return {
		d1: counting as unknown as D1Database,
		get read() {
			return read;
		},
		get written() {
			return written;
		},
		get trips() {
			return trips;
		},
		get statements() {
			return statements;
		},
		begin() {
			statements = [];
		},
	};
}
