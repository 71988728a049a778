/**
 * A cache of which apps exist, one for each isolate: signed links end with their app or organization, and a download costs at most one
 * lookup. The change feed removes the apps that were deleted. If the database does not answer, downloads continue with the last answer.
 */
import type { AppId } from "../authz/decide";
import { liveAppWithId } from "../db/changes";
import type { Database } from "../db/client";
import type { Log } from "../deps";
import { causeText } from "../errors";
import { type ChangeFeed, createChangeFeed } from "./feed";
import { PATIENCE_MS } from "./freshness";
import { LATE, within } from "./patience";

/** About 150 bytes each. */
const MOST_HELD = 10_000;

interface Outside {
	readonly now: () => number;
	readonly deadline: (ms: number) => Promise<void>;
	readonly log: Log;
}

/** One for each isolate. */
export function createLiveApps(outside: Outside, feed: ChangeFeed = createChangeFeed(outside)) {
	const held = new Map<string, boolean>();
	/** By app: the question to the feed that must be answered before the app is live, after a change in this isolate. */
	const marks = new Map<string, number>();

	feed.listen({
		changed({ appId, pointer }) {
			if (held.has(appId)) held.set(appId, pointer !== null);
		},
		reset: () => held.clear(),
	});

	function keep(appId: string, isLive: boolean): void {
		held.delete(appId);
		held.set(appId, isLive);
		for (const oldest of held.keys()) {
			if (held.size <= MOST_HELD) break;
			held.delete(oldest);
			marks.delete(oldest);
		}
	}

	async function ask(limited: Database, appId: string): Promise<boolean> {
		// The caller has verified a link of the app, and a limit on its address must not make a deleted app look alive.
		const db = limited.unlimited ?? limited;
		const question = feed.begin();
		try {
			const [changes, { rows }] = await db.batch([feed.statement(), liveAppWithId(appId as AppId)]);
			await feed.settle(db, question, changes.rows);
			const isLive = rows.length > 0;
			if (feed.isCurrent(question, changes.rows, appId)) keep(appId, isLive);
			return isLive;
		} catch (error) {
			outside.log("warn", "app_lookup_failed", { cause: causeText(error) });
			feed.fail();
			return true;
		}
	}

	return {
		async isLive(db: Database, appId: string, waitUntil: (work: Promise<unknown>) => void): Promise<boolean> {
			if (held.has(appId)) {
				await feed.confirm(db, waitUntil, marks.get(appId));
				const known = held.get(appId);
				if (known !== undefined) return known;
			}
			// A failing database is not asked for each range.
			if (feed.isPaused()) return true;
			const asked = ask(db, appId);
			waitUntil(asked);
			const isLive = await within(outside, PATIENCE_MS, asked);
			return isLive === LATE || isLive;
		},

		/** After a change in this isolate; of any app unless one is given. */
		invalidate(appId?: string): void {
			if (appId === undefined) feed.recheck();
			else if (held.has(appId)) marks.set(appId, feed.mark());
		},
	};
}

export type LiveApps = ReturnType<typeof createLiveApps>;
