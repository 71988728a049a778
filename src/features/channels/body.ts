/**
 * The body of POST /channel. Rollout fields have two spellings, because the stock CLI sends both; a
 * body whose spellings differ is refused.
 */

import * as v from "valibot";
import type { RequestIssue } from "../../errors";
import { channelName, integerId, optional, publicAppId, text } from "../../http/schemas";
import {
	acceptanceBody,
	basisPoints,
	bpsOf,
	deliveryBody,
	given,
	percentage,
	rolloutRulesBody,
	snakeName,
} from "./fields";
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
	/**
	 * A time pauses the rollout, null resumes it; the server ignores the value and records its own
	 * time.
	 */
	rolloutPausedAt: v.optional(v.nullable(text(64))),
	rollout_paused_at: v.optional(v.nullable(text(64))),
	rolloutPauseReason: v.optional(v.nullable(text(256))),
	rollout_pause_reason: v.optional(v.nullable(text(256))),
	rollback: optional(v.boolean()),
	promoteToStable: optional(v.boolean()),
	promote_to_stable: optional(v.boolean()),
	advanceRollout: optional(v.boolean()),
	advance_rollout: optional(v.boolean()),
	/** A promotion of `version` leaves a rollout of another bundle running. */
	keepRollout: optional(v.boolean()),
	keep_rollout: optional(v.boolean()),
	/** Promotes a bundle that a preview key uploaded, whose version does not say so. */
	allow_preview_bundle: optional(v.boolean()),
	/** Null dismisses the message of a health gate with the action `notify`. */
	rolloutNotice: v.optional(v.null("can only be dismissed, with null")),
	...rolloutRulesBody,
	...acceptanceBody,
	...protectionFields,
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
		keep: given(body, "keepRollout") === true,
	};
}

/** Fields about the bundles of a channel that have two spellings. */
const SPELLED_TWICE = [
	"rolloutVersion",
	"rolloutPercentage",
	"rolloutPercentageBps",
	"rolloutEnabled",
	"rolloutPaused",
	"rolloutPausedAt",
	"rolloutPauseReason",
	"promoteToStable",
	"advanceRollout",
	"keepRollout",
] as const satisfies readonly (keyof ChannelBody)[];

/**
 * Pairs of fields that cannot both be meant: two spellings with different values, or two
 * intentions. Each issue names both fields, because choosing one would do something that the
 * request does not say.
 */
export function contradictionsOf(body: ChannelBody): RequestIssue[] {
	const issues: RequestIssue[] = [];
	const refuse = (path: string, other: string, why: string) =>
		issues.push({ path, message: `must not be sent with ${other}: ${why}` });
	for (const field of SPELLED_TWICE) {
		const snake = snakeName(field) as keyof ChannelBody;
		if (body[field] === undefined || body[snake] === undefined || body[field] === body[snake]) continue;
		refuse(snake, field, "the two spellings of one field have different values");
	}
	const percent = given(body, "rolloutPercentage");
	const bps = given(body, "rolloutPercentageBps");
	if (percent !== undefined && bps !== undefined && bpsOf(percent) !== bps) {
		refuse("rolloutPercentage", "rolloutPercentageBps", "the two spellings of the share have different values");
	}
	const [paused, pausedAt] = [given(body, "rolloutPaused"), given(body, "rolloutPausedAt")];
	if (paused !== undefined && pausedAt !== undefined && paused !== (pausedAt !== null)) {
		refuse("rolloutPaused", "rolloutPausedAt", "one pauses the rollout and the other resumes it");
	}
	const rollout = rolloutOf(body);
	const ending = [
		...(rollout.promoteToStable ? ["promoteToStable"] : []),
		...(rollout.rollback ? ["rollback"] : []),
		...(rollout.advance ? ["advanceRollout"] : []),
		...(rollout.keep ? ["keep_rollout"] : []),
	];
	const [first, ...others] = ending;
	for (const other of others)
		if (first !== undefined) refuse(other, first, "each decides differently about the rollout");
	if (rollout.rollback || rollout.promoteToStable) {
		const intent = rollout.rollback ? "rollback" : "promoteToStable";
		const what = rollout.rollback ? "ends the rollout" : "makes the rollout's bundle stable";
		if (rollout.version != null) refuse("rolloutVersion", intent, `${intent} ${what}`);
		if (rollout.bps !== undefined && rollout.bps > 0) refuse("rolloutPercentage", intent, `${intent} ${what}`);
		if (rollout.enabled === true) refuse("rolloutEnabled", intent, `${intent} ${what}`);
		if (rollout.paused === true) refuse("rolloutPaused", intent, `${intent} ${what}`);
	}
	if (rollout.version === null) {
		if (rollout.promoteToStable)
			refuse("rolloutVersion", "promoteToStable", "one ends the rollout, the other finishes it");
		if (rollout.bps !== undefined && rollout.bps > 0) {
			refuse("rolloutPercentage", "rolloutVersion", "without a bundle there is no rollout to give a share");
		}
		if (rollout.enabled === true) refuse("rolloutEnabled", "rolloutVersion", "without a bundle there is no rollout");
		if (rollout.keep) refuse("keep_rollout", "rolloutVersion", "one keeps the rollout, the other ends it");
	}
	if (rollout.keep && body.version === undefined) {
		issues.push({ path: "keep_rollout", message: "needs version, the bundle to release beside the rollout" });
	}
	return issues;
}
