/**
 * Channels: one public channel a platform at most, partial changes, paging, rollouts, and what is refused by name.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { readThenWrite } from "./support/interleave";
import {
	createTestApp,
	createTestKey,
	createWorld,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "./support/world";

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

describe("POST /channel", () => {
	test("creates with 201 and the same shape whether or not a version is given, and changes with 200", async () => {
		expect(await post({ channel: "bare" })).toMatchObject({ status: 201, body: { status: "ok", public: false } });
		expect(await post({ channel: "full", version: "1.0.0" })).toMatchObject({ status: 201 });
		expect(await post({ channel: "full", version: "1.0.1" })).toMatchObject({ status: 200 });
		expect(await show("full")).toMatchObject({ version: { name: "1.0.1" }, disableAutoUpdate: "major", ios: true });
	});

	test("answers with the id of the channel that it names, and knows no channel of an app that is not there", async () => {
		for (const name of ["b", "a", "c"]) {
			const channel = `${name}-${crypto.randomUUID()}`;
			const created = await post({ channel });
			const changed = await post({ channel, allow_dev: false });
			expect([created.body.id, changed.body.id]).toEqual(Array(2).fill((await show(channel)).id));
		}
		const absent = { appId: "com.example.absent", uuid: "" };
		expect(await post({ channel: "a" }, absent)).toMatchObject({ status: 404, body: { error: "app_not_found" } });
	});

	test("changes only what is sent; null and builtin are the store build", async () => {
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

	test("making a channel public takes its platforms from the one that held them, in the same step", async () => {
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

	test("a public channel without a platform is refused, and one that loses its last stops being public", async () => {
		const own = await createTestApp(world, "platforms");
		const none = { ios: false, android: false, electron: false };
		expect(await post({ channel: "x", public: true, ...none }, own)).toMatchObject({
			status: 400,
			body: { error: "channel_has_no_platform" },
		});
		await post({ channel: "x", public: true }, own);
		expect(await post({ channel: "x", ...none }, own)).toMatchObject({ status: 200, body: { public: false } });
	});

	test("a new public channel for one phone platform is not for desktops unless it says so", async () => {
		const own = await createTestApp(world, "one-phone");
		await post({ channel: "ios", public: true, android: false }, own);
		expect(await show("ios", own)).toMatchObject({ ios: true, android: false, electron: false });
	});

	test("a bundle that is not there, or not ready, is refused by name and nothing is created", async () => {
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

	test("what is wrong is listed by its path", async () => {
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

	test("an uploader promotes and changes no settings, a developer does both", async () => {
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
	test("begin, pause, go on, promote; a new bundle draws a new cohort", async () => {
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

	test("promoting the bundle that is rolled out ends the rollout, promoting another one does not", async () => {
		await post({
			channel: "ends",
			version: "1.0.0",
			rolloutVersion: "1.0.1",
			rolloutPercentage: 10,
			rolloutEnabled: true,
		});
		const { id, rollout_version, version } = await show("ends");
		const promote = (version_id: number) =>
			world.request("PUT", "/bundle", { key: world.adminKey, body: { app_id: app.appId, version_id, channel_id: id } });
		await promote(version.id);
		expect((await show("ends")).rollout_version).toBe(rollout_version);
		await promote(rollout_version);
		expect(await show("ends")).toMatchObject({ rollout_version: null, version: { name: "1.0.1" } });
	});

	test("a rollout without a bundle is refused", async () => {
		await post({ channel: "bare-rollout" });
		expect(await post({ channel: "bare-rollout", rolloutEnabled: true })).toMatchObject({
			status: 400,
			body: { error: "missing_rollout_version" },
		});
	});
});

describe("GET /channel", () => {
	test("fifty a page, oldest first, with a link to the next page, and an empty list past the end", async () => {
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
	test("takes its parameters from the query or a JSON body, and refuses a contradiction", async () => {
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

	test("that deletes the bundle between its reading and its writing points to nothing that is gone", async () => {
		const own = await createTestApp(world, "racing");
		await uploadTestBundle(world, own, "1.0.0");
		await setTestChannel(world, own, "main", { disableAutoUpdate: "none" });
		const answer = await change(own, { version: "1.0.0" }, () => remove(own, "/bundle", { version: "1.0.0" }));
		expect(answer).toMatchObject({ status: 404, body: { error: "bundle_not_found" } });
		expect((await show("main", own)).version).toBeNull();
	});

	test("that deletes the channel is told that there is none, and makes none", async () => {
		const own = await createTestApp(world, "racing");
		await setTestChannel(world, own, "main");
		const answer = await change(own, { disableAutoUpdate: "none" }, () => remove(own, "/channel", { channel: "main" }));
		expect(answer).toMatchObject({ status: 404, body: { error: "channel_not_found" } });
		expect(
			(await world.request("GET", "/channel", { key: world.adminKey, query: { app_id: own.appId } })).body,
		).toEqual([]);
	});
});
