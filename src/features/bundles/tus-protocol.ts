/**
 * Shared by the TUS 1.0 endpoints: limits, headers, and the scope row
 * (https://tus.io/protocols/resumable-upload).
 */
import { ApiError, invalidRequest } from "../../errors";

export const TUS_VERSION = "1.0.0";
export const TUS_EXTENSIONS = "creation,expiration";
/** Size of a segment: the most that a lost connection costs and that one upload holds in memory. */
export const SEGMENT_BYTES = 4 * 1024 * 1024;
/**
 * Joining reads each segment once from R2, and one request to a Worker may make a limited number of
 * reads.
 */
export const MOST_SEGMENTS = 900;

const UPLOAD_PATH = /^\/files\/upload\/attachments\/[^/]+$/;

/**
 * The request that a client means whose network lets only GET and POST pass: TUS has the header for
 * it (https://tus.io/protocols/resumable-upload#x-http-method-override).
 */
export function asTusMeans(request: Request): Request {
	if (request.method !== "POST" || !UPLOAD_PATH.test(new URL(request.url).pathname)) return request;
	const method = request.headers.get("x-http-method-override")?.toUpperCase();
	if (method === "PATCH") return new Request(request, { method });
	if (method === "HEAD") return new Request(request.url, { method, headers: request.headers });
	return request;
}

export function tusResponse(status: number, headers: Record<string, string>): Response {
	return new Response(null, {
		status,
		headers: { "Tus-Resumable": TUS_VERSION, "Cache-Control": "no-store", ...headers },
	});
}

export function requireTus(headers: Headers): void {
	if (headers.get("tus-resumable") === TUS_VERSION) return;
	throw new ApiError("unsupported_tus_version", `Send the header Tus-Resumable: ${TUS_VERSION}.`, {
		headers: { "Tus-Version": TUS_VERSION },
	});
}

/** @throws {ApiError} `invalid_request` unless the header is a whole number */
export function wholeNumber(headers: Headers, name: string): number {
	const value = headers.get(name) ?? "";
	if (!/^\d{1,15}$/.test(value)) {
		throw invalidRequest([
			{ path: `headers.${name}`, message: "must be a whole number of bytes", received: value.slice(0, 40) },
		]);
	}
	return Number(value);
}

export const TUS_HEADER = {
	"Tus-Resumable": { description: "The version of the protocol.", required: true, example: TUS_VERSION },
} as const;

export const TUS_ANSWER = {
	contentType: "application/offset+octet-stream",
	description: "No body; the headers of TUS 1.0.",
};

export interface TusScopeRow {
	readonly id: string;
	readonly app_id: string;
	readonly owner_org: string;
}
