/**
 * GET /release: one release of a channel, from its first step to what replaced it. Its failures are
 * shares of one population, which the answer names, beside those of the release before in the same
 * population. Names of people, keys and CI jobs are only for readers of the audit log, as in GET
 * /channel/history.
 */
import * as v from "valibot";
import { holds } from "../../authz/decide";
import {
	MOST_STEPS,
	type ReleaseName,
	type ReleaseNeighbourRow,
	releaseEntries,
	releaseNeighbours,
} from "../../db/channel-releases";
import { type ChannelRow, channelByName } from "../../db/channels";
import { courseOf, RELEASE_STATES, stepsOf } from "../../domain/rollouts/release";
import { BUILTIN } from "../../domain/updates/model";
import { commitOfLink } from "../../domain/words/releases";
import { ApiError } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { channelName, nullableRfc3339, nullableTime, publicAppId, rfc3339, text, time } from "../../http/schemas";
import { appScope, channelNotFound } from "../../http/scope";
import { HISTORY_ACTIONS } from "./history";
import { countedRate, devicesAnswer, installedRates, outcomesOf, stepAnswer } from "./release-figures";
import { namesFor, neighbourAnswer } from "./release-names";
import { ciSchema } from "./releases";

const ALL_BPS = 10_000;

const neighbour = v.nullable(v.strictObject({ id: v.number(), version: v.nullable(v.string()), at: time }));
const rate = v.nullable(
	v.strictObject({ failed: v.number(), of: v.number(), lowerBound: v.number(), upperBound: v.number() }),
);
const actor = v.strictObject({
	type: v.picklist(["api_key", "user", "system"]),
	id: v.nullable(v.string()),
	name: v.nullable(v.string()),
});

const releaseSchema = v.strictObject({
	id: v.number(),
	channel: v.strictObject({ name: v.string(), is_preview: v.boolean() }),
	version: v.nullable(v.string()),
	state: v.picklist(RELEASE_STATES),
	paused_by: v.nullable(v.picklist(["service", "person"])),
	pause_reason: v.nullable(v.string()),
	percentage_bps: v.number(),
	began_at: time,
	live_at: nullableTime,
	ended_at: nullableTime,
	bundle_deleted: v.boolean(),
	link: v.nullable(v.string()),
	commit: v.nullable(v.string()),
	notes: v.nullable(v.string()),
	ci: ciSchema,
	actor,
	proposed_by: v.nullable(v.strictObject({ name: v.nullable(v.string()) })),
	steps: v.array(
		v.strictObject({
			percentage_bps: v.number(),
			from: time,
			until: nullableTime,
			failed: v.number(),
			of: v.number(),
		}),
	),
	devices: v.nullable(
		v.strictObject({
			offered: v.number(),
			running: v.number(),
			failed: v.number(),
			not_reported: v.number(),
			counted: v.number(),
			complete: v.boolean(),
		}),
	),
	failures: v.strictObject({
		population: v.picklist(["devices", "installs"]),
		limit: v.number(),
		confidence: v.number(),
		release: rate,
		before: rate,
	}),
	before: neighbour,
	after: neighbour,
	entries: v.array(
		v.strictObject({
			id: v.number(),
			at: time,
			action: v.picklist(HISTORY_ACTIONS),
			version: v.nullable(v.string()),
			previous_version: v.nullable(v.string()),
			rollout_percentage_bps: v.nullable(v.number()),
			actor,
			proposed_by: v.nullable(v.strictObject({ name: v.nullable(v.string()) })),
			reason: v.nullable(v.string()),
		}),
	),
});

const releaseNotFound = () =>
	new ApiError(
		"release_not_found",
		"The channel has no release with this id; list its releases with GET /channel/history, whose entries have the id of their release.",
	);

const EXAMPLE_ACTOR = { type: "user" as const, id: "0c7f0c5e-34a5-4f5c-8b60-8a2f0b8c1d11", name: "ada@example.com" };

export const showRelease = endpoint({
	method: "GET",
	path: "/release",
	tag: "Channels",
	summary: "Show a release: a bundle on a channel from its first step to what replaced it",
	description: [
		"`id` is the entry of the channel's history that began the release; the id of a later entry of the",
		"release finds it as well, and so does a version, whose newest release on the channel is meant",
		"(`builtin`: the store build).",
		"`state` is off, rolling_out, ready_to_finish (each device is offered the bundle, and a person",
		"finishes), paused, live, replaced or rolled_back.",
		"At each moment one release of a channel is live, and at most one other is a rollout.",
		"",
		"`before` is the release that was live when this one began, and `after` the one that took its place,",
		"or that stayed when the rollout ended.",
		"`steps` are the shares that the rollout had, each with the devices that count and reported in it.",
		"",
		"`devices` are the recorded devices that were offered the bundle in steps: `offered` is the sum of",
		"`running`, `failed` and `not_reported`, and `counted` of them count towards health.",
		"`complete` is false if there are more than were recorded.",
		"It is null for a release without steps, and a month after a rollout ended.",
		"",
		"`failures` has the share that failed, with an interval of `confidence`.",
		"`population` is `devices` for a rollout: those that count, by their last report.",
		"Otherwise it is `installs`: those reported on the channel in the days of the release, 60 at most.",
		"`before` is the same of the release before, and null if that population is not known of it.",
		"`name` and `ci` are null for callers without app.read_audit.",
	],
	access: { permission: "app.read", scope: appScope("query.app_id") },
	query: v.object({
		app_id: publicAppId,
		channel: channelName,
		id: v.pipe(
			text(128),
			v.transform((name): ReleaseName => {
				if (/^\d{1,15}$/.test(name)) return Number(name);
				return { version: name === BUILTIN ? null : name };
			}),
		),
	}),
	response: releaseSchema,
	errors: ["channel_not_found", "release_not_found"],
	example: {
		query: { app_id: "com.example.app", channel: "production", id: "912" },
		response: {
			id: 912,
			channel: { name: "production", is_preview: false },
			version: "1.4.0",
			state: "rolling_out" as const,
			paused_by: null,
			pause_reason: null,
			percentage_bps: 2500,
			began_at: "2026-11-21T08:00:00.000Z",
			live_at: null,
			ended_at: null,
			bundle_deleted: false,
			link: "https://github.com/acme/shop/commit/9c1e44f",
			commit: "9c1e44f",
			notes: "Search with suggestions",
			ci: null,
			actor: EXAMPLE_ACTOR,
			proposed_by: null,
			steps: [
				{
					percentage_bps: 500,
					from: "2026-11-21T08:00:00.000Z",
					until: "2026-11-22T08:00:00.000Z",
					failed: 1,
					of: 312,
				},
				{ percentage_bps: 2500, from: "2026-11-22T08:00:00.000Z", until: null, failed: 7, of: 1148 },
			],
			devices: { offered: 1790, running: 1640, failed: 8, not_reported: 142, counted: 1590, complete: true },
			failures: {
				population: "devices" as const,
				limit: 0.02,
				confidence: 0.95,
				release: { failed: 8, of: 1460, lowerBound: 0.002779, upperBound: 0.010776 },
				before: { failed: 27, of: 6871, lowerBound: 0.002701, upperBound: 0.005711 },
			},
			before: { id: 861, version: "1.3.0", at: "2026-11-13T08:00:00.000Z" },
			after: null,
			entries: [
				{
					id: 912,
					at: "2026-11-21T08:00:00.000Z",
					action: "rollout_started" as const,
					version: "1.4.0",
					previous_version: "1.3.0",
					rollout_percentage_bps: 500,
					actor: EXAMPLE_ACTOR,
					proposed_by: null,
					reason: null,
				},
			],
		},
	},
	load: ({ query: { app_id, channel, id } }) => ({
		channel: channelByName(app_id, channel),
		entries: releaseEntries(app_id, channel, id),
		neighbours: releaseNeighbours(app_id, channel, id),
	}),
	async handle({ db, deps, loaded, scope, scopeRow, principal, nowMs }) {
		const [channel] = loaded.channel;
		if (channel === undefined) throw channelNotFound();
		const entries = [...loaded.entries].reverse();
		const [first] = entries;
		if (first === undefined) throw releaseNotFound();
		const at = (place: ReleaseNeighbourRow["place"]) => loaded.neighbours.find((row) => row.place === place);
		const [self, before, next] = [at("self"), at("before"), at("next")];
		const course = courseOf({ entries, rollout: runningRollout(channel, self), next });
		const steps = stepsOf(entries, course).slice(-MOST_STEPS);
		const outcomes = await outcomesOf(db, [self, before], steps);
		const own = outcomes.filter(({ rollout_id }) => rollout_id === self?.rollout_id);
		const { actorOf, proposerOf, ciOf } = namesFor(holds(principal, "app.read_audit", scope));
		const ci = ciOf(first);
		const confidence = channel.auto_pause_confidence_bps / ALL_BPS;
		const hasDevices = self?.rollout_id != null;
		const untilMs = course.endedAtMs ?? nowMs;
		const rates = hasDevices
			? {
					release: countedRate(own, confidence),
					before:
						before?.rollout_id == null
							? null
							: countedRate(
									outcomes.filter(({ rollout_id }) => rollout_id === before.rollout_id),
									confidence,
								),
				}
			: await installedRates(
					deps,
					scopeRow.telemetry_binding,
					{ appId: scope.appId, channel: channel.name, confidence },
					{
						release: { version: first.version_name, fromMs: first.at_ms, untilMs },
						before: {
							version: before?.version_name ?? null,
							fromMs: before?.at_ms ?? 0,
							untilMs: course.liveAtMs ?? untilMs,
						},
					},
				);
		return {
			id: first.release_id,
			channel: { name: channel.name, is_preview: channel.is_preview === 1 },
			version: first.version_name,
			state: course.state,
			paused_by: course.pausedBy,
			pause_reason: course.state === "paused" ? channel.rollout_pause_reason : null,
			percentage_bps: course.liveAtMs === null ? (steps.at(-1)?.percentageBps ?? 0) : ALL_BPS,
			began_at: rfc3339(first.at_ms),
			live_at: nullableRfc3339(course.liveAtMs),
			ended_at: nullableRfc3339(course.endedAtMs),
			bundle_deleted: first.version_id !== null && first.bundle_status !== "ready",
			link: first.bundle_link,
			commit: commitOfLink(first.bundle_link) ?? ci?.commit ?? null,
			notes: first.bundle_comment,
			ci: ci?.job ?? null,
			actor: actorOf(first),
			proposed_by: proposerOf(first),
			steps: steps.map((step, index) => stepAnswer(step, index, own)),
			devices: hasDevices ? devicesAnswer(self, own) : null,
			failures: {
				population: hasDevices ? ("devices" as const) : ("installs" as const),
				limit: channel.auto_pause_failure_rate_bps / ALL_BPS,
				confidence,
				...rates,
			},
			before: neighbourAnswer(before),
			after: neighbourAnswer(next ?? at("instead")),
			entries: loaded.entries.map((row) => ({
				id: row.id,
				at: rfc3339(row.at_ms),
				action: row.action,
				version: row.version_name,
				previous_version: row.previous_version_name,
				rollout_percentage_bps: row.rollout_percentage_bps,
				actor: actorOf(row),
				proposed_by: proposerOf(row),
				reason: row.reason,
			})),
		};
	},
});

/** The rollout of the channel, if it is that of the release. */
function runningRollout(channel: ChannelRow, self: ReleaseNeighbourRow | undefined) {
	if (self?.rollout_id == null || self.rollout_id !== channel.rollout_id) return undefined;
	return {
		isOn: channel.rollout_enabled === 1,
		isPaused: channel.rollout_paused_at_ms !== null,
		isReady: channel.rollout_percentage_bps === ALL_BPS && channel.rollout_steps === null,
	};
}
