/**
 * The last step of every upload: checks the bytes in R2 and writes the row that points to them.
 * Repeating the step is safe, so a retried request, POST /bundle/complete or a TUS HEAD finishes an
 * upload that a crash interrupted. A bundle that fails a check is dropped with its registration,
 * and its version is free again.
 */
import { sha256 as sha256OfBytes } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import type { AppId } from "../../authz/decide";
import { auditStatement } from "../../db/audit/entries";
import { bundleIsPending, updateBundle } from "../../db/bundles";
import { type Database, guard, type Statement } from "../../db/client";
import { Conflict, conflict } from "../../db/optimistic";
import { type Quota, storageOfOrganization } from "../../db/quotas";
import { bundlesAreSigned } from "../../db/signing-keys";
import { bumpRevision } from "../../db/snapshot";
import {
	completeUpload,
	deleteUpload,
	redundantDeltaObjectToGarbage,
	toGarbage,
	type UploadWithBundle,
	uploadExists,
	uploadIsOpen,
	upsertDeltaObject,
} from "../../db/uploads";
import type { Deps } from "../../deps";
import { promisedContent } from "../../domain/bundles/delta-path";
import type { QuotaLimits } from "../../domain/quotas";
import { ApiError } from "../../errors";
import { batchInQuotas } from "../../http/quotas";
import { collectGarbageSoon } from "../../queue/garbage";
import { memoryOfUnpacking } from "../../storage/brotli";
import {
	flaggedObjectKey,
	headObject,
	joinSegments,
	listSegments,
	putOnce,
	segmentPrefix,
	sha256OfObject,
	sha256OfUnpacked,
	wholeObjectKey,
} from "../../storage/objects";
import {
	bundleNotSigned,
	type Signature,
	type SigningRules,
	signatureRefusal,
	signingRulesOf,
	storedBytes,
	unverified,
	verifySignature,
} from "../signing/verify";
import { checkStoredArchive, memoryOfCheck, storeFlagged } from "./check";
import {
	bundleAlreadyReady,
	type CompletionContext,
	checksumMismatch,
	deltaHashMismatch,
	duringUpload,
	refuse,
	sizeMismatch,
	uploadIsGone,
	whileChecked,
} from "./upload-errors";

export const BUNDLE_CONTENT_TYPE = "application/zip";
export const FILE_CONTENT_TYPE = "application/octet-stream";

/** The bytes of an upload that are in R2. `objectKey` is set if one object holds all of them. */
export interface Received {
	readonly receivedBytes: number;
	readonly objectKey: string | undefined;
	/** True if all bytes are there, still in several segments. */
	readonly inSegments: boolean;
	/** Number of segments; undefined once they are joined. */
	readonly segments?: number;
	/** SHA-256 of the object, if it was computed while the bytes came in. */
	readonly sha256?: string;
}

export async function receivedSoFar(deps: Pick<Deps, "bundles">, upload: UploadWithBundle): Promise<Received> {
	const whole = await headObject(deps.bundles, wholeObjectKey(upload.object_prefix));
	if (whole !== null) return { receivedBytes: whole.size, objectKey: whole.key, inSegments: false };
	if (upload.length_bytes === null) return { receivedBytes: 0, objectKey: undefined, inSegments: false };
	const segments = await listSegments(deps.bundles, upload.object_prefix);
	const receivedBytes = segments.reduce((sum, segment) => sum + segment.sizeBytes, 0);
	const [first] = segments;
	const complete = receivedBytes === upload.length_bytes;
	return {
		receivedBytes,
		objectKey: complete && segments.length === 1 ? first?.key : undefined,
		inSegments: complete && segments.length > 1,
		segments: segments.length,
	};
}

/** Fields that completion adds to a bundle's record. */
export interface Finished {
	readonly checksum: string | null;
	readonly size_bytes: number;
}

/**
 * Checks the received bytes and makes the bundle ready, or the file part of the delta store.
 * @throws {ApiError} `size_mismatch`, `checksum_mismatch`, `bundle_invalid` or a refused signature
 * (the registration is dropped), `delta_hash_mismatch` (the upload is dropped),
 * `bundle_already_ready`, `upload_not_found`
 */
export const finishUpload = (
	context: CompletionContext,
	upload: UploadWithBundle,
	received: Received,
): Promise<Finished> => whileChecked(context, upload, () => checkAndFinish(context, upload, received));

async function checkAndFinish(
	context: CompletionContext,
	upload: UploadWithBundle,
	received: Received,
): Promise<Finished> {
	const { deps } = context;
	if (received.objectKey === undefined && !received.inSegments) throw uploadIsGone();
	if (upload.bundle_size_bytes !== null && upload.bundle_size_bytes !== received.receivedBytes) {
		throw await refuse(context, upload, sizeMismatch(upload.bundle_size_bytes, received.receivedBytes));
	}
	const objectKey = received.objectKey ?? (await assemble(context, upload));
	if (upload.bundle_id === null) {
		const path = upload.delta_path ?? "";
		const check = () => keepsPromise(deps, path, objectKey);
		const bytes = memoryOfPromise(path, received.receivedBytes);
		if (!(await duringUpload(context, upload, bytes, check))) throw await refuseFile(context, upload, objectKey);
		await storeFile(context, upload, objectKey, received.receivedBytes);
		return { checksum: null, size_bytes: received.receivedBytes };
	}
	const sha256 = received.sha256 ?? (await sha256OfObject(deps.bundles, objectKey));
	if (sha256 === null) throw uploadIsGone();
	const expected = expectedSha256(upload);
	if (expected !== undefined && expected !== sha256) throw await refuse(context, upload, checksumMismatch());
	const stored = await checked(context, upload, { objectKey, sha256, sizeBytes: received.receivedBytes });
	const signed = await signatureOfStored(deps, upload, stored.objectKey);
	const refusal = signatureRefusal(signed.rules, signed.signature);
	if (refusal !== undefined) throw await refuse(context, upload, refusal);
	try {
		await makeReady(context, upload, upload.bundle_id, { ...stored, signedBy: signed.signature.signedBy });
	} catch (error) {
		// While the bytes were read, the policy was switched on or the key removed.
		if (!(error instanceof ApiError && error.code === "bundle_not_signed")) throw error;
		throw await refuse(context, upload, unverified(signed.signature.reason));
	}
	return { checksum: upload.bundle_checksum ?? stored.sha256, size_bytes: stored.sizeBytes };
}

interface Stored {
	readonly objectKey: string;
	readonly sha256: string;
	readonly sizeBytes: number;
}

/** The bytes for devices: the received ones, or a copy with the flag that iOS needs. */
async function checked(context: CompletionContext, upload: UploadWithBundle, received: Stored): Promise<Stored> {
	if (upload.bundle_session_key !== null) return received;
	const isFixed = upload.bundle_checksum !== null;
	const check = () => checkStoredArchive(context.deps, received, isFixed, uploadIsGone);
	const bytes = memoryOfCheck(received.sizeBytes);
	const verdict = await duringUpload(context, upload, bytes, check);
	if ("problem" in verdict) throw await refuse(context, upload, verdict.problem);
	const { unflaggedOffsets: offsets } = verdict;
	if (offsets.length === 0) return received;
	const copy = { key: flaggedObjectKey(upload.object_prefix), contentType: BUNDLE_CONTENT_TYPE, offsets };
	return storeFlagged(context.deps, received, copy, uploadIsGone);
}

/**
 * The registered key that verifies the stored bytes. They are read again only if the organization
 * has a key and the bundle is encrypted.
 */
async function signatureOfStored(
	deps: Pick<Deps, "bundles">,
	upload: UploadWithBundle,
	objectKey: string,
): Promise<{ readonly rules: SigningRules; readonly signature: Signature }> {
	const rules = signingRulesOf(upload.signing_rules);
	const facts = { checksum: upload.bundle_checksum, session_key: upload.bundle_session_key };
	return { rules, signature: await verifySignature(rules, facts, storedBytes(deps, objectKey)) };
}

/**
 * The SHA-256 that the bytes must have; an encrypted bundle's checksum is an opaque value about
 * other bytes.
 */
export function expectedSha256(
	upload: Pick<UploadWithBundle, "bundle_checksum" | "bundle_session_key">,
): string | undefined {
	const { bundle_checksum: checksum, bundle_session_key: sessionKey } = upload;
	return checksum !== null && sessionKey === null ? checksum : undefined;
}

/** Joins the segments into one object. R2 checks it if the SHA-256 is known. */
async function assemble(context: CompletionContext, upload: UploadWithBundle): Promise<string> {
	const { deps } = context;
	const key = wholeObjectKey(upload.object_prefix);
	const segments = await listSegments(deps.bundles, upload.object_prefix);
	// Another request may have joined the segments and removed them.
	if (segments.reduce((sum, segment) => sum + segment.sizeBytes, 0) !== upload.length_bytes) throw uploadIsGone();
	const sha256 = upload.bundle_id === null ? undefined : expectedSha256(upload);
	const { outcome } = await putOnce(deps.bundles, key, joinSegments(deps.bundles, segments), {
		contentType: upload.bundle_id === null ? FILE_CONTENT_TYPE : BUNDLE_CONTENT_TYPE,
		...(sha256 === undefined ? {} : { sha256 }),
	});
	if (outcome === "checksum_mismatch") throw await refuse(context, upload, checksumMismatch());
	return key;
}

async function makeReady(
	{ deps, db, nowMs, actor, waitUntil, guards = [] }: CompletionContext,
	upload: UploadWithBundle,
	bundleId: number,
	stored: Stored & { readonly signedBy: string | null },
): Promise<void> {
	const appId = upload.app_id as AppId;
	const isCopy = stored.objectKey === flaggedObjectKey(upload.object_prefix);
	const isInSegments = isCopy ? upload.length_bytes !== null : wasJoined(upload, stored.objectKey);
	const leftovers = [
		...(isInSegments ? [segmentPrefix(upload.object_prefix)] : []),
		...(isCopy ? [wholeObjectKey(upload.object_prefix)] : []),
	];
	// A size that was registered counts already.
	const isNewSize = upload.bundle_size_bytes === null && upload.reserved_bytes === 0;
	await onceOnly(db, deps.config.quotas, isNewSize ? [storageOfOrganization(upload.owner_org)] : [], [
		guard(uploadExists(appId, upload.id), uploadIsGone),
		...guards,
		guard(uploadIsOpen(appId, upload.id), conflict),
		guard(bundleIsPending(appId, bundleId), bundleAlreadyReady),
		updateBundle(appId, bundleId, {
			status: "ready",
			object_key: stored.objectKey,
			sha256: stored.sha256,
			size_bytes: stored.sizeBytes,
			signed_by: stored.signedBy,
			...(upload.bundle_checksum === null ? { checksum: stored.sha256 } : {}),
			expires_at_ms: null,
			updated_at_ms: nowMs,
		}),
		guard(bundlesAreSigned(appId, [bundleId]), bundleNotSigned),
		completeUpload(appId, upload.id, nowMs),
		bumpRevision(appId),
		...leftovers.map((prefix) => toGarbage(prefix, nowMs)),
		auditStatement(actor, nowMs, {
			orgId: upload.owner_org,
			action: "bundle.upload",
			target: { type: "bundle", id: String(bundleId), name: upload.bundle_name ?? "" },
			app: { uuid: appId, id: upload.public_app_id },
			before: { status: "pending" },
			after: { status: "ready", sha256: stored.sha256, size: stored.sizeBytes },
			// The request came with a link, so the key's allowed addresses do not apply to it.
			...(upload.length_bytes === null ? { details: { by_link: true } } : {}),
		}),
	]);
	if (leftovers.length > 0) waitUntil(collectGarbageSoon(deps));
}

/** True if the object was joined from segments, which are then garbage. */
function wasJoined(upload: UploadWithBundle, objectKey: string): boolean {
	return upload.length_bytes !== null && objectKey === wholeObjectKey(upload.object_prefix);
}

/**
 * Runs a completing batch. If another request completed the upload with the same bytes, the outcome
 * is the same.
 */
async function onceOnly(
	db: Database,
	limits: QuotaLimits,
	quotas: readonly Quota[],
	statements: readonly Statement[],
): Promise<void> {
	try {
		await batchInQuotas(db, limits, quotas, statements);
	} catch (error) {
		if (!(error instanceof Conflict)) throw error;
	}
}

/** Memory and work of `keepsPromise`. */
const memoryOfPromise = (path: string, sizeBytes: number): number =>
	promisedContent(path)?.isBrotli === true ? memoryOfUnpacking(sizeBytes) : 0;

/** True if a file of the delta store has the content that the hash in its path names. */
export async function keepsPromise(deps: Pick<Deps, "bundles">, path: string, objectKey: string): Promise<boolean> {
	const promised = promisedContent(path);
	if (promised === undefined) return true;
	const sha256 = promised.isBrotli
		? await sha256OfUnpacked(deps.bundles, objectKey)
		: await sha256OfObject(deps.bundles, objectKey);
	if (sha256 === null) throw uploadIsGone();
	if (sha256 === undefined) return false;
	return sha256 === promised.hash || bytesToHex(sha256OfBytes(utf8ToBytes(sha256))) === promised.hash;
}

/** Drops the upload of a file with everything that it stored, so that the path stays free. */
async function refuseFile(
	{ deps, db, nowMs, waitUntil }: CompletionContext,
	upload: UploadWithBundle,
	objectKey: string,
): Promise<ApiError> {
	const appId = upload.app_id as AppId;
	const path = upload.delta_path ?? "";
	const promised = promisedContent(path);
	const isPacked = promised?.isBrotli === true && (await sha256OfObject(deps.bundles, objectKey)) === promised.hash;
	await db.batch([toGarbage(upload.object_prefix, nowMs), deleteUpload(appId, upload.id)]);
	waitUntil(collectGarbageSoon(deps));
	return deltaHashMismatch(path, isPacked);
}

async function storeFile(
	{ deps, db, nowMs, waitUntil }: CompletionContext,
	upload: UploadWithBundle,
	objectKey: string,
	sizeBytes: number,
): Promise<void> {
	const appId = upload.app_id as AppId;
	const path = upload.delta_path ?? "";
	const joined = wasJoined(upload, objectKey);
	await onceOnly(
		db,
		deps.config.quotas,
		[],
		[
			guard(uploadExists(appId, upload.id), uploadIsGone),
			guard(uploadIsOpen(appId, upload.id), conflict),
			upsertDeltaObject(appId, { path, objectKey, sizeBytes }, nowMs),
			redundantDeltaObjectToGarbage(appId, path, objectKey, upload.object_prefix, nowMs),
			completeUpload(appId, upload.id, nowMs),
			bumpRevision(appId),
			...(joined ? [toGarbage(segmentPrefix(upload.object_prefix), nowMs)] : []),
		],
	);
	if (joined) waitUntil(collectGarbageSoon(deps));
}
