/**
 * The stock CLI's way of uploading: a link for the zip, files of the delta store that are asked for before they are sent, the
 * manifest, and the end of it. A bundle without a zip is ready when it has a manifest and the CLI says that it is done.
 */
import * as v from "valibot";
import { replaceUploadStatements } from "../../api/bundle-registration";
import {
	SIGNATURE_ERRORS,
	signatureRefusal,
	signingRulesOf,
	unverified,
	verifyManifest,
} from "../../api/bundle-signing";
import { refuseForeignBundle } from "../../api/channel-change";
import { type Context, endpoint } from "../../api/endpoint";
import { batchInQuotas } from "../../api/quotas";
import { deleteOneBundle } from "../../api/routes/bundle";
import { acknowledgement, OK, optional, publicAppId, text } from "../../api/schemas";
import { type AppScopeRow, appNotFound, appScope, bundleNotFound, type ScopeSource } from "../../api/scope";
import { bundleAlreadyReady, finishUpload, receivedSoFar } from "../../api/upload-completion";
import type { Principal } from "../../authz/principal";
import { auditStatement } from "../../db/audit";
import { auditManifest } from "../../db/bundle-audit";
import { type BundleListRow, bundleByName, bundleIsLive, bundleIsPending, updateBundle } from "../../db/bundles";
import { batchOrFail, guard, query } from "../../db/client";
import {
	claimDeltaObject,
	deltaObject,
	hasManifest,
	insertManifest,
	manifestIsNewOrHas,
	manifestIsNewOrHolds,
	manifestIsSetOrBundleUnused,
	manifestIsStored,
	manifestParts,
	missingDeltaPaths,
} from "../../db/compat";
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
import { ApiError, invalidRequest, type RequestIssue } from "../../errors";
import { signedUploadUrl } from "../../storage/links";

const TAG = "Stock CLI";
const HOUR_MS = 60 * 60 * 1000;
const namedBundle = { app_id: publicAppId, name: text(128) };

/** The same link under the two paths that versions of the CLI use. */
function uploadLink<const Path extends string>(path: Path) {
	return endpoint({
		method: "POST",
		path,
		tag: TAG,
		summary: "A link that takes a registered bundle's zip in one PUT",
		access: { permission: "app.upload_bundle", scope: appScope("body.app_id") },
		body: v.object(namedBundle),
		response: v.strictObject({ url: v.string() }),
		errors: ["bundle_not_found", "bundle_already_ready", "quota_exceeded"],
		example: {
			body: { app_id: "com.example.app", name: "1.4.0" },
			response: { url: "https://updates.example.com/files/upload/one/…" },
		},
		load: ({ body }) => [bundleByName(body.app_id, body.name)] as const,
		async handle({ db, deps, scope, principal, loaded, nowMs, origin, ownWorkOnly }) {
			const [bundle] = loaded[0].rows;
			if (bundle === undefined) throw bundleNotFound();
			refuseForeignBundle(bundle, principal, "app.upload_bundle");
			if (bundle.status !== "pending") throw bundleAlreadyReady();
			const id = deps.newId();
			await batchInQuotas(
				db,
				deps.config.quotas,
				uploadQuotas(scope, principal, nowMs, ownWorkOnly("app.upload_bundle") !== undefined),
				replaceUploadStatements(scope.appId, bundle.id, id, null, principal, nowMs),
				{ bundle_pending: bundleAlreadyReady },
			);
			return { url: signedUploadUrl(deps, origin, id, nowMs) };
		},
	});
}
export const filesUploadLink = uploadLink("/files/upload_link");
export const privateUploadLink = uploadLink("/private/upload_link");

/** The app in `orgs/<org>/apps/<app>/…`, where the organization is its owner. */
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
	summary: "Whether a file is in the delta store already",
	description: "Tells it to keys that may upload to the app; the bytes go to devices by signed links only.",
	access: { permission: "app.upload_bundle", scope: appOfFile },
	query: v.object({ nocache: optional(v.string()) }),
	response: v.strictObject({ status: v.literal("ok"), size: v.number() }),
	errors: ["not_found"],
	example: { response: { status: "ok", size: 1024 } },
	load: ({ params }, _nowMs, keyHash) =>
		[deltaObject(/^orgs\/[^/]+\/apps\/([^/]+)\//.exec(params.path)?.[1] ?? "", params.path, keyHash)] as const,
	async handle({ db, scope, principal, loaded, nowMs, input }) {
		const [file] = loaded[0].rows;
		if (file === undefined) throw new ApiError("not_found", "The file is not in the delta store; upload it.");
		// Not at every question: a bundle of a thousand files would write a thousand rows for nothing.
		if (file.last_claimed_at_ms < nowMs - HOUR_MS) {
			await db.batch([claimDeltaObject(scope.appId, input.params.path, callingKey(principal), nowMs)]);
		}
		return { status: "ok" as const, size: file.size_bytes };
	},
});

const MOST_FILES = 10_000;
/** Of an encrypted bundle each file takes 1.5 kB: its hash and the session key in its path are long. */
const MANIFEST_LIMIT_BYTES = 16 * 1024 * 1024;

/** A file that stays inside the bundle wherever it is unpacked. */
const fileName = v.pipe(
	text(512),
	v.check(
		(name) => !/^[/\\]|^[a-z]:|\\/i.test(name) && !name.split("/").some((part) => part === ".." || part === "."),
		"must be a relative path without . or .. in it",
	),
);

/** What other keys keep for themselves is stored under paths that begin otherwise, and cannot be named. */
const storedPath = v.pipe(
	text(2048),
	v.startsWith("orgs/", "must be orgs/<org>/apps/<app>/delta/… as the file was uploaded"),
);

export const setManifest = endpoint({
	method: "POST",
	path: "/private/set_manifest",
	tag: TAG,
	summary: "Say which files of the delta store a bundle consists of",
	description: "Every file must be stored already. A manifest is set once; repeating the same one is fine.",
	access: { permission: "app.upload_bundle", scope: appScope("body.app_id") },
	body: v.object({
		...namedBundle,
		manifest: v.pipe(
			v.array(v.object({ file_name: fileName, s3_path: storedPath, file_hash: text(2048) })),
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
				{ file_name: "index.html", s3_path: "orgs/…/apps/com.example.app/delta/…_index.html", file_hash: "9f86…" },
			],
		},
		response: OK,
	},
	load: ({ body }, _nowMs, keyHash) =>
		[
			bundleByName(body.app_id, body.name),
			signingRulesOfApp(body.app_id),
			...manifestParts(body.manifest).map((part) => missingDeltaPaths(body.app_id, part, keyHash)),
		] as const,
	async handle({ db, scope, principal, loaded, input, actor, nowMs }) {
		const [bundle] = loaded[0].rows;
		if (bundle === undefined) throw bundleNotFound();
		refuseForeignBundle(bundle, principal, "app.upload_bundle");
		refuseRepeatedFiles(input.body.manifest);
		const [, rulesRows, ...missingOfParts] = loaded;
		const rules = signingRulesOf(rulesRows.rows[0]?.signing_rules);
		const hashes = input.body.manifest.map(({ file_hash }) => file_hash);
		const signature = await verifyManifest(rules, bundle.session_key, hashes);
		const refusal = signatureRefusal(rules, signature);
		if (refusal !== undefined) throw refusal;
		const missing = missingOfParts.flatMap(({ rows }) => rows.map((row) => row.path));
		if (missing.length > 0) throw missingFiles(missing);
		if (!input.body.manifest.some(({ file_name }) => START_PAGES.includes(file_name))) throw noStartPage();
		const parts = manifestParts(input.body.manifest);
		await batchOrFail(
			db,
			[
				guard("live", bundleIsLive(scope.appId, bundle.id)),
				guard("new_or_same", manifestIsNewOrHas(bundle.id, input.body.manifest.length)),
				guard("new_or_same", manifestIsSetOrBundleUnused(scope.appId, bundle.id)),
				// Every condition before the first insertion, which would make the manifest one that is not new.
				...parts.flatMap((part) => [
					guard("stored", manifestIsStored(scope.appId, part, callingKey(principal))),
					guard("new_or_same", manifestIsNewOrHolds(bundle.id, part, callingKey(principal))),
				]),
				auditManifest(actor, nowMs, scope.appId, bundle.id, input.body.manifest.length),
				...parts.map((part) => insertManifest(scope.appId, bundle.id, part, callingKey(principal))),
				updateBundle(scope.appId, bundle.id, { manifest_signed_by: signature.signedBy }),
			],
			{ live: bundleNotFound, stored: () => missingFiles([]), new_or_same: manifestAlreadySet },
		);
		return OK;
	},
});

/** The CLI names files that it compressed with Brotli so. */
const START_PAGES: readonly string[] = ["index.html", "index.html.br"];

function noStartPage(): ApiError {
	return new ApiError(
		"bundle_invalid",
		"The manifest has no index.html at its top, which devices start. Upload the folder that your web build writes.",
		{ moreInfo: { reason: "missing_index_html" } },
	);
}

function manifestAlreadySet(): ApiError {
	return new ApiError(
		"bundle_already_ready",
		"The bundle has another manifest already, or was given to a channel or device or proposed without one; upload another version.",
	);
}

function refuseRepeatedFiles(manifest: readonly { readonly file_name: string }[]): void {
	const seen = new Set<string>();
	const issues: RequestIssue[] = [];
	for (const [index, { file_name }] of manifest.entries()) {
		if (seen.has(file_name))
			issues.push({ path: `manifest.${index}.file_name`, message: "is named twice", received: file_name });
		seen.add(file_name);
	}
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
	summary: "Say that everything of a bundle is uploaded",
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
	load: ({ body }) => [bundleByName(body.app_id, body.name), latestUploadOf(body.app_id, body.name)] as const,
	async handle(context) {
		const [bundle] = context.loaded[0].rows;
		if (bundle === undefined) throw bundleNotFound();
		refuseForeignBundle(bundle, context.principal, "app.upload_bundle");
		await finalize(context, bundle, context.loaded[1].rows[0]);
		return OK;
	},
});

type FinalizeContext = Pick<
	Context<string, undefined, undefined, AppScopeRow, readonly []>,
	"db" | "deps" | "scope" | "scopeRow" | "nowMs" | "actor" | "waitUntil"
>;

/** Makes a pending bundle ready: by its zip where that has arrived, else by its manifest alone. */
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
	await batchOrFail(
		db,
		[
			guard("pending", bundleIsPending(scope.appId, bundle.id)),
			guard("has_manifest", hasManifest(bundle.id)),
			uploadsOfBundleToGarbage(scope.appId, bundle.id, nowMs),
			deleteOpenUploadsOfBundle(scope.appId, bundle.id),
			updateBundle(scope.appId, bundle.id, {
				status: "ready",
				signed_by: bundle.manifest_signed_by,
				expires_at_ms: null,
				updated_at_ms: nowMs,
			}),
			guard("bundle_signed", bundlesAreSigned(scope.appId, [bundle.id])),
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
		],
		{
			pending: bundleAlreadyReady,
			bundle_signed: () => unverified(bundle.session_key === null ? "not_encrypted" : undefined),
			has_manifest: () =>
				new ApiError("bundle_incomplete", "Neither a zip nor a manifest has arrived; go on with the upload.", {
					moreInfo: { received_bytes: 0, expected_bytes: bundle.size_bytes },
				}),
		},
	);
}

export const deleteFailedVersion = endpoint({
	method: "DELETE",
	path: "/private/delete_failed_version",
	tag: TAG,
	summary: "Take back a registration whose upload failed",
	access: { permission: "app.upload_bundle", scope: appScope("query.app_id") },
	query: v.object(namedBundle),
	queryOrBody: true,
	response: acknowledgement,
	errors: ["bundle_not_found", "bundle_already_ready"],
	example: { query: { app_id: "com.example.app", name: "1.4.0" }, response: OK },
	load: ({ query: { app_id, name } }) => [bundleByName(app_id, name)] as const,
	async handle(context) {
		const [bundle] = context.loaded[0].rows;
		if (bundle === undefined) throw bundleNotFound();
		refuseForeignBundle(bundle, context.principal, "app.upload_bundle");
		if (bundle.status !== "pending") throw bundleAlreadyReady();
		await deleteOneBundle(context, bundle, { pendingOnly: true });
		return OK;
	},
});

/** Sessions do not come here (endpoints.ts). */
function callingKey({ keyId }: Principal): string {
	if (keyId === null) throw new Error("a session called an endpoint for keys alone");
	return keyId;
}
