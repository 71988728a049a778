/**
 * Proposals: promotions to protected channels that somebody else approves. An approval writes exactly what was proposed, in one batch that
 * holds only while the channel is as it was then, the bundle is ready and the proposer could still promote.
 */
import * as v from "valibot";
import { promoting } from "../api/bundle-signing";
import { FORM_REFUSALS, formGuards, promotedBundles, signatureGuards } from "../api/channel-change";
import {
	isApprover,
	PROMOTING_ROLES,
	protectionChanged,
	protectionGuards,
	refuseNonPromoter,
} from "../api/channel-protection";
import { type Context, endpoint } from "../api/endpoint";
import { pageBounds, pageReply } from "../api/page";
import {
	acknowledgement,
	channelName,
	label,
	nullableRfc3339,
	nullableTime,
	OK,
	optional,
	pageNumber,
	publicAppId,
	rfc3339,
	time,
	uuid,
} from "../api/schemas";
import {
	type AppScopeRow,
	appScope,
	bundleNotFound,
	CHANNEL_SCOPE_COLUMNS,
	type ChannelScopeRow,
	channelTarget,
	hiddenAs,
	type ScopeSource,
	textAt,
} from "../api/scope";
import { MAY_WAIT } from "../api/visibility";
import { holds } from "../authz/decide";
import { isUnseenBy } from "../db/api-keys";
import { auditStatement } from "../db/audit";
import { bundleIsReady } from "../db/bundles";
import { auditChannelChange } from "../db/channel-audit";
import { recordChannelChange } from "../db/channel-history";
import { type ChannelValues, channelOfProposal, updateChannel } from "../db/channels";
import { batchOrFail, guard, query } from "../db/client";
import {
	type ComparableBundle,
	channelHas,
	decideProposal,
	type ManifestDifference,
	type ProposalRow,
	proposalIsPending,
	proposalsPage,
	proposerMayPromote,
} from "../db/proposals";
import { appIdOf } from "../db/public-app-id";
import { followRollout } from "../db/rollouts";
import { bumpRevision } from "../db/snapshot";
import { ApiError } from "../errors";
import { bundleDifference, differenceReads, differenceSchema, NOT_COMPARED } from "./bundle-difference";
import { bundlesOf, effectOf, effectReads } from "./what-if";

/** Waiting proposals whose effect one answer computes; the others have it when they are asked for by `id`. */
const MOST_JUDGED = 3;
/** Devices that were seen in this time are counted. */
const DAYS = 30;
const NO_PLATFORM = { ios: 0, android: 0, electron: 0 } as const;

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

const EXAMPLE_PROPOSAL: Proposal = {
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
		...{ added: 1, changed: 1, removed: 0 },
		files: [
			{ file: "assets/pay.js", change: "added" },
			{ file: "index.html", change: "changed" },
		],
		zip: null,
	},
	not_compared: null,
};

/** The rollout that the proposal changes; null where it changes only the bundle of every device. */
function rolloutOf(changes: ChannelValues, row: ProposalRow): Proposal["rollout"] {
	const isAbout = Object.keys(changes).some((column) => column.startsWith("rollout_"));
	if (!isAbout || changes.rollout_version_id === null) return null;
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
	summary: "List promotions that wait for approval, and how earlier ones ended",
	description:
		"Waiting ones come first, then the newest. `version` is the bundle that is proposed (null: the store build), for every device or, with `rollout`, for a share of them. `outdated` says that the channel changed since: such a proposal cannot be approved any more, propose again. `what_if` and `difference` are computed for the first waiting ones, and for one that is asked for by `id`: how many devices seen in the last 30 days would get another version (null without app.read_devices), and which files differ from the live bundle, by manifest or by the zips' directories; bundles with both are compared by manifest, and their zips in `difference.zip`. `not_compared` says what is missing: `forms_differ` (one is served as single files or as a zip and the other is not; nothing is compared) or `zip` (encrypted, external or very large). `can_approve` is about the caller's role; the proposer's own account cannot approve. Names of people and keys need app.read_audit.",
	access: { permission: "app.read", scope: appScope("query.app_id") },
	query: v.object({ app_id: publicAppId, id: optional(uuid), channel: optional(channelName), page: pageNumber }),
	response: v.array(proposalSchema),
	errors: [],
	example: { query: { app_id: "com.example.app" }, response: [EXAMPLE_PROPOSAL] },
	load: ({ query: { app_id, id, channel, page } }, nowMs) => {
		const { limit, offset } = pageBounds(page);
		return [proposalsPage(app_id, { id, channel }, nowMs, limit, offset)] as const;
	},
	async handle({ db, deps, loaded, input, principal, scope, scopeRow, request, origin, nowMs }) {
		const app = { orgId: scope.orgId, appId: scope.appId };
		const showsNames = holds(principal, "app.read_audit", app);
		const mayCount = holds(principal, "app.read_devices", app);
		const mayCompare = holds(principal, "app.read_bundles", app);
		const judged = await effectsOf({ db, deps, scope, scopeRow, nowMs }, loaded[0].rows, { mayCount, mayCompare });
		return pageReply({ request, origin }, input.query.page, loaded[0].rows, (row) => ({
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
			can_approve:
				row.state === "pending" &&
				row.proposed_by !== principal.userId &&
				holds(principal, "channel.promote_bundle", app) &&
				isApprover(principal, { ...row, name: row.channel_name, protected: 1 }, app),
			what_if: null,
			difference: null,
			not_compared: null,
			...judged.get(row.id),
		}));
	},
});

type Effect = Pick<Proposal, "what_if" | "difference" | "not_compared">;

/** Effects of the first waiting proposals, in one round trip. */
async function effectsOf(
	{ db, deps, scope, scopeRow, nowMs }: Pick<ListContext, "db" | "deps" | "scope" | "scopeRow" | "nowMs">,
	rows: readonly ProposalRow[],
	{ mayCount, mayCompare }: { readonly mayCount: boolean; readonly mayCompare: boolean },
): Promise<ReadonlyMap<string, Effect>> {
	const waiting = rows.filter(({ state }) => state === "pending").slice(0, MOST_JUDGED);
	if (waiting.length === 0 || !(mayCount || mayCompare)) return new Map();
	const app = { appId: scope.appId, publicAppId: scopeRow.app_id };
	const proposed = waiting.map((row) => ({ row, values: JSON.parse(row.changes) as ChannelValues }));
	const reads = effectReads(
		app,
		proposed.flatMap(({ values }) => bundlesOf(values)),
	);
	const [apps, channels, bundles, asked, fleet, ...differences] = await db.batch([
		...reads,
		...waiting.flatMap(({ live_version_id, version_id }) =>
			differenceReads(scope.appId, live_version_id ?? 0, version_id ?? 0),
		),
	]);
	const effects = new Map<string, Effect>();
	for (const [index, { row, values }] of proposed.entries()) {
		const compared = differences[2 * index]?.rows as ComparableBundle[] | undefined;
		const differing = differences[2 * index + 1]?.rows as ManifestDifference[] | undefined;
		const change = { values, taken: NO_PLATFORM };
		const read = [apps, channels, bundles, asked, fleet] as const;
		const plan = mayCount ? effectOf(read, app, { channel: row.channel_name, days: DAYS }, change, nowMs) : undefined;
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
				? await bundleDifference(deps, compared ?? [], differing ?? [], ...ids)
				: { difference: null, not_compared: null }),
		});
	}
	return effects;
}

const proposalNotFound = hiddenAs(
	"proposal_not_found",
	"There is no such proposal for this caller; check its id against GET /proposal.",
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
const reads = ({ app_id, id }: { readonly app_id: string; readonly id: string }, nowMs: number) =>
	[proposalsPage(app_id, { id }, nowMs, 1, 0), channelOfProposal(app_id, id)] as const;

type DecisionContext = Context<string, undefined, typeof decisionBody, ChannelScopeRow, ReturnType<typeof reads>>;

/** The proposal that waits, and its channel. @throws {ApiError} for one that does not wait, or a caller limited to previews */
function waitingProposal({ loaded, ownWorkOnly }: Pick<DecisionContext, "loaded" | "ownWorkOnly">) {
	const [proposal] = loaded[0].rows;
	const [channel] = loaded[1].rows;
	if (proposal === undefined || channel === undefined) throw proposalNotFound();
	if (ownWorkOnly("channel.promote_bundle") !== undefined) throw proposalNotFound();
	if (proposal.state !== "pending") throw notPending(proposal.state);
	return { proposal, channel };
}

function notPending(state: string): ApiError {
	return new ApiError(
		"proposal_not_pending",
		`The proposal does not wait any more: it is ${state}. Propose the change again if it is still wanted.`,
		{ moreInfo: { state } },
	);
}

function outdated(): ApiError {
	return new ApiError(
		"proposal_outdated",
		"The channel changed since this was proposed, so what was looked at is not what would happen; reject it and propose the change again.",
	);
}

export const approveProposal = endpoint({
	method: "POST",
	path: "/proposal/approve",
	tag: "Channels",
	summary: "Approve a promotion to a protected channel, which then happens",
	description:
		"For a promoter of the channel who is not the proposer: another key of the proposer's account is the same person, and so is a key whose secret the proposer revealed or regenerated. A person needs a sign-in with a passkey of the last minutes; a key approves only where `promoters` names its id. The change is exactly the one that was proposed. It is refused as `proposal_outdated` if the channel changed since, and if the bundle is gone or the proposer could not promote any more.",
	access,
	body: decisionBody,
	recentSignIn: "passkey",
	headers: MAY_WAIT,
	response: v.strictObject({ status: v.literal("ok"), channel: v.string(), version: v.nullable(v.string()) }),
	errors: [
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
		response: { status: "ok" as const, channel: "production", version: "1.5.0" },
	},
	load: ({ body }, nowMs) => reads(body, nowMs),
	async handle(context) {
		const { db, scope, scopeRow, input, nowMs, actor, principal } = context;
		const { proposal, channel } = waitingProposal(context);
		if (proposal.proposed_by === principal.userId) {
			throw needsAnotherPerson("This account proposed the change itself, and its other keys count as the same person");
		}
		if (principal.kind === "key" && principal.secretIsReplaced) {
			throw needsAnotherPerson(
				"This secret of the API key has been replaced, and nobody knows any more who has seen it",
			);
		}
		refuseNonPromoter(principal, channel, scope);
		if (!isApprover(principal, channel, scope)) {
			throw new ApiError(
				"channel_protected",
				`A key approves only where promoters of channel ${channel.name} names its id; have a person approve it, or add the key's id.`,
				{ moreInfo: { channel: channel.name } },
			);
		}
		if (proposal.is_outdated === 1) throw outdated();
		const values: ChannelValues = JSON.parse(proposal.changes);
		const bundles = [values.version_id, values.rollout_version_id].filter((id) => typeof id === "number");
		const versions = new Map([
			[proposal.version_id ?? 0, proposal.version_name ?? ""],
			[channel.rollout_version_id ?? 0, channel.rollout_version_name ?? ""],
		]);
		const target = { type: "proposal", id: proposal.id, name: channel.name };
		const approval = { proposal: proposal.id, proposed_by: proposal.proposer_name };
		const comment = input.body.comment ?? null;
		const promoted = promotedBundles(values, channel);
		await promoting(context, scope.appId, promoted, (verified) =>
			batchOrFail(
				db,
				[
					...verified,
					...signatureGuards(scope.appId, promoted),
					guard("is_pending", proposalIsPending(scope.appId, proposal.id, nowMs)),
					guard("channel_as_proposed", channelHas(scope.appId, scope.channelId, JSON.parse(proposal.base))),
					...protectionGuards(scope.appId, scope.channelId, channel),
					guard("two_people", isUnseenBy(principal.keyId, proposal.proposed_by)),
					guard("two_people", isUnseenBy(proposal.proposed_by_key, principal.userId)),
					guard("proposer_good", proposerMayPromote(scope.orgId, scope.appId, proposal, PROMOTING_ROLES, nowMs)),
					...bundles.map((id) => guard("bundle_ready", bundleIsReady(scope.appId, id))),
					decideProposal(scope.appId, proposal.id, {
						state: "approved",
						...{ decided_by: principal.userId, decider_name: actor.name, decided_at_ms: nowMs, comment },
					}),
					auditStatement(actor, nowMs, {
						orgId: scope.orgId,
						action: "proposal.approve",
						target,
						app: { uuid: scope.appId, id: scopeRow.app_id },
						details: { ...approval, ...(comment === null ? {} : { comment }) },
					}),
					auditChannelChange(
						actor,
						nowMs,
						"channel.promote",
						{ ...scope, publicAppId: scopeRow.app_id },
						values,
						versions,
						approval,
					),
					...recordChannelChange(actor, nowMs, scope.appId, scope.channelId, values, {
						...{ reason: comment, proposer: proposal.proposer_name },
					}),
					updateChannel(scope.appId, scope.channelId, values, nowMs),
					...formGuards(values, scope.appId, scope.channelId),
					...followRollout(scope.appId, scope.channelId, nowMs),
					bumpRevision(scope.appId),
				],
				{
					is_pending: () => notPending("decided or expired"),
					channel_as_proposed: outdated,
					protection_as_read: protectionChanged,
					two_people: () =>
						needsAnotherPerson(
							"One person knows the secrets of both sides: the proposer has revealed or regenerated the key that approves, or the approver the key that proposed",
						),
					proposer_good: proposerGone,
					bundle_ready: bundleNotFound,
					...FORM_REFUSALS,
				},
			),
		);
		return { ...OK, channel: channel.name, version: proposal.version_name };
	},
});

function needsAnotherPerson(reason: string): ApiError {
	return new ApiError("proposal_needs_another_person", `${reason}; have another promoter approve it.`);
}

function proposerGone(): ApiError {
	return new ApiError(
		"proposal_outdated",
		"The key or person that proposed this may not promote in this app any more; reject it and propose the change again.",
	);
}

export const rejectProposal = endpoint({
	method: "POST",
	path: "/proposal/reject",
	tag: "Channels",
	summary: "Reject a promotion that waits for approval, or withdraw one's own",
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
		await batchOrFail(
			db,
			[
				guard("is_pending", proposalIsPending(scope.appId, proposal.id, nowMs)),
				decideProposal(scope.appId, proposal.id, {
					state: isOwn ? "withdrawn" : "rejected",
					...{ decided_by: principal.userId, decider_name: actor.name, decided_at_ms: nowMs, comment },
				}),
				auditStatement(actor, nowMs, {
					orgId: scope.orgId,
					action: isOwn ? "proposal.withdraw" : "proposal.reject",
					target: { type: "proposal", id: proposal.id, name: channel.name },
					app: { uuid: scope.appId, id: scopeRow.app_id },
					details: { version: proposal.version_name, ...(comment === null ? {} : { comment }) },
				}),
			],
			{ is_pending: () => notPending("decided or expired") },
		);
		return OK;
	},
});
