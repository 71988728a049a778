/**
 * GET /app/:app_id/releases: what was released to which channel, by whom, and why, over all
 * channels of the app. Names of people, keys and CI jobs are only for readers of the audit log, as
 * in GET /channel/history.
 */
import * as v from "valibot";
import { holds } from "../../authz/decide";
import { GOES_LIVE } from "../../db/live-entries";
import { RELEASE_KINDS, type ReleaseRow, releasesPage, type TimelinePosition } from "../../db/releases";
import type { CiContext } from "../../domain/ci/context";
import { commitOfLink } from "../../domain/words/releases";
import { endpoint, Reply } from "../../http/endpoint";
import {
	channelName,
	nullableRfc3339,
	nullableTime,
	optional,
	pageLimit,
	rfc3339,
	text,
	time,
} from "../../http/schemas";
import { appScope } from "../../http/scope";
import { HISTORY_ACTIONS } from "./history";

const DEFAULT_LIMIT = 30;
const MOST_ENTRIES = 100;

/** The CI job that acted. */
export const ciSchema = v.nullable(
	v.strictObject({
		provider: v.string(),
		repository: v.nullable(v.string()),
		run_id: v.nullable(v.string()),
		run_url: v.nullable(v.string()),
		number: v.nullable(v.number()),
		actor: v.nullable(v.string()),
	}),
);

const releaseItem = v.strictObject({
	id: v.string(),
	release_id: v.nullable(v.number()),
	at: time,
	until: nullableTime,
	action: v.picklist([...HISTORY_ACTIONS, "proposal_created", "proposal_rejected", "proposal_withdrawn"]),
	channel: v.strictObject({ name: v.string(), is_preview: v.boolean() }),
	version: v.nullable(v.string()),
	previous_version: v.nullable(v.string()),
	rollout_percentage_bps: v.nullable(v.number()),
	is_live: v.boolean(),
	can_roll_back: v.boolean(),
	was_rolled_back: v.boolean(),
	bundle_deleted: v.boolean(),
	link: v.nullable(v.string()),
	commit: v.nullable(v.string()),
	notes: v.nullable(v.string()),
	actor: v.strictObject({
		type: v.picklist(["api_key", "user", "system"]),
		id: v.nullable(v.string()),
		name: v.nullable(v.string()),
	}),
	ci: ciSchema,
	proposed_by: v.nullable(v.strictObject({ name: v.nullable(v.string()) })),
	reason: v.nullable(v.string()),
});

const POSITION = /^(\d{1,16})-([0-2])-(\d{1,16})$/;
const position = v.pipe(
	text(64),
	v.regex(POSITION, "must be the id of an entry"),
	v.transform((id): TimelinePosition => {
		const [atMs = 0, source = 0, row = 0] = id.split("-").map(Number);
		return { atMs, source, row };
	}),
);

const EXAMPLE_RELEASE = {
	id: "1795248000000-2-912",
	release_id: 912,
	at: "2026-11-21T08:00:00.000Z",
	until: null,
	action: "promotion" as const,
	channel: { name: "production", is_preview: false },
	version: "1.4.0",
	previous_version: "1.3.0",
	rollout_percentage_bps: null,
	is_live: true,
	can_roll_back: false,
	was_rolled_back: false,
	bundle_deleted: false,
	link: "https://github.com/acme/shop/commit/9c1e44f",
	commit: "9c1e44f",
	notes: "Search with suggestions",
	actor: { type: "user" as const, id: "0c7f0c5e-34a5-4f5c-8b60-8a2f0b8c1d11", name: "ada@example.com" },
	ci: null,
	proposed_by: null,
	reason: null,
};

export const listReleases = endpoint({
	method: "GET",
	path: "/app/:app_id/releases",
	tag: "Channels",
	summary: "List what was released to the channels of an app, newest first",
	description: [
		"The histories of all channels (see GET /channel/history",
		"for the fields) with proposals, in one order of time.",
		"`kind` is release, rollback, rollout, proposal or preview; without it the list has all of them, and",
		"of a preview only its opening unless `channel` names it.",
		"`version` names a bundle: the list then tells where it was and is live.",
		"`until` is when another bundle went live in the place of this one; null while it is live, and for",
		"entries by which nothing went live.",
		"`actor` is the id of an account or key, or `system` for automatic steps.",
		"`release_id` is the release of the entry (GET /release); null for proposals.",
		"`before` is the `id` of an entry: the page begins after it, and the header Link has the next one.",
		"`is_live` marks the entry by which the live bundle of its channel went live.",
		"`was_rolled_back` marks the entry of a bundle that a rollback left.",
		"`commit` comes from the CI job or from the bundle's `link`; `notes` is the bundle's comment.",
		"`name` and `ci` are null for callers without app.read_audit.",
	],
	access: { permission: "app.read", scope: appScope("params.app_id") },
	query: v.object({
		channel: optional(channelName),
		actor: optional(text(64)),
		version: optional(text(128)),
		kind: optional(v.picklist(RELEASE_KINDS, `must be one of ${RELEASE_KINDS.join(", ")}`)),
		before: optional(position),
		limit: optional(pageLimit(MOST_ENTRIES)),
	}),
	response: v.array(releaseItem),
	errors: [],
	example: { query: { kind: "release" }, response: [EXAMPLE_RELEASE] },
	load: ({ params, query: { channel, actor, version, kind, before, limit } }) => ({
		releases: releasesPage(params.app_id, { channel, actor, version, kind, before }, (limit ?? DEFAULT_LIMIT) + 1),
	}),
	async handle({ loaded, input, principal, scope, request, origin }) {
		const showsNames = holds(principal, "app.read_audit", scope);
		const limit = input.query.limit ?? DEFAULT_LIMIT;
		const items = loaded.releases.slice(0, limit).map((row) => releaseAnswer(row, showsNames));
		const last = items.at(-1);
		if (loaded.releases.length <= limit || last === undefined) return items;
		const { pathname, searchParams } = new URL(request.url);
		searchParams.set("before", last.id);
		return new Reply(200, items, { Link: `<${origin}${pathname}?${searchParams}>; rel="next"` });
	},
});

function releaseAnswer(row: ReleaseRow, showsNames: boolean): v.InferOutput<typeof releaseItem> {
	const isThere = row.version_id === null || row.bundle_status === "ready";
	const isLive = row.version_id === row.live_version_id;
	const ci = showsNames ? ciAnswer(row.ci) : null;
	return {
		id: `${row.at_ms}-${row.source}-${row.row}`,
		release_id: row.release_id,
		at: rfc3339(row.at_ms),
		until: nullableRfc3339(row.until_ms),
		action: row.action,
		channel: { name: row.channel_name, is_preview: row.is_preview === 1 },
		version: row.version_name,
		previous_version: row.previous_version_name,
		rollout_percentage_bps: row.rollout_percentage_bps,
		is_live: row.rollback_target === 1 && isLive,
		can_roll_back: (GOES_LIVE as readonly string[]).includes(row.action) && isThere && !isLive,
		was_rolled_back: row.rolled_back === 1 && row.rollback_target === 1,
		bundle_deleted: !isThere,
		link: row.bundle_link,
		commit: commitOfLink(row.bundle_link) ?? ci?.commit ?? null,
		notes: row.bundle_comment,
		actor: { type: row.actor_type, id: row.actor_id, name: showsNames ? row.actor_name : null },
		ci: ci?.job ?? null,
		proposed_by: row.proposer_name === null ? null : { name: showsNames ? row.proposer_name : null },
		reason: row.reason,
	};
}

/** @param text as it is stored; null for a person */
export function ciAnswer(text: string | null) {
	if (text === null) return null;
	const { commit, provider, repository, run_id, run_url, number, actor }: CiContext = JSON.parse(text);
	return { commit, job: { provider, repository, run_id, run_url, number, actor } };
}
