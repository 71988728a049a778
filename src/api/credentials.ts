/**
 * Which credential a request carries. Every endpoint takes an API key in any of the headers below; two different keys are refused
 * rather than one of them picked. A request without a key may carry a session's cookie: where there is a key the cookie is not looked
 * at, because a key is sent on purpose and a cookie by the browser.
 */
import { hashKey, isWellFormedKey, isWellFormedSessionToken } from "../authz/keys";
import { invalidApiKey, invalidSession } from "../authz/principal";
import { ApiError } from "../errors";
import { refuseCrossSite } from "./cross-site";
import type { AnyEndpoint } from "./endpoint";
import { readSessionToken } from "./session-cookie";

/** The header of our own name, and the names that existing clients use for it. */
export const KEY_HEADERS = ["capstankey", "servicekey", "capgkey"] as const;

/**
 * Stock clients must be handed some public value that they send as `authorization: Bearer …` beside the real key. It is published at
 * /private/config, grants nothing, and counts as no key at all.
 */
export const ANONYMOUS_VALUE = "capstan-public-no-rights";

export interface Credential {
	readonly kind: "key" | "session";
	/** Of the key or the token. */
	readonly hash: string;
}

/**
 * The one credential of the request.
 * @throws {ApiError} `ambiguous_api_key`, `missing_api_key`, `invalid_api_key` or `invalid_session` for text that cannot be one, and for a
 * session `cross_site_request`
 */
export function readCredential(
	endpoint: Pick<AnyEndpoint, "access" | "keyOnly">,
	request: Request,
	origin: string,
): Credential {
	const key = findKey(request.headers);
	const ownSession = "ownSession" in endpoint.access;
	if (key !== undefined) {
		if (ownSession) {
			throw new ApiError("session_required", "This is about the account of whoever is signed in; an API key has none.");
		}
		return { kind: "key", hash: hashKey(key) };
	}
	const token = endpoint.keyOnly === true ? undefined : readSessionToken(request.headers, origin);
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

/** @throws {ApiError} `ambiguous_api_key`, or `invalid_api_key` for text that cannot be a key */
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
