/**
 * The bytes in R2. This file creates all keys, and no key is used twice: `<app uuid>/<upload
 * id>/object` for a finished object, `.../flagged` for its corrected copy, `<app uuid>/<upload
 * id>/segment-<offset>` for the segments of an unfinished one. Objects are immutable: every write
 * is create-once.
 *
 * Write order, and the state after a crash: the `uploads` row is written before the first byte, so
 * D1 names every object of an app in R2. A bundle's row points to an object only after the object
 * is complete and checked. An object is removed only after its row dropped the reference and
 * `garbage_objects` names the object. A crash at any point leaves an unfinished upload (dropped
 * when it expires) or garbage (removed by the queue consumer or the scheduled clean-up), never a
 * bundle without its bytes. A request that is still sending while its upload is dropped may store
 * bytes after the removal, so garbage is removed a second time (src/queue/garbage.ts).
 */
import { bytesToHex } from "@noble/hashes/utils.js";
import { ApiError, serviceUnavailable } from "../errors";
import { MOST_PACKED_BYTES, unpackBrotli } from "./brotli";

export type Bucket = R2Bucket;

/** Prefix of all objects of one upload. */
export function uploadPrefix(appId: string, uploadId: string): string {
	return `${appId}/${uploadId}/`;
}

export function wholeObjectKey(prefix: string): string {
	return `${prefix}object`;
}

/** The copy of an object whose zip got the UTF-8 flag. */
export function flaggedObjectKey(prefix: string): string {
	return `${prefix}flagged`;
}

/**
 * The object that all empty files of an app share. It is stored before a row names it and deleted
 * with the app.
 */
export function emptyObjectKey(appId: string): string {
	return `${appId}/empty/object`;
}

/** Keys sort by offset. */
export function segmentKey(prefix: string, offsetBytes: number): string {
	return `${segmentPrefix(prefix)}${String(offsetBytes).padStart(13, "0")}`;
}

export function segmentPrefix(prefix: string): string {
	return `${prefix}segment-`;
}

/** A package of the `capstan` command, which no row names and nothing removes. */
export function commandKey(name: string): string {
	return `command/${name}`;
}

type PutResult =
	| { readonly outcome: "stored"; readonly sizeBytes: number }
	| { readonly outcome: "exists" | "checksum_mismatch" };

interface PutOptions {
	readonly sha256?: string;
	readonly contentType: string;
	readonly metadata?: Readonly<Record<string, string>>;
}

/**
 * Stores the body unless the key exists. With `sha256` (hex) R2 checks the bytes and stores nothing
 * that differs.
 */
export async function putOnce(
	bucket: Bucket,
	key: string,
	body: ReadableStream<Uint8Array> | Uint8Array,
	options: PutOptions,
): Promise<PutResult> {
	try {
		const stored = await bucket.put(key, body as ReadableStream | ArrayBufferView, {
			onlyIf: new Headers({ "if-none-match": "*" }),
			httpMetadata: { contentType: options.contentType },
			...(options.metadata === undefined ? {} : { customMetadata: { ...options.metadata } }),
			...(options.sha256 === undefined ? {} : { sha256: options.sha256 }),
		});
		return stored === null ? { outcome: "exists" } : { outcome: "stored", sizeBytes: stored.size };
	} catch (error) {
		if (error instanceof Error && /\(10037\)/.test(error.message)) return { outcome: "checksum_mismatch" };
		throw storageFault(error);
	}
}

/**
 * The same with an unknown SHA-256, which is computed while the bytes stream by, whether or not R2
 * stores them.
 */
export async function putOnceHashing(
	bucket: Bucket,
	key: string,
	body: ReadableStream<Uint8Array>,
	lengthBytes: number,
	options: PutOptions,
): Promise<PutResult & { readonly sha256: string }> {
	const { readable, writable } = new FixedLengthStream(lengthBytes);
	const object = writable.getWriter();
	const digest = new crypto.DigestStream("SHA-256");
	const hash = digest.getWriter();
	let storing = true;
	const stopStoring = () => {
		storing = false;
		object.abort().catch(() => undefined);
	};
	// R2 may answer before it has read everything, e.g. if the key exists; a write would then wait
	// forever.
	const putting = putOnce(bucket, key, readable, options).finally(stopStoring);
	putting.catch(() => undefined);
	try {
		for await (const chunk of body) {
			await hash.write(chunk);
			if (storing) await object.write(chunk).catch(stopStoring);
		}
	} catch (error) {
		stopStoring();
		digest.digest.catch(() => undefined);
		hash.abort(error).catch(() => undefined);
		throw storageFault(error);
	}
	await hash.close();
	if (storing) await object.close().catch(stopStoring);
	return { ...(await putting), sha256: bytesToHex(new Uint8Array(await digest.digest)) };
}

export async function headObject(bucket: Bucket, key: string): Promise<R2Object | null> {
	return guarded(() => bucket.head(key));
}

/** The object, or a range of it. */
export async function getObject(
	bucket: Bucket,
	key: string,
	range?: { readonly offset: number; readonly length: number },
): Promise<R2ObjectBody | null> {
	return guarded(() => bucket.get(key, range === undefined ? {} : { range }));
}

/**
 * Exactly these bytes of an object; null if the object does not exist. The caller limits the
 * length, because the bytes are held in memory.
 */
export async function readRange(
	bucket: Bucket,
	key: string,
	range: { readonly offset: number; readonly length: number },
): Promise<Uint8Array | null> {
	return guarded(async () => {
		const object = await bucket.get(key, { range });
		if (object === null) return null;
		const bytes = new Uint8Array(await new Response(object.body).arrayBuffer());
		if (bytes.length !== range.length) throw new Error(`R2 answered with ${bytes.length} of ${range.length} bytes`);
		return bytes;
	});
}

export interface Segment {
	readonly key: string;
	readonly offsetBytes: number;
	readonly sizeBytes: number;
}

/** The contiguous segments from the first byte on. */
export async function listSegments(bucket: Bucket, prefix: string): Promise<Segment[]> {
	const segments: Segment[] = [];
	let offsetBytes = 0;
	for (const object of await listAll(bucket, segmentPrefix(prefix))) {
		if (object.key !== segmentKey(prefix, offsetBytes)) break;
		segments.push({ key: object.key, offsetBytes, sizeBytes: object.size });
		offsetBytes += object.size;
	}
	return segments;
}

export async function removeObjects(bucket: Bucket, keys: string[]): Promise<void> {
	await guarded(() => bucket.delete(keys));
}

/**
 * Removes all objects with the prefix, a page at a time, because R2 accepts at most a thousand keys
 * in one call.
 */
export async function removeAll(bucket: Bucket, prefix: string): Promise<void> {
	let more = true;
	while (more) {
		const page = await guarded(() => bucket.list({ prefix }));
		const keys = page.objects.map((object) => object.key);
		if (keys.length > 0) await removeObjects(bucket, keys);
		more = page.truncated;
	}
}

/**
 * Lower-case hexadecimal SHA-256 of a stored object; null if the object does not exist. R2 knows it
 * if it checked the upload; otherwise the object is hashed as a stream.
 */
export async function sha256OfObject(bucket: Bucket, key: string): Promise<string | null> {
	const known = (await headObject(bucket, key))?.checksums.sha256;
	if (known !== undefined) return bytesToHex(new Uint8Array(known));
	const object = await getObject(bucket, key);
	return object === null ? null : guarded(() => sha256OfStream(object.body));
}

/**
 * The same for the unpacked bytes of a Brotli object; undefined if it is not Brotli, or unpacks to
 * more than `mostUnpackedBytes`.
 */
export async function sha256OfUnpacked(bucket: Bucket, key: string): Promise<string | null | undefined> {
	const object = await getObject(bucket, key);
	if (object === null) return null;
	if (object.size > MOST_PACKED_BYTES) {
		await object.body.cancel();
		return undefined;
	}
	const unpacked = unpackBrotli(new Uint8Array(await new Response(object.body).arrayBuffer()));
	if (unpacked === undefined) return undefined;
	return bytesToHex(new Uint8Array(await crypto.subtle.digest("SHA-256", unpacked as Uint8Array<ArrayBuffer>)));
}

export async function sha256OfStream(stream: ReadableStream): Promise<string> {
	const digest = new crypto.DigestStream("SHA-256");
	// A stream that breaks off rejects both promises; the code awaits only the first.
	digest.digest.catch(() => undefined);
	await stream.pipeTo(digest);
	return bytesToHex(new Uint8Array(await digest.digest));
}

/** The segments as one stream of known length. */
export function joinSegments(bucket: Bucket, segments: readonly Segment[]): ReadableStream<Uint8Array> {
	const length = segments.reduce((sum, segment) => sum + segment.sizeBytes, 0);
	const { readable, writable } = new FixedLengthStream(length);
	const copy = async () => {
		try {
			for (const segment of segments) {
				const object = await bucket.get(segment.key);
				if (object === null) throw new Error(`segment ${segment.key} does not exist`);
				await object.body.pipeTo(writable, { preventClose: true });
			}
			await writable.close();
		} catch (error) {
			await writable.abort(error).catch(() => undefined);
		}
	};
	// The reader sees a failure as an aborted stream, so nothing awaits this promise.
	void copy();
	return readable;
}

async function listAll(bucket: Bucket, prefix: string): Promise<R2Object[]> {
	const objects: R2Object[] = [];
	let cursor: string | undefined;
	do {
		const page = await guarded(() => bucket.list({ prefix, ...(cursor === undefined ? {} : { cursor }) }));
		objects.push(...page.objects);
		cursor = page.truncated ? page.cursor : undefined;
	} while (cursor !== undefined);
	return objects;
}

async function guarded<Result>(call: () => Promise<Result>): Promise<Result> {
	try {
		return await call();
	} catch (error) {
		throw storageFault(error);
	}
}

function storageFault(error: unknown): Error {
	return error instanceof ApiError ? error : serviceUnavailable(error);
}
