/**
 * Which apps exist, in the isolate's memory: signed links end with the app or the organization that they belong to, while a download
 * costs at most one cached lookup. An answer is used for two seconds; up to four it is used while the database is asked again. When the
 * database does not answer, downloads go on as before.
 */
import { type CompiledQuery, sql } from "kysely";
import type { AppId } from "../authz/decide";
import type { Log } from "../deps";
import { causeText } from "../errors";
import { type Database, query } from "./client";

const FRESH_MS = 2_000;
const STALE_MS = 4_000;
/** How long a download waits for the database. */
const PATIENCE_MS = 500;
/** About 150 bytes each. */
const MOST_HELD = 10_000;

/** One row if the app exists and its organization is not deleted. */
export function appIsLive(appId: AppId): CompiledQuery<{ live: number }> {
	return sql<{ live: number }>`SELECT 1 AS live FROM apps INNER JOIN organizations ON organizations.id = apps.owner_org
		WHERE apps.id = ${appId} AND organizations.deleted_at_ms IS NULL`.compile(query);
}

interface Held {
	readonly isLive: boolean;
	readonly checkedAtMs: number;
	readonly isRefreshing: boolean;
}

interface Outside {
	readonly now: () => number;
	readonly delay: (ms: number) => Promise<void>;
	readonly log: Log;
}

/** One for each isolate. */
export function createLiveApps({ now, delay, log }: Outside) {
	const held = new Map<string, Held>();
	/** Invalidation counter: an answer to a question from before an invalidation must not be kept. */
	let invalidations = 0;

	function keep(appId: string, entry: Held): void {
		held.delete(appId);
		held.set(appId, entry);
		for (const oldest of held.keys()) {
			if (held.size <= MOST_HELD) break;
			held.delete(oldest);
		}
	}

	async function ask(db: Database, appId: string, before: Held | undefined): Promise<boolean> {
		const checkedAtMs = now();
		const askedAt = invalidations;
		let isLive = before?.isLive ?? true;
		try {
			// The caller has verified a link of the app, and a limit on its address must not make a deleted app look alive.
			const [{ rows }] = await (db.unlimited ?? db).batch([appIsLive(appId as AppId)]);
			isLive = rows.length > 0;
		} catch (error) {
			// Kept like an answer, so that a failing database is not asked for each range.
			log("warn", "app_lookup_failed", { cause: causeText(error) });
		}
		if (askedAt === invalidations) keep(appId, { isLive, checkedAtMs, isRefreshing: false });
		return isLive;
	}

	return {
		async isLive(db: Database, appId: string, waitUntil: (work: Promise<unknown>) => void): Promise<boolean> {
			const known = held.get(appId);
			const ageMs = known === undefined ? STALE_MS : now() - known.checkedAtMs;
			if (known !== undefined && (ageMs < FRESH_MS || (ageMs < STALE_MS && known.isRefreshing))) return known.isLive;
			if (known !== undefined) keep(appId, { ...known, isRefreshing: true });
			const asking = ask(db, appId, known);
			waitUntil(asking);
			if (known !== undefined && ageMs < STALE_MS) return known.isLive;
			return Promise.race([asking, delay(PATIENCE_MS).then(() => known?.isLive ?? true)]);
		},

		/** After a change in this isolate; of every app unless one is given. */
		invalidate(appId?: string): void {
			invalidations += 1;
			if (appId === undefined) held.clear();
			else held.delete(appId);
		},
	};
}

export type LiveApps = ReturnType<typeof createLiveApps>;
