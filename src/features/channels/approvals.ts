/**
 * Approving and rejecting proposals. An approval writes exactly the columns that were proposed, and
 * only while the channel is unchanged, the bundle is ready, and the proposer may still promote.
 */

import * as v from "valibot";
import { PROPOSING_ROLES } from "../../authz/permissions";
import { isApprover } from "../../authz/promoters";
import { isUnseenBy } from "../../db/api-keys";
import { auditStatement } from "../../db/audit/entries";
import { type ChannelValues, channelOfProposal } from "../../db/channels";
import { guard, query } from "../../db/client";
import { packagesOfProposal } from "../../db/native-packages";
import { channelHas, decideProposal, proposalIsPending, proposalsPage, proposerMayPromote } from "../../db/proposals";
import { appIdOf } from "../../db/public-app-id";
import { ApiError } from "../../errors";
import { type Context, endpoint } from "../../http/endpoint";
import { MAY_WAIT } from "../../http/pipeline/wait-visible";
import { acknowledgement, label, OK, optional, publicAppId, uuid } from "../../http/schemas";
import {
	CHANNEL_SCOPE_COLUMNS,
	type ChannelScopeRow,
	channelTarget,
	hiddenAs,
	type ScopeSource,
	textAt,
} from "../../http/scope";
import { compatibilityGuards, refuseIncompatible } from "./compatibility";
import { formGuards } from "./guards";
import { promotedBundles } from "./needs";
import { EXAMPLE_PROPOSAL } from "./proposals";
import { protectionGuards, refuseNonPromoter } from "./protection";
import { type ChannelBatch, runBatch } from "./run";
import { rolloutEnded, rolloutEndedSchema } from "./served-bundles";
import { changeStatements } from "./statements";

const proposalNotFound = hiddenAs(
	"proposal_not_found",
	"No proposal with this id is visible to this caller; check id against GET /proposal.",
);

/** The channel of the proposal that the body names. */
const proposalScope: ScopeSource<ChannelScopeRow> = {
	statement: (raw) => {
		const [appId, id] = [textAt(raw, "body.app_id"), textAt(raw, "body.id")];
		if (appId === undefined || id === undefined) return undefined;
		return query
			.selectFrom("apps")
			.innerJoin("proposals", "proposals.app_id", "apps.id")
			.innerJoin("channels", "channels.id", "proposals.channel_id")
			.select([
				"apps.id",
				"apps.app_id",
				"apps.owner_org",
				"apps.default_upload_channel",
				"apps.preview_prereleases_only",
			])
			.select(CHANNEL_SCOPE_COLUMNS)
			.where("apps.id", "=", appIdOf(appId))
			.where("proposals.id", "=", id.toLowerCase())
			.compile();
	},
	target: channelTarget,
	hidden: proposalNotFound,
};

const decisionBody = v.object({ app_id: publicAppId, id: uuid, comment: optional(label(512)) });
const access = { permission: "channel.promote_bundle", scope: proposalScope } as const;
const reads = ({ app_id, id }: { readonly app_id: string; readonly id: string }, nowMs: number) => ({
	proposal: proposalsPage(app_id, { id }, nowMs, 1, 0),
	channel: channelOfProposal(app_id, id),
	packages: packagesOfProposal(app_id, id),
});

type DecisionContext = Context<string, undefined, typeof decisionBody, ChannelScopeRow, ReturnType<typeof reads>>;

/**
 * The waiting proposal and its channel.
 * @throws {ApiError} for a decided one, or a caller with only a preview role
 */
function waitingProposal({ loaded, ownWorkOnly }: Pick<DecisionContext, "loaded" | "ownWorkOnly">) {
	const [proposal] = loaded.proposal;
	const [channel] = loaded.channel;
	if (proposal === undefined || channel === undefined) throw proposalNotFound();
	if (ownWorkOnly("channel.promote_bundle") !== undefined) throw proposalNotFound();
	if (proposal.state !== "pending") throw notPending(proposal.state);
	return { proposal, channel };
}

function notPending(state: string): ApiError {
	return new ApiError(
		"proposal_not_pending",
		`The proposal does not wait any more: it is ${state}. Propose the change again if you still need it.`,
		{ moreInfo: { state } },
	);
}

function outdated(): ApiError {
	return new ApiError(
		"proposal_outdated",
		"The channel has changed since the proposal, so an approval would have another effect; reject it and propose the change again.",
	);
}

export const approveProposal = endpoint({
	method: "POST",
	path: "/proposal/approve",
	tag: "Channels",
	summary: "Approve a promotion to a protected channel, which applies it",
	description: [
		"For a promoter of the channel who is not the proposer.",
		"Another key of the proposer's account counts as the proposer, and so does a key whose secret the",
		"proposer revealed or regenerated.",
		"A person needs a recent sign-in with a passkey; a key approves only if `promoters` names its id.",
		"The change is exactly the proposed one.",
		"It is refused as `proposal_outdated` if the channel has changed since, or if the proposer may not",
		"promote any more, and as `bundle_not_found` if the bundle was deleted.",
	],
	access,
	body: decisionBody,
	recentSignIn: "passkey",
	headers: MAY_WAIT,
	response: v.strictObject({
		status: v.literal("ok"),
		channel: v.string(),
		version: v.nullable(v.string()),
		rollout_ended: v.nullable(rolloutEndedSchema),
	}),
	errors: [
		"bundle_incompatible",
		"bundle_not_found",
		"bundle_not_signed",
		"channel_changed",
		"channel_delta_required",
		"channel_protected",
		"channel_zip_required",
		"proposal_needs_another_person",
		"proposal_not_found",
		"proposal_not_pending",
		"proposal_outdated",
	],
	example: {
		body: { app_id: "com.example.app", id: EXAMPLE_PROPOSAL.id, comment: "Tested on both platforms" },
		response: { status: "ok" as const, channel: "production", version: "1.5.0", rollout_ended: null },
	},
	load: ({ body }, nowMs) => reads(body, nowMs),
	async handle(context) {
		// 1. What differs
		const waiting = waitingProposal(context);
		const { proposal, channel } = waiting;
		const values: ChannelValues = JSON.parse(proposal.changes);
		// 2. What it needs
		requireApprover(context, waiting);
		if (proposal.is_outdated === 1) throw outdated();
		// The channel may require it since the proposal.
		refuseIncompatible(values, channel, context.loaded.packages);
		// 3. The statements
		const batch = approvalStatements(context, waiting, values);
		// 4. Run
		await runBatch(context, batch);
		return {
			...OK,
			channel: channel.name,
			version: proposal.version_name,
			rollout_ended: rolloutEnded(values, channel),
		};
	},
});

/**
 * @throws {ApiError} for the proposer, and for a caller that is no promoter or whose approval shows
 * no second look
 */
function requireApprover(
	{ principal, scope }: Pick<DecisionContext, "principal" | "scope">,
	{ proposal, channel }: ReturnType<typeof waitingProposal>,
): void {
	// Elsewhere the same person could promote the bundle alone.
	if (channel.requires_approval === 1 && proposal.proposed_by === principal.userId) {
		throw needsAnotherPerson("This account proposed the change, and its other keys count as the same person");
	}
	if (principal.kind === "key" && principal.secretIsReplaced) {
		throw needsAnotherPerson("This secret of the API key has been replaced, so it is unknown who has seen it");
	}
	refuseNonPromoter(principal, channel, scope);
	if (principal.kind === "key" && principal.publisher !== undefined) {
		throw new ApiError("channel_protected", "A CI job cannot approve a proposal; ask a person to approve it.", {
			moreInfo: { channel: channel.name },
		});
	}
	if (!isApprover(principal, channel, scope)) {
		throw new ApiError(
			"channel_protected",
			`A key approves only if promoters of channel ${channel.name} names its id; have a person approve it, or add the key's id.`,
			{ moreInfo: { channel: channel.name } },
		);
	}
}

function approvalStatements(
	context: DecisionContext,
	{ proposal, channel }: ReturnType<typeof waitingProposal>,
	values: ChannelValues,
): ChannelBatch {
	const { scope, scopeRow, input, nowMs, actor, principal } = context;
	const { orgId, appId, channelId } = scope;
	const approval = { proposal: proposal.id, proposed_by: proposal.proposer_name };
	const comment = input.body.comment ?? null;
	const versions = new Map([
		[proposal.version_id ?? 0, proposal.version_name ?? ""],
		[channel.rollout_version_id ?? 0, channel.rollout_version_name ?? ""],
	]);
	return changeStatements(context, {
		channel,
		values,
		signatures: promotedBundles(values, channel),
		audit: { action: "channel.promote", versions, details: approval },
		history: { reason: comment, proposer: proposal.proposer_name },
		guards: [
			guard(proposalIsPending(appId, proposal.id, nowMs), decidedInBetween),
			guard(channelHas(appId, channelId, JSON.parse(proposal.base)), outdated),
			...protectionGuards(appId, channelId, channel),
			...compatibilityGuards(appId, channelId, values, channel, outdated),
			guard(isUnseenBy(principal.keyId, proposal.proposed_by), sharedSecret),
			guard(isUnseenBy(proposal.proposed_by_key, principal.userId), sharedSecret),
			guard(proposerMayPromote(orgId, appId, proposal, PROPOSING_ROLES, nowMs), proposerGone),
		],
		before: [
			decideProposal(appId, proposal.id, {
				state: "approved",
				decided_by: principal.userId,
				decider_name: actor.name,
				decided_at_ms: nowMs,
				comment,
			}),
			auditStatement(actor, nowMs, {
				orgId,
				action: "proposal.approve",
				target: { type: "proposal", id: proposal.id, name: channel.name },
				app: { uuid: appId, id: scopeRow.app_id },
				details: { ...approval, ...(comment === null ? {} : { comment }) },
			}),
		],
		after: formGuards(values, appId, channelId),
	});
}

const decidedInBetween = () => notPending("decided or expired");

const sharedSecret = () =>
	needsAnotherPerson(
		"One person knows the secrets of both sides: the proposer has revealed or regenerated the key that approves, or the approver the key that proposed",
	);

function needsAnotherPerson(reason: string): ApiError {
	return new ApiError("proposal_needs_another_person", `${reason}; have another promoter approve it.`);
}

function proposerGone(): ApiError {
	return new ApiError(
		"proposal_outdated",
		"The proposer may not release in this app any more; reject the proposal and propose the change again.",
	);
}

export const rejectProposal = endpoint({
	method: "POST",
	path: "/proposal/reject",
	tag: "Channels",
	summary: "Reject a promotion that waits for approval; the proposer withdraws it",
	access,
	body: decisionBody,
	response: acknowledgement,
	errors: ["channel_protected", "proposal_not_found", "proposal_not_pending"],
	example: { body: { app_id: "com.example.app", id: EXAMPLE_PROPOSAL.id, comment: "Wait for 1.5.1" }, response: OK },
	load: ({ body }, nowMs) => reads(body, nowMs),
	async handle(context) {
		const { db, scope, scopeRow, input, nowMs, actor, principal } = context;
		const { proposal, channel } = waitingProposal(context);
		const isOwn = proposal.proposed_by === principal.userId;
		if (!isOwn) refuseNonPromoter(principal, channel, scope);
		const comment = input.body.comment ?? null;
		await db.batch([
			guard(proposalIsPending(scope.appId, proposal.id, nowMs), decidedInBetween),
			decideProposal(scope.appId, proposal.id, {
				state: isOwn ? "withdrawn" : "rejected",
				decided_by: principal.userId,
				decider_name: actor.name,
				decided_at_ms: nowMs,
				comment,
			}),
			auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: isOwn ? "proposal.withdraw" : "proposal.reject",
				target: { type: "proposal", id: proposal.id, name: channel.name },
				app: { uuid: scope.appId, id: scopeRow.app_id },
				details: { version: proposal.version_name, ...(comment === null ? {} : { comment }) },
			}),
		]);
		return OK;
	},
});
