/**
 * Reads the credential of a request. Every endpoint accepts an API key in any of the headers below;
 * two different keys are an error. A session cookie is ignored beside a key, because a key is sent
 * on purpose and a cookie by the browser.
 */

import { invalidApiKey, invalidSession } from "../../authz/principal";
import { hashKey, isWellFormedKey, isWellFormedSessionToken } from "../../authz/secrets";
import { ApiError, invalidRequest } from "../../errors";
import { readSessionToken } from "../cookies";
import { refuseCrossSite } from "../cross-site";

/** Our header, and the names that existing clients use. */
export const KEY_HEADERS = ["capstankey", "servicekey", "capgkey", "x-api-key"] as const;

/**
 * Asks another service to act with fewer rights than the key. No key here is a part of another one.
 */
const LIMITED_KEY_HEADER = "x-limited-key-id";

/**
 * Stock clients need a public value that they send as `authorization: Bearer …` beside the real
 * key. It is published at /private/config and grants nothing, so it is ignored.
 */
export const ANONYMOUS_VALUE = "capstan-public-no-rights";

export interface Credential {
	readonly kind: "key" | "session";
	/** The hash of the key or the session token. */
	readonly hash: string;
}

/**
 * @param sources `ownSession`: the endpoint is about the account of the signed-in person.
 * `keyOnly`: cookies are ignored.
 * @throws {ApiError} `ambiguous_api_key`, `missing_api_key`, `invalid_api_key` or `invalid_session`
 * for malformed text, `cross_site_request` for a session, and `invalid_request` for a header that
 * asks for fewer rights
 */
export function readCredential(
	{ ownSession, keyOnly }: { readonly ownSession: boolean; readonly keyOnly: boolean },
	request: Request,
	origin: string,
): Credential {
	if (request.headers.has(LIMITED_KEY_HEADER)) {
		const message =
			"is not supported, and without it the request would have all rights of its key; send a key that has only the wanted rights instead";
		throw invalidRequest([{ path: LIMITED_KEY_HEADER, message }]);
	}
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

/**
 * The hash of the API key in the request, for statements that need it before the decision;
 * undefined: none, or a wrong one.
 */
export function keyHashOf(headers: Headers): string | undefined {
	try {
		const key = findKey(headers);
		return key === undefined ? undefined : hashKey(key);
	} catch {
		return undefined;
	}
}

/** @throws {ApiError} `ambiguous_api_key`, or `invalid_api_key` for a malformed key */
function findKey(headers: Headers): string | undefined {
	const values = new Set<string>();
	for (const name of ["authorization", ...KEY_HEADERS]) {
		const key = (headers.get(name) ?? "").replace(/^Bearer(\s+|$)/i, "").trim();
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
