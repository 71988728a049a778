/**
 * Statements about the native packages of bundles. A list is immutable and stored in one form
 * (src/domain/bundles/native-packages.ts), so bundles with the same packages have equal texts.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { AppId } from "../authz/decide";
import type { PackagedBundle } from "../domain/bundles/native-packages";
import { jsonList, query } from "./client";
import { appIdOf } from "./public-app-id";

export interface PackagedRow extends PackagedBundle {
	readonly id: number;
}

const packaged = (from: RawBuilder<unknown>) =>
	sql<PackagedRow>`SELECT b.id, b.name, b.native_packages, b.min_update_version FROM ${from}`.compile(query);

/** The bundles that a channel serves. */
export function packagesOfChannel(publicAppId: string, channel: { readonly id: number } | { readonly name: string }) {
	const which = "id" in channel ? sql`c.id = ${channel.id}` : sql`c.name = ${channel.name}`;
	return packaged(sql`channels c JOIN bundles b ON b.id IN (c.version_id, c.rollout_version_id)
		WHERE c.app_id = ${appIdOf(publicAppId)} AND b.app_id = c.app_id AND ${which}`);
}

/** The bundles of a proposal and of its channel. */
export function packagesOfProposal(publicAppId: string, proposalId: string) {
	return packaged(sql`proposals p JOIN channels c ON c.id = p.channel_id
		JOIN bundles b ON b.id IN (c.version_id, p.changes ->> 'version_id', p.changes ->> 'rollout_version_id')
		WHERE p.app_id = ${appIdOf(publicAppId)} AND p.id = ${proposalId} AND b.app_id = p.app_id`);
}

/** Enough to know the store builds of an app, whose bundles mostly share one list. */
const MOST_SAME = 200;

/** Bundles that are compared with one, the newest of the app. */
const MOST_COMPARED = 500;

/** Newest bundles with the packages of this one. */
export function bundlesWithSamePackages(
	publicAppId: string,
	version: string,
): CompiledQuery<{ readonly name: string }> {
	const app = appIdOf(publicAppId);
	const packages = query
		.selectFrom("bundles")
		.select("native_packages")
		.where("app_id", "=", app)
		.where("name", "=", version)
		.where("deleted_at_ms", "is", null);
	const newest = query
		.selectFrom("bundles")
		.select(["name", "status", "native_packages"])
		.where("app_id", "=", app)
		.where("deleted_at_ms", "is", null)
		.orderBy("created_at_ms", "desc")
		.orderBy("id", "desc")
		.limit(MOST_COMPARED);
	return query
		.selectFrom(newest.as("b"))
		.select("b.name")
		.where("b.status", "=", "ready")
		.where("b.native_packages", "=", packages)
		.limit(MOST_SAME)
		.compile();
}

const MOST_DEVICES = 1_000;

/**
 * Store builds of devices that reported one of the versions last, from the first devices of each.
 */
export function storeBuildsRunning(
	appId: AppId,
	versions: readonly string[],
): CompiledQuery<{ readonly version_build: string }> {
	return sql<{ readonly version_build: string }>`SELECT DISTINCT version_build FROM (
			SELECT version_build FROM devices INDEXED BY devices_by_version
			WHERE app_id = ${appId} AND version_name IN ${jsonList(JSON.stringify(versions))} LIMIT ${sql.lit(MOST_DEVICES)})
		WHERE version_build IS NOT NULL ORDER BY version_build LIMIT 100`.compile(query);
}
