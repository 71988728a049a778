/**
 * Conditions that the batches of channels share, with their errors. A guard aborts its whole batch,
 * so a channel that another request changed in the meantime is never half written.
 */
import type { AppId, ChannelId } from "../../authz/decide";
import { bundlesHaveForm, type ChannelRow, type ChannelValues, channelExists } from "../../db/channels";
import { guard, onUnique, type Statement } from "../../db/client";
import { ApiError } from "../../errors";
import { channelNotFound } from "../../http/scope";
import { protectionGuards } from "./protection";

/** The channel exists, and its protection is as it was read. */
export const channelGuards = (appId: AppId, channelId: ChannelId, channel: ChannelRow): Statement[] => [
	guard(channelExists(appId, channelId), channelNotFound),
	...protectionGuards(appId, channelId, channel),
];

/** A write that may collide with another channel that becomes public. */
export const onlyPublic = <Row>(statement: Statement<Row>): Statement<Row> =>
	onUnique(statement, "channels.app_id", () => channelChanged("changed at the same time as another one became public"));

/** After a write: the bundles of the channel have the form that its update package demands. */
export function formGuards(values: ChannelValues, appId: AppId, channel: ChannelId | { readonly name: string }) {
	const concerns = ["version_id", "rollout_version_id", "update_package"] as const;
	if (concerns.every((column) => values[column] === undefined)) return [];
	return (["zip", "delta"] as const).map((form) =>
		guard(bundlesHaveForm(appId, channel, form), () => formRequired(form)),
	);
}

/** The stock CLI prints these messages. */
export function formRequired(form: "zip" | "delta"): ApiError {
	return form === "zip"
		? new ApiError(
				"channel_zip_required",
				"The channel's updatePackage asks for a zip and a bundle on it has none; upload the bundle with its zip, or set updatePackage to all.",
			)
		: new ApiError(
				"channel_delta_required",
				"The channel's updatePackage asks for single files and a bundle on it has none; upload the bundle with --delta, or set updatePackage to all.",
			);
}

export function channelChanged(what: string): ApiError {
	return new ApiError("channel_changed", `The channel ${what}; read it again and repeat the request.`);
}

export const changedByAnother = () => channelChanged("was changed by another request");
