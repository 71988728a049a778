/**
 * An isolate's position in the change feed. It asks D1 for the rows after its last known one, once
 * in two seconds for all apps, and its caches drop what those rows name. The number of questions
 * does not depend on the number of apps and checks.
 *
 * - An answer must contain the row of the isolate's position, with its random token. If it does not
 *   (the database was restored, or rows were trimmed), every cache starts again.
 * - A batch that reads an app contains the feed's statement, so its rows and the position are of
 *   one moment (`isCurrent`).
 * - Ages count from the moment at which D1 was asked.
 */
import type { Database } from "../db/batch";
import { type ChangeRow, changesFrom, PAGE_ROWS } from "../db/changes";
import { Backoff, type Clock, FRESH_MS, LATE, MOST_WAIT_MS, STALE_MS, type Waiter } from "./freshness";
import { SharedWork } from "./shared-work";

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

/** A read of the feed that is under way. */
interface FeedRead {
	readonly number: number;
	readonly atMs: number;
	readonly settled: number;
	readonly generation: number;
}

/** One for each isolate. */
export class ChangeFeed {
	readonly #clock: Clock;
	readonly #listener: FeedListener;
	readonly #reads: SharedWork<void>;
	readonly #backoff = new Backoff();
	#position: { readonly seq: number; readonly token: string } | undefined;
	#checkedAtMs = Number.NEGATIVE_INFINITY;
	/** Reads begun, the newest one whose answer was used, and answers used. */
	#begun = 0;
	#answered = 0;
	#settled = 0;
	/** The read that requests share. */
	#shared = 0;
	/** A read with a higher number must be answered before anything in memory is fresh. */
	#recheckAfter = 0;
	#lastMark = 0;
	#generation = 0;
	readonly #changedAt = new Map<string, number>();
	#changedBefore = 0;

	constructor(clock: Clock, listener: FeedListener) {
		this.#clock = clock;
		this.#listener = listener;
		this.#reads = new SharedWork(clock);
	}

	/** For a batch that reads an app. */
	statement() {
		return changesFrom(this.#position?.seq ?? Number.MAX_SAFE_INTEGER);
	}

	begin(): FeedRead {
		this.#begun += 1;
		return {
			number: this.#begun,
			atMs: this.#clock.now(),
			settled: this.#settled,
			generation: this.#generation,
		};
	}

	/**
	 * Uses an answer. The feed is empty if its triggers do not exist yet: then nothing counts as
	 * current.
	 */
	async settle(db: Database, read: FeedRead, rows: readonly ChangeRow[]): Promise<void> {
		const last = rows.at(-1);
		if (last === undefined) {
			// Only a new database needs it, so no device waits for its code.
			const { startFeed } = await import("../db/triggers");
			return startFeed(db.unlimited ?? db);
		}
		const known = this.#position;
		const at =
			known === undefined ? -1 : rows.findIndex(({ seq, token }) => seq === known.seq && token === known.token);
		// A later read was answered first.
		if (at === -1 && read.settled !== this.#settled) return;
		this.#settled += 1;
		this.#position = { seq: last.seq, token: last.token };
		if (at === -1) {
			this.#generation += 1;
			this.#changedAt.clear();
			this.#changedBefore = 0;
			this.#listener.reset();
		} else {
			for (const row of rows.slice(at + 1)) this.#note(row);
		}
		// More than a page: the rest is read before anything counts as current.
		if (rows.length < PAGE_ROWS) {
			// By number, because the clock may be set back.
			if (read.number > this.#answered) this.#checkedAtMs = read.atMs;
			this.#answered = Math.max(this.#answered, read.number);
		}
		this.#backoff.succeed();
	}

	#note({ app_id: appId, public_app_id, current_public_id: publicId, revision_token: token, is_live, seq }: ChangeRow) {
		if (appId === null) return;
		this.#changedAt.delete(appId);
		this.#changedAt.set(appId, seq);
		for (const [oldest, oldestSeq] of this.#changedAt) {
			if (this.#changedAt.size <= MOST_RECENT) break;
			this.#changedBefore = oldestSeq;
			this.#changedAt.delete(oldest);
		}
		const isLive = publicId !== null && token !== null && is_live === 1;
		this.#listener.changed({
			appId,
			publicIds: [public_app_id, publicId].filter((id) => id !== null),
			pointer: isLive ? { appId, publicId, token } : null,
		});
	}

	async #read(db: Database): Promise<void> {
		const read = this.begin();
		this.#shared = read.number;
		try {
			for (let page = 0; page < MOST_PAGES; page++) {
				const [{ rows }] = await db.batch([this.statement()]);
				await this.settle(db, read, rows);
				if (rows.length > 0 && rows.length < PAGE_ROWS) break;
			}
		} catch (error) {
			this.fail();
			throw error;
		}
	}

	/** Records that the database did not answer. */
	fail(): void {
		this.#backoff.fail(this.#clock.now());
	}

	/** Whether the database failed lately and is left alone. */
	isPaused(): boolean {
		return this.#backoff.isPaused(this.#clock.now());
	}

	/**
	 * A mark for `confirm`, after a change in this isolate: only a read that begins from now on shows
	 * what is current.
	 */
	mark(): number {
		this.#backoff.retry();
		this.#lastMark = this.#begun;
		return this.#begun;
	}

	/**
	 * The mark of an app that was read meanwhile: the read may not have seen the last change in this
	 * isolate.
	 */
	get lastMark(): number {
		return this.#lastMark;
	}

	/** After a change in this isolate that may affect any app. */
	recheck(): void {
		this.#recheckAfter = this.mark();
	}

	/** Whether the feed was answered after the mark. */
	isAnswered(mark: number): boolean {
		return this.#answered > Math.max(mark, this.#recheckAfter);
	}

	/** When everything in memory was last known to be current. */
	get checkedAtMs(): number {
		return this.#checkedAtMs;
	}

	/** Unlimited if the clock was set back. */
	#ageMs(nowMs: number): number {
		return nowMs < this.#checkedAtMs ? Number.POSITIVE_INFINITY : nowMs - this.#checkedAtMs;
	}

	isFresh(nowMs: number, mark: number): boolean {
		return this.#ageMs(nowMs) < FRESH_MS && this.isAnswered(mark);
	}

	/**
	 * Whether what a batch read is current, as far as this isolate knows: nothing changed it after the
	 * last row of the batch's feed.
	 */
	isCurrent(read: FeedRead, rows: readonly ChangeRow[], appId: string | null): boolean {
		const last = rows.at(-1);
		if (last === undefined || this.#position === undefined) return false;
		const isOwnReset = this.#generation === read.generation + 1 && this.#position.token === last.token;
		if (this.#generation !== read.generation && !isOwnReset) return false;
		if (appId === null) return this.#position.seq === last.seq && this.#lastMark < read.number;
		return (this.#changedAt.get(appId) ?? this.#changedBefore) <= last.seq;
	}

	/**
	 * Reads in the background from two seconds on and waits from four seconds on, for half a second.
	 * Never fails.
	 */
	async confirm(db: Database, { waitUntil, deadlineMs }: Waiter, mark = 0): Promise<void> {
		const nowMs = this.#clock.now();
		const ageMs = this.#ageMs(nowMs);
		const isMarked = !this.isAnswered(mark);
		if ((!isMarked && ageMs < FRESH_MS) || this.#backoff.isPaused(nowMs)) return;
		// A read that began before a change of this isolate does not count.
		if (isMarked && this.#shared <= Math.max(mark, this.#recheckAfter)) this.#reads.forget();
		const untilMs = Math.min(deadlineMs ?? Number.POSITIVE_INFINITY, nowMs + MOST_WAIT_MS);
		const read = this.#reads.join("feed", { waitUntil, deadlineMs: untilMs }, () => this.#read(db.unlimited ?? db));
		try {
			if (!isMarked && ageMs < STALE_MS) read.catch(() => undefined);
			else if ((await read) === LATE) this.fail();
		} catch {
			// The caller answers with what is in memory.
		}
	}
}
