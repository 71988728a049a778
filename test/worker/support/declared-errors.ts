/** Whether an endpoint declares the errors that it answers with, so that a generated client knows them. */
import { allEndpoints } from "../../../src/endpoints";
import type { AnyEndpoint } from "../../../src/http/endpoint";
import { errorsOf } from "../../../src/http/openapi";

const patternOf = (path: string) =>
	new RegExp(`^${path.replace(/[.*+?^$()|[\]\\]/g, "\\$&").replace(/:\w+(\{[^}]*\})?/g, "[^/]+")}$`);

/** Paths without parameters first, as the router takes them. */
const routes = allEndpoints
	.map((endpoint: AnyEndpoint) => ({ endpoint, pattern: patternOf(endpoint.path) }))
	.sort((one, other) => Number(one.endpoint.path.includes(":")) - Number(other.endpoint.path.includes(":")));

/**
 * @throws {Error} when an endpoint answers with an error that its description does not name
 */
export function refuseUndeclared(method: string, pathname: string, body: unknown): void {
	if (typeof body !== "object" || body === null || !("error" in body)) return;
	const found = routes.find(({ pattern }) => pattern.test(pathname));
	const endpoint = routes.find(
		({ endpoint: one }) => one.path === found?.endpoint.path && one.method === (method === "HEAD" ? "GET" : method),
	)?.endpoint;
	if (endpoint === undefined) return;
	const declared: ReadonlySet<unknown> = errorsOf(endpoint);
	if (declared.has(body.error)) return;
	throw new Error(`${method} ${endpoint.path} does not declare the error ${String(body.error)}`);
}
