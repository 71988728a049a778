/**
 * The only access to the database: compiled statements in one atomic D1 batch. Each batch is one
 * counted round trip, applied whole or not at all. A statement that can abort its batch carries the
 * error of that abort. Nothing here loads the query builder, because requests of devices do without
 * it.
 */
import type { CompiledQuery } from "kysely";
import type { AppId } from "../authz/decide";
import { ApiError, serviceUnavailable } from "../errors";

/**
 * A compiled statement, with the errors that abort its batch (see `guard` and `onUnique`),
 * and the app that it changes.
 */
export interface Statement<Row = unknown> extends CompiledQuery<Row> {
	readonly failure?: () => Error;
	/** UUID of the app whose devices may be offered something else after the statement. */
	readonly changedApp?: AppId;
	readonly uniqueFailures?: Readonly<Record<string, () => Error>>;
}

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

/** The result of the last statement of a batch, whose number of statements varies. */
export function lastResult<Row>(
	results: readonly [...(readonly StatementResult<unknown>[]), StatementResult<Row>],
): StatementResult<Row> {
	return results[results.length - 1] as StatementResult<Row>;
}

/** Guards that a wrapper of the database adds to a batch; the caller does not see their results. */
interface BatchGuards {
	readonly before?: readonly Statement[];
	readonly after?: readonly Statement[];
}

export interface Database {
	/** Round trips so far. */
	readonly trips: number;
	/** Size of the database after the last batch; undefined before it. */
	readonly sizeBytes?: number | undefined;
	/** The same database without the limit on batches. */
	readonly unlimited?: Database;
	/** Takes the last batch back from the limit. */
	readonly refund?: () => void;
	/**
	 * Runs the statements in order as one transaction and one round trip.
	 * @throws the error of a failed `guard` or `onUnique`; nothing was changed
	 * @throws {ApiError} `service_unavailable`: D1 did not answer; a write may have happened
	 */
	batch<const Statements extends readonly Statement[]>(
		statements: Statements,
		guards?: BatchGuards,
	): Promise<Results<Statements>>;
}

/** Consistency of reads: see "Sessions API" in the documentation of D1. */
type Consistency = "first-primary" | "first-unconstrained";

/**
 * One session of one request. No retries: D1 itself repeats a read after a transient error, up to
 * two times (https://developers.cloudflare.com/d1/best-practices/retry-queries/), and only the
 * client knows whether a write may be repeated.
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
		async batch<const Statements extends readonly Statement[]>(
			statements: Statements,
			{ before = [], after = [] }: BatchGuards = {},
		) {
			const all: readonly Statement[] = [...before, ...statements, ...after];
			trips += 1;
			let results: D1Result[];
			try {
				// Opened here, so that a session that D1 refuses is handled like any other fault of D1.
				const session = opened ?? d1.withSession(consistency);
				opened = session;
				results = await session.batch(
					all.map(({ sql, parameters }, index) =>
						session
							.prepare(sql)
							.bind(...parameters.map((value) => (value === OWN_INDEX ? `${GUARD_PATH}${index}` : value))),
					),
				);
			} catch (error) {
				throw failureOf(error, all);
			}
			sizeBytes = results.at(-1)?.meta.size_after ?? sizeBytes;
			return results.slice(before.length, before.length + statements.length).map((result) => ({
				rows: result.results,
				changes: result.meta.changes,
			})) as Results<Statements>;
		},
	};
}

/** A parameter that stands for the index of its statement in the batch. */
export const OWN_INDEX = Symbol("index of the statement in its batch");
const GUARD_PATH = "guard:";

function failureOf(error: unknown, statements: readonly Statement[]): Error {
	const message = error instanceof Error ? error.message : String(error);
	const index = /bad JSON path: 'guard:(\d+)'/.exec(message)?.[1];
	const columns = /UNIQUE constraint failed: (.+?): SQLITE_CONSTRAINT/.exec(message)?.[1];
	const failure =
		index !== undefined
			? statements[Number(index)]?.failure
			: columns !== undefined
				? statements.find(({ uniqueFailures }) => uniqueFailures?.[columns] !== undefined)?.uniqueFailures?.[columns]
				: undefined;
	if (failure !== undefined) return failure();
	// It was refused before it was sent (bounded-database.ts).
	if (error instanceof ApiError) return error;
	return MISTAKE.test(message) && error instanceof Error ? error : serviceUnavailable(error);
}

/** Mistakes in our own statements: a client must not take them for an outage and try again. */
const MISTAKE = /SQLITE_(CONSTRAINT|ERROR|MISMATCH|TOOBIG|RANGE|MISUSE|AUTH)|D1_TYPE_ERROR/;
