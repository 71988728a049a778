/**
 * How bytes go out: by a signed link, straight from R2 and without a key. The database is asked at most once in two seconds, whether the
 * app still exists (src/db/live-apps.ts), and downloads go on when it does not answer. Objects never change, so a copy may be kept for as
 * long as the link is good. The database is asked as well about an object that is not there: a deleted one is 404, one that a row still
 * names is a fault of ours. R2's own stream is the body, because it has a known length: one that breaks off cuts the connection, while a
 * stream of JavaScript's would end as if it were complete.
 */

import type { AppId } from "../../authz/decide";
import { objectIsNamed } from "../../db/bundles";
import type { Database } from "../../db/client";
import { hasConditions, wantedOf } from "../../domain/conditional-request";
import { ApiError, serviceUnavailable } from "../../errors";
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
	headers: {
		Range: { description: "One range of bytes; anything else is answered with the whole.", example: "bytes=0-1023" },
		"If-Range": { description: "The entity tag that Range is meant for.", example: '"9f86d081884c7d65"' },
		"If-Match": { description: "Entity tags, one of which the file must have.", example: '"9f86d081884c7d65"' },
		"If-None-Match": { description: "Entity tags that the client has.", example: '"9f86d081884c7d65"' },
		"If-Modified-Since": { description: "For clients without entity tags.", example: "Sat, 21 Nov 2026 08:00:00 GMT" },
		"If-Unmodified-Since": {
			description: "For clients without entity tags.",
			example: "Sat, 21 Nov 2026 08:00:00 GMT",
		},
	},
	status: [200, 206, 304],
	response: { contentType: "application/zip", description: "The stored bytes; 206 for a range, 304 when unchanged." },
	errors: ["invalid_signature", "link_expired", "not_found", "precondition_failed", "range_not_satisfiable"],
	// A replica might not know yet that a bundle was deleted.
	consistency: "first-primary",
	example: { query: { expires: "1795248000", signature: "…" } },
	async handle({ deps, db, input, request, nowMs, gather, liveApps, waitUntil }) {
		const key = `${input.params.app}/${input.params.upload}/${input.params.part}`;
		const secondsLeft = verifyLink(deps, "GET", `/files/download/${key}`, input.query, nowMs);
		if (!(await liveApps.isLive(db, input.params.app, waitUntil))) throw fileDeleted();
		const headers = new Headers({
			"Accept-Ranges": "bytes",
			"Cache-Control": `public, max-age=${secondsLeft}, immutable, no-transform`,
			"X-Content-Type-Options": "nosniff",
		});
		const existing = async <Found extends R2Object>(found: Promise<Found | null>): Promise<Found> => {
			const object = await found;
			if (object === null) throw await missing(db, input.params.app, key);
			return object;
		};
		const sent = (bytes: number) => gather.served(input.params.app, key, bytes, waitUntil);
		const whole = async () => {
			const object = await existing(getObject(deps.bundles, key));
			sent(object.size);
			return wholeAnswer(headers, object);
		};
		const isHead = request.method === "HEAD";
		if (!isHead && !hasConditions(request.headers)) return whole();
		const object = await existing(headObject(deps.bundles, key));
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
				if (!isHead) return whole();
				describe(headers, object);
				headers.set("Content-Length", String(object.size));
				return new Response(null, { headers });
			}
			case "range": {
				const { offset, length } = wanted;
				const part = await existing(getObject(deps.bundles, key, { offset, length }));
				describe(headers, part);
				headers.set("Content-Range", `bytes ${offset}-${offset + length - 1}/${part.size}`);
				headers.set("Content-Length", String(length));
				sent(length);
				return new Response(part.body, { status: 206, headers });
			}
		}
	},
});

function wholeAnswer(headers: Headers, object: R2ObjectBody): Response {
	describe(headers, object);
	headers.set("Content-Length", String(object.size));
	return new Response(object.body, { headers });
}

function describe(headers: Headers, object: R2Object): void {
	headers.set("ETag", object.httpEtag);
	headers.set("Last-Modified", object.uploaded.toUTCString());
	headers.set("Content-Type", object.httpMetadata?.contentType ?? "application/octet-stream");
}

/** Rows let go of an object before it is removed, so one that a row names now was lost. */
async function missing(db: Database, appId: string, key: string): Promise<ApiError> {
	const [row] = await db.batch([objectIsNamed(appId as AppId, key)]);
	if (row.rows.length > 0) return serviceUnavailable(new Error(`the object ${key} is not in R2, and a row names it`));
	return fileDeleted();
}

function fileDeleted(): ApiError {
	return new ApiError("not_found", "The file was deleted; ask POST /updates again.");
}
