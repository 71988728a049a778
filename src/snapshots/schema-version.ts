/**
 * The newest migration of the database, as GET /ok and `npm run doctor` report it. An isolate asks
 * the database at most once a minute, or every five seconds while it does not answer, whatever
 * strangers request, and no request waits longer than `MOST_WAIT_MS` for it.
 */

import type { Database } from "../db/batch";
import { newestMigration } from "../db/schema-version";
import type { Deps } from "../deps";
import { causeText } from "../errors";
import { MOST_WAIT_MS, type Waiter } from "./freshness";
import { SharedWork } from "./shared-work";

const KEPT_MS = 60_000;
const PAUSE_AFTER_FAILURE_MS = 5_000;

/** One for each isolate. */
export class SchemaVersion {
	readonly #deps: Pick<Deps, "now" | "deadline" | "log">;
	readonly #reads: SharedWork<void>;
	#name: string | null = null;
	#nextAtMs = Number.NEGATIVE_INFINITY;

	constructor(deps: Pick<Deps, "now" | "deadline" | "log">) {
		this.#deps = deps;
		this.#reads = new SharedWork(deps);
	}

	async #read(db: Database): Promise<void> {
		try {
			const [{ rows }] = await (db.unlimited ?? db).batch([newestMigration]);
			this.#name = rows[0]?.name.replace(/\.sql$/, "") ?? null;
			this.#nextAtMs = this.#deps.now() + KEPT_MS;
		} catch (error) {
			// The last answer stays.
			this.#nextAtMs = this.#deps.now() + PAUSE_AFTER_FAILURE_MS;
			this.#deps.log("warn", "schema_not_read", { cause: causeText(error) });
		}
	}

	/** For example "0001_schema"; null while the database has not answered. */
	async read(db: Database, waitUntil: Waiter["waitUntil"]): Promise<string | null> {
		const nowMs = this.#deps.now();
		if (nowMs >= this.#nextAtMs) {
			const waiter = { waitUntil, deadlineMs: nowMs + MOST_WAIT_MS };
			await this.#reads.join("schema", waiter, () => this.#read(db));
		}
		return this.#name;
	}
}
