/**
 * The newest migration of the database by its ledger of migrations, for GET /ok and the status of
 * the service.
 */
import { sql } from "kysely";
import { query } from "./client";

/** The ledger of `wrangler d1 migrations apply`. */
export const newestMigration = sql<{ name: string }>`SELECT name FROM d1_migrations ORDER BY id DESC LIMIT 1`.compile(
	query,
);
