/**
 * How bytes go out: by a signed link, straight from R2, without a key and without the database, so that downloads go on when D1 does
 * not answer. Objects never change, so a copy may be kept for as long as the link is good.
 */
import { hasConditions, wantedOf } from "../../domain/conditional-request";
import { ApiError } from "../../errors";
import { verifyLink } from "../../storage/links";
import { getObject, headObject } from "../../storage/objects";
import { endpoint } from "../endpoint";
import { linkQuery } from "./upload";

export const downloadObject = endpoint({
	method: "GET",
	path: "/files/download/:app/:upload/:part",
	tag: "Downloads",
	summary: "Download a bundle or a file of one",
	description:
		"The path and query are a link that POST /updates answered with. Takes a single Range, If-Range and the conditional headers.",
	access: { public: "The signature in the link, made for a device that may have the bundle, is checked instead." },
	query: linkQuery,
	status: [200, 206, 304],
	response: { contentType: "application/zip", description: "The stored bytes; 206 for a range, 304 when unchanged." },
	errors: ["invalid_signature", "link_expired", "not_found", "precondition_failed", "range_not_satisfiable"],
	example: { query: { expires: "1795248000", signature: "…" } },
	async handle({ deps, input, request, nowMs }) {
		const key = `${input.params.app}/${input.params.upload}/${input.params.part}`;
		const secondsLeft = verifyLink(deps, "GET", `/files/download/${key}`, input.query, nowMs);
		const headers = new Headers({
			"Accept-Ranges": "bytes",
			"Cache-Control": `public, max-age=${secondsLeft}, immutable, no-transform`,
			"X-Content-Type-Options": "nosniff",
		});
		const isHead = request.method === "HEAD";
		if (!isHead && !hasConditions(request.headers)) return wholeAnswer(headers, await getObject(deps.bundles, key));

		const object = await headObject(deps.bundles, key);
		if (object === null) throw gone();
		const facts = { etag: object.httpEtag, sizeBytes: object.size, modifiedMs: object.uploaded.getTime() };
		const wanted = wantedOf(request.headers, facts, !isHead);
		switch (wanted.kind) {
			case "precondition_failed":
				throw new ApiError("precondition_failed", "The file is not the one that the condition names; fetch it anew.");
			case "unsatisfiable":
				throw new ApiError("range_not_satisfiable", `The file has ${object.size} bytes; ask for a range within it.`, {
					headers: { "Content-Range": `bytes */${object.size}` },
				});
			case "not_modified":
				describe(headers, object);
				return new Response(null, { status: 304, headers });
			case "whole": {
				if (!isHead) return wholeAnswer(headers, await getObject(deps.bundles, key));
				describe(headers, object);
				headers.set("Content-Length", String(object.size));
				return new Response(null, { headers });
			}
			case "range": {
				const { offset, length } = wanted;
				const part = await getObject(deps.bundles, key, { offset, length });
				if (part === null) throw gone();
				describe(headers, part);
				headers.set("Content-Range", `bytes ${offset}-${offset + length - 1}/${part.size}`);
				headers.set("Content-Length", String(length));
				return new Response(part.body, { status: 206, headers });
			}
		}
	},
});

function wholeAnswer(headers: Headers, object: R2ObjectBody | null): Response {
	if (object === null) throw gone();
	describe(headers, object);
	headers.set("Content-Length", String(object.size));
	return new Response(object.body, { headers });
}

function describe(headers: Headers, object: R2Object): void {
	headers.set("ETag", object.httpEtag);
	headers.set("Last-Modified", object.uploaded.toUTCString());
	headers.set("Content-Type", object.httpMetadata?.contentType ?? "application/octet-stream");
}

function gone(): ApiError {
	return new ApiError("not_found", "The file was deleted; ask POST /updates again.");
}
