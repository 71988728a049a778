/**
 * The one path from a request to an endpoint's handler, in five phases, each in its own file:
 * credential, load, decide, validate, run. Authorization precedes validation errors, so a stranger
 * learns nothing of the schema. Routes exist only through `mount`, so none can skip a phase.
 */
import { ApiError, type ErrorCode } from "../../errors";
import { clearSessionCookie } from "../cookies";
import type { AnyEndpoint, Method } from "../endpoint";
import type { CapstanApp, Isolate, RequestContext } from "../isolate";
import { reportDenied } from "../limits/denied-attempts";
import { countFailure } from "../limits/requests";
import { holdingMemory, identifyCaller } from "./credential";
import { decideRequest } from "./decide";
import { type Incoming, incomingOf } from "./incoming";
import { loadRequest } from "./load";
import { runHandler } from "./run";
import { IGNORED_HEADER, namesForHeader } from "./unknown-fields";
import { validateRequest } from "./validate";

/** Errors that any endpoint may answer with. */
export const PIPELINE_ERRORS: readonly ErrorCode[] = [
	"unknown_host",
	"invalid_request",
	"conflicting_parameters",
	"ambiguous_api_key",
	"missing_api_key",
	"invalid_api_key",
	"expired_api_key",
	"api_key_violates_policy",
	"invalid_session",
	"session_required",
	"recent_sign_in_required",
	"passkey_required",
	"cross_site_request",
	"ip_address_not_allowed",
	"permission_denied",
	"organization_not_found",
	"app_not_found",
	"channel_not_found",
	"payload_too_large",
	"unsupported_media_type",
	"too_many_requests",
	"internal_error",
	"service_unavailable",
];

/** Adds the endpoints to the app, and 405 with `Allow` for every other method on their paths. */
export function mount(app: CapstanApp, endpoints: readonly AnyEndpoint[], isolate: Isolate): void {
	const byPath = Map.groupBy(endpoints, ({ path }) => path);
	// All methods of a path at once, so that no method of /app/restore falls through to /app/:app_id.
	for (const [path, ofPath] of byPath) {
		for (const endpoint of ofPath) {
			const methods = [endpoint.method, ...(endpoint.alsoMethods ?? [])];
			app.on(methods, path, (c) => answerOrRefuse(incomingOf(endpoint, c, isolate)));
		}
		const methods: readonly Method[] = ofPath.map(({ method }) => method);
		const allow = [...new Set([...methods, ...(methods.includes("GET") ? ["HEAD"] : []), "OPTIONS"])].join(", ");
		app.all(path, (c) => {
			if (c.req.method === "OPTIONS") return new Response(null, { status: 204, headers: { Allow: allow } });
			throw new ApiError("method_not_allowed", `This path takes ${allow}.`, { headers: { Allow: allow } });
		});
	}
}

async function answerOrRefuse(request: Incoming): Promise<Response> {
	try {
		return await answer(request);
	} catch (error) {
		throw await refusalOf(error, request);
	}
}

async function answer(request: Incoming): Promise<Response> {
	const identified = await identifyCaller(request);
	return holdingMemory(request, identified, async (holding) => {
		const loaded = await loadRequest(request, identified, holding);
		const decided = decideRequest(request, loaded);
		const valid = validateRequest(request, loaded);
		return runHandler({ request, identified, loaded, decided, valid });
	});
}

/** Reports and counts a refusal. An address that failed too often gets another error. */
async function refusalOf(error: unknown, request: Incoming): Promise<unknown> {
	const { routed, c, isolate, ipAddress, soFar } = request;
	const { ignored = [] } = soFar;
	// A refused request says as well which of its fields had no effect.
	if (error instanceof ApiError && ignored.length > 0) error.headers[IGNORED_HEADER] = namesForHeader(ignored);
	reportDenied(error, routed, c, isolate, ipAddress, soFar);
	const answered = await countFailure(isolate.deps, withoutCookie(error, c, isolate), ipAddress);
	if (answered !== error && isTooMany(answered)) isolate.callerLimits.noteFailing(ipAddress);
	return answered;
}

const isTooMany = (error: unknown) => error instanceof ApiError && error.code === "too_many_requests";

/** Removes the cookie of an ended session from the browser. */
function withoutCookie(error: unknown, c: RequestContext, { deps }: Isolate): unknown {
	if (!(error instanceof ApiError) || error.code !== "invalid_session") return error;
	const headers = clearSessionCookie(deps.config.publicUrl ?? new URL(c.req.url).origin);
	return new ApiError(error.code, error.message, { headers });
}
