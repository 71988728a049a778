/**
 * The rows of the two tenants and of the third one, and the databases that consist of them. A new
 * table needs rows here, so that its statements can be tested for their conditions on tenant, id
 * and deletion.
 */
import { emptyDatabase } from "./database-text";
import { reportsOf } from "./reports";
import { isReportTable } from "./tenant-statements";
import { A, B, CROSSED, DAY, KEY_ID, otherThan, type TenantRows } from "./tenants";
import { NOW_MS, testEnv } from "./world";

type Values = Readonly<Record<string, string | number | null>>;
type Row = readonly [table: string, values: Values];

const made = { created_at_ms: 1, updated_at_ms: 1 };
/** A device that was offered a rollout's bundle, as old as its row in the telemetry database. */
const offered = { first_served_at_ms: 1, device_created_at_ms: 1 };

function organization(id: string, user: string, rest: Values = {}): Row {
	return ["organizations", { id, name: "Same", created_by: user, ...made, ...rest }];
}

function app(id: string, publicAppId: string, org: string): Row {
	return ["apps", { id, app_id: publicAppId, owner_org: org, name: "Same", telemetry_binding: "TELEMETRY", ...made }];
}

function binding(
	id: string,
	holder: { api_key_id: string } | { user_id: string },
	role: string,
	org: string,
	rest: Values = {},
): Row {
	const scope = { scope_type: "org", org_id: org };
	return ["role_bindings", { id, ...holder, role_name: role, ...scope, created_at_ms: 1, ...rest }];
}

function key(id: string, org: string, user: string, rest: Values = {}): Row {
	const values = { id, org_id: org, user_id: user, name: "Same", key_hash: id.replace("key", "hash"), key_hint: id };
	return ["api_keys", { ...values, ...made, ...rest }];
}

function bundle(id: number, appId: string, name: string, status: string, keyId: string, rest: Values = {}): Row {
	const bytes = status === "ready" ? { object_key: `${appId}/${id}`, size_bytes: id } : {};
	const deleted = status === "deleted" ? { deleted_at_ms: 1 } : {};
	const stored = { storage_provider: "r2", created_by: "Same", created_by_key: keyId, native_packages: "[]" };
	return ["bundles", { id, app_id: appId, name, status, ...stored, ...bytes, ...deleted, ...made, ...rest }];
}

function upload(id: string, appId: string, bundleId: number, createdAtMs: number, keyId: string): Row {
	const values = { id, app_id: appId, bundle_id: bundleId, object_prefix: `${appId}/${id}/`, created_by: "Same" };
	return ["uploads", { ...values, created_by_key: keyId, expires_at_ms: NOW_MS, created_at_ms: createdAtMs }];
}

function deltaObject(appId: string, path: string, sizeBytes: number): Row {
	const values = { app_id: appId, path, object_key: `${appId}/delta/${path}`, size_bytes: sizeBytes };
	return ["delta_objects", { ...values, last_claimed_at_ms: 1 }];
}

function file(appId: string, bundleId: number, name: string): Row {
	return ["bundle_files", { bundle_id: bundleId, app_id: appId, file_name: name, file_hash: "hash", path: "shared" }];
}

function override(appId: string, deviceId: string, channelId: number | null, versionId: number | null): Row {
	const values = { app_id: appId, device_id: deviceId, channel_id: channelId, version_id: versionId };
	return ["device_overrides", { ...values, created_by: "Same", ...made }];
}

function device(of: TenantRows, id: string, rest: Values): Row {
	const where = { channel_id: of.channel, default_channel: `channel-of-${of.name}` };
	const reported = {
		version_build: id.replace("device-", "build-").concat("-", of.name),
		last_seen_at_ms: of.seenAtMs,
	};
	return ["devices", { app_id: of.app, device_id: id, ...where, ...reported, ...made, ...rest }];
}

function rollout(id: string, of: TenantRows, rest: Values): Row {
	const values = { id, app_id: of.app, channel_id: of.channel, version_id: of.next, version_name: `${id} of 1.1.0` };
	const steps = { percentage_bps: 1, paused: 0, started_at_ms: 1, step_at_ms: 1, judged_from_ms: 1 };
	return ["rollouts", { ...values, ...steps, ...rest }];
}

/** An upload that a person sent from a browser. */
function uploadOfPerson(id: string, appId: string, user: string): Row {
	const values = { id, app_id: appId, delta_path: "shared", object_prefix: `${appId}/${id}/`, created_by: user };
	return ["uploads", { ...values, expires_at_ms: NOW_MS, created_at_ms: 1 }];
}

function session(id: string, user: string): Row {
	const values = { id, user_id: user, token_hash: `hash-of-${id}`, method: "code", created_at_ms: 1 };
	return ["sessions", { ...values, last_seen_at_ms: 1, expires_at_ms: NOW_MS + 1 }];
}

function invitation(id: string, org: string, user: string, email: string, expiresAtMs: number): Row {
	const values = { id, org_id: org, email, role_name: "org_member", token_hash: id.replace("invitation", "token") };
	return ["invitations", { ...values, invited_by: user, expires_at_ms: expiresAtMs, created_at_ms: 1 }];
}

function entry(org: string, actor: string, target: string, appId: string | null): Row {
	const who = { actor_type: "api_key", actor_id: actor, actor_name: `name of ${actor}`, request_id: "" };
	const what = {
		action: "channel.update",
		target_type: "channel",
		target_id: target,
		target_name: `name of ${target}`,
	};
	return ["audit_log", { org_id: org, at_ms: 1, ...who, ...what, app_uuid: appId }];
}

function statisticsOf(appId: string, day: number, amount: number): Row[] {
	const of = { app_id: appId, day };
	const ofBundle = { ...of, version_name: "1.0.0" };
	return [
		["daily_counts", { ...ofBundle, channel_name: "", metric: "devices", amount }],
		["daily_counts", { ...ofBundle, channel_name: "production", metric: "install", amount }],
		["daily_totals", { ...of, get_count: amount }],
		["daily_install_times", { ...ofBundle, bucket: 1, amount }],
		["daily_health", { ...ofBundle, signal: "crash", bucket: 0, amount }],
		["device_events", { app_id: appId, at_ms: day, id: `${appId} ${amount}`, events: "[]" }],
		[
			"device_sketches",
			{ ...of, kind: "all", version_name: "", slot: 0, sketch: `slot ${amount}`, devices: amount, revision: 1 },
		],
		["daily_storage", { ...of, size_bytes: amount }],
	];
}

/** Versions that the telemetry database knows. */
function reportedVersionsOf({ app: appId, stable, next, unused }: TenantRows): Row[] {
	return Object.entries({ "1.0.0": stable, "1.1.0": next, "1.2.0": unused }).map(([name, id]) => [
		"bundles",
		{ app_id: appId, name, object_key: `${appId}/${id}` },
	]);
}

function signingKey(name: string, org: string): Row {
	const values = { id: `signing-${name}`, org_id: org, name: "Same", public_key: `${KEY_ID}-${name}` };
	return ["signing_keys", { ...values, fingerprint: `print-${name}`, created_at_ms: 1 }];
}

/**
 * A webhook of each tenant, with an event that waits for delivery. Deliveries of both were claimed
 * under one name.
 */
function webhookRows({ name, org, app: appId, user }: TenantRows): Row[] {
	const hook = { org_id: org, description: "Same", shown_url: "https://hooks.example.com/", sealed: `sealed-${name}` };
	const times = { created_at_ms: 1, updated_at_ms: 1 };
	const [id, event] = [`webhook-${name}`, `event-${name}`];
	const delivery = {
		org_id: org,
		event_id: event,
		state: "pending",
		claim: "same",
		next_attempt_at_ms: 1,
		created_at_ms: 1,
	};
	return [
		["webhooks", { ...hook, id, app_id: appId, format: "standard", events: "[]", ...times }],
		["webhooks", { ...hook, id: `mail-${name}`, user_id: user, format: "mail", events: "[]", ...times }],
		["webhook_events", { id: event, org_id: org, app_id: appId, type: "channel.promoted", at_ms: 1, data: "{}" }],
		["webhook_deliveries", { ...delivery, id: `delivery-${name}`, webhook_id: id }],
		[
			"webhook_attempts",
			{
				delivery_id: `delivery-${name}`,
				number: 1,
				at_ms: 1,
				shown_url: hook.shown_url,
				is_of_records: 0,
				duration_ms: 1,
			},
		],
	];
}

function rowsOf(of: TenantRows): Row[] {
	const other = otherThan(of);
	const [late, channelValues] = [NOW_MS + 1, { created_by: "Same", ...made }];
	return [
		organization(of.deletedOrg, of.user, { deleted_at_ms: NOW_MS }),
		app(of.app, of.publicAppId, of.org),
		app(of.emptyApp, `com.example.empty.${of.name}`, of.org),
		app(of.deletedApp, of.deletedPublicAppId, of.deletedOrg),
		key(of.key, of.org, of.user, {
			previous_key_hash: of.previousKeyHash,
			key_ciphertext: `sealed-${of.name}`,
			global_permissions: '["org.create"]',
			expires_at_ms: late,
		}),
		key(`key-expired-${of.name}`, of.org, "user-shared", { expires_at_ms: NOW_MS }),
		key(`key-shared-${of.name}`, of.org, "user-shared"),
		// Both tenants know the shared person and have each other's key.
		binding(`${of.name}-user`, { user_id: of.user }, "org_admin", of.org),
		binding(`${of.name}-user-ending`, { user_id: of.user }, "app_reader", of.org, { expires_at_ms: late }),
		binding(`${of.name}-user-app`, { user_id: of.user }, "app_developer", of.org, {
			scope_type: "app",
			app_id: of.emptyApp,
		}),
		binding(`${of.name}-user-deleted`, { user_id: of.user }, "org_admin", of.deletedOrg),
		binding(`${of.name}-user-ended`, { user_id: of.user }, "org_member", of.org, { expires_at_ms: NOW_MS }),
		binding(`${of.name}-shared`, { user_id: "user-shared" }, "org_member", of.org),
		// This person's access to the organization has ended; a binding on one app remains.
		binding(`${of.name}-former`, { user_id: "user-former" }, "org_super_admin", of.org, { expires_at_ms: NOW_MS }),
		binding(`${of.name}-former-app`, { user_id: "user-former" }, "app_admin", of.org, {
			scope_type: "app",
			app_id: of.emptyApp,
		}),
		// And of this one all is over.
		binding(`${of.name}-gone`, { user_id: "user-gone" }, "org_member", of.org, { expires_at_ms: NOW_MS }),
		binding(`${of.name}-key`, { api_key_id: of.key }, "org_admin", of.org),
		binding(`${of.name}-key-shared`, { api_key_id: `key-shared-${of.name}` }, "org_member", of.org),
		binding(`${of.name}-key-app`, { api_key_id: of.key }, "app_admin", of.org, { scope_type: "app", app_id: of.app }),
		binding(`${of.name}-key-elsewhere`, { api_key_id: of.key }, "org_member", other.org),
		binding(`${of.name}-key-deleted`, { api_key_id: of.key }, "org_admin", of.deletedOrg),
		binding(`${of.name}-key-deleted-owner`, { api_key_id: of.key }, "org_super_admin", of.deletedOrg),
		binding(`${of.name}-key-ended`, { api_key_id: of.key }, "app_reader", of.org, { expires_at_ms: NOW_MS }),
		signingKey(of.name, of.org),
		...webhookRows(of),
		bundle(of.stable, of.app, "1.0.0", "ready", of.key, {
			signed_by: `print-${of.name}`,
			manifest_signed_by: `print-${of.name}`,
		}),
		// By a key of the other tenant alone.
		bundle(of.next, of.app, "1.1.0", "ready", of.key, { signed_by: `print-${other.name}` }),
		bundle(of.unused, of.app, "1.2.0", "ready", of.key),
		bundle(of.deleted, of.app, "1.0.0", "deleted", of.key),
		bundle(of.pending, of.app, "2.0.0", "pending", of.key),
		[
			"channels",
			{
				id: of.channel,
				app_id: of.app,
				name: "production",
				version_id: of.stable,
				public: 1,
				...channelValues,
				rollout_version_id: of.next,
				rollout_id: of.rollout,
				rollout_enabled: 1,
				rollout_percentage_bps: 1,
			},
		],
		["channels", { id: of.beta, app_id: of.app, name: "beta", rollout_id: of.pausedRollout, ...channelValues }],
		[
			"channels",
			{
				id: of.beta + 1,
				app_id: of.deletedApp,
				name: "production",
				rollout_id: `1-${of.name}`,
				rollout_enabled: 1,
				...channelValues,
			},
		],
		binding(`${of.name}-key-channel`, { api_key_id: of.key }, "channel_preview", of.org, {
			scope_type: "channel",
			app_id: of.app,
			channel_id: of.beta,
		}),
		rollout(of.rollout, of, {}),
		rollout(of.pausedRollout, of, { channel_id: of.beta }),
		rollout(`1-${of.name}`, of, { app_id: of.deletedApp, channel_id: of.beta + 1 }),
		rollout(of.endedRollout, of, { step_at_ms: 7, ended_at_ms: 2, ended_as: "promoted" }),
		device(of, "device-1", { version_name: "1.0.0", custom_id: "somebody", key_id: KEY_ID }),
		device(of, "device-2", { version_name: `9.0.${of.name}` }),
		...["device-1", "device-2"].flatMap((deviceId): Row[] => [
			["rollout_devices", { rollout_id: of.rollout, device_id: deviceId, ...offered, installed_at_ms: 2 }],
		]),
		...[of.endedRollout, of.pausedRollout].map(
			(id): Row => ["rollout_devices", { rollout_id: id, device_id: "device-1", ...offered }],
		),
		override(of.app, "device-1", of.beta, of.next),
		override(of.app, "device-2", null, of.stable),
		deltaObject(of.app, "shared", of.stable),
		deltaObject(of.deletedApp, "shared", of.stable),
		deltaObject(of.app, `only-${of.name}`, of.next),
		deltaObject(of.app, `${of.key}:own`, of.unused),
		file(of.app, of.stable, "a.js"),
		upload(`${of.upload}-stable`, of.app, of.stable, of.stable, of.key),
		upload(of.upload, of.app, of.pending, of.pending, of.key),
		upload(`${of.upload}-deleted`, of.app, of.deleted, of.pending + 1, of.key),
		[
			"uploads",
			{
				id: `${of.upload}-in-deleted`,
				app_id: of.deletedApp,
				delta_path: "shared",
				object_prefix: of.deletedApp,
				created_by: "Same",
				created_by_key: of.key,
				expires_at_ms: NOW_MS,
				created_at_ms: 1,
			},
		],
		upload(`${of.upload}-expired`, of.app, of.pending, 1, `key-expired-${of.name}`),
		uploadOfPerson(`${of.upload}-of-user`, of.app, of.user),
		uploadOfPerson(`${of.upload}-of-other`, of.app, other.user),
		uploadOfPerson(`${of.upload}-of-gone`, of.app, "user-gone"),
		session(of.session, of.user),
		session(`other-${of.session}`, of.user),
		invitation(of.invitation, of.org, of.user, "invited@example.com", late),
		invitation(`${of.invitation}-late`, of.org, of.user, "late@example.com", NOW_MS),
		invitation(`${of.invitation}-deleted`, of.deletedOrg, of.user, "invited@example.com", late),
		entry(of.org, of.key, "1", of.app),
		entry(of.org, of.user, "2", null),
		[
			"report_removals",
			{ app_id: of.removedApp, telemetry_binding: "TELEMETRY", due_at_ms: of.name === "a" ? NOW_MS - 1 : NOW_MS },
		],
		...statisticsOf(of.app, DAY, of.stable),
		...statisticsOf(of.app, DAY + 1, of.next),
	];
}

/** Rows that no request can make. */
function crossedRows(): Row[] {
	const { org, app: appId, publicAppId, channel } = CROSSED;
	return [
		organization(org, "user-shared", { enforce_hashed_api_keys: 1, updated_at_ms: 5 }),
		app(appId, publicAppId, org),
		key(CROSSED.key, org, "user-shared"),
		session("session-shared", "user-shared"),
		binding("x-key", { api_key_id: CROSSED.key }, "org_super_admin", org),
		deltaObject(appId, "shared", 1),
		[
			"channels",
			{
				id: channel,
				app_id: appId,
				name: "beta",
				created_by: "Same",
				...made,
				version_id: A.unused,
				rollout_version_id: B.unused,
				rollout_id: B.pausedRollout,
				rollout_enabled: 1,
			},
		],
		...[A, B].flatMap((of, index): Row[] => [
			file(appId, of.unused, "crossed.js"),
			upload(`${of.upload}-crossed`, appId, of.pending, of.pending + 2, of.key),
			["devices", { app_id: appId, device_id: `device-${index + 1}`, version_name: "1.0.0", ...made }],
			override(appId, `device-${index + 1}`, index === 0 ? of.beta : null, of.unused),
			deltaObject(appId, `${of.key}:shared`, 1),
			// Not the one that the channel has, and before it by its id.
			rollout(`0-${of.name}`, of, {}),
			binding(`x-${of.name}-ended`, { api_key_id: CROSSED.key }, "org_member", of.org, { expires_at_ms: NOW_MS }),
			binding(`x-${of.name}-app`, { api_key_id: CROSSED.key }, "app_admin", org, { scope_type: "app", app_id: of.app }),
		]),
	];
}

/** Makes both databases consist of the tenants. */
export async function insertTenants(): Promise<void> {
	await emptyDatabase();
	// Statements are tested without the events that triggers write; the creation of a webhook installs
	// them again.
	const { results } = await testEnv.DB.prepare(
		"SELECT name FROM sqlite_schema WHERE type = 'trigger' AND name GLOB 'webhook_*'",
	).all<{ name: string }>();
	if (results.length > 0) await testEnv.DB.batch(results.map(({ name }) => testEnv.DB.prepare(`DROP TRIGGER ${name}`)));
	const rows: Row[] = [
		...[A, B].map((of): Row => ["users", { id: of.user, email: of.email, created_at_ms: 1 }]),
		...["shared", "former", "gone"].map(
			(name): Row => ["users", { id: `user-${name}`, email: `${name}@example.com`, created_at_ms: 1 }],
		),
		...[A, B].map((of) => organization(of.org, of.user, { require_signed_bundles: 1 })),
		...rowsOf(A),
		...rowsOf(B),
		...crossedRows(),
	];
	const insertionIn = (d1: D1Database, [table, values]: Row) =>
		d1
			.prepare(`INSERT INTO ${table} (${Object.keys(values).join()}) VALUES (${Object.keys(values).fill("?").join()})`)
			.bind(...Object.values(values));
	const [reports = [], others = []] = [true, false].map((isReport) =>
		rows.filter(([table]) => isReportTable(table) === isReport),
	);
	await testEnv.DB.batch(others.map((row) => insertionIn(testEnv.DB, row)));
	const telemetry = await reportsOf(A.app, B.app, CROSSED.app);
	await telemetry.batch([...[A, B].flatMap(reportedVersionsOf), ...reports].map((row) => insertionIn(telemetry, row)));
}
