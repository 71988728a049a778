/**
 * What the audit log says of channels: their settings under the names that the API gives them, bundles by their version. What a change
 * replaced is read by SQL in the batch of the change, so it is true whatever another request did meanwhile.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { AppId, ChannelId, OrgId } from "../authz/decide";
import { type Actor, auditEach } from "./audit";
import { type ChannelValues, differsFrom, type Platforms } from "./channels";

const FLAGS = {
	public: "public",
	ios: "ios",
	android: "android",
	electron: "electron",
	allow_device_self_set: "allow_device_self_set",
	allow_emulator: "allow_emulator",
	allow_device: "allow_device",
	allow_dev: "allow_dev",
	allow_prod: "allow_prod",
	disable_auto_update_under_native: "disableAutoUpdateUnderNative",
	rollout_enabled: "rolloutEnabled",
	rollout_count_new_devices: "rolloutCountNewDevices",
	auto_pause_enabled: "autoPauseEnabled",
	protected: "protected",
	requires_approval: "requiresApproval",
} as const;
const BUNDLES = { version_id: "version", rollout_version_id: "rolloutVersion" } as const;
const VALUES = {
	disable_auto_update: "disableAutoUpdate",
	update_package: "updatePackage",
	rollout_notice: "rolloutNotice",
	rollout_percentage_bps: "rolloutPercentageBps",
	rollout_paused_at_ms: "rolloutPausedAtMs",
	rollout_pause_reason: "rolloutPauseReason",
	rollout_steps: "rolloutStepsBps",
	rollout_step_minutes: "rolloutStepMinutes",
	rollout_step_min_devices: "rolloutStepMinDevices",
	rollout_devices_per_network: "rolloutDevicesPerNetwork",
	auto_pause_window_minutes: "autoPauseWindowMinutes",
	auto_pause_failure_rate_bps: "autoPauseFailureRateBps",
	auto_pause_confidence_bps: "autoPauseConfidenceBps",
	auto_pause_min_attempts: "autoPauseMinAttempts",
	auto_pause_min_failures: "autoPauseMinFailures",
	auto_pause_action: "autoPauseAction",
	auto_pause_cooldown_minutes: "autoPauseCooldownMinutes",
	promoters: "promoters",
} as const;

const isIn = <Names extends object>(names: Names, column: string): column is Extract<keyof Names, string> =>
	Object.hasOwn(names, column);

/** Everything of a channel that is told when it goes. */
export function wholeChannelNow(appId: AppId, channelId: ChannelId): RawBuilder<string | null> {
	const settings = settingsNow([
		...Object.keys(FLAGS),
		...Object.keys(BUNDLES),
		"disable_auto_update",
		"update_package",
	]);
	return sql<string | null>`(SELECT ${settings} FROM channels WHERE app_id = ${appId} AND id = ${channelId})`;
}

/** The settings that `values` sets, as an audit entry shows them; `versions` names the bundles. */
export function auditedChannel(
	values: ChannelValues,
	versions: ReadonlyMap<number, string>,
): Record<string, string | number | boolean | null> {
	const shown: Record<string, string | number | boolean | null> = {};
	for (const [column, value] of Object.entries(values) as [string, string | number | null][]) {
		if (isIn(FLAGS, column)) shown[FLAGS[column]] = value === 1;
		else if (isIn(BUNDLES, column))
			shown[BUNDLES[column]] = value === null ? null : (versions.get(Number(value)) ?? null);
		else if (isIn(VALUES, column)) shown[VALUES[column]] = value;
	}
	return shown;
}

/** The entry of a change that `updateChannel` with the same values is about to make; none where it changes nothing. */
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

/** Of one JSON object the members that the other does not have just so. */
function whereDifferent(object: RawBuilder<string>, other: RawBuilder<string>): RawBuilder<string> {
	const path = sql`'$.' || json_quote(member.key)`;
	return sql<string>`(SELECT json_group_object(member.key, json(${object} -> (${path}))) FROM json_each(${object}) AS member
		WHERE ${object} -> (${path}) IS NOT ${other} -> (${path}))`;
}

function settingsNow(columns: readonly string[]): RawBuilder<string> {
	const fields = columns.flatMap((column) => {
		if (isIn(FLAGS, column)) return [sql`${sql.lit(FLAGS[column])}, ${flag(column)}`];
		if (isIn(BUNDLES, column)) {
			return [sql`${sql.lit(BUNDLES[column])}, (SELECT name FROM bundles WHERE bundles.id = ${sql.ref(column)})`];
		}
		return isIn(VALUES, column) ? [sql`${sql.lit(VALUES[column])}, ${sql.ref(column)}`] : [];
	});
	return sql<string>`json_object(${sql.join(fields)})`;
}

/** The channels that lose platforms to another one, with what they lose; for entries written before they do. */
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
