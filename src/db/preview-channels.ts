/**
 * Rules for channels of previews, which a preview key or POST /preview creates: private, with a name that no other channel had, open to every store build, and bound to
 * the key that created them.
 */
import type { AppId, OwnWorkOnly } from "../authz/decide";
import type { Deps } from "../deps";
import { ApiError, serviceUnavailable } from "../errors";
import { type Holder, insertChannelBinding } from "./api-keys";
import {
	countDevicesNaming,
	MOST_DEVICES_NAMING,
	type NameRefusal,
	type PreviewNameRow,
	refusalOfName,
} from "./channel-names";
import type { ChannelValues } from "./channels";
import { tryTelemetry } from "./telemetry-reads";

/**
 * A preview must reach testers on any store build, and its version says nothing about the store build that it needs. So a preview channel
 * starts without the limits of other channels; a value in the request wins.
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

/** @throws {ApiError} for a public channel or a name that previews may not use */
export function refusePreviewName(
	body: { readonly channel: string; readonly public?: boolean | undefined },
	row: PreviewNameRow,
	nowMs: number,
): void {
	if (body.public === true) {
		throw new ApiError(
			"preview_channel_must_be_private",
			"public: a preview role creates private channels only; leave it out.",
		);
	}
	const reason = refusalOfName(row, body.channel, nowMs);
	if (reason !== undefined) throw nameRefused(reason, row);
}

export function nameRefused(reason: NameRefusal, { preview_channel_prefix: prefix }: PreviewNameRow): ApiError {
	return new ApiError("channel_name_reserved", `channel: ${NAME_REFUSALS[reason](prefix)}`, {
		moreInfo: { reason, ...(prefix === null ? {} : { preview_channel_prefix: prefix }) },
	});
}

const NAME_REFUSALS: Readonly<Record<NameRefusal, (prefix: string | null) => string>> = {
	default_upload_channel: () =>
		"this is the app's default upload channel, which cannot be a preview; choose another name.",
	preview_channel_prefix: (prefix) =>
		`preview channels of this app begin with "${prefix}"; choose such a name, or have preview_channel_prefix changed.`,
	used_by_a_channel: () =>
		"another channel has or had this name, and devices may still name it; choose another name for the preview.",
	named_by_devices: () =>
		`more than ${MOST_DEVICES_NAMING} devices name this channel as their default; choose another name for the preview.`,
};

/** @throws {ApiError} `service_unavailable` if the devices cannot be counted, because the name may be that of a fleet */
export async function withDevicesNaming<Row extends PreviewNameRow>(
	deps: Deps,
	appId: AppId,
	row: Row,
	name: string,
	nowMs: number,
): Promise<Row> {
	if (row.telemetry === null) return row;
	const rows = await tryTelemetry(deps, row.telemetry, countDevicesNaming(appId, name, nowMs));
	if (rows === undefined) throw serviceUnavailable(new Error(`${row.telemetry} does not answer`));
	return { ...row, devices: rows[0]?.devices ?? 0 };
}
