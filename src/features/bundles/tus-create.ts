/**
 * Starts resumable uploads: of a registered bundle, or of a file of the delta store.
 */
import { isOwnWork } from "../../authz/own-work";
import { bundleByName } from "../../db/bundles";
import { query } from "../../db/client";
import { appIdOf } from "../../db/public-app-id";
import { uploadQuotas } from "../../db/quotas";
import { insertUpload, ownDeltaPath, uploaderColumns, upsertDeltaObject } from "../../db/uploads";
import { promisedContent } from "../../domain/bundles/delta-path";
import { ApiError, invalidRequest } from "../../errors";
import { type Context, endpoint } from "../../http/endpoint";
import { batchInQuotas } from "../../http/quotas";
import { appNotFound, bundleNotFound, type RawInput, type ScopeSource } from "../../http/scope";
import { emptyObjectKey, putOnce, uploadPrefix } from "../../storage/objects";
import { FILE_CONTENT_TYPE, keepsPromise } from "./complete";
import { PENDING_LIFETIME_MS, replaceUploadStatements } from "./registration";
import {
	MOST_SEGMENTS,
	requireTus,
	SEGMENT_BYTES,
	TUS_ANSWER,
	TUS_EXTENSIONS,
	TUS_HEADER,
	TUS_VERSION,
	type TusScopeRow,
	tusResponse,
	wholeNumber,
} from "./tus-protocol";
import { bundleAlreadyReady, deltaHashMismatch, refuseRegistration, sizeMismatch, tooLarge } from "./upload-errors";

const LONGEST_FILE_NAME = 900;

interface UploadTarget {
	readonly orgId: string;
	readonly appId: string;
	/** The bundle's version, for a zip. */
	readonly version: string | undefined;
	/** The whole path, for a file of the delta store. */
	readonly deltaPath: string | undefined;
}

/**
 * The target that `filename` in Upload-Metadata names: `orgs/<org>/apps/<app>/<version>.zip` or
 * `orgs/<org>/apps/<app>/delta/…`.
 */
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

const appOfNewUpload: ScopeSource<TusScopeRow> = {
	statement: (raw: RawInput) => {
		const target = targetOf(raw.headers);
		// Without a valid filename no app is found, as for an unknown app.
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

export const tusCapabilities = endpoint({
	method: "OPTIONS",
	path: "/files/upload/attachments",
	tag: "Uploads",
	summary: "Show the capabilities of the TUS endpoint",
	access: { public: "It shows the protocol version and the size limit, which are documented." },
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
	summary: "Start a resumable upload (TUS creation)",
	description:
		"`Upload-Metadata` holds `filename`, base64 of `orgs/<org id>/apps/<app_id>/<version>.zip` for a bundle that was registered with POST /bundle.",
	access: { permission: "app.upload_bundle", scope: appOfNewUpload },
	headers: {
		...TUS_HEADER,
		"Upload-Length": { description: "Bytes of the whole file.", required: true, example: "1048576" },
		"Upload-Metadata": {
			description: "`filename` and the base64 of the path.",
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
		return { bundle: target?.version === undefined ? undefined : bundleByName(target.appId, target.version) };
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
			const isPrivate = isPreview || promisedContent(path) === undefined;
			const stored = isPrivate ? ownDeltaPath(path, principal.keyId ?? principal.userId) : path;
			await beginFile(context, id, stored, lengthBytes, isPreview);
		} else {
			const [bundle] = loaded.bundle;
			if (bundle === undefined) throw bundleNotFound();
			if (bundle.status !== "pending") throw bundleAlreadyReady();
			if (!isOwnWork(bundle, principal)) {
				throw new ApiError(
					"bundle_already_exists",
					"Another key or account is uploading this version; choose another version.",
				);
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
				replaceUploadStatements(
					scope.appId,
					bundle.id,
					{ id, lengthBytes, uploader: principal, reservedBytes, createdAtMs: nowMs },
					bundleNotFound,
				),
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

/**
 * Starts the upload of a file of the delta store. An empty file is stored immediately, because the
 * client sends no bytes for it.
 */
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
		...uploaderColumns(principal),
		completed_at_ms: lengthBytes === 0 ? nowMs : null,
		expires_at_ms: nowMs + PENDING_LIFETIME_MS,
		created_at_ms: nowMs,
		reserved_bytes: lengthBytes,
	});
	if (lengthBytes > 0) {
		await batchInQuotas(db, deps.config.quotas, uploadQuotas(scope, principal, nowMs, isPreview), [begin]);
		return;
	}
	const objectKey = emptyObjectKey(scope.appId);
	await putOnce(deps.bundles, objectKey, new Uint8Array(), { contentType: FILE_CONTENT_TYPE });
	if (!(await keepsPromise(deps, path, objectKey))) throw deltaHashMismatch(path, false);
	await db.batch([begin, upsertDeltaObject(scope.appId, { path, objectKey, sizeBytes: 0 }, nowMs)]);
}
