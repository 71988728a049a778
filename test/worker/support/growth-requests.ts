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

/** The approvers of a channel that requires approval, of whom an organization has many. */
const approvers: Prepare = async (world, app) => {
	const query = { app_id: app.appId, channel: "channel-7" };
	const body = { ...query, protected: true, requires_approval: true, promoters: ["org_member", "org_super_admin"] };
	await world.request("POST", "/channel", { key: world.adminKey, body });
	return { path: "/channel/approvers", query };
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

/** The last page of the installation of the test, and one behind it. */
const LAST = "29";
const BEHIND = "999";
const OLD = "2020-01-01";
const totals = (path: string, queries: readonly Query[]) =>
	queries.map((query) => [path, { totals: "true", ...query }] as const);
/** Every two filters together: what one of them finds by its index, the other one may have to look for. */
const pairsOf = (filters: readonly Query[]): readonly Query[] =>
	filters.flatMap((one, index) => filters.slice(index + 1).map((other) => ({ ...one, ...other })));

const COMBINATIONS = [
	...totals("/bundle", [
		{ page: LAST },
		{ page: BEHIND, sort: "size" },
		...bundleStates.flatMap((state) =>
			["created", "version", "size"].map((sort) => ({ ...state, sort, order: "asc", page: "1" })),
		),
		...bundleStates.map((state) => ({ ...state, search: "not found" })),
		...["version", "size"].map((sort) => ({ sort, search: "notes of 7" })),
	]),
	["/bundle", { limit: "1", page: BEHIND }],
	["/channel", { page: LAST }],
	["/channel", { page: BEHIND }],
	...totals("/device", [
		{ page: "20" },
		{ page: "40", sort: "name" },
		{ page: BEHIND },
		...pairsOf([
			{ channel: "channel-7" },
			{ version: "2.0.1" },
			{ platform: "ios" },
			{ key_id: "MIIBCgKCAQEAnothing0" },
			{ seen_from: "2026-11-20" },
			{ seen_to: OLD },
			{ sort: "name", order: "desc" },
		]),
		{ channel: "channel-7", search: "not found" },
		{ version: "9.9.9", sort: "name" },
		{ seen_from: OLD, seen_to: OLD },
	]),
	["/device", { custom_id: "nobody" }],
	["/device", { device_id: "00000000-0000-4000-8000-000000000000" }],
	...[
		{ device_id: "00000000-0000-4000-8000-000000000000" },
		{ search: "00000000" },
		{ kind: "crash" },
		{ kind: "crash", platform: "electron", channel: "channel-7", version: "9.9.9" },
		{ from: OLD, to: "2020-01-02" },
		{ limit: "200", kind: "override" },
	].map((query) => ["/device/events", query] as const),
	["/channel/history", { channel: "channel-7", page: BEHIND }],
	...["open", "closed"].map((state) => ["/preview", { state, page: LAST }] as const),
	["/preview", { repository: "acme/nothing", number: "1" }],
	["/proposal", { channel: "channel-7", page: BEHIND }],
	["/publisher", { page: BEHIND }],
	["/bundle/files", { version: "2.0.1", search: "nothing" }],
] as const;

const auditFilters: readonly Query[] = [
	{ action: "channel.update" },
	{ target: "nothing" },
	{ actor: "nobody" },
	{ search: "nothing" },
	{ from: OLD },
	{ to: OLD },
	{ page: "40" },
];

const LISTS = [
	...named("GET", COMBINATIONS),
	...pairsOf([
		{ channel: "channel-7" },
		{ actor: "nobody" },
		{ version: "2.0.1" },
		{ kind: "rollback" },
		{ before: "1" },
	]).map((query) => ["GET /app/:app_id/releases", query, ofApp("releases", query)] as const),
	...[...auditFilters, ...pairsOf(auditFilters)].flatMap(
		(query) =>
			[
				["GET /app/:app_id/audit", query, ofApp("audit", query)],
				["GET /organization/audit", query, ofOrg("/organization/audit", query)],
			] as const,
	),
	...["/organization/members", "/organization/groups", "/organization/members/bindings"].map(
		(path) => [`GET ${path}`, { page: BEHIND }, ofOrg(path, { page: BEHIND })] as const,
	),
	["GET /apikey", { unused_for_days: "30" }, ofOrg("/apikey", { unused_for_days: "30" })] as const,
	["GET /app", { page: LAST }, ofOrg("/app", { page: LAST })] as const,
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
	["GET /channel/approvers", { channel: "channel-7" }, approvers] as const,
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
