/**
 * Common parts of every answer: the shape of errors, the headers, and the log line of a fault. The
 * router and the fast path of devices share it.
 */
import type { Deps } from "../../deps";
import { transportSecurity } from "../../domain/network/transport-security";
import { ApiError, causeText, isOverload } from "../../errors";

/** The answer to a request that failed. The text of an unknown error is logged and never sent. */
export function errorAnswer(deps: Deps, error: unknown, request: Request, requestId: string): Response {
	const known =
		error instanceof ApiError
			? error
			: new ApiError("internal_error", "Something went wrong on our side; include the requestId when you report it.");
	const path = new URL(request.url).pathname;
	// A service that is absent on purpose is no fault.
	if (known.status >= 500 && known.status !== 501 && !isOverload(known)) {
		deps.log("error", "request_failed", { requestId, method: request.method, path, cause: causeText(error) });
	}
	// TUS requires its version in every answer of its paths.
	const tus = path.startsWith("/files/upload/attachments") ? { "Tus-Resumable": "1.0.0" } : {};
	const reset = known.status === 429 ? resetOf(known, deps.now()) : undefined;
	const moreInfo = { ...known.moreInfo, ...reset?.moreInfo };
	const body = { error: known.code, message: known.message, moreInfo, status: "KO", requestId };
	return Response.json(body, { status: known.status, headers: { ...tus, ...known.headers, ...reset?.headers } });
}

/** The end of a limit as a time, for clients that do not read Retry-After. */
function resetOf({ moreInfo }: ApiError, nowMs: number) {
	const seconds = moreInfo.retryAfterSeconds;
	if (typeof seconds !== "number") return undefined;
	const resetAtMs = nowMs + seconds * 1000;
	return {
		moreInfo: { rateLimitResetAt: resetAtMs },
		headers: { "X-RateLimit-Reset": String(Math.ceil(resetAtMs / 1000)) },
	};
}

/** Set on the response itself, because the router's way would create each response twice. */
export function withCommonHeaders(response: Response, requestId: string, url: string): Response {
	try {
		response.headers.set("x-request-id", requestId);
	} catch {
		// A response of another service is immutable.
		return withCommonHeaders(new Response(response.body, response), requestId, url);
	}
	// No answer is a page: browsers must not render uploaded content or names as one.
	response.headers.set("x-content-type-options", "nosniff");
	response.headers.set("content-security-policy", "default-src 'none'; frame-ancestors 'none'; sandbox");
	for (const [name, value] of Object.entries(transportSecurity(url))) response.headers.set(name, value);
	if (!response.headers.has("cache-control")) response.headers.set("cache-control", "private, no-store");
	return response;
}
