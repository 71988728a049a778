/**
 * Stored objects, read through the Cache API of the data center: a second download within an hour
 * does not read R2. The Cache API has no effect on workers.dev, behind Cloudflare Access and where
 * the runtime has none; every read goes to R2 there.
 *
 * The caller verifies the link first: the key of a copy is the object's key, which holds random
 * ids, and neither signature nor expiry. Objects are immutable, so a copy is never stale; it may
 * outlive a deleted object by `COPY_SECONDS`. Only whole objects are copied. Memory holds a few
 * small ones at a time; a larger object is read a second time instead, because splitting a stream
 * would hold what a slow client has not read.
 */
import type { Deps } from "../deps";
import { recentMap } from "../domain/recent";
import { causeText, serviceUnavailable } from "../errors";
import { getObject, headObject } from "./objects";

const COPY_SECONDS = 3_600;
/** Objects up to this size are answered and copied from memory: one read of R2. */
const SMALL_BYTES = 256 * 1024;
/** Bytes in memory for copies under way. */
const MOST_HELD_BYTES = 8 * 1024 * 1024;
/** The largest object that Cloudflare caches, on every plan. */
const LARGEST_BYTES = 512_000_000;
const MOST_LARGE_COPIES = 4;
/**
 * Larger objects whose copy began recently, so that a copy that fails is not begun for each
 * download; about 150 bytes each.
 */
const MOST_BEGUN = 2_000;

export interface ObjectFacts {
	/** With quotes. */
	readonly etag: string;
	readonly sizeBytes: number;
	readonly modifiedMs: number;
	readonly contentType: string;
}

interface ObjectBytes extends ObjectFacts {
	readonly body: ReadableStream | ArrayBuffer;
}

/** The parts of a request that a read needs. */
interface Reader {
	/** The host of the request: the Cache API serves the Worker's own domain. */
	readonly host: string;
	readonly waitUntil: (work: Promise<unknown>) => void;
}

export type EdgeCache = ReturnType<typeof createEdgeCache>;

/** One for each isolate. */
export function createEdgeCache({
	bundles,
	cache,
	config,
	now,
	log,
}: Pick<Deps, "bundles" | "cache" | "config" | "now" | "log">) {
	const begun = recentMap<number>(MOST_BEGUN);
	let heldBytes = 0;
	let largeCopies = 0;

	async function cached({ host }: Reader, key: string, range?: string): Promise<Response | undefined> {
		if (!mayCache(host)) return undefined;
		try {
			return await cache?.match(new Request(addressOf(host, key), range === undefined ? {} : { headers: { range } }));
		} catch (error) {
			// A failing cache must not fail the download.
			log("warn", "edge_cache_failed", { cause: causeText(error) });
			return undefined;
		}
	}

	function copy({ host, waitUntil }: Reader, key: string, object: ObjectBytes, done: () => void): void {
		const headers = {
			"Cache-Control": `public, max-age=${COPY_SECONDS}, immutable, no-transform`,
			"Content-Type": object.contentType,
			"Content-Length": String(object.sizeBytes),
			ETag: object.etag,
			"Last-Modified": new Date(object.modifiedMs).toUTCString(),
		};
		const putting = cache?.put(addressOf(host, key), new Response(object.body, { headers })) ?? Promise.resolve();
		const failed = (error: unknown) => log("warn", "edge_cache_failed", { cause: causeText(error) });
		waitUntil(putting.catch(failed).finally(done));
	}

	async function copyLarge(reader: Reader, key: string): Promise<void> {
		const object = await getObject(bundles, key).catch(() => null);
		if (object === null) largeCopies -= 1;
		else copy(reader, key, { ...factsOf(object), body: object.body }, () => (largeCopies -= 1));
	}

	const hasEffect = (host: string) => cache !== undefined && !host.endsWith(".workers.dev");

	function mayCache(host: string): boolean {
		// On one machine a copy saves nothing, and a deleted bundle ends immediately without it.
		return config.localRun === undefined && hasEffect(host);
	}

	return {
		/** Whether this host's copies can be read back. */
		async probe(host: string): Promise<"works" | "no_effect"> {
			if (cache === undefined || !hasEffect(host)) return "no_effect";
			const address = addressOf(host, "probe");
			try {
				await cache.put(address, new Response("probe", { headers: { "Cache-Control": "public, max-age=60" } }));
				return (await (await cache.match(address))?.text()) === "probe" ? "works" : "no_effect";
			} catch {
				return "no_effect";
			}
		},

		/** The facts of an object; null if it does not exist. */
		async facts(reader: Reader, key: string): Promise<ObjectFacts | null> {
			const copied = await cached(reader, key);
			const facts = copied === undefined ? undefined : factsOfCopy(copied);
			await copied?.body?.cancel();
			if (facts !== undefined) return facts;
			const object = await headObject(bundles, key);
			return object === null ? null : factsOf(object);
		},

		/** The whole object; null if it does not exist. */
		async whole(reader: Reader, key: string): Promise<ObjectBytes | null> {
			const copied = await cached(reader, key);
			const copiedFacts = copied === undefined ? undefined : factsOfCopy(copied);
			if (copied?.body != null && copiedFacts !== undefined) return { ...copiedFacts, body: copied.body };
			const object = await getObject(bundles, key);
			if (object === null) return null;
			const facts = factsOf(object);
			const { sizeBytes } = facts;
			if (!mayCache(reader.host) || sizeBytes > LARGEST_BYTES) return { ...facts, body: object.body };
			if (sizeBytes <= SMALL_BYTES && heldBytes + sizeBytes <= MOST_HELD_BYTES) {
				heldBytes += sizeBytes;
				const release = () => (heldBytes -= sizeBytes);
				const taking = object.arrayBuffer().then(
					(body) => {
						copy(reader, key, { ...facts, body }, release);
						return body;
					},
					(error: unknown) => {
						release();
						throw serviceUnavailable(error);
					},
				);
				// Also after a client has hung up, so that its bytes do not count for ever.
				reader.waitUntil(taking.catch(() => undefined));
				return { ...facts, body: await taking };
			}
			const nowMs = now();
			const isBegun = nowMs - (begun.get(key) ?? Number.NEGATIVE_INFINITY) < COPY_SECONDS * 1_000;
			if (sizeBytes > SMALL_BYTES && !isBegun && largeCopies < MOST_LARGE_COPIES) {
				begun.set(key, nowMs);
				largeCopies += 1;
				reader.waitUntil(copyLarge(reader, key));
			}
			return { ...facts, body: object.body };
		},

		/** A range within an object; null if the object does not exist. */
		async range(
			reader: Reader,
			key: string,
			{ offset, length }: { readonly offset: number; readonly length: number },
		): Promise<ObjectBytes | null> {
			const last = offset + length - 1;
			const copied = await cached(reader, key, `bytes=${offset}-${last}`);
			const [, bounds, size] = /^bytes (\d+-\d+)\/(\d+)$/.exec(copied?.headers.get("content-range") ?? "") ?? [];
			if (copied?.body != null && copied.status === 206 && bounds === `${offset}-${last}`) {
				const facts = factsOfCopy(copied);
				if (facts !== undefined) return { ...facts, sizeBytes: Number(size), body: copied.body };
			}
			await copied?.body?.cancel();
			const part = await getObject(bundles, key, { offset, length });
			return part === null ? null : { ...factsOf(part), body: part.body };
		},
	};
}

/** No endpoint has this path, so no request from outside can name a copy. */
function addressOf(host: string, key: string): string {
	return `https://${host}/edge-cache/${key}`;
}

function factsOf(object: R2Object): ObjectFacts {
	return {
		etag: object.httpEtag,
		sizeBytes: object.size,
		modifiedMs: object.uploaded.getTime(),
		contentType: object.httpMetadata?.contentType ?? "application/octet-stream",
	};
}

/** Undefined if a header is missing, so that a copy that was changed on its way is not served. */
function factsOfCopy({ headers }: Response): ObjectFacts | undefined {
	const [etag, contentType] = [headers.get("etag"), headers.get("content-type")];
	const sizeBytes = Number(headers.get("content-length") ?? Number.NaN);
	const modifiedMs = Date.parse(headers.get("last-modified") ?? "");
	if (etag === null || contentType === null || Number.isNaN(sizeBytes) || Number.isNaN(modifiedMs)) return undefined;
	return { etag, sizeBytes, modifiedMs, contentType };
}
