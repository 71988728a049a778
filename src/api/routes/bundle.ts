/**
 * Bundles: uploaded web builds. A registration reserves the version; the last byte, checked, makes it ready; from then on it never
 * changes. A bundle that a channel uses is never deleted.
 */
import * as v from "valibot";
import type { AppId } from "../../authz/decide";
import { auditStatement } from "../../db/audit";
import { auditBundlesGoing, auditedRegistration } from "../../db/bundle-audit";
import {
	type BundleListRow,
	bundleByName,
	bundleIdNamed,
	bundleIsLive,
	bundleIsPending,
	bundleRecord,
	bundlesGoing,
	bundlesKeptForRollback,
	bundlesPage,
	deleteUnusedBundles,
	dropPendingBundle,
	liveBundle,
	markBundleDeleted,
} from "../../db/bundles";
import { bundleUnusedExceptBy } from "../../db/channels";
import { batchOrFail, type Database, guard } from "../../db/client";
import { signingRulesOfApp } from "../../db/signing-keys";
import { bumpRevision } from "../../db/snapshot";
import { bytesOfBundleToGarbage, latestUploadOf, uploadsOfBundleToGarbage } from "../../db/uploads";
import { ApiError, invalidRequest } from "../../errors";
import { collectGarbageSoon, removeBytes } from "../../events/producer";
import { signedUploadUrl } from "../../storage/links";
import {
	openUploadStatement,
	refuseReleaseOfPreview,
	refuseTakenVersion,
	registeredValues,
	registrationQuotas,
	registrationStatements,
	versionWasTaken,
} from "../bundle-registration";
import { refuseUnsigned, SIGNATURE_ERRORS } from "../bundle-signing";
import {
	changeChannel,
	PROMOTION_ERRORS,
	pendingApproval,
	pendingApprovalAnswer,
	promotionReads,
	refuseForeignBundle,
} from "../channel-change";
import { type Context, endpoint, Reply } from "../endpoint";
import { verifyExternalBundle } from "../external-bundle";
import { pageBounds, pageReply } from "../page";
import { batchInQuotas } from "../quotas";
import {
	acknowledgement,
	booleanText,
	bundleGoingSchema,
	bundleVersion,
	httpsUrl,
	integerId,
	nullableRfc3339,
	nullableTime,
	OK,
	optional,
	pageNumber,
	publicAppId,
	rfc3339,
	text,
	time,
	webUrl,
} from "../schemas";
import { type AppScopeRow, appScope, bundleNotFound, channelNotFound, channelScope } from "../scope";
import { bundleAlreadyReady, finishUpload, receivedSoFar } from "../upload-completion";
import { MAY_WAIT } from "../visibility";
import { bundleInUse } from "./channel";

const bundleFields = {
	id: v.number(),
	app_id: v.string(),
	name: v.string(),
	checksum: v.nullable(v.string()),
	size: v.nullable(v.number()),
	storage_provider: v.picklist(["r2", "external"]),
	external_url: v.nullable(v.string()),
	session_key: v.nullable(v.string()),
	key_id: v.nullable(v.string()),
	signed_by: v.nullable(v.string()),
	min_update_version: v.nullable(v.string()),
	comment: v.nullable(v.string()),
	link: v.nullable(v.string()),
	created_by_key: v.nullable(v.string()),
	created_at: time,
	updated_at: time,
	expires_at: nullableTime,
	channels: v.array(v.string()),
};
export const bundleSchema = v.strictObject(bundleFields);
const registeredBundleSchema = v.strictObject({ ...bundleFields, upload_url: v.optional(v.string()) });

export function bundleAnswer(row: BundleListRow): v.InferOutput<typeof bundleSchema> {
	return {
		id: row.id,
		app_id: row.public_app_id,
		name: row.name,
		checksum: row.checksum,
		size: row.size_bytes,
		storage_provider: row.storage_provider,
		external_url: row.external_url,
		session_key: row.session_key,
		key_id: row.key_id,
		signed_by: row.signer,
		min_update_version: row.min_update_version,
		comment: row.comment,
		link: row.link,
		created_by_key: row.created_by_key,
		created_at: rfc3339(row.created_at_ms),
		updated_at: rfc3339(row.updated_at_ms),
		expires_at: nullableRfc3339(row.kept_until_ms),
		channels: JSON.parse(row.channels),
	};
}

const EXAMPLE_BUNDLE = {
	id: 41,
	app_id: "com.example.app",
	name: "1.4.0-pr.128",
	checksum: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
	size: 1_048_576,
	storage_provider: "r2" as const,
	external_url: null,
	session_key: null,
	key_id: null,
	signed_by: null,
	min_update_version: null,
	comment: null,
	link: null,
	created_by_key: "5d0c7f3a-7c2e-4a2b-9f60-2f4f1c9f7a31",
	created_at: "2026-11-21T08:00:00.000Z",
	updated_at: "2026-11-21T08:00:00.000Z",
	expires_at: null,
	channels: ["pr-128"],
};

export const listBundles = endpoint({
	method: "GET",
	path: "/bundle",
	tag: "Bundles",
	summary: "List an app's bundles, newest first",
	description:
		"`expires_at` is when automatic clean-up may delete the bundle by the app's `retention`; a time in the past means with the next run, within 15 minutes. It moves on while devices that run the bundle are seen. It is null for a bundle that stays: the app's newest one, one that a channel or a rollout serves, one of the last that were live on a channel (`keep_live_bundles`), one that an operator set for a device, and every bundle of an app with retention 0.",
	access: { permission: "app.read_bundles", scope: appScope("query.app_id") },
	query: v.object({ app_id: publicAppId, version: optional(bundleVersion), page: pageNumber }),
	response: v.array(bundleSchema),
	errors: [],
	example: { query: { app_id: "com.example.app" }, response: [EXAMPLE_BUNDLE] },
	load: ({ query: { app_id, version, page } }) => {
		const { limit, offset } = pageBounds(page);
		return [bundlesPage(app_id, version, limit, offset)] as const;
	},
	async handle({ loaded, input, request, origin }) {
		return pageReply({ request, origin }, input.query.page, loaded[0].rows, bundleAnswer);
	},
});

const LONGEST_OPAQUE = 2048;
/** A lower-case SHA-256, or whatever an encrypting uploader has instead. */
export const checksumText = v.pipe(
	text(LONGEST_OPAQUE),
	v.transform((value) => (/^[0-9a-f]{64}$/i.test(value) ? value.toLowerCase() : value)),
);

/** The form that devices accept. It is opaque otherwise, unless the organization requires signed bundles (src/api/bundle-signing.ts). */
export const sessionKeyText = v.pipe(
	text(LONGEST_OPAQUE),
	v.regex(/^[A-Za-z0-9+/]+={0,2}:[A-Za-z0-9+/]+={0,2}$/, "must be <iv>:<key> in base64, as `bundle encrypt` prints it"),
);

const newBundleBody = v.pipe(
	v.object({
		app_id: publicAppId,
		version: bundleVersion,
		checksum: optional(checksumText),
		size: optional(
			v.pipe(v.number(), v.safeInteger("must be a whole number of bytes"), v.minValue(1, "must be positive")),
		),
		external_url: optional(httpsUrl),
		session_key: optional(sessionKeyText),
		key_id: optional(text(64)),
		min_update_version: optional(bundleVersion),
		comment: optional(text(2048)),
		link: optional(webUrl),
	}),
	v.forward(
		v.partialCheck(
			[["checksum"], ["session_key"]],
			({ checksum, session_key }) =>
				checksum === undefined || session_key !== undefined || /^[0-9a-f]{64}$/.test(checksum),
			"must be the SHA-256 of the file, 64 hexadecimal digits; other values go with a session_key",
		),
		["checksum"],
	),
);

export const registerBundle = endpoint({
	method: "POST",
	path: "/bundle",
	tag: "Bundles",
	summary: "Register a bundle, to upload it or to point to an external file",
	description:
		"Answers with the record and an `upload_url` that takes the bytes in one PUT without a key; or upload them in pieces by TUS at /files/upload/attachments. With `external_url` the file is fetched and hashed, and the bundle is ready at once. A version that the caller left unfinished starts over.",
	access: { permission: "app.upload_bundle", scope: appScope("body.app_id") },
	body: newBundleBody,
	status: [201],
	response: registeredBundleSchema,
	errors: [
		"quota_exceeded",
		"bundle_already_exists",
		"preview_version_must_be_prerelease",
		"external_url_rejected",
		"payload_too_large",
		"checksum_mismatch",
		"size_mismatch",
		"bundle_invalid",
		...SIGNATURE_ERRORS,
	],
	example: {
		body: { app_id: "com.example.app", version: "1.4.0-pr.128", checksum: EXAMPLE_BUNDLE.checksum, size: 1_048_576 },
		response: {
			...EXAMPLE_BUNDLE,
			channels: [],
			upload_url: "https://updates.example.com/files/upload/one/…?expires=…&signature=…",
		},
	},
	load: ({ body }) => [bundleByName(body.app_id, body.version), signingRulesOfApp(body.app_id)] as const,
	async handle({ db, deps, principal, scope, scopeRow, input, loaded, nowMs, actor, origin, ownWorkOnly }) {
		const { body } = input;
		const [existing] = loaded[0].rows;
		refuseReleaseOfPreview(ownWorkOnly("app.upload_bundle"), scopeRow, body.version);
		refuseTakenVersion(existing, principal, nowMs);
		if (body.size !== undefined && body.size > deps.config.maxBundleBytes) {
			throw invalidRequest([{ path: "size", message: `must be at most ${deps.config.maxBundleBytes} bytes` }]);
		}
		const facts = {
			checksum: body.checksum ?? null,
			size_bytes: body.size ?? null,
			session_key: body.session_key ?? null,
			key_id: body.key_id ?? null,
			min_update_version: body.min_update_version ?? null,
			native_packages: null,
			comment: body.comment ?? null,
			link: body.link ?? null,
			cli_version: null,
		};
		const signedBy = await refuseUnsigned(loaded[1].rows[0]?.signing_rules, facts);
		const external =
			body.external_url === undefined
				? undefined
				: { ...(await verifyExternal(deps, body.external_url, facts)), signed_by: signedBy };
		const values = registeredValues(facts, external, nowMs);
		const uploadId = deps.newId();
		const results = await batchInQuotas(
			db,
			deps.config.quotas,
			registrationQuotas({ scope, principal, nowMs, ownWorkOnly }, external === undefined),
			[
				...registrationStatements(scope.appId, body.version, existing, values, principal, actor, nowMs),
				...(external === undefined ? [openUploadStatement(scope.appId, body.version, uploadId, principal, nowMs)] : []),
				auditStatement(actor, nowMs, {
					orgId: scope.orgId,
					action: "bundle.register",
					target: { type: "bundle", id: bundleIdNamed(scope.appId, body.version), name: body.version },
					app: { uuid: scope.appId, id: scopeRow.app_id },
					after: auditedRegistration(body.version, values),
				}),
				bundleRecord(scope.appId, body.version),
			],
			{ "bundles.app_id, bundles.name": versionWasTaken },
		);
		const row = (results.at(-1) as { rows: BundleListRow[] } | undefined)?.rows[0];
		if (row === undefined) throw new Error("the bundle that was just registered is missing");
		return new Reply(201, {
			...bundleAnswer(row),
			...(external === undefined ? { upload_url: signedUploadUrl(deps, origin, uploadId, nowMs) } : {}),
		});
	},
});

/** The facts of an external bundle, after its file was fetched; an unencrypted one must be what it was said to be. */
export async function verifyExternal(
	deps: Parameters<typeof verifyExternalBundle>[0],
	url: string,
	facts: { readonly checksum: string | null; readonly size_bytes: number | null; readonly session_key: string | null },
) {
	const verified = await verifyExternalBundle(deps, url, facts.session_key !== null);
	if (facts.size_bytes !== null && facts.size_bytes !== verified.sizeBytes) {
		throw new ApiError("size_mismatch", "The file at external_url has another size; correct size or leave it out.", {
			moreInfo: { expected: facts.size_bytes, received: verified.sizeBytes },
		});
	}
	if (facts.checksum !== null && facts.session_key === null && facts.checksum !== verified.sha256) {
		throw new ApiError(
			"checksum_mismatch",
			"The file at external_url has another SHA-256; correct checksum or leave it out.",
		);
	}
	return {
		external_url: url,
		sha256: verified.sha256,
		size_bytes: verified.sizeBytes,
		checksum: facts.checksum ?? verified.sha256,
	};
}

export const completeBundle = endpoint({
	method: "POST",
	path: "/bundle/complete",
	tag: "Bundles",
	summary: "Ask whether a bundle is ready, and finish it if only that is missing",
	description:
		"The last byte completes an upload by itself; this finishes one that a crash interrupted. Safe to repeat.",
	access: { permission: "app.upload_bundle", scope: appScope("body.app_id") },
	body: v.object({ app_id: publicAppId, version: bundleVersion }),
	response: bundleSchema,
	errors: [
		"quota_exceeded",
		"bundle_not_found",
		"bundle_incomplete",
		"bundle_already_ready",
		"upload_not_found",
		"size_mismatch",
		"checksum_mismatch",
		"bundle_invalid",
		...SIGNATURE_ERRORS,
	],
	example: { body: { app_id: "com.example.app", version: "1.4.0-pr.128" }, response: EXAMPLE_BUNDLE },
	load: ({ body }) => [bundleByName(body.app_id, body.version), latestUploadOf(body.app_id, body.version)] as const,
	async handle(context) {
		const { deps, loaded, principal, ownWorkOnly } = context;
		const [bundle] = loaded[0].rows;
		const [upload] = loaded[1].rows;
		if (bundle === undefined) throw bundleNotFound();
		if (ownWorkOnly("app.upload_bundle") !== undefined) refuseForeignBundle(bundle, principal, "app.upload_bundle");
		if (bundle.status === "ready") return bundleAnswer(bundle);
		const received = upload === undefined ? undefined : await receivedSoFar(deps, upload);
		if (upload === undefined || received === undefined || (received.objectKey === undefined && !received.inSegments)) {
			throw new ApiError(
				"bundle_incomplete",
				"Bytes are missing; go on with the upload, or register the version again.",
				{
					moreInfo: {
						received_bytes: received?.receivedBytes ?? 0,
						expected_bytes: upload?.length_bytes ?? bundle.size_bytes,
					},
				},
			);
		}
		const ready = await finishUpload(context, upload, received);
		return bundleAnswer({ ...bundle, ...ready });
	},
});

export const promoteBundle = endpoint({
	method: "PUT",
	path: "/bundle",
	tag: "Bundles",
	summary: "Promote a bundle to a channel",
	description:
		"A rollout of the same bundle on the channel is finished; a rollout of another bundle keeps running. Devices in its share keep getting that bundle. On a protected channel that requires approval the answer is 202, and the promotion waits (POST /proposal/approve).",
	access: {
		permission: "channel.promote_bundle",
		scope: channelScope("body.app_id", { id: "body.channel_id" }),
	},
	body: v.object({ app_id: publicAppId, version_id: integerId, channel_id: integerId }),
	status: [200, 202],
	headers: MAY_WAIT,
	response: v.union([
		v.strictObject({ status: v.literal("success"), message: v.string() }),
		v.strictObject(pendingApproval),
	]),
	errors: ["bundle_not_found", "channel_not_found", ...PROMOTION_ERRORS],
	example: {
		body: { app_id: "com.example.app", version_id: 41, channel_id: 7 },
		response: { status: "success", message: "Bundle 1.4.0-pr.128 set to channel pr-128" },
	},
	load: ({ body }, nowMs) => promotionReads(body.app_id, body.channel_id, body.version_id, nowMs),
	async handle(context) {
		const { loaded, input } = context;
		const [channel] = loaded[0].rows;
		const [bundle] = loaded[1].rows;
		if (channel === undefined) throw channelNotFound();
		if (bundle === undefined) throw bundleNotFound();
		const body = { app_id: input.body.app_id, channel: channel.name, version: bundle.id };
		const { proposal } = await changeChannel({ ...context, input: { body } }, "channel.promote");
		if (proposal !== undefined) return new Reply(202, pendingApprovalAnswer(proposal));
		return { status: "success" as const, message: `Bundle ${bundle.name} set to channel ${channel.name}` };
	},
});

const deleteBundleQuery = v.pipe(
	v.object({
		app_id: publicAppId,
		version: optional(text(128)),
		all: optional(booleanText),
		dry_run: optional(booleanText),
	}),
	v.check(
		({ version, all }) => (version !== undefined) !== (all === true),
		"say either version=<one version> or all=true (every unused bundle)",
	),
);

/** Bundles that a dry run names; it counts them all. */
const MOST_BUNDLES_NAMED = 100;

export const deleteBundle = endpoint({
	method: "DELETE",
	path: "/bundle",
	tag: "Bundles",
	summary: "Delete one bundle, or with all=true every unused bundle",
	description:
		"Unused is what no channel and no rollout serves, and what is not one of the last bundles that were live on a channel (the app's `keep_live_bundles`): those stay, so that the channel can be rolled back. A bundle that is deleted by its version goes even then, and no channel can be rolled back to it any more. `dry_run=true` changes nothing: it answers what would go (`bundles` holds the newest 100), how many devices run each bundle, which channels could be rolled back to it, and `kept_for_rollback`, the unlinked bundles that `all=true` leaves; it refuses what would be refused.",
	access: { permission: "bundle.delete", scope: appScope("query.app_id") },
	query: deleteBundleQuery,
	queryOrBody: true,
	headers: MAY_WAIT,
	response: v.union([
		acknowledgement,
		v.strictObject({
			status: v.literal("ok"),
			dry_run: v.literal(true),
			removes: v.strictObject({
				bundles: v.number(),
				bundle_bytes: v.number(),
				device_overrides: v.number(),
				devices: v.number(),
			}),
			kept_for_rollback: v.number(),
			bundles: v.array(v.strictObject({ ...bundleGoingSchema.entries, rollback_target_of: v.array(v.string()) })),
		}),
	]),
	errors: ["bundle_not_found", "bundle_in_use"],
	example: { query: { app_id: "com.example.app", version: "1.4.0-pr.128" }, response: OK },
	load: ({ query: { app_id, version } }) => [bundleByName(app_id, version ?? "")] as const,
	async handle(context) {
		const { db, deps, scope, input, loaded, nowMs, actor, waitUntil } = context;
		const dryRun = input.query.dry_run === true;
		if (input.query.all === true) {
			if (dryRun) return wouldRemove(db, scope.appId, undefined);
			await db.batch([
				...deleteUnusedBundles(scope.appId, nowMs, (doomed) => auditBundlesGoing(actor, nowMs, doomed)),
				bumpRevision(scope.appId),
			]);
			waitUntil(collectGarbageSoon(deps));
			return OK;
		}
		const [bundle] = loaded[0].rows;
		if (bundle === undefined) throw bundleNotFound();
		if (dryRun) {
			refuseUsed(bundle);
			return wouldRemove(db, scope.appId, bundle.id);
		}
		await deleteOneBundle(context, bundle);
		return OK;
	},
});

async function wouldRemove(db: Database, appId: AppId, bundleId: number | undefined) {
	const [{ rows: going }, { rows: kept }] = await db.batch([
		bundlesGoing(appId, bundleId, MOST_BUNDLES_NAMED),
		bundlesKeptForRollback(appId),
	]);
	const [first] = going;
	return {
		...OK,
		dry_run: true as const,
		removes: {
			bundles: first?.bundles ?? 0,
			bundle_bytes: first?.bundle_bytes ?? 0,
			device_overrides: first?.device_overrides ?? 0,
			devices: first?.devices_of_all ?? 0,
		},
		kept_for_rollback: kept[0]?.bundles ?? 0,
		bundles: going.map(({ id, name, size_bytes, devices, rollback_target_of }) => ({
			...{ id, version: name, size: size_bytes, devices },
			rollback_target_of: JSON.parse(rollback_target_of) as string[],
		})),
	};
}

function refuseUsed(bundle: BundleListRow): void {
	const channels: string[] = JSON.parse(bundle.channels);
	if (channels.length > 0) throw bundleInUse(channels, bundle.name);
}

/** Deletes a bundle that no channel uses; one that is still pending leaves no trace. */
export async function deleteOneBundle(
	context: Pick<
		Context<string, undefined, undefined, AppScopeRow, readonly []>,
		"db" | "deps" | "scope" | "scopeRow" | "nowMs" | "actor" | "waitUntil"
	>,
	bundle: BundleListRow,
	{ pendingOnly = false } = {},
): Promise<void> {
	const { db, deps, scope, nowMs, actor, waitUntil } = context;
	refuseUsed(bundle);
	await batchOrFail(
		db,
		[
			guard("bundle_live", bundleIsLive(scope.appId, bundle.id)),
			guard("bundle_unused", bundleUnusedExceptBy(scope.appId, bundle.id, 0)),
			...(pendingOnly ? [guard("bundle_pending", bundleIsPending(scope.appId, bundle.id))] : []),
			auditBundlesGoing(actor, nowMs, liveBundle(scope.appId, bundle.id)),
			// Both ways for either kind: a pending bundle may have become ready since it was read.
			uploadsOfBundleToGarbage(scope.appId, bundle.id, nowMs),
			dropPendingBundle(scope.appId, bundle.id),
			bytesOfBundleToGarbage(scope.appId, bundle.id, nowMs),
			...markBundleDeleted(scope.appId, bundle.id, nowMs),
			bumpRevision(scope.appId),
		],
		{
			bundle_live: bundleNotFound,
			bundle_unused: () => bundleInUse([], bundle.name),
			bundle_pending: bundleAlreadyReady,
		},
	);
	await removeBytes(deps, [bundle], waitUntil);
}
