/**
 * The release timeline of an app: the histories of its channels and the proposals that wait or were
 * turned down, in one order of time. A position in it is the time, the source and the row, so a
 * page begins exactly after the last one while new entries arrive. Each source reads its index by
 * time from there, and at most a page.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { query } from "./client";
import { GOES_LIVE } from "./live-entries";
import { appIdOf } from "./public-app-id";
import type { ChannelHistoryAction, Flag } from "./schema";

/** Entries of the same millisecond are ordered by their source, then by row. */
const SOURCES = { proposed: 0, decided: 1, history: 2 } as const;

export interface TimelinePosition {
	readonly atMs: number;
	readonly source: number;
	readonly row: number;
}

export const RELEASE_KINDS = ["release", "rollback", "rollout", "proposal", "preview"] as const;
type ReleaseKind = (typeof RELEASE_KINDS)[number];

interface ReleaseFilter {
	readonly channel: string | undefined;
	/** Id of the account, key or publisher key; `system`: the service. */
	readonly actor: string | undefined;
	/** Undefined: all kinds, and of a preview only its opening unless `channel` names it. */
	readonly kind: ReleaseKind | undefined;
	readonly before: TimelinePosition | undefined;
	/** Entries about a bundle. */
	readonly version: string | undefined;
}

type ProposalAction = "proposal_created" | "proposal_rejected" | "proposal_withdrawn";

export interface ReleaseRow {
	readonly source: number;
	readonly row: number;
	readonly at_ms: number;
	readonly action: ChannelHistoryAction | ProposalAction;
	readonly channel_name: string;
	readonly is_preview: Flag;
	readonly version_id: number | null;
	readonly version_name: string | null;
	readonly previous_version_name: string | null;
	readonly rollout_percentage_bps: number | null;
	readonly reason: string | null;
	readonly actor_type: "api_key" | "user" | "system";
	readonly actor_id: string | null;
	readonly actor_name: string;
	readonly proposer_name: string | null;
	readonly ci: string | null;
	/** The newest entry that made this bundle live. */
	readonly rollback_target: Flag;
	/** A rollback left this bundle, and it was not released again since. */
	readonly rolled_back: Flag;
	/** The release of an entry of a history; null for a proposal. */
	readonly release_id: number | null;
	readonly live_version_id: number | null;
	/** Null for an entry without a bundle, or if the row of the bundle is deleted. */
	readonly bundle_status: "pending" | "ready" | "deleted" | null;
	readonly bundle_link: string | null;
	readonly bundle_comment: string | null;
	/** When another bundle went live in the place of this one. */
	readonly until_ms: number | null;
}

const names = (actions: readonly string[]) => sql.join(actions.map((action) => sql.lit(action)));
const ROLLBACKS = ["rollback", "rollout_rolled_back"];

/** Condition on an entry `h` of the channel `c`. */
function historyOfKind({ kind, channel, version }: ReleaseFilter): RawBuilder<unknown> {
	const isRelease = sql`h.action IN (${names(GOES_LIVE)}) AND h.action <> 'rollback'`;
	switch (kind) {
		case undefined:
			return channel === undefined && version === undefined
				? sql`(c.is_preview = 0 OR h.action = 'created')`
				: sql`true`;
		case "release":
			return sql`c.is_preview = 0 AND ${isRelease}`;
		case "rollback":
			return sql`c.is_preview = 0 AND h.action IN (${names(ROLLBACKS)})`;
		case "rollout":
			return sql`c.is_preview = 0 AND substr(h.action, 1, 8) = 'rollout_'`;
		case "preview":
			return sql`c.is_preview = 1`;
		case "proposal":
			return sql`false`;
	}
}

/** A page of the timeline, newest first. */
export function releasesPage(publicAppId: string, filter: ReleaseFilter, limit: number): CompiledQuery<ReleaseRow> {
	const { channel, actor, kind, before, version } = filter;
	const app = appIdOf(publicAppId);
	const after = (source: keyof typeof SOURCES, at: RawBuilder<unknown>, row: RawBuilder<unknown>) =>
		before === undefined
			? sql`true`
			: sql`${at} <= ${before.atMs} AND (${at}, ${SOURCES[source]}, ${row}) < (${before.atMs}, ${before.source}, ${before.row})`;
	const inChannel = (id: RawBuilder<unknown>) =>
		channel === undefined
			? sql`true`
			: sql`${id} = (SELECT id FROM channels WHERE app_id = ${app} AND name = ${channel})`;
	const ofVersion = (name: RawBuilder<unknown>) => (version === undefined ? sql`true` : sql`${name} = ${version}`);
	const index =
		version !== undefined
			? sql`channel_history_by_version`
			: channel !== undefined
				? sql`channel_history_of_channel`
				: actor !== undefined
					? sql`channel_history_by_actor`
					: sql`channel_history_by_time`;
	const by = (type: RawBuilder<unknown>, id: RawBuilder<unknown>) =>
		actor === undefined
			? sql`true`
			: actor === "system"
				? sql`${type} = 'system' AND ${id} IS NULL`
				: sql`${id} = ${actor}`;
	const hasProposals = kind === undefined || kind === "proposal" ? sql`true` : sql`false`;
	const proposal = (
		source: "proposed" | "decided",
		action: RawBuilder<unknown>,
		at: RawBuilder<unknown>,
		who: { readonly id: RawBuilder<unknown>; readonly name: RawBuilder<unknown>; readonly type: RawBuilder<unknown> },
		which: RawBuilder<unknown>,
	) => sql`SELECT * FROM (SELECT ${SOURCES[source]} AS source, p.rowid AS row, ${at} AS at_ms, ${action} AS action, p.channel_id,
			p.version_id, p.version_name, NULL AS previous_version_name,
			json_extract(p.changes, '$.rollout_percentage_bps') AS rollout_percentage_bps,
			${source === "decided" ? sql`p.comment` : sql`NULL`} AS reason,
			${who.type} AS actor_type, ${who.id} AS actor_id, ${who.name} AS actor_name,
			NULL AS proposer_name, NULL AS ci, 0 AS rollback_target, 0 AS rolled_back, NULL AS release_id
		FROM proposals p JOIN channels c ON c.id = p.channel_id
		WHERE ${hasProposals} AND p.app_id = ${app} AND ${inChannel(sql`p.channel_id`)} AND ${ofVersion(sql`p.version_name`)}
			AND ${which} AND ${by(who.type, who.id)} AND ${after(source, at, sql`p.rowid`)}
		ORDER BY ${at} DESC, p.rowid DESC LIMIT ${limit})`;
	const proposer = sql`coalesce(p.proposed_by_key, p.proposed_by)`;
	return sql<ReleaseRow>`SELECT entry.*, c.name AS channel_name, c.is_preview, c.version_id AS live_version_id,
			b.status AS bundle_status, b.link AS bundle_link, b.comment AS bundle_comment,
			CASE WHEN entry.source = ${SOURCES.history} AND entry.action IN (${names(GOES_LIVE)}) THEN (
				SELECT later.at_ms FROM channel_history later INDEXED BY channel_history_by_channel WHERE later.channel_id = entry.channel_id
					AND later.id > entry.row AND later.action IN (${names(GOES_LIVE)}) ORDER BY later.id LIMIT 1) END AS until_ms
		FROM (SELECT * FROM (SELECT ${SOURCES.history} AS source, h.id AS row, h.at_ms, h.action, h.channel_id, h.version_id, h.version_name,
				h.previous_version_name, h.rollout_percentage_bps, h.reason, h.actor_type, h.actor_id, h.actor_name, h.proposer_name, h.ci,
				h.rollback_target, h.rolled_back, coalesce(h.release_id, h.id) AS release_id
			FROM channel_history h INDEXED BY ${index} JOIN channels c ON c.id = h.channel_id
			WHERE h.app_id = ${app} AND ${inChannel(sql`h.channel_id`)} AND ${ofVersion(sql`h.version_name`)} AND ${historyOfKind(filter)}
				AND ${by(sql`h.actor_type`, sql`h.actor_id`)} AND ${after("history", sql`h.at_ms`, sql`h.id`)}
			ORDER BY h.at_ms DESC, h.id DESC LIMIT ${limit})
		UNION ALL ${proposal(
			"proposed",
			sql`'proposal_created'`,
			sql`p.created_at_ms`,
			{ id: proposer, name: sql`p.proposer_name`, type: sql`p.proposer_type` },
			sql`true`,
		)}
		UNION ALL ${proposal(
			"decided",
			sql`'proposal_' || p.state`,
			sql`p.decided_at_ms`,
			// The withdrawal by a setting of the channel names nobody.
			{ id: sql`p.decided_by`, name: sql`coalesce(p.decider_name, '')`, type: sql`'user'` },
			sql`p.state IN ('rejected', 'withdrawn') AND p.decided_by IS NOT NULL`,
		)}
		) AS entry JOIN channels c ON c.id = entry.channel_id LEFT JOIN bundles b ON b.id = entry.version_id
		ORDER BY entry.at_ms DESC, entry.source DESC, entry.row DESC LIMIT ${limit}`.compile(query);
}

/** Actions that bring a version to devices for the first time. */
const FIRST_ACTIONS = ["created", "promotion", "rollout_started", "rollback"];
/** A chart has at most 366 days; more flags than this tell nothing. */
const MOST_MARKERS = 200;

export interface ReleaseMarkerRow {
	readonly version_name: string;
	readonly at_ms: number;
}

/**
 * The first release of each version on the main channel, newest first: the public channel with the
 * lowest id, as the dashboard chooses it.
 */
export function releaseMarkers(publicAppId: string): CompiledQuery<ReleaseMarkerRow> {
	const app = appIdOf(publicAppId);
	return sql<ReleaseMarkerRow>`SELECT version_name, min(at_ms) AS at_ms FROM channel_history INDEXED BY channel_history_by_channel
		WHERE channel_id = (SELECT id FROM channels WHERE app_id = ${app} ORDER BY public DESC, id LIMIT 1)
			AND version_name IS NOT NULL AND action IN (${names(FIRST_ACTIONS)})
		GROUP BY version_name ORDER BY at_ms DESC LIMIT ${sql.lit(MOST_MARKERS)}`.compile(query);
}
