/**
 * How SQLite finds the rows of a statement. A statement that reads a whole table is quick in every
 * test and ruinous in a large installation, where each row read is paid for; so tests ask for the
 * plan, which does not depend on how much there is.
 */
import { databaseOf } from "./reports";
import { testEnv } from "./world";

export interface PlannedStatement {
	readonly sql: string;
	readonly parameters: readonly unknown[];
}

/** The lines of the plans of all of them. */
export async function plansOf(statements: readonly PlannedStatement[], database?: D1Database): Promise<string[]> {
	const details: string[] = [];
	for (const { sql, parameters } of statements) {
		const plan = await (database ?? databaseOf(sql))
			.prepare(`EXPLAIN QUERY PLAN ${sql}`)
			.bind(...parameters)
			.all<{ detail: string }>();
		details.push(...plan.results.map(({ detail }) => detail));
	}
	return details;
}

/** The lines that read a whole table. A subquery or CTE by one of these names may be read whole. */
export function scansIn(details: readonly string[], made: readonly string[] = []): string[] {
	const isMade = new RegExp(`^SCAN (CONSTANT|\\(subquery${made.map((name) => `|${name}\\b`).join("")})|VIRTUAL TABLE`);
	return details.filter((detail) => detail.startsWith("SCAN ") && !isMade.test(detail));
}

/** A test database, which notes what it is asked. */
export function notingStatements(database = testEnv.DB): {
	readonly d1: D1Database;
	readonly statements: PlannedStatement[];
} {
	const statements: PlannedStatement[] = [];
	const d1 = {
		withSession(constraint: D1SessionConstraint) {
			const session = database.withSession(constraint);
			return {
				prepare(sql: string) {
					const prepared = session.prepare(sql);
					return {
						bind(...parameters: unknown[]) {
							statements.push({ sql, parameters });
							return prepared.bind(...parameters);
						},
					};
				},
				batch: (list: D1PreparedStatement[]) => session.batch(list),
			};
		},
	} as unknown as D1Database;
	return { d1, statements };
}
