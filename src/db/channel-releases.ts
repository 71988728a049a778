/**
 * A release: a bundle on a channel from its first step to what replaced it. Its id is the entry of
 * the channel's history that began it, and each entry belongs to exactly one release
 * (`channel_history.release_id`), so these statements read a release and its neighbours by indexes,
 * whatever the length of the history.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { AppId } from "../authz/decide";
import type { HistoryRow } from "./channel-history";
import { jsonList, query, reportQuery } from "./client";
import { LIVE_ENTRY } from "./live-entries";
import { appIdOf } from "./public-app-id";
import { OUTCOME_OF_DEVICE } from "./rollouts";
import type { ChannelHistoryAction, Flag } from "./schema";

/** Entries of a release beside its first one. Older ones are left out. */
const MOST_ENTRIES = 150;

const channelId = (publicAppId: string, channel: string) =>
	sql`(SELECT id FROM channels WHERE app_id = ${appIdOf(publicAppId)} AND name = ${channel})`;

/**
 * The id of an entry of a release, or a version: its newest release on the channel. Null is the
 * store build.
 */
export type ReleaseName = number | { readonly version: string | null };

/** A release whose first entry was deleted is found by its id as well. */
function named(publicAppId: string, channel: string, name: ReleaseName) {
	const of = channelId(publicAppId, channel);
	if (typeof name === "object") {
		return sql`named AS MATERIALIZED (SELECT channel_id, coalesce(release_id, id) AS release_id
			FROM channel_history INDEXED BY channel_history_by_version WHERE app_id = ${appIdOf(publicAppId)}
				AND version_name IS ${name.version} AND channel_id = ${of} ORDER BY at_ms DESC, id DESC LIMIT 1)`;
	}
	return sql`named AS MATERIALIZED (SELECT channel_id, coalesce(release_id, id) AS release_id FROM channel_history
			WHERE id = ${name} AND channel_id = ${of}
		UNION ALL SELECT channel_id, release_id FROM channel_history INDEXED BY channel_history_by_release
			WHERE release_id = ${name} AND channel_id = ${of} LIMIT 1)`;
}

export interface ReleaseEntryRow extends Omit<HistoryRow, "release_id" | "live_version_id"> {
	readonly release_id: number;
	readonly bundle_link: string | null;
	readonly bundle_comment: string | null;
}

/** The entries of a release, newest first. */
export function releaseEntries(
	publicAppId: string,
	channel: string,
	name: ReleaseName,
): CompiledQuery<ReleaseEntryRow> {
	return sql<ReleaseEntryRow>`WITH ${named(publicAppId, channel, name)}
		SELECT h.*, named.release_id AS release_id, b.status AS bundle_status, b.link AS bundle_link, b.comment AS bundle_comment
		FROM named JOIN (
			SELECT h.* FROM named JOIN channel_history h ON h.id = named.release_id
			UNION ALL SELECT * FROM (SELECT h.* FROM named
				JOIN channel_history h INDEXED BY channel_history_by_release ON h.release_id = named.release_id
				ORDER BY h.id DESC LIMIT ${sql.lit(MOST_ENTRIES)})
		) AS h LEFT JOIN bundles b ON b.id = h.version_id ORDER BY h.id DESC`.compile(query);
}

export interface ReleaseNeighbourRow {
	/**
	 * The release itself; the one that was live when it began; the one that went live after it; the
	 * one that the channel had when its rollout ended without going live.
	 */
	readonly place: "self" | "before" | "next" | "instead";
	readonly release_id: number;
	readonly version_name: string | null;
	/** The entry that made the release live, or for a rollout the one that began it. */
	readonly action: ChannelHistoryAction;
	readonly at_ms: number;
	/** The rollout of the release, until its samples are deleted. */
	readonly rollout_id: string | null;
	readonly rollout_sampling: Flag | null;
	readonly rollout_noting_uncounted: Flag | null;
}

/** The release with its neighbours. */
export function releaseNeighbours(
	publicAppId: string,
	channel: string,
	name: ReleaseName,
): CompiledQuery<ReleaseNeighbourRow> {
	const own = (condition: RawBuilder<unknown>) => sql`coalesce(
		(SELECT id FROM channel_history WHERE id = named.release_id AND ${condition}),
		(SELECT max(id) FROM channel_history INDEXED BY channel_history_by_release WHERE release_id = named.release_id AND ${condition}))`;
	const live = (condition: RawBuilder<unknown>, order: "ASC" | "DESC") => sql`(SELECT id FROM channel_history
		INDEXED BY channel_history_live WHERE channel_id = own.channel_id AND ${LIVE_ENTRY} AND ${condition} ORDER BY id ${sql.raw(order)} LIMIT 1)`;
	return sql<ReleaseNeighbourRow>`WITH ${named(publicAppId, channel, name)},
		own AS MATERIALIZED (SELECT channel_id, release_id, ${own(LIVE_ENTRY)} AS live_id,
			${own(sql`action IN ('rollout_rolled_back', 'rollout_replaced')`)} AS end_id,
			(SELECT action FROM channel_history INDEXED BY channel_history_by_release WHERE release_id = named.release_id
				ORDER BY id DESC LIMIT 1) AS last_action FROM named),
		place AS MATERIALIZED (
			SELECT 'self' AS place, coalesce(live_id, release_id) AS id FROM own
			UNION ALL SELECT 'before', ${live(sql`id < own.release_id`, "DESC")} FROM own
			UNION ALL SELECT 'next', ${live(sql`id > own.live_id`, "ASC")} FROM own WHERE live_id IS NOT NULL
			UNION ALL SELECT 'instead', CASE last_action WHEN 'rollout_rolled_back' THEN ${live(sql`id < own.end_id`, "DESC")}
				ELSE (SELECT min(id) FROM channel_history WHERE channel_id = own.channel_id AND id > own.end_id) END
				FROM own WHERE live_id IS NULL AND end_id IS NOT NULL)
		SELECT place.place, coalesce(h.release_id, h.id) AS release_id, h.version_name, h.action, h.at_ms, r.id AS rollout_id,
			r.sampling AS rollout_sampling, r.noting_uncounted AS rollout_noting_uncounted
		FROM place CROSS JOIN channel_history h ON h.id = place.id
			LEFT JOIN rollouts r ON r.release_id = coalesce(h.release_id, h.id)`.compile(query);
}

export interface StepOutcomeRow {
	readonly rollout_id: string;
	/**
	 * The step in which the devices reported, by its place among `stepsAtMs`; 0 before the first
	 * one, null without a report.
	 */
	readonly step: number | null;
	/** Devices that were offered the bundle and count, by their last report. */
	readonly counted_installed: number;
	readonly counted_failed: number;
	readonly counted: number;
	/** The same of all recorded devices. */
	readonly installed: number;
	readonly failed: number;
	readonly offered: number;
}

/** More steps than a page shows; reports of later ones count for the last. */
export const MOST_STEPS = 20;

/**
 * The devices of rollouts by the step in which they reported.
 * @param stepsAtMs growing, at most `MOST_STEPS`
 */
export function outcomesBySteps(
	rolloutIds: readonly string[],
	stepsAtMs: readonly number[],
): CompiledQuery<StepOutcomeRow> {
	const { isFailed, reportedAtMs } = OUTCOME_OF_DEVICE;
	const steps = stepsAtMs.map((atMs, index) => sql`WHEN ${reportedAtMs} >= ${atMs} THEN ${index + 1}`).reverse();
	const step = sql`CASE WHEN ${reportedAtMs} IS NULL THEN NULL ${sql.join(steps, sql` `)} ELSE 0 END`;
	const counts = sql`d.not_counted IS NULL`;
	const isInstalled = sql`${reportedAtMs} IS NOT NULL AND NOT (${isFailed})`;
	return sql<StepOutcomeRow>`SELECT d.rollout_id, ${step} AS step,
			coalesce(sum(${counts} AND ${isInstalled}), 0) AS counted_installed,
			coalesce(sum(${counts} AND ${isFailed}), 0) AS counted_failed, sum(${counts}) AS counted,
			coalesce(sum(${isInstalled}), 0) AS installed, coalesce(sum(${isFailed}), 0) AS failed, count(*) AS offered
		FROM rollout_devices d WHERE d.rollout_id IN ${jsonList(JSON.stringify(rolloutIds))} AND d.first_served_at_ms IS NOT NULL
		GROUP BY d.rollout_id, 2`.compile(query);
}

interface InstallsRow {
	readonly version_name: string;
	readonly install: number;
	readonly fail: number;
}

/**
 * Reported installs of versions on a channel, each in a range of days; for the telemetry database
 * of the app.
 */
export function installsOfReleases(
	appId: AppId,
	channel: string,
	ranges: readonly { readonly version: string; readonly days: readonly number[] }[],
): CompiledQuery<InstallsRow> {
	const places = ranges.flatMap(({ version, days }) => days.map((day) => [version, day]));
	return sql<InstallsRow>`SELECT c.version_name, coalesce(sum(CASE c.metric WHEN 'install' THEN c.amount END), 0) AS install,
			coalesce(sum(CASE c.metric WHEN 'fail' THEN c.amount END), 0) AS fail
		FROM json_each(${JSON.stringify(places)}) AS place CROSS JOIN daily_counts c ON c.app_id = ${appId}
			AND c.day = place.value ->> 1 AND c.version_name = place.value ->> 0 AND c.channel_name = ${channel}
			AND c.metric IN ('install', 'fail')
		GROUP BY c.version_name`.compile(reportQuery);
}
