/**
 * Registers bundles, for the public API and for the stock CLI: the row reserves the version until
 * its bytes have arrived. A ready version is taken. A pending one starts over if the same key or
 * account registered it, or if it expired; otherwise another upload is under way.
 */
import parseVersion from "semver/functions/parse";
import * as v from "valibot";
import type { AppId, OwnWorkOnly } from "../../authz/decide";
import { type Caller, isOwnWork } from "../../authz/own-work";
import type { Principal } from "../../authz/principal";
import { auditedRegistration } from "../../db/audit/bundles";
import { auditStatement } from "../../db/audit/entries";
import { dropRegistration } from "../../db/bundle-deletion";
import {
	type BundleListRow,
	type BundleRow,
	bundleIdNamed,
	bundleIsPending,
	bundleRecord,
	insertBundle,
	type NewBundle,
	updateBundle,
} from "../../db/bundles";
import { guard, lastResult, onUnique, type Statement } from "../../db/client";
import { readNamed } from "../../db/named-reads";
import { retryOnChange } from "../../db/optimistic";
import { bundleJoinsPreview } from "../../db/preview-bundles";
import { previewChanged } from "../../db/previews";
import { bundlesOfApp, bundlesOfPreviewKey, uploadQuotas } from "../../db/quotas";
import {
	deleteOpenUploadsOfBundle,
	insertUpload,
	insertUploadForNewBundle,
	uploaderColumns,
	uploadsOfBundleToGarbage,
} from "../../db/uploads";
import { versionIsUnused } from "../../db/used-versions";
import { pullRequestOf } from "../../domain/ci/context";
import { DAY_MS } from "../../domain/time";
import { ApiError, fieldError, invalidRequest } from "../../errors";
import type { Context } from "../../http/endpoint";
import { ownerOf } from "../../http/limits/memory";
import { countFetch } from "../../http/limits/requests";
import { batchInQuotas } from "../../http/quotas";
import { text } from "../../http/schemas";
import { type AppScopeRow, appNotFound } from "../../http/scope";
import { uploadPrefix } from "../../storage/objects";
import { closeClaim, openReads, type PreviewOpening, previewOpening } from "../previews/opening";
import { refuseUnsigned } from "../signing/verify";
import { EXTERNAL_MEMORY_BYTES, verifyExternal } from "./external";

/** Time for the bytes of a registered bundle to arrive. */
export const PENDING_LIFETIME_MS = DAY_MS;

/** Columns of a bundle that its registration sets; see schema.sql. */
interface BundleFacts {
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

/** From the fields of a request; one that it leaves out is null. */
export const factsOf = (
	fields: { readonly [Name in keyof BundleFacts]?: BundleFacts[Name] | undefined },
): BundleFacts => ({
	checksum: fields.checksum ?? null,
	size_bytes: fields.size_bytes ?? null,
	session_key: fields.session_key ?? null,
	key_id: fields.key_id ?? null,
	min_update_version: fields.min_update_version ?? null,
	native_packages: fields.native_packages ?? null,
	comment: fields.comment ?? null,
	link: fields.link ?? null,
	cli_version: fields.cli_version ?? null,
});

const LONGEST_OPAQUE = 2048;
/** A lower-case SHA-256, or the opaque checksum of an encrypted bundle. */
export const checksumText = v.pipe(
	text(LONGEST_OPAQUE),
	v.transform((value) => (/^[0-9a-f]{64}$/i.test(value) ? value.toLowerCase() : value)),
);

/**
 * The form that devices accept. Its content is read only to verify signatures
 * (src/features/signing/verify.ts).
 */
export const sessionKeyText = v.pipe(
	text(LONGEST_OPAQUE),
	v.regex(/^[A-Za-z0-9+/]+={0,2}:[A-Za-z0-9+/]+={0,2}$/, "must be <iv>:<key> in base64, as `bundle encrypt` prints it"),
);

/** True unless the version is free, or pending and either expired or this uploader's own. */
export function isVersionTaken(existing: BundleRow | undefined, uploader: Caller, nowMs: number): boolean {
	if (existing === undefined) return false;
	if (existing.status !== "pending") return true;
	const isExpired = existing.expires_at_ms !== null && existing.expires_at_ms <= nowMs;
	return !isExpired && !isOwnWork(existing, uploader);
}

/** @throws {ApiError} `bundle_already_exists` if the version is taken */
function refuseTakenVersion(existing: BundleRow | undefined, uploader: Caller, nowMs: number): void {
	if (!isVersionTaken(existing, uploader, nowMs)) return;
	throw existing?.status === "pending"
		? alreadyExists(
				"is being uploaded by another key or account; wait until the upload ends, or choose another version",
			)
		: alreadyExists("already exists; choose another version");
}

/**
 * The app may reserve release versions for releases (`preview_prereleases_only`).
 * @throws {ApiError} `preview_version_must_be_prerelease`
 */
function refuseReleaseOfPreview(
	limit: OwnWorkOnly | undefined,
	app: Pick<AppScopeRow, "preview_prereleases_only">,
	version: string,
): void {
	if (limit === undefined || app.preview_prereleases_only === 0 || (parseVersion(version)?.prerelease.length ?? 0) > 0)
		return;
	throw fieldError(
		"preview_version_must_be_prerelease",
		"version",
		`a preview role registers pre-releases of this app only, such as ${version.split("+")[0]}-pr.1; choose one.`,
	);
}

function alreadyExists(what: string): ApiError {
	return new ApiError("bundle_already_exists", `This version ${what}.`);
}

const versionWasUsed = (version: string) =>
	fieldError(
		"version_was_used",
		"version",
		`devices got ${version} before its bundle was deleted, and load no other bytes under this version. Choose another version, or send reuse_version: true, which registers the bundle as ${version}+reuse.2 or higher.`,
		{ moreInfo: { version } },
	);

const versionWasTaken = () =>
	alreadyExists("was registered by another request at the same time; list the bundles to see it");

const PENDING = { status: "pending", storage_provider: "r2", sha256: null, external_url: null } as const;
const EXTERNAL = { status: "ready", storage_provider: "external", expires_at_ms: null } as const;

/** The fields of a request that registers a bundle, and the state that they are checked against. */
interface Registration {
	readonly version: string;
	/** The version that the bundle takes again under another name (`reusedName`). */
	readonly reuseOf?: string | undefined;
	/** The row that has the version now. */
	readonly existing: BundleRow | undefined;
	/** JSON of the organization's `SigningRules`. */
	readonly signingRules: string | undefined;
	readonly externalUrl: string | undefined;
	/** Opens an upload by link under this id. */
	readonly uploadId?: string | undefined;
	readonly facts: BundleFacts;
}

type RegistrationContext = Pick<
	Context<string, undefined, undefined, AppScopeRow, readonly []>,
	"db" | "deps" | "principal" | "scope" | "scopeRow" | "nowMs" | "actor" | "memory" | "ownWorkOnly" | "waitUntil"
>;

/**
 * Fetches an external bundle, which may be large and refused in the end: a few for each caller, and
 * one at a time in an isolate.
 */
async function external(
	{
		deps,
		principal,
		scope,
		memory,
		waitUntil,
	}: Pick<RegistrationContext, "deps" | "principal" | "scope" | "memory" | "waitUntil">,
	url: string,
	facts: BundleFacts,
) {
	const caller = principal.keyId ?? principal.userId;
	await countFetch(deps, `bundle ${caller}`, "This caller has registered too many bundles with external_url");
	return memory.callers.during(ownerOf(uploaderColumns(principal), scope.orgId), EXTERNAL_MEMORY_BYTES, waitUntil, () =>
		verifyExternal(deps, url, facts),
	);
}

/**
 * Registers a bundle. An earlier registration of the version that is still pending is dropped with
 * all that it stored.
 * @throws {ApiError} if the version, the size, the signature, the external file or a quota does not
 * allow it
 */
export async function register(context: RegistrationContext, registration: Registration): Promise<BundleListRow> {
	const { db, deps, principal, scope, scopeRow, nowMs, ownWorkOnly } = context;
	const { version, existing, signingRules, externalUrl, uploadId, facts } = registration;
	const limit = ownWorkOnly("app.upload_bundle");
	refuseReleaseOfPreview(limit, scopeRow, version);
	refuseTakenVersion(existing, principal, nowMs);
	const { maxBundleBytes, quotas } = deps.config;
	if (facts.size_bytes !== null && facts.size_bytes > maxBundleBytes) {
		throw invalidRequest([{ path: "size", message: `must be at most ${maxBundleBytes} bytes` }]);
	}
	const signedBy = await refuseUnsigned(signingRules, facts);
	const values =
		externalUrl === undefined
			? ({ ...facts, ...PENDING, expires_at_ms: nowMs + PENDING_LIFETIME_MS } as const)
			: ({ ...facts, ...EXTERNAL, ...(await external(context, externalUrl, facts)), signed_by: signedBy } as const);
	const isPreview = limit !== undefined;
	const results = await withPreviewOfJob(context, limit, (opening) =>
		batchInQuotas(
			db,
			quotas,
			[
				...(opening?.quotas ?? []),
				bundlesOfApp(scope.appId),
				...(isPreview ? [bundlesOfPreviewKey(scope.appId, principal)] : []),
				...(uploadId === undefined ? [] : uploadQuotas(scope, principal, nowMs, isPreview)),
			],
			[...registrationStatements(context, registration, values, opening), bundleRecord(scope.appId, version)],
		),
	);
	const [row] = lastResult(results).rows;
	if (row === undefined) throw new Error("the bundle that was just registered is missing");
	return row;
}

/** The columns in which registrations differ, beside the name. */
type RegisteredValues = Omit<NewBundle, "name" | "created_by" | "created_at_ms" | "updated_at_ms">;

/**
 * The preview of the job is written first, because the bundle joins it; the registration that the
 * bundle replaces is dropped before its row, because the version is unique.
 */
function registrationStatements(
	{ principal, scope, scopeRow, nowMs, actor, ownWorkOnly }: RegistrationContext,
	{ version, reuseOf, existing, uploadId }: Registration,
	values: RegisteredValues,
	opening: PreviewOpening | undefined,
): Statement[] {
	const { orgId, appId } = scope;
	const isPreview = ownWorkOnly("app.upload_bundle") !== undefined;
	const again = { actor, nowMs, appId, details: { reason: "registered_again" } };
	return [
		...(opening?.statements ?? []),
		...(existing === undefined ? [] : dropRegistration(again, existing.id)),
		guard(versionIsUnused(appId, version), () => versionWasUsed(version)),
		onUnique(
			insertBundle(appId, {
				...values,
				name: version,
				object_key: null,
				created_by: principal.userId,
				created_by_key: principal.keyId,
				by_preview_key: isPreview ? 1 : 0,
				reuse_of: reuseOf ?? null,
				delete_marked_at_ms: null,
				deleted_at_ms: null,
				created_at_ms: nowMs,
				updated_at_ms: nowMs,
			}),
			"bundles.app_id, bundles.name",
			versionWasTaken,
		),
		...bundleJoinsPreview(appId, version, nowMs, opening?.id, isPreview ? principal : undefined),
		...(uploadId === undefined
			? []
			: [
					insertUploadForNewBundle(appId, version, {
						id: uploadId,
						object_prefix: uploadPrefix(appId, uploadId),
						...uploaderColumns(principal),
						expires_at_ms: nowMs + PENDING_LIFETIME_MS,
						created_at_ms: nowMs,
					}),
				]),
		auditStatement(actor, nowMs, {
			orgId,
			action: "bundle.register",
			target: { type: "bundle", id: bundleIdNamed(appId, version), name: version },
			app: { uuid: appId, id: scopeRow.app_id },
			after: auditedRegistration(version, values),
		}),
	];
}

/**
 * The name that devices take for another version than the used one; SemVer gives both the same
 * order.
 * @param uses bundles that took the version before
 */
export const reusedName = (version: string, uses: number): string =>
	uses === 0 ? version : `${version}${version.includes("+") ? "." : "+"}reuse.${uses + 1}`;

/**
 * Writes, in the same batch, the preview of the pull request for which a job of a `preview`
 * publisher uploads: its first upload opens the preview, and later ones renew it. Other callers
 * open nothing.
 * @param limit the limit of the caller to own work
 */
async function withPreviewOfJob<Result>(
	context: RegistrationContext,
	limit: OwnWorkOnly | undefined,
	write: (opening: PreviewOpening | undefined) => Promise<Result>,
): Promise<Result> {
	const { db, principal, scopeRow } = context;
	const publisher = principal.kind === "key" ? principal.publisher : undefined;
	const pullRequest = publisher?.stage === "preview" ? pullRequestOf(publisher.ci) : undefined;
	if (limit === undefined || pullRequest === undefined) return write(undefined);
	const request = { ...pullRequest, app_id: scopeRow.app_id };
	const opener = { ...context, publicAppId: scopeRow.app_id, limit };
	const read = () => readNamed(db, openReads(request));
	return retryOnChange(await read(), read, async ({ preview: [known], place: [place] }) => {
		if (place === undefined) throw appNotFound();
		const claim = closeClaim(opener, known);
		if (claim.length > 0) {
			await db.batch(claim);
			throw previewChanged();
		}
		const open = known?.state === "open" ? known : undefined;
		const days = open === undefined ? undefined : open.lifetime_ms / DAY_MS;
		return write(await previewOpening(opener, { ...request, days }, known, place));
	});
}

interface NewUpload {
	readonly id: string;
	/** Null for an upload by link. */
	readonly lengthBytes: number | null;
	readonly uploader: Principal;
	/** Bytes that count towards the quota until the bundle's row has a size. */
	readonly reservedBytes: number;
	readonly createdAtMs: number;
}

/**
 * The statements that open an upload for a pending bundle. They abandon its earlier uploads and
 * extend the registration.
 * @param notPending the error if the bundle is not pending any more
 */
export function replaceUploadStatements(
	appId: AppId,
	bundleId: number,
	{ id, lengthBytes, uploader, reservedBytes, createdAtMs }: NewUpload,
	notPending: () => ApiError,
): Statement[] {
	const expiresAtMs = createdAtMs + PENDING_LIFETIME_MS;
	return [
		guard(bundleIsPending(appId, bundleId), notPending),
		uploadsOfBundleToGarbage(appId, bundleId, createdAtMs),
		deleteOpenUploadsOfBundle(appId, bundleId),
		updateBundle(appId, bundleId, { expires_at_ms: expiresAtMs, updated_at_ms: createdAtMs }),
		insertUpload({
			id,
			app_id: appId,
			bundle_id: bundleId,
			delta_path: null,
			object_prefix: uploadPrefix(appId, id),
			length_bytes: lengthBytes,
			...uploaderColumns(uploader),
			completed_at_ms: null,
			expires_at_ms: expiresAtMs,
			created_at_ms: createdAtMs,
			reserved_bytes: reservedBytes,
		}),
	];
}
