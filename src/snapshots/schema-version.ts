/**
 * The newest migration of the database, as GET /ok and `npm run doctor` report it. An isolate asks the database at most once a minute, or every
 * five seconds while it does not answer, whatever strangers request, and never waits longer than `PATIENCE_MS` for it.
 */

import type { Database } from "../db/client";
import { newestMigration } from "../db/schema-version";
import type { Deps } from "../deps";
import { causeText } from "../errors";
import { PATIENCE_MS } from "./freshness";

const FRESH_MS = 60_000;
const ASK_AGAIN_MS = 5_000;

export type SchemaVersion = ReturnType<typeof createSchemaVersion>;

/** One for each isolate. */
export function createSchemaVersion({ now, delay, log }: Pick<Deps, "now" | "delay" | "log">) {
	let name: string | null = null;
	let answeredAtMs = Number.NEGATIVE_INFINITY;
	let asking: { readonly sinceMs: number; readonly answer: Promise<void> } | undefined;

	async function ask(db: Database): Promise<void> {
		try {
			const [{ rows }] = await (db.unlimited ?? db).batch([newestMigration]);
			name = rows[0]?.name.replace(/\.sql$/, "") ?? null;
			answeredAtMs = now();
		} catch (error) {
			// The last answer stays.
			log("warn", "schema_not_read", { cause: causeText(error) });
		}
	}

	return {
		/** For example "0001_schema"; null while the database has not answered. */
		async read(db: Database, waitUntil: (work: Promise<unknown>) => void): Promise<string | null> {
			const nowMs = now();
			if (nowMs - answeredAtMs < FRESH_MS) return name;
			// A question that is older has ended with its request, or the database does not answer.
			if (asking === undefined || nowMs - asking.sinceMs >= ASK_AGAIN_MS) {
				const answer = ask(db);
				waitUntil(answer);
				asking = { sinceMs: nowMs, answer };
			}
			await Promise.race([asking.answer, delay(PATIENCE_MS)]);
			return name;
		},
	};
}
