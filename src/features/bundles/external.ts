/**
 * Bundles on another server. Devices need a checksum and stock clients send none, so the
 * registration fetches the file once, within limits, and stores its size and SHA-256. The URL and
 * every redirect must be https and public.
 *
 * The zip check reads the same bytes that were hashed: the end of the file, with the central
 * directory, is kept as the file streams by.
 */

import type { Deps } from "../../deps";
import { type ArchiveSource, MOST_DIRECTORY_BYTES, MOST_END_BYTES } from "../../domain/bundles/archive-directory";
import { isPrivateHost } from "../../domain/network/public-host";
import { ApiError } from "../../errors";
import { sha256OfStream } from "../../storage/objects";
import { checkArchive } from "./check";

const MOST_REDIRECTS = 5;
/** For redirects, headers and body together. */
const TIME_LIMIT_MS = 30_000;

interface VerifiedExternal {
	readonly sha256: string;
	readonly sizeBytes: number;
}

/**
 * Fetches an external bundle and returns what its row says about the file.
 * @throws {ApiError} `external_url_rejected`, `bundle_invalid`, or `size_mismatch` and
 * `checksum_mismatch` against the registered facts
 */
export async function verifyExternal(
	deps: Pick<Deps, "fetch" | "config">,
	url: string,
	facts: { readonly checksum: string | null; readonly size_bytes: number | null; readonly session_key: string | null },
) {
	const verified = await verifyExternalBundle(deps, url, facts.session_key !== null);
	if (facts.size_bytes !== null && facts.size_bytes !== verified.sizeBytes) {
		throw new ApiError(
			"size_mismatch",
			"The file at external_url has a different size; correct size or leave it out.",
			{
				moreInfo: { expected: facts.size_bytes, received: verified.sizeBytes },
			},
		);
	}
	if (facts.checksum !== null && facts.session_key === null && facts.checksum !== verified.sha256) {
		throw new ApiError(
			"checksum_mismatch",
			"The file at external_url has a different SHA-256; correct checksum or leave it out.",
		);
	}
	return {
		external_url: url,
		sha256: verified.sha256,
		size_bytes: verified.sizeBytes,
		checksum: facts.checksum ?? verified.sha256,
	};
}

/**
 * @param isEncrypted the zip of an encrypted bundle cannot be checked
 * @throws {ApiError} `external_url_rejected` or `bundle_invalid`, with the reason and what to do
 */
async function verifyExternalBundle(
	deps: Pick<Deps, "fetch" | "config">,
	url: string,
	isEncrypted: boolean,
): Promise<VerifiedExternal> {
	const response = await fetchFollowing(deps, url);
	const declared = Number(response.headers.get("content-length") ?? 0);
	const limit = deps.config.maxBundleBytes;
	if (declared > limit) {
		await response.body?.cancel();
		throw tooLarge(limit);
	}
	if (response.body === null) throw rejected("the answer has no body");
	const kept = new KeptEnd();
	const counted = response.body.pipeThrough(
		new TransformStream<Uint8Array, Uint8Array>({
			transform(chunk, controller) {
				kept.push(chunk);
				if (kept.sizeBytes > limit) controller.error(tooLarge(limit));
				else controller.enqueue(chunk);
			},
		}),
	);
	let sha256: string;
	try {
		sha256 = await sha256OfStream(counted);
	} catch (error) {
		if (error instanceof ApiError) throw error;
		throw rejected("the connection broke off or took too long", error);
	}
	if (kept.sizeBytes === 0) throw rejected("the file is empty");
	const verdict = isEncrypted ? {} : await checkArchive(deps, kept, true);
	if ("problem" in verdict) throw verdict.problem;
	return { sha256, sizeBytes: kept.sizeBytes };
}

const MOST_KEPT_BYTES = MOST_DIRECTORY_BYTES + MOST_END_BYTES;
const BLOCK_BYTES = 1024 * 1024;

/** Memory of `verifyExternal`: what is kept of the file. */
export const EXTERNAL_MEMORY_BYTES = MOST_KEPT_BYTES + 2 * BLOCK_BYTES;

/**
 * The last bytes of a streamed file: as many as the zip check may read, and at most two blocks
 * more.
 */
class KeptEnd implements ArchiveSource {
	readonly #blocks: Uint8Array[] = [];
	/** Filled bytes of the last block. */
	#filled = BLOCK_BYTES;
	sizeBytes = 0;
	/** Offset of the first kept block. */
	readableFrom = 0;
	signature = new Uint8Array();

	push(chunk: Uint8Array): void {
		if (this.signature.length < 4) {
			this.signature = Uint8Array.of(...this.signature, ...chunk.subarray(0, 4 - this.signature.length));
		}
		this.sizeBytes += chunk.length;
		for (let rest = chunk; rest.length > 0; ) {
			if (this.#filled === BLOCK_BYTES) this.#begin();
			const fitting = rest.subarray(0, BLOCK_BYTES - this.#filled);
			this.#blocks.at(-1)?.set(fitting, this.#filled);
			this.#filled += fitting.length;
			rest = rest.subarray(fitting.length);
		}
	}

	/**
	 * Reuses the oldest block once the check can no longer read it, so that a large file needs no new
	 * memory.
	 */
	#begin(): void {
		const isFull = (this.#blocks.length - 1) * BLOCK_BYTES >= MOST_KEPT_BYTES;
		const block = isFull ? this.#blocks.shift() : undefined;
		if (block !== undefined) this.readableFrom += BLOCK_BYTES;
		this.#blocks.push(block ?? new Uint8Array(BLOCK_BYTES));
		this.#filled = 0;
	}

	async read(offset: number, length: number): Promise<Uint8Array> {
		const bytes = new Uint8Array(length);
		for (let done = 0; done < length; ) {
			const at = offset + done - this.readableFrom;
			const start = at % BLOCK_BYTES;
			const kept = this.#blocks[(at - start) / BLOCK_BYTES]?.subarray(start, start + length - done);
			if (kept === undefined) throw new RangeError(`${length} bytes at ${offset} are not kept`);
			bytes.set(kept, done);
			done += kept.length;
		}
		return bytes;
	}
}

async function fetchFollowing(deps: Pick<Deps, "fetch">, first: string): Promise<Response> {
	let url = first;
	const signal = AbortSignal.timeout(TIME_LIMIT_MS);
	for (let hop = 0; hop <= MOST_REDIRECTS; hop++) {
		refusePrivate(url);
		let response: Response;
		try {
			response = await deps.fetch(url, { redirect: "manual", signal });
		} catch (error) {
			throw rejected("the server cannot be reached", error);
		}
		if (response.status === 200) return response;
		await response.body?.cancel();
		const location = response.headers.get("location");
		if (response.status < 300 || response.status > 399 || location === null) {
			throw rejected(`the server answered with status ${response.status}`);
		}
		if (!URL.canParse(location, url)) throw rejected("the server redirects to an invalid URL");
		url = new URL(location, url).href;
	}
	throw rejected(`the server redirects more than ${MOST_REDIRECTS} times`);
}

/**
 * Refuses URLs that name a private address. Names that resolve to one fail on the platform: Workers
 * cannot reach private networks, and a local run allows public addresses only
 * (src/operator/serve.ts).
 */
function refusePrivate(text: string): void {
	const url = new URL(text);
	if (url.protocol !== "https:") throw rejected("it is not https, or redirects to an address that is not");
	if (url.username !== "" || url.password !== "") throw rejected("it contains a user name or password");
	if (isPrivateHost(url.hostname)) throw rejected("it is, or redirects to, an address that is not public");
}

function rejected(reason: string, cause?: unknown): ApiError {
	return new ApiError(
		"external_url_rejected",
		`external_url was not accepted: ${reason}. Give a public https address that answers with the zip file.`,
		{ cause, moreInfo: { issues: [{ path: "external_url", message: reason }] } },
	);
}

function tooLarge(limit: number): ApiError {
	return rejected(`the file has more than ${limit} bytes`);
}
