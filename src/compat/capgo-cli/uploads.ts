/**
 * Uploads of the stock CLI: a link for the zip, whether a delta file exists, the manifest, and the
 * completion. A bundle without a zip is ready once the CLI completes its manifest.
 */

import * as v from "valibot";
import { requireCreator } from "../../authz/own-work";
import type { Principal } from "../../authz/principal";
import { auditManifest } from "../../db/audit/bundles";
import { auditStatement } from "../../db/audit/entries";
import { type BundleListRow, bundleByName, bundleIsLive, bundleIsPending, updateBundle } from "../../db/bundles";
import { guard, query } from "../../db/client";
import { appIdOf } from "../../db/public-app-id";
import { uploadQuotas } from "../../db/quotas";
import { bundlesAreSigned, signingRulesOfApp } from "../../db/signing-keys";
import { bumpRevision } from "../../db/snapshot";
import {
	deleteOpenUploadsOfBundle,
	latestUploadOf,
	type UploadWithBundle,
	uploadsOfBundleToGarbage,
} from "../../db/uploads";
import { collidingNames, unwritableName } from "../../domain/bundles/manifest";
import { HOUR_MS } from "../../domain/time";
import { ApiError, invalidRequest } from "../../errors";
import { finishUpload, receivedSoFar } from "../../features/bundles/complete";
import { replaceUploadStatements } from "../../features/bundles/registration";
import { bundleAlreadyReady } from "../../features/bundles/upload-errors";
import {
	SIGNATURE_ERRORS,
	signatureRefusal,
	signingRulesOf,
	unverified,
	verifyManifest,
} from "../../features/signing/verify";
import { type Context, endpoint } from "../../http/endpoint";
import { batchInQuotas } from "../../http/quotas";
import { acknowledgement, OK, optional, publicAppId, text } from "../../http/schemas";
import { type AppScopeRow, appNotFound, appScope, bundleNotFound, type ScopeSource } from "../../http/scope";
import { signedUploadUrl } from "../../storage/links";
import { TAG } from "./postgrest";
import {
	claimDeltaObject,
	deltaObject,
	hasManifest,
	insertManifest,
	type ManifestFile,
	manifestChunks,
	manifestIsNewOrHas,
	manifestIsNewOrHolds,
	manifestIsSetOrBundleUnused,
	manifestIsStored,
	missingDeltaPaths,
} from "./queries";

export const namedBundle = { app_id: publicAppId, name: text(128) };

/** Two versions of the CLI use two paths. */
function uploadLink<const Path extends string>(path: Path) {
	return endpoint({
		method: "POST",
		path,
		tag: TAG,
		summary: "Create a link that accepts a registered bundle's zip in one PUT",
		access: { permission: "app.upload_bundle", scope: appScope("body.app_id") },
		body: v.object(namedBundle),
		response: v.strictObject({ url: v.string() }),
		errors: ["bundle_not_found", "bundle_already_ready", "quota_exceeded"],
		example: {
			body: { app_id: "com.example.app", name: "1.4.0" },
			response: { url: "https://updates.example.com/files/upload/one/…" },
		},
		load: ({ body }) => ({ bundle: bundleByName(body.app_id, body.name) }),
		async handle({ db, deps, scope, principal, loaded, nowMs, origin, ownWorkOnly }) {
			const [bundle] = loaded.bundle;
			if (bundle === undefined) throw bundleNotFound();
			requireCreator(principal, "app.upload_bundle", bundle);
			if (bundle.status !== "pending") throw bundleAlreadyReady();
			const id = deps.newId();
			await batchInQuotas(
				db,
				deps.config.quotas,
				uploadQuotas(scope, principal, nowMs, ownWorkOnly("app.upload_bundle") !== undefined),
				replaceUploadStatements(
					scope.appId,
					bundle.id,
					{ id, lengthBytes: null, uploader: principal, reservedBytes: 0, createdAtMs: nowMs },
					bundleAlreadyReady,
				),
			);
			return { url: await signedUploadUrl(deps, origin, id, nowMs) };
		},
	});
}
export const filesUploadLink = uploadLink("/files/upload_link");
export const privateUploadLink = uploadLink("/private/upload_link");

/** The app of `orgs/<org>/apps/<app>/…`, if the organization owns it. */
const appOfFile: ScopeSource<AppScopeRow> = {
	statement: (raw) => {
		const match = /^orgs\/([^/]+)\/apps\/([^/]+)\//.exec(raw.params.path ?? "");
		return query
			.selectFrom("apps")
			.select(["id", "app_id", "owner_org", "default_upload_channel"])
			.where("id", "=", appIdOf(match?.[2] ?? ""))
			.where("owner_org", "=", match?.[1] ?? "")
			.compile();
	},
	target: (row) => ({ orgId: row.owner_org, appId: row.id }),
	hidden: appNotFound,
};

export const fileExists = endpoint({
	method: "GET",
	path: "/files/read/attachments/:path{.+}",
	tag: TAG,
	summary: "Show whether a file is in the delta store",
	description: "For keys that may upload to the app. Devices get the bytes by signed links only.",
	access: { permission: "app.upload_bundle", scope: appOfFile },
	query: v.object({ nocache: optional(v.string()) }),
	response: v.strictObject({ status: v.literal("ok"), size: v.number() }),
	errors: ["not_found"],
	example: { response: { status: "ok", size: 1024 } },
	load: ({ params }, _nowMs, keyHash) => ({
		file: deltaObject(/^orgs\/[^/]+\/apps\/([^/]+)\//.exec(params.path)?.[1] ?? "", params.path, keyHash),
	}),
	async handle({ db, scope, principal, loaded, nowMs, input }) {
		const [file] = loaded.file;
		if (file === undefined) throw new ApiError("not_found", "The file is not in the delta store; upload it.");
		// At most hourly, because a bundle of a thousand files would write as many rows for each upload.
		if (file.last_claimed_at_ms < nowMs - HOUR_MS) {
			await db.batch([claimDeltaObject(scope.appId, input.params.path, callingKey(principal), nowMs)]);
		}
		return { status: "ok" as const, size: file.size_bytes };
	},
});

const MOST_FILES = 10_000;
/** A file of an encrypted bundle takes 1.3 kB, for its hash and the session key in its path. */
const MANIFEST_LIMIT_BYTES = 8 * 1024 * 1024;
/**
 * Largest manifest in the answer to a device. Every device of the channel gets it, without a key,
 * so callers that may act only on their own work have a smaller limit.
 */
export const MANIFEST_ANSWER_BYTES = { own: 1024 * 1024, others: 4 * 1024 * 1024 };
/** The signed link of a file in an answer, and the names of the fields. */
const LINK_BYTES = 300;

const fileName = v.pipe(
	text(512),
	v.check(
		(name) => unwritableName(name) === undefined,
		({ input }) => unwritableName(String(input)) ?? "",
	),
);

/** Private files of other keys have paths with another prefix, so no manifest can name them. */
const storedPath = v.pipe(
	text(2048),
	v.startsWith("orgs/", "must be orgs/<org>/apps/<app>/delta/… as the file was uploaded"),
);

/** SHA-256; of an encrypted bundle under an RSA key of 2,048 bits, in hexadecimal or base64. */
const fileHash = v.pipe(
	text(512),
	v.regex(
		/^(?:[0-9A-Fa-f]{64}|[0-9A-Fa-f]{512}|[A-Za-z0-9+/]{342}==)$/,
		"must be the SHA-256 in hexadecimal, or of an encrypted bundle its RSA value (2,048 bits) in hexadecimal or base64",
	),
);

export const setManifest = endpoint({
	method: "POST",
	path: "/private/set_manifest",
	tag: TAG,
	summary: "Set the manifest: the files of the delta store that make up a bundle",
	description: "Every file must be stored first. A manifest is immutable; repeating the same one changes nothing.",
	access: { permission: "app.upload_bundle", scope: appScope("body.app_id") },
	body: v.object({
		...namedBundle,
		manifest: v.pipe(
			v.array(v.object({ file_name: fileName, s3_path: storedPath, file_hash: fileHash })),
			v.minLength(1, "must not be empty"),
			v.maxLength(MOST_FILES, `must have at most ${MOST_FILES} files`),
		),
	}),
	bodyLimitBytes: MANIFEST_LIMIT_BYTES,
	response: acknowledgement,
	errors: ["bundle_not_found", "missing_delta_files", "bundle_already_ready", "bundle_invalid", ...SIGNATURE_ERRORS],
	example: {
		body: {
			app_id: "com.example.app",
			name: "1.4.0",
			manifest: [
				{
					file_name: "index.html",
					s3_path: "orgs/…/apps/com.example.app/delta/…_index.html",
					file_hash: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
				},
			],
		},
		response: OK,
	},
	load: ({ body }, _nowMs, keyHash) => ({
		bundle: bundleByName(body.app_id, body.name),
		rules: signingRulesOfApp(body.app_id),
		missing: manifestChunks(body.manifest).map((chunk) => missingDeltaPaths(body.app_id, chunk, keyHash)),
	}),
	async handle({ db, scope, principal, loaded, input, actor, nowMs, ownWorkOnly }) {
		const [bundle] = loaded.bundle;
		if (bundle === undefined) throw bundleNotFound();
		requireCreator(principal, "app.upload_bundle", bundle);
		refuseLargeAnswer(
			input.body.manifest,
			MANIFEST_ANSWER_BYTES[ownWorkOnly("app.upload_bundle") === undefined ? "others" : "own"],
		);
		refuseRepeatedFiles(input.body.manifest);
		const rules = signingRulesOf(loaded.rules[0]?.signing_rules);
		const hashes = input.body.manifest.map(({ file_hash }) => file_hash);
		const signature = await verifyManifest(rules, bundle.session_key, hashes);
		const refusal = signatureRefusal(rules, signature);
		if (refusal !== undefined) throw refusal;
		const missing = loaded.missing.map(({ path }) => path);
		if (missing.length > 0) throw missingFiles(missing);
		if (!input.body.manifest.some(({ file_name }) => START_PAGES.includes(file_name))) throw noStartPage();
		const chunks = manifestChunks(input.body.manifest);
		await db.batch([
			guard(bundleIsLive(scope.appId, bundle.id), bundleNotFound),
			guard(manifestIsNewOrHas(bundle.id, input.body.manifest.length), manifestAlreadySet),
			guard(manifestIsSetOrBundleUnused(scope.appId, bundle.id), manifestAlreadySet),
			// All guards precede the first insertion, because they compare with an empty manifest.
			...chunks.flatMap((chunk) => [
				guard(manifestIsStored(scope.appId, chunk, callingKey(principal)), () => missingFiles([])),
				guard(manifestIsNewOrHolds(bundle.id, chunk, callingKey(principal)), manifestAlreadySet),
			]),
			auditManifest(actor, nowMs, scope.appId, bundle.id, input.body.manifest.length),
			...chunks.map((chunk) => insertManifest(scope.appId, bundle.id, chunk, callingKey(principal))),
			updateBundle(scope.appId, bundle.id, { manifest_signed_by: signature.signedBy }),
		]);
		return OK;
	},
});

/** The CLI adds .br to files that it compressed with Brotli. */
const START_PAGES: readonly string[] = ["index.html", "index.html.br"];

function noStartPage(): ApiError {
	return new ApiError(
		"bundle_invalid",
		"The manifest has no index.html at its top, the page that devices start. Upload the folder that your web build writes.",
		{ moreInfo: { reason: "missing_index_html" } },
	);
}

function manifestAlreadySet(): ApiError {
	return new ApiError(
		"bundle_already_ready",
		"The bundle already has another manifest, or was released, set for a device or proposed without one; upload another version.",
	);
}

/** @throws {ApiError} for a manifest that makes the answer to a device larger than the limit */
function refuseLargeAnswer(manifest: readonly ManifestFile[], limitBytes: number): void {
	const encoder = new TextEncoder();
	const bytes = manifest.reduce(
		(sum, { file_name, file_hash }) =>
			sum + LINK_BYTES + encoder.encode(JSON.stringify(file_name)).length + file_hash.length,
		0,
	);
	if (bytes <= limitBytes) return;
	const message = `makes each device download ${bytes} bytes before the files, and may have ${limitBytes}; bundle into fewer files, or upload the version as a zip`;
	throw invalidRequest([{ path: "manifest", message }]);
}

/** @throws {ApiError} for files that a device would write to one path, or one into the other */
function refuseRepeatedFiles(manifest: readonly { readonly file_name: string }[]): void {
	const issues = collidingNames(manifest.map(({ file_name }) => file_name)).map(({ index, message }) => ({
		path: `manifest.${index}.file_name`,
		message,
		received: manifest[index]?.file_name ?? "",
	}));
	if (issues.length > 0) throw invalidRequest(issues);
}

const MOST_NAMED = 20;
function missingFiles(paths: readonly string[]): ApiError {
	return new ApiError(
		"missing_delta_files",
		"Some files of the manifest are not stored; upload them and send it again.",
		{
			moreInfo: { files: paths.slice(0, MOST_NAMED), count: paths.length },
		},
	);
}

export const finalizeUpload = endpoint({
	method: "POST",
	path: "/private/finalize_bundle_upload",
	tag: TAG,
	summary: "Complete the upload of a bundle",
	access: { permission: "app.upload_bundle", scope: appScope("body.app_id") },
	body: v.object(namedBundle),
	response: acknowledgement,
	errors: [
		"bundle_not_found",
		"bundle_incomplete",
		"bundle_invalid",
		"checksum_mismatch",
		"size_mismatch",
		"upload_not_found",
		"bundle_already_ready",
		...SIGNATURE_ERRORS,
	],
	example: { body: { app_id: "com.example.app", name: "1.4.0" }, response: OK },
	load: ({ body }) => ({
		bundle: bundleByName(body.app_id, body.name),
		upload: latestUploadOf(body.app_id, body.name),
	}),
	async handle(context) {
		const [bundle] = context.loaded.bundle;
		if (bundle === undefined) throw bundleNotFound();
		requireCreator(context.principal, "app.upload_bundle", bundle);
		await finalize(context, bundle, context.loaded.upload[0]);
		return OK;
	},
});

type FinalizeContext = Pick<
	Context<string, undefined, undefined, AppScopeRow, readonly []>,
	"db" | "deps" | "scope" | "scopeRow" | "nowMs" | "actor" | "memory" | "waitUntil"
>;

/** Completes a pending bundle: with its zip if that has arrived, otherwise with its manifest. */
export async function finalize(
	context: FinalizeContext,
	bundle: BundleListRow,
	upload?: UploadWithBundle,
): Promise<void> {
	if (bundle.status === "ready") return;
	const { db, deps, scope, nowMs, actor } = context;
	if (upload !== undefined && upload.completed_at_ms === null) {
		const received = await receivedSoFar(deps, upload);
		if (received.objectKey !== undefined || received.inSegments) {
			await finishUpload(context, upload, received);
			return;
		}
	}
	await db.batch([
		guard(bundleIsPending(scope.appId, bundle.id), bundleAlreadyReady),
		guard(
			hasManifest(bundle.id),
			() =>
				new ApiError("bundle_incomplete", "Neither a zip nor a manifest has arrived; continue the upload.", {
					moreInfo: { received_bytes: 0, expected_bytes: bundle.size_bytes },
				}),
		),
		uploadsOfBundleToGarbage(scope.appId, bundle.id, nowMs),
		deleteOpenUploadsOfBundle(scope.appId, bundle.id),
		updateBundle(scope.appId, bundle.id, {
			status: "ready",
			signed_by: bundle.manifest_signed_by,
			expires_at_ms: null,
			updated_at_ms: nowMs,
		}),
		guard(bundlesAreSigned(scope.appId, [bundle.id]), () =>
			unverified(bundle.session_key === null ? "not_encrypted" : undefined),
		),
		bumpRevision(scope.appId),
		auditStatement(actor, nowMs, {
			orgId: scope.orgId,
			action: "bundle.upload",
			target: { type: "bundle", id: String(bundle.id), name: bundle.name },
			app: { uuid: scope.appId, id: bundle.public_app_id },
			before: { status: "pending" },
			after: { status: "ready" },
			details: { manifest_only: true },
		}),
	]);
}

/** Sessions cannot call these endpoints (endpoints.ts). */
function callingKey({ keyId }: Principal): string {
	if (keyId === null) throw new Error("a session called an endpoint for keys");
	return keyId;
}
