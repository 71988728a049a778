/**
 * A promotion to a protected channel that requires approval becomes a proposal, and so does any promotion by a publisher that may only
 * propose. It holds exactly the columns that an approval writes, and
 * the values that the channel must still have by then. A new proposal supersedes the one that waits.
 */
import { sql } from "kysely";
import * as v from "valibot";
import { auditedChannel } from "../../db/audit/channels";
import { auditEach, auditStatement } from "../../db/audit/entries";
import { bundleIsReady } from "../../db/bundles";
import type { ChannelRow, ChannelValues } from "../../db/channels";
import { guard } from "../../db/client";
import {
	BASE_COLUMNS,
	channelHas,
	insertProposal,
	PROPOSAL_LIFETIME_MS,
	type ProposalRow,
	pruneProposals,
	supersedeProposals,
	waitingFor,
} from "../../db/proposals";
import { ApiError } from "../../errors";
import type { Context } from "../../http/endpoint";
import { rfc3339, time } from "../../http/schemas";
import { bundleNotFound } from "../../http/scope";
import { promoting } from "../signing/verify";
import { type ChannelBody, rolloutOf } from "./body";
import { compatibilityGuards } from "./compatibility";
import { type ChannelChange, touchesRollout } from "./plan";
import { onlySlowsDown } from "./protection";
import { changedByAnother, channelGuards, promotedBundles, type WriteContext } from "./write";

/** A promotion that waits for approval. */
export interface Proposed {
	readonly id: string;
	readonly message: string;
	readonly expiresAtMs: number;
}

/** The answer to a promotion that became a proposal. */
export const pendingApproval = {
	status: v.literal("pending_approval"),
	message: v.string(),
	proposal_id: v.string(),
	expires_at: time,
};

export const pendingApprovalAnswer = ({ id, message, expiresAtMs }: Proposed) => ({
	...{ status: "pending_approval" as const, message, proposal_id: id, expires_at: rfc3339(expiresAtMs) },
});

/**
 * @param onlyProposes whether the caller may only propose, on any channel
 * @throws {ApiError} `approval_required` for settings in the same request, because nobody would approve those, and for a second bundle,
 * because a proposal shows one
 */
export function needsApproval(
	{ settings, bundles }: ChannelChange,
	channel: ChannelRow,
	body: ChannelBody,
	onlyProposes: boolean,
): boolean {
	const isRequired = channel.protected === 1 && channel.requires_approval === 1 && !onlySlowsDown(bundles, channel);
	if (!isRequired && !onlyProposes) return false;
	if (concernsTwoBundles(bundles, channel, body)) {
		throw new ApiError(
			"approval_required",
			`A promotion to channel ${channel.name} waits for approval, and a proposal is about one bundle; propose the stable bundle and the rollout one after the other.`,
		);
	}
	if (Object.keys(settings).length === 0) return true;
	throw new ApiError(
		"approval_required",
		`A promotion to channel ${channel.name} waits for approval and its settings do not; send the bundle and the settings in two requests.`,
		{ moreInfo: { settings: Object.keys(settings) } },
	);
}

/** The change sets the stable bundle and touches a rollout that continues, or names a bundle beside the rollout that it finishes. */
function concernsTwoBundles(bundles: ChannelValues, channel: ChannelRow, body: ChannelBody): boolean {
	const { version, promoteToStable } = rolloutOf(body);
	if (promoteToStable && (body.version !== undefined || version !== undefined)) return true;
	const rolloutId = bundles.rollout_version_id === undefined ? channel.rollout_version_id : bundles.rollout_version_id;
	return bundles.version_id !== undefined && touchesRollout(bundles) && rolloutId !== null;
}

/** Repeating a waiting proposal returns it. */
export async function propose(
	context: WriteContext & Pick<Context<string, undefined, undefined, unknown, readonly []>, "principal">,
	channel: ChannelRow,
	change: ChannelChange,
	waiting: ProposalRow | undefined,
): Promise<Proposed> {
	const { db, deps, principal, scope, scopeRow, nowMs, actor } = context;
	const { bundles } = change;
	const bundle = proposedBundle(change, channel);
	const shown = bundle.name ?? "the store build";
	const reason = channel.requires_approval === 1 ? `channel ${channel.name} is protected` : "this key may only propose";
	const message = `${shown} is waiting for approval: ${reason}. Devices keep what they have until a promoter approves it.`;
	const base = Object.fromEntries(
		BASE_COLUMNS.filter(
			(column) => ["version_id", "rollout_id", "public"].includes(column) || bundles[column] !== undefined,
		).map((column) => [column, channel[column]]),
	);
	const isRepeated =
		waiting?.state === "pending" &&
		waiting.is_outdated === 0 &&
		waiting.proposed_by === principal.userId &&
		waiting.proposed_by_key === principal.keyId &&
		isSameChange(JSON.parse(waiting.changes), bundles);
	if (isRepeated) return { id: waiting.id, message, expiresAtMs: waiting.expires_at_ms };
	const id = deps.newId();
	const expiresAtMs = nowMs + PROPOSAL_LIFETIME_MS;
	const versions = new Map(change.promoted.map((promoted) => [promoted.id, promoted.name]));
	if (bundle.id !== null) versions.set(bundle.id, shown);
	const app = { uuid: scope.appId, id: scopeRow.app_id };
	await promoting(context, scope.appId, promotedBundles(bundles, channel), (signed) =>
		db.batch([
			...signed,
			...change.promoted.map((promoted) => guard(bundleIsReady(scope.appId, promoted.id), bundleNotFound)),
			...channelGuards(scope.appId, scope.channelId, channel),
			...compatibilityGuards(scope.appId, scope.channelId, bundles, channel, changedByAnother),
			guard(channelHas(scope.appId, scope.channelId, base), changedByAnother),
			auditEach(
				actor,
				nowMs,
				{ action: "proposal.supersede", targetType: "proposal", ofApps: true, details: { by: id } },
				sql`SELECT ${scope.orgId} AS org_id, p.id AS target_id, ${channel.name} AS target_name, ${app.uuid} AS app_uuid,
					${app.id} AS app_id, NULL AS before, NULL AS after FROM proposals p WHERE ${waitingFor(scope.appId, scope.channelId)}`,
			),
			supersedeProposals(scope.appId, scope.channelId, nowMs),
			pruneProposals(scope.appId, scope.channelId),
			insertProposal(scope.appId, {
				id,
				channel_id: scope.channelId,
				version_id: bundle.id,
				version_name: bundle.name,
				changes: JSON.stringify(bundles),
				base: JSON.stringify(base),
				proposer_type: principal.kind === "key" ? "api_key" : "user",
				proposed_by: principal.userId,
				proposed_by_key: principal.keyId,
				proposer_name: actor.name,
				created_at_ms: nowMs,
				expires_at_ms: expiresAtMs,
			}),
			auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: "proposal.create",
				target: { type: "proposal", id, name: channel.name },
				app,
				after: auditedChannel(bundles, versions),
			}),
		]),
	);
	return { id, message, expiresAtMs };
}

/** The bundle that a proposal is about; the store build has no id. */
function proposedBundle({ bundles, promoted }: ChannelChange, channel: ChannelRow) {
	const { version_id, rollout_version_id } = bundles;
	const stable = version_id === undefined ? channel.rollout_version_id : version_id;
	const id = typeof rollout_version_id === "number" ? rollout_version_id : stable;
	const ofRollout = id === channel.rollout_version_id ? channel.rollout_version_name : null;
	return { id, name: promoted.find((bundle) => bundle.id === id)?.name ?? ofRollout };
}

/** Ignores the id of the rollout, because each request draws a new one. */
function isSameChange({ rollout_id: _one, ...one }: ChannelValues, { rollout_id: _other, ...other }: ChannelValues) {
	return JSON.stringify(Object.entries(one).sort()) === JSON.stringify(Object.entries(other).sort());
}
