/**
 * History of a channel: each live bundle with its time, actor and reason, rollouts included. Only readers of the app's audit log see the
 * names of people and keys, because a preview key in CI, which may list channels, must not learn the team's addresses.
 */
import * as v from "valibot";
import { holds } from "../../authz/decide";
import { channelHistoryPage, GOES_LIVE, type HistoryRow } from "../../db/channel-history";
import { channelByName } from "../../db/channels";
import { endpoint } from "../endpoint";
import { pageBounds, pageReply } from "../page";
import { channelName, pageNumber, publicAppId, rfc3339, time } from "../schemas";
import { appScope, channelNotFound } from "../scope";

const historyItem = v.strictObject({
	id: v.number(),
	at: time,
	action: v.picklist([
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
	]),
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
	/** Null unless the actor approved what somebody else proposed. */
	proposed_by: v.nullable(v.strictObject({ name: v.nullable(v.string()) })),
	reason: v.nullable(v.string()),
});

export const showChannelHistory = endpoint({
	method: "GET",
	path: "/channel/history",
	tag: "Channels",
	summary: "List what was live on a channel, newest first",
	description:
		"`version` is the bundle that went live, or that the rollout was about; null is the store build. `previous_version` is what was live before, and for an entry about a rollout what the other devices get. `rollout_percentage_bps` is the rollout's share after the change. `can_roll_back` says that POST /channel/rollback can go to this `version` now: it was live, exists and is not live; `bundle_deleted` says that it was deleted. An `actor` of the type `system` is the service itself: a rollout's own step, or its health check. Its `name` is null for callers without app.read_audit. `proposed_by` names who proposed what the actor approved. A channel keeps its newest 1,000 entries.",
	access: { permission: "app.read", scope: appScope("query.app_id") },
	query: v.object({ app_id: publicAppId, channel: channelName, page: pageNumber }),
	response: v.array(historyItem),
	errors: ["channel_not_found"],
	example: {
		query: { app_id: "com.example.app", channel: "production" },
		response: [
			{
				id: 912,
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
		return [channelByName(app_id, channel), channelHistoryPage(app_id, channel, limit, offset)] as const;
	},
	async handle({ loaded, input, principal, scope, request, origin }) {
		if (loaded[0].rows[0] === undefined) throw channelNotFound();
		const showsNames = holds(principal, "app.read_audit", scope);
		return pageReply({ request, origin }, input.query.page, loaded[1].rows, (row) => historyAnswer(row, showsNames));
	},
});

function historyAnswer(row: HistoryRow, showsNames: boolean): v.InferOutput<typeof historyItem> {
	const isStoreBuild = row.version_id === null;
	const isThere = isStoreBuild || row.bundle_status === "ready";
	return {
		id: row.id,
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
