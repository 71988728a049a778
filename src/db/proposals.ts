/**
 * Proposals: promotions to protected channels that wait for approval, at most one for each channel.
 * The row of an expired proposal, or of one whose bundle was deleted, still says `pending`, so
 * every statement here checks the time and the bundle.
 */
import { type CompiledQuery, type Insertable, type RawBuilder, type Selectable, sql } from "kysely";
import type { AppId, ChannelId, OrgId } from "../authz/decide";
import type { WaitingProposal } from "../authz/promoters";
import { DAY_MS } from "../domain/time";
import { ACCOUNT_BINDINGS } from "./account-bindings";
import { type ChannelValues, differsFrom } from "./channels";
import { isOfApp, jsonList, query } from "./client";
import { customGrantsAll } from "./custom-roles";
import { appIdOf } from "./public-app-id";
import type { ProposalsTable, StoredProposalState } from "./schema";

export const PROPOSAL_LIFETIME_MS = 7 * DAY_MS;

type ProposalState = StoredProposalState | "expired";

export interface ProposalRow extends Omit<Selectable<ProposalsTable>, "state"> {
	readonly state: ProposalState;
	readonly channel_name: string;
	readonly live_version_id: number | null;
	readonly live_version_name: string | null;
	readonly rollout_version_name: string | null;
	/** JSON array: the promoters of the channel, who may approve. */
	readonly promoters: string;
	readonly requires_approval: 0 | 1;
	/** 1: the channel has changed since the proposal. */
	readonly is_outdated: 0 | 1;
}

/** Columns that a proposal's base may hold. */
export const BASE_COLUMNS = [
	"version_id",
	"rollout_id",
	"public",
	"rollout_version_id",
	"rollout_percentage_bps",
	"rollout_enabled",
	"rollout_paused_at_ms",
] as const;

const baseNow = sql.join(BASE_COLUMNS.map((column) => sql`${sql.lit(column)}, ${sql.ref(`c.${column}`)}`));
/**
 * A column of the base of proposal `p` has another value in channel `c` now. JSON null equals SQL's
 * NULL.
 */
const IS_OUTDATED = sql`EXISTS (SELECT 1 FROM json_each(p.base) AS was WHERE was.value IS NOT (
	SELECT now.value FROM json_each(json_object(${baseNow})) AS now WHERE now.key = was.key))`;

/** The bundle of proposal `p` was deleted. */
const LACKS_BUNDLE = sql`p.version_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM bundles b WHERE b.id = p.version_id AND b.status = 'ready')`;

const stateAt = (nowMs: number) => sql<ProposalState>`CASE WHEN p.state <> 'pending' THEN p.state
	WHEN p.expires_at_ms <= ${nowMs} THEN 'expired'
	WHEN ${LACKS_BUNDLE} THEN 'withdrawn' ELSE 'pending' END`;

/** Which proposals of an app: one, or those of one channel. */
interface ProposalFilter {
	readonly id?: string | undefined;
	readonly channel?: string | undefined;
	readonly channelId?: number | undefined;
	/** Leaves out decided and superseded proposals. */
	readonly isWaiting?: true;
}

/**
 * Proposals of an app, waiting ones first, then by age. Waiting
 * and other ones are each read from an index in their order, no further than the page, and only the
 * rows of the page are looked at closely.
 */
export function proposalsPage(
	publicAppId: string,
	{ id, channel, channelId, isWaiting }: ProposalFilter,
	nowMs: number,
	limit: number,
	offset: number,
): CompiledQuery<ProposalRow> {
	const app = appIdOf(publicAppId);
	const ofChannel =
		channel === undefined
			? sql`${channelId}`
			: sql`(SELECT id FROM channels WHERE app_id = ${app} AND name = ${channel})`;
	const hasChannel = channel !== undefined || channelId !== undefined;
	const narrowed = sql`${id === undefined ? sql`` : sql` AND p.id = ${id}`}${hasChannel ? sql` AND p.channel_id = ${ofChannel}` : sql``}`;
	// The + keeps the app's index out where an id or a channel has fewer rows.
	const isAsked = sql`${id === undefined && !hasChannel ? sql`` : sql`+`}p.app_id = ${app}${narrowed}`;
	const firstOf = (
		waits: 0 | 1,
		which: RawBuilder<unknown>,
	) => sql`SELECT * FROM (SELECT p.id, p.created_at_ms, ${sql.lit(waits)} AS waits
		FROM proposals p WHERE ${isAsked} AND ${which} ORDER BY p.created_at_ms DESC, p.id LIMIT ${limit + offset})`;
	const waits = sql`p.state = 'pending' AND p.created_at_ms > ${nowMs - PROPOSAL_LIFETIME_MS}
		AND p.expires_at_ms > ${nowMs} AND NOT (${LACKS_BUNDLE})`;
	const others = isWaiting === true ? sql`p.state = 'pending' AND NOT (${waits})` : sql`NOT (${waits})`;
	return sql<ProposalRow>`WITH found AS (${firstOf(1, waits)} UNION ALL ${firstOf(0, others)})
		SELECT p.id, p.app_id, p.channel_id, p.version_id, p.version_name, p.changes, p.base, p.proposer_type,
			p.proposed_by, p.proposed_by_key, p.proposer_name, p.created_at_ms, p.expires_at_ms, p.decided_by, p.decider_name, p.decided_at_ms,
			p.comment, ${stateAt(nowMs)} AS state, c.name AS channel_name, c.promoters, c.requires_approval, c.version_id AS live_version_id,
			live.name AS live_version_name, rollout.name AS rollout_version_name, ${IS_OUTDATED} AS is_outdated
		FROM proposals p JOIN channels c ON c.id = p.channel_id LEFT JOIN bundles live ON live.id = c.version_id
			LEFT JOIN bundles rollout ON rollout.id = c.rollout_version_id
		WHERE +p.app_id = ${app} AND p.id IN (SELECT id FROM found ORDER BY waits DESC, created_at_ms DESC, id LIMIT ${limit} OFFSET ${offset})
		ORDER BY ${stateAt(nowMs)} = 'pending' DESC, p.created_at_ms DESC, p.id`.compile(query);
}

export interface WaitingApprovalRow extends WaitingProposal {
	readonly id: string;
	readonly channel_name: string;
	/** Null: the store build. */
	readonly version_name: string | null;
}

/** More of an app are not counted. */
const MOST_WAITING_SHOWN = 20;

/** The newest waiting proposals of an app, for what waits for the caller. */
export const newestWaiting = (app: RawBuilder<string>, nowMs: number) =>
	query
		.selectFrom("proposals as p")
		.innerJoin("channels as c", "c.id", "p.channel_id")
		.select(["p.id", "p.version_name", "p.proposed_by", "c.name as channel_name", "c.promoters", "c.requires_approval"])
		.where("p.app_id", "=", app)
		// A literal, because the index has this condition.
		.where("p.state", "=", sql.lit<"pending">("pending"))
		.where("p.created_at_ms", ">", nowMs - PROPOSAL_LIFETIME_MS)
		.where("p.expires_at_ms", ">", nowMs)
		.where(sql<boolean>`NOT (${LACKS_BUNDLE})`)
		.orderBy("p.created_at_ms", "desc")
		.limit(sql.lit(MOST_WAITING_SHOWN));

export function waitingApprovals(publicAppId: string, nowMs: number): CompiledQuery<WaitingApprovalRow> {
	return newestWaiting(appIdOf(publicAppId), nowMs).compile();
}

export function insertProposal(appId: AppId, values: Omit<Insertable<ProposalsTable>, "app_id">): CompiledQuery {
	return query
		.insertInto("proposals")
		.values({ ...values, app_id: appId })
		.compile();
}

/** Decided proposals that a channel keeps. */
const KEPT_PROPOSALS = 200;

/** Deletes the oldest decided proposals; their audit entries stay. */
export function pruneProposals(appId: AppId, channelId: ChannelId): CompiledQuery {
	const kept = query
		.selectFrom("proposals")
		.select("id")
		.where("channel_id", "=", channelId)
		.where("state", "<>", "pending")
		.orderBy("created_at_ms", "desc")
		.orderBy("id")
		.limit(KEPT_PROPOSALS);
	return query
		.deleteFrom("proposals")
		.where("app_id", "=", appId)
		.where("channel_id", "=", channelId)
		.where("state", "<>", "pending")
		.where("id", "not in", kept)
		.compile();
}

/** Condition: proposal `p` waits for the channel. */
export const waitingFor = (appId: AppId, channelId: ChannelId) =>
	sql<boolean>`p.app_id = ${appId} AND p.channel_id = ${channelId} AND p.state = 'pending'`;

const endWaiting = (state: "superseded" | "withdrawn", appId: AppId, channelId: ChannelId, nowMs: number) =>
	query
		.updateTable("proposals as p")
		.set({ state, decided_at_ms: nowMs })
		.where(waitingFor(appId, channelId))
		.compile();

/** Ends the waiting proposal, because a newer one replaces it. */
export function supersedeProposals(appId: AppId, channelId: ChannelId, nowMs: number): CompiledQuery {
	return endWaiting("superseded", appId, channelId, nowMs);
}

/** Ends the waiting proposal, because the channel no longer requires approval. */
export function withdrawProposals(appId: AppId, channelId: ChannelId, nowMs: number): CompiledQuery {
	return endWaiting("withdrawn", appId, channelId, nowMs);
}

export function decideProposal(
	appId: AppId,
	id: string,
	decision: {
		readonly state: "approved" | "rejected" | "withdrawn";
		readonly decided_by: string;
		readonly decider_name: string;
		readonly decided_at_ms: number;
		readonly comment: string | null;
	},
): CompiledQuery {
	return query.updateTable("proposals").set(decision).where("app_id", "=", appId).where("id", "=", id).compile();
}

/** Guard condition: the proposal is neither decided nor expired. */
export function proposalIsPending(appId: AppId, id: string, nowMs: number) {
	return sql<boolean>`EXISTS (SELECT 1 FROM proposals WHERE app_id = ${appId} AND id = ${id} AND state = 'pending'
		AND expires_at_ms > ${nowMs})`;
}

/** Guard condition: the channel exists and has these values. */
export function channelHas(appId: AppId, channelId: ChannelId, values: ChannelValues) {
	return sql<boolean>`EXISTS (SELECT 1 FROM channels WHERE app_id = ${appId} AND id = ${channelId} AND NOT ${differsFrom(values)})`;
}

/**
 * Guard condition: the proposer could still promote to the channel, because the key is valid, or
 * the person has a promoting role.
 */
export function proposerMayPromote(
	orgId: OrgId,
	appId: AppId,
	{ proposed_by, proposed_by_key, channel_id }: Pick<ProposalRow, "proposed_by" | "proposed_by_key" | "channel_id">,
	roles: readonly string[],
	nowMs: number,
) {
	const ofKey = sql`(SELECT * FROM role_bindings WHERE api_key_id = ${proposed_by_key})`;
	const holder = proposed_by_key === null ? ACCOUNT_BINDINGS : ofKey;
	return sql<boolean>`EXISTS (SELECT 1 FROM ${holder} b LEFT JOIN api_keys k ON k.id = ${proposed_by_key}
		WHERE b.org_id = ${orgId} AND (b.scope_type = 'org' OR b.app_id = ${appId})
			AND coalesce(b.channel_id, ${channel_id}) = ${channel_id}
			AND (b.role_name IN ${jsonList(JSON.stringify(roles))} OR ${customGrantsAll(["channel.promote_bundle"])})
			AND coalesce(b.expires_at_ms, ${nowMs} + 1) > ${nowMs}
			AND (k.id IS NOT NULL OR b.user_id = ${proposed_by})
			AND coalesce(k.expires_at_ms, ${nowMs} + 1) > ${nowMs})`;
}

/** A file that differs between the manifests of two bundles. */
export interface ManifestDifference {
	readonly file_name: string;
	readonly change: "added" | "changed" | "removed";
	/** Differences of this kind, before the limit. */
	readonly added: number;
	readonly changed: number;
	readonly removed: number;
}

/**
 * Returns no row unless both bundles have manifests. The + before EXISTS keeps SQLite from testing
 * it once per file, as a join, and the + before app_id keeps the app's index out: it would read the
 * files of all bundles.
 */
export function manifestDifference(
	appId: AppId,
	before: number,
	after: number,
	limit: number,
): CompiledQuery<ManifestDifference> {
	const files = (bundleId: number) =>
		sql`(SELECT file_name, file_hash FROM bundle_files WHERE +app_id = ${appId} AND bundle_id = ${bundleId})`;
	const has = (bundleId: number) =>
		sql`+EXISTS (SELECT 1 FROM bundle_files WHERE +app_id = ${appId} AND bundle_id = ${bundleId})`;
	return sql<ManifestDifference>`SELECT file_name, change, count(*) FILTER (WHERE change = 'added') OVER () AS added,
			count(*) FILTER (WHERE change = 'changed') OVER () AS changed, count(*) FILTER (WHERE change = 'removed') OVER () AS removed
		FROM (SELECT n.file_name, CASE WHEN o.file_name IS NULL THEN 'added' ELSE 'changed' END AS change
				FROM ${files(after)} n LEFT JOIN ${files(before)} o ON o.file_name = n.file_name WHERE o.file_hash IS NOT n.file_hash
			UNION ALL SELECT o.file_name, 'removed' FROM ${files(before)} o
				WHERE o.file_name NOT IN (SELECT file_name FROM ${files(after)}))
		WHERE ${has(before)} AND ${has(after)} ORDER BY change, file_name LIMIT ${limit}`.compile(query);
}

/** The stored object of a bundle, and the forms in which devices get it. */
export interface ComparableBundle {
	readonly id: number;
	readonly object_key: string | null;
	readonly size_bytes: number | null;
	readonly session_key: string | null;
	readonly has_zip: 0 | 1;
	readonly has_manifest: 0 | 1;
}

export function comparableBundles(appId: AppId, ids: readonly number[]): CompiledQuery<ComparableBundle> {
	return sql<ComparableBundle>`SELECT id, object_key, size_bytes, session_key,
			(object_key IS NOT NULL OR external_url IS NOT NULL) AS has_zip,
			EXISTS (SELECT 1 FROM bundle_files WHERE bundle_files.bundle_id = bundles.id) AS has_manifest
		FROM bundles WHERE ${isOfApp(appId)} AND id IN ${jsonList(JSON.stringify(ids))} AND status = 'ready'`.compile(
		query,
	);
}
