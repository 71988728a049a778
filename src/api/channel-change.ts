/**
 * Changing a channel: what a request asks for, how that differs from what is there, which permissions the difference needs, and the
 * one batch that makes it so. POST /channel and the stock CLI's own way of saying the same come through here.
 */
import { sql } from "kysely";
import * as v from "valibot";
import type { AppId, ChannelId, OwnWorkOnly } from "../authz/decide";
import type { Permission } from "../authz/permissions";
import { isOwnWork, type Made } from "../authz/principal";
import { requireRecentSignIn } from "../authz/session";
import { type Holder, insertChannelBinding } from "../db/api-keys";
import { auditEach, auditStatement } from "../db/audit";
import { auditBindingGiven, auditPreviewAccessEnded } from "../db/binding-audit";
import { type BundleRow, bundleById, bundleByName, bundleIsReady } from "../db/bundles";
import { auditChannelChange, auditedChannel, yieldingChannels } from "../db/channel-audit";
import { recordChannelChange, recordNewChannel } from "../db/channel-history";
import {
	type EndedPreviewAccess,
	endPreviewAccess,
	MOST_DEVICES_NAMING,
	type NameRefusal,
	type PreviewNameRow,
	previewAccessOf,
	previewName,
	previewNameIsFree,
	refusalOfName,
	reserveName,
} from "../db/channel-names";
import {
	bundlesHaveForm,
	type ChannelRow,
	type ChannelValues,
	channelById,
	channelByName,
	channelExists,
	channelIdNamed,
	channelPlatformsAre,
	insertChannel,
	type Platforms,
	updateChannel,
	yieldPublicPlatforms,
} from "../db/channels";
import { batchOrFail, guard, query } from "../db/client";
import {
	BASE_COLUMNS,
	channelHas,
	insertProposal,
	PROPOSAL_LIFETIME_MS,
	type ProposalRow,
	proposalsPage,
	pruneProposals,
	supersedeProposals,
	waitingFor,
	withdrawProposals,
} from "../db/proposals";
import { channelsOfApp, channelsOfPreviewKey } from "../db/quotas";
import { countByNewRules, followRollout, NO_NOTICE, NO_ROLLOUT, rolloutIs } from "../db/rollouts";
import type { Flag } from "../db/schema";
import { bundlesAreSigned } from "../db/signing-keys";
import { bumpRevision } from "../db/snapshot";
import { UPDATE_PACKAGES } from "../domain/update-package";
import { ApiError, invalidRequest } from "../errors";
import { bundleNotSigned, promoting } from "./bundle-signing";
import {
	noProtectedYields,
	onlySlowsDown,
	type ProtectedPublicRow,
	promoterNotFound,
	promotersExist,
	protectedPublicChannels,
	protectedThatYield,
	protectionChanged,
	protectionFields,
	protectionGuards,
	refuseNonPromoter,
	requestedProtection,
	requireRecentPromoter,
} from "./channel-protection";
import type { Context } from "./endpoint";
import { batchInQuotas } from "./quotas";
import {
	basisPoints,
	firstStepBps,
	percentage,
	requestedRolloutSettings,
	rolloutSettingsFields,
} from "./rollout-settings";
import { channelName, integerId, optional, publicAppId, rfc3339, text, time } from "./schemas";
import { appNotFound, bundleNotFound, type ChannelScopeRow, channelNotFound } from "./scope";
import { refusedFields, refuseSettings } from "./stock-settings";

/** A bundle by its version or its id; null, "builtin" and "unknown" are the store build. */
const bundleChoice = v.pipe(
	v.nullable(v.union([text(128), integerId], "must be a bundle's version, its id, or null")),
	v.transform((value) => (value === "builtin" || value === "unknown" ? null : value)),
);

const updatePackage = v.picklist(UPDATE_PACKAGES, `must be one of ${UPDATE_PACKAGES.join(", ")}`);

export const channelBody = v.object({
	app_id: publicAppId,
	channel: channelName,
	version: v.optional(bundleChoice),
	public: optional(v.boolean()),
	ios: optional(v.boolean()),
	android: optional(v.boolean()),
	electron: optional(v.boolean()),
	allow_device_self_set: optional(v.boolean()),
	allow_emulator: optional(v.boolean()),
	allow_device: optional(v.boolean()),
	allow_dev: optional(v.boolean()),
	allow_prod: optional(v.boolean()),
	disableAutoUpdate: optional(
		v.pipe(
			v.picklist(
				["major", "minor", "patch", "version_number", "metadata", "none"],
				"must be one of major, minor, patch, version_number, none",
			),
			// What the incumbent's documentation calls version_number.
			v.transform((value) => (value === "metadata" ? "version_number" : value)),
		),
	),
	disableAutoUpdateUnderNative: optional(v.boolean()),
	updatePackage: optional(updatePackage),
	update_package: optional(updatePackage),
	rolloutVersion: v.optional(bundleChoice),
	rollout_version: v.optional(bundleChoice),
	rolloutPercentage: optional(percentage),
	rollout_percentage: optional(percentage),
	rolloutPercentageBps: optional(basisPoints),
	rollout_percentage_bps: optional(basisPoints),
	rolloutEnabled: optional(v.boolean()),
	rollout_enabled: optional(v.boolean()),
	rolloutPaused: optional(v.boolean()),
	rollout_paused: optional(v.boolean()),
	/** A time pauses the rollout, null resumes it; the time itself is the server's. */
	rolloutPausedAt: v.optional(v.nullable(text(64))),
	rollout_paused_at: v.optional(v.nullable(text(64))),
	rolloutPauseReason: v.optional(v.nullable(text(256))),
	rollout_pause_reason: v.optional(v.nullable(text(256))),
	rollback: optional(v.boolean()),
	promoteToStable: optional(v.boolean()),
	promote_to_stable: optional(v.boolean()),
	advanceRollout: optional(v.boolean()),
	advance_rollout: optional(v.boolean()),
	/** Null dismisses what the health gate reported with the action `notify`. */
	rolloutNotice: v.optional(v.null("can only be dismissed, with null")),
	...rolloutSettingsFields,
	...protectionFields,
	...refusedFields("POST /channel"),
});
export type ChannelBody = v.InferOutput<typeof channelBody>;

/** What the body says about the rollout; camelCase wins where both spellings are given. */
function rolloutOf(body: ChannelBody) {
	const percent = body.rolloutPercentage ?? body.rollout_percentage;
	const pausedAt = body.rolloutPausedAt !== undefined ? body.rolloutPausedAt : body.rollout_paused_at;
	const reason = body.rolloutPauseReason !== undefined ? body.rolloutPauseReason : body.rollout_pause_reason;
	return {
		version: body.rolloutVersion !== undefined ? body.rolloutVersion : body.rollout_version,
		bps:
			body.rolloutPercentageBps ??
			body.rollout_percentage_bps ??
			(percent === undefined ? undefined : Math.round(percent * 100)),
		enabled: body.rolloutEnabled ?? body.rollout_enabled,
		paused: body.rolloutPaused ?? body.rollout_paused ?? (pausedAt === undefined ? undefined : pausedAt !== null),
		pauseReason: reason,
		rollback: body.rollback === true,
		advance: (body.advanceRollout ?? body.advance_rollout) === true,
		promoteToStable: (body.promoteToStable ?? body.promote_to_stable) === true,
	};
}

type LoadedBundle = BundleRow & { readonly public_app_id: string };

interface ChannelRequest {
	readonly body: ChannelBody;
	readonly channel: ChannelRow | undefined;
	readonly stable: LoadedBundle | undefined;
	readonly rollout: LoadedBundle | undefined;
	/** The app's protected public channels. */
	readonly protectedPublic: readonly ProtectedPublicRow[];
}

/**
 * A preview must reach a tester on any store build, while its version says nothing of the store build that it was made for. So a channel
 * that is limited to its creator's own work begins without the limits that other channels begin with; a value in the request wins.
 */
const PREVIEW_CHANNEL_SETTINGS = {
	disable_auto_update: "none",
	disable_auto_update_under_native: 0,
} as const satisfies ChannelValues;

interface ChannelChange {
	/** Columns that differ from what is there, settings and bundles apart, because they need different permissions. */
	readonly settings: ChannelValues;
	readonly bundles: ChannelValues;
	/** Bundles that the channel newly points to: they must be ready, and a preview key's own. */
	readonly promoted: readonly LoadedBundle[];
}

const flag = (value: boolean): Flag => (value ? 1 : 0);

/** The channel's settings that the body names, as columns. */
function requestedSettings(body: ChannelBody, channel: ChannelRow | undefined): ChannelValues {
	const named = {
		public: body.public,
		ios: body.ios,
		android: body.android,
		electron: body.electron,
		allow_device_self_set: body.allow_device_self_set,
		allow_emulator: body.allow_emulator,
		allow_device: body.allow_device,
		allow_dev: body.allow_dev,
		allow_prod: body.allow_prod,
		disable_auto_update_under_native: body.disableAutoUpdateUnderNative,
	};
	const flags: Record<string, Flag> = {};
	for (const [column, value] of Object.entries(named)) if (value !== undefined) flags[column] = flag(value);
	const settings: ChannelValues = { ...flags };
	if (body.disableAutoUpdate !== undefined) settings.disable_auto_update = body.disableAutoUpdate;
	const mode = body.updatePackage ?? body.update_package;
	if (body.update_package !== undefined && body.update_package !== mode) {
		throw invalidRequest([{ path: "update_package", message: "contradicts updatePackage; send one of the two" }]);
	}
	if (mode !== undefined) settings.update_package = mode;
	return {
		...settings,
		...requestedRolloutSettings(body),
		...platformsOfPublic(body, settings, channel),
		...requestedProtection(body, channel),
	};
}

/** What being public says about platforms, where the body does not say it itself. */
function platformsOfPublic(body: ChannelBody, settings: ChannelValues, channel: ChannelRow | undefined): ChannelValues {
	const named = [body.ios, body.android, body.electron].some((platform) => platform !== undefined);
	const wantsPublic = body.public === true;
	if (channel === undefined && wantsPublic && body.electron === undefined) {
		// A new channel for one phone platform is not meant for desktops either.
		const phones = [body.ios ?? true, body.android ?? true].filter(Boolean).length;
		if (phones === 1) return { electron: 0 };
	}
	if (channel !== undefined && wantsPublic && !named && channel.ios + channel.android + channel.electron === 0) {
		// It lost its platforms when another channel became public; asking for public again means having them back.
		return { ios: 1, android: 1, electron: 1 };
	}
	const left = {
		ios: settings.ios ?? channel?.ios ?? 1,
		android: settings.android ?? channel?.android ?? 1,
		electron: settings.electron ?? channel?.electron ?? 1,
	};
	if (Number(left.ios) + Number(left.android) + Number(left.electron) > 0) return {};
	if (wantsPublic) {
		throw new ApiError(
			"channel_has_no_platform",
			"A public channel needs a platform; set ios, android or electron to true.",
		);
	}
	return channel?.public === 1 ? { public: 0 } : {};
}

/** The columns about bundles that the body asks for. Throws for a bundle that is not there. */
function requestedBundles(request: ChannelRequest, newRolloutId: string, nowMs: number): ChannelValues {
	const { body, channel } = request;
	const rollout = rolloutOf(body);
	const values: ChannelValues = {};
	if (body.version !== undefined) values.version_id = body.version === null ? null : found(request.stable).id;
	if (rollout.version !== undefined) {
		const id = rollout.version === null ? null : found(request.rollout).id;
		if (id === null) Object.assign(values, NO_ROLLOUT);
		else {
			values.rollout_version_id = id;
			if (id !== channel?.rollout_version_id) {
				// Another bundle draws another cohort, and starts unpaused.
				Object.assign(values, { rollout_id: newRolloutId, rollout_paused_at_ms: null, rollout_pause_reason: null });
				const first = firstStepBps(body, channel);
				if (first !== undefined) values.rollout_percentage_bps = first;
			}
		}
	}
	if (rollout.advance) Object.assign(values, advanced(request));
	if (rollout.bps !== undefined) values.rollout_percentage_bps = rollout.bps;
	if (rollout.enabled !== undefined) values.rollout_enabled = flag(rollout.enabled);
	if (rollout.paused === true) values.rollout_paused_at_ms = channel?.rollout_paused_at_ms ?? nowMs;
	if (rollout.paused === false) Object.assign(values, { rollout_paused_at_ms: null, rollout_pause_reason: null });
	if (rollout.pauseReason !== undefined) values.rollout_pause_reason = rollout.pauseReason;
	const rolloutId = values.rollout_version_id !== undefined ? values.rollout_version_id : channel?.rollout_version_id;
	if ((rolloutId ?? null) === null && (rollout.enabled === true || rollout.promoteToStable)) {
		throw new ApiError("missing_rollout_version", "The channel has no rollout bundle; send rolloutVersion as well.");
	}
	const finishesRollout =
		typeof values.version_id === "number" &&
		values.version_id === channel?.rollout_version_id &&
		rollout.version === undefined;
	if (finishesRollout) Object.assign(values, NO_ROLLOUT);
	if (rollout.promoteToStable) Object.assign(values, NO_ROLLOUT, { version_id: rolloutId ?? null });
	if (rollout.rollback) Object.assign(values, NO_ROLLOUT);
	if (rollout.rollback && rollout.promoteToStable) {
		const message = "must not come with promoteToStable: a rollout is taken back or made the stable one";
		throw invalidRequest([{ path: "rollback", message }]);
	}
	return values;
}

/** The rollout's bundle becomes the stable one, because the request brings another for the rollout. A repeated request finds it done. */
function advanced({ body, channel, rollout }: ChannelRequest): ChannelValues {
	if (body.version !== undefined || rolloutOf(body).version == null) {
		const message = "needs rolloutVersion, the bundle that is rolled out next, and no version";
		throw invalidRequest([{ path: "advanceRollout", message }]);
	}
	if (channel === undefined || channel.rollout_version_id === null) {
		throw new ApiError(
			"missing_rollout_version",
			"The channel has no rollout to advance; leave advanceRollout out to start one.",
		);
	}
	if (channel.rollout_version_id === rollout?.id) return {};
	const startsAtOnce = channel.rollout_percentage_bps === 10_000 && firstStepBps(body, channel) === undefined;
	if (startsAtOnce && rolloutOf(body).bps === undefined) {
		const message =
			"must come with advanceRollout after a rollout to 100 %: the share that the next rollout begins with";
		throw invalidRequest([{ path: "rolloutPercentage", message }]);
	}
	return { version_id: channel.rollout_version_id };
}

/** @throws {ApiError} for a bundle that is not there, or not ready */
export function found(bundle: LoadedBundle | undefined): LoadedBundle {
	if (bundle === undefined) throw bundleNotFound();
	if (bundle.status !== "ready") {
		throw new ApiError(
			"bundle_not_ready",
			"The bundle's upload is not complete; finish it with POST /bundle/complete.",
		);
	}
	return bundle;
}

function differences(values: ChannelValues, channel: ChannelRow | undefined): ChannelValues {
	if (channel === undefined) return values;
	const current: Readonly<Record<string, unknown>> = { ...channel };
	return Object.fromEntries(Object.entries(values).filter(([column, value]) => current[column] !== value));
}

function changeOf(request: ChannelRequest, newRolloutId: string, nowMs: number): ChannelChange {
	const { channel, stable, rollout } = request;
	const bundles = differences(requestedBundles(request, newRolloutId, nowMs), channel);
	const isRolloutChanged = Object.keys(bundles).some((column) => column.startsWith("rollout_"));
	if (isRolloutChanged || request.body.rolloutNotice === null) Object.assign(bundles, differences(NO_NOTICE, channel));
	const promoted: LoadedBundle[] = [];
	if (typeof bundles.version_id === "number" && stable !== undefined) promoted.push(stable);
	if (typeof bundles.rollout_version_id === "number" && rollout !== undefined) promoted.push(rollout);
	return { settings: differences(requestedSettings(request.body, channel), channel), bundles, promoted };
}

/** The columns that are written, and what others yield to them. */
function plannedWrite({ settings, bundles }: ChannelChange, channel: ChannelRow | undefined) {
	const values = { ...settings, ...bundles };
	return {
		values,
		// Others yield to what this request makes public, never to what was public when it was read.
		movesPlatforms: (["public", "ios", "android", "electron"] as const).some((name) => values[name] !== undefined),
		isPublic: (values.public ?? channel?.public ?? 0) === 1,
		platforms: {
			ios: flag((values.ios ?? channel?.ios ?? 1) === 1),
			android: flag((values.android ?? channel?.android ?? 1) === 1),
			electron: flag((values.electron ?? channel?.electron ?? 1) === 1),
		},
	};
}

/** What a request would write and whose platforms it would take, without writing anything. Throws what the request itself would. */
export function plannedChange(request: ChannelRequest, newRolloutId: string, nowMs: number) {
	const planned = plannedWrite(changeOf(request, newRolloutId, nowMs), request.channel);
	return { values: planned.values, taken: takenPlatforms(planned) };
}

function takenPlatforms({ movesPlatforms, isPublic, platforms }: ReturnType<typeof plannedWrite>): Platforms {
	return movesPlatforms && isPublic ? platforms : { ios: 0, android: 0, electron: 0 };
}

/**
 * Permissions that a POST needs: only sight of an existing channel when it changes nothing. Rules and settings of a protected channel are for
 * administrators, and so is what takes a platform from one.
 */
function permissionsToChange(request: ChannelRequest, nowMs: number): readonly [Permission, ...Permission[]] {
	const { channel } = request;
	const unchanged = channel === undefined ? "app.create_channel" : "channel.read";
	let change: ChannelChange;
	try {
		change = changeOf(request, "undrawn", nowMs);
	} catch (error) {
		// An error in the request is for callers who may promote; the handler throws it.
		if (error instanceof ApiError) return [channel === undefined ? "app.create_channel" : "channel.promote_bundle"];
		throw error;
	}
	const needed: Permission[] = [];
	if (channel === undefined) needed.push("app.create_channel");
	else {
		if (Object.keys(change.bundles).length > 0) needed.push("channel.promote_bundle");
		if (Object.keys(change.settings).length > 0) needed.push("channel.update_settings");
	}
	if (isForAdministrators(request, change)) needed.push("app.update_user_roles");
	const [first, ...rest] = needed;
	return first === undefined ? [unchanged] : [first, ...rest];
}

function isForAdministrators({ body, channel, protectedPublic }: ChannelRequest, change: ChannelChange): boolean {
	const { settings } = change;
	if (channel?.protected === 1 && Object.keys(settings).length > 0) return true;
	if (PROTECTION_COLUMNS.some((column) => settings[column] !== undefined)) return true;
	return protectedThatYield(protectedPublic, body.channel, takenPlatforms(plannedWrite(change, channel))).length > 0;
}

export const bundleOfChoice = (appId: string, choice: string | number | null | undefined) =>
	typeof choice === "number" ? bundleById(appId, choice) : bundleByName(appId, choice ?? "");

/** What a change reads beside the decision: the channel, and the bundles that the body names. */
export function channelChangeReads(body: ChannelBody, nowMs: number) {
	return [
		channelByName(body.app_id, body.channel),
		bundleOfChoice(body.app_id, body.version),
		bundleOfChoice(body.app_id, rolloutOf(body).version),
		previewName(body.app_id, body.channel, nowMs),
		protectedPublicChannels(body.app_id),
		proposalsPage(body.app_id, { channel: body.channel, isWaiting: true }, nowMs, 1, 0),
	] as const;
}

/** The same for the promotion of a bundle to a channel, both by their ids. */
export function promotionReads(publicAppId: string, channelId: number, versionId: number, nowMs: number) {
	return [
		channelById(publicAppId, channelId),
		bundleById(publicAppId, versionId),
		bundleById(publicAppId, NO_BUNDLE),
		previewName(publicAppId, "", nowMs),
		protectedPublicChannels(publicAppId),
		proposalsPage(publicAppId, { channelId, isWaiting: true }, nowMs, 1, 0),
	] as const;
}
/** Ids begin with 1. */
const NO_BUNDLE = 0;

export const PROMOTION_ERRORS = [
	"approval_required",
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
	"bundle_not_found",
	"bundle_not_ready",
	"bundle_not_signed",
	"channel_changed",
	"channel_delta_required",
	"channel_has_no_platform",
	"channel_name_reserved",
	"channel_protected",
	"channel_zip_required",
	"missing_rollout_version",
	"approval_required",
	"preview_channel_must_be_private",
	"quota_exceeded",
	"setting_not_supported",
] as const;

type ChangeContext = Omit<
	Context<string, undefined, undefined, ChannelScopeRow, ReturnType<typeof channelChangeReads>>,
	"input"
> & { readonly input: { readonly body: ChannelBody } };

/** Which permissions the request needs, given what is there. */
export function channelChangePermissions({ input, loaded }: Pick<ChangeContext, "input" | "loaded">) {
	return permissionsToChange(requestOf(input.body, loaded), 0);
}

function requestOf(body: ChannelBody, loaded: ChangeContext["loaded"]): ChannelRequest {
	const [channel, stable, rollout] = [loaded[0].rows[0], loaded[1].rows[0], loaded[2].rows[0]];
	return { body, channel, stable, rollout, protectedPublic: loaded[4].rows };
}

export interface ChangedChannel {
	readonly id: number;
	readonly public: boolean;
	readonly created: boolean;
	/** Keys and people that created the channel as a preview, and lost their power over it by this change. */
	readonly previewAccessEnded: readonly EndedPreviewAccess[];
	/** Set where nothing was changed yet, because the change waits for approval. */
	readonly proposal?: Proposed;
}

/**
 * Creates or changes the channel, or proposes the change where the channel requires approval; writes nothing when nothing differs.
 * @param action what the audit log calls the change of an existing channel
 */
export async function changeChannel(
	context: ChangeContext,
	action: "channel.update" | "channel.promote" = "channel.update",
): Promise<ChangedChannel> {
	const { db, deps, principal, scope, scopeRow, input, loaded, nowMs, actor } = context;
	const { body } = input;
	refuseSettings("POST /channel", body);
	const request = requestOf(body, loaded);
	const { channel } = request;
	const change = changeOf(request, deps.newId(), nowMs);
	const planned = plannedWrite(change, channel);
	const { values: requested, movesPlatforms, isPublic, platforms } = planned;
	const isAdministration = isForAdministrators(request, change);
	if (isAdministration && principal.kind === "session") requireRecentSignIn(principal, true, nowMs);
	const created = channel === undefined;
	const [name] = loaded[3].rows;
	if (name === undefined) throw appNotFound();
	const limit = context.ownWorkOnly(created ? "app.create_channel" : "channel.promote_bundle");
	if (limit !== undefined) {
		if (created) refusePreviewName(body, name, nowMs);
		for (const bundle of change.promoted) refuseForeignBundle(bundle, principal);
	}
	const isPreview = created && limit !== undefined;
	const values = isPreview ? { ...PREVIEW_CHANNEL_SETTINGS, ...requested } : requested;
	if (channel !== undefined && Object.keys(values).length === 0) {
		return { id: channel.id, public: channel.public === 1, created, previewAccessEnded: [] };
	}
	if (channel !== undefined && Object.keys(change.bundles).length > 0) {
		if (needsApproval(change, channel, body)) {
			const proposal = await propose(context, channel, change, loaded[5].rows[0]);
			return { id: channel.id, public: channel.public === 1, created, previewAccessEnded: [], proposal };
		}
		refuseNonPromoter(principal, channel, scope);
		if (!onlySlowsDown(change.bundles, channel)) requireRecentPromoter(principal, channel, nowMs);
	}
	const endsPreview = channel !== undefined && (values.public === 1 || values.protected === 1);

	const write =
		channel === undefined
			? insertChannel(
					scope.appId,
					{
						...values,
						...(isPreview ? { is_preview: 1 } : {}),
						...{ name: body.channel, created_by: principal.userId, created_by_key: principal.keyId },
					},
					nowMs,
				)
			: updateChannel(scope.appId, scope.channelId, values, nowMs);
	const versions = new Map([...loaded[1].rows, ...loaded[2].rows].map((bundle) => [bundle.id, bundle.name]));
	if (channel !== undefined && channel.rollout_version_id !== null && channel.rollout_version_name !== null) {
		versions.set(channel.rollout_version_id, channel.rollout_version_name);
	}
	const entry = created
		? auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: "channel.create",
				target: { type: "channel", name: body.channel, id: channelIdNamed(scope.appId, body.channel) },
				app: { uuid: scope.appId, id: scopeRow.app_id },
				after: auditedChannel(values, versions),
			})
		: auditChannelChange(actor, nowMs, action, { ...scope, publicAppId: scopeRow.app_id }, values, versions);
	const bindingId = deps.newId();
	const quotas = created
		? [channelsOfApp(scope.appId), ...(limit === undefined ? [] : [channelsOfPreviewKey(scope.appId, principal)])]
		: [];
	const promoted = promotedBundles(values, channel);
	const results = await promoting(context, scope.appId, promoted, (verified) =>
		batchInQuotas(
			db,
			deps.config.quotas,
			quotas,
			[
				previewAccessOf(scope.appId, endsPreview ? body.channel : ""),
				...(isPreview ? [guard("name_is_free", previewNameIsFree(scope.appId, body.channel, name))] : []),
				...verified,
				...signatureGuards(scope.appId, promoted),
				...change.promoted.map((bundle) => guard("bundle_ready", bundleIsReady(scope.appId, bundle.id))),
				...(channel === undefined
					? []
					: [
							guard("channel_exists", channelExists(scope.appId, scope.channelId)),
							...protectionGuards(scope.appId, scope.channelId, channel),
						]),
				...(isAdministration
					? []
					: [guard("none_yields", noProtectedYields(scope.appId, body.channel, takenPlatforms(planned)))]),
				...(values.promoters === undefined
					? []
					: [guard("promoters_exist", promotersExist(scope.orgId, values.promoters))]),
				// The service may have ended it, and what was asked of one rollout is no wish for another.
				...(channel !== undefined && Object.keys(change.bundles).some((column) => column.startsWith("rollout_"))
					? [guard("rollout_as_read", rolloutIs(scope.appId, scope.channelId, channel.rollout_id))]
					: []),
				...(channel !== undefined && movesPlatforms
					? [guard("platforms_as_read", channelPlatformsAre(scope.appId, scope.channelId, channel))]
					: []),
				...(isPublic && movesPlatforms
					? [
							auditEach(
								actor,
								nowMs,
								{
									action: "channel.yield_platforms",
									targetType: "channel",
									ofApps: true,
									details: { to: body.channel },
								},
								yieldingChannels(scope.orgId, { uuid: scope.appId, id: scopeRow.app_id }, body.channel, platforms),
							),
							yieldPublicPlatforms(scope.appId, body.channel, platforms, nowMs),
						]
					: []),
				...(created
					? [write, entry, ...recordNewChannel(actor, nowMs, scope.appId, body.channel)]
					: [entry, ...recordChannelChange(actor, nowMs, scope.appId, scope.channelId, values), write]),
				...(!created && (values.protected === 0 || values.requires_approval === 0)
					? [withdrawProposals(scope.appId, scope.channelId, nowMs)]
					: []),
				...(isPreview || !created ? [] : [reserveName(scope.appId, body.channel, nowMs)]),
				...(endsPreview
					? [
							auditPreviewAccessEnded(actor, nowMs, scope.orgId, { appId: scope.appId, name: channel.name }),
							...endPreviewAccess(scope.appId, channel.name, nowMs),
						]
					: []),
				...formGuards(values, scope.appId, created ? { name: body.channel } : scope.channelId),
				...(Object.keys(change.bundles).length === 0
					? []
					: followRollout(scope.appId, created ? { name: body.channel } : scope.channelId, nowMs)),
				...(!created &&
				(values.rollout_count_new_devices !== undefined || values.rollout_devices_per_network !== undefined)
					? [countByNewRules(scope.appId, scope.channelId)]
					: []),
				bumpRevision(scope.appId),
				...previewBinding(limit, created, {
					id: bindingId,
					holder: principal,
					orgId: scope.orgId,
					appId: scope.appId,
					channelName: body.channel,
					createdAtMs: nowMs,
				}),
				...(created ? [auditBindingGiven(actor, nowMs, scope.orgId, bindingId, principal)] : []),
				query
					.selectFrom("channels")
					.select(["id", "public"])
					.where("app_id", "=", scope.appId)
					.where("name", "=", body.channel)
					.compile(),
			],
			{
				bundle_ready: bundleNotFound,
				channel_exists: channelNotFound,
				protection_as_read: protectionChanged,
				none_yields: protectionChanged,
				promoters_exist: promoterNotFound,
				name_is_free: () => channelChanged("name was taken, or the app's rules for it changed, by another request"),
				platforms_as_read: () => channelChanged("was changed by another request"),
				rollout_as_read: rolloutChanged,
				...FORM_REFUSALS,
				"channels.app_id, channels.name": () => channelChanged("was created by another request"),
				"channels.app_id": () => channelChanged("changed at the same time as another one became public"),
			},
		),
	);
	const row = (results.at(-1) as { rows: { id: number; public: Flag }[] } | undefined)?.rows[0];
	if (row === undefined) throw new Error("the channel that was just written is missing");
	const previewAccessEnded = (results[0] as { rows: EndedPreviewAccess[] } | undefined)?.rows ?? [];
	return { id: row.id, public: row.public === 1, created, previewAccessEnded };
}

/** Settings that open the channel to more devices. */
const OPENING_COLUMNS = [
	"public",
	"ios",
	"android",
	"electron",
	"allow_device_self_set",
	"allow_emulator",
	"allow_device",
	"allow_dev",
	"allow_prod",
] as const;

/**
 * Bundles that a change brings to more devices: those that it puts on the channel, the rollout's if its share grows, and both that are
 * there if the channel opens.
 *
 * @param values what differs from the channel
 */
export function promotedBundles(values: ChannelValues, channel: ChannelRow | undefined): number[] {
	const isNumber = (id: unknown) => typeof id === "number";
	const brought = [values.version_id, values.rollout_version_id].filter(isNumber);
	if (channel === undefined) return brought;
	const opens = OPENING_COLUMNS.some((column) => values[column] === 1);
	const stable = opens && values.version_id === undefined ? channel.version_id : null;
	const grows =
		values.rollout_enabled === 1 ||
		values.rollout_paused_at_ms === null ||
		(values.rollout_percentage_bps ?? 0) > channel.rollout_percentage_bps;
	const rollout = (opens || grows) && values.rollout_version_id === undefined ? channel.rollout_version_id : null;
	return [...brought, stable, rollout].filter(isNumber);
}

/** For every batch that promotes: the organization's signing policy lets the bundles through. */
export function signatureGuards(appId: AppId, bundleIds: readonly number[]) {
	return bundleIds.length === 0 ? [] : [guard("bundle_signed", bundlesAreSigned(appId, bundleIds))];
}

const PROTECTION_COLUMNS = ["protected", "promoters", "requires_approval"] as const;

/**
 * @throws {ApiError} `approval_required` for settings in the same request, because nobody would approve those, and for a second bundle,
 * because a proposal shows one
 */
function needsApproval({ settings, bundles }: ChannelChange, channel: ChannelRow, body: ChannelBody): boolean {
	if (channel.protected === 0 || channel.requires_approval === 0 || onlySlowsDown(bundles, channel)) return false;
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

/** The change brings a stable bundle and touches a rollout that goes on, or names a bundle beside the rollout that it finishes. */
function concernsTwoBundles(bundles: ChannelValues, channel: ChannelRow, body: ChannelBody): boolean {
	const { version, promoteToStable } = rolloutOf(body);
	if (promoteToStable && (body.version !== undefined || version !== undefined)) return true;
	const rolloutId = bundles.rollout_version_id === undefined ? channel.rollout_version_id : bundles.rollout_version_id;
	const touchesRollout = Object.keys(bundles).some((column) => column.startsWith("rollout_"));
	return bundles.version_id !== undefined && touchesRollout && rolloutId !== null;
}

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

async function propose(
	{ db, deps, principal, scope, scopeRow, nowMs, actor }: ChangeContext,
	channel: ChannelRow,
	change: ChannelChange,
	waiting: ProposalRow | undefined,
): Promise<Proposed> {
	const { bundles } = change;
	const bundle = proposedBundle(change, channel);
	const shown = bundle.name ?? "the store build";
	const message = `${shown} is waiting for approval: channel ${channel.name} is protected. Devices keep what they have until a promoter approves it.`;
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
	const versions = new Map([
		[bundle.id ?? NO_BUNDLE, shown],
		...change.promoted.map((promoted) => [promoted.id, promoted.name] as const),
	]);
	const app = { uuid: scope.appId, id: scopeRow.app_id };
	const bundleIds = promotedBundles(bundles, channel);
	await promoting({ deps, db }, scope.appId, bundleIds, (verified) =>
		batchOrFail(
			db,
			[
				...verified,
				...signatureGuards(scope.appId, bundleIds),
				...change.promoted.map((promoted) => guard("bundle_ready", bundleIsReady(scope.appId, promoted.id))),
				guard("channel_exists", channelExists(scope.appId, scope.channelId)),
				...protectionGuards(scope.appId, scope.channelId, channel),
				guard("channel_as_read", channelHas(scope.appId, scope.channelId, base)),
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
			],
			{
				bundle_ready: bundleNotFound,
				bundle_signed: bundleNotSigned,
				channel_exists: channelNotFound,
				protection_as_read: protectionChanged,
				channel_as_read: () => channelChanged("was changed by another request"),
			},
		),
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

/** Each request would draw another id for its rollout. */
function isSameChange({ rollout_id: _one, ...one }: ChannelValues, { rollout_id: _other, ...other }: ChannelValues) {
	return JSON.stringify(Object.entries(one).sort()) === JSON.stringify(Object.entries(other).sort());
}

/** After a write that changes the channel's bundles or its update package: they fit each other. */
export function formGuards(values: ChannelValues, appId: AppId, channel: ChannelId | { readonly name: string }) {
	const concerns = ["version_id", "rollout_version_id", "update_package"] as const;
	if (concerns.every((column) => values[column] === undefined)) return [];
	return (["zip", "delta"] as const).map((form) => guard(`has_${form}`, bundlesHaveForm(appId, channel, form)));
}

/** Errors of the guards in `formGuards` and `signatureGuards`; the stock CLI prints these messages. */
export const FORM_REFUSALS = {
	bundle_signed: bundleNotSigned,
	has_zip: () => formRequired("zip"),
	has_delta: () => formRequired("delta"),
};

export function formRequired(form: "zip" | "delta"): ApiError {
	return form === "zip"
		? new ApiError(
				"channel_zip_required",
				"The channel's updatePackage asks for a zip and a bundle on it has none; upload the bundle with its zip, or set updatePackage to all.",
			)
		: new ApiError(
				"channel_delta_required",
				"The channel's updatePackage asks for single files and a bundle on it has none; upload the bundle with --delta, or set updatePackage to all.",
			);
}

function previewBinding(
	limit: OwnWorkOnly | undefined,
	created: boolean,
	binding: {
		readonly id: string;
		readonly holder: Holder;
		readonly orgId: string;
		readonly appId: AppId;
		readonly channelName: string;
		readonly createdAtMs: number;
	},
) {
	const role = limit?.roleOnCreatedChannel;
	if (!created || limit === undefined || role === undefined) return [];
	return [insertChannelBinding({ ...binding, role }, binding.channelName, limit.bindingId)];
}

function refusePreviewName(body: ChannelBody, row: PreviewNameRow, nowMs: number): void {
	if (body.public === true) {
		throw new ApiError(
			"preview_channel_must_be_private",
			"public: a preview role creates private channels only; leave it out.",
		);
	}
	const reason = refusalOfName(row, body.channel, nowMs);
	if (reason === undefined) return;
	const prefix = row.preview_channel_prefix;
	throw new ApiError("channel_name_reserved", `channel: ${NAME_REFUSALS[reason](prefix)}`, {
		moreInfo: { reason, ...(prefix === null ? {} : { preview_channel_prefix: prefix }) },
	});
}

const NAME_REFUSALS: Readonly<Record<NameRefusal, (prefix: string | null) => string>> = {
	default_upload_channel: () => "this is the app's default upload channel, which is no preview; choose another name.",
	preview_channel_prefix: (prefix) =>
		`preview channels of this app begin with "${prefix}"; choose such a name, or have preview_channel_prefix changed.`,
	used_by_a_channel: () =>
		"another channel has or had this name, and devices may still name it; choose another name for the preview.",
	named_by_devices: () =>
		`more than ${MOST_DEVICES_NAMING} devices name this channel as their default; choose another name for the preview.`,
};

/** Preview rule 5: a preview key acts on the bundles that it uploaded itself, and on no other. */
export function refuseForeignBundle(
	bundle: Made,
	caller: Holder,
	permission: Permission = "channel.promote_bundle",
): void {
	if (isOwnWork(bundle, caller)) return;
	throw new ApiError(
		"permission_denied",
		"The caller may do this to bundles that it uploaded itself alone; use what uploaded this one, or a wider role.",
		{ moreInfo: { permission, scope: "app" } },
	);
}

export function channelChanged(what: string): ApiError {
	return new ApiError("channel_changed", `The channel ${what}; read it again and repeat the request.`);
}

export function rolloutChanged(): ApiError {
	return new ApiError(
		"channel_changed",
		"The channel's rollout was ended or replaced meanwhile; read GET /channel/rollout and repeat the request if it still holds.",
	);
}
