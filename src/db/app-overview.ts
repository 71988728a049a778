/**
 * The rows of the apps list: each app with what its default channel serves and its last release.
 * The default channel is the public one that new Android devices get; without a public one, the
 * channel that changed last.
 */
import { type CompiledQuery, sql } from "kysely";
import { type AppFilter, appIdsOfPage } from "./apps";
import { query } from "./client";
import { newestWaiting } from "./proposals";
import type { ChannelHistoryAction, Flag } from "./schema";

export interface AppOverviewRow {
	readonly id: string;
	readonly app_id: string;
	readonly owner_org: string;
	readonly name: string;
	readonly icon_url: string | null;
	/** Binding of the telemetry database that has its reports. */
	readonly telemetry_binding: string;
	readonly channel_name: string | null;
	readonly version_name: string | null;
	readonly rollout_version_name: string | null;
	readonly rollout_percentage_bps: number | null;
	readonly rollout_enabled: Flag | null;
	readonly rollout_paused_at_ms: number | null;
	readonly rollout_pause_reason: string | null;
	readonly release_at_ms: number | null;
	readonly release_action: ChannelHistoryAction | null;
	readonly release_channel: string | null;
	readonly release_is_preview: Flag | null;
	readonly release_version: string | null;
	readonly release_previous_version: string | null;
	readonly release_percentage_bps: number | null;
	readonly release_actor_type: "api_key" | "user" | "system" | null;
	readonly release_actor_name: string | null;
	/** JSON array of `WaitingApprovalRow`. */
	readonly waiting: string;
}

/** Channels that are read of an app without a public one, to show the one that changed last. */
const MOST_CHANNELS_READ = 100;

/** A page of apps by name, as in `appsPage`. */
export function appOverviewPage(
	filter: AppFilter,
	nowMs: number,
	limit: number,
	offset: number,
): CompiledQuery<AppOverviewRow> {
	const waiting = newestWaiting(sql<string>`page.id`, nowMs);
	return sql<AppOverviewRow>`WITH page AS MATERIALIZED (SELECT a.id, a.app_id, a.owner_org, a.name, a.icon_url, a.telemetry_binding FROM apps a
			WHERE a.id IN ${appIdsOfPage(filter, limit, offset)})
		SELECT page.*, c.name AS channel_name, live.name AS version_name,
			rollout.name AS rollout_version_name, c.rollout_percentage_bps, c.rollout_enabled, c.rollout_paused_at_ms, c.rollout_pause_reason,
			h.at_ms AS release_at_ms, h.action AS release_action, home.name AS release_channel, home.is_preview AS release_is_preview,
			h.version_name AS release_version, h.previous_version_name AS release_previous_version,
			h.rollout_percentage_bps AS release_percentage_bps, h.actor_type AS release_actor_type, h.actor_name AS release_actor_name,
			(SELECT json_group_array(json_object('id', w.id, 'channel_name', w.channel_name, 'version_name', w.version_name,
				'proposed_by', w.proposed_by, 'promoters', w.promoters, 'requires_approval', w.requires_approval)) FROM (${waiting}) w) AS waiting
		FROM page
			LEFT JOIN channels c ON c.id = coalesce(
				(SELECT d.id FROM channels d WHERE d.app_id = page.id AND d.public = 1 AND d.is_preview = 0
					ORDER BY d.android DESC, d.ios DESC, d.updated_at_ms DESC LIMIT 1),
				(SELECT d.id FROM (SELECT * FROM channels e WHERE e.app_id = page.id ORDER BY e.name LIMIT ${sql.lit(MOST_CHANNELS_READ)}) d
					WHERE d.is_preview = 0 ORDER BY d.android DESC, d.ios DESC, d.updated_at_ms DESC LIMIT 1))
			LEFT JOIN bundles live ON live.id = c.version_id LEFT JOIN bundles rollout ON rollout.id = c.rollout_version_id
			LEFT JOIN channel_history h ON h.id = (SELECT e.id FROM channel_history e INDEXED BY channel_history_by_time
				WHERE e.app_id = page.id ORDER BY e.at_ms DESC, e.id DESC LIMIT 1)
			LEFT JOIN channels home ON home.id = h.channel_id
		ORDER BY page.name, page.app_id`.compile(query);
}
