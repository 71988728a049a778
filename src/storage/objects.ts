/**
 * The bytes in R2. Keys are made here and never used twice: `<app uuid>/<upload id>/object` for a finished object and
 * `<app uuid>/<upload id>/segment-<offset>` for the pieces of an unfinished one. Objects are immutable: every write is create-once.
 *
 * Write order, and what a crash leaves behind: the `uploads` row is written before the first byte, so D1 knows of every object in R2;
 * a bundle's row points to an object only after the object is whole and checked; an object is removed only after the row that pointed
 * to it is gone and `garbage_objects` names it. A crash at any point leaves an unfinished upload (given up at its expiry) or garbage
 * (removed by the queue consumer or the sweep), never a bundle without its bytes.
 */
import { bytesToHex } from "@noble/hashes/utils.js";
import { ApiError, serviceUnavailable } from "../errors";

export type Bucket = R2Bucket;

/** Where everything of one upload is. */
export function uploadPrefix(appId: string, uploadId: string): string {
	return `${appId}/${uploadId}/`;
}

export function wholeObjectKey(prefix: string): string {
	return `${prefix}object`;
}

/** Keys sort by offset. */
export function segmentKey(prefix: string, offsetBytes: number): string {
	return `${segmentPrefix(prefix)}${String(offsetBytes).padStart(13, "0")}`;
}

export function segmentPrefix(prefix: string): string {
	return `${prefix}segment-`;
}

export type PutOutcome = "stored" | "exists" | "checksum_mismatch";

/** Stores the body unless the key is taken. With `sha256` (hex) R2 itself checks the bytes and stores nothing that differs. */
export async function putOnce(
	bucket: Bucket,
	key: string,
	body: ReadableStream<Uint8Array> | Uint8Array,
	options: { readonly sha256?: string; readonly contentType: string },
): Promise<PutOutcome> {
	try {
		const stored = await bucket.put(key, body as ReadableStream | ArrayBufferView, {
			onlyIf: new Headers({ "if-none-match": "*" }),
			httpMetadata: { contentType: options.contentType },
			...(options.sha256 === undefined ? {} : { sha256: options.sha256 }),
		});
		return stored === null ? "exists" : "stored";
	} catch (error) {
		if (error instanceof Error && /\(10037\)/.test(error.message)) return "checksum_mismatch";
		throw storageFault(error);
	}
}

export async function headObject(bucket: Bucket, key: string): Promise<R2Object | null> {
	return guarded(() => bucket.head(key));
}

export async function getObject(bucket: Bucket, key: string): Promise<R2ObjectBody | null> {
	return guarded(() => bucket.get(key));
}

export type RangedGet = R2ObjectBody | R2Object | "unsatisfiable" | null;

/** A GET as HTTP means it: `Range`, `If-None-Match` and friends are taken from the headers. No body means "not modified". */
export async function getForRequest(bucket: Bucket, key: string, headers: Headers): Promise<RangedGet> {
	try {
		return await bucket.get(key, { onlyIf: headers, range: headers });
	} catch (error) {
		if (error instanceof Error && /\(10039\)/.test(error.message)) return "unsatisfiable";
		throw storageFault(error);
	}
}

export interface Segment {
	readonly key: string;
	readonly offsetBytes: number;
	readonly sizeBytes: number;
}

/** The segments that join without a gap from the first byte on. */
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

/** Removes everything that begins with the prefix. */
export async function removeAll(bucket: Bucket, prefix: string): Promise<void> {
	const keys = (await listAll(bucket, prefix)).map((object) => object.key);
	if (keys.length > 0) await guarded(() => bucket.delete(keys));
}

/**
 * Lower-case hexadecimal SHA-256 of a stored object: R2's own where it checked the upload, else hashed as the object streams by, so
 * that memory stays flat. Null when the object is not there.
 */
export async function sha256OfObject(bucket: Bucket, key: string): Promise<string | null> {
	const known = (await headObject(bucket, key))?.checksums.sha256;
	if (known !== undefined) return bytesToHex(new Uint8Array(known));
	const object = await getObject(bucket, key);
	return object === null ? null : guarded(() => sha256OfStream(object.body));
}

export async function sha256OfStream(stream: ReadableStream): Promise<string> {
	const digest = new crypto.DigestStream("SHA-256");
	await stream.pipeTo(digest);
	return bytesToHex(new Uint8Array(await digest.digest));
}

/** The segments as one stream of a known length, read one after the other. */
export function joinSegments(bucket: Bucket, segments: readonly Segment[]): ReadableStream<Uint8Array> {
	const length = segments.reduce((sum, segment) => sum + segment.sizeBytes, 0);
	const { readable, writable } = new FixedLengthStream(length);
	const copy = async () => {
		try {
			for (const segment of segments) {
				const object = await bucket.get(segment.key);
				if (object === null) throw new Error(`segment ${segment.key} is gone`);
				await object.body.pipeTo(writable, { preventClose: true });
			}
			await writable.close();
		} catch (error) {
			await writable.abort(error).catch(() => undefined);
		}
	};
	// The reader sees the failure as an aborted stream; nothing waits for this promise.
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
