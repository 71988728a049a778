/**
 * Shares the answer of the change feed among the isolates of a data center, through the Cache API. The entry has the time at which D1 was
 * asked, so an isolate that uses it does not take it for newer than it is. Without the Cache API, or if it fails, each isolate asks D1 itself.
 */

interface Positioned {
	readonly seq: number;
	/** Random. */
	readonly token: string;
}

/** Rows of the entry; an isolate whose position is older asks D1. */
const MOST_ROWS = 200;
/** How long others leave the question to the isolate that announced it. */
const ANNOUNCED_MS = 500;
const LIFETIME_SECONDS = 60;

interface Entry<Row> {
	readonly checkedAtMs: number;
	/** When an isolate announced that it asks D1; 0: no isolate did. */
	readonly announcedAtMs: number;
	readonly rows: readonly Row[];
}

interface SharedAnswer<Row> {
	readonly checkedAtMs: number;
	/** The rows from the asked position on. */
	readonly rows: readonly Row[];
	/** Those before it. */
	readonly before: readonly Row[];
}

export type FeedSharing<Row extends Positioned> = ReturnType<typeof createFeedSharing<Row>>;

/** @param address a URL that no endpoint has */
export function createFeedSharing<Row extends Positioned>(cache: Pick<Cache, "match" | "put">, address: string) {
	async function put(entry: Entry<Row>): Promise<void> {
		const headers = { "content-type": "application/json", "cache-control": `public, max-age=${LIFETIME_SECONDS}` };
		await cache.put(address, new Response(JSON.stringify(entry), { headers })).catch(() => undefined);
	}

	return {
		/**
		 * The shared answer, if it contains the position. A stale one is announced to the other isolates as being replaced.
		 * @param mayLeave whether the question may be left to an isolate that announced it
		 */
		async read(
			position: Positioned,
			nowMs: number,
			{ freshMs, mayLeave }: { readonly freshMs: number; readonly mayLeave: boolean },
		): Promise<SharedAnswer<Row> | "asked by another isolate" | undefined> {
			const entry = await entryFrom<Row>(cache, address);
			if (entry === undefined) return undefined;
			const at = entry.rows.findIndex(({ seq, token }) => seq === position.seq && token === position.token);
			if (at === -1) return undefined;
			const { checkedAtMs, announcedAtMs } = entry;
			if (nowMs - checkedAtMs >= freshMs) {
				if (mayLeave && nowMs - announcedAtMs < ANNOUNCED_MS) return "asked by another isolate";
				await put({ ...entry, announcedAtMs: nowMs });
			}
			return { checkedAtMs, rows: entry.rows.slice(at), before: entry.rows.slice(0, at) };
		},

		/** @param before rows before the answer's first one, without a gap */
		async write(before: readonly Row[], rows: readonly Row[], checkedAtMs: number): Promise<void> {
			if (rows.length > 0) await put({ checkedAtMs, announcedAtMs: 0, rows: [...before, ...rows].slice(-MOST_ROWS) });
		},
	};
}

async function entryFrom<Row>(cache: Pick<Cache, "match">, address: string): Promise<Entry<Row> | undefined> {
	try {
		return await (await cache.match(address))?.json<Entry<Row>>();
	} catch {
		return undefined;
	}
}
