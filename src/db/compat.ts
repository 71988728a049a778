/**
 * Statements behind the stock CLI's own requests: channels with what it wants to know of their bundles, manifests, and the mark
 * between the two calls of its clean-up.
 */
import { type CompiledQuery, sql } from "kysely";
import type { AppId } from "../authz/decide";
import { appUuid } from "./channels";
import { query } from "./client";
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
			"channels.created_by",
			"apps.owner_org",
		])
		.where("channels.app_id", "=", (eb) => appUuid(eb as never, publicAppId))
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

/** Marks a bundle for deletion with its last channel, or (null) takes the mark back. */
export function setDeleteMark(appId: AppId, bundleId: number, markedAtMs: number | null): CompiledQuery {
	return query
		.updateTable("bundles")
		.set({ delete_marked_at_ms: markedAtMs })
		.where("app_id", "=", appId)
		.where("id", "=", bundleId)
		.where("deleted_at_ms", "is", null)
		.compile();
}

/** The paths of a JSON manifest that the key finds no file under; for loading beside the decision. */
export function missingDeltaPaths(
	publicAppId: string,
	manifestJson: string,
	keyHash: string,
): CompiledQuery<{ path: string }> {
	return sql<{ path: string }>`SELECT DISTINCT value ->> 's3_path' AS path FROM json_each(${manifestJson})
		WHERE NOT EXISTS (SELECT 1 FROM delta_objects
			WHERE app_id = (SELECT id FROM apps WHERE apps.app_id = ${publicAppId})
				AND path IN (value ->> 's3_path', ${keyIdOf(keyHash)} || ':' || (value ->> 's3_path')))`.compile(query);
}

/** For guards: every file of the manifest is in the delta store. */
export function manifestIsStored(appId: AppId, manifestJson: string, keyId: string) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM json_each(${manifestJson}) AS wanted WHERE NOT EXISTS (
		SELECT 1 FROM delta_objects WHERE app_id = ${appId}
			AND path IN (wanted.value ->> 's3_path', ${keyId} || ':' || (wanted.value ->> 's3_path'))))`;
}

/** For guards: the bundle has no manifest yet, or one that the given one repeats. */
export function manifestIsNewOrSame(bundleId: number, manifestJson: string, keyId: string) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM bundle_files f WHERE f.bundle_id = ${bundleId} AND NOT EXISTS (
		SELECT 1 FROM json_each(${manifestJson}) AS given WHERE given.value ->> 'file_name' = f.file_name
			AND given.value ->> 'file_hash' = f.file_hash
			AND f.path IN (given.value ->> 's3_path', ${keyId} || ':' || (given.value ->> 's3_path'))))`;
}

/** The key's own file where it has one, else the one that all may use. */
export function insertManifest(appId: AppId, bundleId: number, manifestJson: string, keyId: string): CompiledQuery {
	return sql`INSERT OR IGNORE INTO bundle_files (bundle_id, app_id, file_name, file_hash, path)
		SELECT ${bundleId}, ${appId}, value ->> 'file_name', value ->> 'file_hash', coalesce(
			(SELECT path FROM delta_objects
				WHERE app_id = ${appId} AND path = ${keyId} || ':' || (value ->> 's3_path')), value ->> 's3_path')
		FROM json_each(${manifestJson})`.compile(query);
}

/** For guards: the bundle has a manifest, so it can be served without a zip. */
export function hasManifest(bundleId: number) {
	return sql<boolean>`EXISTS (SELECT 1 FROM bundle_files WHERE bundle_id = ${bundleId})`;
}

/** The id of the calling key, for statements that are sent before the principal is known. */
function keyIdOf(keyHash: string) {
	return sql<string>`(SELECT id FROM api_keys WHERE key_hash = ${keyHash})`;
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
		.where("app_id", "=", (eb) => appUuid(eb as never, publicAppId))
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
