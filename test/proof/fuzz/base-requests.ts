/**
 * The request of every operation that succeeds, and that the malice starts from: the same ones that
 * the authorization tests send.
 */
import { PUBLIC_REQUESTS } from "../../worker/support/public-requests";
import type { PreparedRequest } from "../../worker/support/request-parts";
import { REQUESTS } from "../../worker/support/requests";
import type { TestApp } from "../../worker/support/scene";
import { type People, SESSION_REQUESTS } from "../../worker/support/session-requests";
import type { Operation } from "./document";

type Prepare = (scene: People, app: TestApp) => Promise<PreparedRequest>;

/** `:name` and `:name{pattern}` of an endpoint are `{name}` in the document. */
const KNOWN: ReadonlyMap<string, Prepare> = new Map(
	Object.entries({ ...REQUESTS, ...PUBLIC_REQUESTS, ...SESSION_REQUESTS }).map(([name, prepare]) => [
		name.replace(/:(\w+)(\{.+\})?/g, "{$1}"),
		prepare,
	]),
);

/**
 * The maker of an operation's request.
 * @throws when none is known
 */
export function prepareOf(operation: Operation): Prepare {
	const prepare = KNOWN.get(operation.name);
	if (prepare !== undefined) return prepare;
	const where = operation.ofSession
		? "SESSION_REQUESTS in test/worker/support/session-requests.ts"
		: `${operation.takesKey ? "REQUESTS" : "PUBLIC_REQUESTS"} in test/worker/support/requests.ts`;
	throw new Error(`There is no request that succeeds for ${operation.name}; add one to ${where}.`);
}
