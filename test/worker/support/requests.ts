/**
 * One request for every endpoint, for the authorization tests. Each entry creates what it needs and
 * returns a request that succeeds with enough rights. A new endpoint needs an entry in the table of
 * its area, `"METHOD path": async (world, app, creators) => ({ path, query?, body? })`, or, if it
 * is public, its name in PUBLIC_ENDPOINTS: the coverage test fails and names it. An entry creates
 * things with the keys in `creators`, because some endpoints are for the creator alone. A request
 * about something smaller than an organization or an app names it in `thing`, so that the tests can
 * delete it first.
 */
import { APP_REQUESTS } from "./app-requests";
import { BUNDLE_REQUESTS } from "./bundle-requests";
import { CAPGO_CLI_REQUESTS } from "./capgo-cli-requests";
import { GROUP_REQUESTS } from "./group-requests";
import { ORGANIZATION_REQUESTS } from "./organization-requests";
import { deviceOf, fresh, type Prepare, uploaded } from "./request-parts";
import { createTestKey, setTestChannel } from "./scene";

/** The requests of all areas, by "METHOD path". */
export const REQUESTS: Readonly<Record<string, Prepare>> = {
	...ORGANIZATION_REQUESTS,
	...GROUP_REQUESTS,
	...APP_REQUESTS,
	...BUNDLE_REQUESTS,
	...CAPGO_CLI_REQUESTS,
};

/**
 * Further requests of the same endpoints that take another path through the code: `"METHOD path": {
 * what: … }`.
 */
export const MORE_REQUESTS: Readonly<Record<string, Readonly<Record<string, Prepare>>>> = {
	"DELETE /organization": {
		"in earnest": async (world) => {
			const made = await world.request("PUT", "/organization", {
				key: world.adminKey,
				body: { name: fresh("doomed") },
			});
			return { path: "/organization", query: { orgId: made.body.id } };
		},
	},
	"PUT /apikey/:id": {
		"regenerating with an overlap": async (world, app) => ({
			path: `/apikey/${(await createTestKey(world, "app_reader", app)).id}`,
			body: { regenerate: true, overlap_seconds: 3600 },
		}),
	},
	"POST /channel": {
		"taking the platforms over": async (world, app) => {
			const { version } = await uploaded(world, app);
			await setTestChannel(world, app, fresh("production"), { public: true });
			return { path: "/channel", body: { app_id: app.appId, channel: fresh("made"), version, public: true } };
		},
	},
	"DELETE /channel": {
		"with its bundle": async (world, app) => {
			const { version } = await uploaded(world, app);
			const channel = fresh("doomed");
			await setTestChannel(world, app, channel, { version });
			return { path: "/channel", query: { app_id: app.appId, channel, delete_bundle: "true" } };
		},
	},
	"DELETE /bundle": {
		"all of them": async (world, app) => {
			await uploaded(world, app);
			await uploaded(world, app);
			return { path: "/bundle", query: { app_id: app.appId, all: "true" } };
		},
	},
	"GET /files/download/:app/:upload/:part": {
		"in part": async (world, app) => {
			const { body } = await world.request("POST", "/updates", { body: await deviceOf(world, app) });
			return { path: body.url, headers: { range: "bytes=2-5" } };
		},
	},
};

/** Lists that stand beside quotas or a total: endpoints by path, with the field of the list. */
export const LIST_FIELDS: Readonly<Record<string, string>> = {
	"/organization/usage": "apps",
	"/device/list": "devices",
	"/bundle/list": "bundles",
	"/webhooks/deliveries": "deliveries",
	"/statistics/org/:org_id": "byApp",
};
