/**
 * Statements about bundles. A bundle is `pending` from its registration until its bytes are stored and checked; a pending row that
 * comes to nothing is removed, a ready one that is deleted stays as history without its name and bytes.
 */
import { type CompiledQuery, type Insertable, type RawBuilder, type Selectable, sql, type Updateable } from "kysely";
import type { AppId } from "../authz/decide";
import { dropRollbackTargets, KEPT_FOR_ROLLBACK, rollbackTargetOf } from "./channel-history";
import { jsonList, query } from "./client";
import { appIdOf } from "./public-app-id";
import type { BundlesTable } from "./schema";
import { signerOfBundle } from "./signing-keys";

export type BundleRow = Selectable<BundlesTable>;

export interface BundleListRow extends BundleRow {
	/** JSON array of the names of the channels that use the bundle. */
	readonly channels: string;
	/** Public id of the app. */
	readonly public_app_id: string;
	/** `key_id` of the registered signing key that verified the bundle. */
	readonly signer: string | null;
	/** When retention ends, as far as is known now. Null: the bundle is in use, or its app keeps everything. */
	readonly kept_until_ms: number | null;
}

const channelsOfBundle = sql<string>`(SELECT json_group_array(channels.name) FROM channels
	WHERE channels.app_id = bundles.app_id AND (channels.version_id = bundles.id OR channels.rollout_version_id = bundles.id))`;

/** Each half has its own index: with an OR, every channel of the app would be read for every bundle. */
const IN_NO_CHANNEL = sql<boolean>`NOT EXISTS (SELECT 1 FROM channels
		WHERE channels.app_id = bundles.app_id AND channels.version_id = bundles.id)
	AND NOT EXISTS (SELECT 1 FROM channels
		WHERE channels.app_id = bundles.app_id AND channels.rollout_version_id = bundles.id)`;
/** No channel serves the bundle, and none should be able to go back to it. */
const UNUSED = sql<boolean>`${IN_NO_CHANNEL} AND NOT ${KEPT_FOR_ROLLBACK}`;
/** An app's newest bundle always stays. */
const HAS_NEWER = sql<boolean>`EXISTS (SELECT 1 FROM bundles AS newer
	WHERE newer.app_id = bundles.app_id AND newer.status = 'ready' AND newer.deleted_at_ms IS NULL
		AND (newer.created_at_ms, newer.id) > (bundles.created_at_ms, bundles.id))`;
const IN_NO_OVERRIDE = sql<boolean>`NOT EXISTS (SELECT 1 FROM device_overrides
	WHERE device_overrides.app_id = bundles.app_id AND device_overrides.version_id = bundles.id)`;

/** Devices that are read to say when retention ends: a list must not read a whole fleet, and any of them is seen about as late as the last. */
const MOST_DEVICES_READ = 200;
const keptUntil = sql<number | null>`CASE WHEN bundles.status = 'ready' AND apps.retention > 0
		AND ${HAS_NEWER} AND ${IN_NO_OVERRIDE} AND ${UNUSED}
	THEN apps.retention * 1000 + max(bundles.created_at_ms, coalesce((SELECT max(last_seen_at_ms) FROM (
		SELECT last_seen_at_ms FROM devices INDEXED BY devices_by_version
		WHERE devices.app_id = bundles.app_id AND devices.version_name = bundles.name LIMIT ${sql.lit(MOST_DEVICES_READ)})), 0)) END`;

const bundleListRows = () =>
	query
		.selectFrom("bundles")
		.innerJoin("apps", "apps.id", "bundles.app_id")
		.selectAll("bundles")
		.select([
			"apps.app_id as public_app_id",
			channelsOfBundle.as("channels"),
			keptUntil.as("kept_until_ms"),
			signerOfBundle.as("signer"),
		])
		.where("bundles.deleted_at_ms", "is", null);

/** A page of the app's ready bundles, newest first; `version` narrows to one. For loading beside the decision. */
export function bundlesPage(
	publicAppId: string,
	version: string | undefined,
	limit: number,
	offset: number,
): CompiledQuery<BundleListRow> {
	return bundleListRows()
		.where("bundles.app_id", "=", appIdOf(publicAppId))
		.where("bundles.status", "=", "ready")
		.$if(version !== undefined, (rows) => rows.where("bundles.name", "=", version ?? ""))
		.orderBy("bundles.created_at_ms", "desc")
		.orderBy("bundles.id", "desc")
		.limit(limit)
		.offset(offset)
		.compile();
}

/** A live bundle (pending or ready) by its version; for loading beside the decision. */
export function bundleByName(publicAppId: string, name: string): CompiledQuery<BundleListRow> {
	return bundleListRows().where("bundles.app_id", "=", appIdOf(publicAppId)).where("bundles.name", "=", name).compile();
}

/** Live bundles by their versions, at most a few; for loading beside the decision. */
export function bundlesByNames(publicAppId: string, names: readonly string[]): CompiledQuery<BundleListRow> {
	return bundleListRows()
		.where("bundles.app_id", "=", appIdOf(publicAppId))
		.where("bundles.name", "in", jsonList(JSON.stringify(names)))
		.compile();
}

/** A live bundle by its id; for loading beside the decision. */
export function bundleById(publicAppId: string, id: number): CompiledQuery<BundleListRow> {
	return bundleListRows().where("bundles.app_id", "=", appIdOf(publicAppId)).where("bundles.id", "=", id).compile();
}

/** A live bundle by its id alone, for requests whose scope is read from the same id. */
export function bundleOfScope(id: number): CompiledQuery<BundleListRow> {
	return bundleListRows().where("bundles.id", "=", id).compile();
}

/** The record of one live bundle, as the last statement of a batch that wrote it. */
export function bundleRecord(appId: AppId, name: string): CompiledQuery<BundleListRow> {
	return bundleListRows().where("bundles.app_id", "=", appId).where("bundles.name", "=", name).compile();
}

export type NewBundle = Omit<Insertable<BundlesTable>, "app_id" | "id">;

export function insertBundle(appId: AppId, values: NewBundle): CompiledQuery<{ id: number }> {
	return query
		.insertInto("bundles")
		.values({ ...values, app_id: appId })
		.returning("id")
		.compile();
}

/** Changes a live bundle. Who created it can not be changed. */
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

/** The row becomes history: name, bytes and manifest are let go of. Runs after `bytesOfBundlesToGarbage`. */
export function markBundleDeleted(appId: AppId, bundleId: number, nowMs: number): CompiledQuery[] {
	return [
		query.deleteFrom("bundle_files").where("app_id", "=", appId).where("bundle_id", "=", bundleId).compile(),
		...dropOverrides(appId, sql`= ${bundleId}`),
		dropRollbackTargets(appId, sql`= ${bundleId}`),
		updateBundle(appId, bundleId, {
			status: "deleted",
			object_key: null,
			delete_marked_at_ms: null,
			deleted_at_ms: nowMs,
			updated_at_ms: nowMs,
		}),
	];
}

/** Devices that were given bundles which go: their overrides name a channel alone from now on, or go too. */
function dropOverrides(appId: AppId, bundles: RawBuilder<unknown>): CompiledQuery[] {
	return [
		sql`DELETE FROM device_overrides WHERE app_id = ${appId} AND version_id ${bundles} AND channel_id IS NULL`,
		sql`UPDATE device_overrides SET version_id = NULL WHERE app_id = ${appId} AND version_id ${bundles}`,
	].map((statement) => statement.compile(query));
}

/** Removes a registration that never became ready; its uploads go with it. Runs after `uploadsOfBundleToGarbage`. */
export function dropPendingBundle(appId: AppId, bundleId: number): CompiledQuery {
	return query
		.deleteFrom("bundles")
		.where("app_id", "=", appId)
		.where("id", "=", bundleId)
		.where("status", "=", "pending")
		.compile();
}

const unusedBundles = (appId: AppId) => sql<boolean>`app_id = ${appId} AND status = 'ready' AND ${UNUSED}`;

/** Deletes every unused ready bundle of the app, or those among them that `which` names, with an audit entry each. */
export function deleteUnusedBundles(
	appId: AppId,
	nowMs: number,
	audit: (doomed: RawBuilder<unknown>) => CompiledQuery,
	which: RawBuilder<unknown> = sql`true`,
): CompiledQuery[] {
	const unused = sql`${unusedBundles(appId)} AND ${which}`;
	return [
		audit(unused),
		...[
			sql`INSERT INTO garbage_objects (object_prefix, created_at_ms, due_at_ms)
			SELECT object_key, ${nowMs}, ${nowMs} FROM bundles WHERE ${unused} AND object_key IS NOT NULL`,
			sql`DELETE FROM bundle_files WHERE app_id = ${appId} AND bundle_id IN (SELECT id FROM bundles WHERE ${unused})`,
		].map((statement) => statement.compile(query)),
		...dropOverrides(appId, sql`IN (SELECT id FROM bundles WHERE ${unused})`),
		dropRollbackTargets(appId, sql`IN (SELECT id FROM bundles WHERE ${unused})`),
		sql`UPDATE bundles SET status = 'deleted', object_key = NULL, delete_marked_at_ms = NULL,
			deleted_at_ms = ${nowMs}, updated_at_ms = ${nowMs} WHERE ${unused}`.compile(query),
	];
}

/** A bundle that would go, beside the sums over all that would. */
export interface BundleGoing {
	readonly id: number;
	readonly name: string;
	readonly size_bytes: number | null;
	readonly bundles: number;
	readonly bundle_bytes: number;
	readonly device_overrides: number;
	/** Devices that were last seen running this bundle. */
	readonly devices: number;
	/** The sum over all of them. */
	readonly devices_of_all: number;
	/** JSON array of the channels that can go back to it now. */
	readonly rollback_target_of: string;
}

/** Number of devices whose last report names the bundle. It names its index, because SQLite cannot estimate the devices of an app. */
const devicesOfBundle = sql<number>`(SELECT count(*) FROM devices INDEXED BY devices_by_version
	WHERE devices.app_id = bundles.app_id AND devices.version_name = bundles.name)`;

/** The effect of deleting this bundle, or every unused ready bundle if none is given; newest first. */
export function bundlesGoing(appId: AppId, bundleId: number | undefined, limit: number): CompiledQuery<BundleGoing> {
	const going = bundleId === undefined ? unusedBundles(appId) : liveBundle(appId, bundleId);
	return sql<BundleGoing>`SELECT id, name, size_bytes, devices, count(*) OVER () AS bundles,
			sum(CASE WHEN object_key IS NULL THEN 0 ELSE coalesce(size_bytes, 0) END) OVER () AS bundle_bytes,
			sum((SELECT count(*) FROM device_overrides
				WHERE device_overrides.app_id = bundles.app_id AND device_overrides.version_id = bundles.id)) OVER () AS device_overrides,
			sum(devices) OVER () AS devices_of_all, ${rollbackTargetOf} AS rollback_target_of
		FROM (SELECT *, ${devicesOfBundle} AS devices FROM bundles WHERE ${going}) AS bundles
		ORDER BY created_at_ms DESC, id DESC LIMIT ${limit}`.compile(query);
}

/** How many ready bundles of the app are in no channel, and stay because a channel should be able to go back to them. */
export function bundlesKeptForRollback(appId: AppId): CompiledQuery<{ bundles: number }> {
	return sql<{ bundles: number }>`SELECT count(*) AS bundles FROM bundles
		WHERE app_id = ${appId} AND status = 'ready' AND ${IN_NO_CHANNEL} AND ${KEPT_FOR_ROLLBACK}`.compile(query);
}

/** Devices that run each of these bundles. */
export function devicesOfBundles(
	appId: AppId,
	bundleIds: readonly number[],
): CompiledQuery<{ id: number; devices: number }> {
	return sql<{ id: number; devices: number }>`SELECT id, ${devicesOfBundle} AS devices FROM bundles
		WHERE ${bundlesWithIds(appId, bundleIds)}`.compile(query);
}

/**
 * The bundle is older than its app keeps unused ones, no operator set it for a device, and no device was seen running it in that time.
 * An app with retention 0 keeps everything.
 *
 * The condition about devices comes last and names its index: SQLite does not know how many an app has, and would read them all.
 */
export const outlived = (nowMs: number) => sql<boolean>`${HAS_NEWER} AND ${IN_NO_OVERRIDE}
	AND EXISTS (SELECT 1 FROM apps JOIN organizations ON organizations.id = apps.owner_org
		WHERE apps.id = bundles.app_id AND organizations.deleted_at_ms IS NULL AND apps.retention > 0
			AND bundles.created_at_ms <= ${nowMs} - apps.retention * 1000
			AND NOT EXISTS (SELECT 1 FROM devices INDEXED BY devices_by_version
				WHERE devices.app_id = bundles.app_id AND devices.version_name = bundles.name
					AND devices.last_seen_at_ms > ${nowMs} - apps.retention * 1000))`;

/**
 * Expired bundles of all apps: the oldest ones of each, bounded for one app and for all. The join repeats the condition on their age, so that
 * an index skips the younger ones.
 */
export function outlivedBundles(
	nowMs: number,
	mostOfApp: number,
	most: number,
): CompiledQuery<{ readonly id: number; readonly app_id: AppId }> {
	return sql<{ id: number; app_id: AppId }>`SELECT id, app_id FROM (
			SELECT bundles.id, bundles.app_id, row_number() OVER (PARTITION BY bundles.app_id ORDER BY bundles.created_at_ms, bundles.id) AS place
			FROM apps AS own CROSS JOIN bundles ON bundles.app_id = own.id AND bundles.deleted_at_ms IS NULL
				AND bundles.created_at_ms <= ${nowMs} - own.retention * 1000 AND own.retention > 0
			WHERE bundles.status = 'ready' AND ${UNUSED} AND ${outlived(nowMs)})
		WHERE place <= ${mostOfApp} ORDER BY place, app_id LIMIT ${most}`.compile(query);
}

/** The text of a bundle's id, for an entry of the batch that made the bundle. */
export function bundleIdNamed(appId: AppId, version: string) {
	return sql<string>`(SELECT CAST(id AS TEXT) FROM bundles WHERE app_id = ${appId} AND name = ${version} AND deleted_at_ms IS NULL)`;
}

/** For audit entries: bundles of the app, one while it is pending, and one while it was not deleted. */
export const bundlesWithIds = (appId: AppId, ids: readonly number[]) =>
	sql`app_id = ${appId} AND id IN ${jsonList(JSON.stringify(ids))}`;
export const pendingBundle = (appId: AppId, bundleId: number) =>
	sql`app_id = ${appId} AND id = ${bundleId} AND status = 'pending'`;
export const liveBundle = (appId: AppId, bundleId: number) =>
	sql`app_id = ${appId} AND id = ${bundleId} AND deleted_at_ms IS NULL`;

/** For guards: the bundle is there and every byte of it is stored. */
export function bundleIsReady(appId: AppId, bundleId: number) {
	return sql<boolean>`EXISTS (SELECT 1 FROM bundles WHERE app_id = ${appId} AND id = ${bundleId} AND status = 'ready')`;
}

/** For guards: the bundle was not deleted, and its registration not dropped. */
export function bundleIsLive(appId: AppId, bundleId: number) {
	return sql<boolean>`EXISTS (SELECT 1 FROM bundles WHERE app_id = ${appId} AND id = ${bundleId} AND deleted_at_ms IS NULL)`;
}

export function bundleIsPending(appId: AppId, bundleId: number) {
	return sql<boolean>`EXISTS (SELECT 1 FROM bundles WHERE app_id = ${appId} AND id = ${bundleId} AND status = 'pending')`;
}

/** One row when a bundle or a file of the delta store consists of this object, of an app that is not deleted. */
export function objectIsNamed(appId: AppId, objectKey: string): CompiledQuery<{ named: number }> {
	return sql<{ named: number }>`SELECT 1 AS named
		FROM apps INNER JOIN organizations ON organizations.id = apps.owner_org
		WHERE apps.id = ${appId} AND organizations.deleted_at_ms IS NULL AND (
			EXISTS (SELECT 1 FROM bundles WHERE app_id = ${appId} AND object_key = ${objectKey})
			OR EXISTS (SELECT 1 FROM delta_objects WHERE app_id = ${appId} AND object_key = ${objectKey}))`.compile(query);
}
