/**
 * GET /channel/history: the live bundles of a channel with time, actor and reason, rollouts
 * included. Names of people and keys are only for readers of the audit log, because a preview key
 * in CI must not learn the team's addresses.
 */

import * as v from "valibot";
import { holds } from "../../authz/decide";
import { channelHistoryPage, type HistoryRow } from "../../db/channel-history";
import { channelByName } from "../../db/channels";
import { GOES_LIVE } from "../../db/live-entries";
import { endpoint } from "../../http/endpoint";
import { pageBounds, pageReply } from "../../http/paging";
import { channelName, pageNumber, publicAppId, rfc3339, time } from "../../http/schemas";
import { appScope, channelNotFound } from "../../http/scope";

export const HISTORY_ACTIONS = [
	"created",
	"promotion",
	"rollback",
	"rollout_prepared",
	"rollout_started",
	"rollout_stopped",
	"rollout_raised",
	"rollout_lowered",
	"rollout_paused",
	"rollout_resumed",
	"rollout_finished",
	"rollout_rolled_back",
	"rollout_replaced",
] as const;

const historyItem = v.strictObject({
	id: v.number(),
	release_id: v.number(),
	at: time,
	action: v.picklist(HISTORY_ACTIONS),
	version: v.nullable(v.string()),
	previous_version: v.nullable(v.string()),
	bundle_deleted: v.boolean(),
	can_roll_back: v.boolean(),
	rollout_percentage_bps: v.nullable(v.number()),
	actor: v.strictObject({
		type: v.picklist(["api_key", "user", "system"]),
		id: v.nullable(v.string()),
		name: v.nullable(v.string()),
	}),
	/** Null unless the actor approved a proposal. */
	proposed_by: v.nullable(v.strictObject({ name: v.nullable(v.string()) })),
	reason: v.nullable(v.string()),
});

export const showChannelHistory = endpoint({
	method: "GET",
	path: "/channel/history",
	tag: "Channels",
	summary: "List the live bundles of a channel, newest first",
	description: [
		"`version` is the bundle that went live, or the bundle of the rollout; null is the store build.",
		"`previous_version` was live before; in an entry",
		"about a rollout it is the version for the other devices.",
		"`rollout_percentage_bps` is the share after the change.",
		"`can_roll_back` is true if POST /channel/rollback can return to this `version` now: it was live,",
		"still exists and is not live.",
		"`bundle_deleted` is true if it was deleted.",
		"`release_id` is the release to which the entry belongs (GET /release).",
		"An `actor` of type `system` is the service: an automatic step of a rollout, or its health gate.",
		"`name` is null for callers without app.read_audit.",
		"`proposed_by` is the proposer of a change that the actor approved.",
		"A channel keeps its newest 1,000 entries.",
	],
	access: { permission: "app.read", scope: appScope("query.app_id") },
	query: v.object({ app_id: publicAppId, channel: channelName, page: pageNumber }),
	response: v.array(historyItem),
	errors: ["channel_not_found"],
	example: {
		query: { app_id: "com.example.app", channel: "production" },
		response: [
			{
				id: 912,
				release_id: 912,
				at: "2026-11-21T08:00:00.000Z",
				action: "promotion" as const,
				version: "1.4.0",
				previous_version: "1.3.0",
				bundle_deleted: false,
				can_roll_back: false,
				rollout_percentage_bps: null,
				actor: { type: "user" as const, id: "0c7f0c5e-34a5-4f5c-8b60-8a2f0b8c1d11", name: "ada@example.com" },
				proposed_by: null,
				reason: null,
			},
		],
	},
	load: ({ query: { app_id, channel, page } }) => {
		const { limit, offset } = pageBounds(page);
		return { channel: channelByName(app_id, channel), history: channelHistoryPage(app_id, channel, limit, offset) };
	},
	async handle({ loaded, input, principal, scope, request, origin }) {
		if (loaded.channel[0] === undefined) throw channelNotFound();
		const showsNames = holds(principal, "app.read_audit", scope);
		return pageReply({ request, origin }, input.query.page, loaded.history, (row) => historyAnswer(row, showsNames));
	},
});

function historyAnswer(row: HistoryRow, showsNames: boolean): v.InferOutput<typeof historyItem> {
	const isStoreBuild = row.version_id === null;
	const isThere = isStoreBuild || row.bundle_status === "ready";
	return {
		id: row.id,
		release_id: row.release_id ?? row.id,
		at: rfc3339(row.at_ms),
		action: row.action,
		version: row.version_name,
		previous_version: row.previous_version_name,
		bundle_deleted: !isThere,
		can_roll_back: GOES_LIVE.includes(row.action) && isThere && row.version_id !== row.live_version_id,
		rollout_percentage_bps: row.rollout_percentage_bps,
		actor: { type: row.actor_type, id: row.actor_id, name: showsNames ? row.actor_name : null },
		proposed_by: row.proposer_name === null ? null : { name: showsNames ? row.proposer_name : null },
		reason: row.reason,
	};
}
