/**
 * Joins the batches of jobs that run side by side: whatever they ask of one database at the same
 * time is one D1 batch, so thirty jobs with nothing to do cost one round trip and not thirty. The
 * statements keep the order of the jobs. When the joined batch fails, each batch runs again alone,
 * so only the job whose statement is at fault sees an error. A batch may therefore run twice after
 * a lost answer, which only idempotent jobs allow.
 */

/** A statement before its session exists. */
interface Written {
	readonly text: string;
	readonly values: readonly unknown[];
}

interface Waiting {
	readonly statements: readonly Written[];
	readonly resolve: (results: D1Result[]) => void;
	readonly reject: (error: unknown) => void;
}

/** The part of D1 that `openDb` uses. */
export function joinTrips(d1: D1Database): D1Database {
	const waiting: Waiting[] = [];

	function run(consistency: D1SessionConstraint, statements: readonly Written[]): Promise<D1Result[]> {
		const session = d1.withSession(consistency);
		return session.batch(statements.map(({ text, values }) => session.prepare(text).bind(...values)));
	}

	async function flush(consistency: D1SessionConstraint): Promise<void> {
		const parts = waiting.splice(0);
		if (parts.length > 1) {
			try {
				const results = await run(
					consistency,
					parts.flatMap(({ statements }) => statements),
				);
				let start = 0;
				for (const { statements, resolve } of parts) {
					resolve(results.slice(start, start + statements.length));
					start += statements.length;
				}
				return;
			} catch {
				// Which of the parts is at fault shows when each runs alone.
			}
		}
		for (const { statements, resolve, reject } of parts) {
			try {
				resolve(await run(consistency, statements));
			} catch (error) {
				reject(error);
			}
		}
	}

	const joined = {
		withSession: (consistency: D1SessionConstraint) => ({
			prepare: (text: string) => ({ bind: (...values: unknown[]): Written => ({ text, values }) }),
			batch: (statements: readonly Written[]) =>
				new Promise<D1Result[]>((resolve, reject) => {
					// In a task of its own, after every job that can go on has asked.
					if (waiting.length === 0) setTimeout(() => flush(consistency), 0);
					waiting.push({ statements, resolve, reject });
				}),
		}),
	};
	return joined as unknown as D1Database;
}
