/**
 * GET /bundle/difference: the files that differ between two bundles of an app, as the approver of a
 * promotion sees them. Contents of files are never read.
 */
import * as v from "valibot";
import { bundlesByNames } from "../../db/bundles";
import { endpoint } from "../../http/endpoint";
import { bundleVersion, publicAppId } from "../../http/schemas";
import { appScope, bundleNotFound } from "../../http/scope";
import { bundleDifference, differenceReads, differenceSchema, NOT_COMPARED } from "../channels/bundle-difference";

export const compareBundles = endpoint({
	method: "GET",
	path: "/bundle/difference",
	tag: "Bundles",
	summary: "List the files that differ between two bundles",
	description: [
		"From `base` to `version`, by their manifests, and by the directories of their zips.",
		"The counts are complete; `files` names at most 100.",
		"`not_compared` is `forms_differ` if only one of them has a manifest or a zip, and `zip` if a zip",
		"cannot be read, e.g. because it is encrypted or on another server.",
	],
	access: { permission: "app.read_bundles", scope: appScope("query.app_id") },
	query: v.object({ app_id: publicAppId, version: bundleVersion, base: bundleVersion }),
	response: v.strictObject({
		version: v.string(),
		base: v.string(),
		difference: v.nullable(differenceSchema),
		not_compared: v.nullable(v.picklist(NOT_COMPARED)),
	}),
	errors: ["bundle_not_found"],
	example: {
		query: { app_id: "com.example.app", version: "1.4.0", base: "1.3.0" },
		response: {
			version: "1.4.0",
			base: "1.3.0",
			difference: {
				by: "zip",
				added: 0,
				changed: 1,
				removed: 0,
				files: [{ file: "index.html", change: "changed" }],
				zip: null,
			},
			not_compared: null,
		},
	},
	load: ({ query: { app_id, version, base } }) => ({ bundles: bundlesByNames(app_id, [version, base]) }),
	async handle({ deps, db, input, loaded, scope, memory, waitUntil, principal }) {
		const { version, base } = input.query;
		const ready = loaded.bundles.filter(({ status }) => status === "ready");
		const after = ready.find(({ name }) => name === version);
		const before = ready.find(({ name }) => name === base);
		if (after === undefined || before === undefined) throw bundleNotFound();
		const [bundles, differing] = await db.batch(differenceReads(scope.appId, before.id, after.id));
		const reader = { deps, memory, waitUntil, principal, scope };
		const difference = await bundleDifference(reader, bundles.rows, differing.rows, before.id, after.id);
		return { version, base, ...difference };
	},
});
