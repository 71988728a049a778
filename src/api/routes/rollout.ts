/**
 * Status of a channel's rollout: the devices that count, the excluded devices with the reason, the results of the bundle on them, and the
 * current verdict of the health gate. The service acts on the same verdict (src/events/rollout-steps.ts).
 */
import * as v from "valibot";
import { channelByName } from "../../db/channels";
import { lastEndedRollout, standingOf } from "../../db/rollouts";
import { judgeStanding } from "../../events/rollout-steps";
import { endpoint } from "../endpoint";
import { stepsBpsOf } from "../rollout-settings";
import { channelName, nullableRfc3339, nullableTime, publicAppId, rfc3339, time } from "../schemas";
import { appScope, channelNotFound } from "../scope";

const devices = v.strictObject({ served: v.number(), installed: v.number(), failed: v.number(), silent: v.number() });

const rolloutSchema = v.strictObject({
	channel: v.string(),
	state: v.picklist(["none", "off", "paused", "running"]),
	pauseReason: v.nullable(v.string()),
	rollout_id: v.nullable(v.string()),
	version: v.nullable(v.string()),
	stableVersion: v.nullable(v.string()),
	percentageBps: v.number(),
	steps: v.nullable(v.array(v.number())),
	startedAt: nullableTime,
	stepAt: nullableTime,
	judgedFrom: nullableTime,
	devices,
	running: v.number(),
	notCounted: v.strictObject({ newer: v.number(), sharedNetwork: v.number(), more: v.boolean() }),
	sampleFull: v.boolean(),
	health: v.nullable(
		v.strictObject({
			failureRate: v.nullable(v.number()),
			lowerBound: v.number(),
			upperBound: v.number(),
			limit: v.number(),
			confidence: v.number(),
		}),
	),
	verdict: v.picklist(["hold", "advance", "pause", "rollback", "notify"]),
	reason: v.string(),
	next: v.nullable(
		v.strictObject({
			percentageBps: v.number(),
			at: time,
			devicesNeeded: v.nullable(v.number()),
			waitingFor: v.array(v.string()),
		}),
	),
	checkedAt: nullableTime,
	triggeredAt: nullableTime,
	previous: v.nullable(
		v.strictObject({
			version: v.string(),
			endedAt: nullableTime,
			endedAs: v.nullable(v.picklist(["promoted", "rolled_back", "replaced"])),
		}),
	),
});

export const showRollout = endpoint({
	method: "GET",
	path: "/channel/rollout",
	tag: "Channels",
	summary: "Show where a channel's rollout stands, and why",
	description: [
		"`devices` are the devices that count towards health: an update check offered them the bundle (`served`), they were known before the day on which the rollout began, and few devices of their network count already. `silent` devices have not reported yet.",
		"`notCounted` are the other devices that were offered the bundle: `newer` ones were first seen on the rollout's first day or later (`rolloutCountNewDevices` counts them), `sharedNetwork` ones share a network with as many devices as `rolloutDevicesPerNetwork` allows. Up to about 5,000 of them are noted; `more` says that there may be others. `running` is how many devices installed the bundle by their last report, whether they count or not. `sampleFull` says that this step has enough devices, so further ones are not noted.",
		"`verdict` is what the health gate says now; it is acted upon within a minute of new reports, and every 15 minutes without. `next.devicesNeeded` is how many more devices must report before the next step, if none of them fails.",
	].join("\n\n"),
	access: { permission: "app.read", scope: appScope("query.app_id") },
	query: v.object({ app_id: publicAppId, channel: channelName }),
	response: rolloutSchema,
	errors: ["channel_not_found"],
	example: {
		query: { app_id: "com.example.app", channel: "production" },
		response: {
			channel: "production",
			state: "running",
			pauseReason: null,
			rollout_id: "5f0c3a52-5c9f-4d0e-8a65-2b6d1c1f7e10",
			version: "1.5.0",
			stableVersion: "1.4.0",
			percentageBps: 500,
			steps: [1, 5, 25, 100],
			startedAt: "2026-11-21T08:00:00.000Z",
			stepAt: "2026-11-21T09:00:00.000Z",
			judgedFrom: "2026-11-21T08:00:00.000Z",
			devices: { served: 410, installed: 380, failed: 2, silent: 28 },
			running: 431,
			notCounted: { newer: 40, sharedNetwork: 19, more: false },
			sampleFull: false,
			health: {
				failureRate: 0.005236,
				lowerBound: 0.001437,
				upperBound: 0.018892,
				limit: 0.05,
				confidence: 0.95,
			},
			verdict: "hold",
			reason: "Waiting for the end of this step, which lasts 60 minutes.",
			next: {
				percentageBps: 2500,
				at: "2026-11-21T10:00:00.000Z",
				devicesNeeded: 0,
				waitingFor: ["the end of this step, which lasts 60 minutes"],
			},
			checkedAt: "2026-11-21T09:30:00.000Z",
			triggeredAt: null,
			previous: { version: "1.4.0", endedAt: "2026-11-14T08:00:00.000Z", endedAs: "promoted" as const },
		},
	},
	load: ({ query: { app_id, channel } }, nowMs) =>
		[channelByName(app_id, channel), standingOf(app_id, channel, nowMs), lastEndedRollout(app_id, channel)] as const,
	async handle({ loaded, nowMs }) {
		const [channel] = loaded[0].rows;
		const [standing] = loaded[1].rows;
		const [ended] = loaded[2].rows;
		if (channel === undefined) throw channelNotFound();
		const judgement = standing === undefined ? undefined : judgeStanding(standing, nowMs);
		const isPaused = channel.rollout_paused_at_ms !== null;
		const isRunning = channel.rollout_enabled === 1 && !isPaused;
		const { figures, next } = judgement ?? { figures: undefined, next: undefined };
		return {
			channel: channel.name,
			state: stateOf(standing !== undefined, channel.rollout_enabled === 1, isPaused),
			pauseReason: channel.rollout_pause_reason,
			rollout_id: channel.rollout_id,
			version: channel.rollout_version_name,
			stableVersion: channel.version_name,
			percentageBps: channel.rollout_percentage_bps,
			steps: stepsBpsOf(channel.rollout_steps)?.map((bps) => bps / 100) ?? null,
			startedAt: nullableRfc3339(standing?.started_at_ms ?? null),
			stepAt: nullableRfc3339(standing?.step_at_ms ?? null),
			judgedFrom: nullableRfc3339(standing?.judged_from_ms ?? null),
			devices: {
				served: standing?.served ?? 0,
				installed: standing?.installed ?? 0,
				failed: standing?.failed ?? 0,
				silent: standing?.silent ?? 0,
			},
			running: standing?.running ?? 0,
			notCounted: {
				newer: standing?.not_counted_newer ?? 0,
				sharedNetwork: standing?.not_counted_network ?? 0,
				more: standing?.noting_uncounted === 0,
			},
			sampleFull: standing?.sampling === 0,
			health:
				figures === undefined
					? null
					: {
							failureRate: figures.attempts === 0 ? null : rounded(figures.failures / figures.attempts),
							lowerBound: rounded(figures.lower),
							upperBound: rounded(figures.upper),
							limit: channel.auto_pause_failure_rate_bps / 10_000,
							confidence: channel.auto_pause_confidence_bps / 10_000,
						},
			verdict: isRunning ? (judgement?.verdict ?? "hold") : "hold",
			reason: isRunning ? (judgement?.reason ?? NO_ROLLOUT_REASON) : stillReason(standing !== undefined, isPaused),
			next:
				next === undefined || next === null || !isRunning
					? null
					: {
							percentageBps: next.percentageBps,
							at: rfc3339(next.atMs),
							devicesNeeded: next.devicesNeeded,
							waitingFor: [...next.waitingFor],
						},
			checkedAt: nullableRfc3339(standing?.checked_at_ms ?? null),
			triggeredAt: nullableRfc3339(standing?.triggered_at_ms ?? null),
			previous:
				ended === undefined
					? null
					: { version: ended.version_name, endedAt: nullableRfc3339(ended.ended_at_ms), endedAs: ended.ended_as },
		};
	},
});

const NO_ROLLOUT_REASON = "The channel has no rollout; send rolloutVersion to start one.";

function stateOf(exists: boolean, isEnabled: boolean, isPaused: boolean): "none" | "off" | "paused" | "running" {
	if (!exists) return "none";
	if (isPaused) return "paused";
	return isEnabled ? "running" : "off";
}

function stillReason(exists: boolean, isPaused: boolean): string {
	if (!exists) return NO_ROLLOUT_REASON;
	return isPaused
		? "The rollout is paused; send rolloutPaused: false to continue."
		: "The rollout is off; send rolloutEnabled: true.";
}

function rounded(rate: number): number {
	return Math.round(rate * 1e6) / 1e6;
}
