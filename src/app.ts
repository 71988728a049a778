/**
 * The HTTP application: request id, CORS, the endpoints, and the only places where an error or an unknown path becomes an answer.
 * Nothing here decides who may do what; that is the pipeline's.
 */
import { Hono } from "hono";
import { cors } from "hono/cors";
import { KEY_HEADERS } from "./api/credentials";
import type { AnyEndpoint } from "./api/endpoint";
import { endpoints } from "./api/endpoints";
import { createIsolate, mount, type RequestBindings } from "./api/pipeline";
import { WAIT_HEADER } from "./api/visibility";
import { compatEndpoints } from "./compat/capgo-cli/endpoints";
import { refusedRequest } from "./compat/capgo-cli/refusals";
import type { Deps, Env } from "./deps";
import { deviceEndpoints } from "./device/endpoints";
import { createQuickCheck } from "./device/quick-check";
import { transportSecurity } from "./domain/transport-security";
import { ApiError, causeText } from "./errors";

export const allEndpoints = [...endpoints, ...deviceEndpoints, ...compatEndpoints];

/** What a browser may send and read across origins. */
const CORS_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
const CORS_REQUEST_HEADERS = ["authorization", "content-type", WAIT_HEADER, ...KEY_HEADERS];
const TUS_HEADERS = [
	"tus-resumable",
	"tus-version",
	"upload-length",
	"upload-offset",
	"upload-metadata",
	"upload-expires",
];

/** Builds the application; one for each isolate. */
export function createApp(deps: Deps, served: readonly AnyEndpoint[] = allEndpoints) {
	const app = new Hono<{ Bindings: RequestBindings }>({ strict: false });

	const crossOrigin = cors({
		origin: (origin) => (deps.config.corsAllowedOrigins.includes(origin) ? origin : null),
		allowMethods: CORS_METHODS,
		allowHeaders: [...CORS_REQUEST_HEADERS, ...TUS_HEADERS],
		exposeHeaders: ["x-request-id", "link", "location", "retry-after", "etag", ...TUS_HEADERS],
		maxAge: 86_400,
	});
	if (deps.config.corsAllowedOrigins.length > 0) {
		app.use(async (c, next) => {
			// An OPTIONS that is no preflight is a TUS client's question.
			const preflight = c.req.header("access-control-request-method") !== undefined;
			if (c.req.method === "OPTIONS" && !preflight) return next();
			return crossOrigin(c, next);
		});
	}

	const isolate = createIsolate(deps);
	mount(app, served, isolate);

	app.notFound((c) => {
		const error =
			refusedRequest(c.req.method, c.req.path) ??
			new ApiError("not_found", "There is nothing at this path; the API is described at /docs.");
		return c.json(errorBody(error, c.env.requestId), error.status as 400);
	});
	app.onError((error, c) => {
		const requestId = c.env.requestId;
		const known =
			error instanceof ApiError
				? error
				: new ApiError("internal_error", "Something went wrong on our side; quote the requestId when you report it.");
		if (known.status >= 500) {
			deps.log("error", "request_failed", {
				requestId,
				method: c.req.method,
				path: c.req.path,
				cause: causeText(error),
			});
		}
		// TUS wants its version on every answer of its paths.
		const tus = c.req.path.startsWith("/files/upload/attachments") ? { "Tus-Resumable": "1.0.0" } : {};
		return c.json(errorBody(known, requestId), known.status as 400, { ...tus, ...known.headers });
	});

	async function route(request: Request, ctx: ExecutionContext, isCounted = false): Promise<Response> {
		const requestId = deps.newId();
		const response = await app.fetch(request, { requestId, isCounted }, ctx);
		await drain(request);
		return withCommonHeaders(response, requestId, deps.config.publicUrl ?? request.url);
	}

	const quickCheck = createQuickCheck(isolate, route);

	return {
		fetch: (request: Request, _env: Env, ctx: ExecutionContext): Promise<Response> =>
			quickCheck(request, ctx) ?? route(request, ctx),
	};
}

/** On the answer itself: the router's way to set them would make each answer twice. */
function withCommonHeaders(response: Response, requestId: string, url: string): Response {
	try {
		response.headers.set("x-request-id", requestId);
	} catch {
		// What another service answered cannot be written to.
		return withCommonHeaders(new Response(response.body, response), requestId, url);
	}
	// Nothing that is answered here is a page: no browser may make one of it, whoever uploaded or named what is in it.
	response.headers.set("x-content-type-options", "nosniff");
	response.headers.set("content-security-policy", "default-src 'none'; frame-ancestors 'none'; sandbox");
	for (const [name, value] of Object.entries(transportSecurity(url))) response.headers.set(name, value);
	if (!response.headers.has("cache-control")) response.headers.set("cache-control", "private, no-store");
	return response;
}

/** Bodies up to this size are read to their end even where nobody wants them. */
const DRAIN_LIMIT_BYTES = 16 * 1024 * 1024;

/**
 * An unread body makes the server close the connection: a client that still sends it, or already its next request, sees a network error
 * instead of the answer. Larger ones are not worth reading for that.
 */
async function drain(request: Request): Promise<void> {
	if (request.body === null || request.bodyUsed) return;
	if (Number(request.headers.get("content-length") ?? Number.POSITIVE_INFINITY) > DRAIN_LIMIT_BYTES) return;
	await request.body.pipeTo(new WritableStream()).catch(() => undefined);
}

function errorBody(error: ApiError, requestId: string) {
	return { error: error.code, message: error.message, moreInfo: error.moreInfo, requestId };
}
