/**
 * The only way to the database: one or more compiled statements in one atomic D1 batch. Every call is one round trip and is counted;
 * a batch either happens whole or not at all, and its guards say by name why it did not.
 */
import {
	type CompiledQuery,
	DummyDriver,
	type Expression,
	Kysely,
	type SqlBool,
	SqliteAdapter,
	SqliteIntrospector,
	SqliteQueryCompiler,
	sql,
} from "kysely";
import { serviceUnavailable } from "../errors";
import type { Schema } from "./schema";

/** Builds statements and compiles them; it is connected to nothing, so nothing can run outside `Database.batch`. */
export const query = new Kysely<Schema>({
	dialect: {
		createAdapter: () => new SqliteAdapter(),
		createDriver: () => new DummyDriver(),
		createIntrospector: (db) => new SqliteIntrospector(db),
		createQueryCompiler: () => new SqliteQueryCompiler(),
	},
});

export interface StatementResult<Row> {
	readonly rows: Row[];
	/** Rows that the statement inserted, updated or deleted, cascades not counted. */
	readonly changes: number;
}

type Results<Statements extends readonly CompiledQuery[]> = {
	-readonly [Index in keyof Statements]: Statements[Index] extends CompiledQuery<infer Row>
		? StatementResult<Row>
		: never;
};

export interface Database {
	/** Round trips so far. */
	readonly trips: number;
	/** Size of the database after the last batch; undefined before it. */
	readonly sizeBytes?: number | undefined;
	/** The same database without a limit, if this one counts batches against a limit. */
	readonly unlimited?: Database;
	/** The last batch does not count after all. */
	readonly refund?: () => void;
	/**
	 * Runs the statements in order as one transaction and one round trip.
	 * @throws {GuardFailed} a `guard` did not hold; nothing was changed
	 * @throws {UniqueViolation} a unique index refused a row; nothing was changed
	 * @throws {ApiError} `service_unavailable`: D1 did not answer; for a write it is unknown whether it happened
	 */
	batch<const Statements extends readonly CompiledQuery[]>(statements: Statements): Promise<Results<Statements>>;
}

/** Which guarantee a database is read with: see "Sessions API" in D1's documentation. */
export type Consistency = "first-primary" | "first-unconstrained";

/**
 * One session of one request. Nothing is tried twice here: D1 itself repeats a read that failed with a passing error, up to two times
 * more (https://developers.cloudflare.com/d1/best-practices/retry-queries/), and whether a write whose answer was lost may be repeated
 * only the client knows.
 */
export function openDb(d1: D1Database, consistency: Consistency): Database {
	let opened: D1DatabaseSession | undefined;
	let trips = 0;
	let sizeBytes: number | undefined;
	return {
		get trips() {
			return trips;
		},
		get sizeBytes() {
			return sizeBytes;
		},
		async batch<const Statements extends readonly CompiledQuery[]>(statements: Statements) {
			trips += 1;
			let results: D1Result[];
			try {
				// Not earlier: a session that cannot be had is a fault of D1 like any other.
				const session = opened ?? d1.withSession(consistency);
				opened = session;
				results = await session.batch(
					statements.map((statement) => session.prepare(statement.sql).bind(...statement.parameters)),
				);
			} catch (error) {
				throw translate(error);
			}
			sizeBytes = results.at(-1)?.meta.size_after ?? sizeBytes;
			return results.map((result) => ({
				rows: result.results,
				changes: result.meta.changes,
			})) as Results<Statements>;
		},
	};
}

/** A condition that was checked inside a batch did not hold; `guard` is its name. */
export class GuardFailed extends Error {
	override readonly name = "GuardFailed";
	constructor(readonly guard: string) {
		super(`guard ${guard} failed`);
	}
}

/** A unique index refused a row; `columns` is what SQLite names, e.g. `channels.app_id, channels.name`. */
export class UniqueViolation extends Error {
	override readonly name = "UniqueViolation";
	constructor(readonly columns: string) {
		super(`unique constraint on ${columns}`);
	}
}

/**
 * A statement that aborts the whole batch unless the condition holds. SQLite has no RAISE outside triggers; a bad JSON path is an
 * error whose text carries the name, and CASE evaluates it only when the condition is false.
 */
export function guard(name: string, condition: Expression<SqlBool>): CompiledQuery<{ held: number }> {
	return sql<{
		held: number;
	}>`SELECT CASE WHEN ${condition} THEN 1 ELSE json_extract('{}', ${sql.lit(`guard:${name}`)}) END AS held`.compile(
		query,
	);
}

/** A new id for each row, where a statement inserts as many as it finds. */
export const RANDOM_UUID = sql<string>`lower(printf('%s-%s-4%s-8%s-%s', hex(randomblob(4)), hex(randomblob(2)),
	substr(hex(randomblob(2)), 2), substr(hex(randomblob(2)), 2), hex(randomblob(6))))`;

/** The texts of a JSON array as a list for IN: one parameter, where D1 takes at most a hundred. */
export function jsonList(json: string) {
	return sql<string>`(SELECT value FROM json_each(${json}))`;
}

/** Runs a batch and turns named failures into the errors that `failures` gives for them. */
export async function batchOrFail<const Statements extends readonly CompiledQuery[]>(
	db: Database,
	statements: Statements,
	failures: Record<string, () => Error>,
): Promise<Results<Statements>> {
	try {
		return await db.batch(statements);
	} catch (error) {
		const name =
			error instanceof GuardFailed ? error.guard : error instanceof UniqueViolation ? error.columns : undefined;
		const failure = name === undefined ? undefined : failures[name];
		throw failure === undefined ? error : failure();
	}
}

function translate(error: unknown): Error {
	const message = error instanceof Error ? error.message : String(error);
	const guardName = /bad JSON path: 'guard:([a-z_]+)'/.exec(message)?.[1];
	if (guardName !== undefined) return new GuardFailed(guardName);
	const columns = /UNIQUE constraint failed: (.+?): SQLITE_CONSTRAINT/.exec(message)?.[1];
	if (columns !== undefined) return new UniqueViolation(columns);
	return MISTAKE.test(message) && error instanceof Error ? error : serviceUnavailable(error);
}

/** Mistakes of ours, not of the platform: they must not look like an outage that passes. */
const MISTAKE = /SQLITE_(CONSTRAINT|ERROR|MISMATCH|TOOBIG|RANGE|MISUSE|AUTH)|D1_TYPE_ERROR/;
