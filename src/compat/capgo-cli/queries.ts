/**
 * Statements of the stock CLI's requests: channels with their bundles, manifests, and the mark
 * between the two calls of its clean-up.
 */

import { type CompiledQuery, sql } from "kysely";
import type { AppId } from "../../authz/decide";
import { bundleUnusedExceptBy } from "../../db/channels";
import { jsonChunks, MOST_JSON_BYTES } from "../../db/chunks";
import { query } from "../../db/client";
import { appIdOf } from "../../db/public-app-id";
import type { DisableAutoUpdate, Flag } from "../../db/schema";
import { ownDeltaPath } from "../../db/uploads";

export interface CliChannelRow {
	readonly id: number;
	readonly name: string;
	readonly public: Flag;
	readonly disable_auto_update: DisableAutoUpdate;
	readonly version_id: number | null;
	readonly version_name: string | null;
	readonly version_checksum: string | null;
	readonly version_min_update_version: string | null;
	readonly version_native_packages: string | null;
	readonly version_marked: Flag;
	readonly rollout_version_id: number | null;
	readonly rollout_version_name: string | null;
	readonly rollout_enabled: Flag;
	readonly rollout_percentage_bps: number;
	readonly allow_device_self_set: Flag;
	readonly ios: Flag;
	readonly android: Flag;
	readonly electron: Flag;
	readonly requires_approval: Flag;
	readonly created_by: string;
	readonly owner_org: string;
}

/** The CLI asks for this many channels at a time. */
const MOST_CHANNELS = 1000;

interface ChannelFilter {
	readonly name?: string | undefined;
	readonly nameIsNot?: string | undefined;
	readonly usesBundle?: number | undefined;
}

/** Channels of an app. */
export function cliChannels(publicAppId: string, filter: ChannelFilter): CompiledQuery<CliChannelRow> {
	return query
		.selectFrom("channels")
		.innerJoin("apps", "apps.id", "channels.app_id")
		.leftJoin("bundles as stable", "stable.id", "channels.version_id")
		.leftJoin("bundles as rollout", "rollout.id", "channels.rollout_version_id")
		.select((eb) => [
			"channels.id",
			"channels.name",
			"channels.public",
			"channels.disable_auto_update",
			"channels.version_id",
			"stable.name as version_name",
			"stable.checksum as version_checksum",
			"stable.min_update_version as version_min_update_version",
			"stable.native_packages as version_native_packages",
			eb
				.case()
				.when("stable.delete_marked_at_ms", "is", null)
				.then(0)
				.else(1)
				.end()
				.$castTo<Flag>()
				.as("version_marked"),
			"channels.rollout_version_id",
			"rollout.name as rollout_version_name",
			"channels.rollout_enabled",
			"channels.rollout_percentage_bps",
			"channels.allow_device_self_set",
			"channels.ios",
			"channels.android",
			"channels.electron",
			"channels.requires_approval",
			"channels.created_by",
			"apps.owner_org",
		])
		.where("channels.app_id", "=", appIdOf(publicAppId))
		.$if(filter.name !== undefined, (rows) => rows.where("channels.name", "=", filter.name ?? ""))
		.$if(filter.nameIsNot !== undefined, (rows) => rows.where("channels.name", "<>", filter.nameIsNot ?? ""))
		.$if(filter.usesBundle !== undefined, (rows) =>
			rows.where((eb) =>
				eb.or([
					eb("channels.version_id", "=", filter.usesBundle ?? 0),
					eb("channels.rollout_version_id", "=", filter.usesBundle ?? 0),
				]),
			),
		)
		.orderBy("channels.id")
		.limit(MOST_CHANNELS)
		.compile();
}

/** Channels of an organization's apps whose promotions wait for approval. */
export function channelsThatRequireApproval(orgId: string) {
	return (
		query
			.selectFrom("apps")
			.innerJoin("channels", "channels.app_id", "apps.id")
			.select(["apps.id as app_uuid", "apps.app_id", "apps.owner_org", "channels.name"])
			.where("apps.owner_org", "=", orgId)
			// Only protected channels require approval, and those have an index.
			.where("channels.protected", "=", sql.lit(1))
			.where("channels.requires_approval", "=", 1)
			.orderBy("apps.app_id")
			.orderBy("channels.name")
			.limit(MOST_CHANNELS)
			.compile()
	);
}

/** Marks bundles for deletion with their last channel; null removes the mark. */
export function setDeleteMark(appId: AppId, bundleIds: readonly number[], markedAtMs: number | null): CompiledQuery {
	return query
		.updateTable("bundles")
		.set({ delete_marked_at_ms: markedAtMs })
		.where("app_id", "=", appId)
		.where("id", "in", bundleIds)
		.where("deleted_at_ms", "is", null)
		.compile();
}

export interface ManifestFile {
	readonly file_name: string;
	readonly s3_path: string;
	readonly file_hash: string;
}

/**
 * A manifest of thousands of files is longer than one parameter of D1, so it becomes several JSON
 * arrays; an empty one becomes `[]`.
 */
export function manifestChunks(files: readonly ManifestFile[]): string[] {
	const chunks = jsonChunks(
		files.map(({ file_name, s3_path, file_hash }) => ({ file_name, s3_path, file_hash })),
		{ bytes: MOST_JSON_BYTES },
	);
	return chunks.length === 0 ? ["[]"] : chunks.map(({ json }) => json);
}

/** The paths of a manifest chunk without a file for this key. */
export function missingDeltaPaths(
	publicAppId: string,
	chunk: string,
	keyHash: string,
): CompiledQuery<{ path: string }> {
	return sql<{ path: string }>`SELECT DISTINCT value ->> 's3_path' AS path FROM json_each(${chunk})
		WHERE NOT EXISTS (SELECT 1 FROM delta_objects
			WHERE app_id = ${appIdOf(publicAppId)}
				AND path IN (value ->> 's3_path', ${keyIdOf(keyHash)} || ':' || (value ->> 's3_path')))`.compile(query);
}

/** For guards: every file of the chunk is in the delta store. */
export function manifestIsStored(appId: AppId, chunk: string, keyId: string) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM json_each(${chunk}) AS wanted WHERE NOT EXISTS (
		SELECT 1 FROM delta_objects WHERE app_id = ${appId}
			AND path IN (wanted.value ->> 's3_path', ${keyId} || ':' || (wanted.value ->> 's3_path'))))`;
}

/** For guards: the bundle has no manifest, or one with this number of files. */
export function manifestIsNewOrHas(bundleId: number, files: number) {
	return sql<boolean>`(SELECT count(*) FROM bundle_files WHERE bundle_id = ${bundleId}) IN (0, ${files})`;
}

/**
 * For guards: the bundle has no manifest, or one with every file of the chunk. EXCEPT reads each
 * side once.
 */
export function manifestIsNewOrHolds(bundleId: number, chunk: string, keyId: string) {
	const own = `${keyId}:`;
	return sql<boolean>`(NOT EXISTS (SELECT 1 FROM bundle_files WHERE bundle_id = ${bundleId}) OR NOT EXISTS (
		SELECT value ->> 'file_name', value ->> 'file_hash', value ->> 's3_path' FROM json_each(${chunk})
		EXCEPT SELECT file_name, file_hash,
			CASE substr(path, 1, ${own.length}) WHEN ${own} THEN substr(path, ${own.length + 1}) ELSE path END
		FROM bundle_files WHERE bundle_id = ${bundleId}))`;
}

/**
 * For guards: a bundle gets no first manifest once devices may run it, a rollback without approval
 * may return to it, or its promotion waits for approval.
 */
export function manifestIsSetOrBundleUnused(appId: AppId, bundleId: number) {
	return sql<boolean>`(EXISTS (SELECT 1 FROM bundle_files WHERE bundle_id = ${bundleId})
		OR (${bundleUnusedExceptBy(appId, bundleId, 0)}
			AND NOT EXISTS (SELECT 1 FROM channel_history WHERE app_id = ${appId} AND version_id = ${bundleId}
				AND version_name = (SELECT name FROM bundles WHERE id = ${bundleId}))
			AND NOT EXISTS (SELECT 1 FROM device_overrides WHERE app_id = ${appId} AND version_id = ${bundleId})
			AND NOT EXISTS (SELECT 1 FROM proposals WHERE +app_id = ${appId} AND state = 'pending' AND version_id = ${bundleId})
			AND NOT EXISTS (SELECT 1 FROM proposals WHERE +app_id = ${appId} AND state = 'pending'
				AND changes ->> 'version_id' = ${bundleId})))`;
}

/** Inserts the key's private file of a path, or the shared one. */
export function insertManifest(appId: AppId, bundleId: number, chunk: string, keyId: string): CompiledQuery {
	return sql`INSERT OR IGNORE INTO bundle_files (bundle_id, app_id, file_name, file_hash, path)
		SELECT ${bundleId}, ${appId}, value ->> 'file_name', value ->> 'file_hash', coalesce(
			(SELECT path FROM delta_objects
				WHERE app_id = ${appId} AND path = ${keyId} || ':' || (value ->> 's3_path')), value ->> 's3_path')
		FROM json_each(${chunk})`.compile(query);
}

/** For guards: the bundle has a manifest, so it can be served without a zip. */
export function hasManifest(bundleId: number) {
	return sql<boolean>`EXISTS (SELECT 1 FROM bundle_files WHERE bundle_id = ${bundleId})`;
}

/**
 * The id of the calling key, for statements that are sent before the principal is known, also by
 * the previous secret of a regenerated key, and by the secret of a CI job, which acts by the key of
 * its publisher. The pipeline drops the rows if the key is not valid.
 */
function keyIdOf(keyHash: string) {
	return sql<string>`coalesce((SELECT id FROM api_keys WHERE key_hash = ${keyHash} OR previous_key_hash = ${keyHash}),
		(SELECT p.api_key_id FROM ci_keys t INNER JOIN publishers p ON p.id = t.publisher_id WHERE t.key_hash = ${keyHash}))`;
}

/** The file of a path that the key can use. */
export function deltaObject(
	publicAppId: string,
	path: string,
	keyHash: string,
): CompiledQuery<{ size_bytes: number; last_claimed_at_ms: number }> {
	return query
		.selectFrom("delta_objects")
		.select(["size_bytes", "last_claimed_at_ms"])
		.where("app_id", "=", appIdOf(publicAppId))
		.where(sql<boolean>`path IN (${path}, ${keyIdOf(keyHash)} || ':' || ${path})`)
		.compile();
}

/** The caller will refer to the file soon, so the clean-up keeps it longer. */
export function claimDeltaObject(appId: AppId, path: string, keyId: string, nowMs: number): CompiledQuery {
	return query
		.updateTable("delta_objects")
		.set({ last_claimed_at_ms: nowMs })
		.where("app_id", "=", appId)
		.where("path", "in", [path, ownDeltaPath(path, keyId)])
		.compile();
}
