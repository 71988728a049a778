/**
 * A promotion to a protected channel that requires approval becomes a proposal, and so does any
 * promotion by a publisher that may only propose. It holds exactly the columns that an approval
 * writes, and the values that the channel must still have by then. A new proposal supersedes the
 * one that waits.
 */
import { sql } from "kysely";
import * as v from "valibot";
import { auditedChannel } from "../../db/audit/channels";
import { auditEach, auditStatement } from "../../db/audit/entries";
import { bundleIsReady } from "../../db/bundles";
import type { ChannelRow, ChannelValues } from "../../db/channels";
import { guard, type Statement } from "../../db/client";
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
import { rfc3339, time } from "../../http/schemas";
import { bundleNotFound } from "../../http/scope";
import { promotingRules } from "../signing/verify";
import { type ChannelBody, rolloutOf } from "./body";
import { compatibilityGuards } from "./compatibility";
import type { Difference } from "./difference";
import { changedByAnother, channelGuards } from "./guards";
import type { Needs } from "./needs";
import type { ChangeContext } from "./reads";
import type { ChannelBatch, Proposed } from "./run";
import { drawn, type PlannedValues, touchesRollout } from "./values";

/** The answer to a promotion that became a proposal. */
export const pendingApproval = {
	status: v.literal("pending_approval"),
	message: v.string(),
	proposal_id: v.string(),
	expires_at: time,
};

export const pendingApprovalAnswer = ({ id, message, expiresAtMs }: Proposed) => ({
	status: "pending_approval" as const,
	message,
	proposal_id: id,
	expires_at: rfc3339(expiresAtMs),
});

/**
 * For a change that becomes a proposal.
 * @throws {ApiError} `approval_required` for settings in the same request, because nobody would
 * approve those, and for a second bundle, because a proposal shows one
 */
export function waitsForApproval(
	{ settings, bundles, changesSettings }: Difference,
	channel: ChannelRow,
	body: ChannelBody,
): true {
	if (concernsTwoBundles(bundles, channel, body)) {
		throw new ApiError(
			"approval_required",
			`A promotion to channel ${channel.name} waits for approval, and a proposal is about one bundle; propose the stable bundle and the rollout one after the other.`,
		);
	}
	if (!changesSettings) return true;
	throw new ApiError(
		"approval_required",
		`A promotion to channel ${channel.name} waits for approval and its settings do not; send the bundle and the settings in two requests.`,
		{ moreInfo: { settings: Object.keys(settings) } },
	);
}

/**
 * The change sets the stable bundle and touches a rollout that continues, or names a bundle beside
 * the rollout that it finishes.
 */
function concernsTwoBundles(bundles: PlannedValues, channel: ChannelRow, body: ChannelBody): boolean {
	const { version, promoteToStable } = rolloutOf(body);
	if (promoteToStable && (body.version !== undefined || version !== undefined)) return true;
	const rolloutId = bundles.rollout_version_id === undefined ? channel.rollout_version_id : bundles.rollout_version_id;
	return bundles.version_id !== undefined && touchesRollout(bundles) && rolloutId !== null;
}

/** The list of a new proposal; none for one that waits already, which is returned. */
export function proposalStatements(
	context: ChangeContext,
	channel: ChannelRow,
	difference: Difference,
	needs: Needs,
): ChannelBatch {
	const { deps, scope, nowMs } = context;
	const bundle = proposedBundle(difference, channel);
	const shown = bundle.name ?? "the store build";
	const reason = channel.requires_approval === 1 ? `channel ${channel.name} is protected` : "this key may only propose";
	const message = `${shown} is waiting for approval: ${reason}. Devices keep what they have until a promoter approves it.`;
	const changes = drawn(difference.bundles, deps.newId, nowMs);
	const signatures = promotingRules(scope.appId, needs.signatures);
	const repeated = repeatedProposal(context, changes);
	if (repeated !== undefined) {
		const { id, expires_at_ms: expiresAtMs } = repeated;
		return { channel, statements: [], signatures, answer: { proposal: { id, message, expiresAtMs } } };
	}
	const id = deps.newId();
	const expiresAtMs = nowMs + PROPOSAL_LIFETIME_MS;
	const versions = new Map(difference.promoted.map((promoted) => [promoted.id, promoted.name]));
	if (bundle.id !== null) versions.set(bundle.id, shown);
	const statements = [
		...signatures.guards,
		...proposalGuards(context, channel, difference, changes),
		...supersededBy(context, channel, id),
		inserted(context, { id, bundle, channel, changes, expiresAtMs }),
		auditStatement(context.actor, nowMs, {
			orgId: scope.orgId,
			action: "proposal.create",
			target: { type: "proposal", id, name: channel.name },
			app: { uuid: scope.appId, id: context.scopeRow.app_id },
			after: auditedChannel(changes, versions),
		}),
	];
	return { channel, statements, signatures, answer: { proposal: { id, message, expiresAtMs } } };
}

/** The same change by the same caller, if it waits already. */
function repeatedProposal({ loaded, principal }: ChangeContext, changes: ChannelValues): ProposalRow | undefined {
	const [waiting] = loaded.waiting;
	const isRepeated =
		waiting?.state === "pending" &&
		waiting.is_outdated === 0 &&
		waiting.proposed_by === principal.userId &&
		waiting.proposed_by_key === principal.keyId &&
		isSameChange(JSON.parse(waiting.changes), changes);
	return isRepeated ? waiting : undefined;
}

/** The values that the channel must still have when the proposal is approved. */
const baseOf = (channel: ChannelRow, changes: ChannelValues) =>
	Object.fromEntries(
		BASE_COLUMNS.filter(
			(column) => ["version_id", "rollout_id", "public"].includes(column) || changes[column] !== undefined,
		).map((column) => [column, channel[column]]),
	);

function proposalGuards(
	{ scope: { appId, channelId } }: ChangeContext,
	channel: ChannelRow,
	{ promoted }: Difference,
	changes: ChannelValues,
): Statement[] {
	return [
		...promoted.map(({ id }) => guard(bundleIsReady(appId, id), bundleNotFound)),
		...channelGuards(appId, channelId, channel),
		...compatibilityGuards(appId, channelId, changes, channel, changedByAnother),
		guard(channelHas(appId, channelId, baseOf(channel, changes)), changedByAnother),
	];
}

function supersededBy({ scope, scopeRow, actor, nowMs }: ChangeContext, { name }: ChannelRow, id: string): Statement[] {
	return [
		auditEach(
			actor,
			nowMs,
			{ action: "proposal.supersede", targetType: "proposal", ofApps: true, details: { by: id } },
			sql`SELECT ${scope.orgId} AS org_id, p.id AS target_id, ${name} AS target_name, ${scope.appId} AS app_uuid,
				${scopeRow.app_id} AS app_id, NULL AS before, NULL AS after FROM proposals p WHERE ${waitingFor(scope.appId, scope.channelId)}`,
		),
		supersedeProposals(scope.appId, scope.channelId, nowMs),
		pruneProposals(scope.appId, scope.channelId),
	];
}

function inserted(
	{ scope, principal, actor, nowMs }: ChangeContext,
	proposal: {
		readonly id: string;
		readonly bundle: ReturnType<typeof proposedBundle>;
		readonly channel: ChannelRow;
		readonly changes: ChannelValues;
		readonly expiresAtMs: number;
	},
): Statement {
	const { id, bundle, channel, changes, expiresAtMs } = proposal;
	return insertProposal(scope.appId, {
		id,
		channel_id: scope.channelId,
		version_id: bundle.id,
		version_name: bundle.name,
		changes: JSON.stringify(changes),
		base: JSON.stringify(baseOf(channel, changes)),
		proposer_type: principal.kind === "key" ? "api_key" : "user",
		proposed_by: principal.userId,
		proposed_by_key: principal.keyId,
		proposer_name: actor.name,
		created_at_ms: nowMs,
		expires_at_ms: expiresAtMs,
	});
}

/** The bundle that a proposal is about; the store build has no id. */
function proposedBundle({ bundles, promoted }: Difference, channel: ChannelRow) {
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
