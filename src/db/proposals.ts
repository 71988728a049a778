/**
 * Proposals: promotions to protected channels that wait for approval. At most one waits for each channel. What has expired, or whose bundle
 * was deleted, is `pending` in its row and nowhere else: every statement here looks at the time and at the bundle itself.
 */
import { type CompiledQuery, type Insertable, type Selectable, sql } from "kysely";
import type { AppId, ChannelId, OrgId } from "../authz/decide";
import { type ChannelValues, differsFrom } from "./channels";
import { jsonList, query } from "./client";
import { appIdOf } from "./public-app-id";
import type { ProposalsTable, StoredProposalState } from "./schema";

/** How long a proposal waits. */
export const PROPOSAL_LIFETIME_MS = 7 * 24 * 60 * 60 * 1000;

export type ProposalState = StoredProposalState | "expired";

export interface ProposalRow extends Omit<Selectable<ProposalsTable>, "state"> {
	readonly state: ProposalState;
	readonly channel_name: string;
	readonly live_version_id: number | null;
	readonly live_version_name: string | null;
	readonly rollout_version_name: string | null;
	/** Promoters of the channel, who approve. */
	readonly promoters: string;
	readonly requires_approval: 0 | 1;
	/** 1: the channel is not as it was when the change was proposed. */
	readonly is_outdated: 0 | 1;
}

/** For SQL, of `p` and its channel `c`: a column of the base has another value now. JSON null is SQL's NULL on both sides. */
const IS_OUTDATED = sql`EXISTS (SELECT 1 FROM json_each(p.base) AS was WHERE was.value IS NOT (
	SELECT now.value FROM json_each(json_object('version_id', c.version_id, 'rollout_id', c.rollout_id, 'public', c.public,
		'rollout_version_id', c.rollout_version_id, 'rollout_percentage_bps', c.rollout_percentage_bps,
		'rollout_enabled', c.rollout_enabled, 'rollout_paused_at_ms', c.rollout_paused_at_ms)) AS now WHERE now.key = was.key))`;

/** Columns that a base may hold: `IS_OUTDATED` knows these. */
export const BASE_COLUMNS = [
	"version_id",
	"rollout_id",
	"public",
	"rollout_version_id",
	"rollout_percentage_bps",
	"rollout_enabled",
	"rollout_paused_at_ms",
] as const;

const stateAt = (nowMs: number) => sql<ProposalState>`CASE WHEN p.state <> 'pending' THEN p.state
	WHEN p.expires_at_ms <= ${nowMs} THEN 'expired'
	WHEN p.version_id IS NOT NULL AND b.status IS NOT 'ready' THEN 'withdrawn' ELSE 'pending' END`;

/** Which proposals of an app: one, or those of one channel. */
export interface ProposalFilter {
	readonly id?: string | undefined;
	readonly channel?: string | undefined;
	readonly channelId?: number | undefined;
	/** Only what nobody decided or replaced. */
	readonly isWaiting?: true;
}

/** Proposals of an app, the waiting ones first and then the newest; for loading beside the decision. */
export function proposalsPage(
	publicAppId: string,
	{ id, channel, channelId, isWaiting }: ProposalFilter,
	nowMs: number,
	limit: number,
	offset: number,
): CompiledQuery<ProposalRow> {
	return sql<ProposalRow>`SELECT p.id, p.app_id, p.channel_id, p.version_id, p.version_name, p.changes, p.base, p.proposer_type,
			p.proposed_by, p.proposed_by_key, p.proposer_name, p.created_at_ms, p.expires_at_ms, p.decided_by, p.decider_name, p.decided_at_ms,
			p.comment, ${stateAt(nowMs)} AS state, c.name AS channel_name, c.promoters, c.requires_approval, c.version_id AS live_version_id,
			live.name AS live_version_name, rollout.name AS rollout_version_name, ${IS_OUTDATED} AS is_outdated
		FROM apps a JOIN proposals p ON p.app_id = a.id JOIN channels c ON c.id = p.channel_id
			LEFT JOIN bundles b ON b.id = p.version_id LEFT JOIN bundles live ON live.id = c.version_id
			LEFT JOIN bundles rollout ON rollout.id = c.rollout_version_id
		WHERE a.id = ${appIdOf(publicAppId)} AND p.id = coalesce(${id ?? null}, p.id) AND c.name = coalesce(${channel ?? null}, c.name)
			AND c.id = coalesce(${channelId ?? null}, c.id) AND ${isWaiting === true ? sql`p.state = 'pending'` : sql`true`}
		ORDER BY ${stateAt(nowMs)} = 'pending' DESC, p.created_at_ms DESC, p.id LIMIT ${limit} OFFSET ${offset}`.compile(
		query,
	);
}

export function insertProposal(appId: AppId, values: Omit<Insertable<ProposalsTable>, "app_id">): CompiledQuery {
	return query
		.insertInto("proposals")
		.values({ ...values, app_id: appId })
		.compile();
}

/** Decided proposals of a channel that are kept. */
export const KEPT_PROPOSALS = 200;

/** Deletes what was decided before the newest; the audit log keeps its own entries. */
export function pruneProposals(appId: AppId, channelId: ChannelId): CompiledQuery {
	return sql`DELETE FROM proposals WHERE app_id = ${appId} AND channel_id = ${channelId} AND state <> 'pending' AND id NOT IN (
		SELECT id FROM proposals WHERE channel_id = ${channelId} AND state <> 'pending'
		ORDER BY created_at_ms DESC, id LIMIT ${KEPT_PROPOSALS})`.compile(query);
}

/** For audit entries: what waits for the channel. */
export const waitingFor = (appId: AppId, channelId: ChannelId) =>
	sql`p.app_id = ${appId} AND p.channel_id = ${channelId} AND p.state = 'pending'`;

/** Ends what waits for the channel, because something newer is proposed. */
export function supersedeProposals(appId: AppId, channelId: ChannelId, nowMs: number): CompiledQuery {
	return sql`UPDATE proposals AS p SET state = 'superseded', decided_at_ms = ${nowMs} WHERE ${waitingFor(appId, channelId)}`.compile(
		query,
	);
}

/** Ends what waits for the channel, because it requires approval no longer. */
export function withdrawProposals(appId: AppId, channelId: ChannelId, nowMs: number): CompiledQuery {
	return sql`UPDATE proposals AS p SET state = 'withdrawn', decided_at_ms = ${nowMs} WHERE ${waitingFor(appId, channelId)}`.compile(
		query,
	);
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

/** For guards: nobody decided it, and it has not expired. */
export function proposalIsPending(appId: AppId, id: string, nowMs: number) {
	return sql<boolean>`EXISTS (SELECT 1 FROM proposals WHERE app_id = ${appId} AND id = ${id} AND state = 'pending'
		AND expires_at_ms > ${nowMs})`;
}

/** For guards: the channel is there and has these values. */
export function channelHas(appId: AppId, channelId: ChannelId, values: ChannelValues) {
	return sql<boolean>`EXISTS (SELECT 1 FROM channels WHERE app_id = ${appId} AND id = ${channelId} AND NOT ${differsFrom(values)})`;
}

/** For guards: who proposed it could still promote in the app: the key is there and good, its account or the person holds a role. */
export function proposerMayPromote(
	orgId: OrgId,
	appId: AppId,
	{ proposed_by, proposed_by_key }: Pick<ProposalRow, "proposed_by" | "proposed_by_key">,
	roles: readonly string[],
	nowMs: number,
) {
	return sql<boolean>`EXISTS (SELECT 1 FROM role_bindings b LEFT JOIN api_keys k ON k.id = b.api_key_id
		WHERE b.org_id = ${orgId} AND (b.scope_type = 'org' OR b.app_id = ${appId})
			AND b.role_name IN ${jsonList(JSON.stringify(roles))} AND coalesce(b.expires_at_ms, ${nowMs} + 1) > ${nowMs}
			AND b.api_key_id IS ${proposed_by_key} AND (k.id IS NOT NULL OR b.user_id = ${proposed_by})
			AND coalesce(k.expires_at_ms, ${nowMs} + 1) > ${nowMs})`;
}

/** How the files of two bundles differ, by their manifests. */
export interface ManifestDifference {
	readonly file_name: string;
	readonly change: "added" | "changed" | "removed";
	/** Number of all proposals, before the limit. */
	readonly added: number;
	readonly changed: number;
	readonly removed: number;
}

/** No row unless both have manifests and differ. */
export function manifestDifference(
	appId: AppId,
	before: number,
	after: number,
	limit: number,
): CompiledQuery<ManifestDifference> {
	const files = (bundleId: number) =>
		sql`(SELECT file_name, file_hash FROM bundle_files WHERE app_id = ${appId} AND bundle_id = ${bundleId})`;
	const has = (bundleId: number) =>
		sql`EXISTS (SELECT 1 FROM bundle_files WHERE app_id = ${appId} AND bundle_id = ${bundleId})`;
	return sql<ManifestDifference>`SELECT file_name, change, count(*) FILTER (WHERE change = 'added') OVER () AS added,
			count(*) FILTER (WHERE change = 'changed') OVER () AS changed, count(*) FILTER (WHERE change = 'removed') OVER () AS removed
		FROM (SELECT n.file_name, CASE WHEN o.file_name IS NULL THEN 'added' ELSE 'changed' END AS change
				FROM ${files(after)} n LEFT JOIN ${files(before)} o ON o.file_name = n.file_name WHERE o.file_hash IS NOT n.file_hash
			UNION ALL SELECT o.file_name, 'removed' FROM ${files(before)} o
				WHERE o.file_name NOT IN (SELECT file_name FROM ${files(after)}))
		WHERE ${has(before)} AND ${has(after)} ORDER BY change, file_name LIMIT ${limit}`.compile(query);
}

/** Objects of two bundles, with the forms that each is served in: what can be compared. */
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
			(object_key IS NOT NULL OR external_url IS NOT NULL) AS has_zip, EXISTS (SELECT 1 FROM bundle_files WHERE bundle_files.bundle_id = bundles.id) AS has_manifest
		FROM bundles WHERE app_id = ${appId} AND id IN ${jsonList(JSON.stringify(ids))} AND status = 'ready'`.compile(
		query,
	);
}
