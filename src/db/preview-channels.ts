/**
 * Rules for channels of previews, which a preview key or POST /preview creates: private, with a
 * name that no other channel had, open to every store build, and bound to the key that created
 * them.
 */
import type { AppId, OwnWorkOnly } from "../authz/decide";
import type { Caller } from "../authz/own-work";
import { MOST_DEVICES_BY_NAME } from "../domain/ci/preview-names";
import { type ApiError, fieldError } from "../errors";
import { type CountedNameRow, type NameRefusal, type PreviewNameRow, refusalOfName } from "./channel-names";
import type { ChannelValues } from "./channels";
import { type Holder, insertChannelBinding } from "./role-bindings";

/**
 * A preview must reach testers on any store build, and its version says nothing about the store
 * build that it needs. So a preview channel starts without the limits of other channels; a value in
 * the request wins.
 */
export const PREVIEW_CHANNEL_SETTINGS = {
	disable_auto_update: "none",
	disable_auto_update_under_native: 0,
} as const satisfies ChannelValues;

/** The binding of the creator on a preview channel. */
export function previewBinding(
	limit: OwnWorkOnly | undefined,
	binding: {
		readonly id: string;
		readonly holder: Holder;
		readonly orgId: string;
		readonly appId: AppId;
		readonly channelName: string;
		readonly createdAtMs: number;
	},
) {
	const role = limit?.roleOnCreatedChannel;
	if (limit === undefined || role === undefined) return [];
	return [insertChannelBinding({ ...binding, role }, binding.channelName, limit.bindingId)];
}

/**
 * The state of a new preview channel: one that a fleet's builds name already serves nobody by its
 * name.
 */
export const namingOf = ({ devices }: CountedNameRow, nowMs: number): ChannelValues =>
	devices > MOST_DEVICES_BY_NAME ? { named_by_fleet_at_ms: nowMs } : {};

/**
 * For a caller limited to own work that creates a channel.
 * @throws {ApiError} for a public channel, for a job of a pull request, or for a name that previews
 * may not use
 */
export function refusePreviewName(
	body: { readonly channel: string; readonly public?: boolean | undefined },
	row: PreviewNameRow,
	caller: Caller,
): void {
	if (body.public === true) {
		throw fieldError(
			"preview_channel_must_be_private",
			"public",
			"a preview role creates private channels only; leave it out.",
		);
	}
	const reason = refusalOfName(row, body.channel);
	if (reason !== undefined) throw nameRefused(reason, row);
	if (caller.publisher?.limit === undefined) return;
	throw fieldError(
		"permission_denied",
		"channel",
		"the key of a pull request's job has the channel of its own preview and creates no other; POST /preview opens it, and so does an upload of the job.",
		{ moreInfo: { permission: "app.create_channel", scope: "app" } },
	);
}

export function nameRefused(reason: NameRefusal, { preview_channel_prefix: prefix }: PreviewNameRow): ApiError {
	return fieldError("channel_name_reserved", "channel", `${NAME_REFUSALS[reason](prefix)}`, {
		moreInfo: { reason, preview_channel_prefix: prefix },
	});
}

const NAME_REFUSALS: Readonly<Record<NameRefusal, (prefix: string) => string>> = {
	default_upload_channel: () =>
		"this is the app's default upload channel, which cannot be a preview; choose another name.",
	preview_channel_prefix: (prefix) =>
		`preview channels of this app begin with "${prefix}"; choose such a name, or have preview_channel_prefix changed with PUT /app/:app_id.`,
	used_by_a_channel: () =>
		"another channel has or had this name, and devices may still name it; choose another name for the preview.",
};
