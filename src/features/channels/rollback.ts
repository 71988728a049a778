/**
 * POST /channel/rollback: ends the rollout of a channel, which keeps its stable bundle; without a
 * rollout, returns the channel to the previous live bundle, or to a named one. The write has an
 * optimistic lock on the bundles of the channel. A dry run returns the same answer, with the effect
 * on devices.
 *
 * Without a named bundle, a rollback skips bundles that a rollback replaced: called twice, it goes
 * two steps back, not forward again.
 */

import * as v from "valibot";
import { holds, onlyProposes } from "../../authz/decide";
import { requireOwnWork } from "../../authz/own-work";
import { previousLive, type RollbackTarget, rollbackTargetIds } from "../../db/channel-history";
import { type ChannelRow, type ChannelValues, channelByName, channelStillPointsTo } from "../../db/channels";
import { guard } from "../../db/client";
import { packagesOfChannel } from "../../db/native-packages";
import { NO_ROLLOUT, rolloutIs } from "../../db/rollouts";
import { EFFECT_DAYS } from "../../domain/defaults";
import { isUpToDate, REFUSAL_CODES, type RefusalCode } from "../../domain/updates/refusals";
import { ApiError, invalidRequest } from "../../errors";
import { type Context, endpoint } from "../../http/endpoint";
import { MAY_WAIT } from "../../http/pipeline/wait-visible";
import { channelName, integerId, label, optional, publicAppId, text } from "../../http/schemas";
import { type ChannelScopeRow, channelNotFound, channelScope } from "../../http/scope";
import { compatibilityGuards, refuseIncompatible } from "./compatibility";
import { NO_PLATFORMS } from "./difference";
import { outcomesSchema, readEffect } from "./effect";
import { changedByAnother, channelChanged, channelGuards } from "./guards";
import { promotedBundles } from "./needs";
import { refuseNonPromoter, requireRecentPromoter } from "./protection";
import { bundleOfChoice } from "./reads";
import { type ChannelBatch, runBatch } from "./run";
import { readyBundle, rolloutEndedSchema } from "./served-bundles";
import { changeStatements } from "./statements";
import { differences } from "./values";

/** A dry run counts devices that were seen in this many days. */
const STORE_BUILD: RollbackTarget = { id: null, name: null, created_by: null, created_by_key: null, preview_id: null };

const nullableNumber = v.nullable(v.number());
const rolledBack = {
	status: v.literal("ok"),
	id: v.number(),
	channel: v.string(),
	version: v.nullable(v.string()),
	previous_version: v.nullable(v.string()),
	changed: v.boolean(),
	was_live: v.boolean(),
	rollout_ended: v.nullable(rolloutEndedSchema),
};

const rollbackBody = v.object({
	app_id: publicAppId,
	channel: channelName,
	version: optional(v.union([text(128), integerId], "must be a bundle's version, its id, or builtin")),
	reason: optional(label(256)),
	dry_run: optional(v.boolean()),
});

const rollbackReads = (body: v.InferOutput<typeof rollbackBody>) => ({
	channel: channelByName(body.app_id, body.channel),
	bundle: bundleOfChoice(body.app_id, body.version),
	previous: previousLive(body.app_id, body.channel),
	targets: rollbackTargetIds(body.app_id, body.channel),
	packages: packagesOfChannel(body.app_id, { name: body.channel }),
});

export const rollBackChannel = endpoint({
	method: "POST",
	path: "/channel/rollback",
	tag: "Channels",
	summary: "Roll a channel back to the previous live bundle, or to a named one",
	description: [
		"While a rollout runs or is paused, a rollback without `version` ends it and keeps the stable bundle.",
		"Otherwise, without `version`, the channel returns to the newest bundle of its history that still",
		"exists, is not live now and was not replaced by a rollback; the store build counts if it was live.",
		'`version` names any ready bundle of the app by its version or id, or "builtin" for the store build',
		"(null counts as absent); naming the live bundle only",
		"ends a rollout, so a repeated request changes nothing.",
		"The rollout of the channel ends (`rollout_ended`).",
		"`dry_run: true` changes nothing and gives the same answer, with the effect on devices seen in the",
		`last ${EFFECT_DAYS} days: \`devices_changed\` of \`devices\` would get another version at their next check,`,
		"`refused` counts the channel's devices that would get no update, by reason",
		"(`disable_auto_update_under_native`: the bundle is older than their store build), and `outcomes` is",
		"as in POST /channel/what_if.",
		"These are null for callers without app.read_devices.",
		"On a protected channel only promoters may roll back; if the channel requires approval, a rollback to",
		"a bundle that was live there needs none, and a rollback to any other bundle is refused.",
		"A bundle that was never live there is compared as POST /channel compares it, if the channel has",
		"`requireCompatibleBundle`.",
	],
	access: { permission: "channel.promote_bundle", scope: channelScope("body.app_id", { name: "body.channel" }) },
	body: rollbackBody,
	headers: MAY_WAIT,
	response: v.union([
		v.strictObject(rolledBack),
		v.strictObject({
			...rolledBack,
			dry_run: v.literal(true),
			devices: nullableNumber,
			devices_changed: nullableNumber,
			unjudged: nullableNumber,
			sampled: v.nullable(v.boolean()),
			refused: v.nullable(v.array(v.strictObject({ error: v.picklist(REFUSAL_CODES), devices: v.number() }))),
			outcomes: v.nullable(outcomesSchema),
		}),
	]),
	errors: [
		"approval_required",
		"bundle_incompatible",
		"bundle_not_found",
		"bundle_not_ready",
		"bundle_not_signed",
		"channel_changed",
		"channel_not_found",
		"channel_protected",
		"nothing_to_roll_back_to",
		"recent_sign_in_required",
	],
	example: {
		body: { app_id: "com.example.app", channel: "production" },
		response: {
			status: "ok" as const,
			id: 7,
			channel: "production",
			version: "1.3.0",
			previous_version: "1.4.0",
			changed: true,
			was_live: true,
			rollout_ended: null,
		},
	},
	load: ({ body }) => rollbackReads(body),
	async handle(context) {
		const { scope, scopeRow, input, loaded, nowMs, principal } = context;
		// 1. What differs
		const rollback = rollbackOf(context);
		const { channel, answer, values } = rollback;
		// 2. What it needs
		requireRollback(context, rollback);
		// A bundle that was live here ran on these store builds; any other one is a promotion by another
		// name.
		refuseIncompatible(values, channel, answer.was_live ? [] : [...loaded.bundle, ...loaded.packages]);
		if (input.body.dry_run === true) {
			const mayCount = holds(principal, "app.read_devices", { orgId: scope.orgId, appId: scope.appId });
			const app = { appId: scope.appId, publicAppId: scopeRow.app_id, telemetry_binding: scopeRow.telemetry_binding };
			const change = { values, taken: NO_PLATFORMS, row: channel };
			const plan = mayCount
				? await readEffect(context, app, { channel: channel.name, days: EFFECT_DAYS }, change, nowMs)
				: undefined;
			return { ...answer, dry_run: true as const, ...shownEffect(plan, channel.name) };
		}
		if (!answer.changed) return answer;
		requireRecentPromoter(principal, channel, nowMs);
		// 3. The statements
		const batch = rollbackStatements(context, rollback);
		// 4. Run
		await runBatch(context, batch);
		return answer;
	},
});

type RollbackContext = Pick<
	Context<string, undefined, typeof rollbackBody, ChannelScopeRow, ReturnType<typeof rollbackReads>>,
	"actor" | "deps" | "input" | "loaded" | "nowMs" | "principal" | "scope" | "scopeRow"
>;

/** @throws {ApiError} if there is no bundle to return to, or it is not ready */
function rollbackOf({ input: { body }, loaded }: Pick<RollbackContext, "input" | "loaded">) {
	const [channel] = loaded.channel;
	if (channel === undefined) throw channelNotFound();
	const isNamed = body.version !== undefined;
	// Devices of the rollout return to the stable bundle, which was never in doubt; a step further
	// back would take it from all.
	const keepsStable = !isNamed && channel.rollout_id !== null && channel.rollout_enabled === 1;
	const target = targetOf(body.version, keepsStable, channel, loaded);
	if (target instanceof ApiError) throw target;
	const { id } = target;
	if (id !== null && id === channel.rollout_version_id && id !== channel.version_id) {
		const message = "is the bundle of the rollout; make it stable with POST /channel and promoteToStable: true";
		throw invalidRequest([{ path: "version", message }]);
	}
	const isOther = id !== channel.version_id;
	const endsRollout = channel.rollout_id !== null;
	return {
		channel,
		target,
		isOther,
		/** The bundle comes from the history, so it may have been deleted since. */
		isFromHistory: !isNamed && !keepsStable,
		values: differences<ChannelValues>({ version_id: id, ...(endsRollout ? NO_ROLLOUT : {}) }, channel),
		answer: {
			status: "ok" as const,
			id: channel.id,
			channel: channel.name,
			version: target.name,
			previous_version: channel.version_name,
			changed: isOther || endsRollout,
			was_live: keepsStable || loaded.targets.some(({ version_id }) => version_id === id),
			rollout_ended: endsRollout
				? { version: channel.rollout_version_name, percentage_bps: channel.rollout_percentage_bps }
				: null,
		},
	};
}
type Rollback = ReturnType<typeof rollbackOf>;

function targetOf(
	version: string | number | undefined,
	keepsStable: boolean,
	channel: ChannelRow,
	loaded: RollbackContext["loaded"],
): RollbackTarget | ApiError {
	if (keepsStable) return { ...STORE_BUILD, id: channel.version_id, name: channel.version_name };
	if (version === undefined) return loaded.previous[0] ?? nothingToRollBackTo(channel);
	return version === "builtin" || version === "unknown" ? STORE_BUILD : readyBundle(loaded.bundle[0]);
}

/** @throws {ApiError} for a caller that may not return the channel to this bundle */
function requireRollback(
	{ principal, scope }: Pick<RollbackContext, "principal" | "scope">,
	{ channel, target, isOther, answer }: Rollback,
): void {
	const { created_by, created_by_key, preview_id } = target;
	if (created_by !== null) {
		requireOwnWork(principal, "channel.promote_bundle", scope, { created_by, created_by_key, preview_id });
	}
	refuseNonPromoter(principal, channel, scope);
	if (onlyProposes(principal, scope)) throw mayOnlyPropose(channel);
	if (channel.requires_approval === 1 && isOther && !answer.was_live) throw neverLive(channel, target);
}

function rollbackStatements(context: RollbackContext, rollback: Rollback): ChannelBatch {
	const { channel, target, values, answer } = rollback;
	const { appId, channelId } = context.scope;
	const reason = context.input.body.reason ?? null;
	const wasDeleted = () => channelChanged(`lost bundle ${target.name}, which was deleted`);
	return changeStatements(context, {
		channel,
		values,
		signatures: promotedBundles(values, channel),
		audit: {
			action: "channel.rollback",
			versions: new Map(target.id === null || target.name === null ? [] : [[target.id, target.name]]),
			details: {
				...(reason === null ? {} : { reason }),
				...(answer.rollout_ended === null ? {} : { rollout_ended: answer.rollout_ended }),
			},
		},
		history: { isRollback: rollback.isOther, reason },
		guards: [
			...channelGuards(appId, channelId, channel),
			guard(channelStillPointsTo(appId, channelId, channel.version_id, channel.rollout_version_id), changedByAnother),
			guard(rolloutIs(appId, channelId, channel.rollout_id), changedByAnother),
			...(answer.was_live ? [] : compatibilityGuards(appId, channelId, values, channel, changedByAnother)),
		],
		...(rollback.isFromHistory ? { missing: wasDeleted } : {}),
	});
}

function neverLive(channel: ChannelRow, target: RollbackTarget): ApiError {
	return new ApiError(
		"approval_required",
		`Bundle ${target.name ?? "builtin"} was never live on channel ${channel.name}, which requires approval; propose it with POST /channel, or roll back to a bundle of GET /channel/history.`,
		{ reason: "never_live_here", moreInfo: { version: target.name ?? "builtin", channel: channel.name } },
	);
}

function mayOnlyPropose(channel: ChannelRow): ApiError {
	return new ApiError(
		"approval_required",
		`This key may only propose; propose the earlier bundle for channel ${channel.name} with POST /channel, or have a person roll back.`,
		{ reason: "may_only_propose", moreInfo: { channel: channel.name } },
	);
}

function nothingToRollBackTo(channel: ChannelRow): ApiError {
	return new ApiError(
		"nothing_to_roll_back_to",
		`The history of channel ${channel.name} has no earlier bundle to return to; name one that was uploaded as version, or builtin for the store build.`,
	);
}

type Plan = Awaited<ReturnType<typeof readEffect>>;

function shownEffect(plan: Plan | undefined, channel: string) {
	if (plan === undefined) {
		return { devices: null, devices_changed: null, unjudged: null, sampled: null, refused: null, outcomes: null };
	}
	const refused = new Map<RefusalCode, number>();
	let devicesChanged = 0;
	for (const { after, changed, devices } of plan.outcomes) {
		if (after.outcome !== "none") devicesChanged += changed ? devices : 0;
		else if (after.channel === channel && after.error !== null && !isUpToDate(after.error)) {
			refused.set(after.error, (refused.get(after.error) ?? 0) + devices);
		}
	}
	return {
		devices: plan.devices,
		devices_changed: devicesChanged,
		unjudged: plan.unjudged,
		sampled: plan.sampled,
		refused: [...refused].map(([error, devices]) => ({ error, devices })),
		outcomes: plan.outcomes,
	};
}
