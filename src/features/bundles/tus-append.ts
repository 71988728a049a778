/**
 * Receives the bytes of a resumable upload. Memory holds one segment, which is counted
 * (src/http/limits/memory.ts); every segment that arrived is stored, so a lost connection costs at
 * most one segment.
 */

import { isOwnWork } from "../../authz/own-work";
import type { Principal } from "../../authz/principal";
import { query } from "../../db/client";
import { type UploadWithBundle, uploadById } from "../../db/uploads";
import { ApiError } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { untilSilent } from "../../http/limits/silent-body";
import type { ScopeSource } from "../../http/scope";
import { putOnce, segmentKey } from "../../storage/objects";
import { SIGNATURE_ERRORS } from "../signing/verify";
import { BUNDLE_CONTENT_TYPE, FILE_CONTENT_TYPE, finishUpload, receivedSoFar } from "./complete";
import {
	MOST_SEGMENTS,
	requireTus,
	SEGMENT_BYTES,
	TUS_ANSWER,
	TUS_HEADER,
	type TusScopeRow,
	tusResponse,
	wholeNumber,
} from "./tus-protocol";
import { type CompletionContext, duringUpload, tooLarge, uploadNotFound } from "./upload-errors";

const appOfUpload: ScopeSource<TusScopeRow> = {
	statement: (raw) =>
		query
			.selectFrom("uploads")
			.innerJoin("apps", "apps.id", "uploads.app_id")
			.select(["apps.id", "apps.app_id", "apps.owner_org"])
			.where("uploads.id", "=", raw.params.id ?? "")
			.compile(),
	target: (row) => ({ orgId: row.owner_org, appId: row.id }),
	hidden: uploadNotFound,
};

/** A single file belongs to no preview, so the upload of a job is its own only. */
const isOwnUpload = (upload: UploadWithBundle, caller: Principal): boolean =>
	upload.created_by_job === null
		? isOwnWork(upload, caller)
		: upload.created_by_job === caller.secretHash && upload.created_by_key === caller.keyId;

/** @throws {ApiError} `upload_not_found` unless it is a resumable upload of this caller */
function ownUpload(
	upload: UploadWithBundle | undefined,
	caller: Principal,
): UploadWithBundle & { readonly length_bytes: number } {
	if (upload === undefined || !isOwnUpload(upload, caller) || upload.length_bytes === null) throw uploadNotFound();
	return { ...upload, length_bytes: upload.length_bytes };
}

export const tusStatus = endpoint({
	method: "GET",
	path: "/files/upload/attachments/:id",
	tag: "Uploads",
	summary: "Show how much of a resumable upload has arrived (TUS HEAD)",
	description:
		"Send HEAD. If all bytes have arrived and only the completion is missing, this request completes the upload.",
	access: { permission: "app.upload_bundle", scope: appOfUpload },
	headers: TUS_HEADER,
	response: TUS_ANSWER,
	errors: [
		"quota_exceeded",
		"upload_not_found",
		"unsupported_tus_version",
		"size_mismatch",
		"checksum_mismatch",
		"bundle_invalid",
		"bundle_already_ready",
		"delta_hash_mismatch",
		...SIGNATURE_ERRORS,
	],
	example: {},
	load: (input) => ({ upload: uploadById(input.params.id) }),
	async handle(context) {
		requireTus(context.request.headers);
		const upload = ownUpload(context.loaded.upload[0], context.principal);
		const { offset } = await finishIfWhole(context, upload);
		return tusResponse(200, {
			"Upload-Offset": String(offset),
			"Upload-Length": String(upload.length_bytes),
			"Upload-Expires": new Date(upload.expires_at_ms).toUTCString(),
		});
	},
});

/** The offset of the upload. Completes the upload if only the completion is missing. */
async function finishIfWhole(
	context: CompletionContext,
	upload: UploadWithBundle & { readonly length_bytes: number },
): Promise<{ readonly offset: number; readonly segments: number }> {
	if (upload.completed_at_ms !== null) return { offset: upload.length_bytes, segments: 0 };
	const received = await receivedSoFar(context.deps, upload);
	if (received.objectKey !== undefined || received.inSegments) await finishUpload(context, upload, received);
	return { offset: received.receivedBytes, segments: received.segments ?? 0 };
}

export const tusAppend = endpoint({
	method: "PATCH",
	path: "/files/upload/attachments/:id",
	tag: "Uploads",
	summary: "Send the next bytes of a resumable upload (TUS PATCH)",
	description: [
		"The last byte completes the bundle: its size, its SHA-256 and the zip are checked.",
		"A bundle that fails a check is refused and its version is free again.",
		"A POST with the header `X-HTTP-Method-Override: PATCH` does the same.",
	],
	access: { permission: "app.upload_bundle", scope: appOfUpload },
	headers: {
		...TUS_HEADER,
		"Upload-Offset": { description: "Offset of the first sent byte.", required: true, example: "0" },
	},
	rawBody: { contentType: "application/offset+octet-stream", description: "The next bytes of the file." },
	status: [204],
	response: TUS_ANSWER,
	errors: [
		"quota_exceeded",
		"upload_not_found",
		"unsupported_tus_version",
		"upload_offset_conflict",
		"unsupported_media_type",
		"payload_too_large",
		"size_mismatch",
		"checksum_mismatch",
		"bundle_invalid",
		"bundle_already_ready",
		"delta_hash_mismatch",
		...SIGNATURE_ERRORS,
	],
	example: {},
	load: (input) => ({ upload: uploadById(input.params.id) }),
	async handle(context) {
		const { request } = context;
		requireTus(request.headers);
		if (request.headers.get("content-type") !== "application/offset+octet-stream") {
			throw new ApiError("unsupported_media_type", "Send content-type: application/offset+octet-stream.");
		}
		const upload = ownUpload(context.loaded.upload[0], context.principal);
		const claimed = wholeNumber(request.headers, "upload-offset");
		const expires = { "Upload-Expires": new Date(upload.expires_at_ms).toUTCString() };
		const { offset, segments } = await finishIfWhole(context, upload);
		if (claimed !== offset) throw offsetConflict(offset);
		if (offset === upload.length_bytes) return tusResponse(204, { "Upload-Offset": String(offset), ...expires });
		if (offset + Number(request.headers.get("content-length") ?? 0) > upload.length_bytes) {
			throw tooLarge(upload.length_bytes);
		}
		if (segments + Math.ceil((upload.length_bytes - offset) / SEGMENT_BYTES) > MOST_SEGMENTS) throw tooManyPieces();
		const storing = storeSegments(context, upload, offset, request);
		// If the connection breaks off, the received bytes are still stored.
		context.waitUntil(storing.catch(() => undefined));
		const end = await storing;
		if (end === upload.length_bytes) {
			const single = offset === 0 && end <= SEGMENT_BYTES;
			await finishUpload(context, upload, {
				receivedBytes: end,
				objectKey: single ? segmentKey(upload.object_prefix, 0) : undefined,
				inSegments: !single,
			});
		}
		return tusResponse(204, { "Upload-Offset": String(end), ...expires });
	},
});

/** The error if another request stored bytes at the same offset first. */
async function takenOffset(bucket: R2Bucket, upload: UploadWithBundle): Promise<ApiError> {
	return offsetConflict((await receivedSoFar({ bundles: bucket }, upload)).receivedBytes);
}

function offsetConflict(offset: number): ApiError {
	return new ApiError(
		"upload_offset_conflict",
		`The upload is at byte ${offset}; send the bytes from there (HEAD shows the offset).`,
		{
			moreInfo: { offset },
			headers: { "Upload-Offset": String(offset) },
		},
	);
}

/**
 * A segment that fills slowly is stored as far as it is, so that it does not hold memory for long.
 */
const SEGMENT_LIFETIME_MS = 60_000;

/**
 * Stores the body in segments. Each is created once under its offset, so the bytes of two writers
 * never mix. A body that breaks off or falls silent is not an error: the received bytes are kept,
 * and the client continues after them.
 * @returns the offset after the last stored byte
 */
async function storeSegments(
	{ deps, memory, waitUntil }: Pick<CompletionContext, "deps" | "memory" | "waitUntil">,
	upload: UploadWithBundle & { readonly length_bytes: number },
	start: number,
	{ headers, body: sent }: Request,
): Promise<number> {
	const body = sent as ReadableStream<Uint8Array> | null;
	if (body === null || start === upload.length_bytes) return start;
	const sentBytes = Number(headers.get("content-length") ?? SEGMENT_BYTES);
	const bytes = Math.min(SEGMENT_BYTES, upload.length_bytes - start, Math.max(1, sentBytes));
	return duringUpload({ memory, waitUntil }, upload, bytes, async (holding) => {
		let offset = start;
		const buffer = new Uint8Array(bytes);
		let filled = 0;
		let endsAtMs = deps.now() + SEGMENT_LIFETIME_MS;
		const flush = async () => {
			if (filled === 0) return;
			const segment = buffer.subarray(0, filled);
			const { outcome } = await putOnce(deps.bundles, segmentKey(upload.object_prefix, offset), segment, {
				contentType: upload.bundle_id === null ? FILE_CONTENT_TYPE : BUNDLE_CONTENT_TYPE,
			});
			if (outcome !== "stored") throw await takenOffset(deps.bundles, upload);
			offset += filled;
			filled = 0;
			endsAtMs = deps.now() + SEGMENT_LIFETIME_MS;
			holding.goesOn();
		};
		try {
			for await (const chunk of untilSilent(body, deps.deadline, holding)) {
				let rest = chunk;
				if (offset + filled + rest.length > upload.length_bytes) throw tooLarge(upload.length_bytes);
				while (rest.length > 0) {
					const fitting = rest.subarray(0, buffer.length - filled);
					buffer.set(fitting, filled);
					filled += fitting.length;
					rest = rest.subarray(fitting.length);
					if (filled === buffer.length || deps.now() >= endsAtMs) await flush();
				}
			}
		} catch (error) {
			if (error instanceof ApiError) throw error;
		}
		await flush();
		return offset;
	});
}

function tooManyPieces(): ApiError {
	return new ApiError(
		"payload_too_large",
		`The upload has too many segments; start it again and send at least ${SEGMENT_BYTES} bytes in each request.`,
		{ moreInfo: { limitPieces: MOST_SEGMENTS } },
	);
}
