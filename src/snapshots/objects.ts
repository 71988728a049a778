/**
 * The stored snapshot of each app: one object in R2, replaced by the first reader after a change, so a publish costs one load from D1 and not
 * one per isolate. A reader knows by the change feed which token the content must have; it looks into the cache of the data center, then into
 * R2, and loads from D1 last. When D1 does not answer, `latest` gives a cold isolate the content of the last load.
 *
 * Invariants:
 * - The metadata and the cache's key have the token of the content. Tokens are random and belong to one revision of one app, so neither an old
 *   object nor that of another app is taken for the wanted one. The caller compares the app in the content as well.
 * - Before a load, a reader claims it with a conditional write; others wait for the object. A claim that is not fulfilled lapses.
 * - The scheduled clean-up removes the objects of deleted apps, so `latest` may offer a deleted app for 15 minutes, and only if D1 is down.
 */
import type { Deps } from "../deps";
import { causeText } from "../errors";

/** Content of a snapshot, as text that this file does not read. */
export interface Content {
	readonly token: string;
	/** Position of the change feed in the read of the content. */
	readonly seq: number;
	readonly text: string;
}

export interface Wanted {
	readonly appId: string;
	readonly publicId: string;
	readonly token: string;
	readonly seq: number;
}

/** After this time another reader may claim the load. */
const CLAIM_MS = 3_000;
/** Looks at a claimed object before the reader loads from D1 itself, and the pause between them. */
const MOST_LOOKS = 15;
const PAUSE_MS = 100;
const CACHE_SECONDS = 3_600;

type Outside = Pick<Deps, "bundles" | "cache" | "now" | "delay" | "log">;

/**
 * @param format of the content; an object of another format is loaded again
 * @param cacheOrigin origin of the addresses in the cache of the data center
 */
export function createSnapshotObjects(
	{ bundles, cache, now, delay, log }: Outside,
	format: string,
	cacheOrigin: string,
) {
	/** Metadata of an object that this version of the Worker can read. */
	const factsOf = (found: R2Object | null) => {
		const facts = found?.customMetadata;
		return facts?.format === format ? { token: facts.token, seq: Number(facts.seq) } : { token: undefined, seq: 0 };
	};
	const addressOf = ({ appId, token }: Wanted) => `${cacheOrigin}/snapshots/${format}/${appId}/${token}`;

	const failed = (error: unknown) => log("warn", "snapshot_object_failed", { cause: causeText(error) });

	async function fromCache(wanted: Wanted): Promise<string | undefined> {
		try {
			return await (await cache?.match(addressOf(wanted)))?.text();
		} catch {
			return undefined;
		}
	}

	async function toCache(wanted: Wanted, text: string): Promise<void> {
		const headers = { "content-type": "text/plain", "cache-control": `public, max-age=${CACHE_SECONDS}, immutable` };
		await cache?.put(addressOf(wanted), new Response(text, { headers })).catch(() => undefined);
	}

	/** @returns the ETag of the claimed object; undefined if another reader was first */
	async function claim(key: string, found: R2ObjectBody | null, token: string): Promise<string | undefined> {
		const claimed = await bundles.put(key, found === null ? "" : await new Response(found.body).text(), {
			onlyIf: found === null ? { etagDoesNotMatch: "*" } : { etagMatches: found.etag },
			customMetadata: { ...found?.customMetadata, claim: token, claimedAtMs: String(now()) },
		});
		return claimed?.etag;
	}

	return {
		/**
		 * The content with the wanted token, or a newer one. Failures of R2 cost a load from D1, never the answer.
		 * @param load reads D1; null if the app does not exist
		 */
		async obtain(wanted: Wanted, load: () => Promise<Content | null>): Promise<Content | null> {
			const cached = await fromCache(wanted);
			if (cached !== undefined) return { ...wanted, text: cached };
			const key = keyOf(wanted.publicId);
			let etag: string | undefined;
			try {
				for (let look = 0; look < MOST_LOOKS && etag === undefined; look++) {
					const found = await bundles.get(key);
					const { token, seq } = factsOf(found);
					if (found !== null && token !== undefined && (token === wanted.token || seq > wanted.seq)) {
						const text = await new Response(found.body).text();
						if (token === wanted.token) await toCache(wanted, text);
						return { token, seq, text };
					}
					const { claim: claimedFor, claimedAtMs } = found?.customMetadata ?? {};
					const isClaimed = claimedFor === wanted.token && now() - Number(claimedAtMs) < CLAIM_MS;
					if (!isClaimed) etag = await claim(key, found, wanted.token);
					else await found?.body.cancel();
					if (etag === undefined) await delay(PAUSE_MS);
				}
			} catch (error) {
				// Loaded from D1 below.
				failed(error);
			}
			const loaded = await load();
			if (loaded === null || etag === undefined) return loaded;
			const { token, seq, text } = loaded;
			await bundles
				.put(key, text, { onlyIf: { etagMatches: etag }, customMetadata: { format, token, seq: String(seq) } })
				.catch(failed);
			await toCache({ ...wanted, token }, text);
			return loaded;
		},

		/** The content of the last load, whatever its age. Undefined if there is none, or R2 does not answer. */
		async latest(publicId: string): Promise<Content | undefined> {
			try {
				const found = await bundles.get(keyOf(publicId));
				const { token, seq } = factsOf(found);
				return found === null || token === undefined
					? undefined
					: { token, seq, text: await new Response(found.body).text() };
			} catch (error) {
				failed(error);
				return undefined;
			}
		},
	};
}

/** No other object has a key of this form: theirs begin with the UUID of an app. */
const keyOf = (publicId: string) => `snapshots/${publicId.toLowerCase()}`;

/** Removes the stored snapshots of apps that are deleted. */
export async function removeSnapshots(bucket: R2Bucket, publicIds: readonly string[]): Promise<void> {
	if (publicIds.length > 0) await bucket.delete(publicIds.map(keyOf));
}
