/**
 * Statements about bundles. A bundle is `pending` from its registration until its bytes are stored
 * and checked. Deletion is in bundle-deletion.ts.
 */
import { type CompiledQuery, type Insertable, type RawBuilder, type Selectable, sql, type Updateable } from "kysely";
import type { AppId } from "../authz/decide";
import { REFRESHED_AFTER_DAYS } from "../domain/statistics/device-record";
import { DAY_MS } from "../domain/time";
import { versionOrder } from "../domain/updates/version";
import { KEPT_FOR_ROLLBACK, rollbackTargetOf } from "./channel-history";
import { isOfApp, jsonList, query } from "./client";
import { appIdOf } from "./public-app-id";
import type { BundlesTable } from "./schema";
import { signerOfBundle } from "./signing-keys";

export type BundleRow = Selectable<BundlesTable>;

export interface BundleListRow extends BundleRow {
	/** JSON array of the names of the channels that use the bundle. */
	readonly channels: string;
	/** Public id of the app. */
	readonly public_app_id: string;
	/** The prefix that the app chose; null: "pr-". */
	readonly preview_channel_prefix: string | null;
	/** `key_id` of the registered signing key that verified the bundle. */
	readonly signer: string | null;
	/**
	 * The end of retention without devices (`keptUntilMs`). Null: the bundle is in use, or its app
	 * keeps everything.
	 */
	readonly kept_until_ms: number | null;
}

/**
 * Two conditions, because each has an index; with an OR, every channel of the app would be read for
 * every bundle.
 */
const channelsOfBundle = sql<string>`(SELECT json_group_array(name) FROM (
	SELECT channels.name FROM channels WHERE channels.app_id = bundles.app_id AND channels.version_id = bundles.id
	UNION ALL
	SELECT channels.name FROM channels WHERE channels.app_id = bundles.app_id AND channels.rollout_version_id = bundles.id
		AND channels.version_id IS NOT channels.rollout_version_id))`;

/** Two conditions for the same reason. */
const IN_NO_CHANNEL = sql<boolean>`NOT EXISTS (SELECT 1 FROM channels
		WHERE channels.app_id = bundles.app_id AND channels.version_id = bundles.id)
	AND NOT EXISTS (SELECT 1 FROM channels
		WHERE channels.app_id = bundles.app_id AND channels.rollout_version_id = bundles.id)`;
/** No channel serves the bundle, and none keeps it for a rollback. */
export const UNUSED = sql<boolean>`${IN_NO_CHANNEL} AND NOT ${KEPT_FOR_ROLLBACK}`;
/**
 * The bundle is not the app's newest, which is always kept. The + keeps SQLite from turning this
 * into a join, which it would test after the devices of the newest bundle.
 */
const HAS_NEWER = sql<boolean>`+EXISTS (SELECT 1 FROM bundles AS newer
	WHERE newer.app_id = bundles.app_id AND newer.status = 'ready' AND newer.deleted_at_ms IS NULL
		AND (newer.created_at_ms, newer.id) > (bundles.created_at_ms, bundles.id))`;
const IN_NO_OVERRIDE = sql<boolean>`NOT EXISTS (SELECT 1 FROM device_overrides
	WHERE device_overrides.app_id = bundles.app_id AND device_overrides.version_id = bundles.id)`;

/**
 * The end of retention with the devices that run the bundle: one that changes nothing may have been
 * seen a while after its row says.
 * @param seenAtMs when one of them was last seen; undefined: none runs the bundle
 */
export function keptUntilMs(
	{ kept_until_ms: keptMs, created_at_ms: createdAtMs }: Pick<BundleListRow, "kept_until_ms" | "created_at_ms">,
	seenAtMs: number | undefined,
): number | null {
	if (keptMs === null || seenAtMs === undefined) return keptMs;
	return Math.max(keptMs, keptMs - createdAtMs + seenAtMs + REFRESHED_AFTER_DAYS * DAY_MS);
}

/**
 * Limit of the devices that a list reads for the end of retention. With this many, the last one
 * seen is about the same.
 */
export const MOST_DEVICES_READ = 200;
const keptUntil = sql<number | null>`CASE WHEN bundles.status = 'ready' AND apps.retention > 0
		AND ${HAS_NEWER} AND ${IN_NO_OVERRIDE} AND ${UNUSED}
	THEN apps.retention * 1000 + bundles.created_at_ms END`;

/** Rows of live bundles as lists have them. */
const bundleListRows = () => bundleRows().where("bundles.deleted_at_ms", "is", null);

/** The same with deleted ones. */
export const bundleRows = () =>
	query
		.selectFrom("bundles")
		.innerJoin("apps", "apps.id", "bundles.app_id")
		.selectAll("bundles")
		.select([
			"apps.app_id as public_app_id",
			"apps.preview_channel_prefix",
			channelsOfBundle.as("channels"),
			keptUntil.as("kept_until_ms"),
			signerOfBundle.as("signer"),
		]);

/** The app's newest ready bundle that no preview uploaded, from which releases count on. */
export function newestRelease(publicAppId: string): CompiledQuery<BundleListRow> {
	return bundleListRows()
		.where("bundles.app_id", "=", appIdOf(publicAppId))
		.where("bundles.status", "=", "ready")
		.where("bundles.by_preview_key", "=", 0)
		.where("bundles.preview_id", "is", null)
		.orderBy("bundles.created_at_ms", "desc")
		.orderBy("bundles.id", "desc")
		.limit(1)
		.compile();
}

/**
 * Ids of the live bundles that have the version, or take it again: at most one, because the version
 * itself stays taken. Two conditions, because each has an index.
 */
export const versionIds = (app: RawBuilder<unknown>, version: string) =>
	sql<number>`(SELECT id FROM bundles WHERE app_id = ${app} AND name = ${version} AND deleted_at_ms IS NULL
		UNION ALL SELECT id FROM bundles WHERE app_id = ${app} AND reuse_of = ${version} AND deleted_at_ms IS NULL)`;

/** A live bundle (pending or ready) by its version. */
export function bundleByName(publicAppId: string, version: string): CompiledQuery<BundleListRow> {
	return bundleListRows()
		.where("bundles.id", "in", versionIds(appIdOf(publicAppId), version))
		.compile();
}

/** Live bundles by a few versions. */
export function bundlesByNames(publicAppId: string, names: readonly string[]): CompiledQuery<BundleListRow> {
	return bundleListRows()
		.where("bundles.app_id", "=", appIdOf(publicAppId))
		.where("bundles.name", "in", jsonList(JSON.stringify(names)))
		.compile();
}

/** A live bundle by its id. */
export function bundleById(publicAppId: string, id: number): CompiledQuery<BundleListRow> {
	return bundleListRows().where("bundles.app_id", "=", appIdOf(publicAppId)).where("bundles.id", "=", id).compile();
}

/** A live bundle by its id alone, for requests whose scope is read from the same id. */
export function bundleOfScope(id: number): CompiledQuery<BundleListRow> {
	return bundleListRows().where("bundles.id", "=", id).compile();
}

/** The record of a live bundle, as the last statement of the batch that wrote it. */
export function bundleRecord(appId: AppId, name: string): CompiledQuery<BundleListRow> {
	return bundleListRows().where("bundles.app_id", "=", appId).where("bundles.name", "=", name).compile();
}

export type NewBundle = Omit<Insertable<BundlesTable>, "app_id" | "id" | "version_order">;

export function insertBundle(appId: AppId, values: NewBundle): CompiledQuery<{ id: number }> {
	return query
		.insertInto("bundles")
		.values({ ...values, app_id: appId, version_order: versionOrder(values.name) })
		.returning("id")
		.compile();
}

/** Changes a live bundle. Its creator is immutable. */
export function updateBundle(
	appId: AppId,
	bundleId: number,
	values: Omit<Updateable<BundlesTable>, "id" | "app_id" | "created_by" | "created_by_key">,
): CompiledQuery {
	return query
		.updateTable("bundles")
		.set(values)
		.where("app_id", "=", appId)
		.where("id", "=", bundleId)
		.where("deleted_at_ms", "is", null)
		.compile();
}

/** For `deleteBundles`: every unused ready bundle of the app. */
export const unusedBundles = (appId: AppId) => sql<boolean>`app_id = ${appId} AND status = 'ready' AND ${UNUSED}`;

/** A bundle that a dry run names, with the sums over all that the deletion removes. */
export interface DoomedBundle {
	readonly id: number;
	readonly name: string;
	readonly size_bytes: number | null;
	readonly bundles: number;
	readonly bundle_bytes: number;
	readonly device_overrides: number;
	/** JSON array of the versions of all. */
	readonly all_names: string;
	/** JSON array of the channels that can be rolled back to it now. */
	readonly rollback_target_of: string;
}

/** The effect of `deleteBundles` with the same condition; newest first. */
export function doomedBundles(which: RawBuilder<unknown>, limit: number): CompiledQuery<DoomedBundle> {
	return sql<DoomedBundle>`SELECT id, name, size_bytes, count(*) OVER () AS bundles,
			sum(CASE WHEN object_key IS NULL THEN 0 ELSE coalesce(size_bytes, 0) END) OVER () AS bundle_bytes,
			sum((SELECT count(*) FROM device_overrides
				WHERE device_overrides.app_id = bundles.app_id AND device_overrides.version_id = bundles.id)) OVER () AS device_overrides,
			json_group_array(name) OVER () AS all_names, ${rollbackTargetOf} AS rollback_target_of
		FROM bundles WHERE ${which}
		ORDER BY created_at_ms DESC, id DESC LIMIT ${limit}`.compile(query);
}

/** Number of ready bundles that no channel serves and that are kept for a rollback. */
export function bundlesKeptForRollback(appId: AppId): CompiledQuery<{ bundles: number }> {
	return query
		.selectFrom("bundles")
		.select((eb) => eb.fn.countAll<number>().as("bundles"))
		.where("app_id", "=", appId)
		.where("status", "=", "ready")
		.where(IN_NO_CHANNEL)
		.where(KEPT_FOR_ROLLBACK)
		.compile();
}

/**
 * The bundle is older than its app keeps unused ones, and no operator set it for a device.
 * Retention has ended unless a device was seen running it in that time, which the telemetry
 * database knows. An app with retention 0 keeps everything.
 */
const isExpired = (nowMs: number) => sql<boolean>`${HAS_NEWER} AND ${IN_NO_OVERRIDE}
	AND EXISTS (SELECT 1 FROM apps JOIN organizations ON organizations.id = apps.owner_org
		WHERE apps.id = bundles.app_id AND organizations.deleted_at_ms IS NULL AND apps.retention > 0
			AND bundles.created_at_ms <= ${nowMs} - apps.retention * 1000)`;

export interface ExpiredBundle {
	readonly id: number;
	readonly app_id: AppId;
	readonly name: string;
	readonly retention_ms: number;
	/** Binding of the telemetry database that knows the devices which run it. */
	readonly telemetry_binding: string;
}

/**
 * Expired bundles of all apps: the oldest ones of each, bounded for one app and for all. The join
 * repeats the condition on their age, so that an index skips the younger ones.
 */
export function expiredBundlesOfApps(nowMs: number, mostOfApp: number, most: number): CompiledQuery<ExpiredBundle> {
	return sql<ExpiredBundle>`SELECT id, app_id, name, retention_ms, telemetry_binding FROM (
			SELECT bundles.id, bundles.app_id, bundles.name, own.retention * 1000 AS retention_ms, own.telemetry_binding,
				row_number() OVER (PARTITION BY bundles.app_id ORDER BY bundles.created_at_ms, bundles.id) AS place
			FROM apps AS own CROSS JOIN bundles ON bundles.app_id = own.id AND bundles.deleted_at_ms IS NULL
				AND bundles.created_at_ms <= ${nowMs} - own.retention * 1000 AND own.retention > 0
			WHERE bundles.status = 'ready' AND ${UNUSED} AND ${isExpired(nowMs)})
		WHERE place <= ${mostOfApp} ORDER BY place, app_id LIMIT ${most}`.compile(query);
}

/** The id of a bundle as text, for an audit entry of the batch that creates the bundle. */
export function bundleIdNamed(appId: AppId, version: string) {
	return sql<string>`(SELECT CAST(id AS TEXT) FROM bundles WHERE app_id = ${appId} AND name = ${version} AND deleted_at_ms IS NULL)`;
}

/** Conditions for `deleteBundles` and audit entries. */
export const liveBundles = (appId: AppId, ids: readonly number[]) =>
	sql<boolean>`${isOfApp(appId)} AND id IN ${jsonList(JSON.stringify(ids))} AND deleted_at_ms IS NULL`;
/** Those among them that are unused, and that the app's retention no longer keeps. */
export const expiredBundles = (appId: AppId, ids: readonly number[], nowMs: number) =>
	sql<boolean>`${liveBundles(appId, ids)} AND status = 'ready' AND ${UNUSED} AND ${isExpired(nowMs)}`;
export const pendingBundle = (appId: AppId, bundleId: number) =>
	sql<boolean>`app_id = ${appId} AND id = ${bundleId} AND status = 'pending'`;
const isShownHere = sql`channels.app_id = bundles.app_id
	AND (channels.protected = 1 OR (channels.is_preview = 0 AND bundles.by_preview_key = 1))`;
/** The + keeps SQLite from turning this into a join, which it would test after the channels. */
const shownOnProtected = sql<boolean>`+EXISTS (SELECT 1 FROM apps WHERE apps.id = bundles.app_id AND apps.expose_metadata = 1)
	AND (EXISTS (SELECT 1 FROM channels WHERE ${isShownHere} AND channels.version_id = bundles.id)
		OR EXISTS (SELECT 1 FROM channels WHERE ${isShownHere} AND channels.rollout_version_id = bundles.id))`;

/**
 * One row if devices of a protected channel see the notes of the bundle, or those of any channel
 * outside of previews although a preview role uploaded it. The bundle is named by its version or
 * id.
 */
export function shownOnProtectedChannel(publicAppId: string, bundle: string | number): CompiledQuery<{ id: number }> {
	return query
		.selectFrom("bundles")
		.select("id")
		.where("app_id", "=", appIdOf(publicAppId))
		.where((eb) => (typeof bundle === "number" ? eb("id", "=", bundle) : eb("name", "=", bundle)))
		.where("deleted_at_ms", "is", null)
		.where(shownOnProtected)
		.compile();
}

/** For guards. */
export function isShownOnProtectedChannel(appId: AppId, bundleId: number, isShown: boolean) {
	return sql<boolean>`EXISTS (SELECT 1 FROM bundles WHERE app_id = ${appId} AND id = ${bundleId} AND (${shownOnProtected}) = ${isShown ? 1 : 0})`;
}

/** For guards: the bundle exists and all its bytes are stored. */
export function bundleIsReady(appId: AppId, bundleId: number) {
	return sql<boolean>`EXISTS (SELECT 1 FROM bundles WHERE app_id = ${appId} AND id = ${bundleId} AND status = 'ready')`;
}

/** For guards: the bundle exists, pending or ready. */
export function bundleIsLive(appId: AppId, bundleId: number) {
	return sql<boolean>`EXISTS (SELECT 1 FROM bundles WHERE app_id = ${appId} AND id = ${bundleId} AND deleted_at_ms IS NULL)`;
}

export function bundleIsPending(appId: AppId, bundleId: number) {
	return sql<boolean>`EXISTS (SELECT 1 FROM bundles WHERE app_id = ${appId} AND id = ${bundleId} AND status = 'pending')`;
}

/** One row if a bundle or a delta file of an app that is not deleted has this object. */
export function objectIsNamed(appId: AppId, objectKey: string): CompiledQuery<{ named: number }> {
	return sql<{ named: number }>`SELECT 1 AS named
		FROM apps INNER JOIN organizations ON organizations.id = apps.owner_org
		WHERE apps.id = ${appId} AND organizations.deleted_at_ms IS NULL AND (
			EXISTS (SELECT 1 FROM bundles WHERE app_id = ${appId} AND object_key = ${objectKey})
			OR EXISTS (SELECT 1 FROM delta_objects WHERE app_id = ${appId} AND object_key = ${objectKey}))`.compile(query);
}

export interface LiveBundle {
	/** Public. */
	readonly app_id: string;
	readonly name: string;
	readonly object_key: string;
}

/** The newest bundles that channels serve, of all apps. For the operator. */
export function newestLiveBundles(most: number): CompiledQuery<LiveBundle> {
	return sql<LiveBundle>`SELECT apps.app_id, bundles.name, bundles.object_key
		FROM (SELECT DISTINCT version_id FROM channels WHERE version_id IS NOT NULL ORDER BY version_id DESC LIMIT ${most}) AS live
		CROSS JOIN bundles ON bundles.id = live.version_id CROSS JOIN apps ON apps.id = bundles.app_id
		WHERE bundles.object_key IS NOT NULL`.compile(query);
}
