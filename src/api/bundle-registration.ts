/**
 * Registering a bundle: the row that reserves its version, and the upload that its bytes may come by. Both the API and the stock CLI's
 * requests come through here, so the rules are the same: a version that is complete is taken, one that a crashed run of the same key
 * left pending starts over, one that another key is uploading is left alone.
 */
import type { CompiledQuery } from "kysely";
import parseVersion from "semver/functions/parse";
import type { AppId, OwnWorkOnly, Scope } from "../authz/decide";
import type { Permission } from "../authz/permissions";
import { isOwnWork, type Principal } from "../authz/principal";
import type { Actor } from "../db/audit";
import { auditBundlesGoing } from "../db/bundle-audit";
import {
	type BundleRow,
	bundleIsPending,
	dropPendingBundle,
	insertBundle,
	type NewBundle,
	pendingBundle,
	updateBundle,
} from "../db/bundles";
import { guard } from "../db/client";
import { bundlesOfApp, bundlesOfPreviewKey, type Quota, uploadQuotas } from "../db/quotas";
import {
	deleteOpenUploadsOfBundle,
	insertUpload,
	insertUploadForNewBundle,
	uploadsOfBundleToGarbage,
} from "../db/uploads";
import { ApiError } from "../errors";
import { uploadPrefix } from "../storage/objects";
import type { AppScopeRow } from "./scope";

/** How long the bytes of a registered bundle may take to arrive. */
export const PENDING_LIFETIME_MS = 24 * 60 * 60 * 1000;

/** A key, or an account without one. */
export type Uploader = Pick<Principal, "userId" | "keyId">;

/** What a registration says of a bundle; see the columns in schema.sql. */
export interface BundleFacts {
	readonly checksum: string | null;
	readonly size_bytes: number | null;
	readonly session_key: string | null;
	readonly key_id: string | null;
	readonly min_update_version: string | null;
	readonly native_packages: string | null;
	readonly comment: string | null;
	readonly link: string | null;
	readonly cli_version: string | null;
}

/** A version is free, or pending and given up or the uploader's own; else it is taken. */
export function isVersionTaken(existing: BundleRow | undefined, uploader: Uploader, nowMs: number): boolean {
	if (existing === undefined) return false;
	if (existing.status !== "pending") return true;
	const givenUp = existing.expires_at_ms !== null && existing.expires_at_ms <= nowMs;
	return !givenUp && !isOwnWork(existing, uploader);
}

/** @throws {ApiError} `bundle_already_exists` if the version is taken */
export function refuseTakenVersion(existing: BundleRow | undefined, uploader: Uploader, nowMs: number): void {
	if (!isVersionTaken(existing, uploader, nowMs)) return;
	throw existing?.status === "pending"
		? alreadyExists("is being uploaded by somebody else; wait for it, or choose another version")
		: alreadyExists("exists already; choose another version, or delete that bundle first");
}

/** An app may keep release versions for releases. @throws {ApiError} `preview_version_must_be_prerelease` */
export function refuseReleaseOfPreview(
	limit: OwnWorkOnly | undefined,
	app: Pick<AppScopeRow, "preview_prereleases_only">,
	version: string,
): void {
	if (limit === undefined || app.preview_prereleases_only === 0 || (parseVersion(version)?.prerelease.length ?? 0) > 0)
		return;
	throw new ApiError(
		"preview_version_must_be_prerelease",
		`version: a preview role registers pre-releases of this app only, such as ${version.split("+")[0]}-pr.1; choose one.`,
	);
}

function alreadyExists(what: string): ApiError {
	return new ApiError("bundle_already_exists", `This version ${what}.`);
}

export const versionWasTaken = () => alreadyExists("was registered by another request at the same time; read it again");

type RegisteredValues = Pick<
	NewBundle,
	"signed_by" | "status" | "storage_provider" | "sha256" | "external_url" | "expires_at_ms"
> &
	BundleFacts;

/** What a registration writes: of a bundle whose bytes are still to come, or of one that was found elsewhere. */
export function registeredValues<
	External extends Partial<BundleFacts> & Pick<NewBundle, "sha256" | "external_url" | "signed_by">,
>(facts: BundleFacts, external: External | undefined, nowMs: number): RegisteredValues {
	if (external !== undefined) {
		return { ...facts, ...external, status: "ready", storage_provider: "external", expires_at_ms: null };
	}
	return {
		...facts,
		status: "pending",
		storage_provider: "r2",
		sha256: null,
		external_url: null,
		expires_at_ms: nowMs + PENDING_LIFETIME_MS,
	};
}

/** The quotas that a registration adds to. */
export function registrationQuotas(
	{
		scope,
		principal,
		nowMs,
		ownWorkOnly,
	}: {
		readonly scope: Pick<Scope, "orgId" | "appId">;
		readonly principal: Principal;
		readonly nowMs: number;
		readonly ownWorkOnly: (permission: Permission) => OwnWorkOnly | undefined;
	},
	opensUpload: boolean,
): Quota[] {
	const isPreview = ownWorkOnly("app.upload_bundle") !== undefined;
	return [
		bundlesOfApp(scope.appId),
		...(isPreview ? [bundlesOfPreviewKey(scope.appId, principal)] : []),
		...(opensUpload ? uploadQuotas(scope, principal, nowMs, isPreview) : []),
	];
}

/** The statements of a fresh registration without its upload; an earlier pending one is dropped with all it stored. */
export function registrationStatements(
	appId: AppId,
	version: string,
	existing: BundleRow | undefined,
	values: RegisteredValues,
	uploader: Uploader,
	actor: Actor,
	nowMs: number,
): CompiledQuery[] {
	const drop =
		existing === undefined
			? []
			: [
					auditBundlesGoing(actor, nowMs, pendingBundle(appId, existing.id), { reason: "registered_again" }),
					uploadsOfBundleToGarbage(appId, existing.id, nowMs),
					dropPendingBundle(appId, existing.id),
				];
	return [
		...drop,
		insertBundle(appId, {
			...values,
			name: version,
			object_key: null,
			created_by: uploader.userId,
			created_by_key: uploader.keyId,
			delete_marked_at_ms: null,
			deleted_at_ms: null,
			created_at_ms: nowMs,
			updated_at_ms: nowMs,
		}),
	];
}

/** After `registrationStatements`: the statement that opens the upload by link. */
export function openUploadStatement(
	appId: AppId,
	version: string,
	uploadId: string,
	uploader: Uploader,
	nowMs: number,
): CompiledQuery {
	return insertUploadForNewBundle(appId, version, {
		id: uploadId,
		object_prefix: uploadPrefix(appId, uploadId),
		created_by: uploader.userId,
		created_by_key: uploader.keyId,
		expires_at_ms: nowMs + PENDING_LIFETIME_MS,
		created_at_ms: nowMs,
	});
}

/**
 * The statements that open an upload for a pending bundle: earlier uploads are given up, the registration lives on. `lengthBytes` is
 * null for an upload by link.
 */
export function replaceUploadStatements(
	appId: AppId,
	bundleId: number,
	uploadId: string,
	lengthBytes: number | null,
	uploader: Uploader,
	nowMs: number,
	/** The part of them that the bundle's row does not hold. */
	reservedBytes = 0,
): CompiledQuery[] {
	const expiresAtMs = nowMs + PENDING_LIFETIME_MS;
	return [
		guard("bundle_pending", bundleIsPending(appId, bundleId)),
		uploadsOfBundleToGarbage(appId, bundleId, nowMs),
		deleteOpenUploadsOfBundle(appId, bundleId),
		updateBundle(appId, bundleId, { expires_at_ms: expiresAtMs, updated_at_ms: nowMs }),
		insertUpload({
			id: uploadId,
			app_id: appId,
			bundle_id: bundleId,
			delta_path: null,
			object_prefix: uploadPrefix(appId, uploadId),
			length_bytes: lengthBytes,
			created_by: uploader.userId,
			created_by_key: uploader.keyId,
			completed_at_ms: null,
			expires_at_ms: expiresAtMs,
			created_at_ms: nowMs,
			reserved_bytes: reservedBytes,
		}),
	];
}
