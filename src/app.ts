/**
 * The HTTP application: request id, CORS, endpoints, and the only places where an error or an
 * unknown path becomes an answer. Authorization is the pipeline's.
 */
import { Hono } from "hono";
import { cors } from "hono/cors";
import { absentService } from "./compat/capgo-api/absent";
import { refusedRequest } from "./compat/capgo-cli/service";
import type { Deps, Env } from "./deps";
import { allEndpoints } from "./endpoints";
import { ApiError } from "./errors";
import { FAST_ENDPOINTS } from "./fast-endpoints";
import { asTusMeans } from "./features/bundles/tus-protocol";
import { createDeviceState } from "./http/device-state";
import type { AnyEndpoint } from "./http/endpoint";
import { createFastPath, type Route } from "./http/fast-path";
import { createIsolate, type Isolate, type RequestBindings } from "./http/isolate";
import { errorAnswer, withCommonHeaders } from "./http/pipeline/answers";
import { DEFAULT_LIMIT_BYTES } from "./http/pipeline/body";
import { KEY_HEADERS } from "./http/pipeline/credential-headers";
import { REPLAYED_HEADER } from "./http/pipeline/idempotency";
import { mount } from "./http/pipeline/pipeline";
import { IGNORED_HEADER } from "./http/pipeline/unknown-fields";
import { WAIT_HEADER } from "./http/pipeline/wait-visible";

/** Headers and methods that browsers may use across origins. */
const CORS_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
const CORS_REQUEST_HEADERS = [
	"authorization",
	"content-type",
	"capgo_api",
	"idempotency-key",
	"x-limited-key-id",
	WAIT_HEADER,
	...KEY_HEADERS,
];
const CORS_ANSWER_HEADERS = [
	"x-request-id",
	"link",
	"location",
	"retry-after",
	"etag",
	"x-ratelimit-reset",
	"ratelimit-limit",
	"ratelimit-policy",
	"x-total-count",
	REPLAYED_HEADER,
	IGNORED_HEADER,
];
const TUS_HEADERS = [
	"tus-resumable",
	"tus-version",
	"x-http-method-override",
	"upload-length",
	"upload-offset",
	"upload-metadata",
	"upload-expires",
];

/** Builds the router; one per isolate. */
export function createRouter(isolate: Isolate, served: readonly AnyEndpoint[] = allEndpoints): Route {
	const { deps } = isolate;
	const app = new Hono<{ Bindings: RequestBindings }>({ strict: false });

	// The key is the right, so any origin may send one; cookies are for the own origin alone, because
	// no answer allows credentials.
	const { corsAllowedOrigins: allowed } = deps.config;
	const crossOrigin = cors({
		origin: allowed.length === 0 ? "*" : (origin) => (allowed.includes(origin) ? origin : null),
		allowMethods: CORS_METHODS,
		allowHeaders: [...CORS_REQUEST_HEADERS, ...TUS_HEADERS],
		exposeHeaders: [...CORS_ANSWER_HEADERS, ...TUS_HEADERS],
		maxAge: 86_400,
	});
	app.use(async (c, next) => {
		// An OPTIONS request that is no preflight comes from a TUS client.
		const preflight = c.req.header("access-control-request-method") !== undefined;
		if (c.req.header("origin") === undefined || (c.req.method === "OPTIONS" && !preflight)) return next();
		return crossOrigin(c, next);
	});

	mount(app, served, isolate);

	app.notFound((c) => {
		const error =
			refusedRequest(c.req.method, c.req.path) ??
			absentService(c.req.path) ??
			new ApiError("not_found", "No endpoint has this path; the API is documented at /docs.");
		return errorAnswer(deps, error, c.req.raw, c.env.requestId);
	});
	app.onError((error, c) => errorAnswer(deps, error, c.req.raw, c.env.requestId));

	return async (sent, ctx, isCounted = false) => {
		const request = asTusMeans(sent);
		const requestId = deps.newId();
		const response = await app.fetch(request, { requestId, isCounted }, ctx);
		// No answer to an unknown or limited caller waits for a large body, because reading it costs more
		// than the answer.
		const isRefused = response.status === 401 || response.status === 429;
		await drain(request, isRefused ? DEFAULT_LIMIT_BYTES : DRAIN_LIMIT_BYTES);
		return withCommonHeaders(response, requestId, deps.config.publicUrl ?? request.url);
	};
}

/**
 * The whole service, with the fast path of devices before the router. worker.ts does the same, and
 * loads this file when a request needs it.
 */
export function createApp(deps: Deps, served: readonly AnyEndpoint[] = allEndpoints) {
	const devices = createDeviceState(deps);
	const route = createRouter(createIsolate(deps, devices), served);
	const fastPath = createFastPath(devices, FAST_ENDPOINTS, route);
	return {
		fetch: (request: Request, _env: Env, ctx: ExecutionContext): Promise<Response> =>
			fastPath(request, ctx) ?? route(request, ctx),
	};
}

/** Unread bodies of known callers are drained up to this size. */
const DRAIN_LIMIT_BYTES = 16 * 1024 * 1024;

/**
 * The server closes the connection after an answer to an unread body, so a client that still sends
 * would see a network error instead of the answer. Larger bodies are not worth draining.
 */
async function drain(request: Request, limitBytes: number): Promise<void> {
	if (request.body === null || request.bodyUsed) return;
	if (Number(request.headers.get("content-length") ?? Number.POSITIVE_INFINITY) > limitBytes) return;
	await request.body.pipeTo(new WritableStream()).catch(() => undefined);
}
