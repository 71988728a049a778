/**
 * A request that succeeds, for every operation: those of the tests' own lists, and for what needs no key and nothing to be there, the
 * one that the document alone makes.
 */
import { type PreparedRequest, PUBLIC_REQUESTS, REQUESTS } from "../../worker/support/requests";
import type { Scene, TestApp } from "../../worker/support/scene";
import type { Operation } from "./document";

type Prepare = (scene: Scene, app: TestApp) => Promise<PreparedRequest>;

/** `:name` and `:name{pattern}` of an endpoint are `{name}` in the document. */
const PREPARED = new Map(
	Object.entries({ ...REQUESTS, ...PUBLIC_REQUESTS }).map(([name, prepare]) => [
		name.replace(/:(\w+)(\{.+\})?/g, "{$1}"),
		prepare,
	]),
);

/**
 * The maker of an operation's request.
 * @throws when none is known and the document alone does not say enough
 */
export function prepareOf(operation: Operation): Prepare {
	const prepare = PREPARED.get(operation.name);
	if (prepare !== undefined) return prepare as Prepare;
	const needsSomething = operation.parameters.some(({ required }) => required) || operation.bodySchema !== undefined;
	if (!operation.takesKey && !needsSomething) return async () => ({ path: operation.path });
	const list = operation.takesKey ? "REQUESTS" : "PUBLIC_REQUESTS";
	throw new Error(
		`There is no request that succeeds for ${operation.name}; add one to ${list} in test/worker/support/requests.ts.`,
	);
}
