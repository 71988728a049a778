/**
 * The typed client: every endpoint by its method and path, with its parameters, body and answer known to the compiler. All types come
 * from the endpoint list; at run time this is fetch and nothing of the server.
 */
import type { allEndpoints } from "../app";

type Endpoints = (typeof allEndpoints)[number];
type Typed = { readonly method: string; readonly path: string; readonly types?: unknown };
type KeyOf<Endpoint> = Endpoint extends Typed ? `${Endpoint["method"]} ${Endpoint["path"]}` : never;

/** E.g. `POST /channel`. */
export type EndpointKey = KeyOf<Endpoints>;

type EndpointOf<Key> = Endpoints extends infer Endpoint
	? Endpoint extends Typed
		? KeyOf<Endpoint> extends Key
			? Endpoint
			: never
		: never
	: never;
type TypesOf<Key> = NonNullable<Extract<EndpointOf<Key>, Typed>["types"]>;
type Part<Key, Name extends string> = TypesOf<Key> extends { readonly [name in Name]: infer Value } ? Value : never;

/** A part of the request, left out where the endpoint has none. */
type Field<Name extends string, Value> = [Value] extends [undefined]
	? unknown
	: Record<never, never> extends Value
		? { readonly [name in Name]?: Value }
		: { readonly [name in Name]: Value };

export type RequestOf<Key extends EndpointKey> = Field<"params", Part<Key, "params">> &
	Field<"query", Part<Key, "query">> &
	Field<"body", Part<Key, "body">> & { readonly signal?: AbortSignal };
export type AnswerOf<Key extends EndpointKey> = Part<Key, "answer">;

export interface ClientOptions {
	/** E.g. `https://updates.example.com`. */
	readonly baseUrl: string;
	readonly key?: string;
	readonly fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

/** An answer that is no success, as the service words it. */
export class CapstanError extends Error {
	override readonly name = "CapstanError";
	constructor(
		readonly status: number,
		/** E.g. `permission_denied`. */
		readonly code: string,
		message: string,
		readonly moreInfo: Readonly<Record<string, unknown>>,
		readonly requestId: string,
	) {
		super(message);
	}
}

interface AnyRequest {
	readonly params?: Readonly<Record<string, string>>;
	readonly query?: Readonly<Record<string, unknown>>;
	readonly body?: unknown;
	readonly signal?: AbortSignal;
}

/**
 * @example
 * const capstan = createClient({ baseUrl, key });
 * const { id } = await capstan("POST /channel", { body: { app_id: "com.example.app", channel: "pr-128" } });
 * @throws {CapstanError} for every answer that is no success
 */
export function createClient(options: ClientOptions) {
	const send = options.fetch ?? ((url: string, init: RequestInit) => fetch(url, init));
	return async <const Key extends EndpointKey>(endpoint: Key, request: RequestOf<Key>): Promise<AnswerOf<Key>> => {
		const { params = {}, query = {}, body, signal } = request as AnyRequest;
		const [method = "", path = ""] = endpoint.split(" ");
		const filled = path.replace(/:(\w+)(\{.+?\})?/g, (_, name: string) => encodeURIComponent(params[name] ?? ""));
		const url = new URL(filled, options.baseUrl);
		for (const [name, value] of Object.entries(query)) {
			if (value !== undefined && value !== null) url.searchParams.set(name, String(value));
		}
		const response = await send(url.href, {
			method,
			headers: {
				...(options.key === undefined ? {} : { authorization: options.key }),
				...(body === undefined ? {} : { "content-type": "application/json" }),
			},
			...(body === undefined ? {} : { body: JSON.stringify(body) }),
			...(signal === undefined ? {} : { signal }),
		});
		if (!response.ok) throw await errorOf(response);
		const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
		return (isJson ? await response.json() : response) as AnswerOf<Key>;
	};
}

async function errorOf(response: Response): Promise<CapstanError> {
	const text = await response.text();
	try {
		const { error, message, moreInfo, requestId } = JSON.parse(text);
		return new CapstanError(response.status, error, message, moreInfo, requestId);
	} catch {
		return new CapstanError(response.status, "unreadable_answer", text.slice(0, 200), {}, "");
	}
}
