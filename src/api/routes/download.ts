/**
 * How bytes go out: by a signed link, straight from R2, without a key and without the database, so that downloads go on when D1 does
 * not answer. Objects never change, so a copy may be kept for as long as the link is good.
 */
import { ApiError } from "../../errors";
import { verifyLink } from "../../storage/links";
import { getForRequest, headObject } from "../../storage/objects";
import { endpoint } from "../endpoint";
import { linkQuery } from "./upload";

export const downloadObject = endpoint({
	method: "GET",
	path: "/files/download/:app/:upload/:part",
	tag: "Downloads",
	summary: "Download a bundle or a file of one",
	description:
		"The path and query are a link that POST /updates answered with. Takes Range, If-None-Match and If-Range.",
	access: { public: "The signature in the link, made for a device that may have the bundle, is checked instead." },
	query: linkQuery,
	response: { contentType: "application/zip", description: "The stored bytes; 206 for a range, 304 when unchanged." },
	errors: ["invalid_signature", "link_expired", "not_found", "range_not_satisfiable"],
	example: { query: { expires: "1795248000", signature: "…" } },
	async handle({ deps, input, request, nowMs }) {
		const key = `${input.params.app}/${input.params.upload}/${input.params.part}`;
		const secondsLeft = verifyLink(deps, "GET", `/files/download/${key}`, input.query, nowMs);
		const headers = new Headers({
			"Accept-Ranges": "bytes",
			"Cache-Control": `public, max-age=${secondsLeft}, immutable, no-transform`,
			"X-Content-Type-Options": "nosniff",
		});
		if (request.method === "HEAD") {
			const object = await headObject(deps.bundles, key);
			if (object === null) throw gone();
			describe(headers, object);
			headers.set("Content-Length", String(object.size));
			return new Response(null, { headers });
		}
		const wanted = await requestedRange(deps.bundles, key, request.headers);
		const object = await getForRequest(deps.bundles, key, wanted);
		if (object === null) throw gone();
		if (object === "unsatisfiable") throw await unsatisfiable(deps.bundles, key);
		describe(headers, object);
		if (!("body" in object)) return new Response(null, { status: 304, headers });
		const range = object.range;
		if (range === undefined || !wanted.has("range")) {
			headers.set("Content-Length", String(object.size));
			return new Response(object.body, { headers });
		}
		const offset = "suffix" in range ? object.size - range.suffix : (range.offset ?? 0);
		const length = "suffix" in range ? range.suffix : (range.length ?? object.size - offset);
		headers.set("Content-Range", `bytes ${offset}-${offset + length - 1}/${object.size}`);
		headers.set("Content-Length", String(length));
		return new Response(object.body, { status: 206, headers });
	},
});

function describe(headers: Headers, object: R2Object): void {
	headers.set("ETag", object.httpEtag);
	headers.set("Last-Modified", object.uploaded.toUTCString());
	headers.set("Content-Type", object.httpMetadata?.contentType ?? "application/octet-stream");
}

/** The request's conditions, with a Range that If-Range takes back or that is not a single byte range left out: the whole is sent then. */
async function requestedRange(bucket: R2Bucket, key: string, headers: Headers): Promise<Headers> {
	const wanted = new Headers();
	for (const name of ["range", "if-none-match", "if-modified-since", "if-match", "if-unmodified-since"]) {
		const value = headers.get(name);
		if (value !== null) wanted.set(name, value);
	}
	if (!/^bytes=(\d+-\d*|-\d+)$/.test(wanted.get("range") ?? "")) wanted.delete("range");
	const ifRange = headers.get("if-range");
	if (ifRange !== null && wanted.has("range") && (await headObject(bucket, key))?.httpEtag !== ifRange)
		wanted.delete("range");
	return wanted;
}

function gone(): ApiError {
	return new ApiError("not_found", "The file was deleted; ask POST /updates again.");
}

async function unsatisfiable(bucket: R2Bucket, key: string): Promise<ApiError> {
	const size = (await headObject(bucket, key))?.size ?? 0;
	return new ApiError("range_not_satisfiable", `The file has ${size} bytes; ask for a range within it.`, {
		headers: { "Content-Range": `bytes */${size}` },
	});
}
