/**
 * Turns the output of a handler into a response. In diagnostics it must match the declared schema and statuses.
 */
import * as v from "valibot";
import type { Database } from "../db/client";
import type { Deps } from "../deps";
import { type AnyEndpoint, isRaw, Reply } from "./endpoint";

/** An answer that the endpoint does not declare; thrown in diagnostics only, so that a test fails. */
class UndeclaredAnswer extends Error {
	override readonly name = "UndeclaredAnswer";
}

/** @param measured is called with the length of a JSON answer */
export function serialize(
	endpoint: AnyEndpoint,
	output: unknown,
	deps: Deps,
	db: Database,
	measured: (length: number) => void,
): Response {
	const counters: Record<string, string> = deps.config.diagnostics
		? { "Server-Timing": `d1;desc="trips=${db.trips}"` }
		: {};
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
	const empty = reply.status === 204;
	const text = empty ? null : JSON.stringify(reply.body);
	measured(text?.length ?? 0);
	return new Response(text, { status: reply.status, headers });
}
