/**
 * Turns the output of a handler into a response, which names the ignored fields of the request. In
 * diagnostics the output must match the declared schema and statuses.
 */
import * as v from "valibot";
import type { Database } from "../db/client";
import type { Deps } from "../deps";
import { type AnyEndpoint, isRaw, Reply } from "./endpoint";
import { IGNORED_HEADER, namesForHeader, shownNames } from "./pipeline/unknown-fields";

/**
 * An answer that the endpoint does not declare; thrown in diagnostics only, so that a test fails.
 */
class UndeclaredAnswer extends Error {
	override readonly name = "UndeclaredAnswer";
}

/**
 * The limit on a key or session, and its period. The platform does not tell how much of it is left.
 */
function limitHeaders({ requestLimits: { perKey } }: Deps): Record<string, string> {
	const { limit, periodSeconds } = perKey;
	if (limit === undefined) return {};
	return { "RateLimit-Limit": String(limit), "RateLimit-Policy": `${limit};w=${periodSeconds}` };
}

interface Serializing {
	readonly ignored: readonly string[];
	/** Gets the length of a JSON answer. */
	readonly noteLength: (length: number) => void;
}

export function serialize(
	endpoint: AnyEndpoint,
	output: unknown,
	deps: Deps,
	db: Database,
	{ ignored, noteLength }: Serializing,
): Response {
	const counters: Record<string, string> = {
		...(deps.config.diagnostics ? { "Server-Timing": `d1;desc="trips=${db.trips}"` } : {}),
		...("public" in endpoint.access ? {} : limitHeaders(deps)),
		...(ignored.length === 0 ? {} : { [IGNORED_HEADER]: namesForHeader(ignored) }),
	};
	const statuses: readonly number[] = endpoint.status ?? [200];
	if (isRaw(endpoint.response) || output instanceof Response) {
		const response = output as Response;
		const declared = isRaw(endpoint.response) || endpoint.rawResponse !== undefined;
		if (deps.config.diagnostics && !(declared && statuses.includes(response.status))) {
			throw new UndeclaredAnswer(`${endpoint.method} ${endpoint.path} answered with the status ${response.status}`);
		}
		for (const [name, value] of Object.entries(counters)) response.headers.set(name, value);
		return response;
	}
	const reply = output instanceof Reply ? output : new Reply(endpoint.status?.[0] ?? 200, output);
	if (deps.config.diagnostics) {
		const checked = v.safeParse(endpoint.response, reply.body);
		if (!checked.success || !statuses.includes(reply.status)) {
			const issues = checked.success ? `status ${reply.status}` : JSON.stringify(v.flatten(checked.issues));
			throw new UndeclaredAnswer(`${endpoint.method} ${endpoint.path} answered outside its schema: ${issues}`);
		}
	}
	const headers = new Headers({ "content-type": "application/json", ...counters });
	for (const [name, values] of Object.entries(reply.headers)) {
		for (const value of [values].flat()) headers.append(name, value);
	}
	if (reply.status === 204) return new Response(null, { status: reply.status, headers });
	const isObject = typeof reply.body === "object" && reply.body !== null && !Array.isArray(reply.body);
	const body = isObject && ignored.length > 0 ? { ...reply.body, ignored: shownNames(ignored) } : reply.body;
	const text = JSON.stringify(body);
	noteLength(text.length);
	return new Response(text, { status: reply.status, headers });
}
