/**
 * Statements of a preview's page, which is found by its id alone: the signature in its address was
 * verified before.
 */
import { type CompiledQuery, sql } from "kysely";
import type { AppId } from "../authz/decide";
import { query } from "./client";
import { bytesOfFiles, type PreviewRow, previewRows } from "./previews";
import { appIdOf } from "./public-app-id";
import type { Flag } from "./schema";

export interface PreviewPageRow extends PreviewRow {
	readonly version_id: number | null;
	readonly version_bytes: number | null;
	/** The bundle of the public channel. */
	readonly live_version_id: number | null;
	readonly live_version_name: string | null;
	/**
	 * Null also if only one of the two bundles has a zip: its bytes do not compare with those of
	 * single files.
	 */
	readonly live_bytes: number | null;
	readonly both_have_files: Flag;
}

/**
 * The preview of a page in an app that is not deleted, with what a tester gets and what the public
 * gets.
 */
export function previewOfPage(pageId: string): CompiledQuery<PreviewPageRow> {
	return sql<PreviewPageRow>`SELECT shown.*, own.id AS version_id, coalesce(own.size_bytes, ${bytesOfFiles(sql`b.id = own.id`)}) AS version_bytes,
			live.id AS live_version_id, live.name AS live_version_name,
			CASE WHEN (own.size_bytes IS NULL) = (live.size_bytes IS NULL)
				THEN coalesce(live.size_bytes, ${bytesOfFiles(sql`b.id = live.id`)}) END AS live_bytes,
			EXISTS (SELECT 1 FROM bundle_files WHERE bundle_id = own.id)
				AND EXISTS (SELECT 1 FROM bundle_files WHERE bundle_id = live.id) AS both_have_files
		FROM (${previewRows()} JOIN organizations o ON o.id = a.owner_org AND o.deleted_at_ms IS NULL
			WHERE p.page_id = ${pageId} AND a.app_id <> a.id) AS shown
		LEFT JOIN bundles own ON own.id = (SELECT version_id FROM channels WHERE channels.id = shown.channel_id)
		LEFT JOIN bundles live ON live.id = (SELECT version_id FROM channels WHERE channels.app_id = shown.app_id AND channels.public = 1
			ORDER BY channels.android DESC, channels.ios DESC LIMIT 1)`.compile(query);
}

/** The page of the open preview of a channel or of a bundle, by its name. */
export function pageOfPreview(
	publicAppId: string,
	{ channel, version }: { readonly channel?: string | undefined; readonly version?: string | undefined },
): CompiledQuery<{ page_id: string }> {
	return query
		.selectFrom("previews")
		.select("page_id")
		.where("app_id", "=", appIdOf(publicAppId))
		.where("state", "=", "open")
		.where((eb) =>
			channel === undefined
				? eb(
						"id",
						"=",
						// Not by the app of the preview, because then the bundle would be looked up once for each
						// preview.
						eb
							.selectFrom("bundles")
							.select((bundle) => bundle.ref("bundles.preview_id").$notNull().as("id"))
							.where("bundles.app_id", "=", appIdOf(publicAppId))
							.where("bundles.name", "=", version ?? "")
							.where("bundles.deleted_at_ms", "is", null),
					)
				: eb("channel_name", "=", channel),
		)
		.compile();
}

interface ChangedFileRow {
	readonly file_name: string;
	readonly change: "added" | "changed" | "removed";
	readonly size_bytes: number | null;
	readonly added: number;
	readonly changed: number;
	readonly removed: number;
	/** Bytes of all added and changed files. */
	readonly bytes: number;
}

/**
 * Files that differ between the manifests of two bundles, the largest first; each row repeats the
 * counts of all. The + keeps the app's index out: it would read the files of all bundles.
 */
export function changedFiles(
	appId: AppId,
	before: number,
	after: number,
	limit: number,
): CompiledQuery<ChangedFileRow> {
	const files = (bundleId: number) =>
		sql`(SELECT file_name, file_hash, path FROM bundle_files WHERE +app_id = ${appId} AND bundle_id = ${bundleId})`;
	const count = (change: string) => sql`count(*) FILTER (WHERE change = ${sql.lit(change)}) OVER ()`;
	return sql<ChangedFileRow>`SELECT file_name, change, size_bytes, ${count("added")} AS added, ${count("changed")} AS changed,
			${count("removed")} AS removed, coalesce(sum(size_bytes) OVER (), 0) AS bytes
		FROM (SELECT n.file_name, CASE WHEN o.file_name IS NULL THEN 'added' ELSE 'changed' END AS change, d.size_bytes
				FROM ${files(after)} n LEFT JOIN ${files(before)} o ON o.file_name = n.file_name
					LEFT JOIN delta_objects d ON d.app_id = ${appId} AND d.path = n.path
				WHERE o.file_hash IS NOT n.file_hash
			UNION ALL SELECT o.file_name, 'removed', NULL FROM ${files(before)} o
				WHERE o.file_name NOT IN (SELECT file_name FROM ${files(after)}))
		ORDER BY size_bytes DESC NULLS LAST, file_name LIMIT ${limit}`.compile(query);
}
