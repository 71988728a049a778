/**
 * Statements behind the stock CLI's own requests: channels with what it wants to know of their bundles, manifests, and the mark
 * between the two calls of its clean-up.
 */
import { type CompiledQuery, sql } from "kysely";
import type { AppId } from "../authz/decide";
import { bundleUnusedExceptBy } from "./channels";
import { query } from "./client";
import { appIdOf } from "./public-app-id";
import type { DisableAutoUpdate, Flag } from "./schema";
import { ownDeltaPath } from "./uploads";

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

/** As many channels as the CLI asks for at once. */
const MOST_CHANNELS = 1000;

export interface ChannelFilter {
	readonly name?: string | undefined;
	readonly nameIsNot?: string | undefined;
	readonly usesBundle?: number | undefined;
}

/** Channels of an app; for loading beside the decision. */
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

/** Channels of an organization's apps whose promotions wait for approval; for loading beside the decision. */
export function channelsThatRequireApproval(orgId: string) {
	return query
		.selectFrom("apps")
		.innerJoin("channels", "channels.app_id", "apps.id")
		.select(["apps.id as app_uuid", "apps.app_id", "apps.owner_org", "channels.name"])
		.where("apps.owner_org", "=", orgId)
		.where("channels.requires_approval", "=", 1)
		.orderBy("apps.app_id")
		.orderBy("channels.name")
		.limit(MOST_CHANNELS)
		.compile();
}

/** Marks bundles for deletion with their last channel, or (null) takes the mark back. */
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

/** Far enough below D1's longest value of 2,000,000 bytes, at three bytes a character. */
const LONGEST_PART = 600_000;

/** A manifest as JSON arrays that fit into one parameter each: one of thousands of files is longer than D1 takes. */
export function manifestParts(files: readonly ManifestFile[]): string[] {
	const parts: string[][] = [[]];
	let length = 0;
	for (const { file_name, s3_path, file_hash } of files) {
		const file = JSON.stringify({ file_name, s3_path, file_hash });
		if (length + file.length > LONGEST_PART) {
			parts.push([]);
			length = 0;
		}
		parts.at(-1)?.push(file);
		length += file.length + 1;
	}
	return parts.map((part) => `[${part.join(",")}]`);
}

/** The paths of a manifest's part that the key finds no file under; for loading beside the decision. */
export function missingDeltaPaths(publicAppId: string, part: string, keyHash: string): CompiledQuery<{ path: string }> {
	return sql<{ path: string }>`SELECT DISTINCT value ->> 's3_path' AS path FROM json_each(${part})
		WHERE NOT EXISTS (SELECT 1 FROM delta_objects
			WHERE app_id = ${appIdOf(publicAppId)}
				AND path IN (value ->> 's3_path', ${keyIdOf(keyHash)} || ':' || (value ->> 's3_path')))`.compile(query);
}

/** For guards: every file of the manifest's part is in the delta store. */
export function manifestIsStored(appId: AppId, part: string, keyId: string) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM json_each(${part}) AS wanted WHERE NOT EXISTS (
		SELECT 1 FROM delta_objects WHERE app_id = ${appId}
			AND path IN (wanted.value ->> 's3_path', ${keyId} || ':' || (wanted.value ->> 's3_path'))))`;
}

/** For guards: the bundle has no manifest yet, or one of that many files. */
export function manifestIsNewOrHas(bundleId: number, files: number) {
	return sql<boolean>`(SELECT count(*) FROM bundle_files WHERE bundle_id = ${bundleId}) IN (0, ${files})`;
}

/** For guards: the bundle has no manifest yet, or every file of the part is in it. Each side is read once, however many files it has. */
export function manifestIsNewOrHolds(bundleId: number, part: string, keyId: string) {
	const own = `${keyId}:`;
	return sql<boolean>`(NOT EXISTS (SELECT 1 FROM bundle_files WHERE bundle_id = ${bundleId}) OR NOT EXISTS (
		SELECT value ->> 'file_name', value ->> 'file_hash', value ->> 's3_path' FROM json_each(${part})
		EXCEPT SELECT file_name, file_hash,
			CASE substr(path, 1, ${own.length}) WHEN ${own} THEN substr(path, ${own.length + 1}) ELSE path END
		FROM bundle_files WHERE bundle_id = ${bundleId}))`;
}

/**
 * For guards: a bundle gets no manifest that it did not have once devices may run it, a rollback without approval may return to it, or
 * its promotion waits for approval.
 */
export function manifestIsSetOrBundleUnused(appId: AppId, bundleId: number) {
	return sql<boolean>`(EXISTS (SELECT 1 FROM bundle_files WHERE bundle_id = ${bundleId})
		OR (${bundleUnusedExceptBy(appId, bundleId, 0)}
			AND NOT EXISTS (SELECT 1 FROM channel_history WHERE app_id = ${appId} AND version_id = ${bundleId})
			AND NOT EXISTS (SELECT 1 FROM device_overrides WHERE app_id = ${appId} AND version_id = ${bundleId})
			AND NOT EXISTS (SELECT 1 FROM proposals WHERE app_id = ${appId} AND state = 'pending'
				AND ${bundleId} IN (version_id, changes ->> 'version_id', changes ->> 'rollout_version_id'))))`;
}

/** The key's own file where it has one, else the one that all may use. */
export function insertManifest(appId: AppId, bundleId: number, part: string, keyId: string): CompiledQuery {
	return sql`INSERT OR IGNORE INTO bundle_files (bundle_id, app_id, file_name, file_hash, path)
		SELECT ${bundleId}, ${appId}, value ->> 'file_name', value ->> 'file_hash', coalesce(
			(SELECT path FROM delta_objects
				WHERE app_id = ${appId} AND path = ${keyId} || ':' || (value ->> 's3_path')), value ->> 's3_path')
		FROM json_each(${part})`.compile(query);
}

/** For guards: the bundle has a manifest, so it can be served without a zip. */
export function hasManifest(bundleId: number) {
	return sql<boolean>`EXISTS (SELECT 1 FROM bundle_files WHERE bundle_id = ${bundleId})`;
}

/**
 * The id of the calling key, for statements that are sent before the principal is known; a regenerated key may call by its old secret.
 * Whether that still works is the principal's to say: without one the rows are dropped.
 */
function keyIdOf(keyHash: string) {
	return sql<string>`(SELECT id FROM api_keys WHERE key_hash = ${keyHash} OR previous_key_hash = ${keyHash})`;
}

/** Whether the key finds a file under the path; for loading beside the decision. */
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

/** Whoever was told that the file is there will refer to it soon: the sweep leaves it alone for another while. */
export function claimDeltaObject(appId: AppId, path: string, keyId: string, nowMs: number): CompiledQuery {
	return query
		.updateTable("delta_objects")
		.set({ last_claimed_at_ms: nowMs })
		.where("app_id", "=", appId)
		.where("path", "in", [path, ownDeltaPath(path, keyId)])
		.compile();
}
