/**
 * Versions that devices got. A device that has the bytes of a version loads no others under the
 * same version, and one on which it failed never tries it again, so the version stays taken after
 * its bundle is deleted. Previews are exempt: preview channels, and channels that were neither
 * public nor protected and are deleted together with their bundle.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { AppId, ChannelId } from "../authz/decide";
import { jsonList, query } from "./client";
import { appIdOf } from "./public-app-id";

/** `bundles.used_by` of a bundle that several channels served, or that was set for a device. */
const MORE_THAN_A_CHANNEL = sql.lit(0);

/**
 * For guards: no deleted bundle of this version was live, or set for a device, outside of previews.
 */
export function versionIsUnused(appId: AppId, version: string) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM bundles
		WHERE app_id = ${appId} AND name = ${version} AND used_by IS NOT NULL AND deleted_at_ms IS NOT NULL)`;
}

/** How many bundles took the version after it was used, the first one and deleted ones included. */
export function usesOfVersion(publicAppId: string, version: string): CompiledQuery<{ readonly uses: number }> {
	const app = appIdOf(publicAppId);
	const bundles = query
		.selectFrom("bundles")
		.select((eb) => eb.fn.countAll<number>().as("bundles"))
		.where("app_id", "=", app);
	const first = bundles.where("name", "=", version).where("used_by", "is not", null);
	const again = bundles.where("reuse_of", "=", version);
	return query.selectNoFrom(sql<number>`${first} + ${again}`.as("uses")).compile();
}

const servedBy = (channel: RawBuilder<unknown>) =>
	sql`UPDATE bundles SET used_by = CASE coalesce(used_by, c.id) WHEN c.id THEN c.id ELSE ${MORE_THAN_A_CHANNEL} END
		FROM (SELECT id, version_id, rollout_version_id FROM channels WHERE ${channel} AND is_preview = 0) c`;

/** Notes that the bundles are given to devices of the channel, unless it is a preview. */
export function markUsed(appId: AppId, bundleIds: readonly number[], channel: RawBuilder<unknown>): CompiledQuery {
	return sql`${servedBy(channel)}
		WHERE +bundles.app_id = ${appId} AND bundles.id IN ${jsonList(JSON.stringify(bundleIds))}`.compile(query);
}

/** Notes that the bundles of a channel are given to devices, unless it is a preview. */
export function markUsedByChannel(appId: AppId, name: string): CompiledQuery {
	return sql`${servedBy(sql`app_id = ${appId} AND name = ${name}`)}
		WHERE bundles.id IN (c.version_id, c.rollout_version_id)`.compile(query);
}

/**
 * Notes that the bundle is set for a device. Testers get bundles of previews, whose versions become
 * free again.
 */
export function markUsedByDevice(appId: AppId, bundleId: number): CompiledQuery {
	return query
		.updateTable("bundles")
		.set({ used_by: MORE_THAN_A_CHANNEL })
		.where("app_id", "=", appId)
		.where("id", "=", bundleId)
		.where("preview_id", "is", null)
		.where("by_preview_key", "=", 0)
		.compile();
}

/**
 * Frees the versions of bundles that only this channel served, before both are deleted as a preview
 * is.
 */
export function freeVersionsOf(appId: AppId, channelId: ChannelId): CompiledQuery {
	const own = query
		.selectFrom("channels")
		.where("app_id", "=", appId)
		.where("id", "=", channelId)
		.where("public", "=", 0)
		.where("protected", "=", 0);
	return query
		.updateTable("bundles")
		.set({ used_by: null })
		.where("used_by", "=", channelId)
		.where(
			"id",
			"in",
			own.select("version_id as id").unionAll(own.select("rollout_version_id as id")).$castTo<{ id: number }>(),
		)
		.compile();
}
