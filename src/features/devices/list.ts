/**
 * GET /device/list: devices by their last report, with their number, found by parts of their ids. For people; GET /device lists all devices
 * of an app of any size.
 */
import * as v from "valibot";
import { appByPublicId } from "../../db/apps";
import { channelByName } from "../../db/channels";
import { DEVICE_ORDERS, type ListFilter, listedDevices, MOST_LISTED } from "../../db/device-list";
import { joinedColumns } from "../../db/devices";
import { openTelemetry } from "../../db/telemetry-reads";
import { endpoint } from "../../http/endpoint";
import { fromTime, optional, PAGE_SIZE, pageNumber, publicAppId, text, toTime } from "../../http/schemas";
import { appScope } from "../../http/scope";
import { deviceAnswer, deviceSchema, EXAMPLE_DEVICE_RECORD } from "./record";

const listQuery = v.object({
	app_id: publicAppId,
	page: pageNumber,
	search: optional(v.pipe(text(128), v.toLowerCase())),
	channel: optional(text(128)),
	version: optional(text(128)),
	platform: optional(v.picklist(["ios", "android", "electron"], "must be ios, android or electron")),
	key_id: optional(text(64)),
	seen_from: optional(fromTime),
	seen_to: optional(toTime),
	sort: optional(v.picklist(DEVICE_ORDERS, `must be one of ${DEVICE_ORDERS.join(", ")}`)),
	order: optional(v.picklist(["asc", "desc"], "must be asc or desc")),
});
type Query = v.InferOutput<typeof listQuery>;

function filterOf(
	{ search, platform, version, key_id, seen_from, seen_to }: Query,
	searchesCustomIds: boolean,
): Omit<ListFilter, "channelId"> {
	return { search, searchesCustomIds, platform, version, keyId: key_id, seenFromMs: seen_from, seenToMs: seen_to };
}

/** The last seen devices come first; names, versions and platforms go from A to Z. */
const orderOf = ({ sort = "last_seen", order }: Query) => ({
	order: sort,
	isDescending: order === undefined ? sort === "last_seen" : order === "desc",
});

export const listRecentDevices = endpoint({
	method: "GET",
	path: "/device/list",
	tag: "Devices",
	summary: "List the devices of an app by their last report, with their number",
	description: `\`search\` finds devices by a part of their \`device_id\` or \`custom_id\`. \`channel\` is the channel that served the last check. The list has the order of \`last_seen_at\`, newest first, unless \`sort\` (and \`order\`) says otherwise: \`name\` is the custom id, or the id of a device without one. \`total\` is the number of devices that it finds. It reads at most ${MOST_LISTED.toLocaleString("en-US")} devices of the app; if the app has more, \`complete\` is false, and GET /device lists all of them by their id. \`custom_id_devices\` is not counted here.`,
	access: { permission: "app.read_devices", scope: appScope("query.app_id") },
	query: listQuery,
	response: v.strictObject({ total: v.number(), complete: v.boolean(), devices: v.array(deviceSchema) }),
	errors: [],
	example: {
		query: { app_id: "com.example.app", search: "b5a3" },
		response: { total: 1, complete: true, devices: [EXAMPLE_DEVICE_RECORD] },
	},
	load: ({ query: { app_id, channel } }) => ({
		app: appByPublicId(app_id),
		channel: channel === undefined ? undefined : channelByName(app_id, channel),
	}),
	async handle({ deps, db, loaded, input, scope, scopeRow }) {
		const { query } = input;
		const hidesCustomIds = loaded.app[0]?.allow_device_custom_id === 0;
		const channelId = query.channel === undefined ? undefined : (loaded.channel[0]?.id ?? null);
		const filter = { ...filterOf(query, !hidesCustomIds), channelId };
		const page = listedDevices(scope.appId, filter, orderOf(query), PAGE_SIZE, query.page * PAGE_SIZE);
		const [{ rows }] = await openTelemetry(deps, scopeRow.telemetry_binding).batch([page]);
		const joined = rows.length === 0 ? [] : (await db.batch([joinedColumns(scope.appId, rows)]))[0].rows;
		const devices = rows.flatMap((row, index) => {
			const columns = joined[index];
			if (columns === undefined) return [];
			const device = { ...row, ...columns };
			return [deviceAnswer(scopeRow.app_id, hidesCustomIds ? { ...device, custom_id: null } : device)];
		});
		return { total: rows[0]?.total ?? 0, complete: (rows[0]?.listed ?? 0) < MOST_LISTED, devices };
	},
});
