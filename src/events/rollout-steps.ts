/**
 * Rollouts that move by themselves: looks at what was counted of each and lets it grow, pauses it, takes it back or leaves it. A change
 * is one batch with its audit entry, guarded by where the rollout stood when it was judged, so two that judge at once take one step,
 * and a person who was faster is never overruled. What could not be judged is judged again by the next run.
 */
import type { CompiledQuery } from "kysely";
import { OWNING_ROLES } from "../authz/member-roles";
import { type Actor, auditStatement } from "../db/audit";
import { auditChannelChange } from "../db/channel-audit";
import { recordChannelChange } from "../db/channel-history";
import { type ChannelValues, updateChannel } from "../db/channels";
import { type Database, GuardFailed, guard, openDb } from "../db/client";
import {
	dueRollouts,
	followRollout,
	NO_NOTICE,
	NO_ROLLOUT,
	noticeRecipients,
	rolloutChecked,
	rolloutStandsAt,
	type StandingRow,
} from "../db/rollouts";
import { bundlesAreSigned } from "../db/signing-keys";
import { bumpRevision } from "../db/snapshot";
import type { Deps } from "../deps";
import { type Judgement, judge } from "../domain/rollout-gate";
import { causeText } from "../errors";
import { sendMail } from "./mail";
import { MOST_SAMPLED } from "./rollout-evidence";

/** The consumer looks no more often than this; the sweep always. */
export const STEP_AT_MOST_EVERY_MS = 60_000;
/** What one run looks at; the rest waits for the next. */
const MOST_ROLLOUTS = 100;

/** People that one notice is mailed to. */
const MOST_RECIPIENTS = 3;

/** What the audit log calls the one who steps. */
const SERVICE_NAME = "the service";

/** @throws {Error} when one of them could not be stepped; the others were */
export async function stepRollouts(deps: Deps, atMostEveryMs = 0): Promise<void> {
	const nowMs = deps.now();
	const db = openDb(deps.d1, "first-primary");
	const [due] = await db.batch([dueRollouts(nowMs - atMostEveryMs, MOST_ROLLOUTS, nowMs)]);
	const unmoved: CompiledQuery[] = [];
	let failure: unknown;
	for (const row of due.rows) {
		try {
			const judgement = judgeStanding(row, nowMs);
			if (judgement.verdict !== "hold") await move(deps, db, row, judgement, nowMs);
			else unmoved.push(rolloutChecked(row, notingOf(row), false, nowMs));
		} catch (error) {
			deps.log("error", "rollout_step_failed", { rollout: row.rollout_id, cause: causeText(error) });
			failure = error;
		}
	}
	if (unmoved.length > 0) await db.batch(unmoved);
	if (failure !== undefined) throw failure;
}

function notingOf(row: StandingRow) {
	return {
		counted: row.served_since_step < MOST_SAMPLED,
		uncounted: row.not_counted_newer + row.not_counted_network < MOST_SAMPLED,
	};
}

/** What the gate says of a rollout as it stands. */
export function judgeStanding(row: StandingRow, nowMs: number): Judgement {
	return judge(
		{
			enabled: row.auto_pause_enabled === 1,
			limitBps: row.auto_pause_failure_rate_bps,
			confidence: row.auto_pause_confidence_bps / 10_000,
			minAttempts: row.auto_pause_min_attempts,
			minFailures: row.auto_pause_min_failures,
			action: row.auto_pause_action,
			cooldownMinutes: row.auto_pause_cooldown_minutes,
			stepsBps: row.rollout_steps === null ? null : (JSON.parse(row.rollout_steps) as number[]),
			stepMinutes: row.rollout_step_minutes,
			stepMinDevices: row.rollout_step_min_devices,
		},
		{ percentageBps: row.rollout_percentage_bps, stepAtMs: row.step_at_ms, triggeredAtMs: row.triggered_at_ms },
		{ installed: row.installed, failed: row.failed, sinceStep: row.told_since_step },
		nowMs,
	);
}

const ACTIONS = {
	advance: "channel.rollout_advance",
	pause: "channel.rollout_pause",
	rollback: "channel.rollout_rollback",
	notify: "channel.rollout_notify",
} as const;

function changeOf(judgement: Judgement, nowMs: number): ChannelValues {
	switch (judgement.verdict) {
		case "advance":
			return judgement.next === null ? {} : { ...NO_NOTICE, rollout_percentage_bps: judgement.next.percentageBps };
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

async function move(deps: Deps, db: Database, row: StandingRow, judgement: Judgement, nowMs: number): Promise<void> {
	const { verdict, figures, reason } = judgement;
	if (verdict === "hold") return;
	const { app_id: appId, id: channelId } = row;
	const values = changeOf(judgement, nowMs);
	const isNotice = verdict === "notify";
	const actor: Actor = { type: "system", id: null, name: SERVICE_NAME, requestId: deps.newId(), ipAddress: null };
	const versions = new Map([[row.rollout_version_id ?? 0, row.version_name]]);
	const details = {
		rollout_id: row.rollout_id,
		version: row.version_name,
		percentage_bps: row.rollout_percentage_bps,
		reason,
		served: row.served,
		installed: row.installed,
		failed: row.failed,
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
			guard("stands_as_judged", rolloutStandsAt(row)),
			// A policy that demands signatures stops an unsigned rollout from growing; it still pauses and goes back.
			...(verdict === "advance"
				? [guard("bundle_signed", bundlesAreSigned(appId, [row.rollout_version_id ?? 0]))]
				: []),
			entry,
			rolloutChecked(row, { ...notingOf(row), counted: true }, verdict !== "advance", nowMs),
			...(isNotice ? [] : recordChannelChange(actor, nowMs, appId, channelId, values, { reason })),
			updateChannel(appId, channelId, values, nowMs),
			...(isNotice ? [] : [...followRollout(appId, channelId, nowMs), bumpRevision(appId)]),
		]);
	} catch (error) {
		// Somebody else moved it meanwhile: another run, or a person.
		if (!(error instanceof GuardFailed)) throw error;
		return;
	}
	if (isNotice) await notify(deps, db, row, judgement);
}

/** The notice has been written, by this run alone: it is logged and mailed once. A mail that cannot be sent stays in the log. */
async function notify(deps: Deps, db: Database, row: StandingRow, { reason }: Judgement): Promise<void> {
	deps.log("warn", "rollout_notice", {
		app: row.public_app_id,
		channel: row.name,
		version: row.version_name,
		percentage_bps: row.rollout_percentage_bps,
		reason,
	});
	if (deps.config.mail === undefined) return;
	const [recipients] = await db.batch([noticeRecipients(row.org_id, OWNING_ROLES, MOST_RECIPIENTS, deps.now())]);
	const { publicUrl } = deps.config;
	const place = `${encodeURIComponent(row.public_app_id)}/channels/${encodeURIComponent(row.name)}`;
	const text = [
		`The rollout of ${row.version_name} on the channel ${row.name} of ${row.public_app_id} fails more often than its limit allows.`,
		reason,
		`It goes on for ${row.rollout_percentage_bps / 100} % of the devices, because the channel is set to notify only. Pause it or roll it back${publicUrl === undefined ? " in the dashboard." : `:\n${publicUrl}/dashboard/apps/${place}`}`,
	].join("\n\n");
	const subject = `${row.public_app_id}: the rollout of ${row.version_name} on ${row.name} fails`;
	await Promise.all(recipients.rows.map(({ email }) => sendMail(deps, { to: email, subject, text })));
}
