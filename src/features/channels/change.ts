/**
 * The four steps of a channel change, for POST /channel, PUT /bundle and the stock CLI's PATCH.
 * Each step takes only what the step before found, nothing is written before the last one, and that
 * one is one batch. POST /channel/rollback and POST /proposal/approve find their own difference and
 * needs, and share steps 3 and 4.
 */

import { ApiError } from "../../errors";
import { differenceOf } from "./difference";
import { needsOf, permissionsOf } from "./needs";
import { type ChangeContext, requestOf } from "./reads";
import { requireNeeds } from "./requirements";
import { type ChangedChannel, runBatch } from "./run";
import { statementsOf } from "./statements";

export const PROMOTION_ERRORS = [
	"approval_required",
	"bundle_from_preview",
	"bundle_incompatible",
	"bundle_of_another_preview",
	"bundle_not_ready",
	"bundle_not_signed",
	"channel_changed",
	"channel_delta_required",
	"channel_protected",
	"channel_zip_required",
	"recent_sign_in_required",
] as const;

export const CHANNEL_CHANGE_PERMISSIONS = [
	"app.create_channel",
	"channel.update_settings",
	"channel.promote_bundle",
	"channel.read",
	"app.update_user_roles",
] as const;

export const CHANNEL_CHANGE_ERRORS = [
	"bundle_from_preview",
	"bundle_incompatible",
	"bundle_not_found",
	"bundle_not_ready",
	"bundle_not_signed",
	"bundle_of_another_preview",
	"channel_changed",
	"channel_delta_required",
	"channel_has_no_platform",
	"channel_not_found",
	"channel_name_reserved",
	"channel_protected",
	"channel_zip_required",
	"missing_rollout_version",
	"rollout_running",
	"approval_required",
	"preview_channel_must_be_private",
	"preview_closed",
	"quota_exceeded",
	"setting_not_supported",
] as const;

/** The permissions that the request needs, given the channel. */
export function channelChangePermissions(context: Pick<ChangeContext, "input" | "loaded">) {
	const request = requestOf(context);
	return permissionsOf(differenceOf(request), request.channel);
}

/**
 * Creates or changes the channel, or proposes the change if the channel requires approval. Writes
 * nothing if no value differs.
 * @param action audit action for an existing channel
 */
export async function changeChannel(
	context: ChangeContext,
	action: "channel.update" | "channel.promote" = "channel.update",
): Promise<ChangedChannel> {
	// 1. What differs
	const difference = differenceOf(requestOf(context));
	if (difference instanceof ApiError) throw difference;
	// 2. What it needs, and whether the caller has it
	const needs = needsOf(difference);
	const allowed = await requireNeeds(context, difference, needs);
	// 3. The statements
	const batch = statementsOf(context, difference, needs, allowed, action);
	// 4. Run
	return runBatch(context, batch);
}
