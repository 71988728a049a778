/**
 * PUT to a signed link: the bytes of a registered bundle in one request. They stream to R2, so
 * memory stays flat.
 */
import { holds } from "../../authz/decide";
import { bindingsFrom, grantsOf } from "../../authz/principal";
import { guard } from "../../db/client";
import { type UploaderRow, uploaderStatement } from "../../db/principals";
import { storageOfOrganization } from "../../db/quotas";
import { type UploadWithBundle, uploadByLink, uploaderMayUpload } from "../../db/uploads";
import type { Deps } from "../../deps";
import { isInRanges } from "../../domain/network/ip-allow-list";
import { ApiError, invalidRequest } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { quotaExceeded } from "../../http/quotas";
import { acknowledgement, linkQuery, OK } from "../../http/schemas";
import { verifyLink } from "../../storage/links";
import {
	flaggedObjectKey,
	headObject,
	putOnce,
	putOnceHashing,
	sha256OfObject,
	sha256OfStream,
	wholeObjectKey,
} from "../../storage/objects";
import { SIGNATURE_ERRORS } from "../signing/verify";
import { receivedSha256 } from "./check";
import { BUNDLE_CONTENT_TYPE, expectedSha256, finishUpload, type Received, receivedSoFar } from "./complete";
import { storeLost } from "./lost-bytes";
import {
	bundleAlreadyReady,
	type CompletionContext,
	checksumMismatch,
	refuse,
	sizeMismatch,
	tooLarge,
	uploadNotFound,
} from "./upload-errors";

export const uploadOnce = endpoint({
	method: "PUT",
	path: "/files/upload/one/:id",
	tag: "Uploads",
	summary: "Upload a registered bundle in one request",
	description: "Use the `upload_url` of POST /bundle. The body is the zip file itself, with a Content-Length.",
	access: {
		public: "The signature in the link proves that a caller with app.upload_bundle asked for it.",
		isProven: true,
	},
	query: linkQuery,
	rawBody: { contentType: "application/zip", description: "The zip file." },
	response: acknowledgement,
	errors: [
		"invalid_signature",
		"link_expired",
		"upload_not_found",
		"length_required",
		"payload_too_large",
		"size_mismatch",
		"checksum_mismatch",
		"bundle_invalid",
		"bundle_already_ready",
		...SIGNATURE_ERRORS,
		"upload_in_progress",
		"quota_exceeded",
	],
	example: { query: { expires: "1795248000", signature: "…" }, response: OK },
	load: (input, nowMs) => ({
		upload: uploadByLink(input.params.id),
		uploader: uploaderStatement({ uploadId: input.params.id, nowMs }),
	}),
	async handle(context) {
		const { deps, input, loaded, nowMs, request } = context;
		await verifyLink(deps, "PUT", `/files/upload/one/${input.params.id}`, input.query, nowMs);
		const [upload] = loaded.upload;
		if (upload === undefined || !mayStillUpload(loaded.uploader[0], nowMs, context.actor.ipAddress))
			throw uploadNotFound();
		const { body, sizeBytes } = sizedBody(request);
		if (upload.completed_at_ms !== null) {
			// Idempotent: the answer to an earlier try was lost, and these are the same bytes.
			if (upload.bundle_status === "deleted") throw uploadNotFound();
			if (await storeLost(deps, upload, body)) return OK;
			const sent = await sha256OfStream(body);
			if (sent !== upload.bundle_sha256 && sent !== (await sentBefore(deps, upload))) throw bundleAlreadyReady();
			return OK;
		}
		const completion = { ...context, actor: { ...context.actor, ...auditedUploader(upload) } };
		const { quotas } = deps.config;
		const addsBytes = upload.bundle_size_bytes === null ? sizeBytes : 0;
		if (addsBytes > 0 && upload.stored_bytes + addsBytes > quotas.storage_bytes_per_organization) {
			const quota = storageOfOrganization(upload.owner_org);
			throw await refuse(completion, upload, quotaExceeded(quota, quotas, upload.stored_bytes));
		}
		if (sizeBytes > deps.config.maxBundleBytes) {
			throw await refuse(completion, upload, tooLarge(deps.config.maxBundleBytes));
		}
		if (upload.bundle_size_bytes !== null && upload.bundle_size_bytes !== sizeBytes) {
			throw await refuse(completion, upload, sizeMismatch(upload.bundle_size_bytes, sizeBytes));
		}
		const received = await storeWhole(completion, upload, body, sizeBytes);
		// The bytes may have taken long, and the right may have ended.
		const guards = [guard(uploaderMayUpload(upload.id, deps.now()), uploadNotFound)];
		await finishUpload({ ...completion, guards }, upload, received);
		return OK;
	},
});

/**
 * The SHA-256 of the bytes that an earlier request sent, if devices get a corrected copy of them.
 */
async function sentBefore(deps: Pick<Deps, "bundles">, upload: UploadWithBundle): Promise<string | undefined> {
	return receivedSha256(await headObject(deps.bundles, flaggedObjectKey(upload.object_prefix)));
}

/**
 * Whether the uploader may still upload to the app: a link grants no more than the caller who got
 * it may do when it is used, and from where.
 */
function mayStillUpload(row: UploaderRow | undefined, nowMs: number, ipAddress: string | null): boolean {
	if (row === undefined || row.job_is_live === 0 || row.link_expires_at_ms <= nowMs) return false;
	if (row.ip_allow_list !== null && !isInRanges(JSON.parse(row.ip_allow_list), ipAddress)) return false;
	const target = { orgId: row.owner_org, appId: row.app_id };
	if (row.created_by_key === null) {
		return holds({ bindings: bindingsFrom(row.account_bindings, () => undefined) }, "app.upload_bundle", target);
	}
	if (row.key_id === null) return false;
	const bindings = grantsOf(row, row.key_bindings, nowMs);
	return typeof bindings !== "string" && holds({ bindings }, "app.upload_bundle", target);
}

/**
 * Stores the body as one object. R2 checks the SHA-256 if it is known; otherwise the bytes are
 * hashed as they stream by.
 */
async function storeWhole(
	context: CompletionContext,
	upload: UploadWithBundle,
	body: ReadableStream<Uint8Array>,
	sizeBytes: number,
): Promise<Received> {
	const bucket = context.deps.bundles;
	const objectKey = wholeObjectKey(upload.object_prefix);
	const expected = expectedSha256(upload);
	const result =
		expected === undefined
			? await putOnceHashing(bucket, objectKey, body, sizeBytes, { contentType: BUNDLE_CONTENT_TYPE })
			: {
					...(await putOnce(bucket, objectKey, body, { contentType: BUNDLE_CONTENT_TYPE, sha256: expected })),
					sha256: expected,
				};
	if (result.outcome === "checksum_mismatch") throw await refuse(context, upload, checksumMismatch());
	if (result.outcome === "stored") {
		return { receivedBytes: result.sizeBytes, objectKey, inSegments: false, sha256: result.sha256 };
	}
	// An earlier or concurrent request stored the object. It must have sent the same bytes.
	if (expected === undefined && (await sha256OfObject(bucket, objectKey)) !== result.sha256) {
		throw new ApiError(
			"upload_in_progress",
			"Another request sent different bytes to this link; register the version again to replace them.",
		);
	}
	return receivedSoFar(context.deps, upload);
}

/** The audit log names the key or account that asked for the link. */
function auditedUploader({
	created_by,
	created_by_key,
	uploader_name,
}: UploadWithBundle & { readonly uploader_name: string }) {
	const [type, id] = created_by_key === null ? (["user", created_by] as const) : (["api_key", created_by_key] as const);
	return { type, id, name: uploader_name };
}

function sizedBody(request: Request): { body: ReadableStream<Uint8Array>; sizeBytes: number } {
	const header = request.headers.get("content-length");
	if (header === null || !/^\d{1,15}$/.test(header)) {
		throw new ApiError("length_required", "Send a Content-Length; chunked bodies of unknown length are not stored.");
	}
	const sizeBytes = Number(header);
	if (sizeBytes === 0 || request.body === null) {
		throw invalidRequest([{ path: "", message: "The body is empty; send the zip file as the body." }]);
	}
	return { body: request.body as ReadableStream<Uint8Array>, sizeBytes };
}
