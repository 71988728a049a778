/**
 * Which names preview keys may give to channels, and the end of a preview key's power over a channel. Devices keep the name of a channel
 * after the channel is gone, so a name that any other channel has or had stays reserved: recreating it would reach those devices.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { AppId, ChannelId } from "../authz/decide";
import { query } from "./client";
import { appIdOf } from "./public-app-id";

/** More devices than these that name an absent channel are a fleet, not testers. */
export const MOST_DEVICES_NAMING = 20;
/** Devices count from a day after they were first seen, so that a stranger who invents some takes no name from a preview of today. */
const NAMING_FROM_MS = 24 * 60 * 60 * 1000;
/** A preview that is opened again keeps its testers, however many: for so long after it was closed. */
export const REOPENED_WITHIN_MS = 90 * 24 * 60 * 60 * 1000;

export interface PreviewNameRow {
	readonly default_upload_channel: string;
	readonly preview_channel_prefix: string | null;
	readonly is_reserved: 0 | 1;
	/** When a preview channel of this name was deleted last. */
	readonly preview_used_at_ms: number | null;
	/** Devices that name it, counted no further than one more than are allowed; none where the app sets names aside by a prefix. */
	readonly devices: number;
}

const devicesNaming = (appId: RawBuilder<unknown>, name: string, nowMs: number) =>
	sql<number>`(SELECT count(*) FROM (SELECT 1 FROM devices INDEXED BY devices_by_default_channel
		WHERE devices.app_id = ${appId} AND devices.default_channel = ${name}
			AND devices.created_at_ms <= ${nowMs - NAMING_FROM_MS} LIMIT ${sql.lit(MOST_DEVICES_NAMING + 1)}))`;

/** The facts that decide whether a preview key may take the name; for loading beside the decision. */
export function previewName(publicAppId: string, name: string, nowMs: number): CompiledQuery<PreviewNameRow> {
	return sql<PreviewNameRow>`SELECT a.default_upload_channel, a.preview_channel_prefix, coalesce(n.reserved, 0) AS is_reserved,
			CASE WHEN n.reserved = 0 THEN n.used_at_ms END AS preview_used_at_ms,
			CASE WHEN a.preview_channel_prefix IS NULL THEN ${devicesNaming(sql`a.id`, name, nowMs)} ELSE 0 END AS devices
		FROM apps a LEFT JOIN channel_names n ON n.app_id = a.id AND n.name = ${name} WHERE a.id = ${appIdOf(publicAppId)}`.compile(
		query,
	);
}

export type NameRefusal =
	| "default_upload_channel"
	| "preview_channel_prefix"
	| "used_by_a_channel"
	| "named_by_devices";

/** Why a preview key may not give the name to a channel that it creates. */
export function refusalOfName(row: PreviewNameRow, name: string, nowMs: number): NameRefusal | undefined {
	if (name === row.default_upload_channel) return "default_upload_channel";
	if (row.preview_channel_prefix !== null && !name.startsWith(row.preview_channel_prefix))
		return "preview_channel_prefix";
	if (row.is_reserved === 1) return "used_by_a_channel";
	const isReopened = row.preview_used_at_ms !== null && row.preview_used_at_ms > nowMs - REOPENED_WITHIN_MS;
	return row.devices > MOST_DEVICES_NAMING && !isReopened ? "named_by_devices" : undefined;
}

/** For guards: no rule refuses the name to a preview key now, and none of the app's settings changed since they were read. */
export function previewNameIsFree(appId: AppId, name: string, { preview_channel_prefix }: PreviewNameRow) {
	return sql<boolean>`(EXISTS (SELECT 1 FROM apps WHERE id = ${appId} AND default_upload_channel <> ${name}
			AND preview_channel_prefix IS ${preview_channel_prefix})
		AND NOT EXISTS (SELECT 1 FROM channel_names WHERE app_id = ${appId} AND name = ${name} AND reserved = 1))`;
}

/** The name is closed to preview keys from now on. */
export function reserveName(appId: AppId, name: string, nowMs: number): CompiledQuery {
	return sql`INSERT INTO channel_names (app_id, name, reserved, used_at_ms) VALUES (${appId}, ${name}, 1, ${nowMs})
		ON CONFLICT (app_id, name) DO UPDATE SET reserved = 1, used_at_ms = excluded.used_at_ms`.compile(query);
}

/** Before the channel is deleted: the name of a preview is free for previews, any other one is reserved. */
export function keepNameOf(appId: AppId, channelId: ChannelId, nowMs: number): CompiledQuery {
	// Only preview keys have bindings on channels. They are asked as well, because a Worker from before this column may have created the channel.
	return sql`INSERT INTO channel_names (app_id, name, reserved, used_at_ms)
		SELECT app_id, name, CASE WHEN public = 0 AND (is_preview = 1 OR EXISTS (SELECT 1 FROM role_bindings
				WHERE role_bindings.channel_id = channels.id)) THEN 0 ELSE 1 END, ${nowMs}
		FROM channels WHERE app_id = ${appId} AND id = ${channelId}
		ON CONFLICT (app_id, name) DO UPDATE SET reserved = max(reserved, excluded.reserved), used_at_ms = excluded.used_at_ms`.compile(
		query,
	);
}

/** Names of previews that were closed too long ago to differ from any other name. */
export function forgetPreviewNames(nowMs: number, limit: number): CompiledQuery {
	return sql`DELETE FROM channel_names WHERE (app_id, name) IN (SELECT app_id, name FROM channel_names
		WHERE reserved = 0 AND used_at_ms <= ${nowMs - REOPENED_WITHIN_MS} LIMIT ${limit})`.compile(query);
}

/** For guards: preview keys still have their power over the channel, or the channel is gone. */
export function isStillPreview(appId: string, channelId: number) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM channels c JOIN apps a ON a.id = c.app_id WHERE c.app_id = ${appId} AND c.id = ${channelId}
		AND (c.public = 1 OR c.protected = 1 OR c.name = a.default_upload_channel))`;
}

/** A key or account that loses its power over a channel. */
export interface EndedPreviewAccess {
	readonly id: string;
	readonly name: string;
}

/** The holders of bindings on the channel of this name; before `endPreviewAccess`, in the same batch. */
export function previewAccessOf(appId: AppId, name: string): CompiledQuery<EndedPreviewAccess> {
	return sql<EndedPreviewAccess>`SELECT coalesce(k.id, u.id) AS id, coalesce(k.name, u.email) AS name FROM channels c
		JOIN role_bindings b ON b.channel_id = c.id LEFT JOIN api_keys k ON k.id = b.api_key_id LEFT JOIN users u ON u.id = b.user_id
		WHERE c.app_id = ${appId} AND c.name = ${name} ORDER BY b.created_at_ms, b.id`.compile(query);
}

/** The channel is no preview any more: its bindings end, and its name is reserved. */
export function endPreviewAccess(appId: AppId, name: string, nowMs: number): CompiledQuery[] {
	return [
		sql`DELETE FROM role_bindings WHERE app_id = ${appId}
			AND channel_id IN (SELECT id FROM channels WHERE app_id = ${appId} AND name = ${name})`.compile(query),
		sql`UPDATE channels SET is_preview = 0 WHERE app_id = ${appId} AND name = ${name} AND is_preview = 1`.compile(
			query,
		),
		reserveName(appId, name, nowMs),
	];
}
