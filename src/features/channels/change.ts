/**
 * Creates, changes and promotes channels: checks what depends on the caller, then writes the plan in one batch. A promotion to a channel
 * that requires approval becomes a proposal instead. POST /channel, PUT /bundle and the stock CLI's PATCH come through `changeChannel`.
 */

import { onlyProposes } from "../../authz/decide";
import { requireCreator } from "../../authz/own-work";
import { requireRecentSignIn } from "../../authz/session";
import { auditBindingGiven, auditPreviewAccessEnded } from "../../db/audit/bindings";
import { auditedChannel, yieldingChannels } from "../../db/audit/channels";
import { auditEach, auditStatement } from "../../db/audit/entries";
import { bundleById, bundleByName, bundleIsReady } from "../../db/bundles";
import { recordNewChannel } from "../../db/channel-history";
import {
	endPreviewAccess,
	previewName,
	previewNameIsFree,
	reserveName,
	withDevicesNaming,
} from "../../db/channel-names";
import {
	type ChannelRow,
	channelById,
	channelByName,
	channelIdNamed,
	channelPlatformsAre,
	insertChannel,
	writtenChannel,
	yieldPublicPlatforms,
} from "../../db/channels";
import { guard, lastResult, onUnique, type Statement } from "../../db/client";
import { packagesOfChannel } from "../../db/native-packages";
import { bundlesHaveNoPreview, promotionToPreview } from "../../db/preview-bundles";
import { namingOf, PREVIEW_CHANNEL_SETTINGS, previewBinding, refusePreviewName } from "../../db/preview-channels";
import { refuseNameOfPreview } from "../../db/previews";
import { proposalsPage, withdrawProposals } from "../../db/proposals";
import { channelsOfApp, channelsOfPreviewKey } from "../../db/quotas";
import { followRollout, recountExcluded, rolloutIs } from "../../db/rollouts";
import { bumpRevision } from "../../db/snapshot";
import { ApiError } from "../../errors";
import type { Context } from "../../http/endpoint";
import { batchInQuotas } from "../../http/quotas";
import { appNotFound, bundleNotFound, type ChannelScopeRow } from "../../http/scope";
import { promoting } from "../signing/verify";
import { type ChannelBody, rolloutOf } from "./body";
import { compatibilityGuards, refuseIncompatible } from "./compatibility";
import { openingGuards } from "./devices-by-name";
import {
	type ChannelChange,
	changeOf,
	isForAdministrators,
	NO_PLATFORMS,
	permissionsToChange,
	plannedWrite,
	refuseToServeNew,
	touchesRollout,
} from "./plan";
import { refusePreviewBundle } from "./previewed";
import { needsApproval, type Proposed, propose } from "./propose";
import {
	noProtectedYields,
	onlySlowsDown,
	promoterNotFound,
	promotersExist,
	protectedPublicChannels,
	protectionChanged,
	refuseNonPromoter,
	refuseTakenPlatforms,
	requireRecentPromoter,
} from "./protection";
import { type ChannelRequest, type RolloutEnded, rolloutEnded } from "./served-bundles";
import {
	changedByAnother,
	channelChanged,
	channelGuards,
	formGuards,
	newBundles,
	onlyPublic,
	promotedBundles,
	type WrittenChannel,
	writeChannel,
} from "./write";

/** @param choice a bundle's id or version; none reads nothing */
export function bundleOfChoice(appId: string, choice: string | number | null | undefined) {
	if (choice === undefined || choice === null) return undefined;
	return typeof choice === "number" ? bundleById(appId, choice) : bundleByName(appId, choice);
}

/** Reads for a change, beside the decision: the channel, and the bundles that the body names. */
export function channelChangeReads(body: ChannelBody, nowMs: number) {
	return {
		channel: channelByName(body.app_id, body.channel),
		stable: bundleOfChoice(body.app_id, body.version),
		rollout: bundleOfChoice(body.app_id, rolloutOf(body).version),
		naming: previewName(body.app_id, body.channel),
		protectedPublic: protectedPublicChannels(body.app_id),
		waiting: proposalsPage(body.app_id, { channel: body.channel, isWaiting: true }, nowMs, 1, 0),
		packages: packagesOfChannel(body.app_id, { name: body.channel }),
	};
}

/** The same for a promotion that names the channel and the bundle by their ids. */
export function promotionReads(publicAppId: string, channelId: number, versionId: number, nowMs: number) {
	return {
		channel: channelById(publicAppId, channelId),
		stable: bundleById(publicAppId, versionId),
		rollout: undefined,
		naming: previewName(publicAppId, ""),
		protectedPublic: protectedPublicChannels(publicAppId),
		waiting: proposalsPage(publicAppId, { channelId, isWaiting: true }, nowMs, 1, 0),
		packages: packagesOfChannel(publicAppId, { id: channelId }),
	};
}

export const PROMOTION_ERRORS = [
	"approval_required",
	"bundle_from_preview",
	"bundle_incompatible",
	"bundle_of_another_preview",
	"bundle_not_ready",
	"bundle_not_signed",
	"channel_changed",
	"channel_delta_required",
	"channel_protected",
	"channel_zip_required",
] as const;

export const CHANNEL_CHANGE_PERMISSIONS = [
	"app.create_channel",
	"channel.update_settings",
	"channel.promote_bundle",
	"channel.read",
	"app.update_user_roles",
] as const;

export const CHANNEL_CHANGE_ERRORS = [
	"bundle_from_preview",
	"bundle_incompatible",
	"bundle_not_found",
	"bundle_not_ready",
	"bundle_not_signed",
	"bundle_of_another_preview",
	"channel_changed",
	"channel_delta_required",
	"channel_has_no_platform",
	"channel_name_reserved",
	"channel_protected",
	"channel_zip_required",
	"missing_rollout_version",
	"rollout_running",
	"approval_required",
	"preview_channel_must_be_private",
	"preview_closed",
	"quota_exceeded",
	"setting_not_supported",
] as const;

type ChangeContext = Omit<
	Context<string, undefined, undefined, ChannelScopeRow, ReturnType<typeof channelChangeReads>>,
	"input"
> & { readonly input: { readonly body: ChannelBody } };

/** The permissions that the request needs, given the channel. */
export const channelChangePermissions = ({ input, loaded }: Pick<ChangeContext, "input" | "loaded">) =>
	permissionsToChange(requestOf(input.body, loaded));

export function requestOf(body: ChannelBody, loaded: ChangeContext["loaded"]): ChannelRequest {
	const { protectedPublic } = loaded;
	return { body, channel: loaded.channel[0], stable: loaded.stable[0], rollout: loaded.rollout[0], protectedPublic };
}

interface ChangedChannel extends WrittenChannel {
	readonly id: number;
	readonly created: boolean;
	/** Set if nothing was changed, because the change waits for approval. */
	readonly proposal?: Proposed;
	/** Set if the change ended a rollout whose bundle did not become stable. */
	readonly rolloutEnded?: RolloutEnded;
}

/**
 * Creates or changes the channel, or proposes the change if the channel requires approval. Writes nothing if no value differs.
 * @param action audit action for an existing channel
 */
export async function changeChannel(
	context: ChangeContext,
	action: "channel.update" | "channel.promote" = "channel.update",
): Promise<ChangedChannel> {
	const { deps, principal, scope, input, loaded, nowMs } = context;
	const request = requestOf(input.body, loaded);
	const { channel } = request;
	const change = changeOf(request, deps.newId(), nowMs);
	if (isForAdministrators(request, change) && principal.kind === "session") {
		requireRecentSignIn(principal, true, nowMs);
	}
	if (channel === undefined) return createChannel(context, request, change);
	refusePreviewBundle(input.body, channel, change.promoted);
	if (context.ownWorkOnly("channel.promote_bundle") !== undefined) {
		for (const bundle of change.promoted) requireCreator(principal, "channel.promote_bundle", bundle);
	}
	const { values, taken } = plannedWrite(change, channel);
	if (taken !== NO_PLATFORMS) refuseTakenPlatforms(principal, scope);
	const opening = await openingGuards(context, loaded.naming[0], request, values);
	const answer = { id: channel.id, public: channel.public === 1, created: false, previewAccessEnded: [] };
	if (Object.keys(values).length === 0) return answer;
	refuseIncompatible(values, channel, [...change.promoted, ...loaded.packages]);
	if (Object.keys(change.bundles).length > 0) {
		if (needsApproval(change, channel, input.body, onlyProposes(principal, scope))) {
			return { ...answer, proposal: await propose(context, channel, change, loaded.waiting[0]) };
		}
		refuseNonPromoter(principal, channel, scope);
		if (!onlySlowsDown(change.bundles, channel)) requireRecentPromoter(principal, channel, nowMs);
	}
	const ended = rolloutEnded(change.bundles, channel);
	const written = await changeExisting(context, request, change, channel, action, ended, opening);
	return { ...answer, ...written, ...(ended === null ? {} : { rolloutEnded: ended }) };
}

/** Versions of the bundles that the request or the channel names, by id. */
function versionsOf({ channel, stable, rollout }: ChannelRequest): Map<number, string> {
	const versions = new Map<number, string>();
	for (const bundle of [stable, rollout]) if (bundle !== undefined) versions.set(bundle.id, bundle.name);
	if (channel !== undefined && channel.rollout_version_id !== null && channel.rollout_version_name !== null) {
		versions.set(channel.rollout_version_id, channel.rollout_version_name);
	}
	return versions;
}

/** Guards and statements about the platforms that other channels lose, and about new promoters. */
function sharedStatements(
	{ scope, scopeRow, actor, nowMs }: ChangeContext,
	request: ChannelRequest,
	change: ChannelChange,
) {
	const name = request.body.channel;
	const { values, taken } = plannedWrite(change, request.channel);
	const guards: Statement[] = [];
	if (!isForAdministrators(request, change)) {
		guards.push(guard(noProtectedYields(scope.appId, name, taken), protectionChanged));
	}
	if (values.promoters !== undefined) {
		guards.push(guard(promotersExist(scope.orgId, values.promoters), promoterNotFound));
	}
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

async function changeExisting(
	context: ChangeContext,
	request: ChannelRequest,
	change: ChannelChange,
	channel: ChannelRow,
	action: "channel.update" | "channel.promote",
	ended: RolloutEnded | null,
	opening: readonly Statement[],
): Promise<WrittenChannel> {
	const { scope, nowMs, actor } = context;
	const { appId, channelId } = scope;
	const { values, movesPlatforms } = plannedWrite(change, channel);
	const { guards, yields } = sharedStatements(context, request, change);
	const endsPreview = values.public === 1 || values.protected === 1;
	const after: Statement[] = [];
	if (values.protected === 0 || values.requires_approval === 0) after.push(withdrawProposals(appId, channelId, nowMs));
	if (endsPreview) {
		after.push(
			auditPreviewAccessEnded(actor, nowMs, scope.orgId, { appId, name: channel.name }),
			...endPreviewAccess(appId, channel.name, nowMs),
		);
	}
	after.push(
		...formGuards(values, appId, channelId),
		...promotionToPreview(
			appId,
			channelId,
			newBundles(values),
			context.ownWorkOnly("channel.promote_bundle") !== undefined,
			nowMs,
		),
	);
	if (values.rollout_count_new_devices !== undefined || values.rollout_devices_per_network !== undefined) {
		after.push(recountExcluded(appId, channelId));
	}
	return writeChannel(context, {
		channel,
		values,
		audit: { action, versions: versionsOf(request), ...(ended === null ? {} : { details: { rollout_ended: ended } }) },
		guards: [
			...channelGuards(appId, channelId, channel),
			...compatibilityGuards(appId, channelId, values, channel, changedByAnother),
			...guards,
			...opening,
			// The service or another request may have ended or started a rollout, and the request must not apply to another one.
			...(touchesRollout(change.bundles) || change.bundles.version_id !== undefined
				? [guard(rolloutIs(appId, channelId, channel.rollout_id), rolloutChanged)]
				: []),
			...(movesPlatforms ? [guard(channelPlatformsAre(appId, channelId, channel), changedByAnother)] : []),
		],
		before: yields,
		after,
		endsPreview,
	});
}

async function createChannel(
	context: ChangeContext,
	request: ChannelRequest,
	change: ChannelChange,
): Promise<ChangedChannel> {
	const { db, deps, principal, scope, scopeRow, loaded, nowMs, actor } = context;
	const { appId, orgId } = scope;
	const name = request.body.channel;
	const [nameRow] = loaded.naming;
	if (nameRow === undefined) throw appNotFound();
	const limit = context.ownWorkOnly("app.create_channel");
	const isPreview = limit !== undefined;
	if (isPreview) {
		refusePreviewName(request.body, nameRow, principal);
		for (const bundle of change.promoted) requireCreator(principal, "channel.promote_bundle", bundle);
	} else refusePreviewBundle(request.body, { name, is_preview: 0 }, change.promoted);
	if (!isPreview) refuseToServeNew(principal, scope, plannedWrite(change, undefined).values);
	const opening = isPreview
		? []
		: await openingGuards(context, nameRow, request, plannedWrite(change, undefined).values);
	const naming = isPreview ? namingOf(await withDevicesNaming(deps, appId, nameRow, name), nowMs) : {};
	const values = { ...(isPreview ? PREVIEW_CHANNEL_SETTINGS : {}), ...plannedWrite(change, undefined).values };
	const { guards, yields } = sharedStatements(context, request, change);
	const bindingId = deps.newId();
	const quotas = [channelsOfApp(appId), ...(isPreview ? [channelsOfPreviewKey(appId, principal)] : [])];
	const insert = insertChannel(
		appId,
		{
			...values,
			...(isPreview ? { is_preview: 1, ...naming } : {}),
			...{ name, created_by: principal.userId, created_by_key: principal.keyId },
		},
		nowMs,
	);
	const nameTaken = () => channelChanged("name was taken, or the app's rules for it changed, by another request");
	const results = await promoting(context, appId, promotedBundles(values, undefined), (signed) =>
		batchInQuotas(db, deps.config.quotas, quotas, [
			...(isPreview ? [guard(previewNameIsFree(appId, name, nameRow), nameTaken)] : []),
			refuseNameOfPreview(appId, name),
			...(isPreview ? [bundlesHaveNoPreview(appId, newBundles(values))] : []),
			...signed,
			...newBundles(values).map((id) => guard(bundleIsReady(appId, id), bundleNotFound)),
			...guards,
			...opening,
			...yields,
			onlyPublic(
				onUnique(insert, "channels.app_id, channels.name", () => channelChanged("was created by another request")),
			),
			auditStatement(actor, nowMs, {
				orgId,
				action: "channel.create",
				target: { type: "channel", name, id: channelIdNamed(appId, name) },
				app: { uuid: appId, id: scopeRow.app_id },
				after: auditedChannel(values, versionsOf(request)),
			}),
			...recordNewChannel(actor, nowMs, appId, name),
			...(isPreview ? [] : [reserveName(appId, name, nowMs)]),
			...formGuards(values, appId, { name }),
			...(Object.keys(change.bundles).length === 0 ? [] : followRollout(appId, { name }, nowMs)),
			bumpRevision(appId),
			...previewBinding(limit, {
				...{ id: bindingId, holder: principal, orgId, appId, channelName: name, createdAtMs: nowMs },
			}),
			auditBindingGiven(actor, nowMs, orgId, bindingId, principal),
			writtenChannel(appId, { name }),
		]),
	);
	const [row] = lastResult(results).rows;
	if (row === undefined) throw new Error("the channel that was just written is missing");
	return { id: row.id, public: row.public === 1, created: true, previewAccessEnded: [] };
}

const rolloutChanged = () =>
	new ApiError(
		"channel_changed",
		"The channel's rollout was ended or replaced in the meantime; read GET /channel/rollout and repeat the request if it still applies.",
		{ reason: "rollout_changed" },
	);
