/**
 * Statements about staged rollouts. `channels` says what devices are told; `rollouts` says since when and how it ended, and every batch
 * that changes a channel's rollout ends with `followRollout`, which reads the channel as it then is: the two cannot disagree.
 */
import { type CompiledQuery, type RawBuilder, type Selectable, sql } from "kysely";
import type { AppId, ChannelId, OrgId } from "../authz/decide";
import { DAY_MS } from "../domain/time";
import type { ChannelValues } from "./channels";
import { jsonList, query } from "./client";
import { appIdOf } from "./public-app-id";
import type { ChannelsTable, RolloutsTable } from "./schema";

/**
 * Whether the device, as `r`, `c` and `d` name its rollout, channel and row, is old enough to count. The day, not the hour: the row of a
 * device may have the time of a later message of its first day.
 */
export const predatesRollout = sql`c.rollout_count_new_devices = 1 OR d.created_at_ms < r.started_at_ms - r.started_at_ms % ${sql.lit(DAY_MS)}`;
/** Nothing of the rollout waits to be read. */
export const NO_NOTICE = { rollout_notice: null, rollout_notice_at_ms: null } as const satisfies ChannelValues;

/** A channel without a rollout. */
export const NO_ROLLOUT = {
	...NO_NOTICE,
	rollout_version_id: null,
	rollout_id: null,
	rollout_percentage_bps: 0,
	rollout_enabled: 0,
	rollout_paused_at_ms: null,
	rollout_pause_reason: null,
} as const satisfies ChannelValues;

/**
 * Ends, begins and moves on the channel's rollout, after what the batch made of the channel. A changed share begins a step; a resumed
 * rollout is judged by what comes after, because whoever resumed it has looked at what came before.
 */
export function followRollout(appId: AppId, channel: ChannelId | { readonly name: string }, nowMs: number) {
	const isIt = typeof channel === "object" ? sql`c.name = ${channel.name}` : sql`c.id = ${channel}`;
	return [
		sql`UPDATE rollouts SET ended_at_ms = ${nowMs}, ended_as = CASE WHEN c.version_id = rollouts.version_id THEN 'promoted'
				WHEN c.rollout_id IS NOT NULL THEN 'replaced' ELSE 'rolled_back' END
			FROM channels c WHERE c.app_id = ${appId} AND ${isIt} AND rollouts.channel_id = c.id AND rollouts.ended_at_ms IS NULL
				AND rollouts.id IS NOT c.rollout_id`.compile(query),
		sql`INSERT INTO rollouts (id, app_id, channel_id, version_id, version_name, percentage_bps, paused, started_at_ms, step_at_ms,
				judged_from_ms)
			SELECT c.rollout_id, c.app_id, c.id, b.id, b.name, c.rollout_percentage_bps,
				c.rollout_paused_at_ms IS NOT NULL OR c.rollout_enabled = 0, ${nowMs}, ${nowMs}, ${nowMs}
			FROM channels c JOIN bundles b ON b.id = c.rollout_version_id WHERE c.app_id = ${appId} AND ${isIt} AND c.rollout_id IS NOT NULL
			ON CONFLICT (id) DO UPDATE SET percentage_bps = excluded.percentage_bps, paused = excluded.paused, sampling = 1,
				step_at_ms = CASE WHEN excluded.paused = 1 THEN step_at_ms ELSE excluded.step_at_ms END,
				judged_from_ms = CASE WHEN excluded.paused < paused THEN excluded.judged_from_ms ELSE judged_from_ms END
			WHERE percentage_bps <> excluded.percentage_bps OR paused <> excluded.paused`.compile(query),
	] as const;
}

/**
 * Decides again for the devices that do not count, after a change of the channel's rules: looser rules count devices that were offered the
 * bundle before as well, stricter ones take no device away that counts already. Reads at most the devices that the consumer notes.
 */
export function countByNewRules(appId: AppId, channelId: ChannelId): CompiledQuery {
	return sql`WITH waiting AS MATERIALIZED (
			SELECT n.rollout_id, n.device_id, n.network, c.rollout_devices_per_network AS most, (${predatesRollout}) AS is_old_enough,
				row_number() OVER (PARTITION BY n.network, (${predatesRollout}) ORDER BY n.first_served_at_ms, n.device_id) AS rank
			FROM channels c CROSS JOIN rollouts r ON r.id = c.rollout_id AND r.ended_at_ms IS NULL
				CROSS JOIN rollout_devices n ON n.rollout_id = r.id AND n.not_counted IS NOT NULL
				CROSS JOIN devices d ON d.app_id = r.app_id AND d.device_id = n.device_id
			WHERE c.app_id = ${appId} AND c.id = ${channelId}),
		placed AS MATERIALIZED (SELECT rollout_id, device_id, CASE WHEN is_old_enough = 0 THEN 'newer'
			WHEN most IS NULL OR rank + (SELECT count(*) FROM rollout_devices k WHERE k.rollout_id = waiting.rollout_id
				AND k.network = waiting.network AND k.not_counted IS NULL) <= most THEN NULL ELSE 'network' END AS reason FROM waiting)
		UPDATE rollout_devices SET not_counted = placed.reason FROM placed WHERE rollout_devices.rollout_id = placed.rollout_id
			AND rollout_devices.device_id = placed.device_id AND rollout_devices.not_counted IS NOT placed.reason`.compile(
		query,
	);
}

/** What the judgement of a rollout is made of. */
export interface StandingRow
	extends Omit<Selectable<ChannelsTable>, "id" | "app_id">,
		Pick<
			Selectable<RolloutsTable>,
			| "version_name"
			| "started_at_ms"
			| "step_at_ms"
			| "judged_from_ms"
			| "sampling"
			| "noting_uncounted"
			| "checked_at_ms"
			| "triggered_at_ms"
		> {
	/** Branded: the service read them itself, where no request decides. */
	readonly id: ChannelId;
	readonly app_id: AppId;
	readonly public_app_id: string;
	readonly org_id: OrgId;
	/** Devices that count and were offered the bundle, ever and since the step began. */
	readonly served: number;
	readonly served_since_step: number;
	/** Devices that count by their last report; within the window, and after the rollout was resumed. */
	readonly installed: number;
	readonly failed: number;
	/** Both of them, since the step began. */
	readonly told_since_step: number;
	/** Devices that count, were offered the bundle and have not reported yet. */
	readonly silent: number;
	/** Devices that were offered the bundle and installed it by their last report, whether they count or not. */
	readonly running: number;
	/** Devices that were offered the bundle and do not count, by the reason. */
	readonly not_counted_newer: number;
	readonly not_counted_network: number;
}

/** Rollouts that are under way, and what was counted of them. `which` names them by `c` (channels), `r` (rollouts) and `a` (apps). */
function standings(which: RawBuilder<unknown>, nowMs: number): RawBuilder<StandingRow> {
	// A report from before the offer is about something else.
	const heardAtMs = (column: string) =>
		sql`CASE WHEN ${sql.ref(column)} >= d.first_served_at_ms THEN ${sql.ref(column)} ELSE 0 END`;
	const [installedAtMs, failedAtMs] = [heardAtMs("d.installed_at_ms"), heardAtMs("d.failed_at_ms")];
	// A failure that came with or after the installation is how it ended; one before it was overcome.
	const isFailed = sql`(${failedAtMs}) >= max(1, ${installedAtMs})`;
	const toldAtMs = sql`nullif(max(${failedAtMs}, ${installedAtMs}), 0)`;
	const sinceMs = sql`max(r.judged_from_ms, coalesce(${nowMs} - c.auto_pause_window_minutes * 60000, 0))`;
	const counts = sql`FILTER (WHERE d.not_counted IS NULL)`;
	return sql<StandingRow>`
		SELECT c.*, a.app_id AS public_app_id, a.owner_org AS org_id, r.version_name, r.started_at_ms, r.step_at_ms, r.judged_from_ms,
			r.sampling, r.noting_uncounted, r.checked_at_ms, r.triggered_at_ms,
			count(d.device_id) ${counts} AS served, coalesce(sum(d.first_served_at_ms >= r.step_at_ms) ${counts}, 0) AS served_since_step,
			coalesce(sum(${toldAtMs} >= ${sinceMs} AND NOT ${isFailed}) ${counts}, 0) AS installed,
			coalesce(sum(${toldAtMs} >= ${sinceMs} AND ${isFailed}) ${counts}, 0) AS failed,
			coalesce(sum(${toldAtMs} >= max(${sinceMs}, r.step_at_ms)) ${counts}, 0) AS told_since_step,
			count(d.device_id) ${counts} - count(${toldAtMs}) ${counts} AS silent,
			coalesce(sum(${toldAtMs} IS NOT NULL AND NOT ${isFailed}), 0) AS running,
			count(d.device_id) FILTER (WHERE d.not_counted = 'newer') AS not_counted_newer,
			count(d.device_id) FILTER (WHERE d.not_counted = 'network') AS not_counted_network
		FROM rollouts r JOIN channels c ON c.id = r.channel_id AND c.rollout_id = r.id JOIN apps a ON a.id = r.app_id
			JOIN organizations o ON o.id = a.owner_org AND o.deleted_at_ms IS NULL
			LEFT JOIN rollout_devices d ON d.rollout_id = r.id AND d.first_served_at_ms IS NOT NULL
		WHERE r.ended_at_ms IS NULL AND ${which}
		GROUP BY r.id`;
}

/** The rollouts that devices are served of and that nobody looked at since, the longest ago first. */
export function dueRollouts(checkedBeforeMs: number, limit: number, nowMs: number): CompiledQuery<StandingRow> {
	// What is deleted is left out before it is counted: it is never checked, and would stand first for ever.
	const due = sql`r.id IN (SELECT due.id FROM rollouts due JOIN channels u ON u.id = due.channel_id AND u.rollout_id = due.id
		JOIN apps ON apps.id = due.app_id JOIN organizations home ON home.id = apps.owner_org AND home.deleted_at_ms IS NULL
		WHERE due.ended_at_ms IS NULL AND u.rollout_enabled = 1 AND u.rollout_paused_at_ms IS NULL
			AND coalesce(due.checked_at_ms, 0) <= ${checkedBeforeMs} ORDER BY coalesce(due.checked_at_ms, 0), due.id LIMIT ${limit})`;
	return standings(due, nowMs).compile(query);
}

/** The standing of one channel's rollout; for loading beside the decision. */
export function standingOf(publicAppId: string, channel: string, nowMs: number): CompiledQuery<StandingRow> {
	return standings(sql`a.id = ${appIdOf(publicAppId)} AND c.name = ${channel}`, nowMs).compile(query);
}

export type EndedRollout = Pick<Selectable<RolloutsTable>, "version_name" | "ended_at_ms" | "ended_as">;

/** How the channel's rollout before ended; for loading beside the decision. */
export function lastEndedRollout(publicAppId: string, channel: string): CompiledQuery<EndedRollout> {
	return query
		.selectFrom("rollouts")
		.innerJoin("channels", "channels.id", "rollouts.channel_id")
		.select(["rollouts.version_name", "rollouts.ended_at_ms", "rollouts.ended_as"])
		.where("channels.app_id", "=", appIdOf(publicAppId))
		.where("channels.name", "=", channel)
		.where("rollouts.ended_at_ms", "is not", null)
		.orderBy("rollouts.ended_at_ms", "desc")
		.limit(1)
		.compile();
}

/** For guards: the channel has the rollout that it had when it was read; null: none. */
export function rolloutIs(appId: AppId, channelId: ChannelId, rolloutId: string | null) {
	return sql<boolean>`EXISTS (SELECT 1 FROM channels WHERE app_id = ${appId} AND id = ${channelId} AND rollout_id IS ${rolloutId})`;
}

/** What a person may change of the judgement, or of what comes of it. */
const GATE_COLUMNS = [
	"rollout_steps",
	"rollout_step_minutes",
	"rollout_step_min_devices",
	"rollout_count_new_devices",
	"rollout_devices_per_network",
	"auto_pause_enabled",
	"auto_pause_window_minutes",
	"auto_pause_failure_rate_bps",
	"auto_pause_confidence_bps",
	"auto_pause_min_attempts",
	"auto_pause_min_failures",
	"auto_pause_action",
	"auto_pause_cooldown_minutes",
] as const satisfies readonly (keyof StandingRow)[];

/** For guards: the rollout stands where it stood when it was judged, and would be judged by the same. */
export function rolloutStandsAt(row: StandingRow) {
	const gate = sql.join(
		GATE_COLUMNS.map((column) => sql`c.${sql.ref(column)} IS ${row[column]}`),
		sql` AND `,
	);
	return sql<boolean>`EXISTS (SELECT 1 FROM channels c JOIN rollouts r ON r.id = c.rollout_id
		WHERE c.app_id = ${row.app_id} AND c.id = ${row.id} AND c.rollout_id = ${row.rollout_id} AND c.rollout_enabled = 1
			AND c.rollout_paused_at_ms IS NULL AND c.rollout_percentage_bps = ${row.rollout_percentage_bps}
			AND r.step_at_ms = ${row.step_at_ms} AND r.triggered_at_ms IS ${row.triggered_at_ms} AND ${gate})`;
}

/** That the gate looked, whether more devices are noted (of this step, and of those that do not count), and when it acted. */
export function rolloutChecked(
	row: StandingRow,
	noting: { readonly counted: boolean; readonly uncounted: boolean },
	acted: boolean,
	nowMs: number,
): CompiledQuery {
	return (
		query
			.updateTable("rollouts")
			.set({
				checked_at_ms: nowMs,
				sampling: noting.counted ? 1 : 0,
				noting_uncounted: noting.uncounted ? 1 : 0,
				...(acted ? { triggered_at_ms: nowMs } : {}),
			})
			.where("id", "=", row.rollout_id)
			.where("app_id", "=", row.app_id)
			// A share that changed meanwhile began a sample of its own.
			.where("step_at_ms", "=", row.step_at_ms)
			.compile()
	);
}

/** Recipients of an organization's rollout notices: its management address, or else the first members with one of the roles. */
export function noticeRecipients(
	orgId: OrgId,
	roles: readonly string[],
	limit: number,
	nowMs: number,
): CompiledQuery<{ email: string }> {
	return sql<{ email: string }>`
		SELECT o.management_email AS email FROM organizations o WHERE o.id = ${orgId} AND o.management_email IS NOT NULL
		UNION ALL SELECT email FROM (SELECT u.email FROM role_bindings b JOIN users u ON u.id = b.user_id
			WHERE b.org_id = ${orgId} AND b.scope_type = 'org' AND b.role_name IN ${jsonList(JSON.stringify(roles))}
				AND (b.expires_at_ms IS NULL OR b.expires_at_ms > ${nowMs}) AND u.email_verified_at_ms IS NOT NULL
				AND EXISTS (SELECT 1 FROM organizations o WHERE o.id = ${orgId} AND o.management_email IS NULL)
			ORDER BY b.created_at_ms, u.id LIMIT ${limit})`.compile(query);
}

/** Forgets what devices told of rollouts that they were not served of: no check that came before it is on its way any more. */
export function forgetEarlyOutcomes(toldBeforeMs: number, limit: number): CompiledQuery {
	return sql`DELETE FROM rollout_devices WHERE (rollout_id, device_id) IN (
		SELECT rollout_id, device_id FROM rollout_devices WHERE first_served_at_ms IS NULL
			AND max(coalesce(installed_at_ms, 0), coalesce(failed_at_ms, 0)) <= ${toldBeforeMs} LIMIT ${limit})`.compile(
		query,
	);
}

/** Forgets rollouts that ended long ago: their devices, so many at a time, and those of which no device is left. */
export function forgetEndedRollouts(endedBeforeMs: number, limit: number): readonly [CompiledQuery, CompiledQuery] {
	const old = sql`SELECT id FROM rollouts WHERE ended_at_ms <= ${endedBeforeMs}`;
	return [
		sql`DELETE FROM rollout_devices WHERE (rollout_id, device_id) IN (SELECT d.rollout_id, d.device_id
			FROM rollouts r CROSS JOIN rollout_devices d ON d.rollout_id = r.id
			WHERE r.ended_at_ms <= ${endedBeforeMs} LIMIT ${limit})`.compile(query),
		sql`DELETE FROM rollouts WHERE id IN (${old} AND NOT EXISTS (
			SELECT 1 FROM rollout_devices d WHERE d.rollout_id = rollouts.id) LIMIT ${limit})`.compile(query),
	];
}
