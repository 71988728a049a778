/**
 * An isolate's position in the change feed. It asks D1 for the rows after its last known one, once in two seconds for all apps, and
 * its caches drop what those rows name. The number of questions does not depend on the number of apps and checks.
 *
 * - An answer must contain the row of the isolate's position, with its random token. If it does not (the database was restored, or rows were
 *   trimmed), every cache starts again.
 * - A batch that reads an app contains the feed's statement, so its rows and the position are of one moment (`isCurrent`).
 * - Ages count from the moment at which D1 was asked.
 */
import { type ChangeRow, changesFrom, PAGE_ROWS } from "../db/changes";
import type { Database } from "../db/client";
import { FRESH_MS, PATIENCE_MS, pauseAfterMs, STALE_MS } from "./freshness";
import { LATE, within } from "./patience";

/** A question that began this long ago has ended with its request. */
const QUESTION_LIFETIME_MS = 5_000;
const MOST_PAGES = 25;
/** Apps whose last change is recorded for reads under way; about 100 bytes each. */
const MOST_RECENT = 2_000;

/** An app as it is after a change. */
export interface Pointer {
	/** UUID. */
	readonly appId: string;
	readonly publicId: string;
	/** Identifies the content of the app's snapshot. */
	readonly token: string;
	/** Position of the feed at which the app was so. */
	readonly seq: number;
}

interface AppChange {
	readonly appId: string;
	/** The app's public ids before and after the change. */
	readonly publicIds: readonly string[];
	/** Null: devices get nothing of the app any more. */
	readonly pointer: Pointer | null;
}

interface FeedListener {
	changed(change: AppChange): void;
	/** Anything may have changed. */
	reset(): void;
}

/** An answer of the feed that is under way. */
export interface Question {
	readonly number: number;
	readonly atMs: number;
	readonly settled: number;
	readonly generation: number;
}

interface Clock {
	readonly now: () => number;
	readonly deadline: (ms: number) => Promise<void>;
}

/** One for each isolate. */
export function createChangeFeed(clock: Clock) {
	const { now } = clock;
	const listeners: FeedListener[] = [];
	let position: { readonly seq: number; readonly token: string } | undefined;
	let checkedAtMs = Number.NEGATIVE_INFINITY;
	/** Questions begun, the newest one whose answer was used, and answers used. */
	let [begun, answered, settled] = [0, 0, 0];
	/** A question with a higher number must be answered before anything held is fresh. */
	let askedAfter = 0;
	let generation = 0;
	let asking: { readonly number: number; readonly atMs: number; readonly answer: Promise<void> } | undefined;
	let failures = 0;
	let retryAtMs = Number.NEGATIVE_INFINITY;
	const changedAt = new Map<string, number>();
	let changedBefore = 0;

	function begin(): Question {
		begun += 1;
		return { number: begun, atMs: now(), settled, generation };
	}

	function fail(): void {
		if (now() < retryAtMs) return;
		failures += 1;
		retryAtMs = now() + pauseAfterMs(failures);
	}

	function note(row: ChangeRow, seq: number): void {
		const { app_id: appId, current_public_id: publicId, revision_token: token } = row;
		if (appId === null) return;
		changedAt.delete(appId);
		changedAt.set(appId, row.seq);
		for (const [oldest, oldestSeq] of changedAt) {
			if (changedAt.size <= MOST_RECENT) break;
			changedBefore = oldestSeq;
			changedAt.delete(oldest);
		}
		const isLive = publicId !== null && token !== null && row.is_live === 1;
		const change: AppChange = {
			appId,
			publicIds: [row.public_app_id, publicId].filter((id) => id !== null),
			pointer: isLive ? { appId, publicId, token, seq } : null,
		};
		for (const listener of listeners) listener.changed(change);
	}

	/** Uses an answer. The feed is empty if its triggers do not exist yet: then nothing counts as current. */
	async function settle(db: Database, question: Question, rows: readonly ChangeRow[]): Promise<void> {
		const last = rows.at(-1);
		if (last === undefined) {
			// Only a new database needs it, so no device waits for its code.
			const { startFeed } = await import("../db/triggers");
			return startFeed(db.unlimited ?? db);
		}
		const known = position;
		const at =
			known === undefined ? -1 : rows.findIndex(({ seq, token }) => seq === known.seq && token === known.token);
		// A later question was answered first.
		if (at === -1 && question.settled !== settled) return;
		settled += 1;
		position = { seq: last.seq, token: last.token };
		if (at === -1) {
			generation += 1;
			changedAt.clear();
			changedBefore = 0;
			for (const listener of listeners) listener.reset();
		} else {
			for (const row of rows.slice(at + 1)) note(row, last.seq);
		}
		// More than a page: the rest is asked for before anything counts as current.
		if (rows.length < PAGE_ROWS) {
			checkedAtMs = Math.max(checkedAtMs, question.atMs);
			answered = Math.max(answered, question.number);
		}
		[failures, retryAtMs] = [0, Number.NEGATIVE_INFINITY];
	}

	const statement = () => changesFrom(position?.seq ?? Number.MAX_SAFE_INTEGER);

	async function askNow(db: Database): Promise<void> {
		const question = begin();
		try {
			for (let page = 0; page < MOST_PAGES; page++) {
				const [{ rows }] = await db.batch([statement()]);
				await settle(db, question, rows);
				if (rows.length > 0 && rows.length < PAGE_ROWS) break;
			}
		} catch (error) {
			fail();
			throw error;
		}
	}

	/** One question at a time; one that began before a change of this isolate does not count. */
	function ask(limited: Database, after: number): Promise<void> {
		if (asking !== undefined && asking.number > after && now() - asking.atMs < QUESTION_LIFETIME_MS)
			return asking.answer;
		const answer = askNow(limited.unlimited ?? limited).finally(() => {
			if (asking?.answer === answer) asking = undefined;
		});
		asking = { number: begun, atMs: now(), answer };
		return answer;
	}

	return {
		listen: (listener: FeedListener): void => void listeners.push(listener),

		/** For a batch that reads an app. */
		statement,
		begin,
		settle,

		/** Records that the database did not answer. */
		fail,

		/** Whether the database failed lately and is left alone. */
		isPaused: (): boolean => now() < retryAtMs,

		/** A mark for `confirm`: what is held must be confirmed by a question that begins after now. */
		mark(): number {
			retryAtMs = Number.NEGATIVE_INFINITY;
			return begun;
		},

		/** After a change in this isolate that may affect any app. */
		recheck(): void {
			retryAtMs = Number.NEGATIVE_INFINITY;
			askedAfter = begun;
		},

		/** Whether the feed was answered after the mark. */
		isAnswered: (mark: number): boolean => answered > Math.max(mark, askedAfter),

		/** When everything held was last known to be current. */
		get checkedAtMs(): number {
			return checkedAtMs;
		},

		isFresh: (nowMs: number, after = 0): boolean =>
			nowMs - checkedAtMs < FRESH_MS && answered > Math.max(after, askedAfter),

		/** Whether what a batch read is current, as far as this isolate knows: nothing changed it after the last row of the batch's feed. */
		isCurrent(question: Question, rows: readonly ChangeRow[], appId: string | null): boolean {
			const last = rows.at(-1);
			if (last === undefined || position === undefined) return false;
			const isOwnReset = generation === question.generation + 1 && position.token === last.token;
			if (generation !== question.generation && !isOwnReset) return false;
			if (appId === null) return position.seq === last.seq;
			return (changedAt.get(appId) ?? changedBefore) <= last.seq;
		},

		/** Asks in the background from two seconds on and waits from four seconds on, for half a second. Never fails. */
		async confirm(db: Database, waitUntil: (work: Promise<unknown>) => void, mark = 0): Promise<void> {
			const nowMs = now();
			const ageMs = nowMs - checkedAtMs;
			const after = Math.max(mark, askedAfter);
			const isMarked = answered <= after;
			if ((!isMarked && ageMs < FRESH_MS) || nowMs < retryAtMs) return;
			const asked = ask(db, isMarked ? after : 0);
			waitUntil(asked.catch(() => undefined));
			if (!isMarked && ageMs < STALE_MS) return;
			try {
				if ((await within(clock, PATIENCE_MS, asked)) === LATE) fail();
			} catch {
				// The caller answers with what it holds.
			}
		},
	};
}

export type ChangeFeed = ReturnType<typeof createChangeFeed>;
