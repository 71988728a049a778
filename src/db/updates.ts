/**
 * What an update check reads: the app, the few channels that can matter to the device, and the files of a bundle it does not have.
 * Every look-up goes by an index, so a check costs the same in an app of ten channels and of a thousand.
 */
import { type CompiledQuery, type Selectable, sql } from "kysely";
import type { Platform } from "../domain/update-decision";
import { appUuid } from "./channels";
import { query } from "./client";
import type { AppsTable, BundleStatus, ChannelsTable } from "./schema";

export type CheckedApp = Pick<Selectable<AppsTable>, "id" | "expose_metadata"> & {
	/** 1 when the bundle that the device runs is there and ready. */
	readonly current_exists: 0 | 1;
};

export function checkedApp(publicAppId: string, currentVersion: string): CompiledQuery<CheckedApp> {
	return (
		query
			.selectFrom("apps")
			// To a device, a deleted organization's app is not there.
			.innerJoin("organizations", "organizations.id", "apps.owner_org")
			.where("organizations.deleted_at_ms", "is", null)
			.select((eb) => [
				"apps.id",
				"apps.expose_metadata",
				eb
					.exists(
						eb
							.selectFrom("bundles")
							.select("bundles.id")
							.whereRef("bundles.app_id", "=", "apps.id")
							.where("bundles.name", "=", currentVersion)
							.where("bundles.status", "=", "ready")
							// What the index of names holds; the status says the same to a reader, not to the planner.
							.where("bundles.deleted_at_ms", "is", null),
					)
					.$castTo<0 | 1>()
					.as("current_exists"),
			])
			.where("apps.app_id", "=", publicAppId)
			.compile()
	);
}

/** What a check needs of a bundle. */
interface BundleColumns {
	readonly id: number;
	readonly name: string;
	readonly status: BundleStatus;
	readonly checksum: string | null;
	readonly sha256: string | null;
	readonly object_key: string | null;
	readonly external_url: string | null;
	readonly session_key: string | null;
	readonly key_id: string | null;
	readonly min_update_version: string | null;
	readonly comment: string | null;
	readonly link: string | null;
	readonly has_manifest: 0 | 1;
}
export type CheckedBundle = BundleColumns;

export interface CheckedChannel extends Selectable<ChannelsTable> {
	/** JSON of CheckedBundle; null when the channel serves the store build. */
	readonly stable: string | null;
	readonly rollout: string | null;
}

const bundleJson = (column: "version_id" | "rollout_version_id") => sql<string | null>`(
	SELECT json_object('id', b.id, 'name', b.name, 'status', b.status, 'checksum', b.checksum, 'sha256', b.sha256, 'object_key', b.object_key,
		'external_url', b.external_url, 'session_key', b.session_key, 'key_id', b.key_id,
		'min_update_version', b.min_update_version, 'comment', b.comment, 'link', b.link,
		'has_manifest', EXISTS (SELECT 1 FROM bundle_files f WHERE f.bundle_id = b.id))
	FROM bundles b WHERE b.id = ${sql.ref(`channels.${column}`)})`;

/** The public channel of the platform, and the one that the device names. */
export function checkedChannels(publicAppId: string, platform: Platform, named: string): CompiledQuery<CheckedChannel> {
	const rows = () =>
		query
			.selectFrom("channels")
			.selectAll("channels")
			.select([bundleJson("version_id").as("stable"), bundleJson("rollout_version_id").as("rollout")])
			.where("channels.app_id", "=", (eb) => appUuid(eb as never, publicAppId));
	// Two look-ups by unique indexes; an OR of the two would read every channel of the app.
	return rows()
		.where("channels.public", "=", sql.lit(1))
		.where(`channels.${platform}`, "=", sql.lit(1))
		.unionAll(rows().where("channels.name", "=", named))
		.compile();
}

export interface CheckedFile {
	readonly bundle_id: number;
	readonly file_name: string;
	readonly file_hash: string;
	readonly object_key: string;
}

/** The manifests of those channels' ready bundles, but for the one that the device runs. */
export function checkedFiles(
	publicAppId: string,
	platform: Platform,
	named: string,
	currentVersion: string,
): CompiledQuery<CheckedFile> {
	return sql<CheckedFile>`
		WITH app AS (SELECT id FROM apps WHERE app_id = ${publicAppId}),
		served AS (
			SELECT version_id, rollout_version_id FROM channels
				WHERE app_id = (SELECT id FROM app) AND public = 1 AND ${sql.ref(platform)} = 1
			UNION ALL SELECT version_id, rollout_version_id FROM channels
				WHERE app_id = (SELECT id FROM app) AND name = ${named}),
		wanted AS (SELECT version_id AS id FROM served UNION SELECT rollout_version_id FROM served)
		SELECT f.bundle_id, f.file_name, f.file_hash, d.object_key
		FROM wanted CROSS JOIN bundles b ON b.id = wanted.id
			CROSS JOIN bundle_files f ON f.bundle_id = b.id
			CROSS JOIN delta_objects d ON d.app_id = f.app_id AND d.path = f.path
		WHERE b.app_id = (SELECT id FROM app) AND b.status = 'ready' AND b.name <> ${currentVersion}`.compile(query);
}
