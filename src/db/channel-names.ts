/**
 * Channel names that preview keys may use, and the end of preview access to a channel. Devices keep
 * the name of a deleted channel, so every name that a channel other than a preview has or had stays
 * reserved: a new channel of that name would reach those devices.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { AppId, ChannelId } from "../authz/decide";
import { PREVIEW_CHANNEL_ROLES } from "../authz/permissions";
import type { Deps } from "../deps";
import { DEFAULT_PREVIEW_PREFIX, hasPreviewForm, MOST_DEVICES_BY_NAME } from "../domain/ci/preview-names";
import { serviceUnavailable } from "../errors";
import { insertEach, query } from "./client";
import { appIdOf } from "./public-app-id";
import type { Flag } from "./schema";
import { tryTelemetry } from "./telemetry-reads";
import { markUsedByChannel } from "./used-versions";

export interface PreviewNameRow {
	readonly default_upload_channel: string;
	readonly preview_channel_prefix: string;
	readonly is_reserved: 0 | 1;
	/** The telemetry database of the app. */
	readonly telemetry_binding: string;
}

export interface CountedNameRow extends PreviewNameRow {
	/** Devices that send the name, at most one more than may be testers. */
	readonly devices: number;
}

/** SQL: devices that send the name as `defaultChannel`, at most one more than may be testers. */
export const devicesNaming = (appId: RawBuilder<unknown>, name: RawBuilder<unknown>) =>
	sql<number>`(SELECT count(*) FROM (SELECT 1 FROM devices INDEXED BY devices_by_default_channel
		WHERE devices.app_id = ${appId} AND devices.default_channel = ${name} LIMIT ${sql.lit(MOST_DEVICES_BY_NAME + 1)}))`;

/** SQL: the prefix of the names of previews of the app. */
export const previewPrefixOf = (app: RawBuilder<unknown>) =>
	sql<string>`coalesce(${app}.preview_channel_prefix, ${sql.lit(DEFAULT_PREVIEW_PREFIX)})`;

/** The columns of `PreviewNameRow` of an app `a` and its reserved name `n`. */
export const PREVIEW_NAME_COLUMNS = [
	"a.default_upload_channel",
	previewPrefixOf(sql`a`).as("preview_channel_prefix"),
	sql<Flag>`n.name IS NOT NULL`.as("is_reserved"),
	"a.telemetry_binding",
] as const;

/** Facts for `refusalOfName`. */
export function previewName(publicAppId: string, name: string): CompiledQuery<PreviewNameRow> {
	return query
		.selectFrom("apps as a")
		.leftJoin("channel_names as n", (join) => join.onRef("n.app_id", "=", "a.id").on("n.name", "=", name))
		.select(PREVIEW_NAME_COLUMNS)
		.where("a.id", "=", appIdOf(publicAppId))
		.compile();
}

function countDevicesNaming(appId: AppId, name: string): CompiledQuery<{ devices: number }> {
	return query.selectNoFrom(devicesNaming(sql`${appId}`, sql`${name}`).as("devices")).compile();
}

/**
 * @throws {ApiError} `service_unavailable` if the devices cannot be counted, because the name may
 * be that of a fleet
 */
export async function withDevicesNaming<Row extends PreviewNameRow>(
	deps: Deps,
	appId: AppId,
	row: Row,
	name: string,
): Promise<Row & CountedNameRow> {
	const rows = await tryTelemetry(deps, row.telemetry_binding, countDevicesNaming(appId, name));
	if (rows === undefined) throw serviceUnavailable(new Error(`${row.telemetry_binding} does not answer`));
	return { ...row, devices: rows[0]?.devices ?? 0 };
}

export type NameRefusal = "default_upload_channel" | "preview_channel_prefix" | "used_by_a_channel";

/** Why a preview may not have this name; undefined if it may. */
export function refusalOfName(row: PreviewNameRow, name: string): NameRefusal | undefined {
	if (name === row.default_upload_channel) return "default_upload_channel";
	if (row.is_reserved === 1) return "used_by_a_channel";
	return hasPreviewForm(name, row.preview_channel_prefix) ? undefined : "preview_channel_prefix";
}

/**
 * Guard condition: the name is still free for previews, and the app's rules for names are as they
 * were read.
 */
export function previewNameIsFree(appId: AppId, name: string, { preview_channel_prefix }: PreviewNameRow) {
	return sql<boolean>`(EXISTS (SELECT 1 FROM apps WHERE id = ${appId} AND default_upload_channel <> ${name}
			AND ${previewPrefixOf(sql`apps`)} = ${preview_channel_prefix})
		AND NOT EXISTS (SELECT 1 FROM channel_names WHERE app_id = ${appId} AND name = ${name}))`;
}

/** SQL: the binding `b` is one of a preview channel. */
const IS_PREVIEW_BINDING = sql<boolean>`b.role_name IN (${sql.join(PREVIEW_CHANNEL_ROLES.map((role) => sql.lit(role)))})`;

/** Reserves the name: preview keys cannot use it any more. */
export function reserveName(appId: AppId, name: string, nowMs: number): CompiledQuery {
	return query
		.insertInto("channel_names")
		.values({ app_id: appId, name, used_at_ms: nowMs })
		.onConflict((conflict) => conflict.columns(["app_id", "name"]).doUpdateSet({ used_at_ms: nowMs }))
		.compile();
}

/** Before the channel is deleted: its name is reserved, unless the channel is a preview's. */
export function keepNameOf(appId: AppId, channelId: ChannelId, nowMs: number): CompiledQuery {
	const channel = query
		.selectFrom("channels")
		.where("app_id", "=", appId)
		.where("id", "=", channelId)
		.where((eb) => eb.or([eb("public", "=", 1), eb("is_preview", "=", 0)]));
	return insertEach("channel_names", channel, (eb) => ({
		app_id: eb.ref("app_id"),
		name: eb.ref("name"),
		used_at_ms: nowMs,
	}))
		.onConflict((conflict) => conflict.columns(["app_id", "name"]).doUpdateSet({ used_at_ms: nowMs }))
		.compile();
}

/** Guard condition: preview keys still have access to the channel, or the channel is deleted. */
export function isStillPreview(appId: string, channelId: number) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM channels c JOIN apps a ON a.id = c.app_id WHERE c.app_id = ${appId} AND c.id = ${channelId}
		AND (c.public = 1 OR c.protected = 1 OR c.name = a.default_upload_channel))`;
}

/** A key or account that loses its preview access to a channel. */
export interface EndedPreviewAccess {
	readonly id: string;
	readonly name: string;
}

/** Holders of preview roles on the channel of this name; run it before `endPreviewAccess`. */
export function previewAccessOf(appId: AppId, name: string): CompiledQuery<EndedPreviewAccess> {
	return sql<EndedPreviewAccess>`SELECT coalesce(k.id, u.id) AS id, coalesce(k.name, u.email) AS name FROM channels c
		JOIN role_bindings b ON b.channel_id = c.id LEFT JOIN api_keys k ON k.id = b.api_key_id LEFT JOIN users u ON u.id = b.user_id
		WHERE c.app_id = ${appId} AND c.name = ${name} AND ${IS_PREVIEW_BINDING} ORDER BY b.created_at_ms, b.id`.compile(
		query,
	);
}

/**
 * The channel is no preview any more: its preview bindings are deleted and its name is reserved.
 */
export function endPreviewAccess(appId: AppId, name: string, nowMs: number): CompiledQuery[] {
	return [
		query
			.deleteFrom("role_bindings as b")
			.where(sql<boolean>`+b.app_id = ${appId}`)
			.where(IS_PREVIEW_BINDING)
			.where(
				"b.channel_id",
				"in",
				query.selectFrom("channels").select("id").where("app_id", "=", appId).where("name", "=", name),
			)
			.compile(),
		...releasePreview(appId, name, nowMs),
		query
			.updateTable("channels")
			.set({ is_preview: 0 })
			.where("app_id", "=", appId)
			.where("name", "=", name)
			.where("is_preview", "=", 1)
			.compile(),
		markUsedByChannel(appId, name),
		reserveName(appId, name, nowMs),
	];
}

/** The preview of the channel ends, and its channel and bundles stay. */
function releasePreview(appId: AppId, channelName: string, nowMs: number): CompiledQuery[] {
	const released = { app_id: appId, channel_name: channelName, state: "open" } as const;
	return [
		query
			.updateTable("bundles")
			.set({ preview_id: null })
			.where(
				"preview_id",
				"=",
				query
					.selectFrom("previews")
					.select("id")
					.where((eb) => eb.and(released)),
			)
			.compile(),
		query
			.updateTable("previews")
			.set({
				state: "closed",
				closed_as: "kept",
				channel_id: null,
				closed_at_ms: nowMs,
				updated_at_ms: nowMs,
				revision: sql<number>`revision + 1`,
			})
			.where((eb) => eb.and(released))
			.compile(),
	];
}
