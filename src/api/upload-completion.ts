/**
 * The last step of every upload: all bytes are in R2, now they are checked and the row that points to them is written. It is safe to
 * repeat, and whoever comes by again (a retried request, POST /bundle/complete, a TUS HEAD) finishes what a crash interrupted.
 * A bundle that fails its checks is dropped whole: nothing stays half registered and its name is free.
 */
import { sha256 as sha256OfBytes } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import type { CompiledQuery } from "kysely";
import type { AppId } from "../authz/decide";
import { type Actor, auditStatement } from "../db/audit";
import { auditBundlesGoing } from "../db/bundle-audit";
import { bundleIsPending, dropPendingBundle, pendingBundle, updateBundle } from "../db/bundles";
import { batchOrFail, type Database, GuardFailed, guard } from "../db/client";
import { type Quota, storageOfOrganization } from "../db/quotas";
import { bundlesAreSigned } from "../db/signing-keys";
import { bumpRevision } from "../db/snapshot";
import {
	completeUpload,
	deleteUpload,
	redundantDeltaObjectToGarbage,
	toGarbage,
	type UploadWithBundle,
	uploadExists,
	uploadIsOpen,
	uploadsOfBundleToGarbage,
	upsertDeltaObject,
} from "../db/uploads";
import type { Deps } from "../deps";
import { promisedContent } from "../domain/delta-path";
import type { QuotaLimits } from "../domain/quotas";
import { ApiError } from "../errors";
import { collectGarbageSoon } from "../events/producer";
import {
	headObject,
	joinSegments,
	listSegments,
	putOnce,
	segmentPrefix,
	sha256OfObject,
	sha256OfUnpacked,
	wholeObjectKey,
} from "../storage/objects";
import { storedArchiveProblem } from "./bundle-check";
import {
	type Signature,
	type SigningRules,
	signatureRefusal,
	signingRulesOf,
	storedBytes,
	unverified,
	verifySignature,
} from "./bundle-signing";
import { batchInQuotas } from "./quotas";

export interface CompletionContext {
	readonly deps: Deps;
	readonly db: Database;
	readonly nowMs: number;
	readonly actor: Actor;
	readonly waitUntil: (work: Promise<unknown>) => void;
}

export const BUNDLE_CONTENT_TYPE = "application/zip";
export const FILE_CONTENT_TYPE = "application/octet-stream";

/** What R2 holds of an upload. `objectKey` is set when every byte is there in one object. */
export interface Received {
	readonly receivedBytes: number;
	readonly objectKey: string | undefined;
	/** True when all bytes are there, still in several segments. */
	readonly inSegments: boolean;
	/** How many segments there are; undefined once they are joined. */
	readonly segments?: number;
	/** Of the object, where it was hashed as it came in. */
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

/** What completion adds to a bundle's record. */
export interface Finished {
	readonly checksum: string | null;
	readonly size_bytes: number;
}

/**
 * Checks the received bytes and makes the bundle ready, or the file part of the delta store.
 * @throws {ApiError} `size_mismatch`, `checksum_mismatch`, `bundle_invalid` or a refused signature (the registration is dropped),
 * `delta_hash_mismatch` (the upload is dropped), `bundle_already_ready`, `upload_not_found`
 */
export async function finishUpload(
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
		if (!(await keepsPromise(deps, upload.delta_path ?? "", objectKey))) throw await refuseFile(context, upload);
		await storeFile(context, upload, objectKey, received.receivedBytes);
		return { checksum: null, size_bytes: received.receivedBytes };
	}
	const sha256 = received.sha256 ?? (await sha256OfObject(deps.bundles, objectKey));
	if (sha256 === null) throw uploadIsGone();
	const expected = expectedSha256(upload);
	if (expected !== undefined && expected !== sha256) throw await refuse(context, upload, checksumMismatch());
	const stored = { objectKey, sha256, sizeBytes: received.receivedBytes };
	if (upload.bundle_session_key === null) {
		const problem = await storedArchiveProblem(deps, stored, uploadIsGone);
		if (problem !== undefined) throw await refuse(context, upload, problem);
	}
	const signed = await signatureOfStored(deps, upload, objectKey);
	const refusal = signatureRefusal(signed.rules, signed.signature);
	if (refusal !== undefined) throw await refuse(context, upload, refusal);
	try {
		await makeReady(context, upload, upload.bundle_id, { ...stored, signedBy: signed.signature.signedBy });
	} catch (error) {
		// The policy was switched on, or the key removed, while the bytes were read.
		if (!(error instanceof GuardFailed && error.guard === "bundle_signed")) throw error;
		throw await refuse(context, upload, unverified(signed.signature.reason));
	}
	return { checksum: upload.bundle_checksum ?? sha256, size_bytes: received.receivedBytes };
}

/** Which registered key verifies the stored bytes. They are read again only where the organization has a key and the bundle is encrypted. */
async function signatureOfStored(
	deps: Pick<Deps, "bundles">,
	upload: UploadWithBundle,
	objectKey: string,
): Promise<{ readonly rules: SigningRules; readonly signature: Signature }> {
	const rules = signingRulesOf(upload.signing_rules);
	const facts = { checksum: upload.bundle_checksum, session_key: upload.bundle_session_key };
	return { rules, signature: await verifySignature(rules, facts, storedBytes(deps, objectKey)) };
}

/** The SHA-256 that the bytes must have; an encrypted bundle's checksum is an opaque value about other bytes. */
export function expectedSha256(
	upload: Pick<UploadWithBundle, "bundle_checksum" | "bundle_session_key">,
): string | undefined {
	const { bundle_checksum: checksum, bundle_session_key: sessionKey } = upload;
	return checksum !== null && sessionKey === null ? checksum : undefined;
}

/** Joins the segments into one object, which R2 checks as it arrives where the SHA-256 is known. */
async function assemble(context: CompletionContext, upload: UploadWithBundle): Promise<string> {
	const { deps } = context;
	const key = wholeObjectKey(upload.object_prefix);
	const segments = await listSegments(deps.bundles, upload.object_prefix);
	// Another request that joined them may have had the segments removed by now.
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
	{ deps, db, nowMs, actor, waitUntil }: CompletionContext,
	upload: UploadWithBundle,
	bundleId: number,
	stored: {
		readonly objectKey: string;
		readonly sha256: string;
		readonly sizeBytes: number;
		readonly signedBy: string | null;
	},
): Promise<void> {
	const appId = upload.app_id as AppId;
	const joined = wasJoined(upload, stored.objectKey);
	// A size that was known before counts since then.
	const isNewSize = upload.bundle_size_bytes === null && upload.reserved_bytes === 0;
	await onceOnly(
		db,
		deps.config.quotas,
		isNewSize ? [storageOfOrganization(upload.owner_org)] : [],
		[
			guard("upload_exists", uploadExists(appId, upload.id)),
			guard("upload_open", uploadIsOpen(appId, upload.id)),
			guard("bundle_pending", bundleIsPending(appId, bundleId)),
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
			guard("bundle_signed", bundlesAreSigned(appId, [bundleId])),
			completeUpload(appId, upload.id, nowMs),
			bumpRevision(appId),
			...(joined ? [toGarbage(segmentPrefix(upload.object_prefix), nowMs)] : []),
			auditStatement(actor, nowMs, {
				orgId: upload.owner_org,
				action: "bundle.upload",
				target: { type: "bundle", id: String(bundleId), name: upload.bundle_name ?? "" },
				app: { uuid: appId, id: upload.public_app_id },
				before: { status: "pending" },
				after: { status: "ready", sha256: stored.sha256, size: stored.sizeBytes },
				// The address that it came from need not be one of the key's then.
				...(upload.length_bytes === null ? { details: { by_link: true } } : {}),
			}),
		],
		{ upload_exists: uploadIsGone, bundle_pending: bundleAlreadyReady },
	);
	if (joined) waitUntil(collectGarbageSoon(deps));
}

/** Whether the object was joined from segments, which are garbage then. */
function wasJoined(upload: UploadWithBundle, objectKey: string): boolean {
	return upload.length_bytes !== null && objectKey === wholeObjectKey(upload.object_prefix);
}

/** Runs a completing batch. One that another request completed with these same bytes is as good as ours. */
async function onceOnly(
	db: Database,
	limits: QuotaLimits,
	quotas: readonly Quota[],
	statements: readonly CompiledQuery[],
	failures: Record<string, () => Error>,
): Promise<void> {
	try {
		await batchInQuotas(db, limits, quotas, statements, failures);
	} catch (error) {
		if (!(error instanceof GuardFailed && error.guard === "upload_open")) throw error;
	}
}

/** Whether a file of the delta store has the content that its path promises. */
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

/** Drops the upload of a file with all that it stored, so that its path stays free. */
async function refuseFile(
	{ deps, db, nowMs, waitUntil }: CompletionContext,
	upload: UploadWithBundle,
): Promise<ApiError> {
	const appId = upload.app_id as AppId;
	await db.batch([toGarbage(upload.object_prefix, nowMs), deleteUpload(appId, upload.id)]);
	waitUntil(collectGarbageSoon(deps));
	return deltaHashMismatch();
}

export function deltaHashMismatch(): ApiError {
	return new ApiError(
		"delta_hash_mismatch",
		"The file is not what its path says: the path holds the SHA-256 of another content. Nothing was stored; upload the file under the path of its own hash.",
	);
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
			guard("upload_exists", uploadExists(appId, upload.id)),
			guard("upload_open", uploadIsOpen(appId, upload.id)),
			upsertDeltaObject(appId, { path, objectKey, sizeBytes }, nowMs),
			redundantDeltaObjectToGarbage(appId, path, objectKey, upload.object_prefix, nowMs),
			completeUpload(appId, upload.id, nowMs),
			bumpRevision(appId),
			...(joined ? [toGarbage(segmentPrefix(upload.object_prefix), nowMs)] : []),
		],
		{ upload_exists: uploadIsGone },
	);
	if (joined) waitUntil(collectGarbageSoon(deps));
}

/** Drops the registration that the upload is for, with everything it stored, and gives back the error to throw. */
export async function refuse(context: CompletionContext, upload: UploadWithBundle, error: ApiError): Promise<ApiError> {
	if (upload.bundle_id === null) return error;
	const appId = upload.app_id as AppId;
	// An upload that was given up for another one has no say in the registration any more.
	return refuseRegistration(context, appId, upload.bundle_id, error, [
		guard("upload_open", uploadIsOpen(appId, upload.id)),
	]);
}

/** The same where the upload was refused before it began. */
export async function refuseRegistration(
	{ deps, db, nowMs, actor, waitUntil }: CompletionContext,
	appId: AppId,
	bundleId: number,
	error: ApiError,
	guards: readonly CompiledQuery[] = [],
): Promise<ApiError> {
	await batchOrFail(
		db,
		[
			...guards,
			auditBundlesGoing(actor, nowMs, pendingBundle(appId, bundleId), refusalDetails(error)),
			uploadsOfBundleToGarbage(appId, bundleId, nowMs),
			dropPendingBundle(appId, bundleId),
		],
		{ upload_open: uploadIsGone },
	);
	waitUntil(collectGarbageSoon(deps));
	return error;
}

/** Details of a refusal in the audit log: the error code and the defect of the zip. */
function refusalDetails({ code, moreInfo, message }: ApiError) {
	if (code !== "bundle_invalid") return { reason: code };
	return { reason: code, bundle_invalid: { reason: String(moreInfo.reason), message } };
}

export function sizeMismatch(expected: number, received: number): ApiError {
	return new ApiError(
		"size_mismatch",
		"The upload has another size than was registered; it was refused and the version is free again: register it anew.",
		{ moreInfo: { expected, received } },
	);
}

export function checksumMismatch(): ApiError {
	return new ApiError(
		"checksum_mismatch",
		"The SHA-256 of the bytes is not the registered checksum; the upload was refused and the version is free again: register it anew.",
	);
}

export function bundleAlreadyReady(): ApiError {
	return new ApiError("bundle_already_ready", "The bundle is complete and cannot be changed; upload another version.");
}

function uploadIsGone(): ApiError {
	return new ApiError(
		"upload_not_found",
		"The upload was completed or given up by another request; ask for the bundle.",
	);
}
