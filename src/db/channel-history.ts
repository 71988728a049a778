/**
 * The history of a channel: which bundle was live when, the actor and the reason. The statements
 * run in the batch of the change and read the channel before it, so an entry is correct despite
 * concurrent requests, and a change without effect writes none.
 *
 * The newest entry of each existing bundle that was live has `rollback_target`. A rollback chooses
 * among these entries, and the newest (`apps.keep_live_bundles`) protect their bundles from
 * clean-up. Both queries read an index, never the whole history.
 */
import { type CompiledQuery, type RawBuilder, type Selectable, sql } from "kysely";
import type { AppId, ChannelId } from "../authz/decide";
import { columnsOf, SERVED_FIELDS } from "../domain/updates/channel-fields";
import type { Actor } from "./audit/entries";
import type { ChannelValues } from "./channels";
import { query } from "./client";
import { appIdOf } from "./public-app-id";
import type { ChannelHistoryTable } from "./schema";
import { markUsed, markUsedByChannel } from "./used-versions";

/** Entries that a channel keeps, rollback targets apart. */
export const MOST_ENTRIES = 1000;
/** `apps.keep_live_bundles` is at most this. */
export const MOST_KEPT_LIVE_BUNDLES = 50;

export interface HistoryReason {
	/** True for a rollback: the bundle that it replaces is not offered as the next target. */
	readonly isRollback?: boolean;
	readonly reason?: string | null;
	/** Name of the proposer, if the actor approved a proposal. */
	readonly proposer?: string | null;
}

const SERVED = columnsOf(SERVED_FIELDS);

/** Entries for a change of `values`; run them before `updateChannel`. */
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
	const given = [values.version_id, values.rollout_version_id].filter((id) => typeof id === "number");
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
		...(given.length === 0 ? [] : [markUsed(appId, given, which)]),
	];
}

/** Entries for a new channel; run them after `insertChannel`. */
export function recordNewChannel(actor: Actor, nowMs: number, appId: AppId, name: string): CompiledQuery[] {
	const change = sql.join(
		SERVED.map((column) => sql`NULL AS ${sql.ref(`was_${column}`)}, ${sql.ref(column)} AS ${sql.ref(column)}`),
	);
	const created = sql`SELECT id, app_id, ${change} FROM channels WHERE app_id = ${appId} AND name = ${name}`;
	return [
		...entries(actor, nowMs, created, { reason: null, proposer: null }, sql`'created'`, sql`true`),
		markUsedByChannel(appId, name),
	];
}

/**
 * Up to three entries, in this order: a rollout ends, a bundle goes live, a rollout begins or
 * changes.
 */
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
	// The release of the rollout that the channel had. Its bundle goes live in the same release, and
	// every other one in a new one.
	const running = sql`(SELECT release_id FROM rollouts WHERE id = was_rollout_id)`;
	const isFinished = sql`was_rollout_id IS NOT NULL AND version_id IS was_rollout_version_id AND rollout_id IS NOT was_rollout_id`;
	const ends = sql`CASE WHEN version_id IS was_rollout_version_id THEN 'rollout_finished'
		WHEN version_id IS NOT was_version_id AND ${goesLive} = 'promotion' THEN 'rollout_replaced'
		WHEN rollout_id IS NULL THEN 'rollout_rolled_back' ELSE 'rollout_replaced' END`;
	const moves = sql`CASE
		WHEN rollout_id IS NOT was_rollout_id THEN CASE WHEN ${isOn("")} THEN 'rollout_started' ELSE 'rollout_prepared' END
		WHEN rollout_enabled <> was_rollout_enabled THEN CASE rollout_enabled WHEN 1 THEN 'rollout_started' ELSE 'rollout_stopped' END
		WHEN (rollout_paused_at_ms IS NULL) <> (was_rollout_paused_at_ms IS NULL)
			THEN CASE WHEN rollout_paused_at_ms IS NULL THEN 'rollout_resumed' ELSE 'rollout_paused' END
		WHEN rollout_percentage_bps > was_rollout_percentage_bps THEN 'rollout_raised' ELSE 'rollout_lowered' END`;
	return [
		sql`INSERT INTO channel_history (app_id, channel_id, at_ms, action, version_id, version_name, previous_version_name,
				rollout_percentage_bps, reason, actor_type, actor_id, actor_name, rollback_target, proposer_name, ci, release_id)
			WITH change AS (${change}),
			entry AS (
				SELECT 1 AS place, app_id, id, ${ends} AS action, was_rollout_version_id AS version_id, was_version_id AS previous_id,
					was_rollout_percentage_bps AS bps, ${reason} AS reason, 0 AS target, ${running} AS release_id
				FROM change WHERE was_rollout_id IS NOT NULL AND rollout_id IS NOT was_rollout_id
					AND NOT (version_id IS was_rollout_version_id AND version_id IS NOT was_version_id)
				UNION ALL
				SELECT 2, app_id, id, ${goesLive}, version_id, was_version_id, NULL, ${reason}, 1,
					CASE WHEN ${isFinished} THEN ${running} END FROM change WHERE ${liveEntry}
				UNION ALL
				SELECT 3, app_id, id, ${moves}, rollout_version_id, version_id, rollout_percentage_bps,
					coalesce(${reason}, CASE WHEN rollout_paused_at_ms IS NULL THEN NULL ELSE rollout_pause_reason END), 0,
					CASE WHEN rollout_id IS was_rollout_id THEN ${running} END
				FROM change WHERE rollout_id IS NOT NULL AND (rollout_id IS NOT was_rollout_id
					OR rollout_enabled <> was_rollout_enabled OR rollout_percentage_bps <> was_rollout_percentage_bps
					OR (rollout_paused_at_ms IS NULL) <> (was_rollout_paused_at_ms IS NULL)))
			SELECT entry.app_id, entry.id, ${nowMs}, action, entry.version_id, b.name, previous.name, bps, reason,
				${actor.type}, ${actor.id}, ${actor.name}, target, ${proposer}, ${actor.ci === undefined ? null : JSON.stringify(actor.ci)}, release_id
			FROM entry LEFT JOIN bundles b ON b.id = entry.version_id LEFT JOIN bundles previous ON previous.id = entry.previous_id
			ORDER BY place`.compile(query),
	];
}

// The statements below name their index, because version_id may be NULL and the index by versions
// would then read all apps.

/** Id of the channel that the condition selects. */
const idOf = (which: RawBuilder<unknown>) => sql<number>`(SELECT id FROM channels WHERE ${which})`;

/**
 * Marks the live bundle as rolled back. A rollback to a bundle that was never live, or to one that
 * an earlier rollback replaced, marks nothing, so the live bundle stays a target.
 */
function markRolledBack(which: RawBuilder<unknown>, target: number | null): CompiledQuery {
	return sql`UPDATE channel_history INDEXED BY channel_history_targets SET rolled_back = 1 WHERE channel_id = ${idOf(which)} AND rollback_target = 1
		AND version_id IS (SELECT version_id FROM channels WHERE ${which})
		AND EXISTS (SELECT 1 FROM channel_history AS target INDEXED BY channel_history_targets WHERE target.channel_id = ${idOf(which)}
			AND target.rollback_target = 1 AND target.rolled_back = 0 AND target.version_id IS ${target})`.compile(query);
}

/**
 * Keeps one target for each bundle, its newest entry, and deletes the oldest entries beyond
 * `MOST_ENTRIES`.
 */
function keepInBounds(which: RawBuilder<unknown>): CompiledQuery[] {
	const channel = idOf(which);
	const newest = sql`SELECT id, version_id FROM channel_history WHERE channel_id = ${channel} AND rollback_target = 1 ORDER BY id DESC LIMIT 1`;
	return [
		sql`UPDATE channel_history INDEXED BY channel_history_targets SET rollback_target = 0 FROM (${newest}) AS newest
			WHERE channel_id = ${channel} AND rollback_target = 1 AND channel_history.id < newest.id
				AND channel_history.version_id IS newest.version_id`.compile(query),
		query
			.deleteFrom("channel_history")
			.where("channel_id", "=", channel)
			.where("rollback_target", "=", 0)
			.where(
				"id",
				"<=",
				query
					.selectFrom("channel_history")
					.select("id")
					.where("channel_id", "=", channel)
					.orderBy("id", "desc")
					.limit(1)
					.offset(MOST_ENTRIES),
			)
			.compile(),
	];
}

/**
 * Before bundles are deleted: they are no rollback targets any more. `bundles` is compared with
 * `version_id`, such as `= 7`.
 */
export function dropRollbackTargets(appId: AppId, bundles: RawBuilder<unknown>): CompiledQuery {
	return sql`UPDATE channel_history INDEXED BY channel_history_targets_by_version SET rollback_target = 0
		WHERE app_id = ${appId} AND rollback_target = 1 AND version_id ${bundles}`.compile(query);
}

/**
 * Condition: the bundle is one of the last `keep_live_bundles` that were live on a channel before
 * the present one.
 */
export const KEPT_FOR_ROLLBACK = sql<boolean>`EXISTS (
	SELECT 1 FROM channel_history AS target INDEXED BY channel_history_targets_by_version
	JOIN channels AS home ON home.id = target.channel_id
	WHERE target.version_id = bundles.id AND target.rollback_target = 1 AND (
		SELECT count(*) FROM (SELECT 1 FROM channel_history AS newer INDEXED BY channel_history_targets
			WHERE newer.channel_id = target.channel_id AND newer.rollback_target = 1 AND newer.id > target.id
				AND newer.version_id IS NOT NULL AND newer.version_id IS NOT home.version_id LIMIT ${sql.lit(MOST_KEPT_LIVE_BUNDLES)})
	) < (SELECT keep_live_bundles FROM apps WHERE apps.id = bundles.app_id))`;

/** Names of the channels that have the bundle as a rollback target: JSON array. */
export const rollbackTargetOf = sql<string>`(SELECT json_group_array(name) FROM (SELECT home.name
	FROM channel_history AS target INDEXED BY channel_history_targets_by_version JOIN channels AS home ON home.id = target.channel_id
	WHERE target.version_id = bundles.id AND target.rollback_target = 1 AND home.version_id IS NOT bundles.id ORDER BY home.name))`;

export interface HistoryRow extends Omit<Selectable<ChannelHistoryTable>, "app_id" | "channel_id"> {
	/** Null for an entry without a bundle, or if the row of the bundle is deleted. */
	readonly bundle_status: "pending" | "ready" | "deleted" | null;
	/** The bundle that is live on the channel now. */
	readonly live_version_id: number | null;
}

/** A page of a channel's history, newest first. */
export function channelHistoryPage(
	publicAppId: string,
	channel: string,
	limit: number,
	offset: number,
): CompiledQuery<HistoryRow> {
	return sql<HistoryRow>`SELECT h.*, b.status AS bundle_status, c.version_id AS live_version_id
		FROM channels c JOIN channel_history h ON h.channel_id = c.id LEFT JOIN bundles b ON b.id = h.version_id
		WHERE c.app_id = ${appIdOf(publicAppId)} AND c.name = ${channel} ORDER BY h.id DESC LIMIT ${limit} OFFSET ${offset}`.compile(
		query,
	);
}

/** Target of a rollback: a ready bundle, or the store build if the fields are null. */
export interface RollbackTarget {
	readonly id: number | null;
	readonly name: string | null;
	readonly created_by: string | null;
	readonly created_by_key: string | null;
	readonly preview_id: string | null;
}

/** Target of a rollback that names no version. */
export function previousLive(publicAppId: string, channel: string): CompiledQuery<RollbackTarget> {
	return sql<RollbackTarget>`SELECT b.id, b.name, b.created_by, b.created_by_key, b.preview_id FROM channels c
		JOIN channel_history h INDEXED BY channel_history_targets ON h.channel_id = c.id AND h.rollback_target = 1
		LEFT JOIN bundles b ON b.id = h.version_id
		WHERE c.app_id = ${appIdOf(publicAppId)} AND c.name = ${channel}
			AND h.rolled_back = 0 AND h.version_id IS NOT c.version_id AND (h.version_id IS NULL OR b.status = 'ready')
		ORDER BY h.id DESC LIMIT 1`.compile(query);
}

/** Rollback targets of the channel (null: the store build). */
export function rollbackTargetIds(
	publicAppId: string,
	channel: string,
): CompiledQuery<{ readonly version_id: number | null }> {
	return sql<{ version_id: number | null }>`SELECT h.version_id FROM channels c
		JOIN channel_history h INDEXED BY channel_history_targets ON h.channel_id = c.id AND h.rollback_target = 1
		WHERE c.app_id = ${appIdOf(publicAppId)} AND c.name = ${channel}
		ORDER BY h.id DESC LIMIT ${sql.lit(MOST_ENTRIES)}`.compile(query);
}
