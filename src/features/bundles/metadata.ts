/**
 * POST /bundle/metadata: the notes and the link of a bundle. Nothing else about a bundle changes
 * after its upload, because devices and approvals depend on it.
 */
import * as v from "valibot";
import { requireOwnWork } from "../../authz/own-work";
import { auditStatement } from "../../db/audit/entries";
import {
	bundleById,
	bundleByName,
	bundleIsLive,
	isShownOnProtectedChannel,
	shownOnProtectedChannel,
	updateBundle,
} from "../../db/bundles";
import { guard } from "../../db/client";
import { bumpRevision } from "../../db/snapshot";
import { ApiError } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { acknowledgement, bundleVersion, integerId, OK, optional, publicAppId, text, webUrl } from "../../http/schemas";
import { appScope, bundleNotFound } from "../../http/scope";

/** Null or an empty text removes the value. */
const cleared = <const Schema extends v.GenericSchema<string, string>>(schema: Schema) =>
	v.optional(
		v.nullable(
			v.union([
				v.pipe(
					v.literal(""),
					v.transform(() => null),
				),
				schema,
			]),
		),
	);

const metadataBody = v.pipe(
	v.object({
		app_id: publicAppId,
		version: optional(bundleVersion),
		version_id: optional(integerId),
		comment: cleared(text(2048)),
		link: cleared(webUrl),
	}),
	v.forward(
		v.partialCheck(
			[["version"], ["version_id"]],
			({ version, version_id }) => (version === undefined) !== (version_id === undefined),
			"send either version or version_id",
		),
		["version"],
	),
	v.forward(
		v.partialCheck(
			[["comment"], ["link"]],
			({ comment, link }) => comment !== undefined || link !== undefined,
			"send comment, link or both",
		),
		["comment"],
	),
);

export const changeMetadata = endpoint({
	method: "POST",
	path: "/bundle/metadata",
	tag: "Bundles",
	summary: "Change the notes and the link of a bundle",
	description: [
		"`comment` are the notes.",
		"A field that is left out stays as it is; null or an empty text removes it.",
		"Devices see both if the app has `expose_metadata`; then those of a bundle that a protected channel",
		"serves, and those of a preview's bundle that a channel outside of previews serves, are for",
		"administrators (`app.update_user_roles`).",
	],
	body: metadataBody,
	load: ({ body: { app_id, version, version_id } }) => ({
		bundle: version === undefined ? bundleById(app_id, version_id ?? 0) : bundleByName(app_id, version),
		protectedChannels: shownOnProtectedChannel(app_id, version ?? version_id ?? 0),
	}),
	access: {
		permissions: ["app.upload_bundle", "app.update_user_roles"],
		scope: appScope("body.app_id"),
		choose: ({ loaded }) => [loaded.protectedChannels.length > 0 ? "app.update_user_roles" : "app.upload_bundle"],
	},
	response: acknowledgement,
	errors: ["bundle_not_found", "channel_changed"],
	example: {
		body: { app_id: "com.example.app", version: "1.4.0", comment: "Search with suggestions" },
		response: OK,
	},
	async handle({ db, loaded, input, scope, scopeRow, principal, actor, nowMs }) {
		const [bundle] = loaded.bundle;
		if (bundle === undefined) throw bundleNotFound();
		requireOwnWork(principal, "app.upload_bundle", scope, bundle);
		const { comment = bundle.comment, link = bundle.link } = input.body;
		if (comment === bundle.comment && link === bundle.link) return OK;
		const isForEveryUploader = loaded.protectedChannels.length === 0;
		await db.batch([
			guard(bundleIsLive(scope.appId, bundle.id), bundleNotFound),
			...(isForEveryUploader ? [guard(isShownOnProtectedChannel(scope.appId, bundle.id, false), nowProtected)] : []),
			updateBundle(scope.appId, bundle.id, { comment, link, updated_at_ms: nowMs }),
			auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: "bundle.update",
				target: { type: "bundle", id: String(bundle.id), name: bundle.name },
				app: { uuid: scope.appId, id: scopeRow.app_id },
				before: { comment: bundle.comment, link: bundle.link },
				after: { comment, link },
			}),
			// Devices may be offered both.
			bumpRevision(scope.appId),
		]);
		return OK;
	},
});

const nowProtected = () =>
	new ApiError(
		"channel_changed",
		"A channel that shows these notes to its devices serves the bundle since this request began; ask an administrator to change them.",
	);
