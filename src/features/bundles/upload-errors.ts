/**
 * Refused uploads: the errors, and how a refusal drops the registration, so that nothing stays half
 * registered and the version is free.
 */
import type { AppId } from "../../authz/decide";
import type { Actor } from "../../db/audit/entries";
import { dropRegistration } from "../../db/bundle-deletion";
import { type Database, guard, type Statement } from "../../db/client";
import { type UploadWithBundle, uploadIsOpen } from "../../db/uploads";
import type { Deps } from "../../deps";
import { ApiError } from "../../errors";
import { type Holding, type Memory, ownerOf } from "../../http/limits/memory";
import { hiddenAs } from "../../http/scope";
import { collectGarbageSoon } from "../../queue/garbage";

export interface CompletionContext {
	readonly deps: Deps;
	readonly db: Database;
	readonly nowMs: number;
	readonly actor: Actor;
	readonly memory: Memory;
	readonly waitUntil: (work: Promise<unknown>) => void;
	/** Conditions of the batch that makes a bundle ready. */
	readonly guards?: readonly Statement[];
}

type Uploaded = Pick<UploadWithBundle, "created_by" | "created_by_key" | "created_by_job" | "owner_org">;

/**
 * Counts the bytes that an upload holds in memory while the work runs.
 * @throws {ApiError} `service_unavailable`
 */
export const duringUpload = <Value>(
	{ memory, waitUntil }: Pick<CompletionContext, "memory" | "waitUntil">,
	upload: Uploaded,
	bytes: number,
	work: (holding: Holding) => Promise<Value>,
): Promise<Value> => orUnavailable(memory.callers.during(ownerOf(upload, upload.owner_org), bytes, waitUntil, work));

/** After a refusal its uploader waits so long for the next one. */
export const REFUSAL_MS = 500;

/**
 * Runs the check of an upload. Checks that end in a refusal bring their caller nothing, so they
 * cost it time: each is answered half a second after the one before, and meanwhile the uploads of
 * that caller are checked one at a time. Others, and callers without a refusal, do not wait.
 * @throws {ApiError} `service_unavailable`, or the refusal
 */
export async function whileChecked<Value>(
	{ deps, memory, waitUntil }: Pick<CompletionContext, "deps" | "memory" | "waitUntil">,
	upload: Uploaded,
	check: () => Promise<Value>,
): Promise<Value> {
	const owner = ownerOf(upload, upload.owner_org);
	const { refusals } = memory;
	const rest = () => deps.delay(REFUSAL_MS);
	const isRefusal = (error: unknown) => error instanceof ApiError && error.status < 500;
	if (refusals.isHeldBy(owner)) {
		const alone = () =>
			check().catch(async (error: unknown) => {
				if (isRefusal(error)) await rest();
				throw error;
			});
		return orUnavailable(refusals.during(owner, 1, waitUntil, alone));
	}
	try {
		return await check();
	} catch (error) {
		// A refusal that finds no room waited long enough.
		if (isRefusal(error)) await refusals.during(owner, 1, waitUntil, rest).catch(() => undefined);
		throw error;
	}
}

/**
 * A full isolate is 503 for uploads, because the stock TUS client repeats 503 by default and gives
 * the upload up at 429.
 */
async function orUnavailable<Value>(working: Promise<Value>): Promise<Value> {
	try {
		return await working;
	} catch (error) {
		if (!(error instanceof ApiError && error.code === "too_many_requests")) throw error;
		const { message, headers, moreInfo } = error;
		throw new ApiError("service_unavailable", message, { headers, moreInfo, cause: error });
	}
}

/**
 * Drops the registration of an upload with everything that it stored.
 * @returns the error to throw
 */
export async function refuse(context: CompletionContext, upload: UploadWithBundle, error: ApiError): Promise<ApiError> {
	if (upload.bundle_id === null) return error;
	const appId = upload.app_id as AppId;
	// A newer upload has replaced this one: the registration is no longer this upload's to drop.
	return refuseRegistration(context, appId, upload.bundle_id, error, [
		guard(uploadIsOpen(appId, upload.id), uploadIsGone),
	]);
}

/** The same before an upload exists. */
export async function refuseRegistration(
	{ deps, db, nowMs, actor, waitUntil }: Omit<CompletionContext, "memory">,
	appId: AppId,
	bundleId: number,
	error: ApiError,
	guards: readonly Statement[] = [],
): Promise<ApiError> {
	await db.batch([...guards, ...dropRegistration({ actor, nowMs, appId, details: refusalDetails(error) }, bundleId)]);
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
		"The upload has a different size than registered. It was refused and the version is free again; register it again.",
		{ moreInfo: { expected, received } },
	);
}

export function checksumMismatch(): ApiError {
	return new ApiError(
		"checksum_mismatch",
		"The SHA-256 of the upload differs from the registered checksum. It was refused and the version is free again; register it again.",
	);
}

export function bundleAlreadyReady(): ApiError {
	return new ApiError("bundle_already_ready", "The bundle is complete and cannot be changed; upload another version.");
}

export function uploadIsGone(): ApiError {
	return new ApiError(
		"upload_not_found",
		"Another request completed or replaced this upload; list the bundles to see the result.",
	);
}

/** @param isPacked the path ends in .br, and the bytes as they are have its hash */
export function deltaHashMismatch(path: string, isPacked: boolean): ApiError {
	const name = path.slice(path.lastIndexOf("/") + 1).replace(/^[^_]*_/, "");
	return new ApiError(
		"delta_hash_mismatch",
		isPacked
			? `${name} ends in .br, which devices decompress, so the hash in its path must be that of the decompressed content. Nothing was stored; leave precompressed files out of the build.`
			: `The content does not match the SHA-256 in the path of the file${name.endsWith(".br") ? ", or is no Brotli, or unpacks to more than 32 MiB or 64 times its size; upload such a version as a zip" : ""}. Nothing was stored; upload the file under the path with its own hash.`,
	);
}

export const uploadNotFound = hiddenAs(
	"upload_not_found",
	"This caller has no upload with this id: it was replaced, or belongs to another key or account. Start a new upload.",
);

export function tooLarge(limitBytes: number): ApiError {
	return new ApiError("payload_too_large", `The upload has more than ${limitBytes} bytes; make the bundle smaller.`, {
		moreInfo: { limitBytes },
	});
}
