/**
 * Fast paths of devices: plain requests are answered before the router, which is not loaded, so
 * that the first request of an isolate is cheap, too. A feature reads its plain bodies and answers
 * them (`FastEndpoint`); every other request (from a browser, with a wrong or missing field) is
 * left to its endpoint. Tests hold the answers of both equal.
 */
import { type Database, openDb } from "../db/batch";
import { transportSecurity } from "../domain/network/transport-security";
import type { DeviceState } from "./device-state";
import { errorAnswer, withCommonHeaders } from "./pipeline/answers";

/** Plain bodies are shorter than this. */
const LIMIT_BYTES = 16 * 1024;
/** The counter of D1 reads that the endpoints use as well. */
const READS_OF = "Devices";

const MEMORY = 'd1;desc="trips=0", memory';

/** Answers by the router. `isCounted`: the request was counted against its address already. */
export type Route = (request: Request, ctx: ExecutionContext, isCounted?: boolean) => Promise<Response>;
/** Undefined: the request is for the router, and its body was not read. */
export type FastPath = (request: Request, ctx: ExecutionContext) => Promise<Response> | undefined;

/** A request as a fast endpoint needs it. */
export interface FastRequest {
	readonly text: string;
	readonly request: Request;
	readonly origin: string;
	readonly address: string | null;
	readonly nowMs: number;
	readonly waitUntil: (work: Promise<unknown>) => void;
}

export interface FastAnswer {
	/** JSON. */
	readonly text: string;
	readonly headers?: Readonly<Record<string, string>> | undefined;
	/** Round trips before the answer; undefined: everything was in memory. */
	readonly trips?: number | undefined;
}

export interface FastEndpoint {
	readonly path: string;
	/**
	 * Undefined: the endpoint must read the body. The answer is a promise only if something must be
	 * awaited, because each promise around a check costs time.
	 * @throws {ApiError} `too_many_requests` or `service_unavailable`
	 */
	readonly answer: (asked: FastRequest, state: DeviceState) => FastAnswer | Promise<FastAnswer> | undefined;
	/** Throws for an answer that the endpoint does not declare; in diagnostics only. */
	readonly verify: (answer: unknown) => Promise<void>;
}

/** The database for a request of a device: its batches are counted by address. */
export function limitedDatabase({ deps, callerLimits }: DeviceState, address: string | null): Database {
	return callerLimits.database(openDb(deps.d1, "first-primary"), address, READS_OF);
}

/**
 * @param route answers requests whose body shows that they are not plain
 * @param create creates the answer; at the start of an isolate the runtime allows no response with
 * a body
 */
export function createFastPath(
	state: DeviceState,
	endpoints: readonly FastEndpoint[],
	route: Route,
	create = (text: string, headers: Headers) => new Response(text, { headers }),
): FastPath {
	const { deps, callerLimits } = state;
	const { diagnostics } = deps.config;
	const originOf = createOriginReader();
	const common = createCommonHeaders();

	async function answer(
		endpoint: FastEndpoint,
		request: Request,
		origin: string,
		ctx: ExecutionContext,
	): Promise<Response> {
		let text: string;
		try {
			text = await request.text();
		} catch {
			// The body broke off; the endpoint reports that.
			return route(request, ctx);
		}
		const address = deps.config.clientAddress ?? request.headers.get("cf-connecting-ip");
		const nowMs = deps.now();
		try {
			if (!callerLimits.takeRequest(address, nowMs)) throw callerLimits.tooMany();
			const asked = {
				text,
				request,
				origin,
				address,
				nowMs,
				waitUntil: (work: Promise<unknown>) => ctx.waitUntil(work),
			};
			const found = endpoint.answer(asked, state);
			if (found === undefined) return await route(withBody(request, text), ctx, true);
			const answered = found instanceof Promise ? await found : found;
			const pause = callerLimits.paceAnswer(address, answered.text.length, nowMs);
			if (pause !== undefined) await pause;
			if (diagnostics) await endpoint.verify(JSON.parse(answered.text));
			return respond(answered, origin);
		} catch (error) {
			const requestId = deps.newId();
			return withCommonHeaders(errorAnswer(deps, error, request, requestId), requestId, origin);
		}
	}

	function respond({ text, headers, trips }: FastAnswer, origin: string): Response {
		const shared = common(origin);
		if (headers === undefined && !diagnostics) return create(text, shared);
		const own = new Headers(shared);
		for (const [name, value] of Object.entries(headers ?? {})) own.set(name, value);
		if (diagnostics) own.set("server-timing", trips === undefined ? MEMORY : `d1;desc="trips=${trips}"`);
		return create(text, own);
	}

	return function find(request, ctx) {
		if (request.method !== "POST") return undefined;
		const { url } = request;
		const pathStart = url.indexOf("/", url.indexOf("://") + 3);
		for (const endpoint of endpoints) {
			if (url.length !== pathStart + endpoint.path.length || !url.endsWith(endpoint.path)) continue;
			const { headers } = request;
			// The endpoint takes empty bodies and bodies of unknown length.
			const length = Number(headers.get("content-length"));
			if (!(length > 0 && length <= LIMIT_BYTES)) return undefined;
			const type = headers.get("content-type");
			if (type !== "application/json" && type?.startsWith("application/json;") !== true) return undefined;
			// The router sets the CORS headers.
			if (headers.has("origin")) return undefined;
			return answer(endpoint, request, deps.config.publicUrl ?? originOf(url.slice(0, pathStart)), ctx);
		}
		return undefined;
	};
}

/**
 * The origin as URLs write it. The last one is cached, because nearly all requests of an isolate
 * have the same.
 */
function createOriginReader(): (text: string) => string {
	let last = { text: "", origin: "" };
	return (text) => {
		if (last.text !== text) last = { text, origin: new URL(text).origin };
		return last.origin;
	};
}

/**
 * The headers of every answer, in one object for the last origin: a response copies them, which
 * takes less time than reading them from a new object. There is no X-Request-Id, which takes 2 % of
 * a check, because nothing is logged of an answer; errors have one.
 */
function createCommonHeaders(): (origin: string) => Headers {
	let last: { readonly origin: string; readonly headers: Headers } | undefined;
	return (origin) => {
		if (last?.origin !== origin) {
			const headers = { "content-type": "application/json", "cache-control": "private, no-store" };
			last = { origin, headers: new Headers({ ...headers, ...transportSecurity(origin) }) };
		}
		return last.headers;
	};
}

/**
 * Rebuilds the request after its body was read. If decoding replaced invalid UTF-8, an invalid byte
 * is passed on, so that the endpoint refuses the body. Known gap: a character that was cut off
 * after three bytes looks like a U+FFFD that was sent.
 */
function withBody(request: Request, text: string): Request {
	const isReplaced =
		text.includes("\uFFFD") && new TextEncoder().encode(text).length !== Number(request.headers.get("content-length"));
	return new Request(request, { body: isReplaced ? new Uint8Array([0xff]) : text });
}
