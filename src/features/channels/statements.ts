/**
 * Step 3 of a channel change: its statements, as one list that runs as one batch. Guards stand
 * first, and the audit entry and the history before the write, because they read the replaced
 * values. A promotion, a rollback, an approval and a change of settings share one list,
 * `changeStatements`, so none can leave out the history, the rollout or the revision.
 */
import { auditBindingGiven, auditPreviewAccessEnded } from "../../db/audit/bindings";
import { auditChannelChange, auditedChannel, yieldingChannels } from "../../db/audit/channels";
import { auditEach, auditStatement } from "../../db/audit/entries";
import { bundleIsReady } from "../../db/bundles";
import { type HistoryReason, recordChannelChange, recordNewChannel } from "../../db/channel-history";
import { endPreviewAccess, previewAccessOf, previewNameIsFree, reserveName } from "../../db/channel-names";
import {
	type ChannelRow,
	type ChannelValues,
	channelIdNamed,
	channelPlatformsAre,
	insertChannel,
	updateChannel,
	writtenChannel,
	yieldPublicPlatforms,
} from "../../db/channels";
import { guard, onUnique, type Statement } from "../../db/client";
import { bundlesHaveNoPreview, promotionToPreview } from "../../db/preview-bundles";
import { PREVIEW_CHANNEL_SETTINGS, previewBinding } from "../../db/preview-channels";
import { refuseNameOfPreview } from "../../db/previews";
import { withdrawProposals } from "../../db/proposals";
import { channelsOfApp, channelsOfPreviewKey } from "../../db/quotas";
import { followRollout, recountExcluded, rolloutIs } from "../../db/rollouts";
import { bumpRevision } from "../../db/snapshot";
import { columnsOf, SERVED_FIELDS } from "../../domain/updates/channel-fields";
import { ApiError } from "../../errors";
import type { Context } from "../../http/endpoint";
import { bundleNotFound, type ChannelScopeRow } from "../../http/scope";
import { promotingRules } from "../signing/verify";
import { compatibilityGuards } from "./compatibility";
import { type Difference, NO_PLATFORMS } from "./difference";
import { changedByAnother, channelChanged, channelGuards, formGuards, onlyPublic } from "./guards";
import type { Needs } from "./needs";
import { proposalStatements } from "./propose";
import { noProtectedYields, promoterNotFound, promotersExist, protectionChanged } from "./protection";
import type { ChangeContext } from "./reads";
import type { Allowed, NewPreview } from "./requirements";
import type { ChannelBatch } from "./run";
import { drawn, newBundles } from "./values";

type ChangeAction = "channel.update" | "channel.promote";

/** @param action audit action for an existing channel */
export function statementsOf(
	context: ChangeContext,
	difference: Difference,
	needs: Needs,
	allowed: Allowed,
	action: ChangeAction,
): ChannelBatch {
	const { channel, changesSettings, changesBundles } = difference;
	if (channel === undefined) return creation(context, difference, needs, allowed);
	if (!changesSettings && !changesBundles) {
		return { channel, statements: [], signatures: promotingRules(context.scope.appId, []) };
	}
	if (allowed.proposes) return proposalStatements(context, channel, difference, needs);
	return changeStatements(context, changeOf(context, channel, difference, needs, allowed, action));
}

/** A change of an existing channel. */
interface ChannelWrite {
	/** As it was read. */
	readonly channel: ChannelRow;
	readonly values: ChannelValues;
	/** Bundles that the signing policy must accept. */
	readonly signatures: readonly number[];
	readonly audit: {
		readonly action: Parameters<typeof auditChannelChange>[2];
		/** Versions of the bundles in `values` and of the rollout, by id. */
		readonly versions: ReadonlyMap<number, string>;
		readonly details?: Readonly<Record<string, unknown>>;
	};
	readonly history?: HistoryReason;
	readonly guards: readonly Statement[];
	/** Error if a bundle was deleted in between. */
	readonly missing?: () => ApiError;
	readonly before?: readonly Statement[];
	readonly after?: readonly Statement[];
	/** The preview access to the channel ends. */
	readonly endsPreview?: boolean;
	readonly answer?: ChannelBatch["answer"];
}

export function changeStatements(
	{
		actor,
		nowMs,
		scope,
		scopeRow,
	}: Pick<
		Context<string, undefined, undefined, ChannelScopeRow, readonly []>,
		"actor" | "nowMs" | "scope" | "scopeRow"
	>,
	write: ChannelWrite,
): ChannelBatch {
	const { channel, values, audit, history, guards, missing = bundleNotFound, before = [], after = [], answer } = write;
	const { appId, channelId } = scope;
	const isServed = columnsOf(SERVED_FIELDS).some((column) => values[column] !== undefined);
	const signatures = promotingRules(appId, write.signatures);
	const previewAccess = previewAccessOf(appId, write.endsPreview === true ? channel.name : "");
	const written = writtenChannel(appId, channelId);
	const statements = [
		previewAccess,
		...signatures.guards,
		...guards,
		...newBundles(values).map((id) => guard(bundleIsReady(appId, id), missing)),
		...before,
		auditChannelChange(
			actor,
			nowMs,
			audit.action,
			{ ...scope, publicAppId: scopeRow.app_id },
			values,
			audit.versions,
			audit.details,
		),
		...recordChannelChange(actor, nowMs, appId, channelId, values, history),
		onlyPublic(updateChannel(appId, channelId, values, nowMs)),
		...(isServed ? followRollout(appId, channelId, nowMs) : []),
		...after,
		bumpRevision(appId),
		written,
	];
	return { channel, statements, signatures, written, previewAccess, ...(answer === undefined ? {} : { answer }) };
}

function changeOf(
	context: ChangeContext,
	channel: ChannelRow,
	difference: Difference,
	needs: Needs,
	allowed: Allowed,
	action: ChangeAction,
): ChannelWrite {
	const { appId, channelId } = context.scope;
	const { versions, rolloutEnded, concernsRollout, movesPlatforms } = difference;
	const values = drawn(difference.values, context.deps.newId, context.nowMs);
	const endsPreview = values.public === 1 || values.protected === 1;
	const { guards, yields } = ofOtherChannels(context, difference, needs);
	return {
		channel,
		values,
		signatures: needs.signatures,
		audit: { action, versions, ...(rolloutEnded === null ? {} : { details: { rollout_ended: rolloutEnded } }) },
		guards: [
			...channelGuards(appId, channelId, channel),
			...compatibilityGuards(appId, channelId, values, channel, changedByAnother),
			...guards,
			...allowed.opening,
			// The service or another request may have ended or started a rollout, and the request must not
			// apply to another one.
			...(concernsRollout ? [guard(rolloutIs(appId, channelId, channel.rollout_id), rolloutChanged)] : []),
			...(movesPlatforms ? [guard(channelPlatformsAre(appId, channelId, channel), changedByAnother)] : []),
		],
		before: yields,
		after: afterChange(context, channel, values, endsPreview, allowed.ownWorkOnly),
		endsPreview,
		...(rolloutEnded === null ? {} : { answer: { rolloutEnded } }),
	};
}

/**
 * Statements after the write: proposals, preview access and counts that it ends, and the form of
 * its bundles.
 */
function afterChange(
	{ actor, nowMs, scope }: ChangeContext,
	channel: ChannelRow,
	values: ChannelValues,
	endsPreview: boolean,
	ownWorkOnly: boolean,
): Statement[] {
	const { orgId, appId, channelId } = scope;
	const withdraws = values.protected === 0 || values.requires_approval === 0;
	const recounts = values.rollout_count_new_devices !== undefined || values.rollout_devices_per_network !== undefined;
	return [
		...(withdraws ? [withdrawProposals(appId, channelId, nowMs)] : []),
		...(endsPreview
			? [
					auditPreviewAccessEnded(actor, nowMs, orgId, { appId, name: channel.name }),
					...endPreviewAccess(appId, channel.name, nowMs),
				]
			: []),
		...formGuards(values, appId, channelId),
		...promotionToPreview(appId, channelId, newBundles(values), ownWorkOnly, nowMs),
		...(recounts ? [recountExcluded(appId, channelId)] : []),
	];
}

/**
 * Guards about protected channels and new promoters, and statements about the platforms that other
 * channels lose.
 */
function ofOtherChannels({ scope, scopeRow, actor, nowMs }: ChangeContext, difference: Difference, needs: Needs) {
	const { name, taken } = difference;
	const { promoters } = difference.values;
	const guards: Statement[] = [
		...(needs.administrator ? [] : [guard(noProtectedYields(scope.appId, name, taken), protectionChanged)]),
		...(promoters === undefined ? [] : [guard(promotersExist(scope.orgId, promoters), promoterNotFound)]),
	];
	if (taken === NO_PLATFORMS) return { guards, yields: [] };
	const app = { uuid: scope.appId, id: scopeRow.app_id };
	const yields = [
		auditEach(
			actor,
			nowMs,
			{ action: "channel.yield_platforms", targetType: "channel", ofApps: true, details: { to: name } },
			yieldingChannels(scope.orgId, app, name, taken),
		),
		yieldPublicPlatforms(scope.appId, name, taken, nowMs),
	];
	return { guards, yields };
}

function creation(
	context: ChangeContext,
	difference: Difference,
	needs: Needs,
	{ opening, preview }: Allowed,
): ChannelBatch {
	const { deps, principal, scope, scopeRow, nowMs, actor } = context;
	const { appId, orgId } = scope;
	const { name, changesBundles } = difference;
	const values = {
		...(preview === undefined ? {} : PREVIEW_CHANNEL_SETTINGS),
		...drawn(difference.values, deps.newId, nowMs),
	};
	const bindingId = deps.newId();
	const signatures = promotingRules(appId, needs.signatures);
	const { guards, yields } = ofOtherChannels(context, difference, needs);
	const written = writtenChannel(appId, { name });
	const statements = [
		...nameGuards(appId, name, newBundles(values), preview),
		...signatures.guards,
		...newBundles(values).map((id) => guard(bundleIsReady(appId, id), bundleNotFound)),
		...guards,
		...opening,
		...yields,
		inserted(context, name, values, preview),
		auditStatement(actor, nowMs, {
			orgId,
			action: "channel.create",
			target: { type: "channel", name, id: channelIdNamed(appId, name) },
			app: { uuid: appId, id: scopeRow.app_id },
			after: auditedChannel(values, difference.versions),
		}),
		...recordNewChannel(actor, nowMs, appId, name),
		...(preview === undefined ? [reserveName(appId, name, nowMs)] : []),
		...formGuards(values, appId, { name }),
		...(changesBundles ? followRollout(appId, { name }, nowMs) : []),
		bumpRevision(appId),
		...previewBinding(preview?.limit, {
			id: bindingId,
			holder: principal,
			orgId,
			appId,
			channelName: name,
			createdAtMs: nowMs,
		}),
		auditBindingGiven(actor, nowMs, orgId, bindingId, principal),
		written,
	];
	const quotas = [channelsOfApp(appId), ...(preview === undefined ? [] : [channelsOfPreviewKey(appId, principal)])];
	return { channel: undefined, statements, signatures, quotas, written };
}

/**
 * The name is not a closed preview's; a preview's name is free, and its bundles are of no other
 * preview.
 */
function nameGuards(
	appId: ChangeContext["scope"]["appId"],
	name: string,
	bundleIds: readonly number[],
	preview: NewPreview | undefined,
): Statement[] {
	const nameTaken = () => channelChanged("name was taken, or the app's rules for it changed, by another request");
	return [
		...(preview === undefined ? [] : [guard(previewNameIsFree(appId, name, preview.nameRow), nameTaken)]),
		refuseNameOfPreview(appId, name),
		...(preview === undefined ? [] : [bundlesHaveNoPreview(appId, bundleIds)]),
	];
}

function inserted(
	{ principal, scope, nowMs }: ChangeContext,
	name: string,
	values: ChannelValues,
	preview: NewPreview | undefined,
): Statement {
	const row = {
		...values,
		...(preview === undefined ? {} : { is_preview: 1 as const, ...preview.naming }),
		name,
		created_by: principal.userId,
		created_by_key: principal.keyId,
	};
	const created = () => channelChanged("was created by another request");
	return onlyPublic(onUnique(insertChannel(scope.appId, row, nowMs), "channels.app_id, channels.name", created));
}

const rolloutChanged = () =>
	new ApiError(
		"channel_changed",
		"The channel's rollout was ended or replaced in the meantime; read GET /channel/rollout and repeat the request if it still applies.",
		{ reason: "rollout_changed" },
	);
