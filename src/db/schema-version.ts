/**
 * The newest migration of the database, as GET /ok and `npm run doctor` report it. An isolate asks the database at most once a minute, whatever
 * strangers request, and never waits longer than `PATIENCE_MS` for it.
 */
import { sql } from "kysely";
import type { Deps } from "../deps";
import { causeText } from "../errors";
import { type Database, query } from "./client";
import { PATIENCE_MS } from "./freshness";

const FRESH_MS = 60_000;

/** The ledger of `wrangler d1 migrations apply`. */
export const newestMigration = sql<{ name: string }>`SELECT name FROM d1_migrations ORDER BY id DESC LIMIT 1`.compile(
	query,
);

export type SchemaVersion = ReturnType<typeof createSchemaVersion>;

/** One for each isolate. */
export function createSchemaVersion({ now, delay, log }: Pick<Deps, "now" | "delay" | "log">) {
	let name: string | null = null;
	let askedAtMs = Number.NEGATIVE_INFINITY;
	let asking: Promise<void> = Promise.resolve();

	async function ask(db: Database): Promise<void> {
		try {
			const [{ rows }] = await (db.unlimited ?? db).batch([newestMigration]);
			name = rows[0]?.name.replace(/\.sql$/, "") ?? null;
		} catch (error) {
			// The last answer stays.
			log("warn", "schema_not_read", { cause: causeText(error) });
		}
	}

	return {
		/** For example "0025_signing_keys"; null while the database has not answered. */
		async read(db: Database): Promise<string | null> {
			const nowMs = now();
			const isStale = nowMs - askedAtMs >= FRESH_MS;
			if (isStale) {
				askedAtMs = nowMs;
				asking = ask(db);
			}
			if (isStale || name === null) await Promise.race([asking, delay(PATIENCE_MS)]);
			return name;
		},
	};
}
