/**
 * Statements on channels. Writes take the ids of an authorization decision and name the tenant in
 * their own WHERE. Statements that load beside the decision name the app by its public id; their
 * rows are dropped if the decision is no.
 */
import { type CompiledQuery, type RawBuilder, type Selectable, sql, type Updateable } from "kysely";
import type { AppId, ChannelId } from "../authz/decide";
import { jsonList, query } from "./client";
import { LIVE_ENTRY } from "./live-entries";
import { prepared } from "./prepared";
import { appIdOf } from "./public-app-id";
import type { ChannelsTable, Flag } from "./schema";

export interface ChannelRow extends Selectable<ChannelsTable> {
	readonly version_name: string | null;
	readonly rollout_version_name: string | null;
	/** Keys that uploaded the stable and the rollout bundle. */
	readonly version_created_by_key: string | null;
	readonly rollout_version_created_by_key: string | null;
	/** Its open preview. */
	readonly preview_id: string | null;
}

/** @param more further columns */
const channelRows = (more = sql``) => sql<ChannelRow>`SELECT channels.*, stable.name AS version_name,
		stable.created_by_key AS version_created_by_key, rollout.name AS rollout_version_name,
		rollout.created_by_key AS rollout_version_created_by_key,
		(SELECT id FROM previews WHERE previews.channel_id = channels.id AND previews.state = 'open') AS preview_id${more}
	FROM channels LEFT JOIN bundles AS stable ON stable.id = channels.version_id
		LEFT JOIN bundles AS rollout ON rollout.id = channels.rollout_version_id`;

/** One channel by name. */
export function channelByName(publicAppId: string, name: string): CompiledQuery<ChannelRow> {
	return sql<ChannelRow>`${channelRows()} WHERE channels.app_id = ${appIdOf(publicAppId)} AND channels.name = ${name}`.compile(
		query,
	);
}

/** One channel by its id. */
export function channelById(publicAppId: string, id: number): CompiledQuery<ChannelRow> {
	return sql<ChannelRow>`${channelRows()} WHERE channels.app_id = ${appIdOf(publicAppId)} AND channels.id = ${id}`.compile(
		query,
	);
}

/** The channel of a proposal. */
export function channelOfProposal(publicAppId: string, proposalId: string): CompiledQuery<ChannelRow> {
	return sql<ChannelRow>`${channelRows()} JOIN proposals ON proposals.channel_id = channels.id
		WHERE channels.app_id = ${appIdOf(publicAppId)} AND proposals.id = ${proposalId}`.compile(query);
}

/** A channel with the facts that `misconfigured` derives from. */
export interface ListedChannelRow extends ChannelRow {
	readonly version_min_update_version: string | null;
	readonly rollout_min_update_version: string | null;
	readonly preview_channel_prefix: string | null;
	/** The release that is live, and that of the rollout (src/db/channel-releases.ts). */
	readonly release_id: number | null;
	readonly rollout_release_id: number | null;
}

const listedRows = () =>
	channelRows(sql`, stable.min_update_version AS version_min_update_version,
		rollout.min_update_version AS rollout_min_update_version,
		(SELECT preview_channel_prefix FROM apps WHERE apps.id = channels.app_id) AS preview_channel_prefix,
		(SELECT coalesce(h.release_id, h.id) FROM channel_history h INDEXED BY channel_history_live
			WHERE h.channel_id = channels.id AND h.${LIVE_ENTRY} ORDER BY h.id DESC LIMIT 1) AS release_id,
		(SELECT r.release_id FROM rollouts r WHERE r.id = channels.rollout_id) AS rollout_release_id`);

/** One channel as lists show it. */
export const listedChannelByName = prepared<{ publicAppId: string; name: string }, ListedChannelRow>((value) =>
	sql<ListedChannelRow>`${listedRows()}
		WHERE channels.app_id = ${appIdOf(value("publicAppId"))} AND channels.name = ${value("name")}`.compile(query),
);

/**
 * The same of these channels only.
 * @param ids JSON array
 */
export const channelsPageOf = prepared<
	{ publicAppId: string; ids: string; limit: number; offset: number },
	ListedChannelRow
>((value) =>
	sql<ListedChannelRow>`${listedRows()} WHERE +channels.app_id = ${appIdOf(value("publicAppId"))}
		AND channels.id IN ${jsonList(value("ids"))}
		ORDER BY channels.created_at_ms, channels.id LIMIT ${value("limit")} OFFSET ${value("offset")}`.compile(query),
);

/** A page of the app's channels, oldest first. */
export const channelsPage = prepared<{ publicAppId: string; limit: number; offset: number }, ListedChannelRow>(
	(value) =>
		// The ids first, so that a deep page reads only the index for the channels before it.
		sql<ListedChannelRow>`${listedRows()} WHERE channels.id IN (SELECT id FROM channels WHERE app_id = ${appIdOf(value("publicAppId"))}
			ORDER BY created_at_ms, id LIMIT ${value("limit")} OFFSET ${value("offset")})
		ORDER BY channels.created_at_ms, channels.id`.compile(query),
);

/** A channel by its id and the UUID of its app. */
export interface ChannelOfApp {
	readonly id: number;
	readonly app_id: string;
}

/** Those of the channels that exist. Their apps are checked apart. */
export function existingChannels(channels: readonly ChannelOfApp[]): CompiledQuery<ChannelOfApp> {
	return sql<ChannelOfApp>`SELECT c.id, c.app_id FROM json_each(${JSON.stringify(channels)}) AS wanted
		INNER JOIN channels c ON c.id = wanted.value ->> 'id' AND c.app_id = wanted.value ->> 'app_id'`.compile(query);
}

/** Guard condition: all of the channels exist. */
export function channelsExist(channels: readonly ChannelOfApp[]) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM json_each(${JSON.stringify(channels)}) AS wanted WHERE NOT EXISTS (
		SELECT 1 FROM channels c WHERE c.id = wanted.value ->> 'id' AND c.app_id = wanted.value ->> 'app_id'))`;
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

/** Condition: at least one column has another value. */
export function differsFrom(values: ChannelValues): RawBuilder<boolean> {
	const differences = Object.entries(values).map(([column, value]) => sql`${sql.ref(column)} IS NOT ${value}`);
	return sql<boolean>`(${differences.length === 0 ? sql`0` : sql.join(differences, sql` OR `)})`;
}

/** Writes nothing, not even `updated_at_ms`, if no value differs. */
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
 * Removes the platforms from the public channels that have them; a channel without platforms stops
 * being public. Runs before the write of the channel that takes them, because a unique index allows
 * one public channel for each platform.
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

/** Rows that the deletion of a channel removes, its bundles apart. */
interface ChannelContents {
	readonly api_key_bindings: number;
	/** Device overrides to the channel or to one of the bundles. */
	readonly device_overrides: number;
	readonly rollouts: number;
}

/** @param bundleIds bundles that are deleted with the channel */
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

/** Guard condition: the channel exists and still points to these bundles. */
export function channelStillPointsTo(
	appId: AppId,
	channelId: ChannelId,
	versionId: number | null,
	rolloutVersionId: number | null,
) {
	return sql<boolean>`EXISTS (SELECT 1 FROM channels WHERE app_id = ${appId} AND id = ${channelId}
		AND version_id IS ${versionId} AND rollout_version_id IS ${rolloutVersionId})`;
}

/** Guard condition: the channel's `public` and platforms are as they were read. */
export function channelPlatformsAre(appId: AppId, channelId: ChannelId, read: Platforms & { readonly public: Flag }) {
	return sql<boolean>`EXISTS (SELECT 1 FROM channels WHERE app_id = ${appId} AND id = ${channelId} AND public = ${read.public}
		AND ios = ${read.ios} AND android = ${read.android} AND electron = ${read.electron})`;
}

/** A channel's id as text, for an audit entry in the batch that creates the channel. */
export function channelIdNamed(appId: AppId, name: string) {
	return sql<string>`(SELECT CAST(id AS TEXT) FROM channels WHERE app_id = ${appId} AND name = ${name})`;
}

/**
 * Guard condition, after the write: each bundle of the channel has the form that the channel's
 * update package demands, a zip or the single files of a manifest.
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

/** For the answer to a write, in the same batch. */
export function writtenChannel(appId: AppId, channel: ChannelId | { readonly name: string }) {
	const [column, value] = typeof channel === "object" ? (["name", channel.name] as const) : (["id", channel] as const);
	return query
		.selectFrom("channels")
		.select(["id", "public"])
		.where("app_id", "=", appId)
		.where(column, "=", value)
		.compile();
}

export function channelExists(appId: AppId, channelId: ChannelId) {
	return sql<boolean>`EXISTS (SELECT 1 FROM channels WHERE app_id = ${appId} AND id = ${channelId})`;
}

/** Guard condition: no channel uses the bundle, `channelId` apart (0: no exception). */
export function bundleUnusedExceptBy(appId: AppId, bundleId: number, channelId: number) {
	const other = sql`app_id = ${appId} AND id <> ${channelId}`;
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM channels WHERE ${other} AND version_id = ${bundleId})
		AND NOT EXISTS (SELECT 1 FROM channels WHERE ${other} AND rollout_version_id = ${bundleId})`;
}
