/**
 * Statements about channels. Each takes ids that a decision gave out and carries the tenant in its own WHERE; a statement that loads
 * before the decision names the app by its public id instead, and its rows are dropped when the decision is no.
 */
import { type CompiledQuery, type RawBuilder, type Selectable, sql, type Updateable } from "kysely";
import type { AppId, ChannelId } from "../authz/decide";
import { jsonList, query } from "./client";
import { prepared } from "./prepared";
import { appIdOf } from "./public-app-id";
import type { ChannelsTable, Flag } from "./schema";

export interface ChannelRow extends Selectable<ChannelsTable> {
	readonly version_name: string | null;
	readonly rollout_version_name: string | null;
	/** Key that uploaded the stable and the rollout bundle. */
	readonly version_created_by_key: string | null;
	readonly rollout_version_created_by_key: string | null;
}

const channelRows = () =>
	query
		.selectFrom("channels")
		.leftJoin("bundles as stable", "stable.id", "channels.version_id")
		.leftJoin("bundles as rollout", "rollout.id", "channels.rollout_version_id")
		.selectAll("channels")
		.select([
			"stable.name as version_name",
			"stable.created_by_key as version_created_by_key",
			"rollout.name as rollout_version_name",
			"rollout.created_by_key as rollout_version_created_by_key",
		]);

const namedChannel = prepared<{ publicAppId: string; name: string }, ChannelRow>((value) =>
	channelRows()
		.where("channels.app_id", "=", appIdOf(value("publicAppId")))
		.where("channels.name", "=", value("name"))
		.compile(),
);

/** One channel by name; for loading beside the decision. */
export function channelByName(publicAppId: string, name: string): CompiledQuery<ChannelRow> {
	return namedChannel({ publicAppId, name });
}

const numberedChannel = prepared<{ publicAppId: string; id: number }, ChannelRow>((value) =>
	channelRows()
		.where("channels.app_id", "=", appIdOf(value("publicAppId")))
		.where("channels.id", "=", value("id"))
		.compile(),
);

/** One channel by its id; for loading beside the decision. */
export function channelById(publicAppId: string, id: number): CompiledQuery<ChannelRow> {
	return numberedChannel({ publicAppId, id });
}

/** The channel of a proposal; for loading beside the decision. */
export function channelOfProposal(publicAppId: string, proposalId: string): CompiledQuery<ChannelRow> {
	return channelRows()
		.innerJoin("proposals", "proposals.channel_id", "channels.id")
		.where("channels.app_id", "=", appIdOf(publicAppId))
		.where("proposals.id", "=", proposalId)
		.compile();
}

/** A channel as lists show it: with what tells whether any device can get its bundle. */
export interface ListedChannelRow extends ChannelRow {
	readonly version_min_update_version: string | null;
	readonly rollout_min_update_version: string | null;
	/** JSON list of `[version_build, last_seen_at_ms]`, of a sample of the app's devices. */
	readonly store_builds: string;
}

/** Ids are random, so the first devices are a fair sample, and a list costs no more in an app with a million of them. */
const SAMPLED_DEVICES = 100;

const listedRows = (publicAppId: string) =>
	channelRows().select([
		"stable.min_update_version as version_min_update_version",
		"rollout.min_update_version as rollout_min_update_version",
		// Names no column of the row, so SQLite runs it once for the whole list.
		sql<string>`(SELECT json_group_array(json_array(version_build, seen_at_ms)) FROM (
			SELECT version_build, max(last_seen_at_ms) AS seen_at_ms FROM (
				SELECT version_build, last_seen_at_ms FROM devices
				WHERE app_id = ${appIdOf(publicAppId)} ORDER BY device_id LIMIT ${sql.lit(SAMPLED_DEVICES)})
			WHERE version_build IS NOT NULL AND last_seen_at_ms IS NOT NULL GROUP BY version_build))`.as("store_builds"),
	]);

const listedChannel = prepared<{ publicAppId: string; name: string }, ListedChannelRow>((value) =>
	listedRows(value("publicAppId"))
		.where("channels.app_id", "=", appIdOf(value("publicAppId")))
		.where("channels.name", "=", value("name"))
		.compile(),
);

/** One channel as lists show it; for loading beside the decision. */
export function listedChannelByName(publicAppId: string, name: string): CompiledQuery<ListedChannelRow> {
	return listedChannel({ publicAppId, name });
}

const pageOfChannels = prepared<{ publicAppId: string; limit: number; offset: number }, ListedChannelRow>((value) =>
	listedRows(value("publicAppId"))
		.where("channels.app_id", "=", appIdOf(value("publicAppId")))
		.orderBy("channels.created_at_ms")
		.orderBy("channels.id")
		.limit(value("limit"))
		.offset(value("offset"))
		.compile(),
);

/** A page of the app's channels, oldest first; for loading beside the decision. */
export function channelsPage(publicAppId: string, limit: number, offset: number): CompiledQuery<ListedChannelRow> {
	return pageOfChannels({ publicAppId, limit, offset });
}

export type ChannelValues = Updateable<
	Omit<ChannelsTable, "id" | "app_id" | "name" | "created_by" | "created_by_key" | "created_at_ms">
>;

export function insertChannel(
	appId: AppId,
	values: ChannelValues & { name: string; created_by: string; created_by_key: string | null },
	nowMs: number,
): CompiledQuery<{ id: number; public: Flag }> {
	return query
		.insertInto("channels")
		.values({ ...values, app_id: appId, created_at_ms: nowMs, updated_at_ms: nowMs })
		.returning(["id", "public"])
		.compile();
}

/** The channel has another value in one of the columns. */
export function differsFrom(values: ChannelValues): RawBuilder<boolean> {
	const differences = Object.entries(values).map(([column, value]) => sql`${sql.ref(column)} IS NOT ${value}`);
	return sql<boolean>`(${differences.length === 0 ? sql`0` : sql.join(differences, sql` OR `)})`;
}

/** The channel is there and has another value in one of the columns. */
export function channelDiffers(appId: AppId, channelId: ChannelId, values: ChannelValues) {
	return sql<boolean>`EXISTS (SELECT 1 FROM channels WHERE app_id = ${appId} AND id = ${channelId} AND ${differsFrom(values)})`;
}

/** Changes the channel where anything differs. */
export function updateChannel(appId: AppId, channelId: ChannelId, values: ChannelValues, nowMs: number): CompiledQuery {
	return query
		.updateTable("channels")
		.set({ ...values, updated_at_ms: nowMs })
		.where("app_id", "=", appId)
		.where("id", "=", channelId)
		.where(differsFrom(values))
		.compile();
}

export type Platforms = Readonly<Record<"ios" | "android" | "electron", Flag>>;

/**
 * Takes the given platforms away from the public channels that hold them; one left with none stops being public. Runs before the
 * channel that gets them is written, in the same batch.
 */
export function yieldPublicPlatforms(
	appId: AppId,
	exceptName: string,
	platforms: Platforms,
	nowMs: number,
): CompiledQuery {
	const { ios, android, electron } = platforms;
	return sql`
		UPDATE channels SET
			ios = CASE WHEN ${ios} = 1 THEN 0 ELSE ios END,
			android = CASE WHEN ${android} = 1 THEN 0 ELSE android END,
			electron = CASE WHEN ${electron} = 1 THEN 0 ELSE electron END,
			public = CASE WHEN (ios = 1 AND ${ios} = 0) OR (android = 1 AND ${android} = 0) OR (electron = 1 AND ${electron} = 0)
				THEN 1 ELSE 0 END,
			updated_at_ms = ${nowMs}
		WHERE app_id = ${appId} AND name <> ${exceptName} AND public = 1
			AND ((ios = 1 AND ${ios} = 1) OR (android = 1 AND ${android} = 1) OR (electron = 1 AND ${electron} = 1))`.compile(
		query,
	);
}

export function deleteChannel(appId: AppId, channelId: ChannelId): CompiledQuery {
	return query.deleteFrom("channels").where("app_id", "=", appId).where("id", "=", channelId).compile();
}

/** What a channel's deletion removes besides itself and its bundles. */
export interface ChannelContents {
	readonly api_key_bindings: number;
	/** Devices that were given the channel or one of the bundles. */
	readonly device_overrides: number;
	readonly rollouts: number;
}

/** Counts of what goes with a channel, and with bundles that go with it. */
export function channelContents(
	appId: AppId,
	channelId: ChannelId,
	bundleIds: readonly number[],
): CompiledQuery<ChannelContents> {
	return sql<ChannelContents>`SELECT
		(SELECT count(*) FROM role_bindings WHERE app_id = ${appId} AND channel_id = ${channelId}) AS api_key_bindings,
		(SELECT count(*) FROM device_overrides WHERE app_id = ${appId}
			AND (channel_id = ${channelId} OR version_id IN ${jsonList(JSON.stringify(bundleIds))})) AS device_overrides,
		(SELECT count(*) FROM rollouts WHERE app_id = ${appId} AND channel_id = ${channelId}) AS rollouts`.compile(query);
}

/** For guards: the channel is there, and still points to these bundles. */
export function channelStillPointsTo(
	appId: AppId,
	channelId: ChannelId,
	versionId: number | null,
	rolloutVersionId: number | null,
) {
	return sql<boolean>`EXISTS (SELECT 1 FROM channels WHERE app_id = ${appId} AND id = ${channelId}
		AND version_id IS ${versionId} AND rollout_version_id IS ${rolloutVersionId})`;
}

/** For guards: the channel is public, and on for platforms, as it was read. */
export function channelPlatformsAre(appId: AppId, channelId: ChannelId, read: Platforms & { readonly public: Flag }) {
	return sql<boolean>`EXISTS (SELECT 1 FROM channels WHERE app_id = ${appId} AND id = ${channelId} AND public = ${read.public}
		AND ios = ${read.ios} AND android = ${read.android} AND electron = ${read.electron})`;
}

/** The text of a channel's id, for an entry of the batch that made the channel. */
export function channelIdNamed(appId: AppId, name: string) {
	return sql<string>`(SELECT CAST(id AS TEXT) FROM channels WHERE app_id = ${appId} AND name = ${name})`;
}

/**
 * For guards, after the channel was written: each bundle that it points to has the form that its update package asks for, the zip or the
 * single files of a manifest.
 */
export function bundlesHaveForm(
	appId: AppId,
	channel: ChannelId | { readonly name: string },
	form: "zip" | "delta",
): RawBuilder<boolean> {
	const isIt = typeof channel === "object" ? sql`c.name = ${channel.name}` : sql`c.id = ${channel}`;
	const hasForm =
		form === "zip"
			? sql`(b.object_key IS NOT NULL OR b.external_url IS NOT NULL)`
			: sql`(b.external_url IS NULL AND EXISTS (SELECT 1 FROM bundle_files f WHERE f.bundle_id = b.id))`;
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM channels c JOIN bundles b ON b.id IN (c.version_id, c.rollout_version_id)
		WHERE c.app_id = ${appId} AND ${isIt} AND c.update_package IN (${form}, ${`${form}_from_builtin`}) AND NOT ${hasForm})`;
}

export function channelExists(appId: AppId, channelId: ChannelId) {
	return sql<boolean>`EXISTS (SELECT 1 FROM channels WHERE app_id = ${appId} AND id = ${channelId})`;
}

/** For guards: no channel but the given one (0: none is excepted) uses the bundle. */
export function bundleUnusedExceptBy(appId: AppId, bundleId: number, channelId: number) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM channels WHERE app_id = ${appId} AND id <> ${channelId}
		AND (version_id = ${bundleId} OR rollout_version_id = ${bundleId}))`;
}
