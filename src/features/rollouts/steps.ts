/**
 * Automatic rollout steps: judges each active rollout by its samples and grows, finishes, pauses,
 * rolls back or keeps it. A step is one batch with its audit entry, guarded by the state that was
 * judged, so concurrent runs take one step and never overrule a person. The next run judges a
 * rollout again after a failure.
 */
import type { CompiledQuery } from "kysely";
import { OWNING_ROLES } from "../../authz/member-roles";
import { auditChannelChange } from "../../db/audit/channels";
import { auditStatement, systemActor } from "../../db/audit/entries";
import { recordChannelChange } from "../../db/channel-history";
import { type ChannelValues, updateChannel } from "../../db/channels";
import { type Database, guard, openDb } from "../../db/client";
import { Conflict, conflict } from "../../db/optimistic";
import {
	type ActiveRolloutRow,
	dueRollouts,
	followRollout,
	NO_NOTICE,
	NO_ROLLOUT,
	noticeRecipients,
	rolloutChecked,
	rolloutUnchanged,
} from "../../db/rollouts";
import { bundlesAreSigned } from "../../db/signing-keys";
import { bumpRevision } from "../../db/snapshot";
import type { Deps } from "../../deps";
import { type Judgement, judge } from "../../domain/rollouts/gate";
import { MINUTE_MS } from "../../domain/time";
import { stepsBpsOf } from "../../domain/updates/channel-fields";
import { releasePlace } from "../../domain/words/release-address";
import { causeText } from "../../errors";
import { sendMail } from "../../mail";
import { readBacklog } from "../../queue/backlog";
import { wakeDueWebhooks } from "../../queue/webhook-wake";
import { MOST_SAMPLED } from "./samples";

/** Minimum time between two checks of a rollout by the consumer; the schedule always checks. */
export const STEP_AT_MOST_EVERY_MS = 60_000;
/** Rollouts of one run; the rest waits for the next run. */
const MOST_ROLLOUTS = 100;

/** Recipients of one notice. */
const MOST_RECIPIENTS = 3;

/** The actor in the audit log. */
const SERVICE_NAME = "Capstan";

/** Reports that wait longer may hide failures. They are counted within a minute as a rule. */
const DELAYED_AFTER_MS = 10 * MINUTE_MS;

/**
 * @param oldestReportAtMs of the reports that were just counted: what follows them in the queue is
 * late too
 * @throws {Error} if a rollout could not be judged; the others were
 */
export async function stepRollouts(deps: Deps, atMostEveryMs = 0, oldestReportAtMs?: number): Promise<void> {
	const nowMs = deps.now();
	const db = openDb(deps.d1, "first-primary");
	const [due] = await db.batch([dueRollouts(nowMs - atMostEveryMs, MOST_ROLLOUTS, nowMs)]);
	if (due.rows.length === 0) return;
	const oldestAtMs = Math.min((await readBacklog(deps))?.oldestAtMs ?? nowMs, oldestReportAtMs ?? nowMs);
	const delayedSinceMs = nowMs - oldestAtMs > DELAYED_AFTER_MS ? oldestAtMs : null;
	const unmoved: CompiledQuery[] = [];
	let failure: unknown;
	let moved = false;
	for (const found of due.rows) {
		const row = { ...found, reports_delayed_since_ms: delayedSinceMs };
		try {
			const judgement = judgeRollout(row, nowMs);
			if (judgement.verdict !== "hold") {
				moved = (await move(deps, db, row, judgement, nowMs)) || moved;
			} else unmoved.push(rolloutChecked(row, notingOf(row), false, delayedSinceMs, nowMs));
		} catch (error) {
			deps.log("error", "rollout_step_failed", { rollout: row.rollout_id, cause: causeText(error) });
			failure = error;
		}
	}
	if (unmoved.length > 0) await db.batch(unmoved);
	if (moved) await wakeDueWebhooks(deps);
	if (failure !== undefined) throw failure;
}

function notingOf(row: ActiveRolloutRow) {
	return {
		counted: row.served_since_step < MOST_SAMPLED,
		uncounted: row.not_counted_newer + row.not_counted_network < MOST_SAMPLED,
	};
}

/** The present verdict of the health gate. */
export function judgeRollout(row: ActiveRolloutRow, nowMs: number): Judgement {
	return judge(
		{
			enabled: row.auto_pause_enabled === 1,
			limitBps: row.auto_pause_failure_rate_bps,
			crashLimitBps: row.auto_pause_crash_rate_bps,
			errorLimitBps: row.auto_pause_error_rate_bps,
			confidence: row.auto_pause_confidence_bps / 10_000,
			minAttempts: row.auto_pause_min_attempts,
			minFailures: row.auto_pause_min_failures,
			action: row.auto_pause_action,
			cooldownMinutes: row.auto_pause_cooldown_minutes,
			stepsBps: stepsBpsOf(row.rollout_steps),
			stepMinutes: row.rollout_step_minutes,
			stepMinDevices: row.rollout_step_min_devices,
		},
		{
			percentageBps: row.rollout_percentage_bps,
			stepAtMs: row.step_at_ms,
			triggeredAtMs: row.triggered_at_ms,
			delayedReports: delayOf(row),
		},
		{
			installed: row.installed,
			failed: row.failed,
			sinceStep: row.reported_since_step,
			crashed: row.crashed,
			errored: row.errored,
		},
		nowMs,
	);
}

function delayOf({ reports_delayed_since_ms: sinceMs }: ActiveRolloutRow) {
	return sinceMs === null ? undefined : { sinceMs };
}

const ACTIONS = {
	advance: "channel.rollout_advance",
	finish: "channel.rollout_finish",
	pause: "channel.rollout_pause",
	rollback: "channel.rollout_rollback",
	notify: "channel.rollout_notify",
} as const;

function changeOf(judgement: Judgement, row: ActiveRolloutRow, nowMs: number): ChannelValues {
	switch (judgement.verdict) {
		case "advance":
			return judgement.next === null ? {} : { ...NO_NOTICE, rollout_percentage_bps: judgement.next.percentageBps };
		case "finish":
			return { ...NO_ROLLOUT, version_id: row.rollout_version_id };
		case "pause":
			return { ...NO_NOTICE, rollout_paused_at_ms: nowMs, rollout_pause_reason: judgement.reason };
		case "rollback":
			return NO_ROLLOUT;
		case "notify":
			return { rollout_notice: judgement.reason, rollout_notice_at_ms: nowMs };
		default:
			return {};
	}
}

/** @returns whether this run took the step */
async function move(
	deps: Deps,
	db: Database,
	row: ActiveRolloutRow,
	judgement: Judgement,
	nowMs: number,
): Promise<boolean> {
	const { verdict, figures, reason } = judgement;
	if (verdict === "hold") return false;
	const { app_id: appId, id: channelId } = row;
	const values = changeOf(judgement, row, nowMs);
	const isNotice = verdict === "notify";
	const isGood = verdict === "advance" || verdict === "finish";
	const actor = systemActor(deps.newId(), SERVICE_NAME);
	const versions = new Map([[row.rollout_version_id ?? 0, row.version_name]]);
	const details = {
		rollout_id: row.rollout_id,
		version: row.version_name,
		percentage_bps: row.rollout_percentage_bps,
		reason,
		served: row.served,
		installed: row.installed,
		failed: row.failed,
		crashed: row.crashed,
		errored: row.errored,
		lower_bound: figures.lower,
		upper_bound: figures.upper,
		limit_bps: row.auto_pause_failure_rate_bps,
		confidence: row.auto_pause_confidence_bps / 10_000,
	};
	const scope = { orgId: row.org_id, appId, channelId, publicAppId: row.public_app_id };
	const entry = !isNotice
		? auditChannelChange(actor, nowMs, ACTIONS[verdict], scope, values, versions, details)
		: auditStatement(actor, nowMs, {
				orgId: row.org_id,
				action: ACTIONS[verdict],
				target: { type: "channel", id: String(row.id), name: row.name },
				app: { uuid: row.app_id, id: row.public_app_id },
				details,
			});
	try {
		await db.batch([
			guard(rolloutUnchanged(row), conflict),
			// Under a policy that demands signatures, an unsigned rollout cannot grow or finish; it can
			// still pause and roll back.
			...(isGood ? [guard(bundlesAreSigned(appId, [row.rollout_version_id ?? 0]), conflict)] : []),
			entry,
			rolloutChecked(row, { ...notingOf(row), counted: true }, !isGood, row.reports_delayed_since_ms, nowMs),
			...(isNotice ? [] : recordChannelChange(actor, nowMs, appId, channelId, values, { reason })),
			updateChannel(appId, channelId, values, nowMs),
			...(isNotice ? [] : [...followRollout(appId, channelId, nowMs), bumpRevision(appId)]),
		]);
	} catch (error) {
		// Another run or a person changed the rollout in between.
		if (!(error instanceof Conflict)) throw error;
		return false;
	}
	if (verdict !== "advance") await report(deps, db, row, verdict, reason);
	return true;
}

/** The state of the rollout, its effect, and what a person may do. */
const STOPS = {
	finish: ["is finished", "It is the stable bundle now, and every device of the channel gets it"],
	pause: ["is paused", "Its devices keep the bundle, and no others get it. Resume it or roll it back"],
	rollback: ["is rolled back", "Its devices return to the previous bundle at their next check. See what failed"],
	notify: ["fails", "It continues, because the channel is set to notify only. Pause it or roll it back"],
} as const;

/**
 * Logs and mails an end, a stop or a notice once, because only this run has written it. If the mail
 * fails, the log still has it.
 */
async function report(
	deps: Deps,
	db: Database,
	row: ActiveRolloutRow,
	verdict: keyof typeof STOPS,
	reason: string,
): Promise<void> {
	deps.log(verdict === "finish" ? "info" : "warn", verdict === "notify" ? "rollout_notice" : `rollout_${verdict}`, {
		app: row.public_app_id,
		channel: row.name,
		version: row.version_name,
		percentage_bps: row.rollout_percentage_bps,
		reason,
	});
	if (deps.config.mail === undefined) return;
	const [recipients] = await db.batch([noticeRecipients(row.org_id, OWNING_ROLES, MOST_RECIPIENTS, deps.now())]);
	const { publicUrl } = deps.config;
	const [state, what] = STOPS[verdict];
	const place = releasePlace(row.public_app_id, row.name, row.release_id ?? row.version_name);
	const rollout = `The rollout of ${row.version_name} on the channel ${row.name} of ${row.public_app_id}`;
	const text = [
		verdict === "finish"
			? `${rollout} was healthy at its last step.`
			: `${rollout} fails more often than its limit allows.`,
		reason,
		`It reached ${row.rollout_percentage_bps / 100} % of the devices.`,
		`${what}${publicUrl === undefined ? " in the dashboard." : `:\n${publicUrl}/dashboard${place}`}`,
	].join("\n\n");
	const subject = `${row.public_app_id}: the rollout of ${row.version_name} on ${row.name} ${state}`;
	await Promise.all(recipients.rows.map(({ email }) => sendMail(deps, { to: email, subject, text })));
}
