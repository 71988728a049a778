/**
 * Every setting that @capgo/cli 8.68.1 can send, each either acted upon, which its record then
 * shows, or refused by name with a remedy. The refused ones are those of
 * src/http/pipeline/stock-settings.ts, and none of that list may be missing here.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { REFUSED_SETTINGS, type SettingsRequest } from "../../../src/http/pipeline/stock-settings";
import { addTestFiles } from "../support/delta-files";
import {
	createTestApp,
	createTestKey,
	createWorld,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
let channelId: number;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	for (const version of ["1.0.1", "1.0.2"])
		await addTestFiles(app, await uploadTestBundle(world, app, version), ["a.js"]);
	channelId = await setTestChannel(world, app, "production", { version: "1.0.1" });
});

const COMPAT = "/compat/capgo-cli";
const asAdmin = (method: string, path: string, body: unknown, query: Record<string, string> = {}) =>
	world.request(method, path, { key: world.adminKey, body, query });
const postChannel = (fields: Record<string, unknown>) =>
	asAdmin("POST", "/channel", { app_id: app.appId, channel: "production", ...fields });
const shownChannel = async () =>
	(await world.admin("GET /channel", { query: { app_id: app.appId, channel: "production" } })).body;
const shownApp = async () => (await world.admin("GET /app/:app_id", { params: { app_id: app.appId } })).body;
const ROLLOUT = { rolloutVersion: "1.0.2", rolloutEnabled: true, rolloutPercentageBps: 1000 };

describe("channel set", () => {
	test.each<
		[option: string, before: Record<string, unknown>, sent: Record<string, unknown>, shown: Record<string, unknown>]
	>([
		["--bundle", {}, { version: "1.0.2" }, { version: { name: "1.0.2" } }],
		["--state default", {}, { public: true }, { public: true }],
		["--state normal", { public: true }, { public: false }, { public: false }],
		["--downgrade", {}, { disableAutoUpdateUnderNative: false }, { disableAutoUpdateUnderNative: false }],
		["--no-ios", {}, { ios: false }, { ios: false }],
		["--no-android", {}, { android: false }, { android: false }],
		["--self-assign", {}, { allow_device_self_set: true }, { allow_device_self_set: true }],
		["--no-emulator", {}, { allow_emulator: false }, { allow_emulator: false }],
		["--no-device", {}, { allow_device: false }, { allow_device: false }],
		["--no-dev", {}, { allow_dev: false }, { allow_dev: false }],
		["--no-prod", {}, { allow_prod: false }, { allow_prod: false }],
		[
			"--disable-auto-update metadata",
			{},
			{ disableAutoUpdate: "version_number" },
			{ disableAutoUpdate: "version_number" },
		],
		["--update-package zip", {}, { updatePackage: "zip" }, { updatePackage: "zip" }],
		["--update-package delta", {}, { updatePackage: "delta" }, { updatePackage: "delta" }],
		[
			"--update-package zip_from_builtin",
			{},
			{ updatePackage: "zip_from_builtin" },
			{ updatePackage: "zip_from_builtin" },
		],
		[
			"--update-package delta_from_builtin",
			{},
			{ updatePackage: "delta_from_builtin" },
			{ updatePackage: "delta_from_builtin" },
		],
		[
			"--rollout-bundle",
			{},
			ROLLOUT,
			{ rollout_version_info: { name: "1.0.2" }, rolloutEnabled: true, rolloutPercentageBps: 1000 },
		],
		["--rollout-percentage-bps", ROLLOUT, { rolloutPercentageBps: 2500 }, { rolloutPercentageBps: 2500 }],
		["--rollout-enable", { ...ROLLOUT, rolloutEnabled: false }, { rolloutEnabled: true }, { rolloutEnabled: true }],
		[
			"--rollout-disable",
			ROLLOUT,
			{ rolloutEnabled: false, rolloutVersion: null, rolloutPausedAt: null, rolloutPauseReason: null },
			{ rollout_version_info: null, rolloutEnabled: false },
		],
		[
			"--rollout-pause",
			ROLLOUT,
			{ rolloutPausedAt: "2026-11-21T07:00:00.000Z", rolloutPauseReason: "Paused from CLI" },
			// The time is the server's.
			{ rolloutPausedAt: "2026-11-21T08:00:00.000Z", rolloutPauseReason: "Paused from CLI" },
		],
		[
			"--rollout-resume",
			{ ...ROLLOUT, rolloutPaused: true },
			{ rolloutPausedAt: null, rolloutPauseReason: null },
			{ rolloutPausedAt: null, rolloutPauseReason: null },
		],
		[
			"--rollout-rollback",
			ROLLOUT,
			{
				rolloutVersion: null,
				rolloutEnabled: false,
				rolloutPercentageBps: 0,
				rolloutPausedAt: null,
				rolloutPauseReason: null,
			},
			{ version: { name: "1.0.1" }, rollout_version_info: null },
		],
		[
			"--rollout-promote",
			ROLLOUT,
			{
				version: "1.0.2",
				rolloutVersion: null,
				rolloutEnabled: false,
				rolloutPercentageBps: 0,
				rolloutPausedAt: null,
				rolloutPauseReason: null,
			},
			{ version: { name: "1.0.2" }, rollout_version_info: null },
		],
		["--auto-pause-enabled", {}, { autoPauseEnabled: true }, { autoPauseEnabled: true }],
		["--auto-pause-window-minutes", {}, { autoPauseWindowMinutes: 30 }, { autoPauseWindowMinutes: 30 }],
		["--auto-pause-failure-rate-bps", {}, { autoPauseFailureRateBps: 700 }, { autoPauseFailureRateBps: 700 }],
		["--auto-pause-confidence", {}, { autoPauseConfidence: 0.9 }, { autoPauseConfidence: 0.9 }],
		["--auto-pause-min-attempts", {}, { autoPauseMinAttempts: 40 }, { autoPauseMinAttempts: 40 }],
		["--auto-pause-min-failures", {}, { autoPauseMinFailures: 4 }, { autoPauseMinFailures: 4 }],
		["--auto-pause-action notify", {}, { autoPauseAction: "notify" }, { autoPauseAction: "notify" }],
		["--auto-pause-cooldown-minutes", {}, { autoPauseCooldownMinutes: 5 }, { autoPauseCooldownMinutes: 5 }],
		[
			"bundle upload --rollout-advance",
			ROLLOUT,
			{ rolloutVersion: "1.0.1", rolloutPercentageBps: 500, rolloutEnabled: true, advanceRollout: true },
			{ version: { name: "1.0.2" }, rollout_version_info: { name: "1.0.1" }, rolloutPercentageBps: 500 },
		],
	])("%s is acted upon", async (_, before, sent, shown) => {
		const reset = {
			public: false,
			ios: true,
			android: true,
			allow_device_self_set: false,
			allow_emulator: true,
			allow_device: true,
			allow_dev: true,
			allow_prod: true,
			disableAutoUpdate: "major",
			disableAutoUpdateUnderNative: true,
			updatePackage: "all",
			autoPauseEnabled: false,
			autoPauseWindowMinutes: null,
			autoPauseAction: "pause",
		};
		expect((await postChannel({ ...reset, version: "1.0.1", rollback: true })).status).toBe(200);
		expect((await postChannel(before)).status).toBe(200);
		const change = await postChannel(sent);
		expect(change.status, JSON.stringify(change.body)).toBe(200);
		expect(await shownChannel()).toMatchObject(shown);
	});

	test("--rollout-advance is idempotent, and needs a rollout", async () => {
		await postChannel({ version: "1.0.1", rollback: true });
		await postChannel(ROLLOUT);
		const advance = { rolloutVersion: "1.0.1", rolloutEnabled: true, advanceRollout: true };
		for (let time = 0; time < 2; time += 1) expect((await postChannel(advance)).status).toBe(200);
		expect(await shownChannel()).toMatchObject({ version: { name: "1.0.2" }, rollout_version_info: { name: "1.0.1" } });
		await postChannel({ rollback: true });
		expect(await postChannel(advance)).toMatchObject({ status: 400, body: { error: "missing_rollout_version" } });
		expect(await postChannel({ advanceRollout: true })).toMatchObject({
			status: 400,
			body: { moreInfo: { issues: [{ path: "advanceRollout" }] } },
		});
	});
});

describe("app set", () => {
	test.each<[option: string, sent: Record<string, unknown>, shown?: Record<string, unknown>]>([
		["--name", { name: "Renamed" }],
		["--retention", { retention: 86_400 }],
		["--expose-metadata true", { expose_metadata: "true" }, { expose_metadata: true }],
		["--expose-metadata false", { expose_metadata: "false" }, { expose_metadata: false }],
		["--no-allow-device-custom-id", { allow_device_custom_id: false }],
		["--allow-device-custom-id", { allow_device_custom_id: true }],
		["--block-provider-infra-requests", { block_provider_infra_requests: true }],
		["--no-block-provider-infra-requests", { block_provider_infra_requests: false }],
		["--ios-store-url", { ios_store_url: "https://apps.apple.com/app/id1" }],
		["--android-store-url", { android_store_url: "https://play.google.com/store/apps/details?id=a" }],
		['--ios-store-url ""', { ios_store_url: null }],
	])("%s is acted upon by PUT /app", async (_, sent, shown = sent) => {
		const change = await asAdmin("PUT", `/app/${app.appId}`, sent);
		expect(change.status, JSON.stringify(change.body)).toBe(200);
		expect(change.body).toMatchObject(shown);
		expect(await shownApp()).toMatchObject(shown);
	});

	test.each([
		["--preview", { allow_preview: true }],
		["--no-preview", { allow_preview: false }],
		["--default-upload-channel", { default_upload_channel: "nightly" }],
	])("%s is acted upon by the table-shaped request, audited, and again without effect", async (_, sent) => {
		const patch = () => asAdmin("PATCH", `${COMPAT}/rest/v1/apps`, sent, { app_id: `eq.${app.appId}` });
		const entries = async () =>
			(await world.admin("GET /app/:app_id/audit", { params: { app_id: app.appId } })).body as {
				action: string;
				after: object;
			}[];
		expect((await patch()).status).toBe(204);
		expect(await shownApp()).toMatchObject(sent);
		const [entry] = await entries();
		expect(entry).toMatchObject({ action: "app.update", after: sent });
		const before = (await entries()).length;
		expect((await patch()).status).toBe(204);
		expect((await entries()).length).toBe(before);
	});
});

/** How each refused setting arrives, by the request and the field of the list. */
const WAYS: Record<SettingsRequest, (field: string, value: unknown) => Promise<{ status: number; body: unknown }>> = {
	"POST /app": (field, value) =>
		asAdmin("POST", "/app", { app_id: "com.example.refused", name: "x", owner_org: world.orgId, [field]: value }),
	"PUT /app/:app_id": (field, value) => asAdmin("PUT", `/app/${app.appId}`, { [field]: value }),
	"POST /organization": (field, value) => asAdmin("POST", "/organization", { orgId: world.orgId, [field]: value }),
	"PUT /organization": (field, value) => asAdmin("PUT", "/organization", { name: "x", [field]: value }),
	"PATCH apps": (field, value) =>
		asAdmin("PATCH", `${COMPAT}/rest/v1/apps`, { [field]: value }, { app_id: `eq.${app.appId}` }),
	"storage upload": () => asAdmin("POST", `${COMPAT}/storage/v1/object/images/org/${world.orgId}/icon`, {}),
	"update notification": () => asAdmin("POST", "/notifications/update-check", { appId: app.appId }),
	"automatic version": () => asAdmin("POST", "/bundle/ai_bump_level", { appId: app.appId }),
	"two-factor check": () => asAdmin("POST", `${COMPAT}/rest/v1/rpc/has_2fa_enabled`, {}),
	"password check": () => asAdmin("POST", `${COMPAT}/rest/v1/rpc/check_org_members_password_policy`, {}),
	"download channels": () =>
		asAdmin("PATCH", `${COMPAT}/rest/v1/channels`, { public: true }, { id: `eq.${channelId}` }),
};
const VALUES: Readonly<Record<string, unknown>> = {
	icon: "org/x/icon",
	build_timeout_seconds: 900,
	password_policy_config: { enabled: true, min_length: 10 },
	required_encryption_key: "k".repeat(20),
};
const refusals = Object.entries(REFUSED_SETTINGS).flatMap(([request, settings]) =>
	Object.entries(settings as Record<string, { accepts?: readonly unknown[] }>).map(
		([field, { accepts = [] }]) => [request as SettingsRequest, field, accepts] as const,
	),
);

describe("an unsupported setting", () => {
	test.each(refusals)("%s %s is refused by name, with a remedy, and changes nothing", async (request, field) => {
		const before = JSON.stringify([await shownChannel(), await shownApp()]);
		expect(await WAYS[request](field, VALUES[field] ?? true)).toMatchObject({
			status: 400,
			body: {
				error: "setting_not_supported",
				message: expect.stringMatching(new RegExp(`^${field} is not supported: .{20,}\\.$`)),
				moreInfo: { field },
			},
		});
		expect(JSON.stringify([await shownChannel(), await shownApp()])).toBe(before);
	});

	test.each(
		refusals.filter(([request]) => /^(POST|PUT) \/(app|channel|organization)/.test(request) && request !== "POST /app"),
	)("%s %s is accepted where it asks for nothing", async (request, field, accepts) => {
		for (const value of [null, ...accepts]) {
			const { status } = await WAYS[request](field, value);
			expect([200, 201], `${value}`).toContain(status);
		}
	});

	test("app add creates the app although it sends onboarding fields", async () => {
		const { status } = await asAdmin("POST", "/app", {
			owner_org: world.orgId,
			app_id: `com.example.onboarded${Date.now()}`,
			name: "Onboarded",
			need_onboarding: false,
			created_from_onboarding: false,
			onboarding: { source: "cli", outcome: "in_progress" },
		});
		expect(status).toBe(201);
	});

	test("is reported only to callers who may change settings", async () => {
		const reader = (await createTestKey(world, "app_reader", app)).text;
		const { status, body } = await world.request("PUT", `/app/${app.appId}`, {
			key: reader,
			body: { build_timeout_seconds: 900 },
		});
		expect({ status, error: body.error }).toEqual({ status: 403, error: "permission_denied" });
		const download = await world.request("PATCH", `${COMPAT}/rest/v1/channels`, {
			key: reader,
			query: { app_id: `eq.${app.appId}` },
			body: { public: false },
		});
		expect({ status: download.status, error: download.body.error }).toEqual({
			status: 403,
			error: "permission_denied",
		});
	});

	test("a field of no client is ignored", async () => {
		expect((await postChannel({ colour: "blue" })).status).toBe(200);
		expect((await asAdmin("PUT", `/app/${app.appId}`, { colour: "blue" })).status).toBe(200);
	});
});
