/**
 * How bytes come in: in one request to a signed link, or in pieces by TUS 1.0 (https://tus.io/protocols/resumable-upload). Bodies
 * stream through a buffer of one segment, so memory stays flat; a TUS upload keeps every segment that arrived, so a lost connection
 * costs at most that much.
 */
import * as v from "valibot";
import { isOwnWork, type Principal } from "../../authz/principal";
import { bundleByName } from "../../db/bundles";
import { query } from "../../db/client";
import { appIdOf } from "../../db/public-app-id";
import { storageOfOrganization, uploadQuotas } from "../../db/quotas";
import {
	insertUpload,
	ownDeltaPath,
	type UploadWithBundle,
	uploadById,
	uploadByLink,
	upsertDeltaObject,
} from "../../db/uploads";
import { promisedContent } from "../../domain/delta-path";
import { ApiError, invalidRequest } from "../../errors";
import { verifyLink } from "../../storage/links";
import {
	emptyObjectKey,
	putOnce,
	putOnceHashing,
	segmentKey,
	sha256OfObject,
	sha256OfStream,
	uploadPrefix,
	wholeObjectKey,
} from "../../storage/objects";
import { PENDING_LIFETIME_MS, replaceUploadStatements } from "../bundle-registration";
import { SIGNATURE_ERRORS } from "../bundle-signing";
import { type Context, endpoint } from "../endpoint";
import { batchInQuotas, quotaExceeded } from "../quotas";
import { acknowledgement, OK } from "../schemas";
import { appNotFound, bundleNotFound, hiddenAs, type RawInput, type ScopeSource } from "../scope";
import {
	BUNDLE_CONTENT_TYPE,
	bundleAlreadyReady,
	type CompletionContext,
	checksumMismatch,
	deltaHashMismatch,
	expectedSha256,
	FILE_CONTENT_TYPE,
	finishUpload,
	keepsPromise,
	type Received,
	receivedSoFar,
	refuse,
	refuseRegistration,
	sizeMismatch,
} from "../upload-completion";

const uploadNotFound = hiddenAs(
	"upload_not_found",
	"There is no such upload for this caller; it was given up, or belongs to another one: start a new one.",
);

/** The headers of a signed link, as its query carries them. */
export const linkQuery = v.object({
	// A link without them is a link that nobody signed, and is told the same.
	expires: v.pipe(v.optional(v.string(), "0"), v.regex(/^\d{1,12}$/, "must be as in the link")),
	signature: v.optional(v.pipe(v.string(), v.maxLength(64, "must be as in the link")), ""),
});

export const uploadOnce = endpoint({
	method: "PUT",
	path: "/files/upload/one/:id",
	tag: "Uploads",
	summary: "Upload a registered bundle in one request",
	description:
		"The path and query are the `upload_url` that POST /bundle answered with. The body is the zip file itself, with a Content-Length.",
	access: { public: "The signature in the link stands for the key that registered the bundle.", isProven: true },
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
	consistency: "first-primary",
	example: { query: { expires: "1795248000", signature: "…" }, response: OK },
	load: (input, nowMs) => [uploadByLink(input.params.id, nowMs)] as const,
	async handle(context) {
		const { deps, input, loaded, nowMs, request } = context;
		verifyLink(deps, "PUT", `/files/upload/one/${input.params.id}`, input.query, nowMs);
		const [upload] = loaded[0].rows;
		if (upload === undefined) throw uploadNotFound();
		const { body, sizeBytes } = sizedBody(request);
		if (upload.completed_at_ms !== null) {
			// The answer to an earlier try was lost; the same bytes again are no news.
			if (upload.bundle_status === "deleted") throw uploadNotFound();
			if ((await sha256OfStream(body)) !== upload.bundle_sha256) throw bundleAlreadyReady();
			return OK;
		}
		const completion = { ...context, actor: { ...context.actor, ...uploaderOf(upload) } };
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
		await finishUpload(completion, upload, await storeWhole(completion, upload, body, sizeBytes));
		return OK;
	},
});

/** Stores the body as the upload's one object. R2 checks it where the SHA-256 is known, else it is hashed as it streams by. */
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
	// An earlier try stored the object and was interrupted, or another one was faster; it must have sent the same bytes.
	if (expected === undefined && (await sha256OfObject(bucket, objectKey)) !== result.sha256) {
		throw new ApiError(
			"upload_in_progress",
			"Other bytes came by this link before; register the version again to replace them.",
		);
	}
	return receivedSoFar(context.deps, upload);
}

/** Who an upload by link is attributed to: the key or the account that asked for the link. */
function uploaderOf({
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

function tooLarge(limitBytes: number): ApiError {
	return new ApiError("payload_too_large", `The upload has more than ${limitBytes} bytes; make the bundle smaller.`, {
		moreInfo: { limitBytes },
	});
}

function tooManyPieces(): ApiError {
	return new ApiError(
		"payload_too_large",
		`The upload came in too many pieces; begin it anew and send pieces of ${SEGMENT_BYTES} bytes or more.`,
		{ moreInfo: { limitPieces: MOST_SEGMENTS } },
	);
}

const TUS_VERSION = "1.0.0";
const TUS_EXTENSIONS = "creation,expiration";
/** What a lost connection may cost, and what one upload holds in memory. */
const SEGMENT_BYTES = 8 * 1024 * 1024;
/** Every segment is one R2 read when the upload is joined, and a Worker has a limited number of those. */
const MOST_SEGMENTS = 900;
const LONGEST_FILE_NAME = 900;

interface UploadTarget {
	readonly orgId: string;
	readonly appId: string;
	/** Of a zip: the bundle's version. */
	readonly version: string | undefined;
	/** Of a file in the delta store: the whole path. */
	readonly deltaPath: string | undefined;
}

/** What `filename` in Upload-Metadata names: `orgs/<org>/apps/<app>/<version>.zip` or `orgs/<org>/apps/<app>/delta/…`. */
function targetOf(headers: Headers): UploadTarget | undefined {
	for (const pair of (headers.get("upload-metadata") ?? "").split(",")) {
		const [name, encoded] = pair.trim().split(" ");
		if (name !== "filename" || encoded === undefined) continue;
		const path = fromBase64(encoded);
		const match = path === undefined ? null : /^orgs\/([^/]+)\/apps\/([^/]+)\/(.+)$/.exec(path);
		if (path === undefined || match === null || path.length > LONGEST_FILE_NAME) return undefined;
		const [, orgId = "", appId = "", file = ""] = match;
		if (file.startsWith("delta/")) return { orgId, appId, version: undefined, deltaPath: path };
		return file.endsWith(".zip") ? { orgId, appId, version: file.slice(0, -4), deltaPath: undefined } : undefined;
	}
	return undefined;
}

function fromBase64(text: string): string | undefined {
	try {
		return new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(
			Uint8Array.from(atob(text), (char) => char.charCodeAt(0)),
		);
	} catch {
		return undefined;
	}
}

interface TusScopeRow {
	readonly id: string;
	readonly app_id: string;
	readonly owner_org: string;
}

const appOfNewUpload: ScopeSource<TusScopeRow> = {
	statement: (raw: RawInput) => {
		const target = targetOf(raw.headers);
		// Without a usable filename no app is named: nothing is found, as for an app that is not there.
		return query
			.selectFrom("apps")
			.select(["id", "app_id", "owner_org"])
			.where("id", "=", appIdOf(target?.appId ?? ""))
			.where("owner_org", "=", target?.orgId ?? "")
			.compile();
	},
	target: (row) => ({ orgId: row.owner_org, appId: row.id }),
	hidden: appNotFound,
};

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

function tusResponse(status: number, headers: Record<string, string>): Response {
	return new Response(null, {
		status,
		headers: { "Tus-Resumable": TUS_VERSION, "Cache-Control": "no-store", ...headers },
	});
}

function requireTus(headers: Headers): void {
	if (headers.get("tus-resumable") === TUS_VERSION) return;
	throw new ApiError("unsupported_tus_version", `Send the header Tus-Resumable: ${TUS_VERSION}.`, {
		headers: { "Tus-Version": TUS_VERSION },
	});
}

/** A header that must be a whole number. */
function wholeNumber(headers: Headers, name: string): number {
	const value = headers.get(name) ?? "";
	if (!/^\d{1,15}$/.test(value)) {
		throw invalidRequest([
			{ path: `headers.${name}`, message: "must be a whole number of bytes", received: value.slice(0, 40) },
		]);
	}
	return Number(value);
}

const TUS_HEADER = {
	"Tus-Resumable": { description: "The version of the protocol.", required: true, example: TUS_VERSION },
} as const;

const TUS_ANSWER = { contentType: "application/offset+octet-stream", description: "No body; the headers of TUS 1.0." };

export const tusCapabilities = endpoint({
	method: "OPTIONS",
	path: "/files/upload/attachments",
	tag: "Uploads",
	summary: "What the TUS endpoint can do",
	access: { public: "It tells the protocol version and the size limit, which documentation tells too." },
	status: [204],
	response: TUS_ANSWER,
	errors: [],
	example: {},
	async handle({ deps }) {
		return tusResponse(204, {
			"Tus-Version": TUS_VERSION,
			"Tus-Extension": TUS_EXTENSIONS,
			"Tus-Max-Size": String(Math.min(deps.config.maxBundleBytes, MOST_SEGMENTS * SEGMENT_BYTES)),
		});
	},
});

export const tusCreate = endpoint({
	method: "POST",
	path: "/files/upload/attachments",
	tag: "Uploads",
	summary: "Begin a resumable upload (TUS creation)",
	description:
		"`Upload-Metadata` holds `filename`, base64 of `orgs/<org id>/apps/<app_id>/<version>.zip` for a bundle that was registered with POST /bundle.",
	access: { permission: "app.upload_bundle", scope: appOfNewUpload },
	headers: {
		...TUS_HEADER,
		"Upload-Length": { description: "Bytes of the whole file.", required: true, example: "1048576" },
		"Upload-Metadata": {
			description: "`filename` and the base64 of where the file belongs.",
			required: true,
			example:
				"filename b3Jncy9iN2MxZDNkZS04ZjVhLTRmNDMtOTNkMy0xYjBmNmE0YzllMjEvYXBwcy9jb20uZXhhbXBsZS5hcHAvMS40LjAuemlw",
		},
	},
	status: [201],
	response: TUS_ANSWER,
	errors: [
		"unsupported_tus_version",
		"bundle_not_found",
		"bundle_already_ready",
		"bundle_already_exists",
		"size_mismatch",
		"payload_too_large",
		"quota_exceeded",
		"delta_hash_mismatch",
	],
	example: {},
	load: ({ headers }) => {
		const target = targetOf(headers);
		return [bundleByName(target?.appId ?? "", target?.version ?? "")] as const;
	},
	async handle(context) {
		const { deps, db, request, scope, principal, loaded, nowMs, origin } = context;
		requireTus(request.headers);
		const target = targetOf(request.headers);
		if (target === undefined) throw appNotFound();
		const lengthBytes = wholeNumber(request.headers, "upload-length");
		const limitBytes = Math.min(deps.config.maxBundleBytes, MOST_SEGMENTS * SEGMENT_BYTES);
		const id = deps.newId();
		const isPreview = context.ownWorkOnly("app.upload_bundle") !== undefined;
		if (target.version === undefined) {
			if (lengthBytes > limitBytes) throw tooLarge(limitBytes);
			const path = target.deltaPath ?? "";
			const apart = isPreview || promisedContent(path) === undefined;
			const stored = apart ? ownDeltaPath(path, principal.keyId ?? principal.userId) : path;
			await beginFile(context, id, stored, lengthBytes, isPreview);
		} else {
			const [bundle] = loaded[0].rows;
			if (bundle === undefined) throw bundleNotFound();
			if (bundle.status !== "pending") throw bundleAlreadyReady();
			if (!isOwnWork(bundle, principal)) {
				throw new ApiError("bundle_already_exists", "Somebody else is uploading this version; choose another version.");
			}
			if (lengthBytes === 0) throw invalidRequest([{ path: "headers.upload-length", message: "must be positive" }]);
			if (lengthBytes > limitBytes) {
				throw await refuseRegistration(context, scope.appId, bundle.id, tooLarge(limitBytes));
			}
			if (bundle.size_bytes !== null && bundle.size_bytes !== lengthBytes) {
				throw await refuseRegistration(context, scope.appId, bundle.id, sizeMismatch(bundle.size_bytes, lengthBytes));
			}
			const reservedBytes = bundle.size_bytes === null ? lengthBytes : 0;
			await batchInQuotas(
				db,
				deps.config.quotas,
				uploadQuotas(scope, principal, nowMs, isPreview),
				replaceUploadStatements(scope.appId, bundle.id, id, lengthBytes, principal, nowMs, reservedBytes),
				{ bundle_pending: bundleNotFound },
			);
		}
		return tusResponse(201, {
			Location: `${origin}/files/upload/attachments/${id}`,
			"Upload-Offset": "0",
			"Upload-Expires": new Date(nowMs + PENDING_LIFETIME_MS).toUTCString(),
		});
	},
});

type TusContext = Pick<
	Context<string, undefined, undefined, TusScopeRow, readonly []>,
	"deps" | "db" | "scope" | "principal" | "nowMs"
>;

/** Begins a file of the delta store. An empty one has no bytes to wait for and is stored at once. */
async function beginFile(
	context: TusContext,
	id: string,
	path: string,
	lengthBytes: number,
	isPreview: boolean,
): Promise<void> {
	const { deps, db, scope, principal, nowMs } = context;
	const begin = insertUpload({
		id,
		app_id: scope.appId,
		bundle_id: null,
		delta_path: path,
		object_prefix: uploadPrefix(scope.appId, id),
		length_bytes: lengthBytes,
		created_by: principal.userId,
		created_by_key: principal.keyId,
		completed_at_ms: lengthBytes === 0 ? nowMs : null,
		expires_at_ms: nowMs + PENDING_LIFETIME_MS,
		created_at_ms: nowMs,
		reserved_bytes: lengthBytes,
	});
	if (lengthBytes > 0) {
		await batchInQuotas(db, deps.config.quotas, uploadQuotas(scope, principal, nowMs, isPreview), [begin]);
		return;
	}
	// The client sends nothing more for a file of no bytes, so it is complete now.
	const objectKey = emptyObjectKey(scope.appId);
	await putOnce(deps.bundles, objectKey, new Uint8Array(), { contentType: FILE_CONTENT_TYPE });
	if (!(await keepsPromise(deps, path, objectKey))) throw deltaHashMismatch();
	await db.batch([begin, upsertDeltaObject(scope.appId, { path, objectKey, sizeBytes: 0 }, nowMs)]);
}

/** The caller's own resumable upload. */
function ownUpload(
	upload: UploadWithBundle | undefined,
	caller: Pick<Principal, "userId" | "keyId">,
): UploadWithBundle & { readonly length_bytes: number } {
	if (upload === undefined || !isOwnWork(upload, caller) || upload.length_bytes === null) throw uploadNotFound();
	return { ...upload, length_bytes: upload.length_bytes };
}

export const tusStatus = endpoint({
	method: "GET",
	path: "/files/upload/attachments/:id",
	tag: "Uploads",
	summary: "Ask how much of a resumable upload has arrived (TUS HEAD)",
	description: "Ask with HEAD. When every byte is there and only the completion is missing, it is done now.",
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
	load: (input) => [uploadById(input.params.id)] as const,
	async handle(context) {
		requireTus(context.request.headers);
		const upload = ownUpload(context.loaded[0].rows[0], context.principal);
		const { offset } = await finishIfWhole(context, upload);
		return tusResponse(200, {
			"Upload-Offset": String(offset),
			"Upload-Length": String(upload.length_bytes),
			"Upload-Expires": new Date(upload.expires_at_ms).toUTCString(),
		});
	},
});

/** Where the upload stands; one that only lacks its completion gets it. */
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
	description:
		"The last byte completes the bundle: its size, its SHA-256 and the zip are checked. A bundle that fails a check is refused and its version is free again.",
	access: { permission: "app.upload_bundle", scope: appOfUpload },
	headers: {
		...TUS_HEADER,
		"Upload-Offset": { description: "Where the sent bytes begin.", required: true, example: "0" },
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
	load: (input) => [uploadById(input.params.id)] as const,
	async handle(context) {
		const { deps, request } = context;
		requireTus(request.headers);
		if (request.headers.get("content-type") !== "application/offset+octet-stream") {
			throw new ApiError("unsupported_media_type", "Send content-type: application/offset+octet-stream.");
		}
		const upload = ownUpload(context.loaded[0].rows[0], context.principal);
		const claimed = wholeNumber(request.headers, "upload-offset");
		const expires = { "Upload-Expires": new Date(upload.expires_at_ms).toUTCString() };
		const { offset, segments } = await finishIfWhole(context, upload);
		if (claimed !== offset) throw offsetConflict(offset);
		if (offset === upload.length_bytes) return tusResponse(204, { "Upload-Offset": String(offset), ...expires });
		if (offset + Number(request.headers.get("content-length") ?? 0) > upload.length_bytes) {
			throw tooLarge(upload.length_bytes);
		}
		if (segments + Math.ceil((upload.length_bytes - offset) / SEGMENT_BYTES) > MOST_SEGMENTS) throw tooManyPieces();
		const storing = storeSegments(deps.bundles, upload, offset, request.body as ReadableStream<Uint8Array> | null);
		// When the connection breaks off, the rest of what arrived is still stored.
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

/** Another request stored bytes at the same offset first. */
async function takenOffset(bucket: R2Bucket, upload: UploadWithBundle): Promise<ApiError> {
	return offsetConflict((await receivedSoFar({ bundles: bucket }, upload)).receivedBytes);
}

function offsetConflict(offset: number): ApiError {
	return new ApiError(
		"upload_offset_conflict",
		`The upload stands at byte ${offset}; ask with HEAD and go on from there.`,
		{
			moreInfo: { offset },
			headers: { "Upload-Offset": String(offset) },
		},
	);
}

/**
 * Stores the body in segments, each create-once under its offset, so that two writers can never mix; the offset it ended at. A body
 * that breaks off is no error: what arrived is kept, and the client goes on from there.
 */
async function storeSegments(
	bucket: R2Bucket,
	upload: UploadWithBundle & { readonly length_bytes: number },
	start: number,
	body: ReadableStream<Uint8Array> | null,
): Promise<number> {
	let offset = start;
	const buffer = new Uint8Array(Math.min(SEGMENT_BYTES, upload.length_bytes - start));
	let filled = 0;
	const flush = async () => {
		if (filled === 0) return;
		const { outcome } = await putOnce(bucket, segmentKey(upload.object_prefix, offset), buffer.subarray(0, filled), {
			contentType: upload.bundle_id === null ? FILE_CONTENT_TYPE : BUNDLE_CONTENT_TYPE,
		});
		if (outcome !== "stored") throw await takenOffset(bucket, upload);
		offset += filled;
		filled = 0;
	};
	try {
		for await (const chunk of body ?? []) {
			let rest = chunk;
			if (offset + filled + rest.length > upload.length_bytes) throw tooLarge(upload.length_bytes);
			while (rest.length > 0) {
				const part = rest.subarray(0, buffer.length - filled);
				buffer.set(part, filled);
				filled += part.length;
				rest = rest.subarray(part.length);
				if (filled === buffer.length) await flush();
			}
		}
	} catch (error) {
		if (error instanceof ApiError) throw error;
	}
	await flush();
	return offset;
}
