/**
 * GET /bundle/files and GET /bundle/download: what is in a bundle. Files come from its manifest, or
 * from the directory of its zip, whose contents are never read.
 */
import * as v from "valibot";
import { requireCreator } from "../../authz/own-work";
import { bundleByName } from "../../db/bundles";
import { manifestFiles } from "../../db/delta-files";
import { ApiError } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { bundleVersion, nullableTime, optional, publicAppId, rfc3339, text } from "../../http/schemas";
import { appScope, bundleNotFound } from "../../http/scope";
import { downloadLinks, downloadLinksExpireAt } from "../../storage/links";
import { filesOfZip } from "../channels/bundle-difference";

/** Files that an answer names; its counts are complete. */
const MOST_NAMED = 1_000;
const NOT_LISTED = ["encrypted", "external", "unreadable"] as const;
const COMPRESSED = ".br";

interface BundleFile {
	readonly file: string;
	readonly size: number | null;
	readonly stored: number;
}

export const listBundleFiles = endpoint({
	method: "GET",
	path: "/bundle/files",
	tag: "Bundles",
	summary: "List the files of a bundle, the largest first",
	description: [
		"By its manifest, or by the directory of its zip.",
		"`stored` is the size as devices download the file,",
		"`size` the unpacked one, null where it is not known.",
		"`total` and `bytes` (the sum of `stored`) count every file that has `search` in its path; at",
		`most ${MOST_NAMED.toLocaleString("en-US")} are named.`,
		"`not_listed`: an encrypted zip, a zip on another",
		"server, or one whose directory is too large to read.",
	],
	access: { permission: "app.read_bundles", scope: appScope("query.app_id") },
	query: v.object({ app_id: publicAppId, version: bundleVersion, search: optional(text(128)) }),
	response: v.strictObject({
		version: v.string(),
		by: v.nullable(v.picklist(["manifest", "zip"])),
		not_listed: v.nullable(v.picklist(NOT_LISTED)),
		total: v.number(),
		bytes: v.number(),
		files: v.array(v.strictObject({ file: v.string(), size: v.nullable(v.number()), stored: v.number() })),
	}),
	errors: ["bundle_not_found"],
	example: {
		query: { app_id: "com.example.app", version: "1.4.0" },
		response: {
			version: "1.4.0",
			by: "zip" as const,
			not_listed: null,
			total: 2,
			bytes: 52_310,
			files: [
				{ file: "assets/index.js", size: 180_221, stored: 51_900 },
				{ file: "index.html", size: 812, stored: 410 },
			],
		},
	},
	load: ({ query: { app_id, version } }) => ({ bundle: bundleByName(app_id, version) }),
	async handle({ deps, db, loaded, input, scope, memory, waitUntil, principal }) {
		const { version } = input.query;
		const search = input.query.search?.toLowerCase() ?? "";
		const [bundle] = loaded.bundle;
		if (bundle === undefined || bundle.status !== "ready") throw bundleNotFound();
		const [manifest] = await db.batch([manifestFiles(scope.appId, bundle.id, search, MOST_NAMED)]);
		const [first] = manifest.rows;
		if (first !== undefined && first.files > 0) {
			const files = manifest.rows.flatMap(({ file_name: name, size_bytes: stored }) => {
				if (name === null || stored === null) return [];
				const isCompressed = name.endsWith(COMPRESSED);
				return [
					{ file: isCompressed ? name.slice(0, -COMPRESSED.length) : name, size: isCompressed ? null : stored, stored },
				];
			});
			return { version, by: "manifest" as const, not_listed: null, total: first.found, bytes: first.bytes, files };
		}
		const inZip = await filesOfZip({ deps, memory, waitUntil, principal, scope }, bundle);
		if (inZip === undefined) return { version, by: null, not_listed: reasonOf(bundle), total: 0, bytes: 0, files: [] };
		const found: BundleFile[] = [];
		for (const [file, { uncompressedBytes, compressedBytes }] of inZip) {
			if (file.toLowerCase().includes(search)) found.push({ file, size: uncompressedBytes, stored: compressedBytes });
		}
		found.sort((one, other) => other.stored - one.stored || (one.file < other.file ? -1 : 1));
		return {
			version,
			by: "zip" as const,
			not_listed: null,
			total: found.length,
			bytes: found.reduce((sum, { stored }) => sum + stored, 0),
			files: found.slice(0, MOST_NAMED),
		};
	},
});

function reasonOf(bundle: {
	readonly session_key: string | null;
	readonly external_url: string | null;
}): (typeof NOT_LISTED)[number] {
	if (bundle.external_url !== null) return "external";
	return bundle.session_key === null ? "unreadable" : "encrypted";
}

export const showDownload = endpoint({
	method: "GET",
	path: "/bundle/download",
	tag: "Bundles",
	summary: "Get a link that downloads the zip of a bundle",
	description: [
		"The link needs no key and is valid for about a day; `expires_at` is null for a bundle on another",
		"server, and where downloads have an address without signatures.",
		"A preview role gets links of its own bundles only.",
		"The zip of an encrypted bundle is encrypted.",
		"A bundle of single files has no zip (`bundle_has_no_zip`); GET /bundle/files lists them.",
	],
	access: { permission: "app.read_bundles", scope: appScope("query.app_id") },
	query: v.object({ app_id: publicAppId, version: bundleVersion }),
	response: v.strictObject({
		url: v.string(),
		expires_at: nullableTime,
		size: v.nullable(v.number()),
		encrypted: v.boolean(),
	}),
	errors: ["bundle_has_no_zip", "bundle_not_found"],
	example: {
		query: { app_id: "com.example.app", version: "1.4.0" },
		response: {
			url: "https://updates.example.com/files/download/…?expires=…&signature=…",
			expires_at: "2026-11-22T09:00:00.000Z",
			size: 1_048_576,
			encrypted: false,
		},
	},
	load: ({ query: { app_id, version } }) => ({ bundle: bundleByName(app_id, version) }),
	async handle({ deps, loaded, scope, principal, ownWorkOnly, origin, nowMs }) {
		const [bundle] = loaded.bundle;
		if (bundle === undefined || bundle.status !== "ready") throw bundleNotFound();
		if (ownWorkOnly("app.read_bundles") !== undefined) requireCreator(principal, "app.read_bundles", bundle);
		const common = { size: bundle.size_bytes, encrypted: bundle.session_key !== null };
		if (bundle.external_url !== null) return { url: bundle.external_url, expires_at: null, ...common };
		if (bundle.object_key === null) {
			throw new ApiError(
				"bundle_has_no_zip",
				"The bundle consists of single files and has no zip; upload it with --package all to have both.",
			);
		}
		const link = await downloadLinks(deps, origin, scope.appId, nowMs);
		const expires = deps.config.bundlesUrl === undefined ? rfc3339(downloadLinksExpireAt(nowMs) * 1000) : null;
		return { url: link(bundle.object_key), expires_at: expires, ...common };
	},
});
