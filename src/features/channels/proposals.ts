/**
 * GET /proposal: promotions to protected channels that wait for approval, with their effect on
 * devices and the files that differ.
 */

import * as v from "valibot";
import { holds } from "../../authz/decide";
import { mayApprove } from "../../authz/promoters";
import type { ChannelValues } from "../../db/channels";
import { decidedChannels } from "../../db/decided-channels";
import { type ComparableBundle, type ManifestDifference, type ProposalRow, proposalsPage } from "../../db/proposals";
import { EFFECT_DAYS } from "../../domain/defaults";
import { type Context, endpoint } from "../../http/endpoint";
import { pageBounds, pageReply } from "../../http/paging";
import {
	channelName,
	nullableRfc3339,
	nullableTime,
	optional,
	pageNumber,
	publicAppId,
	rfc3339,
	time,
	uuid,
} from "../../http/schemas";
import { type AppScopeRow, appScope } from "../../http/scope";
import { bundleDifference, differenceReads, differenceSchema, NOT_COMPARED, type ZipReader } from "./bundle-difference";
import { NO_PLATFORMS } from "./difference";
import { effectOf, tryReported } from "./effect";
import { newBundles, touchesRollout } from "./values";

/** Waiting proposals whose effect a list computes; a request by `id` computes that of any other. */
const MOST_EFFECTS = 3;
/**
 * Devices that a list of all channels judges; a request for one channel or one proposal judges as
 * many as POST /channel/what_if.
 */
const LISTED_DEVICES = 50;
/** The effect counts devices that were seen in this many days. */

const person = v.strictObject({
	type: v.picklist(["api_key", "user"]),
	id: v.string(),
	name: v.nullable(v.string()),
});

const proposalSchema = v.strictObject({
	id: v.string(),
	channel: v.string(),
	channel_id: v.number(),
	state: v.picklist(["pending", "approved", "rejected", "superseded", "withdrawn", "expired"]),
	outdated: v.boolean(),
	version: v.nullable(v.string()),
	live_version: v.nullable(v.string()),
	rollout: v.nullable(v.strictObject({ version: v.nullable(v.string()), percentage_bps: v.number() })),
	proposed_by: person,
	created_at: time,
	expires_at: time,
	decided_by: v.nullable(v.string()),
	decided_at: nullableTime,
	comment: v.nullable(v.string()),
	can_approve: v.boolean(),
	what_if: v.nullable(
		v.strictObject({
			devices: v.number(),
			devices_changed: v.number(),
			unjudged: v.number(),
			sampled: v.boolean(),
		}),
	),
	difference: v.nullable(differenceSchema),
	not_compared: v.nullable(v.picklist(NOT_COMPARED)),
});
type Proposal = v.InferOutput<typeof proposalSchema>;

export const EXAMPLE_PROPOSAL: Proposal = {
	id: "0f3c2b54-3a6e-4c1b-9d7e-6f1f0a2b3c4d",
	channel: "production",
	channel_id: 7,
	state: "pending",
	outdated: false,
	version: "1.5.0",
	live_version: "1.4.0",
	rollout: null,
	proposed_by: { type: "api_key", id: "5d0c7f3a-7c2e-4a2b-9f60-2f4f1c9f7a31", name: "Releases" },
	created_at: "2026-11-21T08:00:00.000Z",
	expires_at: "2026-11-28T08:00:00.000Z",
	decided_by: null,
	decided_at: null,
	comment: null,
	can_approve: true,
	what_if: { devices: 1200, devices_changed: 1150, unjudged: 3, sampled: false },
	difference: {
		by: "zip",
		added: 1,
		changed: 1,
		removed: 0,
		files: [
			{ file: "assets/pay.js", change: "added" },
			{ file: "index.html", change: "changed" },
		],
		zip: null,
	},
	not_compared: null,
};

/** The rollout that the proposal changes; null if it changes only the stable bundle. */
function rolloutOf(changes: ChannelValues, row: ProposalRow): Proposal["rollout"] {
	if (!touchesRollout(changes) || changes.rollout_version_id === null) return null;
	return {
		version: changes.rollout_version_id === undefined ? row.rollout_version_name : row.version_name,
		percentage_bps: changes.rollout_percentage_bps ?? 0,
	};
}

type ListContext = Context<string, undefined, undefined, AppScopeRow, readonly []>;

export const listProposals = endpoint({
	method: "GET",
	path: "/proposal",
	tag: "Channels",
	summary: "List promotions that wait for approval, and decided ones",
	description: [
		"Waiting proposals come first, then the newest.",
		"`version` is the proposed bundle (null: the store build),",
		"for every device or, with `rollout`, for a share of them.",
		"An `outdated` proposal cannot be approved, because the",
		"channel has changed since; propose the change again.",
		"`what_if` and `difference` are computed for the first waiting proposals, and for the one that `id`",
		`names: how many devices seen in the last ${EFFECT_DAYS} days would get another version (null without`,
		"app.read_devices), and which files differ from the live bundle, by manifest or by the directories of",
		"the zips; bundles with both are compared by manifest, and their zips in `difference.zip`.",
		"`not_compared` is the reason for a missing comparison: `forms_differ` (only one of the bundles has",
		"single files, or only one has a zip) or `zip` (encrypted, external or very large).",
		"`can_approve` depends on the caller's role, and is false for the proposer's account.",
		"Names of people and keys need app.read_audit.",
	],
	access: { permission: "app.read", scope: appScope("query.app_id") },
	query: v.object({ app_id: publicAppId, id: optional(uuid), channel: optional(channelName), page: pageNumber }),
	response: v.array(proposalSchema),
	errors: [],
	example: { query: { app_id: "com.example.app" }, response: [EXAMPLE_PROPOSAL] },
	load: ({ query: { app_id, id, channel, page } }, nowMs) => {
		const { limit, offset } = pageBounds(page);
		return { proposals: proposalsPage(app_id, { id, channel }, nowMs, limit, offset) };
	},
	async handle(context) {
		const { loaded, input, principal, scope, request, origin } = context;
		const app = { orgId: scope.orgId, appId: scope.appId };
		const showsNames = holds(principal, "app.read_audit", app);
		const mayCount = holds(principal, "app.read_devices", app);
		const mayCompare = holds(principal, "app.read_bundles", app);
		const effects = await effectsOf(context, loaded.proposals, { mayCount, mayCompare });
		return pageReply({ request, origin }, input.query.page, loaded.proposals, (row) => ({
			id: row.id,
			channel: row.channel_name,
			channel_id: row.channel_id,
			state: row.state,
			outdated: row.state === "pending" && row.is_outdated === 1,
			version: row.version_name,
			live_version: row.live_version_name,
			rollout: rolloutOf(JSON.parse(row.changes), row),
			proposed_by: {
				type: row.proposer_type,
				id: row.proposed_by_key ?? row.proposed_by,
				name: showsNames ? row.proposer_name : null,
			},
			created_at: rfc3339(row.created_at_ms),
			expires_at: rfc3339(row.expires_at_ms),
			decided_by: showsNames ? row.decider_name : null,
			decided_at: nullableRfc3339(row.decided_at_ms),
			comment: row.comment,
			can_approve: row.state === "pending" && mayApprove(principal, row, app),
			what_if: null,
			difference: null,
			not_compared: null,
			...effects.get(row.id),
		}));
	},
});

type Effect = Pick<Proposal, "what_if" | "difference" | "not_compared">;

/** Effects of the first waiting proposals, in one round trip. */
async function effectsOf(
	context: ZipReader &
		Pick<ListContext, "db" | "deps" | "scope" | "scopeRow" | "nowMs"> & {
			readonly input: { readonly query: { readonly id?: string | undefined; readonly channel?: string | undefined } };
		},
	rows: readonly ProposalRow[],
	{ mayCount, mayCompare }: { readonly mayCount: boolean; readonly mayCompare: boolean },
): Promise<ReadonlyMap<string, Effect>> {
	const { db, deps, scope, scopeRow, nowMs } = context;
	const waiting = rows.filter(({ state }) => state === "pending").slice(0, MOST_EFFECTS);
	if (waiting.length === 0 || !(mayCount || mayCompare)) return new Map();
	const app = { appId: scope.appId, publicAppId: scopeRow.app_id, telemetry_binding: scopeRow.telemetry_binding };
	const { id, channel } = context.input.query;
	const most = id === undefined && channel === undefined ? LISTED_DEVICES : undefined;
	const counted = mayCount ? await tryReported(deps, app, most) : undefined;
	const reported = counted ?? [];
	const proposed = waiting.map((row) => ({ row, values: JSON.parse(row.changes) as ChannelValues }));
	const reads = decidedChannels(
		app,
		waiting.map(({ channel_name }) => channel_name),
		reported,
		proposed.flatMap(({ values }) => newBundles(values)),
	);
	const [apps, channels, bundles, overrides, ready, ...differences] = await db.batch([
		...reads,
		...waiting.flatMap(({ live_version_id, version_id }) =>
			differenceReads(scope.appId, live_version_id ?? 0, version_id ?? 0),
		),
	]);
	const effects = new Map<string, Effect>();
	for (const [index, { row, values }] of proposed.entries()) {
		const compared = differences[2 * index]?.rows as ComparableBundle[] | undefined;
		const differing = differences[2 * index + 1]?.rows as ManifestDifference[] | undefined;
		const change = { values, taken: NO_PLATFORMS };
		const read = [apps, channels, bundles, overrides, ready] as const;
		const plan =
			counted !== undefined
				? effectOf(read, reported, app, { channel: row.channel_name, days: EFFECT_DAYS, most }, change, nowMs)
				: undefined;
		const ids = [row.live_version_id ?? 0, row.version_id ?? 0] as const;
		effects.set(row.id, {
			what_if:
				plan === undefined
					? null
					: {
							devices: plan.devices,
							devices_changed: plan.changed,
							unjudged: plan.unjudged,
							sampled: plan.sampled,
						},
			...(mayCompare
				? await bundleDifference(context, compared ?? [], differing ?? [], ...ids)
				: { difference: null, not_compared: null }),
		});
	}
	return effects;
}
