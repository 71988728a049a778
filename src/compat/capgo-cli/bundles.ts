/**
 * The stock CLI's requests about bundles: the newest one, registration, the mark for deletion, and
 * the removal of a registration whose upload failed.
 */

import * as v from "valibot";
import { requireCreator } from "../../authz/own-work";
import { auditDeleteMarks } from "../../db/audit/bundles";
import { bundlesPage } from "../../db/bundle-list";
import {
	type BundleListRow,
	bundleByName,
	bundleOfScope,
	bundlesByNames,
	liveBundles,
	newestRelease,
} from "../../db/bundles";
import { query } from "../../db/client";
import { appIdOf } from "../../db/public-app-id";
import { signingRulesOfApp } from "../../db/signing-keys";
import { latestUploadOf } from "../../db/uploads";
import { ApiError, invalidRequest } from "../../errors";
import { deleteBundleRow } from "../../features/bundles/delete";
import { nativePackagesField } from "../../features/bundles/native-packages";
import { checksumText, factsOf, register, sessionKeyText } from "../../features/bundles/registration";
import { bundleAlreadyReady } from "../../features/bundles/upload-errors";
import { SIGNATURE_ERRORS } from "../../features/signing/verify";
import { endpoint, Reply } from "../../http/endpoint";
import { acknowledgement, bundleVersion, httpsUrl, OK, optional, publicAppId, text, webUrl } from "../../http/schemas";
import {
	type AppScopeRow,
	appNotFound,
	appScope,
	bundleNotFound,
	type RawInput,
	type ScopeSource,
	textAt,
} from "../../http/scope";
import {
	appFilter,
	appOfFilter,
	filter,
	filters,
	rowsReply,
	shapeOf,
	singleRefusal,
	TABLES,
	TAG,
	valuesFilter,
} from "./postgrest";
import { setDeleteMark } from "./queries";
import { finalize, namedBundle } from "./uploads";

const versionRow = v.strictObject({ id: v.optional(v.number()), name: v.string() });

/** Every `select` that the CLI sends about the newest bundle. */
const VERSION_SHAPES: Readonly<Record<string, (row: BundleListRow) => v.InferInput<typeof versionRow>>> = {
	name: (row) => ({ name: row.name }),
	"id,name": (row) => ({ id: row.id, name: row.name }),
};

export const readVersions = endpoint({
	method: "GET",
	path: `${TABLES}/app_versions`,
	tag: TAG,
	summary: "Show the newest bundle of an app, for `bundle upload --auto-bump`",
	access: { permission: "app.read_bundles", scope: appOfFilter("query.app_id") },
	query: filters({
		select: v.string(),
		app_id: appFilter,
		order: v.literal("created_at.desc", "must be created_at.desc"),
		limit: v.literal("1", "must be 1"),
	}),
	response: v.union([v.array(versionRow), singleRefusal, versionRow]),
	status: [200, 406],
	errors: [],
	example: {
		query: { select: "name", app_id: "eq.com.example.app", order: "created_at.desc", limit: "1" },
		response: [{ name: "1.4.0" }],
	},
	// Bundles of previews do not move the versions of releases, and `channel set --latest-remote`
	// promotes none.
	load: ({ query: { app_id } }) => ({
		newest: bundlesPage(app_id, {}, {}, { limit: 1, offset: 0 }),
		release: newestRelease(app_id),
	}),
	async handle({ input, loaded, ownWorkOnly, request }) {
		const shape = shapeOf(VERSION_SHAPES, input.query.select);
		const rows = ownWorkOnly("app.read_bundles") === undefined ? loaded.release : loaded.newest;
		return rowsReply(request.headers, rows.map(shape));
	},
});

const uploadedVersion = v.object({
	app_id: publicAppId,
	name: bundleVersion,
	storage_provider: v.picklist(["r2-direct", "r2", "external"], "must be r2-direct, r2 or external"),
	checksum: optional(checksumText),
	session_key: optional(sessionKeyText),
	key_id: optional(text(64)),
	external_url: optional(httpsUrl),
	min_update_version: optional(bundleVersion),
	native_packages: optional(nativePackagesField),
	comment: optional(text(2048)),
	link: optional(webUrl),
	cli_version: optional(text(64)),
});

export const upsertVersion = endpoint({
	method: "POST",
	path: `${TABLES}/app_versions`,
	tag: TAG,
	summary: "Register a bundle, or complete its upload",
	description: [
		"With storage_provider r2-direct or external it registers like POST /bundle.",
		"With r2 it completes the upload, and changes nothing on a bundle that is ready.",
		"Only /private/set_manifest sets a manifest, so `manifest: null` does not remove one.",
	],
	access: { permission: "app.upload_bundle", scope: appScope("body.app_id") },
	query: filters({
		on_conflict: optional(v.literal("name,app_id", "must be name,app_id")),
		app_id: optional(appFilter),
		name: optional(filter("eq")),
	}),
	body: uploadedVersion,
	status: [201],
	response: v.null(),
	errors: [
		"bundle_already_exists",
		"version_was_used",
		"bundle_already_ready",
		"bundle_incomplete",
		"bundle_invalid",
		"bundle_not_found",
		"checksum_mismatch",
		"conflicting_parameters",
		"bundle_of_another_preview",
		"channel_name_reserved",
		"preview_changed",
		"preview_closed",
		"preview_version_must_be_prerelease",
		"external_url_rejected",
		"quota_exceeded",
		"size_mismatch",
		"upload_not_found",
		...SIGNATURE_ERRORS,
	],
	example: { body: { app_id: "com.example.app", name: "1.4.0", storage_provider: "r2-direct" }, response: null },
	load: ({ body }) => ({
		bundle: bundleByName(body.app_id, body.name),
		upload: latestUploadOf(body.app_id, body.name),
		rules: signingRulesOfApp(body.app_id),
	}),
	async handle(context) {
		const { principal, input, loaded } = context;
		const { body } = input;
		const filtered = input.query;
		if ((filtered.app_id ?? body.app_id) !== body.app_id || (filtered.name ?? body.name) !== body.name) {
			throw new ApiError(
				"conflicting_parameters",
				"The filter and the body name different bundles; name the same bundle.",
			);
		}
		const [existing] = loaded.bundle;
		if (body.storage_provider === "r2") {
			if (existing === undefined) throw bundleNotFound();
			requireCreator(principal, "app.upload_bundle", existing);
			await finalize(context, existing, loaded.upload[0]);
			return null;
		}
		const isExternal = body.storage_provider === "external";
		if (isExternal && body.external_url === undefined) {
			throw invalidRequest([{ path: "external_url", message: "is required with storage_provider external" }]);
		}
		await register(context, {
			version: body.name,
			existing,
			signingRules: loaded.rules[0]?.signing_rules,
			externalUrl: isExternal ? body.external_url : undefined,
			facts: factsOf(body),
		});
		return null;
	},
});

/** The app of a bundle, by app and version or by the bundle's id. */
const appOfVersion: ScopeSource<AppScopeRow> = {
	statement: (raw: RawInput) => {
		const appId = textAt(raw, "query.app_id")?.replace(/^eq\./, "");
		const id = Number(textAt(raw, "query.id")?.replace(/^eq\./, ""));
		if (appId === undefined && !Number.isSafeInteger(id)) return undefined;
		const apps = query
			.selectFrom("apps")
			.select(["apps.id", "apps.app_id", "apps.owner_org", "apps.default_upload_channel"]);
		return appId === undefined
			? apps.innerJoin("bundles", "bundles.app_id", "apps.id").where("bundles.id", "=", id).compile()
			: apps.where("apps.id", "=", appIdOf(appId)).compile();
	},
	target: (row) => ({ orgId: row.owner_org, appId: row.id }),
	hidden: appNotFound,
};

const versionFilter = v.pipe(
	filters({
		app_id: optional(appFilter),
		name: optional(valuesFilter),
		id: optional(v.pipe(filter("eq"), v.regex(/^\d{1,15}$/, "must be eq.<id>"), v.transform(Number))),
		deleted: optional(v.literal("eq.false", "must be eq.false")),
	}),
	v.check(
		({ app_id, name, id }) => (id !== undefined && name === undefined) || (app_id !== undefined && name !== undefined),
		"name the bundle by app_id and name, or by id",
	),
);

export const patchVersion = endpoint({
	method: "PATCH",
	path: `${TABLES}/app_versions`,
	tag: TAG,
	summary: "Mark a bundle for deletion, or delete it if it is unused",
	description: [
		"`deleted: true` on a bundle that a channel uses marks it: devices still get it, and it is deleted",
		"with its last channel.",
		"An unused bundle is deleted immediately.",
		"`deleted: false` removes the mark, from several bundles with the filter `in.(…)`.",
		"`r2_path` is accepted and ignored.",
	],
	query: versionFilter,
	body: v.pipe(
		v.object({ deleted: optional(v.boolean()), r2_path: optional(v.string()) }),
		v.check(
			({ deleted, r2_path }) => (deleted === undefined) !== (r2_path === undefined),
			"send either deleted or r2_path",
		),
	),
	load: ({ query: { app_id, name, id } }) => ({
		bundles: id === undefined ? bundlesByNames(app_id ?? "", name ?? []) : bundleOfScope(id),
	}),
	access: {
		permissions: ["app.upload_bundle", "bundle.delete"],
		scope: appOfVersion,
		choose: ({ input }) => [input.body.deleted === undefined ? "app.upload_bundle" : "bundle.delete"],
	},
	status: [204],
	response: v.null(),
	errors: ["bundle_not_found", "bundle_in_use"],
	example: { query: { app_id: "eq.com.example.app", name: "eq.1.4.0" }, body: { deleted: true }, response: null },
	async handle(context) {
		const { db, scope, input, loaded, nowMs, actor } = context;
		const { deleted } = input.body;
		const done = new Reply(204, null);
		if (deleted === undefined) return done;
		if (deleted && (input.query.name?.length ?? 1) > 1) {
			throw invalidRequest([{ path: "name", message: "must be eq.<version>: bundles are deleted one by one" }]);
		}
		const bundles = loaded.bundles.filter((bundle) => bundle.app_id === scope.appId);
		const [bundle] = bundles;
		if (bundle === undefined) throw bundleNotFound();
		if (deleted && JSON.parse(bundle.channels).length === 0) {
			await deleteBundleRow(context, bundle);
			return done;
		}
		const changed = bundles.filter((each) => (each.delete_marked_at_ms !== null) !== deleted);
		if (changed.length === 0) return done;
		const ids = changed.map(({ id }) => id);
		await db.batch([
			auditDeleteMarks(actor, nowMs, deleted, liveBundles(scope.appId, ids)),
			setDeleteMark(scope.appId, ids, deleted ? nowMs : null),
		]);
		return done;
	},
});

export const deleteFailedVersion = endpoint({
	method: "DELETE",
	path: "/private/delete_failed_version",
	tag: TAG,
	summary: "Delete a registration whose upload failed",
	access: { permission: "app.upload_bundle", scope: appScope("query.app_id") },
	query: v.object(namedBundle),
	queryOrBody: true,
	response: acknowledgement,
	errors: ["bundle_not_found", "bundle_already_ready"],
	example: { query: { app_id: "com.example.app", name: "1.4.0" }, response: OK },
	load: ({ query: { app_id, name } }) => ({ bundle: bundleByName(app_id, name) }),
	async handle(context) {
		const [bundle] = context.loaded.bundle;
		if (bundle === undefined) throw bundleNotFound();
		requireCreator(context.principal, "app.upload_bundle", bundle);
		if (bundle.status !== "pending") throw bundleAlreadyReady();
		await deleteBundleRow(context, bundle, { pendingOnly: true });
		return OK;
	},
});
