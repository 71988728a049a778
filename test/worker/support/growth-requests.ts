/**
 * Requests of lists and figures with parameters, for the rows that they read in a large
 * installation. Those of every endpoint without parameters are in `REQUESTS`.
 */
import type { Prepare } from "./request-parts";

type Query = Readonly<Record<string, string>>;
const list =
	(path: string, query: Query): Prepare =>
	async (_, app) => ({ path, query: { app_id: app.appId, ...query } });
const ofApp =
	(path: string, query: Query): Prepare =>
	async (_, app) => ({ path: `/app/${app.appId}/${path}`, query });
const ofOrg =
	(path: string, query: Query): Prepare =>
	async ({ orgId }) => ({ path, query: { orgId, ...query } });

/** The devices of the channels of the first page. */
const devicesOfChannels: Prepare = async (world, app) => {
	const query = { app_id: app.appId };
	const { body } = await world.request("GET", "/channel", { key: world.adminKey, query });
	const ids = body.map(({ id }: { readonly id: number }) => id).join(",");
	return { path: `/statistics/app/${app.appId}/channels`, query: { channel_ids: ids } };
};

/** The newest release of a channel. */
const release =
	(channel: string): Prepare =>
	async (world, app) => {
		const query = { app_id: app.appId, channel };
		const { body } = await world.request("GET", "/channel/history", { key: world.adminKey, query });
		return { path: "/release", query: { ...query, id: String(body[0]?.release_id) } };
	};

const bundleOrders = ["created", "version", "size"].flatMap((sort) =>
	["asc", "desc"].map((order) => ({ totals: "true", sort, order })),
);
const bundleStates = ["live", "unused", "preview", "unfinished", "deleted"].map((state) => ({ totals: "true", state }));
const deviceOrders = ["last_seen", "name"].flatMap((sort) =>
	["asc", "desc"].map((order) => ({ totals: "true", sort, order })),
);

const named = (method: string, requests: readonly (readonly [string, Query])[]) =>
	requests.map(([path, query]) => [`${method} ${path}`, query, list(path, query)] as const);

/** The last page that the smaller installation of the bench has. */
const DEEP = "9";

const LISTS = [
	...named("GET", [
		["/bundle", {}],
		["/bundle", { page: DEEP }],
		["/bundle", { totals: "true" }],
		["/bundle", { totals: "true", page: DEEP }],
		["/bundle", { totals: "true", search: "not found" }],
		["/bundle", { totals: "true", search: "notes of 7" }],
		...[...bundleOrders, ...bundleStates].map((query) => ["/bundle", query] as const),
		["/bundle", { version: "2.0.1" }],
		["/channel", {}],
		["/channel", { page: DEEP }],
		["/channel", { channel: "channel-7" }],
		["/device", {}],
		["/device", { page: DEEP }],
		["/device", { channel: "channel-7" }],
		["/device", { version: "2.0.1" }],
		["/device", { platform: "ios" }],
		["/device", { search: "not found" }],
		["/device", { totals: "true" }],
		["/device", { totals: "true", search: "not found" }],
		["/device", { totals: "true", channel: "channel-7" }],
		...deviceOrders.map((query) => ["/device", query] as const),
		["/device/events", {}],
		["/device/events", { version: "9.9.9" }],
		["/preview", {}],
		["/proposal", {}],
		["/proposal", { channel: "channel-7" }],
		["/channel/history", { channel: "channel-7" }],
		["/channel/rollout", { channel: "channel-7" }],
		["/publisher", {}],
	]),
	["GET /release", { id: "2.0.8" }, list("/release", { channel: "channel-7", id: "2.0.8" })] as const,
	...["channel-7", "channel-99", "channel-100"].map(
		(channel) => ["GET /release", { channel }, release(channel)] as const,
	),
	...[{}, { channel: "channel-7" }, { actor: "nobody" }, { version: "2.0.1" }].map(
		(query) => ["GET /app/:app_id/releases", query, ofApp("releases", query as Query)] as const,
	),
	...[{}, { action: "nothing.found" }, { target: "nothing" }, { actor: "nobody" }].map(
		(query) => ["GET /app/:app_id/audit", query, ofApp("audit", query as Query)] as const,
	),
	...[{}, { action: "nothing.found" }, { target: "nothing" }, { actor: "nobody" }, { page: DEEP }].map(
		(query) => ["GET /organization/audit", query, ofOrg("/organization/audit", query as Query)] as const,
	),
	...["/organization/members", "/organization/groups", "/organization/roles", "/webhook", "/apikey", "/app"].map(
		(path) => [`GET ${path}`, { page: "0" }, ofOrg(path, { page: "0" })] as const,
	),
	["GET /statistics/app/:app_id/channels", { channel_ids: "a page" }, devicesOfChannels] as const,
	[
		"GET /statistics/org/:org_id",
		{ breakdown: "true" },
		((world) =>
			Promise.resolve({ path: `/statistics/org/${world.orgId}`, query: { breakdown: "true" } })) satisfies Prepare,
	],
] as const;

/** `METHOD path?parameters` and the request. */
export const GROWTH_REQUESTS: readonly (readonly [name: string, prepare: Prepare])[] = LISTS.map(
	([name, query, prepare]) => {
		const text = new URLSearchParams(query as Query).toString();
		return [text === "" ? name : `${name}?${text}`, prepare];
	},
);
