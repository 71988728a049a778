/**
 * GET /statistics/app/:app_id/channels: the devices on each channel now. It reads an index of the
 * telemetry database, a bounded number of rows for each channel, and says where it stopped.
 */
import * as v from "valibot";
import { devicesByChannel, MOST_COUNTED_CHANNELS, MOST_COUNTED_DEVICES } from "../../db/channel-devices";
import { openTelemetry } from "../../db/telemetry-reads";
import { endpoint } from "../../http/endpoint";
import { appScope } from "../../http/scope";

export const channelDevices = endpoint({
	method: "GET",
	path: "/statistics/app/:app_id/channels",
	tag: "Statistics",
	summary: "Count the devices on each channel of an app",
	description: `A device counts for the channel that served its last check, as in GET /device with \`totals=true\`. \`channel_id\` is the \`id\` of the channel in GET /channel, or that of a deleted channel. Channels without devices are left out. \`devices\` counts up to ${MOST_COUNTED_DEVICES.toLocaleString("en-US")}; \`more\` is true at that limit. The answer has at most ${MOST_COUNTED_CHANNELS.toLocaleString("en-US")} channels.`,
	access: { permission: "app.read", scope: appScope("params.app_id") },
	response: v.array(v.strictObject({ channel_id: v.number(), devices: v.number(), more: v.boolean() })),
	errors: [],
	example: { response: [{ channel_id: 7, devices: 311, more: false }] },
	async handle({ deps, scope, scopeRow }) {
		const [{ rows }] = await openTelemetry(deps, scopeRow.telemetry_binding).batch([devicesByChannel(scope.appId)]);
		return rows.map(({ channel_id, devices }) => ({
			channel_id,
			devices,
			more: devices === MOST_COUNTED_DEVICES,
		}));
	},
});
