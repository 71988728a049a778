/**
 * Callers of the service in tests: `world.admin("DELETE /channel", { query })`. The types come from
 * the typed client, so a request that the endpoint list does not allow is an error of the compiler;
 * tests of malformed requests use `world.request`.
 */
import { type EndpointKey, filledPath, type RequestOf } from "../../../src/client/client";
import type { Answer, RequestOptions, Scene } from "./scene";

type Rest = Pick<RequestOptions, "headers" | "cf" | "mostTrips" | "rawBody">;
export type Arguments<Key extends EndpointKey> =
	Record<never, never> extends RequestOf<Key> ? [request?: RequestOf<Key> & Rest] : [request: RequestOf<Key> & Rest];

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
export type AnyAnswer = Answer<any>;
export type Actor = <const Key extends EndpointKey>(endpoint: Key, ...request: Arguments<Key>) => Promise<AnyAnswer>;

/**
 * The callers of a scene. A copy of the scene with another `request` sends through that one, hence
 * `this`.
 */
export interface Actors {
	/** Sends a request with `adminKey`. */
	admin<const Key extends EndpointKey>(
		this: Pick<Scene, "request" | "adminKey">,
		endpoint: Key,
		...request: Arguments<Key>
	): Promise<AnyAnswer>;
	/** Sends requests with the key; without one, as a stranger. */
	as(this: Pick<Scene, "request">, key?: string): Actor;
}

export const actors: Actors = {
	admin(endpoint, ...request) {
		return actor(this, this.adminKey)(endpoint, ...request);
	},
	as(key) {
		return actor(this, key);
	},
};

function actor(scene: Pick<Scene, "request">, key?: string): Actor {
	return (endpoint, ...[request]) => {
		const {
			params = {},
			query,
			...rest
		} = (request ?? {}) as RequestOptions & {
			readonly params?: Record<string, string>;
			readonly query?: Readonly<Record<string, unknown>>;
		};
		const [method = "", path = ""] = endpoint.split(" ");
		const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null);
		return scene.request(method, filledPath(path, params), {
			...rest,
			key,
			query: Object.fromEntries(given.map(([name, value]) => [name, String(value)])),
		});
	};
}
