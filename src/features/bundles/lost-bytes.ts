/**
 * Bundles whose bytes the bucket lost, although their rows name them. Devices get 410, GET
 * /service/status counts those that channels serve, and the same bytes can be stored again under
 * the same key: POST /bundle answers with a link for them, and R2 checks their SHA-256.
 */

import type { AppId } from "../../authz/decide";
import type { Principal } from "../../authz/principal";
import { type BundleListRow, type BundleRow, bundleRecord } from "../../db/bundles";
import type { Database } from "../../db/client";
import { reopenUpload, type UploadWithBundle, uploaderColumns } from "../../db/uploads";
import type { Deps } from "../../deps";
import { headObject, putOnce } from "../../storage/objects";
import { BUNDLE_CONTENT_TYPE } from "./complete";
import { bundleAlreadyReady } from "./upload-errors";

const LINK_LIFETIME_MS = 60 * 60 * 1000;

interface Reopening {
	readonly db: Database;
	readonly deps: Pick<Deps, "bundles">;
	readonly principal: Principal;
	readonly scope: { readonly appId: AppId };
	readonly nowMs: number;
}

/**
 * Opens the upload of a ready bundle again if its bytes are lost and the request names the same
 * ones.
 * @returns undefined if the version is simply taken
 */
export async function reopenLost(
	{ db, deps, principal, scope, nowMs }: Reopening,
	existing: BundleRow | undefined,
	checksum: string | undefined,
	uploadId: string,
): Promise<BundleListRow | undefined> {
	if (existing?.status !== "ready" || existing.object_key === null || existing.sha256 === null) return undefined;
	if (checksum === undefined || checksum !== existing.checksum) return undefined;
	if ((await headObject(deps.bundles, existing.object_key)) !== null) return undefined;
	const [, record] = await db.batch([
		reopenUpload({
			id: uploadId,
			app_id: scope.appId,
			bundle_id: existing.id,
			object_prefix: existing.object_key.replace(/[^/]*$/, ""),
			...uploaderColumns(principal),
			completed_at_ms: nowMs,
			created_at_ms: nowMs,
			expires_at_ms: nowMs + LINK_LIFETIME_MS,
		}),
		bundleRecord(scope.appId, existing.name),
	]);
	return record.rows[0];
}

/**
 * Stores lost bytes again.
 * @returns false if they are not lost; the body was not read then
 * @throws {ApiError} `bundle_already_ready` for other bytes
 */
export async function storeLost(
	{ bundles, log }: Pick<Deps, "bundles" | "log">,
	{ bundle_object_key: key, bundle_sha256: sha256 }: UploadWithBundle,
	body: ReadableStream<Uint8Array>,
): Promise<boolean> {
	if (key === null || sha256 === null || (await headObject(bundles, key)) !== null) return false;
	const { outcome } = await putOnce(bundles, key, body, { contentType: BUNDLE_CONTENT_TYPE, sha256 });
	if (outcome === "checksum_mismatch") throw bundleAlreadyReady();
	log("warn", "lost_bytes_stored", { key });
	return true;
}
