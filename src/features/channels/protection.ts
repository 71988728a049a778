/**
 * Protected channels: who may change what they serve. Promoters change it immediately or, if the
 * channel requires approval, by proposals that another promoter approves. Every promotion checks
 * these rules, and its batch has `protectionGuards`.
 */
import { sql } from "kysely";
import * as v from "valibot";
import { type AppId, type ChannelId, holds, type OrgId, type Target } from "../../authz/decide";
import { ADMINISTRATORS, PROMOTING_ROLES, ROLE_NAMES } from "../../authz/permissions";
import { lacksPermission, type Principal } from "../../authz/principal";
import { isPromoter } from "../../authz/promoters";
import { requireRecentSignIn } from "../../authz/session";
import type { ChannelRow, ChannelValues, Platforms } from "../../db/channels";
import { guard, jsonList, query } from "../../db/client";
import { channelHas } from "../../db/proposals";
import { appIdOf } from "../../db/public-app-id";
import { ApiError, fieldError } from "../../errors";
import { customRoleName, optional, uuid } from "../../http/schemas";
import type { PlannedValues } from "./values";

type Protection = Pick<ChannelRow, "name" | "protected" | "promoters" | "requires_approval">;

const MOST_PROMOTERS = 50;

export const protectionFields = {
	protected: optional(v.boolean()),
	promoters: optional(
		v.pipe(
			v.array(
				v.union(
					[v.picklist(PROMOTING_ROLES), uuid, customRoleName],
					`must be a role (${PROMOTING_ROLES.join(", ")}), the name of a custom role, the id of an API key or the id of an account`,
				),
			),
			v.minLength(1, "must name somebody"),
			v.maxLength(MOST_PROMOTERS, `must name at most ${MOST_PROMOTERS}`),
			v.transform((names) => [...new Set(names)].sort()),
		),
	),
	requires_approval: optional(v.boolean()),
};
type ProtectionBody = {
	readonly [Field in keyof typeof protectionFields]?: v.InferOutput<(typeof protectionFields)[Field]>;
};

/** The columns of the body's fields, or the refusal of rules without protection. */
export function requestedProtection(body: ProtectionBody, channel: Protection | undefined): ChannelValues | ApiError {
	const isProtected = body.protected ?? channel?.protected === 1;
	if (!isProtected) {
		if (body.promoters !== undefined || body.requires_approval === true) {
			const message = "promoters and requires_approval are rules of a protected channel; send protected: true as well.";
			return new ApiError("invalid_request", message, { moreInfo: { issues: [{ path: "protected", message }] } });
		}
		return body.protected === false ? { protected: 0, promoters: "[]", requires_approval: 0 } : {};
	}
	const isNew = channel?.protected !== 1;
	const promoters = body.promoters ?? (isNew ? ADMINISTRATORS : undefined);
	return {
		...(body.protected === true ? { protected: 1 as const } : {}),
		...(promoters === undefined ? {} : { promoters: JSON.stringify(promoters) }),
		...(body.requires_approval === undefined ? {} : { requires_approval: body.requires_approval ? 1 : 0 }),
	};
}

/** Whether the request removes protection or approval, or changes the promoters. */
export const loosensProtection = (body: ProtectionBody): boolean =>
	body.protected === false || body.promoters !== undefined || body.requires_approval === false;

/** A protected channel always has promoters, and others have none. */
/** @throws {ApiError} `channel_protected` unless the caller is a promoter */
export function refuseNonPromoter(principal: Principal, channel: Protection, target: Target): void {
	if (isPromoter(principal, channel, target)) return;
	throw new ApiError(
		"channel_protected",
		`Channel ${channel.name} is protected and this caller is not one of its promoters; ask a promoter, or have an administrator add the caller to promoters.`,
		{ moreInfo: { channel: channel.name, promoters: JSON.parse(channel.promoters) } },
	);
}

/**
 * A public channel serves devices of the whole app and takes platforms from other channels, so a
 * role on one channel is not enough.
 * @throws {ApiError} `permission_denied`
 */
export function refuseTakenPlatforms(principal: Principal, { orgId, appId }: Target): void {
	if (appId !== undefined && holds(principal, "channel.update_settings", { orgId, appId })) return;
	throw lacksPermission(principal, "channel.update_settings", "app");
}

/**
 * A stolen session must not publish on a protected channel.
 * @throws {ApiError} for a person without a recent sign-in
 */
export function requireRecentPromoter(principal: Principal, channel: Protection, nowMs: number): void {
	if (channel.protected === 1 && principal.kind === "session") requireRecentSignIn(principal, true, nowMs);
}

/** Refuses deletion, because it would free the name and end the protection. */
export function refuseProtected(channel: Protection): void {
	if (channel.protected === 0) return;
	throw new ApiError(
		"channel_protected",
		`Channel ${channel.name} is protected and cannot be deleted; have an administrator remove the protection first, with POST /channel {protected: false}.`,
		{ reason: "channel_is_protected", moreInfo: { channel: channel.name } },
	);
}

/** Columns that are texts for people. */
const TEXTS = ["rollout_pause_reason", "rollout_notice", "rollout_notice_at_ms"];

/**
 * The change brings nothing new to any device: it pauses, lowers, stops or rolls back a rollout. It
 * needs no approval.
 */
export function onlySlowsDown(values: PlannedValues, channel: ChannelRow): boolean {
	const endsRollout = values.rollout_version_id === null;
	return Object.entries(values).every(([column, value]) => {
		if (TEXTS.includes(column)) return true;
		if (column === "rollout_version_id" || column === "rollout_id") return value === null;
		if (column === "rollout_percentage_bps") return Number(value) < channel.rollout_percentage_bps;
		if (column === "rollout_enabled") return value === 0;
		return column === "rollout_paused_at_ms" && (value !== null || endsRollout);
	});
}

/** The protection is as it was read; for the batch of every write to an existing channel. */
export function protectionGuards(appId: AppId, channelId: ChannelId, channel: Protection) {
	const { protected: isProtected, promoters, requires_approval } = channel;
	return [
		guard(channelHas(appId, channelId, { protected: isProtected, promoters, requires_approval }), protectionChanged),
	];
}

export function protectionChanged(): ApiError {
	return new ApiError(
		"channel_changed",
		"The channel's protection was changed by another request; read it again and repeat the request.",
	);
}

/** A protected public channel with its platforms. */
export interface ProtectedPublicRow extends Platforms {
	readonly name: string;
}

export function protectedPublicChannels(publicAppId: string) {
	return sql<ProtectedPublicRow>`SELECT c.name, c.ios, c.android, c.electron FROM apps a JOIN channels c ON c.app_id = a.id
		WHERE a.id = ${appIdOf(publicAppId)} AND c.public = 1 AND c.protected = 1`.compile(query);
}

const PLATFORMS = ["ios", "android", "electron"] as const;

/** Protected channels that lose a platform if another channel takes these. */
export function protectedThatYield(
	rows: readonly ProtectedPublicRow[],
	taker: string,
	taken: Platforms,
): readonly ProtectedPublicRow[] {
	return rows.filter(
		(row) => row.name !== taker && PLATFORMS.some((platform) => row[platform] === 1 && taken[platform] === 1),
	);
}

/** Guard condition: no protected channel loses a platform to the channel of this name. */
export function noProtectedYields(appId: AppId, taker: string, { ios, android, electron }: Platforms) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM channels WHERE app_id = ${appId} AND name <> ${taker} AND public = 1 AND protected = 1
		AND ((ios = 1 AND ${ios} = 1) OR (android = 1 AND ${android} = 1) OR (electron = 1 AND ${electron} = 1)))`;
}

/** Guard condition: the app has no protected public channel but the one of this name. */
export function noProtectedPublicChannel(appId: AppId, name: string) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM channels WHERE app_id = ${appId} AND name <> ${name} AND public = 1 AND protected = 1)`;
}

/**
 * Guard condition: each is a role that promotes, a key of the organization, or a key or person with
 * a role in it.
 */
export function promotersExist(orgId: OrgId, promoters: string) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM json_each(${promoters}) AS named
		WHERE named.value NOT IN ${jsonList(JSON.stringify(ROLE_NAMES))}
			AND NOT EXISTS (SELECT 1 FROM custom_roles c WHERE c.org_id = ${orgId} AND c.name = named.value
				AND 'channel.promote_bundle' IN (SELECT value FROM json_each(c.permissions)))
			AND NOT EXISTS (
			SELECT 1 FROM role_bindings WHERE org_id = ${orgId} AND named.value IN (api_key_id, user_id))
			AND NOT EXISTS (SELECT 1 FROM api_keys WHERE api_keys.org_id = ${orgId} AND api_keys.id = named.value))`;
}

export function promoterNotFound(): ApiError {
	const message =
		"has a name or an id that is neither a role that may release, nor an API key, nor a person with a role in this organization";
	return fieldError("invalid_request", "promoters", `${message}`, {
		moreInfo: { issues: [{ path: "promoters", message }] },
	});
}
