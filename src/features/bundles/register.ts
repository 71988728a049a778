/**
 * POST /bundle reserves a version and says where its bytes belong. POST /bundle/complete finishes
 * an upload that a crash interrupted.
 */

import * as v from "valibot";
import { requireOwnWork } from "../../authz/own-work";
import { bundleByName } from "../../db/bundles";
import { signingRulesOfApp } from "../../db/signing-keys";
import { latestUploadOf } from "../../db/uploads";
import { usesOfVersion } from "../../db/used-versions";
import { packagesOf } from "../../domain/bundles/native-packages";
import { ApiError } from "../../errors";
import { endpoint, Reply } from "../../http/endpoint";
import { bundleVersion, httpsUrl, optional, publicAppId, text, webUrl } from "../../http/schemas";
import { appScope, bundleNotFound } from "../../http/scope";
import { signedUploadUrl } from "../../storage/links";
import { SIGNATURE_ERRORS } from "../signing/verify";
import { finishUpload, receivedSoFar } from "./complete";
import { bundleAnswer, bundleFields, bundleSchema, EXAMPLE_BUNDLE } from "./list";
import { reopenLost } from "./lost-bytes";
import { nativePackages, nativePackagesField } from "./native-packages";
import { checksumText, factsOf, register, reusedName, sessionKeyText } from "./registration";

const registeredBundleSchema = v.strictObject({
	...bundleFields,
	native_packages: nativePackages,
	upload_url: v.optional(v.string()),
});

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
		native_packages: optional(nativePackagesField),
		reuse_version: optional(v.boolean()),
	}),
	v.forward(
		v.partialCheck(
			[["checksum"], ["session_key"]],
			({ checksum, session_key }) =>
				checksum === undefined || session_key !== undefined || /^[0-9a-f]{64}$/.test(checksum),
			"must be the SHA-256 of the file, 64 hexadecimal digits; other values need a session_key",
		),
		["checksum"],
	),
);

const EXAMPLE_PACKAGES = [{ name: "@capacitor/camera", version: "7.0.2" }];

export const registerBundle = endpoint({
	method: "POST",
	path: "/bundle",
	tag: "Bundles",
	summary: "Register a bundle, to upload it or to point to an external file",
	description: [
		"Answers with the record and an `upload_url` that takes the bytes in one PUT without a key; or upload",
		"them by TUS at /files/upload/attachments.",
		"With `external_url` the file is fetched and hashed, and the bundle is ready immediately.",
		"A version that the same caller left unfinished starts over.",
		"If the bytes of a ready bundle are lost, the same",
		"`checksum` gets an `upload_url` that stores the same bytes again.",
		"A version that was live or set for a device outside of previews stays taken after its bundle is",
		"deleted; `reuse_version: true` takes it again under a name such as `1.4.0+reuse.2`, which the answer",
		"has and which devices with the old bytes load, and requests may go on to name it `1.4.0`.",
		"A job of a `preview` publisher whose token names a pull request opens or renews its preview in the",
		"same step, with the rules of POST /preview, and the bundle belongs to that preview.",
		"`native_packages` are the plugins with native code that the bundle calls, as `capstan release` and",
		"the stock CLI find them: with it, GET /bundle/compatibility compares the bundle with the store",
		"builds of a channel.",
	],
	access: { permission: "app.upload_bundle", scope: appScope("body.app_id") },
	body: newBundleBody,
	status: [201],
	response: registeredBundleSchema,
	errors: [
		"quota_exceeded",
		"bundle_already_exists",
		"version_was_used",
		"bundle_of_another_preview",
		"channel_name_reserved",
		"preview_changed",
		"preview_closed",
		"preview_version_must_be_prerelease",
		"external_url_rejected",
		"payload_too_large",
		"checksum_mismatch",
		"size_mismatch",
		"bundle_invalid",
		...SIGNATURE_ERRORS,
	],
	example: {
		body: {
			app_id: "com.example.app",
			version: "1.4.0-pr.128",
			checksum: EXAMPLE_BUNDLE.checksum,
			size: 1_048_576,
			native_packages: EXAMPLE_PACKAGES,
		},
		response: {
			...EXAMPLE_BUNDLE,
			native_packages: EXAMPLE_PACKAGES,
			channels: [],
			upload_url: "https://updates.example.com/files/upload/one/…?expires=…&signature=…",
		},
	},
	load: ({ body }) => ({
		bundle: bundleByName(body.app_id, body.version),
		rules: signingRulesOfApp(body.app_id),
		earlier: usesOfVersion(body.app_id, body.version),
	}),
	async handle(context) {
		const { deps, input, loaded, nowMs, origin } = context;
		const { body } = input;
		const uploadId = body.external_url === undefined ? deps.newId() : undefined;
		const uses = body.reuse_version === true ? (loaded.earlier[0]?.uses ?? 0) : 0;
		const reopened =
			uploadId === undefined ? undefined : await reopenLost(context, loaded.bundle[0], body.checksum, uploadId);
		const row =
			reopened ??
			(await register(context, {
				version: reusedName(body.version, uses),
				reuseOf: uses === 0 ? undefined : body.version,
				existing: loaded.bundle[0],
				signingRules: loaded.rules[0]?.signing_rules,
				externalUrl: body.external_url,
				uploadId,
				facts: factsOf({ ...body, size_bytes: body.size }),
			}));
		return new Reply(201, {
			...bundleAnswer(row),
			native_packages: packagesOf(row.native_packages),
			...(uploadId === undefined ? {} : { upload_url: await signedUploadUrl(deps, origin, uploadId, nowMs) }),
		});
	},
});

export const completeBundle = endpoint({
	method: "POST",
	path: "/bundle/complete",
	tag: "Bundles",
	summary: "Show whether a bundle is ready, and complete it if all bytes have arrived",
	description:
		"The last byte completes an upload by itself; this request completes one that a crash interrupted. Idempotent.",
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
	load: ({ body }) => ({
		bundle: bundleByName(body.app_id, body.version),
		upload: latestUploadOf(body.app_id, body.version),
	}),
	async handle(context) {
		const { deps, loaded, principal, scope } = context;
		const [bundle] = loaded.bundle;
		const [upload] = loaded.upload;
		if (bundle === undefined) throw bundleNotFound();
		requireOwnWork(principal, "app.upload_bundle", scope, bundle);
		if (bundle.status === "ready") return bundleAnswer(bundle);
		const received = upload === undefined ? undefined : await receivedSoFar(deps, upload);
		if (upload === undefined || received === undefined || (received.objectKey === undefined && !received.inSegments)) {
			throw new ApiError(
				"bundle_incomplete",
				"Bytes are missing; continue the upload, or register the version again.",
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
