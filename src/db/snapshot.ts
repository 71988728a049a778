/**
 * What update checks are decided by, read for a whole app at once: its channels, the bundles they serve and the overrides of single
 * devices. An app's `revision` goes up in the batch of every change of any of it (`bumpRevision`), so one row by a unique index says
 * whether what was read is still true. A deleted organization's apps are not there.
 */
import { type CompiledQuery, type Expression, type Selectable, type SqlBool, sql } from "kysely";
import type { AppId } from "../authz/decide";
import type { Bundle, Channel } from "../domain/update-decision";
import { jsonList, query } from "./client";
import { appIdOf } from "./public-app-id";
import type { BundleStatus, ChannelsTable, Flag } from "./schema";

/** More overrides than this are looked up one by one instead of being held in memory. */
export const MOST_HELD_OVERRIDES = 5_000;

export interface SnapshotApp {
	/** UUID. */
	readonly id: string;
	/** Its public id as it is stored; devices may send another case. */
	readonly app_id: string;
	/** 1: another app's public id differs from this one in case alone. */
	readonly has_twin: Flag;
	readonly owner_org: string;
	readonly revision: number;
	readonly expose_metadata: Flag;
	readonly allow_device_custom_id: Flag;
	readonly block_provider_infra_requests: Flag;
	readonly allow_preview: Flag;
}

/** How a rollout is judged and stepped, and who promotes, is not what devices are answered from. */
type GateColumn = Extract<
	keyof ChannelsTable,
	| `auto_pause_${string}`
	| `rollout_step${string}`
	| `rollout_notice${string}`
	| "rollout_count_new_devices"
	| "rollout_devices_per_network"
	| "protected"
	| "promoters"
	| "requires_approval"
>;
export type SnapshotChannel = Omit<Selectable<ChannelsTable>, GateColumn>;

/** The channel as decisions know it, with the bundles that its row points to. */
export function channelOf(row: SnapshotChannel, bundle: Bundle | null, rollout: Bundle | null): Channel {
	return {
		id: row.id,
		name: row.name,
		public: row.public === 1,
		platforms: { ios: row.ios === 1, android: row.android === 1, electron: row.electron === 1 },
		allowDeviceSelfSet: row.allow_device_self_set === 1,
		allowEmulator: row.allow_emulator === 1,
		allowDevice: row.allow_device === 1,
		allowDev: row.allow_dev === 1,
		allowProd: row.allow_prod === 1,
		disableAutoUpdate: row.disable_auto_update,
		disableAutoUpdateUnderNative: row.disable_auto_update_under_native === 1,
		updatePackage: row.update_package,
		bundle,
		rollout:
			rollout === null
				? null
				: {
						id: row.rollout_id ?? "",
						bundle: rollout,
						percentageBps: row.rollout_percentage_bps,
						enabled: row.rollout_enabled === 1,
						paused: row.rollout_paused_at_ms !== null,
					},
	};
}

export interface SnapshotBundle {
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
}

export interface SnapshotOverride {
	readonly device_id: string;
	readonly channel_id: number | null;
	readonly version_id: number | null;
}

export interface SnapshotFile {
	readonly file_name: string;
	readonly file_hash: string;
	readonly object_key: string;
	readonly size_bytes: number;
}

const liveApp = (publicAppId: string) =>
	query
		.selectFrom("apps")
		.innerJoin("organizations", "organizations.id", "apps.owner_org")
		.where("apps.id", "=", appIdOf(publicAppId))
		.where("organizations.deleted_at_ms", "is", null);

/** Whether what is held is still true: two rows by unique indexes. */
export function appPointer(publicAppId: string): CompiledQuery<Pick<SnapshotApp, "id" | "revision">> {
	return liveApp(publicAppId).select(["apps.id", "apps.revision"]).compile();
}

const BUNDLE_COLUMNS = sql`b.id, b.name, b.status, b.checksum, b.sha256, b.object_key, b.external_url, b.session_key, b.key_id,
	b.min_update_version, b.comment, b.link, EXISTS (SELECT 1 FROM bundle_files f WHERE f.bundle_id = b.id) AS has_manifest`;

/** Bundles of the app by their ids, as a snapshot has them. */
export function snapshotBundles(appId: AppId, ids: readonly number[]): CompiledQuery<SnapshotBundle> {
	return sql<SnapshotBundle>`SELECT ${BUNDLE_COLUMNS} FROM bundles b
		WHERE b.app_id = ${appId} AND b.id IN ${jsonList(JSON.stringify(ids))}`.compile(query);
}

/** Everything, for one batch. */
export function snapshotStatements(publicAppId: string) {
	const appId = appIdOf(publicAppId);
	const app: CompiledQuery<SnapshotApp> = liveApp(publicAppId)
		.select([
			"apps.id",
			"apps.app_id",
			sql<Flag>`EXISTS (SELECT 1 FROM apps AS twin WHERE twin.app_id = apps.app_id COLLATE NOCASE AND twin.id <> apps.id)`.as(
				"has_twin",
			),
			"apps.owner_org",
			"apps.revision",
			"apps.expose_metadata",
			"apps.allow_device_custom_id",
			"apps.block_provider_infra_requests",
			"apps.allow_preview",
		])
		.compile();
	const channels = sql<SnapshotChannel>`SELECT * FROM channels WHERE app_id = ${appId}`.compile(query);
	const bundles = sql<SnapshotBundle>`SELECT ${BUNDLE_COLUMNS} FROM bundles b WHERE b.app_id = ${appId} AND b.id IN (
			SELECT version_id FROM channels WHERE app_id = ${appId}
			UNION SELECT rollout_version_id FROM channels WHERE app_id = ${appId}
			UNION SELECT version_id FROM device_overrides WHERE app_id = ${appId})`.compile(query);
	const overrides = sql<SnapshotOverride>`SELECT device_id, channel_id, version_id FROM device_overrides
		WHERE app_id = ${appId} LIMIT ${MOST_HELD_OVERRIDES + 1}`.compile(query);
	return [app, channels, bundles, overrides] as const;
}

/** One device's override, where there are too many to hold. */
export function overrideOf(appId: string, deviceId: string): CompiledQuery<SnapshotOverride> {
	return query
		.selectFrom("device_overrides")
		.select(["device_id", "channel_id", "version_id"])
		.where("app_id", "=", appId)
		.where("device_id", "=", deviceId)
		.compile();
}

/** Whether a bundle of this version is there and ready. */
export function readyBundle(appId: string, version: string): CompiledQuery<{ id: number }> {
	return (
		query
			.selectFrom("bundles")
			.select("id")
			.where("app_id", "=", appId)
			.where("name", "=", version)
			.where("status", "=", "ready")
			// What the index of names holds; the status says the same to a reader, not to the planner.
			.where("deleted_at_ms", "is", null)
			.compile()
	);
}

/** The same by the app's public id, for a batch that reads the app as well. */
export function readyBundleOf(publicAppId: string, version: string): CompiledQuery<{ id: number }> {
	return query
		.selectFrom("bundles")
		.select("id")
		.where("app_id", "=", appIdOf(publicAppId))
		.where("name", "=", version)
		.where("status", "=", "ready")
		.where("deleted_at_ms", "is", null)
		.compile();
}

/** The manifest of a bundle. One that is ready never changes. */
export function manifestOf(appId: string, bundleId: number): CompiledQuery<SnapshotFile> {
	return query
		.selectFrom("bundle_files")
		.innerJoin("delta_objects", (join) =>
			join
				.onRef("delta_objects.app_id", "=", "bundle_files.app_id")
				.onRef("delta_objects.path", "=", "bundle_files.path"),
		)
		.select([
			"bundle_files.file_name",
			"bundle_files.file_hash",
			"delta_objects.object_key",
			"delta_objects.size_bytes",
		])
		.where("bundle_files.bundle_id", "=", bundleId)
		.where("bundle_files.app_id", "=", appId)
		.orderBy("bundle_files.file_name")
		.compile();
}

/** Belongs into every batch that changes what the app's devices are told; `when` must be asked before the change. */
export function bumpRevision(appId: AppId, when: Expression<SqlBool> = sql<boolean>`1`): CompiledQuery {
	return query
		.updateTable("apps")
		.set({ revision: sql<number>`revision + 1` })
		.where("id", "=", appId)
		.where(when)
		.compile();
}
