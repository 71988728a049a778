/**
 * GET /device: the devices of an app, in one of two forms. The array has all devices of an app of
 * any size, by their id. With `totals=true` the answer is an object with the devices by their last
 * report and their number, for which it reads a bounded number of devices.
 */
import * as v from "valibot";
import { appByPublicId } from "../../db/apps";
import { channelByName } from "../../db/channels";
import { DEVICE_ORDERS, MOST_COUNTED, MOST_FILTERED } from "../../db/device-list";
import { overrideOf } from "../../db/device-overrides";
import { channelPlaces, type DeviceFilter, type DeviceRow, MOST_SEARCHED, placesOf } from "../../db/devices";
import type { NamedRows } from "../../db/named-reads";
import { REFRESHED_AFTER_DAYS } from "../../domain/statistics/device-record";
import { endpoint } from "../../http/endpoint";
import { pageBounds, pageReply } from "../../http/paging";
import {
	booleanText,
	deviceIdOfRequest,
	fromTime,
	optional,
	PAGE_SIZE,
	pageNumber,
	publicAppId,
	text,
	toTime,
} from "../../http/schemas";
import { type AppScopeRow, appScope } from "../../http/scope";
import {
	deviceAnswer,
	deviceNotFound,
	deviceSchema,
	EXAMPLE_DEVICE_RECORD,
	lastFailure,
	listedDeviceSchema,
} from "./record";
import { type Reading, readDevice, readDevices, readListedDevices } from "./reported";

/** Parameters of both paths. */
const listFields = {
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
};

const query = v.pipe(
	v.object({
		...listFields,
		device_id: optional(deviceIdOfRequest),
		custom_id: optional(text()),
		totals: optional(booleanText),
	}),
	v.forward(
		v.check(
			({ sort, totals }) => sort === undefined || totals === true,
			"needs totals=true, because a sorted list may not have all devices of a large app and says so",
		),
		["sort"],
	),
);
type Query = v.InferOutput<typeof query>;

export const deviceListSchema = v.union([v.array(deviceSchema), deviceSchema]);
export const deviceTotalsSchema = v.strictObject({
	total: v.number(),
	complete: v.boolean(),
	/** With any platform and with each. */
	platforms: v.nullable(
		v.strictObject({ all: v.number(), ios: v.number(), android: v.number(), electron: v.number() }),
	),
	devices: v.array(listedDeviceSchema),
});

const load = ({ app_id, device_id, channel, totals }: Query) => ({
	override: device_id === undefined ? undefined : overrideOf(app_id, device_id),
	app: appByPublicId(app_id),
	channel: totals === true && channel !== undefined ? channelByName(app_id, channel) : undefined,
});
type Loaded = NamedRows<ReturnType<typeof load>>;

const hidesCustomIds = ({ app }: Loaded) => app[0]?.allow_device_custom_id === 0;

function filterOf(
	{ channel, version, platform, custom_id, key_id, seen_from, seen_to, search }: Query,
	loaded: Loaded,
): DeviceFilter {
	return {
		channel,
		version,
		platform,
		search,
		customId: custom_id,
		keyId: key_id,
		seenFromMs: seen_from,
		seenToMs: seen_to,
		searchesCustomIds: !hidesCustomIds(loaded),
	};
}

const shownIn =
	({ app_id }: AppScopeRow, loaded: Loaded) =>
	(row: DeviceRow) =>
		deviceAnswer(app_id, hidesCustomIds(loaded) ? { ...row, custom_id: null } : row);

const NONE = { all: 0, ios: 0, android: 0, electron: 0 };

/** No device is found by a custom id that is hidden. */
const findsNone = ({ custom_id }: Query, loaded: Loaded) => custom_id !== undefined && hidesCustomIds(loaded);

async function pageById(reading: Reading, query: Query, loaded: Loaded): Promise<DeviceRow[]> {
	if (findsNone(query, loaded)) return [];
	const { db, appId } = reading;
	const { channel, page } = query;
	const places =
		channel === undefined ? undefined : placesOf((await db.batch([channelPlaces(appId, channel)]))[0].rows[0]);
	const { limit, offset } = pageBounds(page);
	return readDevices(reading, filterOf(query, loaded), places, limit, offset);
}

/** The answer with totals. */
async function totalsOf(
	reading: Reading,
	query: Query,
	loaded: Loaded,
	scopeRow: AppScopeRow,
): Promise<v.InferOutput<typeof deviceTotalsSchema>> {
	if (findsNone(query, loaded)) return { total: 0, complete: true, platforms: NONE, devices: [] };
	const channelId = query.channel === undefined ? undefined : (loaded.channel[0]?.id ?? null);
	const offset = query.page * PAGE_SIZE;
	const found = await readListedDevices(reading, filterOf(query, loaded), channelId, query, PAGE_SIZE, offset);
	const { total, isComplete, platforms, devices } = found;
	const shown = shownIn(scopeRow, loaded);
	const listed = devices.map((row) => ({ ...shown(row), last_failure: lastFailure(row) }));
	return { total, complete: isComplete, platforms, devices: listed };
}

export const listDevices = endpoint({
	method: "GET",
	path: "/device",
	tag: "Devices",
	summary: "List the devices of an app by their id or their last report, or show one",
	description: [
		"`channel` in an answer is the channel that an operator set (`override_channel`), else the one that",
		"served the last check.",
		"`custom_id` is the id that the app gave its device, compared exactly.",
		"It is not verified, because any device can report any id: `custom_id_devices` is the number of",
		"devices that report the same one (10 means 10 or more), and `custom_id_first_reported_at` and",
		"`custom_id_last_changed_at` are the times of this device's reports.",
		"Settings for one device use only its `device_id`.",
		"An app with `allow_device_custom_id: false` shows no custom ids.",
		"`key_id` finds devices with this public key, `search` those whose id or custom id has this part, in",
		"any case: among the 2,500 devices that reported last, and those whose id begins with it.",
		`\`last_seen_at\` may be up to ${REFRESHED_AFTER_DAYS} days before the last report of a device that changes nothing.`,
		"",
		"With `totals=true` the answer is `{total, complete, platforms, devices}`, in the order of `last_seen_at`,",
		"newest first, unless `sort` (and `order`) says otherwise: `name` is the custom id, or the id",
		"of a device without one.",
		"`total` is the number of devices that the filters find, and `platforms` the number with each platform,",
		"whatever `platform` asks for; null if the app has more devices than are read.",
		`Without a filter, \`total\` counts up to ${MOST_COUNTED} devices from the page on.`,
		`With filters or another order, this form reads at most ${MOST_FILTERED} devices of the channel,`,
		"version, key or custom id, or those seen last; with `search` at most",
		`${MOST_SEARCHED.toLocaleString("en-US")}, and those of the app whose id begins with the text.`,
		"If there are more, `complete` is false, and the list without `totals` has all of them.",
		"Its `channel` parameter is the channel that served the last check, and it does not count",
		"`custom_id_devices`.",
	],
	access: { permission: "app.read_devices", scope: appScope("query.app_id") },
	query,
	response: v.union([...deviceListSchema.options, deviceTotalsSchema]),
	errors: ["device_not_found"],
	example: { query: { app_id: "com.example.app" }, response: [EXAMPLE_DEVICE_RECORD] },
	load: ({ query }) => load(query),
	async handle({ deps, db, loaded, input: { query }, scope, scopeRow, request, origin }) {
		const reading = { deps, db, appId: scope.appId, binding: scopeRow.telemetry_binding };
		const shown = shownIn(scopeRow, loaded);
		if (query.device_id !== undefined) {
			const isHidden = findsNone(query, loaded);
			const [row] = isHidden ? [] : await readDevice(reading, query.device_id, loaded.override[0]);
			if (row === undefined) throw deviceNotFound();
			return shown(row);
		}
		if (query.totals === true) return totalsOf(reading, query, loaded, scopeRow);
		return pageReply({ request, origin }, query.page, await pageById(reading, query, loaded), shown);
	},
});

export const listRecentDevices = endpoint({
	method: "GET",
	path: "/device/list",
	tag: "Devices",
	summary: "List the devices of an app by their last report, with their number",
	deprecated: "use GET /device with `totals=true`, which answers alike. The release after 1.0 removes this path.",
	access: { permission: "app.read_devices", scope: appScope("query.app_id") },
	query: v.object(listFields),
	response: deviceTotalsSchema,
	errors: [],
	example: {
		query: { app_id: "com.example.app", search: "b5a3" },
		response: {
			total: 1,
			complete: true,
			platforms: { all: 1, ios: 0, android: 1, electron: 0 },
			devices: [{ ...EXAMPLE_DEVICE_RECORD, last_failure: null }],
		},
	},
	load: ({ query }) => load({ ...query, totals: true }),
	async handle({ deps, db, loaded, input: { query }, scope, scopeRow }) {
		const reading = { deps, db, appId: scope.appId, binding: scopeRow.telemetry_binding };
		return totalsOf(reading, query, loaded, scopeRow);
	},
});
