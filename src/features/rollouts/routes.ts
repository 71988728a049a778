/**
 * GET /channel/rollout: the devices of a rollout that count, the excluded ones by reason, the
 * outcomes, and the current verdict of the health gate. The service acts on the same verdict
 * (src/features/rollouts/steps.ts).
 */

import * as v from "valibot";
import { channelByName } from "../../db/channels";
import { activeRollout, lastEndedRollout } from "../../db/rollouts";
import { CLEAN_UP_MINUTES } from "../../domain/defaults";
import { endOfStep } from "../../domain/rollouts/gate";
import { ROLLOUT_RULE_FIELDS, stepsBpsOf } from "../../domain/updates/channel-fields";
import { endpoint } from "../../http/endpoint";
import { channelName, nullableRfc3339, nullableTime, publicAppId, rfc3339, time } from "../../http/schemas";
import { appScope, channelNotFound } from "../../http/scope";
import { judgeRollout } from "./steps";

const devices = v.strictObject({ served: v.number(), installed: v.number(), failed: v.number(), silent: v.number() });
const rate = v.strictObject({
	kind: v.picklist(["failed", "crashed", "errored"]),
	devices: v.number(),
	of: v.number(),
	lowerBound: v.number(),
	upperBound: v.number(),
	limit: v.number(),
});

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
	signals: v.strictObject({ crashed: v.number(), errored: v.number() }),
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
	rates: v.array(rate),
	/** Every device is offered the bundle and no step follows: a person may make it stable. */
	readyToFinish: v.boolean(),
	verdict: v.picklist(["hold", "advance", "finish", "pause", "rollback", "notify"]),
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

const EXAMPLE_WAIT = endOfStep(ROLLOUT_RULE_FIELDS.rollout_step_minutes.default);

export const showRollout = endpoint({
	method: "GET",
	path: "/channel/rollout",
	tag: "Channels",
	summary: "Show the state of a channel's rollout, with the reason",
	description: [
		"`devices` are the devices that count towards health: an update check offered them the bundle",
		"(`served`), they were first seen before the day on which the rollout began, and few devices of their",
		"network count already.",
		"`silent` devices have not reported yet.",
		"`signals` are those of the installed devices that crashed or stopped responding, and that reported",
		"JavaScript errors, while they ran the bundle.",
		"`rates` are the shares that have a limit.",
		"",
		"`notCounted` are the other devices that were offered the bundle: `newer` ones were first seen on the",
		"rollout's first day or later (`rolloutCountNewDevices` counts them), `sharedNetwork` ones share a",
		"network with as many devices as `rolloutDevicesPerNetwork` allows.",
		"Up to about 5,000 of them are recorded; `more` is true if there may be others.",
		"`running` is how many devices installed the bundle by their last report, whether they count or not.",
		"`sampleFull` is true if this step has enough devices, so further ones are not recorded.",
		"",
		"`verdict` is the current decision of the health gate; the service acts on it within a minute of new",
		`reports, and otherwise every ${CLEAN_UP_MINUTES} minutes.`,
		"`next.devicesNeeded` is how many more devices must",
		"report before the next step, if none of them fails.",
	],
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
			signals: { crashed: 1, errored: 12 },
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
			rates: [
				{ kind: "failed" as const, devices: 2, of: 382, lowerBound: 0.001437, upperBound: 0.018892, limit: 0.05 },
			],
			readyToFinish: false,
			verdict: "hold",
			reason: `Waiting for ${EXAMPLE_WAIT}.`,
			next: {
				percentageBps: 2500,
				at: "2026-11-21T10:00:00.000Z",
				devicesNeeded: 0,
				waitingFor: [EXAMPLE_WAIT],
			},
			checkedAt: "2026-11-21T09:30:00.000Z",
			triggeredAt: null,
			previous: { version: "1.4.0", endedAt: "2026-11-14T08:00:00.000Z", endedAs: "promoted" as const },
		},
	},
	load: ({ query: { app_id, channel } }, nowMs) => ({
		channel: channelByName(app_id, channel),
		active: activeRollout(app_id, channel, nowMs),
		ended: lastEndedRollout(app_id, channel),
	}),
	async handle({ loaded, nowMs }) {
		const [channel] = loaded.channel;
		const [active] = loaded.active;
		const [ended] = loaded.ended;
		if (channel === undefined) throw channelNotFound();
		const judgement = active === undefined ? undefined : judgeRollout(active, nowMs);
		const isPaused = channel.rollout_paused_at_ms !== null;
		const isRunning = channel.rollout_enabled === 1 && !isPaused;
		const { figures, next } = judgement ?? { figures: undefined, next: undefined };
		return {
			channel: channel.name,
			state: stateOf(active !== undefined, channel.rollout_enabled === 1, isPaused),
			pauseReason: channel.rollout_pause_reason,
			rollout_id: channel.rollout_id,
			version: channel.rollout_version_name,
			stableVersion: channel.version_name,
			percentageBps: channel.rollout_percentage_bps,
			steps: stepsBpsOf(channel.rollout_steps)?.map((bps) => bps / 100) ?? null,
			startedAt: nullableRfc3339(active?.started_at_ms ?? null),
			stepAt: nullableRfc3339(active?.step_at_ms ?? null),
			judgedFrom: nullableRfc3339(active?.judged_from_ms ?? null),
			devices: {
				served: active?.served ?? 0,
				installed: active?.installed ?? 0,
				failed: active?.failed ?? 0,
				silent: active?.silent ?? 0,
			},
			signals: { crashed: active?.crashed ?? 0, errored: active?.errored ?? 0 },
			running: active?.running ?? 0,
			notCounted: {
				newer: active?.not_counted_newer ?? 0,
				sharedNetwork: active?.not_counted_network ?? 0,
				more: active?.noting_uncounted === 0,
			},
			sampleFull: active?.sampling === 0,
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
			rates: (judgement?.rates ?? []).map(({ interval, ...judged }) => ({
				...judged,
				lowerBound: rounded(interval.lower),
				upperBound: rounded(interval.upper),
			})),
			readyToFinish: isRunning && active?.rollout_percentage_bps === 10_000 && active.rollout_steps === null,
			verdict: isRunning ? (judgement?.verdict ?? "hold") : "hold",
			reason: isRunning ? (judgement?.reason ?? NO_ROLLOUT_REASON) : stillReason(active !== undefined, isPaused),
			next:
				next === undefined || next === null || !isRunning
					? null
					: {
							percentageBps: next.percentageBps,
							at: rfc3339(next.atMs),
							devicesNeeded: next.devicesNeeded,
							waitingFor: [...next.waitingFor],
						},
			checkedAt: nullableRfc3339(active?.checked_at_ms ?? null),
			triggeredAt: nullableRfc3339(active?.triggered_at_ms ?? null),
			previous:
				ended === undefined
					? null
					: { version: ended.version_name, endedAt: nullableRfc3339(ended.ended_at_ms), endedAs: ended.ended_as },
		};
	},
});

const NO_ROLLOUT_REASON = "The channel has no rollout.";

function stateOf(exists: boolean, isEnabled: boolean, isPaused: boolean): "none" | "off" | "paused" | "running" {
	if (!exists) return "none";
	if (isPaused) return "paused";
	return isEnabled ? "running" : "off";
}

function stillReason(exists: boolean, isPaused: boolean): string {
	if (!exists) return NO_ROLLOUT_REASON;
	return isPaused
		? "The rollout is paused; no further device gets its bundle until it is resumed."
		: "The rollout is off; no device gets its bundle until it is turned on.";
}

function rounded(rate: number): number {
	return Math.round(rate * 1e6) / 1e6;
}
