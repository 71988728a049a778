/**
 * Services of Capgo's cloud that this server does not have. Requests to them are answered in a
 * sentence instead of as an unknown path. No data is read, so these are not endpoints and need no
 * key.
 */
import { ApiError } from "../../errors";

const ABSENT: readonly (readonly [path: RegExp, sentence: string])[] = [
	[
		/^\/build(\/|$)/,
		"This server builds no native apps; build them in your CI, and upload their web bundles with POST /bundle.",
	],
	[
		/^\/notifications(\/|$)/,
		"This server sends no push notifications; devices find an update at their next check, and POST /webhook reports events to your own service.",
	],
	[
		/^\/replication(\/|$)/,
		"This server has no replicas of its database to report on; GET /service/status shows its state.",
	],
	[/^\/plugin_regions(\/|$)/, "This server has one address for all regions: send device requests to it."],
	[/^\/translation(\/|$)/, "This server translates nothing."],
	[
		/^\/private\/(role_bindings|roles)(\/|$)/,
		"This server lists roles with GET /organization/roles, and gives them with PUT /organization/members, POST /organization/members/bindings, POST /organization/groups/:id/bindings and PUT /apikey/:id.",
	],
	[
		/^\/app\/store-metadata$/,
		"This server reads no store pages; set ios_store_url and android_store_url with PUT /app/:app_id.",
	],
];

/** The error for a request to an absent service; undefined for every other path. */
export function absentService(path: string): ApiError | undefined {
	const found = ABSENT.find(([pattern]) => pattern.test(path.replace(/\/$/, "")));
	return found === undefined ? undefined : new ApiError("not_on_this_server", found[1]);
}
