/**
 * GET /statistics/app/:app_id/channels: the devices on each of the named channels now. It reads a
 * bounded number of entries of an index for each channel, and says where it stopped.
 */
import * as v from "valibot";
import { devicesByChannel } from "../../db/channel-devices";
import { MOST_COUNTED } from "../../db/device-list";
import { openTelemetry } from "../../db/telemetry-reads";
import { endpoint } from "../../http/endpoint";
import { PAGE_SIZE } from "../../http/schemas";
import { appScope } from "../../http/scope";

const IDS = /^[1-9]\d{0,14}(,[1-9]\d{0,14})*$/;
const channelIds = v.pipe(
	v.string(),
	v.regex(IDS, "must be ids of channels, as in GET /channel, separated by commas"),
	v.transform((list) => [...new Set(list.split(",").map(Number))]),
	v.maxLength(PAGE_SIZE, `must be at most ${PAGE_SIZE} ids`),
);

export const channelDevices = endpoint({
	method: "GET",
	path: "/statistics/app/:app_id/channels",
	tag: "Statistics",
	summary: "Count the devices on channels of an app",
	description: [
		`\`channel_ids\` are up to ${PAGE_SIZE} \`id\`s of GET /channel, separated by commas.`,
		"A device counts for the channel that served its last check, as in GET /device with `totals=true`.",
		`\`devices\` counts up to ${MOST_COUNTED}; \`more\` is true if there are more.`,
	],
	access: { permission: "app.read", scope: appScope("params.app_id") },
	query: v.object({ channel_ids: channelIds }),
	response: v.array(v.strictObject({ channel_id: v.number(), devices: v.number(), more: v.boolean() })),
	errors: [],
	example: { query: { channel_ids: "7,8" }, response: [{ channel_id: 7, devices: 311, more: false }] },
	async handle({ deps, input: { query }, scope, scopeRow }) {
		const counting = devicesByChannel(scope.appId, query.channel_ids);
		const [{ rows }] = await openTelemetry(deps, scopeRow.telemetry_binding).batch([counting]);
		return rows.map(({ channel_id, devices }) => ({
			channel_id,
			devices: Math.min(devices, MOST_COUNTED),
			more: devices > MOST_COUNTED,
		}));
	},
});
