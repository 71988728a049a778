/**
 * The preview rules over the life of a channel: a preview key loses access to a channel that others
 * depend on, and cannot use a name that devices may still have. Each refusal stands beside a
 * legitimate use that succeeds.
 */

import { beforeEach, describe, expect, test } from "vitest";
import { readThenWrite } from "../support/interleave";
import { reportsOf } from "../support/reports";
import {
	createTestApp,
	createTestKey,
	createWorld,
	setTestChannel,
	type TestApp,
	type TestKey,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
let ci: TestKey;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	ci = await createTestKey(world, "app_preview", app);
});

const post = (key: string, body: Record<string, unknown>, via: Pick<World, "request"> = world) =>
	via.request("POST", "/channel", { key, body: { app_id: app.appId, ...body } });
const putApp = (body: Record<string, unknown>) =>
	world.request("PUT", `/app/${app.appId}`, { key: world.adminKey, body });
const remove = (key: string, channel: string) =>
	world.request("DELETE", "/channel", { key, query: { app_id: app.appId, channel } });
const reserved = (reason: string) => ({
	status: 409,
	body: { error: "channel_name_reserved", moreInfo: { reason } },
});
const bindingsOn = async (channel: string) =>
	(
		await testEnv.DB.prepare(
			"SELECT count(*) AS bindings FROM role_bindings WHERE channel_id = (SELECT id FROM channels WHERE name = ? AND app_id = ?)",
		)
			.bind(channel, app.uuid)
			.first<{ bindings: number }>()
	)?.bindings;
const addDevices = async (channel: string, devices: number, createdAtMs = 0) => {
	const reports = await reportsOf(app.uuid);
	return reports.batch(
		Array.from({ length: devices }, () =>
			reports
				.prepare(
					"INSERT INTO devices (app_id, device_id, default_channel, created_at_ms, updated_at_ms) VALUES (?, ?, ?, ?, 0)",
				)
				.bind(app.uuid, crypto.randomUUID(), channel, createdAtMs),
		),
	);
};

describe("the access of a preview key to its channel", () => {
	test("ends when the channel becomes the default upload channel, and the administrator's answer names the key", async () => {
		await post(ci.text, { channel: "pr-main" });
		const changed = await putApp({ default_upload_channel: "pr-main" });
		expect(changed).toMatchObject({
			status: 200,
			body: { preview_access_ended: [{ id: ci.id, name: "app_preview" }] },
		});
		expect(await bindingsOn("pr-main")).toBe(0);
		await uploadTestBundle(world, app, "1.0.0-pr.1", ci.text);
		expect((await post(ci.text, { channel: "pr-main", version: "1.0.0-pr.1" })).status).toBe(403);
		const again = await putApp({ default_upload_channel: "dev" });
		expect(again.body).not.toHaveProperty("preview_access_ended");
		expect((await post(ci.text, { channel: "pr-main", version: "1.0.0-pr.1" })).status, "does not come back").toBe(403);
	});

	test("ends when the stock CLI sets the default upload channel", async () => {
		await post(ci.text, { channel: "pr-main" });
		const set = await world.request("PATCH", "/compat/capgo-cli/rest/v1/apps", {
			key: world.adminKey,
			query: { app_id: `eq.${app.appId}` },
			body: { default_upload_channel: "pr-main" },
		});
		expect(set.status).toBe(204);
		expect(await bindingsOn("pr-main")).toBe(0);
	});

	test("ends when the channel becomes public, and the administrator's answer names the key", async () => {
		await post(ci.text, { channel: "pr-main" });
		const published = await post(world.adminKey, { channel: "pr-main", public: true });
		expect(published).toMatchObject({ status: 200, body: { preview_access_ended: [{ id: ci.id }] } });
		expect(await bindingsOn("pr-main")).toBe(0);
		const hidden = await post(world.adminKey, { channel: "pr-main", public: false });
		expect(hidden.body).not.toHaveProperty("preview_access_ended");
	});

	test("is refused by the decision if a binding is left on a public or default channel", async () => {
		for (const change of ["pr-public", "pr-default"] as const) {
			await post(ci.text, { channel: change });
			await uploadTestBundle(world, app, `1.0.0-${change}.1`, ci.text);
			if (change === "pr-public") {
				await testEnv.DB.prepare("UPDATE channels SET public = 1 WHERE name = ? AND app_id = ?")
					.bind(change, app.uuid)
					.run();
			} else {
				await testEnv.DB.prepare("UPDATE apps SET default_upload_channel = ? WHERE id = ?")
					.bind(change, app.uuid)
					.run();
			}
			expect(await bindingsOn(change)).toBe(1);
			const promoted = await post(ci.text, { channel: change, version: `1.0.0-${change}.1` });
			expect(promoted.status, change).toBe(403);
			expect((await remove(ci.text, change)).status, change).toBe(404);
		}
		await post(ci.text, { channel: "pr-1" });
		expect((await post(ci.text, { channel: "pr-1", version: "1.0.0-pr-public.1" })).status, "a preview works").toBe(
			200,
		);
	});

	test("loses a race against the change that makes the channel public or the default", async () => {
		await uploadTestBundle(world, app, "1.0.0-pr.1", ci.text);
		const changes = {
			"pr-raced": () => post(world.adminKey, { channel: "pr-raced", public: true }),
			"pr-raced-default": () => putApp({ default_upload_channel: "pr-raced-default" }),
		};
		for (const [channel, change] of Object.entries(changes)) {
			const { body: created } = await post(ci.text, { channel });
			const tries = [
				(via: Pick<World, "request">) => post(ci.text, { channel, version: "1.0.0-pr.1" }, via),
				(via: Pick<World, "request">) =>
					via.request("DELETE", "/channel", { key: ci.text, query: { app_id: app.appId, channel } }),
			];
			const [attempt] = channel === "pr-raced" ? tries : tries.slice(1);
			if (attempt === undefined) throw new Error("no attempt");
			const answer = await readThenWrite(world, attempt, change);
			expect(answer, channel).toMatchObject({ status: 403, body: { error: "permission_denied" } });
			const { body: now } = await world.request("GET", "/channel", {
				key: world.adminKey,
				query: { app_id: app.appId, channel },
			});
			expect(now).toMatchObject({ id: created.id, version: null });
		}
	});
});

describe("the name of a channel that a preview key creates", () => {
	test("cannot be the name of a deleted channel that was no preview", async () => {
		await setTestChannel(world, app, "stable");
		await remove(world.adminKey, "stable");
		expect(await post(ci.text, { channel: "stable" })).toMatchObject(reserved("used_by_a_channel"));
		expect((await post(world.adminKey, { channel: "stable" })).status, "an administrator may").toBe(201);
	});

	test("cannot be the name of a former public channel of the same key", async () => {
		await post(ci.text, { channel: "pr-was-public" });
		await post(world.adminKey, { channel: "pr-was-public", public: true });
		await remove(world.adminKey, "pr-was-public");
		expect(await post(ci.text, { channel: "pr-was-public" })).toMatchObject(reserved("used_by_a_channel"));
	});

	test("is free again after a preview, even if an administrator deleted it or the key was deleted", async () => {
		await post(ci.text, { channel: "pr-1" });
		expect((await remove(ci.text, "pr-1")).status).toBe(200);
		expect((await post(ci.text, { channel: "pr-1" })).status, "reopened").toBe(201);
		await world.request("DELETE", `/apikey/${ci.id}`, { key: world.adminKey });
		expect((await remove(world.adminKey, "pr-1")).status).toBe(200);
		const next = await createTestKey(world, "app_preview", app);
		expect((await post(next.text, { channel: "pr-1" })).status, "by the next key").toBe(201);
	});

	test("has the form of a preview, whatever devices send and whether or not the app chose its prefix", async () => {
		for (const channel of ["stable", "production", "Pr-1", "pr", "pr-"]) {
			expect(await post(ci.text, { channel }), channel).toMatchObject(reserved("preview_channel_prefix"));
		}
		await addDevices("pr-20", 21);
		expect((await post(ci.text, { channel: "pr-20" })).status, "made-up devices do not block it").toBe(201);
	});

	test("cannot be the default upload channel, even an absent one", async () => {
		expect(await post(ci.text, { channel: "dev" })).toMatchObject(reserved("default_upload_channel"));
		await putApp({ default_upload_channel: "trunk" });
		expect(await post(ci.text, { channel: "trunk" })).toMatchObject(reserved("default_upload_channel"));
		await putApp({ default_upload_channel: "dev" });
		expect(await post(ci.text, { channel: "trunk" })).toMatchObject(reserved("used_by_a_channel"));
	});

	test("begins with the app's prefix, which is pr- until the app has another", async () => {
		const shown = async () =>
			(await world.request("GET", `/app/${app.appId}`, { key: world.adminKey })).body.preview_channel_prefix;
		expect(await shown()).toBe("pr-");
		expect((await putApp({ preview_channel_prefix: "review-" })).body.preview_channel_prefix).toBe("review-");
		const { status, body } = await post(ci.text, { channel: "pr-7" });
		expect({ status, body }).toMatchObject(reserved("preview_channel_prefix"));
		expect(body.moreInfo.preview_channel_prefix).toBe("review-");
		expect((await post(ci.text, { channel: "review-7" })).status).toBe(201);
		expect((await post(world.adminKey, { channel: "feature" })).status, "others choose any name").toBe(201);
		expect((await putApp({ preview_channel_prefix: null })).body.preview_channel_prefix).toBe("pr-");
		expect((await post(ci.text, { channel: "pr-7" })).status).toBe(201);
	});

	test.each(["s", "stable", "-pr", " -", "-"])("cannot be given by the prefix %j, which is none", async (prefix) => {
		const changed = await putApp({ preview_channel_prefix: prefix });
		expect(changed).toMatchObject({
			status: 400,
			body: { moreInfo: { issues: [{ path: "preview_channel_prefix" }] } },
		});
	});

	test("is checked in the batch that creates the channel", async () => {
		const races: Record<string, () => ReturnType<typeof putApp>> = {
			"pr-now-default": () => putApp({ default_upload_channel: "pr-now-default" }),
			"pr-prefix": () => putApp({ preview_channel_prefix: "review-" }),
		};
		for (const [channel, change] of Object.entries(races)) {
			const answer = await readThenWrite(world, (via) => post(ci.text, { channel }, via), change);
			expect(answer, channel).toMatchObject({ status: 409, body: { error: "channel_changed" } });
		}
	});
});

describe("the version of a bundle that a preview key registers", () => {
	const register = (key: string, version: string) =>
		world.request("POST", "/bundle", { key, body: { app_id: app.appId, version } });
	const upsert = (key: string, name: string) =>
		world.request("POST", "/compat/capgo-cli/rest/v1/app_versions", {
			key,
			body: { app_id: app.appId, name, storage_provider: "r2-direct" },
		});

	test("is free by default, and must be a pre-release if the app demands it", async () => {
		expect((await register(ci.text, "2.0.0")).status).toBe(201);
		await putApp({ preview_prereleases_only: true });
		for (const ask of [register, upsert]) {
			expect(await ask(ci.text, "3.0.0")).toMatchObject({
				status: 400,
				body: { error: "preview_version_must_be_prerelease" },
			});
		}
		expect((await register(ci.text, "3.0.0-pr.1")).status).toBe(201);
		expect((await upsert(ci.text, "3.0.0-pr.2")).status).toBe(201);
		expect((await register(world.adminKey, "3.0.0")).status).toBe(201);
	});
});

describe("a request without effect", () => {
	test("is refused if dry_run is in the query of an endpoint that reads it from the body", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		await uploadTestBundle(world, app, "1.1.0");
		await setTestChannel(world, app, "production", { version: "1.0.0" });
		await setTestChannel(world, app, "production", { version: "1.1.0" });
		const body = { app_id: app.appId, channel: "production" };
		const rollBack = (query: Record<string, string>, extra: Record<string, unknown> = {}) =>
			world.request("POST", "/channel/rollback", { key: world.adminKey, query, body: { ...body, ...extra } });
		const misplaced = await rollBack({ dry_run: "true" });
		expect(misplaced).toMatchObject({ status: 400, body: { moreInfo: { issues: [{ path: "dry_run" }] } } });
		expect(misplaced.body.message).toContain("send it in the body");
		expect((await rollBack({}, { dry_run: true })).body).toMatchObject({ dry_run: true, version: "1.0.0" });
		expect((await rollBack({})).body).toMatchObject({ version: "1.0.0", changed: true });
	});

	test("is refused by PATCH channels of the stock CLI, with the missing filter", async () => {
		const answer = await world.request("PATCH", "/compat/capgo-cli/rest/v1/channels", {
			key: world.adminKey,
			body: { public: true },
		});
		expect(answer).toMatchObject({ status: 400, body: { moreInfo: { issues: [{ path: "app_id" }] } } });
	});
});
