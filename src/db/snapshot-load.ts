/**
 * The statements that read a whole app for update checks: its channels, the bundles that these
 * serve, the overrides of devices, and the names of its ready bundles. They are constant text
 * (`plain`), because the first check of an isolate runs them. Apps of deleted organizations are not
 * found.
 */
import type { CompiledQuery, Selectable } from "kysely";
import { plain } from "./plain";
import type { BundleStatus, ChannelsTable, Flag } from "./schema";

/** More overrides than this are looked up one by one instead of being held in memory. */
export const MOST_HELD_OVERRIDES = 5_000;
/** Devices of an app that are offered the zip after single files failed (zip-only-devices.ts). */
export const MOST_ZIP_ONLY = 1_000;
/** Names of ready bundles; those of an app with more are looked up one by one. */
export const MOST_HELD_NAMES = 500;
/**
 * Channels of an app that is read whole at once; one with more is read from its stored snapshot, if
 * there is one.
 */
export const MOST_AT_ONCE = 300;
/**
 * Bundles and files whose manifests are part of a stored snapshot; other manifests are read on
 * demand.
 */
export const MOST_STORED_MANIFESTS = 20;
export const MOST_STORED_FILES = 10_000;

export interface SnapshotAppRow {
	/** UUID. */
	readonly id: string;
	/** Public id as it is stored; devices may send another case. */
	readonly app_id: string;
	readonly owner_org: string;
	readonly revision: number;
	/** Identifies the content of the snapshot. */
	readonly revision_token: string | null;
	readonly expose_metadata: Flag;
	readonly allow_device_custom_id: Flag;
	readonly block_provider_infra_requests: Flag;
	readonly allow_preview: Flag;
	readonly preview_channel_prefix: string | null;
}

export const CHANNEL_COLUMNS = [
	"id",
	"name",
	"version_id",
	"public",
	"ios",
	"android",
	"electron",
	"allow_device_self_set",
	"allow_emulator",
	"allow_device",
	"allow_dev",
	"allow_prod",
	"disable_auto_update",
	"disable_auto_update_under_native",
	"update_package",
	"is_preview",
	"named_by_fleet_at_ms",
	"rollout_version_id",
	"rollout_id",
	"rollout_percentage_bps",
	"rollout_enabled",
	"rollout_paused_at_ms",
] as const;

/** The columns that an answer to a device depends on. */
export interface SnapshotChannelRow extends Pick<Selectable<ChannelsTable>, (typeof CHANNEL_COLUMNS)[number]> {
	/** The page of its open preview. */
	readonly page_id: string | null;
}

export interface SnapshotBundleRow {
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
	readonly has_manifest: Flag;
	/** The page of its open preview. */
	readonly page_id: string | null;
}

export interface SnapshotOverrideRow {
	readonly device_id: string;
	readonly channel_id: number | null;
	readonly version_id: number | null;
}

export interface SnapshotZipOnlyRow {
	readonly device_id: string;
	readonly version_id: number;
}

export interface SnapshotFile {
	readonly file_name: string;
	readonly file_hash: string;
	readonly object_key: string;
	readonly size_bytes: number;
}

/** The app's UUID by its public id: see `appIdOf` in public-app-id.ts. */
export const APP_ID = "(SELECT named.id FROM apps AS named WHERE named.app_id = ?1)";

export const BUNDLE_COLUMNS = `b.id, b.name, b.status, b.checksum, b.sha256, b.object_key, b.external_url, b.session_key, b.key_id,
	b.min_update_version, b.comment, b.link, EXISTS (SELECT 1 FROM bundle_files f WHERE f.bundle_id = b.id) AS has_manifest,
	(SELECT page_id FROM previews WHERE previews.id = b.preview_id AND previews.state = 'open') AS page_id`;

const FILE_COLUMNS = "f.file_name, f.file_hash, d.object_key, d.size_bytes";
const FILES = "bundle_files f INNER JOIN delta_objects d ON d.app_id = f.app_id AND d.path = f.path";

export const APP_COLUMNS = `apps.id, apps.app_id, apps.owner_org, apps.revision, apps.revision_token, apps.expose_metadata,
	apps.allow_device_custom_id, apps.block_provider_infra_requests, apps.allow_preview, apps.preview_channel_prefix`;
export const APP_ROW = `apps INNER JOIN organizations ON organizations.id = apps.owner_org
	WHERE apps.id = ${APP_ID} AND organizations.deleted_at_ms IS NULL`;
export const CHANNEL_FIELDS = `${CHANNEL_COLUMNS.map((name) => `channels.${name}`).join(", ")},
	(SELECT page_id FROM previews WHERE previews.channel_id = channels.id AND previews.state = 'open') AS page_id`;

const TEXTS = {
	app: `SELECT ${APP_COLUMNS} FROM ${APP_ROW}`,
	channels: `SELECT ${CHANNEL_FIELDS} FROM channels WHERE app_id = ${APP_ID} LIMIT ?2`,
	// The plus sign: by id, because the app may have many more bundles.
	bundles: `SELECT ${BUNDLE_COLUMNS} FROM bundles b WHERE +b.app_id = ${APP_ID} AND b.id IN (
			SELECT version_id FROM (SELECT version_id FROM channels WHERE app_id = ${APP_ID} LIMIT ?2) AS served
			UNION ALL SELECT rollout_version_id FROM (SELECT rollout_version_id FROM channels WHERE app_id = ${APP_ID} LIMIT ?2) AS served
			UNION ALL SELECT version_id FROM device_overrides WHERE app_id = ${APP_ID})`,
	overrides: `SELECT device_id, channel_id, version_id FROM device_overrides
		WHERE app_id = ${APP_ID} LIMIT ${MOST_HELD_OVERRIDES + 1}`,
	// Implied by the status, but the planner needs the last condition to use the partial index of
	// names.
	names: `SELECT name FROM bundles WHERE app_id = ${APP_ID} AND status = 'ready' AND deleted_at_ms IS NULL
		LIMIT ${MOST_HELD_NAMES + 1}`,
	zipOnly: `SELECT device_id, version_id FROM zip_only_devices WHERE app_id = ${APP_ID} AND ended_at_ms IS NULL
		LIMIT ${MOST_ZIP_ONLY}`,
	files: `SELECT f.bundle_id, ${FILE_COLUMNS} FROM ${FILES} WHERE f.bundle_id IN (SELECT value FROM json_each(?2)) AND f.app_id = ${APP_ID}
		ORDER BY f.bundle_id, f.file_name LIMIT ${MOST_STORED_FILES + 1}`,
} as const;

/**
 * Everything but manifests, for one batch.
 * @param channels how many are read; all by default
 */
export function snapshotStatements(publicAppId: string, channels = -1) {
	return [
		plain<SnapshotAppRow>(TEXTS.app, publicAppId),
		plain<SnapshotChannelRow>(TEXTS.channels, publicAppId, channels),
		plain<SnapshotBundleRow>(TEXTS.bundles, publicAppId, channels),
		plain<SnapshotOverrideRow>(TEXTS.overrides, publicAppId),
		plain<{ readonly name: string }>(TEXTS.names, publicAppId),
		plain<SnapshotZipOnlyRow>(TEXTS.zipOnly, publicAppId),
	] as const;
}

/** The manifests of bundles of the app. */
export function manifestsOf(
	publicAppId: string,
	bundleIds: readonly number[],
): CompiledQuery<SnapshotFile & { readonly bundle_id: number }> {
	return plain(TEXTS.files, publicAppId, JSON.stringify(bundleIds));
}

/**
 * Changes with the statements, so that an object that was stored by another version of the Worker
 * is not read.
 */
export const SNAPSHOT_FORMAT: string = formatOf(Object.values(TEXTS).join());

function formatOf(text: string): string {
	let hash = 0;
	for (let index = 0; index < text.length; index += 1) hash = (Math.imul(hash, 31) + text.charCodeAt(index)) | 0;
	return (hash >>> 0).toString(16).padStart(8, "0");
}

/** One device's override, where there are too many to hold. */
export function overrideOf(appId: string, deviceId: string): CompiledQuery<SnapshotOverrideRow> {
	return plain(
		"SELECT device_id, channel_id, version_id FROM device_overrides WHERE app_id = ?1 AND device_id = ?2",
		appId,
		deviceId,
	);
}

/** Whether a bundle of this version is there and ready. */
export function readyBundle(appId: string, version: string): CompiledQuery<{ readonly id: number }> {
	return plain(
		"SELECT id FROM bundles WHERE app_id = ?1 AND name = ?2 AND status = 'ready' AND deleted_at_ms IS NULL",
		appId,
		version,
	);
}

/** The manifest of a bundle. One that is ready never changes. */
export function manifestOf(appId: string, bundleId: number): CompiledQuery<SnapshotFile> {
	return plain(
		`SELECT ${FILE_COLUMNS} FROM ${FILES} WHERE f.bundle_id = ?1 AND f.app_id = ?2 ORDER BY f.file_name`,
		bundleId,
		appId,
	);
}
