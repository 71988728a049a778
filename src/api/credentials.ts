/**
 * Which API key a request carries. Every endpoint takes it in any of the headers below; two different keys are refused rather than
 * one of them picked.
 */
import { isWellFormedKey } from "../authz/keys";
import { invalidApiKey } from "../authz/principal";
import { ApiError } from "../errors";

/** The header of our own name, and the names that existing clients use for it. */
export const KEY_HEADERS = ["capstankey", "servicekey", "capgkey"] as const;

/**
 * Stock clients must be handed some public value that they send as `authorization: Bearer …` beside the real key. It is published at
 * /private/config, grants nothing, and counts as no key at all.
 */
export const ANONYMOUS_VALUE = "capstan-public-no-rights";

/**
 * The one key of the request.
 * @throws {ApiError} `ambiguous_api_key`, `missing_api_key`, or `invalid_api_key` for text that cannot be a key
 */
export function readKey(headers: Headers): string {
	const values = new Set<string>();
	const authorization = headers.get("authorization")?.replace(/^Bearer(\s+|$)/i, "");
	for (const value of [authorization, ...KEY_HEADERS.map((name) => headers.get(name))]) {
		const key = value?.trim() ?? "";
		if (key !== "" && key !== ANONYMOUS_VALUE) values.add(key);
	}
	const [key] = values;
	if (key === undefined) {
		throw new ApiError("missing_api_key", "Send an API key in the authorization or the capstankey header.", {
			headers: { "WWW-Authenticate": "Bearer" },
		});
	}
	if (values.size > 1) {
		throw new ApiError("ambiguous_api_key", "The request carries two different API keys; send one.");
	}
	if (!isWellFormedKey(key)) throw invalidApiKey();
	return key;
}
