/**
 * Fills a deployment as years of use do: an organization with many apps, people, keys and audit
 * entries, one app with many channels, bundles, previews and devices. Rows are written by SQL,
 * because the API would take hours; every table that an endpoint lists has rows here.
 */
import { DAY_MS, HOUR_MS } from "../src/domain/time";

export interface GrowthSize {
	/** Further apps of the organization. */
	readonly apps: number;
	readonly channels: number;
	readonly bundles: number;
	readonly devices: number;
	readonly members: number;
	readonly auditEntries: number;
}

/** One tenth of a large installation, as a test affords it. */
export const SMALL_INSTALLATION: GrowthSize = {
	apps: 100,
	channels: 1_000,
	bundles: 500,
	devices: 10_000,
	members: 50,
	auditEntries: 10_000,
};
export const LARGE_INSTALLATION: GrowthSize = {
	apps: 1_000,
	channels: 10_000,
	bundles: 5_000,
	devices: 100_000,
	members: 500,
	auditEntries: 100_000,
};

export interface GrowthScene {
	readonly orgId: string;
	readonly userId: string;
	/** UUID of the app that grows. It has a ready bundle with a zip. */
	readonly app: string;
	readonly appId: string;
	readonly telemetryBinding: string;
	readonly nowMs: number;
}

/** Days with figures. */
const DAYS = 90;
/** Versions with figures on a day. */
const VERSIONS_A_DAY = 20;

const series = (count: number) =>
	`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${Math.max(1, Math.ceil(count))})`;
/** Random-looking UUID of a row. */
const uuid = (kind: string, i = "i") => `printf('${kind}000000-0000-4000-8000-%012d', ${i})`;

export const versionOf = (index: number) => `2.${Math.floor(index / 100)}.${index % 100}`;
export const channelOf = (index: number) => `channel-${index}`;
const version = (i: string) => `printf('2.%d.%d', (${i}) / 100, (${i}) % 100)`;

/** For the main database, in order. */
export function mainRows(scene: GrowthScene, size: GrowthSize): string[] {
	const { app, orgId, userId, nowMs } = scene;
	const bundleOf = (i: string) =>
		`(SELECT id FROM bundles WHERE app_id = '${app}' AND name = ${version(`(${i}) % ${size.bundles} + 1`)} AND deleted_at_ms IS NULL)`;
	const channelId = (i: string) =>
		`(SELECT id FROM channels WHERE app_id = '${app}' AND name = 'channel-' || ((${i}) % ${size.channels} + 1))`;
	const keys = size.members * 4;
	const few = Math.ceil(size.members / 5);
	return [
		`INSERT INTO users (id, email, created_at_ms, email_verified_at_ms)
			${series(size.members)} SELECT ${uuid("a1")}, 'member-' || i || '@example.com', ${nowMs}, ${nowMs} FROM n`,
		`INSERT INTO role_bindings (id, user_id, role_name, scope_type, org_id, created_at_ms)
			${series(size.members)} SELECT ${uuid("a2")}, ${uuid("a1")}, 'org_member', 'org', '${orgId}', ${nowMs} FROM n`,
		`INSERT INTO role_bindings (id, user_id, role_name, scope_type, org_id, app_id, created_at_ms)
			${series(size.members)} SELECT ${uuid("a3")}, ${uuid("a1")}, 'app_developer', 'app', '${orgId}', '${app}', ${nowMs} FROM n`,
		`INSERT INTO invitations (id, org_id, email, role_name, token_hash, invited_by, expires_at_ms, created_at_ms)
			${series(few)} SELECT ${uuid("a4")}, '${orgId}', 'guest-' || i || '@example.com', 'org_member', 'hash-' || i, '${userId}', ${nowMs + DAY_MS}, ${nowMs} FROM n`,
		`INSERT INTO groups (id, org_id, name, description, created_at_ms, updated_at_ms)
			${series(few)} SELECT ${uuid("a5")}, '${orgId}', 'group-' || i, '', ${nowMs}, ${nowMs} FROM n`,
		`INSERT INTO group_members (group_id, user_id, added_at_ms)
			${series(size.members)} SELECT ${uuid("a5", `1 + i % ${few}`)}, ${uuid("a1")}, ${nowMs} FROM n
			UNION SELECT ${uuid("a5", "1")}, ${uuid("a1")}, ${nowMs} FROM n`,
		`INSERT INTO group_bindings (id, group_id, org_id, role_name, scope_type, app_id, created_at_ms)
			${series(few)} SELECT ${uuid("a6")}, ${uuid("a5")}, '${orgId}', 'app_reader', 'app', '${app}', ${nowMs} FROM n`,
		`INSERT INTO api_keys (id, org_id, user_id, name, key_hash, key_hint, created_at_ms, updated_at_ms)
			${series(keys)} SELECT ${uuid("a7")}, '${orgId}', '${userId}', 'key ' || i, 'key-hash-' || i, '0000', ${nowMs} - i, ${nowMs} FROM n`,
		`INSERT INTO role_bindings (id, api_key_id, role_name, scope_type, org_id, app_id, created_at_ms)
			${series(keys)} SELECT ${uuid("a8")}, ${uuid("a7")}, 'app_developer', 'app', '${orgId}', '${app}', ${nowMs} FROM n`,
		`INSERT INTO publishers (id, app_id, api_key_id, name, provider, issuer, stage, claims, anchor, created_by, created_at_ms, updated_at_ms)
			${series(few)} SELECT ${uuid("a9")}, '${app}', ${uuid("a7")}, 'publisher ' || i, 'github', 'https://token.actions.githubusercontent.com', 'upload', '{}', 'repository_id=' || i, '${userId}', ${nowMs}, ${nowMs} FROM n`,
		`INSERT INTO apps (id, app_id, owner_org, name, created_at_ms, updated_at_ms, telemetry_binding)
			${series(size.apps)} SELECT ${uuid("b1")}, 'com.example.growth' || i, '${orgId}', 'App ' || i, ${nowMs}, ${nowMs}, '${scene.telemetryBinding}' FROM n`,
		`INSERT INTO bundles (app_id, name, version_order, status, checksum, sha256, size_bytes, storage_provider, object_key, comment, created_by, created_at_ms, updated_at_ms)
			${series(size.bundles)} SELECT '${app}', ${version("i")}, printf('012%02d%d%02d%d~', length(i / 100), i / 100, length(i % 100), i % 100), 'ready', 'abc', 'abc', 1000 + (i * 7919) % 100000, 'r2', 'growth/' || i, 'notes of ' || i, '${userId}', ${nowMs - 200 * DAY_MS} + i * 60000, ${nowMs} FROM n`,
		`INSERT INTO bundles (app_id, name, status, storage_provider, created_by, created_at_ms, updated_at_ms, deleted_at_ms)
			${series(size.bundles)} SELECT '${app}', '3.0.' || i, 'deleted', 'r2', '${userId}', ${nowMs - 200 * DAY_MS} + i * 60000, ${nowMs}, ${nowMs} FROM n`,
		`INSERT INTO channels (app_id, name, version_id, created_by, created_at_ms, updated_at_ms)
			${series(size.channels)} SELECT '${app}', 'channel-' || i, ${bundleOf("i")}, '${userId}', ${nowMs} + i, ${nowMs} + i FROM n`,
		`UPDATE channels SET rollout_version_id = ${bundleOf("channels.id + 1")}, rollout_id = 'rollout-' || id, rollout_percentage_bps = 1000, rollout_enabled = 1
			WHERE app_id = '${app}' AND id % 100 = 0`,
		`INSERT INTO rollouts (id, app_id, channel_id, version_id, version_name, percentage_bps, paused, started_at_ms, step_at_ms, judged_from_ms)
			SELECT rollout_id, app_id, id, rollout_version_id, (SELECT name FROM bundles WHERE bundles.id = rollout_version_id), 1000, 0, ${nowMs - HOUR_MS}, ${nowMs - HOUR_MS}, ${nowMs - HOUR_MS}
			FROM channels WHERE app_id = '${app}' AND rollout_id IS NOT NULL`,
		`INSERT INTO rollouts (id, app_id, channel_id, version_id, version_name, percentage_bps, paused, started_at_ms, step_at_ms, judged_from_ms, ended_at_ms, ended_as)
			${series(size.bundles)} SELECT 'ended-' || i, '${app}', ${channelId("1")}, ${bundleOf("i")}, ${version("i")}, 10000, 0, ${nowMs - 100 * DAY_MS} + i, ${nowMs}, ${nowMs}, ${nowMs - 90 * DAY_MS} + i, 'promoted' FROM n`,
		`INSERT INTO rollout_devices (rollout_id, device_id, network, first_served_at_ms, last_served_at_ms, installed_at_ms)
			${series(size.devices / 10)} SELECT (SELECT min(rollout_id) FROM channels WHERE app_id = '${app}'), ${uuid("d0")}, 'network-' || i, ${nowMs - HOUR_MS}, ${nowMs}, ${nowMs} FROM n`,
		`INSERT INTO channel_history (app_id, channel_id, at_ms, action, version_id, version_name, actor_type, actor_id, actor_name, rollback_target)
			${series(size.auditEntries)} SELECT '${app}', ${channelId("i")}, ${nowMs - 200 * DAY_MS} + i * 1000, 'promotion', ${bundleOf("i")}, ${version(`i % ${size.bundles} + 1`)}, 'user', '${userId}', 'Someone', 0 FROM n`,
		`INSERT INTO channel_history (app_id, channel_id, at_ms, action, version_id, version_name, rollout_percentage_bps, actor_type, actor_id, actor_name)
			SELECT app_id, channel_id, started_at_ms, 'rollout_started', version_id, version_name, percentage_bps, 'user', '${userId}', 'Someone'
			FROM rollouts WHERE app_id = '${app}' AND ended_at_ms IS NULL`,
		`UPDATE rollouts SET release_id = (SELECT max(id) FROM channel_history h WHERE h.channel_id = rollouts.channel_id AND h.action = 'rollout_started')
			WHERE app_id = '${app}' AND ended_at_ms IS NULL`,
		`INSERT INTO audit_log (org_id, at_ms, actor_type, actor_id, actor_name, action, target_type, target_id, request_id, app_uuid, app_id)
			${series(size.auditEntries)} SELECT '${orgId}', ${nowMs - 200 * DAY_MS} + i * 1000, 'user', '${userId}', 'Someone', CASE i % 3 WHEN 0 THEN 'channel.promote' WHEN 1 THEN 'bundle.upload' ELSE 'channel.update' END, 'channel', 'channel-' || (i % ${size.channels}), ${uuid("c1")}, '${app}', '${scene.appId}' FROM n`,
		`INSERT INTO previews (id, app_id, repository, number, state, channel_name, channel_id, page_id, lifetime_ms, expires_at_ms, opened_at_ms, created_by, created_at_ms, updated_at_ms)
			${series(size.channels / 10)} SELECT ${uuid("c2")}, '${app}', 'octo/app', i, 'open', 'channel-' || i, ${channelId("i - 1")}, ${uuid("c3")}, ${DAY_MS}, ${nowMs + DAY_MS} + i, ${nowMs}, '${userId}', ${nowMs} + i, ${nowMs} FROM n`,
		`UPDATE channels SET is_preview = 1 WHERE id IN (SELECT channel_id FROM previews WHERE app_id = '${app}')`,
		`INSERT INTO previews (id, app_id, repository, number, state, page_id, lifetime_ms, expires_at_ms, opened_at_ms, created_by, created_at_ms, updated_at_ms, closed_at_ms, closed_as)
			${series(size.bundles)} SELECT ${uuid("c4")}, '${app}', 'octo/app', 100000 + i, 'closed', ${uuid("c5")}, ${DAY_MS}, ${nowMs + DAY_MS} + i, ${nowMs}, '${userId}', ${nowMs} + i, ${nowMs}, ${nowMs}, 'webhook' FROM n`,
		`INSERT INTO proposals (id, app_id, channel_id, state, version_id, version_name, changes, base, proposer_type, proposed_by, proposer_name, created_at_ms, expires_at_ms)
			${series(size.bundles)} SELECT ${uuid("c6")}, '${app}', ${channelId("i")}, CASE i % 5 WHEN 0 THEN 'pending' ELSE 'approved' END, ${bundleOf("i")}, ${version("i")}, '{}', '{}', 'user', '${userId}', 'Someone', ${nowMs} + i, ${nowMs + 7 * DAY_MS} FROM n`,
		`INSERT INTO device_overrides (app_id, device_id, channel_id, created_by, created_at_ms, updated_at_ms)
			${series(size.devices / 50)} SELECT '${app}', ${uuid("d0")}, ${channelId("i")}, '${userId}', ${nowMs}, ${nowMs} FROM n`,
		`INSERT INTO webhooks (id, org_id, format, description, shown_url, sealed, events, created_at_ms, updated_at_ms)
			${series(few)} SELECT ${uuid("e1")}, '${orgId}', 'slack', 'webhook ' || i, 'https://hooks.example.com', 'sealed', '["app.created"]', ${nowMs}, ${nowMs} FROM n`,
		`INSERT INTO webhook_events (id, org_id, app_id, type, at_ms, data)
			${series(size.auditEntries / 10)} SELECT ${uuid("e2")}, '${orgId}', '${app}', 'channel.promoted', ${nowMs} - i, '{}' FROM n`,
		`INSERT INTO webhook_deliveries (id, org_id, webhook_id, event_id, state, attempts, created_at_ms)
			${series(size.auditEntries / 10)} SELECT ${uuid("e3")}, '${orgId}', ${uuid("e1", "1")}, ${uuid("e2")}, 'delivered', 1, ${nowMs} - i FROM n`,
		`INSERT INTO webhook_attempts (delivery_id, number, at_ms, shown_url, is_of_records, duration_ms)
			${series(size.auditEntries / 10)} SELECT ${uuid("e3")}, 1, ${nowMs} - i, 'https://hooks.example.com', 0, 1 FROM n`,
		`INSERT INTO daily_storage (app_id, day, size_bytes)
			${series(DAYS)} SELECT '${app}', ${Math.floor(nowMs / DAY_MS)} - i, 1000 FROM n`,
		`INSERT INTO daily_storage (app_id, day, size_bytes)
			${series(size.apps)} SELECT ${uuid("b1")}, ${Math.floor(nowMs / DAY_MS)} - 1, 1000 FROM n`,
		`INSERT INTO account_log (user_id, at_ms, action, request_id)
			${series(size.auditEntries / 10)} SELECT '${userId}', ${nowMs} - i, 'account.signed_in', ${uuid("e4")} FROM n`,
	];
}

/**
 * For the telemetry database of the app. Requires the names of the channels in the main one, whose
 * ids are given.
 */
export function telemetryRows(scene: GrowthScene, size: GrowthSize, firstChannelId: number): string[] {
	const { app, nowMs } = scene;
	const today = Math.floor(nowMs / DAY_MS);
	return [
		`INSERT OR IGNORE INTO apps (id) VALUES ('${app}')`,
		`INSERT OR IGNORE INTO apps (id) ${series(size.apps)} SELECT ${uuid("b1")} FROM n`,
		`INSERT INTO bundles (app_id, name) ${series(size.bundles)} SELECT '${app}', ${version("i")} FROM n`,
		`INSERT INTO devices (app_id, device_id, platform, version_name, version_build, os_version, plugin_version, is_prod, is_emulator, custom_id, channel_id, last_seen_at_ms, created_at_ms, updated_at_ms)
			${series(size.devices)} SELECT '${app}', ${uuid("d0")}, CASE i % 2 WHEN 0 THEN 'ios' ELSE 'android' END, ${version(`i % ${size.bundles} + 1`)}, '1.0.0', '17', '7.0.0', 1, 0, 'user-' || i, ${firstChannelId} + i % ${size.channels}, ${nowMs} - i * 1000, ${nowMs - 50 * DAY_MS}, ${nowMs} FROM n`,
		`INSERT INTO daily_counts (app_id, day, version_name, channel_name, metric, amount)
			${series(DAYS * VERSIONS_A_DAY)} SELECT '${app}', ${today} - i % ${DAYS}, ${version(`i / ${DAYS} + 1`)}, 'channel-1', metric.value, 10
			FROM n, json_each('["get","install","fail","bandwidth","devices"]') AS metric`,
		`INSERT INTO daily_totals (app_id, day, get_count, install_count, device_count)
			${series(DAYS)} SELECT '${app}', ${today} - i, 100, 10, 50 FROM n`,
		`INSERT INTO daily_totals (app_id, day, get_count, install_count, device_count)
			${series(size.apps)} SELECT ${uuid("b1")}, ${today} - 1, 100, 10, 50 FROM n`,
		`INSERT INTO daily_install_times (app_id, day, version_name, bucket, amount)
			${series(DAYS * VERSIONS_A_DAY)} SELECT '${app}', ${today} - i % ${DAYS}, ${version(`i / ${DAYS} + 1`)}, 3, 10 FROM n`,
		`INSERT INTO daily_health (app_id, day, version_name, signal, bucket, amount)
			${series(DAYS * VERSIONS_A_DAY)} SELECT '${app}', ${today} - i % ${DAYS}, ${version(`i / ${DAYS} + 1`)}, 'app_crash', 0, 1 FROM n`,
		`INSERT INTO device_events (app_id, at_ms, id, events)
			${series(size.devices / 50)} SELECT '${app}', ${nowMs} - i * 60000, ${uuid("f1")},
				json_array(json_array(${uuid("d0")}, ${nowMs} - i * 60000, 1, ${version("1")})) FROM n`,
	];
}
