/**
 * The body of POST /channel. Rollout fields have two spellings, because the stock CLI sends both; camelCase wins if a body has both.
 */

import * as v from "valibot";
import { channelName, integerId, optional, publicAppId, text } from "../../http/schemas";
import { refusedFields } from "../../http/stock-settings";
import { acceptanceBody, basisPoints, bpsOf, deliveryBody, given, percentage, rolloutRulesBody } from "./fields";
import { protectionFields } from "./protection";

/** A bundle by its version or id; null, "builtin" and "unknown" are the store build. */
const bundleChoice = v.pipe(
	v.nullable(v.union([text(128), integerId], "must be a bundle's version, its id, or null")),
	v.transform((value) => (value === "builtin" || value === "unknown" ? null : value)),
);

export const channelBody = v.object({
	app_id: publicAppId,
	channel: channelName,
	version: v.optional(bundleChoice),
	...deliveryBody,
	update_package: deliveryBody.updatePackage,
	rolloutVersion: v.optional(bundleChoice),
	rollout_version: v.optional(bundleChoice),
	rolloutPercentage: optional(percentage),
	rollout_percentage: optional(percentage),
	rolloutPercentageBps: optional(basisPoints),
	rollout_percentage_bps: optional(basisPoints),
	rolloutEnabled: optional(v.boolean()),
	rollout_enabled: optional(v.boolean()),
	rolloutPaused: optional(v.boolean()),
	rollout_paused: optional(v.boolean()),
	/** A time pauses the rollout, null resumes it; the server ignores the value and records its own time. */
	rolloutPausedAt: v.optional(v.nullable(text(64))),
	rollout_paused_at: v.optional(v.nullable(text(64))),
	rolloutPauseReason: v.optional(v.nullable(text(256))),
	rollout_pause_reason: v.optional(v.nullable(text(256))),
	rollback: optional(v.boolean()),
	promoteToStable: optional(v.boolean()),
	promote_to_stable: optional(v.boolean()),
	advanceRollout: optional(v.boolean()),
	advance_rollout: optional(v.boolean()),
	/** Promotes a bundle that a preview key uploaded, whose version does not say so. */
	allow_preview_bundle: optional(v.boolean()),
	/** Null dismisses the message of a health gate with the action `notify`. */
	rolloutNotice: v.optional(v.null("can only be dismissed, with null")),
	...rolloutRulesBody,
	...acceptanceBody,
	...protectionFields,
	...refusedFields("POST /channel"),
});
export type ChannelBody = v.InferOutput<typeof channelBody>;

/** The fields about the rollout, from either spelling. */
export function rolloutOf(body: ChannelBody) {
	const percent = given(body, "rolloutPercentage");
	const pausedAt = given(body, "rolloutPausedAt");
	return {
		version: given(body, "rolloutVersion"),
		bps: given(body, "rolloutPercentageBps") ?? (percent === undefined ? undefined : bpsOf(percent)),
		enabled: given(body, "rolloutEnabled"),
		paused: given(body, "rolloutPaused") ?? (pausedAt === undefined ? undefined : pausedAt !== null),
		pauseReason: given(body, "rolloutPauseReason"),
		rollback: body.rollback === true,
		advance: given(body, "advanceRollout") === true,
		promoteToStable: given(body, "promoteToStable") === true,
	};
}
