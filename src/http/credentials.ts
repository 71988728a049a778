/**
 * Reads the credential of a request. Every endpoint accepts an API key in any of the headers below; two different keys are an error. A
 * session cookie is ignored beside a key, because a key is sent on purpose and a cookie by the browser.
 */

import { invalidApiKey, invalidSession } from "../authz/principal";
import { hashKey, isWellFormedKey, isWellFormedSessionToken } from "../authz/secrets";
import { ApiError } from "../errors";
import { readSessionToken } from "./cookies";
import { refuseCrossSite } from "./cross-site";

/** Our header, and the names that existing clients use. */
export const KEY_HEADERS = ["capstankey", "servicekey", "capgkey"] as const;

/**
 * Stock clients need a public value that they send as `authorization: Bearer …` beside the real key. It is published at /private/config and
 * grants nothing, so it is ignored.
 */
export const ANONYMOUS_VALUE = "capstan-public-no-rights";

export interface Credential {
	readonly kind: "key" | "session";
	/** The hash of the key or the session token. */
	readonly hash: string;
}

/**
 * @param sources `ownSession`: the endpoint is about the account of the signed-in person. `keyOnly`: cookies are ignored.
 * @throws {ApiError} `ambiguous_api_key`, `missing_api_key`, `invalid_api_key` or `invalid_session` for malformed text, and
 * `cross_site_request` for a session
 */
export function readCredential(
	{ ownSession, keyOnly }: { readonly ownSession: boolean; readonly keyOnly: boolean },
	request: Request,
	origin: string,
): Credential {
	const key = findKey(request.headers);
	if (key !== undefined) {
		if (ownSession) {
			throw new ApiError(
				"session_required",
				"This endpoint is about the signed-in person's account; sign in and leave out the API key.",
			);
		}
		return { kind: "key", hash: hashKey(key) };
	}
	const token = keyOnly ? undefined : readSessionToken(request.headers, origin);
	if (token === undefined) {
		if (ownSession) throw invalidSession();
		throw new ApiError(
			"missing_api_key",
			"Sign in, or send an API key in the authorization or the capstankey header.",
			{
				headers: { "WWW-Authenticate": "Bearer" },
			},
		);
	}
	refuseCrossSite(request, origin);
	if (!isWellFormedSessionToken(token)) throw invalidSession();
	return { kind: "session", hash: hashKey(token) };
}

/** @throws {ApiError} `ambiguous_api_key`, or `invalid_api_key` for a malformed key */
function findKey(headers: Headers): string | undefined {
	const values = new Set<string>();
	const authorization = headers.get("authorization")?.replace(/^Bearer(\s+|$)/i, "");
	for (const value of [authorization, ...KEY_HEADERS.map((name) => headers.get(name))]) {
		const key = value?.trim() ?? "";
		if (key !== "" && key !== ANONYMOUS_VALUE) values.add(key);
	}
	const [key] = values;
	if (key === undefined) return undefined;
	if (values.size > 1) {
		throw new ApiError("ambiguous_api_key", "The request carries two different API keys; send one.");
	}
	if (!isWellFormedKey(key)) throw invalidApiKey();
	return key;
}
