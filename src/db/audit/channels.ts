/**
 * Audit entries of channels: settings under their API names, bundles by version. SQL reads the
 * replaced values in the batch of the change, so an entry is correct even if another request
 * changed the channel in between.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { AppId, ChannelId, OrgId } from "../../authz/decide";
import { CHANNEL_FIELDS, type ChannelField } from "../../domain/updates/channel-fields";
import { type ChannelValues, differsFrom, type Platforms } from "../channels";
import { jsonObject } from "../client";
import { type Actor, auditEach } from "./entries";

const FIELDS: Readonly<Record<string, ChannelField>> = CHANNEL_FIELDS;

/** Name of a column in the audit log; undefined if it is not logged. */
function auditName(column: string): string | undefined {
	const field = FIELDS[column];
	return field === undefined ? undefined : field.audit === undefined ? field.field : (field.audit ?? undefined);
}

/** Logged when a channel is deleted, beside its flags and bundles. */
const DELETED_SETTINGS = ["disable_auto_update", "update_package"];

/** A channel as the entry of its deletion shows it: JSON. */
export function wholeChannelNow(appId: AppId, channelId: ChannelId): RawBuilder<string | null> {
	const columns = Object.entries(FIELDS).flatMap(([column, { kind }]) =>
		kind === "flag" || kind === "bundle" || DELETED_SETTINGS.includes(column) ? [column] : [],
	);
	return sql<
		string | null
	>`(SELECT ${settingsNow(columns)} FROM channels WHERE app_id = ${appId} AND id = ${channelId})`;
}

/**
 * The settings that `values` sets, as an audit entry shows them; `versions` names the bundles by
 * their ids.
 */
export function auditedChannel(
	values: ChannelValues,
	versions: ReadonlyMap<number, string>,
): Record<string, string | number | boolean | null> {
	const shown: Record<string, string | number | boolean | null> = {};
	for (const [column, value] of Object.entries(values) as [string, string | number | null][]) {
		const name = auditName(column);
		if (name === undefined) continue;
		const kind = FIELDS[column]?.kind;
		if (kind === "flag") shown[name] = value === 1;
		else if (kind === "bundle") shown[name] = value === null ? null : (versions.get(Number(value)) ?? null);
		else shown[name] = value;
	}
	return shown;
}

/**
 * Entry for a change of `values`; run it before `updateChannel`. Writes nothing if no value
 * differs.
 */
export function auditChannelChange(
	actor: Actor,
	atMs: number,
	action: "channel.update" | "channel.promote" | "channel.rollback" | `channel.rollout_${string}`,
	scope: {
		readonly orgId: OrgId;
		readonly appId: AppId;
		readonly channelId: ChannelId;
		readonly publicAppId: string;
	},
	values: ChannelValues,
	versions: ReadonlyMap<number, string>,
	details: Readonly<Record<string, unknown>> = {},
): CompiledQuery {
	const now = settingsNow(Object.keys(values));
	const after = sql<string>`${JSON.stringify(auditedChannel(values, versions))}`;
	return auditEach(
		actor,
		atMs,
		{ action, targetType: "channel", ofApps: true, details },
		sql`SELECT ${scope.orgId} AS org_id, CAST(id AS TEXT) AS target_id, name AS target_name, app_id AS app_uuid,
				${scope.publicAppId} AS app_id, ${whereDifferent(now, after)} AS before, ${whereDifferent(after, now)} AS after
			FROM channels WHERE app_id = ${scope.appId} AND id = ${scope.channelId} AND ${differsFrom(values)}`,
	);
}

/** The members of a JSON object that the other object lacks or has with another value. */
function whereDifferent(object: RawBuilder<string>, other: RawBuilder<string>): RawBuilder<string> {
	const path = sql`'$.' || json_quote(member.key)`;
	return sql<string>`(SELECT json_group_object(member.key, json(${object} -> (${path}))) FROM json_each(${object}) AS member
		WHERE ${object} -> (${path}) IS NOT ${other} -> (${path}))`;
}

function settingsNow(columns: readonly string[]): RawBuilder<string> {
	return jsonObject(
		columns.flatMap((column) => {
			const name = auditName(column);
			if (name === undefined) return [];
			const kind = FIELDS[column]?.kind;
			if (kind === "flag") return [[name, flag(column)] as const];
			if (kind !== "bundle") return [[name, sql.ref(column)] as const];
			return [[name, sql`(SELECT name FROM bundles WHERE bundles.id = ${sql.ref(column)})`] as const];
		}),
	);
}

/**
 * Public channels that lose platforms to another one, before and after; run it before
 * `yieldPublicPlatforms`.
 */
export function yieldingChannels(
	orgId: string,
	app: { readonly uuid: AppId; readonly id: string },
	exceptName: string,
	taken: Platforms,
): RawBuilder<unknown> {
	const { ios, android, electron } = taken;
	const kept = sql`(ios = 1 AND ${ios} = 0) OR (android = 1 AND ${android} = 0) OR (electron = 1 AND ${electron} = 0)`;
	const after = (column: "ios" | "android" | "electron", isTaken: number) =>
		sql`json(CASE WHEN ${sql.ref(column)} = 1 AND ${isTaken} = 0 THEN 'true' ELSE 'false' END)`;
	return sql`SELECT ${orgId} AS org_id, CAST(id AS TEXT) AS target_id, name AS target_name, ${app.uuid} AS app_uuid, ${app.id} AS app_id,
			json_object('public', json('true'), 'ios', ${flag("ios")}, 'android', ${flag("android")}, 'electron', ${flag("electron")}) AS before,
			json_object('public', json(CASE WHEN ${kept} THEN 'true' ELSE 'false' END), 'ios', ${after("ios", ios)},
				'android', ${after("android", android)}, 'electron', ${after("electron", electron)}) AS after
		FROM channels WHERE app_id = ${app.uuid} AND name <> ${exceptName} AND public = 1
			AND ((ios = 1 AND ${ios} = 1) OR (android = 1 AND ${android} = 1) OR (electron = 1 AND ${electron} = 1))`;
}

function flag(column: string): RawBuilder<unknown> {
	return sql`json(CASE WHEN ${sql.ref(column)} = 1 THEN 'true' ELSE 'false' END)`;
}
