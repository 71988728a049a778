/**
 * Channels: at most one public channel for each platform, partial changes, paging, rollouts, and
 * refusals by error code.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { CHANNEL_FIELDS, defaultsOf } from "../../../src/domain/updates/channel-fields";
import { readThenWrite } from "../support/interleave";
import {
	createTestApp,
	createTestKey,
	createWorld,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	for (const version of ["1.0.0", "1.0.1"]) await uploadTestBundle(world, app, version);
});

const post = (fields: Record<string, unknown>, on: TestApp = app) =>
	world.request("POST", "/channel", { key: world.adminKey, body: { app_id: on.appId, ...fields } });
const show = async (channel: string, on: TestApp = app) =>
	(await world.request("GET", "/channel", { key: world.adminKey, query: { app_id: on.appId, channel } })).body;

test("CHANNEL_FIELDS has every setting of a channel, with the default of the database", async () => {
	const { results } = await testEnv.DB.prepare("PRAGMA table_info(channels)").all<{
		name: string;
		dflt_value: string | null;
	}>();
	const identity = [
		"id",
		"app_id",
		"name",
		"is_preview",
		"named_by_fleet_at_ms",
		"created_by",
		"created_by_key",
		"created_at_ms",
		"updated_at_ms",
	];
	const settings = results.filter(({ name }) => !identity.includes(name));
	const defaultOf = (text: string | null) =>
		JSON.parse((text ?? "null").replace(/^'(.*)'$/, (_, value) => JSON.stringify(value)));
	expect(defaultsOf(CHANNEL_FIELDS)).toEqual(
		Object.fromEntries(settings.map(({ name, dflt_value }) => [name, defaultOf(dflt_value)])),
	);
});

describe("POST /channel", () => {
	test("creates with 201 and one shape, with or without a version, and changes with 200", async () => {
		expect(await post({ channel: "bare" })).toMatchObject({ status: 201, body: { status: "ok", public: false } });
		expect(await post({ channel: "full", version: "1.0.0" })).toMatchObject({ status: 201 });
		expect(await post({ channel: "full", version: "1.0.1" })).toMatchObject({ status: 200 });
		expect(await show("full")).toMatchObject({ version: { name: "1.0.1" }, disableAutoUpdate: "major", ios: true });
	});

	test("answers with the id of the named channel, and with 404 for an absent app", async () => {
		for (const name of ["b", "a", "c"]) {
			const channel = `${name}-${crypto.randomUUID()}`;
			const created = await post({ channel });
			const changed = await post({ channel, allow_dev: false });
			expect([created.body.id, changed.body.id]).toEqual(Array(2).fill((await show(channel)).id));
		}
		const absent = { appId: "com.example.absent", uuid: "" };
		expect(await post({ channel: "a" }, absent)).toMatchObject({ status: 404, body: { error: "app_not_found" } });
	});

	test("changes only the sent fields; null and builtin are the store build", async () => {
		await post({ channel: "partial", version: "1.0.0", allow_emulator: false });
		await post({ channel: "partial", disableAutoUpdate: "metadata" });
		expect(await show("partial")).toMatchObject({
			allow_emulator: false,
			disableAutoUpdate: "version_number",
			version: { name: "1.0.0" },
		});
		for (const version of [null, "builtin"]) {
			await post({ channel: "partial", version: "1.0.0" });
			await post({ channel: "partial", version });
			expect((await show("partial")).version).toBeNull();
		}
	});

	test("takes platforms from the public channel that has them, in the same step", async () => {
		const own = await createTestApp(world, "public");
		await post({ channel: "phones", public: true, electron: false }, own);
		await post({ channel: "iphones", public: true, android: false, electron: false }, own);
		expect(await show("phones", own)).toMatchObject({ public: true, ios: false, android: true });
		await post({ channel: "all", public: true }, own);
		expect(await show("phones", own)).toMatchObject({ public: false, ios: false, android: false });
		expect(await show("iphones", own)).toMatchObject({ public: false });
		const record = await world.request("GET", `/app/${own.appId}`, { key: world.adminKey });
		expect(record.body.default_channel).toBe("all");
		await post({ channel: "phones", public: true }, own);
		expect(await show("phones", own)).toMatchObject({ public: true, ios: true, android: true });
		expect(await show("all", own)).toMatchObject({ public: false });
	});

	test("refuses a public channel without a platform; a channel that loses its last platform stops being public", async () => {
		const own = await createTestApp(world, "platforms");
		const none = { ios: false, android: false, electron: false };
		expect(await post({ channel: "x", public: true, ...none }, own)).toMatchObject({
			status: 400,
			body: { error: "channel_has_no_platform" },
		});
		await post({ channel: "x", public: true }, own);
		expect(await post({ channel: "x", ...none }, own)).toMatchObject({ status: 200, body: { public: false } });
	});

	test("creates a public channel for one phone platform without desktops, unless electron is sent", async () => {
		const own = await createTestApp(world, "one-phone");
		await post({ channel: "ios", public: true, android: false }, own);
		expect(await show("ios", own)).toMatchObject({ ios: true, android: false, electron: false });
	});

	test("refuses an absent or unready bundle by code, and creates nothing", async () => {
		await world.request("POST", "/bundle", { key: world.adminKey, body: { app_id: app.appId, version: "7.0.0" } });
		expect(await post({ channel: "missing", version: "9.9.9" })).toMatchObject({
			status: 404,
			body: { error: "bundle_not_found" },
		});
		expect(await post({ channel: "missing", version: "7.0.0" })).toMatchObject({
			status: 409,
			body: { error: "bundle_not_ready" },
		});
		expect((await show("missing")).error).toBe("channel_not_found");
	});

	test("lists each issue by its path", async () => {
		const answer = await post({
			channel: "x y/z!",
			public: "yes",
			disableAutoUpdate: "sometimes",
			rolloutPercentage: 101,
		});
		expect(answer.status).toBe(400);
		expect(answer.body.moreInfo.issues.map((issue: { path: string }) => issue.path).sort()).toEqual([
			"channel",
			"disableAutoUpdate",
			"public",
			"rolloutPercentage",
		]);
	});

	test("lets an uploader promote but not change settings, and a developer do both", async () => {
		await setTestChannel(world, app, "roles");
		const uploader = await createTestKey(world, "app_uploader", app);
		const developer = await createTestKey(world, "app_developer", app);
		const as = (key: string, fields: Record<string, unknown>) =>
			world.request("POST", "/channel", { key, body: { app_id: app.appId, channel: "roles", ...fields } });
		expect((await as(uploader.text, { version: "1.0.0" })).status).toBe(200);
		expect(await as(uploader.text, { version: "1.0.1", ios: false })).toMatchObject({
			status: 403,
			body: { moreInfo: { permission: "channel.update_settings" } },
		});
		expect((await show("roles")).version.name).toBe("1.0.0");
		expect((await as(developer.text, { version: "1.0.1", ios: false })).status).toBe(200);
	});
});

describe("rollouts", () => {
	test("start, pause, continue and promote; a new bundle draws a new cohort", async () => {
		await post({ channel: "rollout", version: "1.0.0" });
		await post({ channel: "rollout", rolloutVersion: "1.0.1", rollout_percentage: 12.5, rolloutEnabled: true });
		const begun = await show("rollout");
		expect(begun).toMatchObject({
			rollout_version_info: { name: "1.0.1" },
			rolloutPercentageBps: 1250,
			rolloutEnabled: true,
			rolloutPausedAt: null,
		});
		await post({ channel: "rollout", rolloutPaused: true, rolloutPauseReason: "crashes" });
		expect(await show("rollout")).toMatchObject({ rolloutPauseReason: "crashes", rolloutPausedAt: expect.any(String) });
		await post({ channel: "rollout", rolloutPaused: false });
		expect(await show("rollout")).toMatchObject({ rolloutPausedAt: null, rollout_id: begun.rollout_id });
		await post({ channel: "rollout", promoteToStable: true });
		expect(await show("rollout")).toMatchObject({
			version: { name: "1.0.1" },
			rollout_version: null,
			rolloutEnabled: false,
		});
		await post({ channel: "rollout", rolloutVersion: "1.0.0", rolloutPercentageBps: 100, rolloutEnabled: true });
		expect((await show("rollout")).rollout_id).not.toBe(begun.rollout_id);
		await post({ channel: "rollout", rollback: true });
		expect(await show("rollout")).toMatchObject({ rollout_version: null, version: { name: "1.0.1" } });
	});

	test("end when any bundle is promoted, unless it is to keep them", async () => {
		await post({
			channel: "ends",
			version: "1.0.0",
			rolloutVersion: "1.0.1",
			rolloutPercentage: 10,
			rolloutEnabled: true,
		});
		const { id, rollout_version, version } = await show("ends");
		const promote = (version_id: number, more = {}) =>
			world.request("PUT", "/bundle", {
				key: world.adminKey,
				body: { app_id: app.appId, version_id, channel_id: id, ...more },
			});
		await promote(version.id, { keep_rollout: true });
		expect((await show("ends")).rollout_version).toBe(rollout_version);
		expect((await promote(version.id)).body).toMatchObject({
			status: "success",
			rollout_ended: { version: "1.0.1", percentage_bps: 1000 },
		});
		expect(await show("ends")).toMatchObject({ rollout_version: null, version: { name: "1.0.0" } });
		await post({ channel: "ends", rolloutVersion: "1.0.1", rolloutPercentage: 10, rolloutEnabled: true });
		const { body } = await promote(rollout_version);
		expect(body).not.toHaveProperty("rollout_ended");
		expect(await show("ends")).toMatchObject({ rollout_version: null, version: { name: "1.0.1" } });
	});

	test("are refused without a bundle", async () => {
		await post({ channel: "bare-rollout" });
		expect(await post({ channel: "bare-rollout", rolloutEnabled: true })).toMatchObject({
			status: 400,
			body: { error: "missing_rollout_version" },
		});
	});
});

describe("GET /channel", () => {
	test("lists fifty a page, oldest first, with a link to the next page, and an empty list past the end", async () => {
		const own = await createTestApp(world, "paged");
		for (let index = 0; index < 51; index++) await setTestChannel(world, own, `channel-${index}`);
		const page = (number: string) =>
			world.request("GET", "/channel", { key: world.adminKey, query: { app_id: own.appId, page: number } });
		const [first, second, third] = [await page("0"), await page("1"), await page("2")];
		expect(first.body).toHaveLength(50);
		expect(first.body[0].name).toBe("channel-0");
		expect(first.headers.get("link")).toMatch(/page=1>; rel="next"$/);
		expect(second.body.map((channel: { name: string }) => channel.name)).toEqual(["channel-50"]);
		expect(second.headers.get("link")).toBeNull();
		expect(third.body).toEqual([]);
		for (const bad of ["-1", "1.5", "x", ""]) expect((await page(bad)).status, bad).toBe(400);
	});
});

describe("DELETE /channel", () => {
	test("reads its parameters from the query or a JSON body, and refuses a contradiction", async () => {
		await setTestChannel(world, app, "by-body");
		const contradiction = await world.request("DELETE", "/channel", {
			key: world.adminKey,
			query: { app_id: app.appId, channel: "by-query" },
			body: { channel: "by-body" },
		});
		expect(contradiction).toMatchObject({ status: 400, body: { error: "conflicting_parameters" } });
		const deleted = await world.request("DELETE", "/channel", {
			key: world.adminKey,
			body: { app_id: app.appId, channel: "by-body", delete_bundle: false },
		});
		expect(deleted).toMatchObject({ status: 200, body: { status: "ok" } });
	});
});

describe("POST /channel beside another request", () => {
	const change = (own: TestApp, fields: Record<string, unknown>, between: () => ReturnType<World["request"]>) =>
		readThenWrite(
			world,
			(racing) =>
				racing.request("POST", "/channel", {
					key: world.adminKey,
					body: { app_id: own.appId, channel: "main", ...fields },
				}),
			between,
		);
	const remove = (own: TestApp, path: string, query: Record<string, string>) =>
		world.request("DELETE", path, { key: world.adminKey, query: { app_id: own.appId, ...query } });

	test("that deletes the bundle never leaves a channel that points to a deleted bundle", async () => {
		const own = await createTestApp(world, "racing");
		await uploadTestBundle(world, own, "1.0.0");
		await setTestChannel(world, own, "main", { disableAutoUpdate: "none" });
		const answer = await change(own, { version: "1.0.0" }, () => remove(own, "/bundle", { version: "1.0.0" }));
		expect(answer).toMatchObject({ status: 404, body: { error: "bundle_not_found" } });
		expect((await show("main", own)).version).toBeNull();
	});

	test("that deletes the channel answers 404, and creates no channel", async () => {
		const own = await createTestApp(world, "racing");
		await setTestChannel(world, own, "main");
		const answer = await change(own, { disableAutoUpdate: "none" }, () => remove(own, "/channel", { channel: "main" }));
		expect(answer).toMatchObject({ status: 404, body: { error: "channel_not_found" } });
		expect(
			(await world.request("GET", "/channel", { key: world.adminKey, query: { app_id: own.appId } })).body,
		).toEqual([]);
	});

	test("does not take platforms from a channel that became public after the read", async () => {
		const own = await createTestApp(world, "race");
		await uploadTestBundle(world, own, "1.0.1");
		await setTestChannel(world, own, "production", { public: true });
		await setTestChannel(world, own, "other");
		const promote = { app_id: own.appId, channel: "production", version: "1.0.1" };
		const promoted = await readThenWrite(
			world,
			(racing) => racing.request("POST", "/channel", { key: world.adminKey, body: promote }),
			() => post({ channel: "other", public: true }, own),
		);
		expect(promoted.status).toBe(200);
		expect(await show("other", own)).toMatchObject({ public: true, ios: true, android: true });
	});

	test("that makes the channel public or private answers public as it is stored", async () => {
		const own = await createTestApp(world, "both");
		await setTestChannel(world, own, "main");
		for (const isPublic of [true, false]) {
			const answer = await change(own, { allow_device: !isPublic }, () =>
				post({ channel: "main", public: isPublic }, own),
			);
			expect(answer).toMatchObject({ status: 200, body: { public: isPublic } });
			expect(await show("main", own)).toMatchObject({ public: isPublic, allow_device: !isPublic });
		}
	});

	test("that changes the platforms too answers the second with channel_changed", async () => {
		const own = await createTestApp(world, "cross");
		await setTestChannel(world, own, "production", { public: true, electron: false });
		const off = (platform: string) => ({
			key: world.adminKey,
			body: { app_id: own.appId, channel: "production", [platform]: false },
		});
		const crossed = await readThenWrite(
			world,
			(racing) => racing.request("POST", "/channel", off("ios")),
			() => world.request("POST", "/channel", off("android")),
		);
		expect(crossed).toMatchObject({ status: 409, body: { error: "channel_changed" } });
		expect(await show("production", own)).toMatchObject({ public: true, ios: true, android: false });
	});
});
