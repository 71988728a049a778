/**
 * PUT /bundle: the promotion of POST /channel, for callers that name the bundle first.
 */
import * as v from "valibot";
import { endpoint, Reply } from "../../http/endpoint";
import { MAY_WAIT } from "../../http/pipeline/wait-visible";
import { integerId, optional, publicAppId } from "../../http/schemas";
import { bundleNotFound, channelNotFound, channelScope } from "../../http/scope";
import { changeChannel, PROMOTION_ERRORS } from "../channels/change";
import { pendingApproval, pendingApprovalAnswer } from "../channels/propose";
import { promotionReads } from "../channels/reads";
import { rolloutEndedSchema } from "../channels/served-bundles";

export const promoteBundle = endpoint({
	method: "PUT",
	path: "/bundle",
	tag: "Bundles",
	summary: "Promote a bundle to a channel",
	description: [
		"Every device of the channel gets the bundle: a rollout of the same bundle is finished, and a rollout",
		"of another bundle ends (`rollout_ended`), unless `keep_rollout` is true.",
		"On a protected channel that requires approval the answer",
		"is 202 and the promotion waits for POST /proposal/approve.",
		"`allow_preview_bundle` is as for POST /channel.",
	],
	access: {
		permission: "channel.promote_bundle",
		scope: channelScope("body.app_id", { id: "body.channel_id" }),
	},
	body: v.object({
		app_id: publicAppId,
		version_id: integerId,
		channel_id: integerId,
		allow_preview_bundle: optional(v.boolean()),
		keep_rollout: optional(v.boolean()),
	}),
	status: [200, 202],
	headers: MAY_WAIT,
	response: v.union([
		v.strictObject({
			status: v.literal("success"),
			message: v.string(),
			rollout_ended: v.optional(rolloutEndedSchema),
		}),
		v.strictObject(pendingApproval),
	]),
	errors: ["bundle_not_found", "channel_not_found", "rollout_running", ...PROMOTION_ERRORS],
	example: {
		body: { app_id: "com.example.app", version_id: 41, channel_id: 7 },
		response: { status: "success", message: "Bundle 1.4.0-pr.128 set to channel pr-128" },
	},
	load: ({ body }, nowMs) => promotionReads(body.app_id, body.channel_id, body.version_id, nowMs),
	async handle(context) {
		const { loaded, input } = context;
		const [channel] = loaded.channel;
		const [bundle] = loaded.stable;
		if (channel === undefined) throw channelNotFound();
		if (bundle === undefined) throw bundleNotFound();
		const { app_id, allow_preview_bundle, keep_rollout } = input.body;
		const body = { app_id, channel: channel.name, version: bundle.id, allow_preview_bundle, keep_rollout };
		const { proposal, rolloutEnded } = await changeChannel({ ...context, input: { body } }, "channel.promote");
		if (proposal !== undefined) return new Reply(202, pendingApprovalAnswer(proposal));
		return {
			status: "success" as const,
			message: `Bundle ${bundle.name} set to channel ${channel.name}`,
			...(rolloutEnded === undefined ? {} : { rollout_ended: rolloutEnded }),
		};
	},
});
