/**
 * The typed client: every endpoint by method and path, with typed parameters, body and answer. All
 * types come from the endpoint list. At run time the client is only fetch and has no code of the
 * server.
 */
import type { allEndpoints } from "../endpoints";

type Endpoints = (typeof allEndpoints)[number];
type Typed = { readonly method: string; readonly path: string; readonly types?: unknown };
type KeyOf<Endpoint> = Endpoint extends Typed ? `${Endpoint["method"]} ${Endpoint["path"]}` : never;

/** A list that answers in another form with `totals=true`; the key with it names that form. */
type WithTotals = "GET /bundle" | "GET /device";
type TotalsKey = `${WithTotals}?totals=true`;

/** E.g. `POST /channel`, or `GET /device?totals=true`. */
export type EndpointKey = KeyOf<Endpoints> | TotalsKey;

type EndpointOf<Key> = Endpoints extends infer Endpoint
	? Endpoint extends Typed
		? KeyOf<Endpoint> extends (Key extends `${infer Plain}?totals=true` ? Plain : Key)
			? Endpoint
			: never
		: never
	: never;
type TypesOf<Key> = NonNullable<Extract<EndpointOf<Key>, Typed>["types"]>;
type Part<Key, Name extends string> = TypesOf<Key> extends { readonly [name in Name]: infer Value } ? Value : never;

/** A part of the request, omitted if the endpoint has none. */
type Field<Name extends string, Value> = [Value] extends [undefined]
	? unknown
	: Record<never, never> extends Value
		? { readonly [name in Name]?: Value }
		: { readonly [name in Name]: Value };

export type RequestOf<Key extends EndpointKey> = Field<"params", Part<Key, "params">> &
	Field<"query", Part<Key, "query">> &
	Field<"body", Part<Key, "body">> & { readonly signal?: AbortSignal };
export type AnswerOf<Key extends EndpointKey> = Key extends TotalsKey
	? Extract<Part<Key, "answer">, { readonly total: number }>
	: Key extends WithTotals
		? Exclude<Part<Key, "answer">, { readonly total: number }>
		: Part<Key, "answer">;

/** Optional if the endpoint needs no parameters. */
type RequestArguments<Key extends EndpointKey> =
	Record<never, never> extends RequestOf<Key> ? [request?: RequestOf<Key>] : [request: RequestOf<Key>];

export type CapstanClient = <const Key extends EndpointKey>(
	endpoint: Key,
	...request: RequestArguments<Key>
) => Promise<AnswerOf<Key>>;

interface ClientOptions {
	/** E.g. `https://updates.example.com`. */
	readonly baseUrl: string;
	readonly key?: string;
	readonly fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

/** An error answer, with the message of the server. */
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
 * @example const capstan = createClient({ baseUrl, key }); const { id } = await capstan("POST
 * /channel", { body: { app_id: "com.example.app", channel: "pr-128" } });
 * @throws {CapstanError} for every error answer
 */
export function createClient(options: ClientOptions): CapstanClient {
	const send = options.fetch ?? ((url: string, init: RequestInit) => fetch(url, init));
	return async <const Key extends EndpointKey>(endpoint: Key, ...[request]: RequestArguments<Key>) => {
		const { params = {}, query = {}, body, signal } = (request ?? {}) as AnyRequest;
		const [method = "", path = ""] = endpoint.split(" ");
		const url = new URL(filledPath(path, params), options.baseUrl);
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
		// 204 with a JSON content type has no body.
		const answer = !isJson ? response : response.status === 204 ? null : await response.json();
		return answer as AnswerOf<Key>;
	};
}

/**
 * Fills in the parameters. Refuses empty values and dots, because URL parsing would remove them and
 * another endpoint would answer.
 */
export function filledPath(path: string, params: Readonly<Record<string, string>>): string {
	return path.replace(/:(\w+)(\{.+?\})?/g, (_, name: string) => {
		const value = params[name] ?? "";
		if (["", ".", ".."].includes(value)) throw new TypeError(`The path parameter ${name} must not be "${value}".`);
		return encodeURIComponent(value);
	});
}

/** Characters of an unreadable answer that its error quotes. */
const EXCERPT_LENGTH = 200;

/** The error that an answer is; for requests that the client does not send, such as uploads. */
export async function errorOf(response: Response): Promise<CapstanError> {
	const text = await response.text();
	const { error, message, moreInfo, requestId } = parsedObject(text);
	// A proxy may answer instead of the server, in another format.
	if (typeof error !== "string" || typeof message !== "string") {
		const excerpt = text.slice(0, EXCERPT_LENGTH);
		return new CapstanError(response.status, "unreadable_answer", `HTTP ${response.status}: ${excerpt}`, {}, "");
	}
	const facts = typeof moreInfo === "object" && moreInfo !== null ? { ...moreInfo } : {};
	return new CapstanError(response.status, error, message, facts, typeof requestId === "string" ? requestId : "");
}

function parsedObject(text: string): Readonly<Record<string, unknown>> {
	try {
		const value: unknown = JSON.parse(text);
		return typeof value === "object" && value !== null ? { ...value } : {};
	} catch {
		return {};
	}
}
