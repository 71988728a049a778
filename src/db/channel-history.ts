/**
 * The history of a channel: what was live when, by whom and why. The statements belong to the batch of the change and read the channel
 * before it, so an entry is true whatever another request did meanwhile, and a change of nothing writes none.
 *
 * Each bundle that was live has `rollback_target` on its newest entry while it exists. A rollback chooses among these entries, and the
 * newest of them (`apps.keep_live_bundles`) hold their bundles against clean-up, so both look at an index and never at the whole history.
 */
import { type CompiledQuery, type RawBuilder, type Selectable, sql } from "kysely";
import type { AppId, ChannelId } from "../authz/decide";
import type { Actor } from "./audit";
import type { ChannelValues } from "./channels";
import { query } from "./client";
import { appIdOf } from "./public-app-id";
import type { ChannelHistoryAction, ChannelHistoryTable } from "./schema";

/** Entries of one channel that are kept, those of rollback targets apart. */
export const MOST_ENTRIES = 1000;
/** `apps.keep_live_bundles` is at most this. */
export const MOST_KEPT_LIVE_BUNDLES = 50;

/** Entries by which a bundle, or the store build, went live for every device of the channel. */
export const GOES_LIVE: readonly ChannelHistoryAction[] = ["created", "promotion", "rollback", "rollout_finished"];

export interface HistoryReason {
	/** The change is a rollback: what it leaves is not offered as the next target. */
	readonly isRollback?: boolean;
	readonly reason?: string | null;
	/** The proposer of a change that the actor approved. */
	readonly proposer?: string | null;
}

/** Columns of a channel that say what it serves. */
const SERVED = [
	"version_id",
	"rollout_id",
	"rollout_version_id",
	"rollout_percentage_bps",
	"rollout_enabled",
	"rollout_paused_at_ms",
	"rollout_pause_reason",
] as const;

/** The entries of a change that `updateChannel` with the same values is about to make. */
export function recordChannelChange(
	actor: Actor,
	nowMs: number,
	appId: AppId,
	channelId: ChannelId,
	values: ChannelValues,
	{ isRollback = false, reason = null, proposer = null }: HistoryReason = {},
): CompiledQuery[] {
	if (!SERVED.some((column) => values[column] !== undefined)) return [];
	const change = sql.join(
		SERVED.map((column) => {
			const after = values[column] === undefined ? sql.ref(column) : sql`${values[column]}`;
			return sql`${sql.ref(column)} AS ${sql.ref(`was_${column}`)}, ${after} AS ${sql.ref(column)}`;
		}),
	);
	const which = sql`app_id = ${appId} AND id = ${channelId}`;
	const goesLive = sql`CASE WHEN ${isRollback ? 1 : 0} THEN 'rollback'
		WHEN version_id IS was_rollout_version_id AND rollout_id IS NOT was_rollout_id THEN 'rollout_finished' ELSE 'promotion' END`;
	const liveEntry = sql`version_id IS NOT was_version_id`;
	return [
		...(isRollback ? [markRolledBack(which, values.version_id ?? null)] : []),
		...entries(
			actor,
			nowMs,
			sql`SELECT id, app_id, ${change} FROM channels WHERE ${which}`,
			{ reason, proposer },
			goesLive,
			liveEntry,
		),
		...keepInBounds(which),
	];
}

/** The first entries of a channel, in the batch that created it and after it did. */
export function recordNewChannel(actor: Actor, nowMs: number, appId: AppId, name: string): CompiledQuery[] {
	const change = sql.join(
		SERVED.map((column) => sql`NULL AS ${sql.ref(`was_${column}`)}, ${sql.ref(column)} AS ${sql.ref(column)}`),
	);
	const created = sql`SELECT id, app_id, ${change} FROM channels WHERE app_id = ${appId} AND name = ${name}`;
	return entries(actor, nowMs, created, { reason: null, proposer: null }, sql`'created'`, sql`true`);
}

/** Up to three entries, in the order of what happens: a rollout ends, a bundle goes live, a rollout begins or moves. */
function entries(
	actor: Actor,
	nowMs: number,
	change: RawBuilder<unknown>,
	{ reason, proposer }: { readonly reason: string | null; readonly proposer: string | null },
	goesLive: RawBuilder<unknown>,
	liveEntry: RawBuilder<unknown>,
): CompiledQuery[] {
	const isOn = (prefix: "" | "was_") =>
		sql`(${sql.ref(`${prefix}rollout_enabled`)} = 1 AND ${sql.ref(`${prefix}rollout_paused_at_ms`)} IS NULL)`;
	const ends = sql`CASE WHEN version_id IS was_rollout_version_id THEN 'rollout_finished'
		WHEN rollout_id IS NULL THEN 'rollout_rolled_back' ELSE 'rollout_replaced' END`;
	const moves = sql`CASE
		WHEN rollout_id IS NOT was_rollout_id THEN CASE WHEN ${isOn("")} THEN 'rollout_started' ELSE 'rollout_prepared' END
		WHEN rollout_enabled <> was_rollout_enabled THEN CASE rollout_enabled WHEN 1 THEN 'rollout_started' ELSE 'rollout_stopped' END
		WHEN (rollout_paused_at_ms IS NULL) <> (was_rollout_paused_at_ms IS NULL)
			THEN CASE WHEN rollout_paused_at_ms IS NULL THEN 'rollout_resumed' ELSE 'rollout_paused' END
		WHEN rollout_percentage_bps > was_rollout_percentage_bps THEN 'rollout_raised' ELSE 'rollout_lowered' END`;
	return [
		sql`INSERT INTO channel_history (app_id, channel_id, at_ms, action, version_id, version_name, previous_version_name,
				rollout_percentage_bps, reason, actor_type, actor_id, actor_name, rollback_target, proposer_name)
			WITH change AS (${change}),
			entry AS (
				SELECT 1 AS place, app_id, id, ${ends} AS action, was_rollout_version_id AS version_id, was_version_id AS previous_id,
					was_rollout_percentage_bps AS bps, ${reason} AS reason, 0 AS target
				FROM change WHERE was_rollout_id IS NOT NULL AND rollout_id IS NOT was_rollout_id
					AND NOT (version_id IS was_rollout_version_id AND version_id IS NOT was_version_id)
				UNION ALL
				SELECT 2, app_id, id, ${goesLive}, version_id, was_version_id, NULL, ${reason}, 1 FROM change WHERE ${liveEntry}
				UNION ALL
				SELECT 3, app_id, id, ${moves}, rollout_version_id, version_id, rollout_percentage_bps,
					coalesce(${reason}, CASE WHEN rollout_paused_at_ms IS NULL THEN NULL ELSE rollout_pause_reason END), 0
				FROM change WHERE rollout_id IS NOT NULL AND (rollout_id IS NOT was_rollout_id
					OR rollout_enabled <> was_rollout_enabled OR rollout_percentage_bps <> was_rollout_percentage_bps
					OR (rollout_paused_at_ms IS NULL) <> (was_rollout_paused_at_ms IS NULL)))
			SELECT entry.app_id, entry.id, ${nowMs}, action, entry.version_id, b.name, previous.name, bps, reason,
				${actor.type}, ${actor.id}, ${actor.name}, target, ${proposer}
			FROM entry LEFT JOIN bundles b ON b.id = entry.version_id LEFT JOIN bundles previous ON previous.id = entry.previous_id
			ORDER BY place`.compile(query),
	];
}

// Below the index is named where a version may be NULL: by versions, every channel of every app that had the store build would be read.

/** The channel that the condition names, by its id. */
const idOf = (which: RawBuilder<unknown>) => sql`(SELECT id FROM channels WHERE ${which})`;

/**
 * Marks the live bundle as rolled back, because the rollback leaves it. A rollback to a bundle that was never live, or back to one that a
 * rollback left, condemns nothing: the live bundle stays a target.
 */
function markRolledBack(which: RawBuilder<unknown>, target: number | null): CompiledQuery {
	return sql`UPDATE channel_history INDEXED BY channel_history_targets SET rolled_back = 1 WHERE channel_id = ${idOf(which)} AND rollback_target = 1
		AND version_id IS (SELECT version_id FROM channels WHERE ${which})
		AND EXISTS (SELECT 1 FROM channel_history AS target INDEXED BY channel_history_targets WHERE target.channel_id = ${idOf(which)}
			AND target.rollback_target = 1 AND target.rolled_back = 0 AND target.version_id IS ${target})`.compile(query);
}

/** One target for each bundle, its newest; and no more entries than are kept. */
function keepInBounds(which: RawBuilder<unknown>): CompiledQuery[] {
	const channel = idOf(which);
	const newest = sql`SELECT id, version_id FROM channel_history WHERE channel_id = ${channel} AND rollback_target = 1 ORDER BY id DESC LIMIT 1`;
	return [
		sql`UPDATE channel_history INDEXED BY channel_history_targets SET rollback_target = 0 FROM (${newest}) AS newest
			WHERE channel_id = ${channel} AND rollback_target = 1 AND channel_history.id < newest.id
				AND channel_history.version_id IS newest.version_id`.compile(query),
		sql`DELETE FROM channel_history WHERE channel_id = ${channel} AND rollback_target = 0 AND id <= (
			SELECT id FROM channel_history WHERE channel_id = ${channel} ORDER BY id DESC LIMIT 1 OFFSET ${sql.lit(MOST_ENTRIES)})`.compile(
			query,
		),
	];
}

/** Bundles that are about to be deleted are no longer offered. `bundles` is what `version_id` is compared to, e.g. `= 7`. */
export function dropRollbackTargets(appId: AppId, bundles: RawBuilder<unknown>): CompiledQuery {
	return sql`UPDATE channel_history INDEXED BY channel_history_targets_by_version SET rollback_target = 0
		WHERE app_id = ${appId} AND rollback_target = 1 AND version_id ${bundles}`.compile(query);
}

/** The bundle is one of the last that were live on a channel before what is live there now, as many as its app keeps. */
export const KEPT_FOR_ROLLBACK = sql<boolean>`EXISTS (
	SELECT 1 FROM channel_history AS target INDEXED BY channel_history_targets_by_version
	JOIN channels AS home ON home.id = target.channel_id
	WHERE target.version_id = bundles.id AND target.rollback_target = 1 AND (
		SELECT count(*) FROM (SELECT 1 FROM channel_history AS newer INDEXED BY channel_history_targets
			WHERE newer.channel_id = target.channel_id AND newer.rollback_target = 1 AND newer.id > target.id
				AND newer.version_id IS NOT NULL AND newer.version_id IS NOT home.version_id LIMIT ${sql.lit(MOST_KEPT_LIVE_BUNDLES)})
	) < (SELECT keep_live_bundles FROM apps WHERE apps.id = bundles.app_id))`;

/** Names of the channels that offer to go back to the bundle, as a JSON array. */
export const rollbackTargetOf = sql<string>`(SELECT json_group_array(name) FROM (SELECT home.name
	FROM channel_history AS target INDEXED BY channel_history_targets_by_version JOIN channels AS home ON home.id = target.channel_id
	WHERE target.version_id = bundles.id AND target.rollback_target = 1 AND home.version_id IS NOT bundles.id ORDER BY home.name))`;

export interface HistoryRow extends Omit<Selectable<ChannelHistoryTable>, "app_id" | "channel_id"> {
	/** Null where the entry names no bundle, or its row is gone. */
	readonly bundle_status: "pending" | "ready" | "deleted" | null;
	/** The bundle that is live on the channel now. */
	readonly live_version_id: number | null;
}

/** A page of a channel's history, newest first; for loading beside the decision. */
export function channelHistoryPage(
	publicAppId: string,
	channel: string,
	limit: number,
	offset: number,
): CompiledQuery<HistoryRow> {
	return query
		.selectFrom("channel_history")
		.innerJoin("channels", "channels.id", "channel_history.channel_id")
		.leftJoin("bundles", "bundles.id", "channel_history.version_id")
		.selectAll("channel_history")
		.select(["bundles.status as bundle_status", "channels.version_id as live_version_id"])
		.where("channels.app_id", "=", appIdOf(publicAppId))
		.where("channels.name", "=", channel)
		.orderBy("channel_history.id", "desc")
		.limit(limit)
		.offset(offset)
		.$castTo<HistoryRow>()
		.compile();
}

/** Target of a rollback: a ready bundle, or the store build if the fields are null. */
export interface RollbackTarget {
	readonly id: number | null;
	readonly name: string | null;
	readonly created_by: string | null;
	readonly created_by_key: string | null;
}

/** Target of a rollback that names no version; for loading beside the decision. */
export function previousLive(publicAppId: string, channel: string): CompiledQuery<RollbackTarget> {
	return sql<RollbackTarget>`SELECT b.id, b.name, b.created_by, b.created_by_key FROM channels c
		JOIN channel_history h INDEXED BY channel_history_targets ON h.channel_id = c.id AND h.rollback_target = 1
		LEFT JOIN bundles b ON b.id = h.version_id
		WHERE c.app_id = ${appIdOf(publicAppId)} AND c.name = ${channel}
			AND h.rolled_back = 0 AND h.version_id IS NOT c.version_id AND (h.version_id IS NULL OR b.status = 'ready')
		ORDER BY h.id DESC LIMIT 1`.compile(query);
}

/** The bundles that the channel can go back to, null being the store build; for loading beside the decision. */
export function rollbackTargetIds(
	publicAppId: string,
	channel: string,
): CompiledQuery<{ readonly version_id: number | null }> {
	return sql<{ version_id: number | null }>`SELECT h.version_id FROM channels c
		JOIN channel_history h INDEXED BY channel_history_targets ON h.channel_id = c.id AND h.rollback_target = 1
		WHERE c.app_id = ${appIdOf(publicAppId)} AND c.name = ${channel}
		ORDER BY h.id DESC LIMIT ${sql.lit(MOST_ENTRIES)}`.compile(query);
}
