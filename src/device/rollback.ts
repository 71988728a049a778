/**
 * POST /channel/rollback: the channel goes back to the bundle that was live before, or to a named one, and a rollout that is under way
 * ends. It is one atomic batch with an optimistic lock on the bundle that the channel served when it was read. A dry run returns the
 * outcome of that batch and its effect on devices, computed with the decision of the live check.
 *
 * A rollback never returns by itself to a bundle that a rollback left: called twice, it goes two steps back, not forward again.
 */
import * as v from "valibot";
import { bundleNotSigned, promoting } from "../api/bundle-signing";
import { bundleOfChoice, channelChanged, found, refuseForeignBundle, signatureGuards } from "../api/channel-change";
import {
	protectionChanged,
	protectionGuards,
	refuseNonPromoter,
	requireRecentPromoter,
} from "../api/channel-protection";
import { endpoint } from "../api/endpoint";
import { channelName, integerId, label, optional, publicAppId, text } from "../api/schemas";
import { bundleNotFound, channelNotFound, channelScope } from "../api/scope";
import { MAY_WAIT } from "../api/visibility";
import { holds } from "../authz/decide";
import { bundleIsReady } from "../db/bundles";
import { auditChannelChange } from "../db/channel-audit";
import { previousLive, type RollbackTarget, recordChannelChange, rollbackTargetIds } from "../db/channel-history";
import { type ChannelRow, channelByName, channelExists, channelStillPointsTo, updateChannel } from "../db/channels";
import { batchOrFail, guard } from "../db/client";
import { followRollout, NO_ROLLOUT, rolloutIs } from "../db/rollouts";
import { bumpRevision } from "../db/snapshot";
import { ApiError } from "../errors";
import { outcomesSchema, whatWouldChange } from "./what-if";

/** Devices that were seen in this time are counted by a dry run. */
const DAYS = 30;
const NO_PLATFORM = { ios: 0, android: 0, electron: 0 } as const;
const STORE_BUILD: RollbackTarget = { id: null, name: null, created_by: null, created_by_key: null };

const nullableNumber = v.nullable(v.number());
const rolledBack = {
	status: v.literal("ok"),
	id: v.number(),
	channel: v.string(),
	version: v.nullable(v.string()),
	previous_version: v.nullable(v.string()),
	changed: v.boolean(),
	was_live: v.boolean(),
	rollout_ended: v.nullable(v.strictObject({ version: v.nullable(v.string()), percentage_bps: v.number() })),
};

export const rollBackChannel = endpoint({
	method: "POST",
	path: "/channel/rollback",
	tag: "Channels",
	summary: "Roll a channel back to the bundle that was live before, or to a named one",
	description:
		'Without `version` the channel goes to what was live before by its history: the newest bundle that still exists, is not live now and was not left by a rollback; the store build counts where it was live. `version` names any ready bundle of the app by its version or id, or "builtin" for the store build (null counts as left out); naming what is live only ends a rollout, so a repeated request changes nothing. A rollout of the channel is ended (`rollout_ended`). `dry_run: true` changes nothing and answers the same, with what the change would mean to devices seen in the last 30 days: `devices_changed` of `devices` would get another version at their next check, `refused` counts the channel\'s devices that would get no update and why (`disable_auto_update_under_native`: the bundle is older than their store build), and `outcomes` is that of POST /channel/what_if. These are null for callers without app.read_devices. On a protected channel a rollback is for its promoters; where the channel requires approval, a rollback to a bundle that was live there needs none, and one to any other bundle is refused.',
	access: { permission: "channel.promote_bundle", scope: channelScope("body.app_id", { name: "body.channel" }) },
	body: v.object({
		app_id: publicAppId,
		channel: channelName,
		version: optional(v.union([text(128), integerId], "must be a bundle's version, its id, or builtin")),
		reason: optional(label(256)),
		dry_run: optional(v.boolean()),
	}),
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
			refused: v.nullable(v.array(v.strictObject({ error: v.string(), devices: v.number() }))),
			outcomes: v.nullable(outcomesSchema),
		}),
	]),
	errors: [
		"approval_required",
		"bundle_not_found",
		"bundle_not_ready",
		"bundle_not_signed",
		"channel_changed",
		"channel_not_found",
		"channel_protected",
		"nothing_to_roll_back_to",
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
	load: ({ body }) =>
		[
			channelByName(body.app_id, body.channel),
			bundleOfChoice(body.app_id, body.version),
			previousLive(body.app_id, body.channel),
			rollbackTargetIds(body.app_id, body.channel),
		] as const,
	async handle(context) {
		const { db, scope, scopeRow, input, loaded, nowMs, actor, principal, ownWorkOnly } = context;
		const { body } = input;
		const [channel] = loaded[0].rows;
		if (channel === undefined) throw channelNotFound();
		const isNamed = body.version !== undefined;
		const target = !isNamed
			? loaded[2].rows[0]
			: body.version === "builtin" || body.version === "unknown"
				? STORE_BUILD
				: found(loaded[1].rows[0]);
		if (target === undefined) throw nothingToRollBackTo(channel);
		const { id, created_by, created_by_key } = target;
		if (ownWorkOnly("channel.promote_bundle") !== undefined && created_by !== null) {
			refuseForeignBundle({ created_by, created_by_key }, principal);
		}
		const wasLive = loaded[3].rows.some(({ version_id }) => version_id === id);
		refuseNonPromoter(principal, channel, scope);
		const isOther = id !== channel.version_id;
		if (channel.requires_approval === 1 && isOther && !wasLive) throw neverLive(channel, target);
		const endsRollout = channel.rollout_id !== null;
		const values = { version_id: id, ...(endsRollout ? NO_ROLLOUT : {}) };
		const answer = {
			status: "ok" as const,
			id: channel.id,
			channel: channel.name,
			version: target.name,
			previous_version: channel.version_name,
			changed: isOther || endsRollout,
			was_live: wasLive,
			rollout_ended: endsRollout
				? { version: channel.rollout_version_name, percentage_bps: channel.rollout_percentage_bps }
				: null,
		};
		const promoted = id === null || !isOther ? [] : [id];
		if (body.dry_run === true) {
			const mayCount = holds(principal, "app.read_devices", { orgId: scope.orgId, appId: scope.appId });
			const app = { appId: scope.appId, publicAppId: scopeRow.app_id };
			const asked = { channel: channel.name, days: DAYS };
			const change = { values, taken: NO_PLATFORM, promoted };
			const plan = mayCount
				? await promoting(context, scope.appId, promoted, (verified) =>
						whatWouldChange(db, app, asked, { ...change, verified }, nowMs),
					)
				: undefined;
			return { ...answer, dry_run: true as const, ...meaningToDevices(plan, channel.name) };
		}
		if (!answer.changed) return answer;
		requireRecentPromoter(principal, channel, nowMs);
		const reason = body.reason ?? null;
		await promoting(context, scope.appId, promoted, (verified) =>
			batchOrFail(
				db,
				[
					...verified,
					...signatureGuards(scope.appId, promoted),
					guard("channel_exists", channelExists(scope.appId, scope.channelId)),
					...protectionGuards(scope.appId, scope.channelId, channel),
					guard(
						"unchanged",
						channelStillPointsTo(scope.appId, scope.channelId, channel.version_id, channel.rollout_version_id),
					),
					guard("unchanged", rolloutIs(scope.appId, scope.channelId, channel.rollout_id)),
					...(id === null ? [] : [guard("bundle_ready", bundleIsReady(scope.appId, id))]),
					auditChannelChange(
						actor,
						nowMs,
						"channel.rollback",
						{ ...scope, publicAppId: scopeRow.app_id },
						values,
						new Map(id === null || target.name === null ? [] : [[id, target.name]]),
						{ ...(reason === null ? {} : { reason }), ...(endsRollout ? { rollout_ended: answer.rollout_ended } : {}) },
					),
					...recordChannelChange(actor, nowMs, scope.appId, scope.channelId, values, { isRollback: isOther, reason }),
					updateChannel(scope.appId, scope.channelId, values, nowMs),
					...followRollout(scope.appId, scope.channelId, nowMs),
					bumpRevision(scope.appId),
				],
				{
					channel_exists: channelNotFound,
					protection_as_read: protectionChanged,
					unchanged: () => channelChanged("was changed by another request"),
					bundle_ready: () =>
						isNamed ? bundleNotFound() : channelChanged(`lost bundle ${target.name}, which was deleted`),
					bundle_signed: bundleNotSigned,
				},
			),
		);
		return answer;
	},
});

function neverLive(channel: ChannelRow, target: RollbackTarget): ApiError {
	return new ApiError(
		"approval_required",
		`Bundle ${target.name ?? "builtin"} was never live on channel ${channel.name}, which requires approval; propose it with POST /channel, or roll back to a bundle of GET /channel/history.`,
	);
}

function nothingToRollBackTo(channel: ChannelRow): ApiError {
	return new ApiError(
		"nothing_to_roll_back_to",
		`The history of channel ${channel.name} has nothing older to go back to; send version with a bundle of GET /bundle, or "builtin" for the store build.`,
	);
}

type Plan = Awaited<ReturnType<typeof whatWouldChange>>;

/** Errors of a check that has nothing to change. */
const UP_TO_DATE: readonly string[] = ["no_new_version_available", "already_on_builtin"];

function meaningToDevices(plan: Plan | undefined, channel: string) {
	if (plan === undefined) {
		return { devices: null, devices_changed: null, unjudged: null, sampled: null, refused: null, outcomes: null };
	}
	const refused = new Map<string, number>();
	let devicesChanged = 0;
	for (const { after, changed, devices } of plan.outcomes) {
		if (after.outcome !== "none") devicesChanged += changed ? devices : 0;
		else if (after.channel === channel && after.error !== null && !UP_TO_DATE.includes(after.error)) {
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
