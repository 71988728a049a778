/**
 * Downloads by a signed link, without a key, from the cache of the data center or from R2
 * (src/storage/edge-cache.ts). The link is verified before the cache is asked, so a link ends at
 * its expiry wherever the bytes come from. The database is asked at most once in two seconds
 * whether the app still exists (src/snapshots/cache.ts), and downloads continue if it does not
 * answer. Objects are immutable, so caches may keep them until the link expires. For a missing
 * object the database decides: a deleted bundle is 404, an object that a row still names is lost
 * (410), so that updaters report a failure. The body is a stream of the platform with a known
 * length, so a broken stream cuts the connection; a JavaScript stream would end as if it were
 * complete.
 */
import type { AppId } from "../../authz/decide";
import { objectIsNamed } from "../../db/bundles";
import type { Database } from "../../db/client";
import type { Deps } from "../../deps";
import { hasConditions, wantedOf } from "../../domain/network/conditional-request";
import { ApiError } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { linkQuery } from "../../http/schemas";
import type { ObjectFacts } from "../../storage/edge-cache";
import { verifyLink } from "../../storage/links";

export const downloadObject = endpoint({
	method: "GET",
	path: "/files/download/:app/:upload/:part",
	tag: "Downloads",
	summary: "Download a bundle or a file of one",
	description: "Use a link from POST /updates. Supports a single Range, If-Range and the conditional headers.",
	access: {
		public: "The signature in the link is checked instead; links are created for devices that may have the bundle.",
	},
	query: linkQuery,
	headers: {
		Range: { description: "One range of bytes; any other value gets the whole file.", example: "bytes=0-1023" },
		"If-Range": { description: "The entity tag that Range is meant for.", example: '"9f86d081884c7d65"' },
		"If-Match": { description: "Entity tags; the file must have one of them.", example: '"9f86d081884c7d65"' },
		"If-None-Match": { description: "Entity tags that the client has.", example: '"9f86d081884c7d65"' },
		"If-Modified-Since": { description: "For clients without entity tags.", example: "Sat, 21 Nov 2026 08:00:00 GMT" },
		"If-Unmodified-Since": {
			description: "For clients without entity tags.",
			example: "Sat, 21 Nov 2026 08:00:00 GMT",
		},
	},
	status: [200, 206, 304],
	response: { contentType: "application/zip", description: "The stored bytes; 206 for a range, 304 when unchanged." },
	errors: [
		"invalid_signature",
		"link_expired",
		"not_found",
		"bytes_lost",
		"precondition_failed",
		"range_not_satisfiable",
	],
	// A replica may still have a deleted bundle.
	example: { query: { expires: "1795248000", signature: "…" } },
	async handle({ deps, db, input, request, nowMs, eventBuffer, snapshots, edgeCache, waitUntil }) {
		const key = `${input.params.app}/${input.params.upload}/${input.params.part}`;
		const secondsLeft = await verifyLink(deps, "GET", `/files/download/${key}`, input.query, nowMs);
		if (!(await snapshots.isLive(db, input.params.app, waitUntil))) throw fileDeleted();
		const headers = new Headers({
			"Accept-Ranges": "bytes",
			"Cache-Control": `public, max-age=${secondsLeft}, immutable, no-transform`,
			"X-Content-Type-Options": "nosniff",
		});
		const reader = { host: new URL(request.url).host, waitUntil };
		const existing = async <Found>(found: Promise<Found | null>): Promise<Found> => {
			const object = await found;
			if (object === null) throw await missing(deps, db, input.params.app, key);
			return object;
		};
		const sent = (bytes: number) => eventBuffer.addServed(input.params.app, key, bytes, waitUntil);
		const whole = async () => {
			const object = await existing(edgeCache.whole(reader, key));
			sent(object.sizeBytes);
			describe(headers, object);
			headers.set("Content-Length", String(object.sizeBytes));
			return new Response(object.body, { headers });
		};
		const isHead = request.method === "HEAD";
		if (!isHead && !hasConditions(request.headers)) return whole();
		const object = await existing(edgeCache.facts(reader, key));
		const wanted = wantedOf(request.headers, object, !isHead);
		switch (wanted.kind) {
			case "precondition_failed":
				throw new ApiError(
					"precondition_failed",
					"The file does not match the condition; download it again without the condition.",
				);
			case "unsatisfiable":
				throw new ApiError(
					"range_not_satisfiable",
					`The file has ${object.sizeBytes} bytes; ask for a range within it.`,
					{
						headers: { "Content-Range": `bytes */${object.sizeBytes}` },
					},
				);
			case "not_modified":
				describe(headers, object);
				return new Response(null, { status: 304, headers });
			case "whole": {
				if (!isHead) return whole();
				describe(headers, object);
				headers.set("Content-Length", String(object.sizeBytes));
				return new Response(null, { headers });
			}
			case "range": {
				const { offset, length } = wanted;
				const part = await existing(edgeCache.range(reader, key, { offset, length }));
				describe(headers, part);
				headers.set("Content-Range", `bytes ${offset}-${offset + length - 1}/${part.sizeBytes}`);
				headers.set("Content-Length", String(length));
				sent(length);
				return new Response(part.body, { status: 206, headers });
			}
		}
	},
});

function describe(headers: Headers, object: ObjectFacts): void {
	headers.set("ETag", object.etag);
	headers.set("Last-Modified", new Date(object.modifiedMs).toUTCString());
	headers.set("Content-Type", object.contentType);
}

/**
 * A row drops its reference before the object is removed, so a missing object that a row names was
 * lost.
 */
async function missing({ log }: Pick<Deps, "log">, db: Database, appId: string, key: string): Promise<ApiError> {
	const [row] = await db.batch([objectIsNamed(appId as AppId, key)]);
	if (row.rows.length === 0) return fileDeleted();
	log("error", "bytes_lost", { key });
	return new ApiError(
		"bytes_lost",
		"The server has lost this file. Upload the same bundle again, or release another one.",
	);
}

function fileDeleted(): ApiError {
	return new ApiError("not_found", "The file was deleted; get a new link with POST /updates.");
}
