/**
 * Bundles that stay on a server of the team's own. Devices need a checksum and stock clients send none, so registration fetches the
 * file once, within bounds, and keeps its size and SHA-256. The address must be https and public, and so must every redirect.
 */

import type { Deps } from "../deps";
import { isPrivateHost } from "../domain/public-host";
import { ApiError } from "../errors";
import { sha256OfStream } from "../storage/objects";

const MOST_REDIRECTS = 5;
/** For all of it: redirects, headers and body. */
const TIME_LIMIT_MS = 30_000;

export interface VerifiedExternal {
	readonly sha256: string;
	readonly sizeBytes: number;
}

/** @throws {ApiError} `external_url_rejected`, with the reason and what to do */
export async function verifyExternalBundle(
	deps: Pick<Deps, "fetch" | "config">,
	url: string,
): Promise<VerifiedExternal> {
	const response = await fetchFollowing(deps, url);
	const declared = Number(response.headers.get("content-length") ?? 0);
	const limit = deps.config.maxBundleBytes;
	if (declared > limit) {
		await response.body?.cancel();
		throw tooLarge(limit);
	}
	if (response.body === null) throw rejected("the answer has no body");
	let sizeBytes = 0;
	const counted = response.body.pipeThrough(
		new TransformStream<Uint8Array, Uint8Array>({
			transform(chunk, controller) {
				sizeBytes += chunk.length;
				if (sizeBytes > limit) controller.error(tooLarge(limit));
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
	if (sizeBytes === 0) throw rejected("the file is empty");
	return { sha256, sizeBytes };
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
