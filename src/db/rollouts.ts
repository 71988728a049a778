/**
 * Statements on staged rollouts. `channels` has what devices are offered, `rollouts` has the course
 * of each rollout. Every batch that changes a channel's rollout runs `followRollout` after the
 * change, so the two tables cannot disagree.
 */
import { type CompiledQuery, type RawBuilder, type Selectable, sql } from "kysely";
import type { AppId, ChannelId, OrgId } from "../authz/decide";
import { DAY_MS } from "../domain/time";
import {
	columnsOf,
	defaultsOf,
	NOTICE_FIELDS,
	ROLLOUT_RULE_FIELDS,
	SERVED_FIELDS,
} from "../domain/updates/channel-fields";
import type { ChannelValues } from "./channels";
import { deleteFirst, jsonList, query } from "./client";
import { appIdOf } from "./public-app-id";
import type { ChannelsTable, RolloutsTable } from "./schema";

/**
 * Condition on rollout `r` and channel `c`: the device predates the rollout. Compares days, because
 * the row of a device may have the time of a later message of its first day.
 */
export const predatesRollout = (createdAtMs: RawBuilder<unknown>) =>
	sql`c.rollout_count_new_devices = 1 OR ${createdAtMs} < r.started_at_ms - r.started_at_ms % ${sql.lit(DAY_MS)}`;
/** No message of the health gate is shown. */
export const NO_NOTICE = defaultsOf(NOTICE_FIELDS);

const { version_id: _stable, ...noRollout } = defaultsOf(SERVED_FIELDS);
/** A channel without a rollout. */
export const NO_ROLLOUT = { ...NO_NOTICE, ...noRollout } as const satisfies ChannelValues;

/**
 * Ends, starts or updates the channel's rollout; run it after the write to the channel and its
 * history, whose newest entry begins a new rollout. A changed share starts a step. A resumed
 * rollout is judged only by later reports, because the person who resumed it has seen the earlier
 * ones.
 */
export function followRollout(appId: AppId, channel: ChannelId | { readonly name: string }, nowMs: number) {
	const isChannel = typeof channel === "object" ? sql`c.name = ${channel.name}` : sql`c.id = ${channel}`;
	return [
		sql`UPDATE rollouts SET ended_at_ms = ${nowMs}, ended_as = CASE WHEN c.version_id = rollouts.version_id THEN 'promoted'
				WHEN c.rollout_id IS NOT NULL OR 'rollout_replaced' = (SELECT action FROM channel_history WHERE channel_id = c.id
					AND action IN ('rollout_replaced', 'rollout_rolled_back') ORDER BY id DESC LIMIT 1) THEN 'replaced' ELSE 'rolled_back' END
			FROM channels c WHERE c.app_id = ${appId} AND ${isChannel} AND rollouts.channel_id = c.id AND rollouts.ended_at_ms IS NULL
				AND rollouts.id IS NOT c.rollout_id`.compile(query),
		sql`INSERT INTO rollouts (id, app_id, channel_id, version_id, version_name, percentage_bps, paused, started_at_ms, step_at_ms,
				judged_from_ms, release_id)
			SELECT c.rollout_id, c.app_id, c.id, b.id, b.name, c.rollout_percentage_bps,
				c.rollout_paused_at_ms IS NOT NULL OR c.rollout_enabled = 0, ${nowMs}, ${nowMs}, ${nowMs},
				(SELECT max(id) FROM channel_history h WHERE h.channel_id = c.id)
			FROM channels c JOIN bundles b ON b.id = c.rollout_version_id WHERE c.app_id = ${appId} AND ${isChannel} AND c.rollout_id IS NOT NULL
			ON CONFLICT (id) DO UPDATE SET percentage_bps = excluded.percentage_bps, paused = excluded.paused, sampling = 1,
				step_at_ms = CASE WHEN excluded.paused = 1 THEN step_at_ms ELSE excluded.step_at_ms END,
				judged_from_ms = CASE WHEN excluded.paused < paused THEN excluded.judged_from_ms ELSE judged_from_ms END
			WHERE percentage_bps <> excluded.percentage_bps OR paused <> excluded.paused`.compile(query),
	] as const;
}

/**
 * Applies changed eligibility rules to the excluded devices of a rollout. Looser rules count
 * devices that were offered the bundle earlier; stricter rules keep the devices that count already.
 * Reads at most the devices that the consumer records.
 */
export function recountExcluded(appId: AppId, channelId: ChannelId): CompiledQuery {
	const isOldEnough = predatesRollout(sql`n.device_created_at_ms`);
	return sql`WITH waiting AS MATERIALIZED (
			SELECT n.rollout_id, n.device_id, n.network, c.rollout_devices_per_network AS most, (${isOldEnough}) AS is_old_enough,
				row_number() OVER (PARTITION BY n.network, (${isOldEnough}) ORDER BY n.first_served_at_ms, n.device_id) AS rank
			FROM channels c CROSS JOIN rollouts r ON r.id = c.rollout_id AND r.ended_at_ms IS NULL
				CROSS JOIN rollout_devices n ON n.rollout_id = r.id AND n.not_counted IS NOT NULL
			WHERE c.app_id = ${appId} AND c.id = ${channelId} AND n.device_created_at_ms IS NOT NULL),
		placed AS MATERIALIZED (SELECT rollout_id, device_id, CASE WHEN is_old_enough = 0 THEN 'newer'
			WHEN most IS NULL OR rank + (SELECT count(*) FROM rollout_devices k WHERE k.rollout_id = waiting.rollout_id
				AND k.network = waiting.network AND k.not_counted IS NULL) <= most THEN NULL ELSE 'network' END AS reason FROM waiting)
		UPDATE rollout_devices SET not_counted = placed.reason FROM placed WHERE rollout_devices.rollout_id = placed.rollout_id
			AND rollout_devices.device_id = placed.device_id AND rollout_devices.not_counted IS NOT placed.reason`.compile(
		query,
	);
}

/** A rollout under way, with the counts of its devices. */
export interface ActiveRolloutRow
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
			| "reports_delayed_since_ms"
			| "release_id"
		> {
	/** Branded without an authorization decision, because the service reads these rows for itself. */
	readonly id: ChannelId;
	readonly app_id: AppId;
	readonly public_app_id: string;
	readonly org_id: OrgId;
	/** Devices that count and were offered the bundle: in total, and since the step began. */
	readonly served: number;
	readonly served_since_step: number;
	/**
	 * Devices that count by the outcome of their last report, within the window and after the rollout
	 * was resumed.
	 */
	readonly installed: number;
	readonly failed: number;
	/** Sum of both since the step began. */
	readonly reported_since_step: number;
	/** Installed devices that crashed or stopped responding, and devices with JavaScript errors. */
	readonly crashed: number;
	readonly errored: number;
	/** Devices that count, were offered the bundle and have not reported yet. */
	readonly silent: number;
	/** Devices that installed the bundle by their last report, excluded ones included. */
	readonly running: number;
	/** Excluded devices by reason. */
	readonly not_counted_newer: number;
	readonly not_counted_network: number;
}

// A report from before the offer is about another bundle.
const reportedSince = (column: string) =>
	sql`CASE WHEN ${sql.ref(column)} >= d.first_served_at_ms THEN ${sql.ref(column)} ELSE 0 END`;
const [installedAtMs, failedAtMs] = [reportedSince("d.installed_at_ms"), reportedSince("d.failed_at_ms")];

/**
 * The outcome of a device `d` of a rollout. A failure with or after the installation is one; an
 * earlier one was followed by a successful attempt.
 */
export const OUTCOME_OF_DEVICE = {
	isFailed: sql`(${failedAtMs}) >= max(1, ${installedAtMs})`,
	/** NULL without a report. */
	reportedAtMs: sql`nullif(max(${failedAtMs}, ${installedAtMs}), 0)`,
} as const;

/**
 * Active rollouts with their counts. `which` is a condition on `c` (channels), `r` (rollouts) and
 * `a` (apps).
 */
function activeRolloutsWhere(which: RawBuilder<unknown>, nowMs: number): RawBuilder<ActiveRolloutRow> {
	const { isFailed, reportedAtMs } = OUTCOME_OF_DEVICE;
	const isInstalled = sql`NOT (${isFailed}) AND ${installedAtMs} > 0`;
	const sinceMs = sql`max(r.judged_from_ms, coalesce(${nowMs} - c.auto_pause_window_minutes * 60000, 0))`;
	// A crash is reported at the next start. One whose app ended before the bundle was set was not of
	// this bundle.
	const isOfBundle = sql`coalesce(d.exit_at_device_ms >= d.set_at_device_ms, 1)`;
	const signalledSince = (column: string) => sql`(${isInstalled}) AND (${reportedSince(column)}) >= max(1, ${sinceMs})`;
	const counts = sql`FILTER (WHERE d.not_counted IS NULL)`;
	return sql<ActiveRolloutRow>`
		SELECT c.*, a.app_id AS public_app_id, a.owner_org AS org_id, r.version_name, r.started_at_ms, r.step_at_ms, r.judged_from_ms,
			r.sampling, r.noting_uncounted, r.checked_at_ms, r.triggered_at_ms, r.reports_delayed_since_ms, r.release_id,
			count(d.device_id) ${counts} AS served, coalesce(sum(d.first_served_at_ms >= r.step_at_ms) ${counts}, 0) AS served_since_step,
			coalesce(sum(${reportedAtMs} >= ${sinceMs} AND NOT ${isFailed}) ${counts}, 0) AS installed,
			coalesce(sum(${reportedAtMs} >= ${sinceMs} AND ${isFailed}) ${counts}, 0) AS failed,
			coalesce(sum(${reportedAtMs} >= max(${sinceMs}, r.step_at_ms)) ${counts}, 0) AS reported_since_step,
			coalesce(sum(${signalledSince("d.crashed_at_ms")} AND ${isOfBundle}) ${counts}, 0) AS crashed,
			coalesce(sum(${signalledSince("d.errored_at_ms")}) ${counts}, 0) AS errored,
			count(d.device_id) ${counts} - count(${reportedAtMs}) ${counts} AS silent,
			coalesce(sum(${reportedAtMs} IS NOT NULL AND NOT ${isFailed}), 0) AS running,
			count(d.device_id) FILTER (WHERE d.not_counted = 'newer') AS not_counted_newer,
			count(d.device_id) FILTER (WHERE d.not_counted = 'network') AS not_counted_network
		FROM rollouts r JOIN channels c ON c.id = r.channel_id AND c.rollout_id = r.id JOIN apps a ON a.id = r.app_id
			JOIN organizations o ON o.id = a.owner_org AND o.deleted_at_ms IS NULL
			LEFT JOIN rollout_devices d ON d.rollout_id = r.id AND d.first_served_at_ms IS NOT NULL
		WHERE r.ended_at_ms IS NULL AND ${which}
		GROUP BY r.id`;
}

/** Running rollouts that were not checked since, the least recently checked first. */
export function dueRollouts(checkedBeforeMs: number, limit: number, nowMs: number): CompiledQuery<ActiveRolloutRow> {
	// Rollouts of deleted organizations are left out before the limit, because they are never checked
	// and would stay first.
	const due = sql`r.id IN (SELECT due.id FROM rollouts due JOIN channels u ON u.id = due.channel_id AND u.rollout_id = due.id
		JOIN apps ON apps.id = due.app_id JOIN organizations home ON home.id = apps.owner_org AND home.deleted_at_ms IS NULL
		WHERE due.ended_at_ms IS NULL AND u.rollout_enabled = 1 AND u.rollout_paused_at_ms IS NULL
			AND coalesce(due.checked_at_ms, 0) <= ${checkedBeforeMs} ORDER BY coalesce(due.checked_at_ms, 0), due.id LIMIT ${limit})`;
	return activeRolloutsWhere(due, nowMs).compile(query);
}

/** The active rollout of a channel. */
export function activeRollout(publicAppId: string, channel: string, nowMs: number): CompiledQuery<ActiveRolloutRow> {
	return activeRolloutsWhere(sql`a.id = ${appIdOf(publicAppId)} AND c.name = ${channel}`, nowMs).compile(query);
}

type EndedRollout = Pick<Selectable<RolloutsTable>, "version_name" | "ended_at_ms" | "ended_as">;

/** The last ended rollout of a channel. */
export function lastEndedRollout(publicAppId: string, channel: string): CompiledQuery<EndedRollout> {
	return query
		.selectFrom("channels as c")
		.innerJoin("rollouts as r", "r.channel_id", "c.id")
		.select(["r.version_name", "r.ended_at_ms", "r.ended_as"])
		.where("c.app_id", "=", appIdOf(publicAppId))
		.where("c.name", "=", channel)
		.where("r.ended_at_ms", "is not", null)
		.orderBy("r.ended_at_ms", "desc")
		.limit(1)
		.compile();
}

/** Guard condition: the channel still has this rollout (null: none). */
export function rolloutIs(appId: AppId, channelId: ChannelId, rolloutId: string | null) {
	return sql<boolean>`EXISTS (SELECT 1 FROM channels WHERE app_id = ${appId} AND id = ${channelId} AND rollout_id IS ${rolloutId})`;
}

/** Guard condition: the state and the rules of the rollout are as they were judged. */
export function rolloutUnchanged(row: ActiveRolloutRow) {
	const gate = sql.join(
		columnsOf(ROLLOUT_RULE_FIELDS).map((column) => sql`c.${sql.ref(column)} IS ${row[column]}`),
		sql` AND `,
	);
	return sql<boolean>`EXISTS (SELECT 1 FROM channels c JOIN rollouts r ON r.id = c.rollout_id
		WHERE c.app_id = ${row.app_id} AND c.id = ${row.id} AND c.rollout_id = ${row.rollout_id} AND c.rollout_enabled = 1
			AND c.rollout_paused_at_ms IS NULL AND c.rollout_percentage_bps = ${row.rollout_percentage_bps}
			AND r.step_at_ms = ${row.step_at_ms} AND r.triggered_at_ms IS ${row.triggered_at_ms} AND ${gate})`;
}

/**
 * Records a check by the health gate.
 * @param noting whether the consumer records more devices that count, and more excluded ones
 * @param acted the gate changed the rollout, or reported
 * @param delayedSinceMs time of the oldest report that waits too long; null: none
 */
export function rolloutChecked(
	row: ActiveRolloutRow,
	noting: { readonly counted: boolean; readonly uncounted: boolean },
	acted: boolean,
	delayedSinceMs: number | null,
	nowMs: number,
): CompiledQuery {
	return (
		query
			.updateTable("rollouts")
			.set({
				checked_at_ms: nowMs,
				sampling: noting.counted ? 1 : 0,
				noting_uncounted: noting.uncounted ? 1 : 0,
				reports_delayed_since_ms: delayedSinceMs,
				...(acted ? { triggered_at_ms: nowMs } : {}),
			})
			.where("id", "=", row.rollout_id ?? "")
			.where("app_id", "=", row.app_id)
			// A share that changed in between started a new sample, so the step must be the same.
			.where("step_at_ms", "=", row.step_at_ms)
			.compile()
	);
}

/**
 * Recipients of an organization's rollout notices: its management address, or else the first
 * members with one of the roles.
 */
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

/**
 * Deletes reports that arrived before an offer, because no earlier check can still be in the Queue.
 */
export function deleteEarlyOutcomes(reportedBeforeMs: number, limit: number): CompiledQuery {
	const reportedAtMs = sql<number>`max(coalesce(installed_at_ms, 0), coalesce(failed_at_ms, 0),
		coalesce(crashed_at_ms, 0), coalesce(errored_at_ms, 0))`;
	return query
		.deleteFrom("rollout_devices")
		.where((eb) =>
			eb(
				eb.refTuple("rollout_id", "device_id"),
				"in",
				query
					.selectFrom("rollout_devices")
					.select(["rollout_id", "device_id"])
					.where("first_served_at_ms", "is", null)
					.where(reportedAtMs, "<=", reportedBeforeMs)
					.limit(limit)
					.$asTuple("rollout_id", "device_id"),
			),
		)
		.compile();
}

/**
 * Deletes devices of rollouts that ended before the time, then rollouts without devices; each at
 * most `limit` rows.
 */
export function deleteEndedRollouts(endedBeforeMs: number, limit: number): readonly [CompiledQuery, CompiledQuery] {
	return [
		sql`DELETE FROM rollout_devices WHERE (rollout_id, device_id) IN (SELECT d.rollout_id, d.device_id
			FROM rollouts r CROSS JOIN rollout_devices d ON d.rollout_id = r.id
			WHERE r.ended_at_ms <= ${endedBeforeMs} LIMIT ${limit})`.compile(query),
		deleteFirst(
			"rollouts",
			query
				.selectFrom("rollouts")
				.select("id")
				.where("ended_at_ms", "<=", endedBeforeMs)
				.where((eb) =>
					eb.not(
						eb.exists(
							eb.selectFrom("rollout_devices as d").select("d.device_id").whereRef("d.rollout_id", "=", "rollouts.id"),
						),
					),
				)
				.limit(limit),
		),
	];
}
