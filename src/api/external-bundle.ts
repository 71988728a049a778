/**
 * Bundles that stay on the team's own server. Devices need a checksum and stock clients send none, so registration fetches the file once,
 * within bounds, and keeps its size and SHA-256. The address must be https and public, and so must every redirect.
 *
 * The zip is checked with the very bytes that were hashed: its end, which holds its central directory, is kept as the file streams by.
 */

import type { Deps } from "../deps";
import { type ArchiveSource, MOST_DIRECTORY_BYTES, MOST_END_BYTES } from "../domain/bundle-archive";
import { isPrivateHost } from "../domain/public-host";
import { ApiError } from "../errors";
import { sha256OfStream } from "../storage/objects";
import { archiveProblem } from "./bundle-check";

const MOST_REDIRECTS = 5;
/** For all of it: redirects, headers and body. */
const TIME_LIMIT_MS = 30_000;

export interface VerifiedExternal {
	readonly sha256: string;
	readonly sizeBytes: number;
}

/**
 * @param isEncrypted such a file cannot be looked into, and its zip is not checked
 * @throws {ApiError} `external_url_rejected` or `bundle_invalid`, with the reason and what to do
 */
export async function verifyExternalBundle(
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
	const problem = isEncrypted ? undefined : await archiveProblem(deps, kept);
	if (problem !== undefined) throw problem;
	return { sha256, sizeBytes: kept.sizeBytes };
}

const MOST_KEPT_BYTES = MOST_DIRECTORY_BYTES + MOST_END_BYTES;
const BLOCK_BYTES = 1024 * 1024;

/** The last bytes of a file that streams by: as many as the check of a zip may read, and at most two blocks more. */
class KeptEnd implements ArchiveSource {
	readonly #blocks: Uint8Array[] = [];
	/** How much of the last block is filled. */
	#filled = BLOCK_BYTES;
	sizeBytes = 0;
	/** Offset of the first block that is still here. */
	readableFrom = 0;
	signature = new Uint8Array();

	push(chunk: Uint8Array): void {
		if (this.signature.length < 4) {
			this.signature = Uint8Array.of(...this.signature, ...chunk.subarray(0, 4 - this.signature.length));
		}
		this.sizeBytes += chunk.length;
		for (let rest = chunk; rest.length > 0; ) {
			if (this.#filled === BLOCK_BYTES) this.#begin();
			const part = rest.subarray(0, BLOCK_BYTES - this.#filled);
			this.#blocks.at(-1)?.set(part, this.#filled);
			this.#filled += part.length;
			rest = rest.subarray(part.length);
		}
	}

	/** The block that nobody can ask for any more is used again, so that a large file leaves no garbage. */
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
			const part = this.#blocks[(at - start) / BLOCK_BYTES]?.subarray(start, start + length - done);
			if (part === undefined) throw new RangeError(`${length} bytes at ${offset} are not kept`);
			bytes.set(part, done);
			done += part.length;
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
		if (!URL.canParse(location, url)) throw rejected("the server redirects to something that is no address");
		url = new URL(location, url).href;
	}
	throw rejected(`the server redirects more than ${MOST_REDIRECTS} times`);
}

/**
 * Refuses what is private by its text. What a name resolves to is refused by the platform: Workers cannot reach private networks, and
 * a local run allows public addresses only (src/cli/serve.ts).
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
