/**
 * Records of bundles: list, promotion and deletion. A bundle that a channel uses is never deleted,
 * also in a race. A deletion frees the bytes and the version.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import { bundleOf, complete, putBytes, register, rows, run, storedKeys } from "../support/bytes";
import { readThenWrite } from "../support/interleave";
import { violations } from "../support/invariants";
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
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

const list = (parameters: Record<string, string> = {}, key = world.adminKey) =>
	world.request("GET", "/bundle", { key, query: { app_id: app.appId, ...parameters } });
const remove = (parameters: Record<string, string>, client: Pick<World, "request"> = world) =>
	client.request("DELETE", "/bundle", { key: world.adminKey, query: { app_id: app.appId, ...parameters } });
const promote = (versionId: number, channelId: number, client: Pick<World, "request"> = world) =>
	client.request("PUT", "/bundle", {
		key: world.adminKey,
		body: { app_id: app.appId, version_id: versionId, channel_id: channelId },
	});
const bundleRow = async (id: number) => (await rows(query.selectFrom("bundles").selectAll().where("id", "=", id)))[0];
const auditOf = (action: string) =>
	rows(
		query
			.selectFrom("audit_log")
			.selectAll()
			.where("org_id", "=", world.orgId)
			.where("action", "=", action)
			.orderBy("id"),
	);

describe("GET /bundle", () => {
	test("lists ready bundles newest first, with the channels that use them, in pages of fifty", async () => {
		for (let index = 0; index < 52; index++) await uploadTestBundle(world, app, `1.0.${index}`);
		await register(world, app, "2.0.0", world.adminKey);
		await setTestChannel(world, app, "one", { version: "1.0.50" });
		await setTestChannel(world, app, "two", { version: "1.0.50" });
		const first = await list();
		expect(first.body.map((bundle: { name: string }) => bundle.name)).toEqual(
			Array.from({ length: 50 }, (_, index) => `1.0.${51 - index}`),
		);
		expect(first.body[1].channels.sort()).toEqual(["one", "two"]);
		expect(first.headers.get("link")).toContain('rel="next"');
		const second = await list({ page: "1" });
		expect(second.body.map((bundle: { name: string }) => bundle.name)).toEqual(["1.0.1", "1.0.0"]);
		expect(second.headers.get("link")).toBeNull();
		expect((await list({ page: "2" })).body).toEqual([]);
		expect((await list({ version: "1.0.7" })).body).toHaveLength(1);
	});
});

describe("POST /bundle", () => {
	test("distinguishes a taken version from one that is being uploaded", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		const uploader = await createTestKey(world, "app_developer", app);
		const register = (version: string, key: string) =>
			world.request("POST", "/bundle", { key, body: { app_id: app.appId, version } });
		await register("1.0.1", uploader.text);
		expect((await register("1.0.0", world.adminKey)).body.message).toMatch(/already exists/);
		expect((await register("1.0.1", world.adminKey)).body.message).toMatch(/being uploaded by another key or account/);
	});

	test.each(["1.0.0 ", " 1.0.0", "1.0.0\n", "=1.0.0"])("refuses the version %j", async (version) => {
		expect(
			await world.request("POST", "/bundle", { key: world.adminKey, body: { app_id: app.appId, version } }),
		).toMatchObject({
			status: 400,
			body: { moreInfo: { issues: [{ path: "version" }] } },
		});
	});
});

describe("PUT /bundle", () => {
	test("promotes a ready bundle in two round trips; repeating it changes nothing more", async () => {
		const id = await uploadTestBundle(world, app, "1.0.0");
		const channelId = await setTestChannel(world, app, "production");
		expect(await promote(id, channelId)).toMatchObject({ status: 200, trips: 2, body: { status: "success" } });
		expect((await promote(id, channelId)).status).toBe(200);
		expect((await list()).body[0].channels).toEqual(["production"]);
	});

	test("promotes a bundle of another key, for callers that are not limited to their own work", async () => {
		const uploader = await createTestKey(world, "app_uploader", app);
		const id = await uploadTestBundle(world, app, "1.0.0", uploader.text);
		expect((await promote(id, await setTestChannel(world, app, "production"))).status).toBe(200);
	});

	test("answers 404 for a bundle that is deleted at the same time, and does not change the channel", async () => {
		const id = await uploadTestBundle(world, app, "1.0.0");
		const channelId = await setTestChannel(world, app, "production");
		const answer = await readThenWrite(
			world,
			(racing) => promote(id, channelId, racing),
			() => remove({ version: "1.0.0" }),
		);
		expect(answer).toMatchObject({ status: 404, body: { error: "bundle_not_found" } });
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("ends the rollout and its pause when it promotes the rollout bundle, like POST /channel", async () => {
		const show = async (channel: string) =>
			(await world.request("GET", "/channel", { key: world.adminKey, query: { app_id: app.appId, channel } })).body;
		const stable = await uploadTestBundle(world, app, "1.0.0");
		const next = await uploadTestBundle(world, app, "1.0.1");
		const ended = { rollout_version: null, rolloutPausedAt: null, rolloutPauseReason: null, rolloutEnabled: false };
		const begin = {
			version: "1.0.0",
			rolloutVersion: "1.0.1",
			rolloutEnabled: true,
			rolloutPaused: true,
			rolloutPauseReason: "bad",
		};
		const channelId = await setTestChannel(world, app, "production", begin);
		await promote(next, channelId);
		expect(await show("production")).toMatchObject({ ...ended, version: { id: next } });
		await setTestChannel(world, app, "production", begin);
		expect((await show("production")).version.id).toBe(stable);
		await setTestChannel(world, app, "production", { version: "1.0.1" });
		expect(await show("production")).toMatchObject({ ...ended, version: { id: next } });
	});
});

describe("DELETE /bundle", () => {
	test("removes the bytes before it answers, and keeps the row as history", async () => {
		const id = await uploadTestBundle(world, app, "1.0.0");
		expect(await storedKeys(`${app.uuid}/`)).toHaveLength(1);
		expect(await remove({ version: "1.0.0" })).toMatchObject({ status: 200, trips: 2, body: { status: "ok" } });
		expect(await storedKeys(`${app.uuid}/`)).toEqual([]);
		expect(await bundleRow(id)).toMatchObject({ status: "deleted", name: "1.0.0", object_key: null });
		expect((await remove({ version: "1.0.0" })).status).toBe(404);
		expect(await auditOf("bundle.delete")).toHaveLength(1);
		expect(world.deps.sent).toEqual([{ kind: "collect_garbage" }]);
	});

	test("answers 409 for a bundle in use and names the channels, also those with it as their rollout", async () => {
		const id = await uploadTestBundle(world, app, "1.0.0");
		const rollout = await setTestChannel(world, app, "rollout");
		await setTestChannel(world, app, "stable", { version: "1.0.0" });
		await run(query.updateTable("channels").set({ rollout_version_id: id }).where("id", "=", rollout));
		const refused = await remove({ version: "1.0.0" });
		expect(refused).toMatchObject({ status: 409, body: { error: "bundle_in_use" } });
		expect(refused.body.moreInfo.channels.sort()).toEqual(["rollout", "stable"]);
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("answers 409 for a bundle that is promoted at the same time, and deletes nothing", async () => {
		const id = await uploadTestBundle(world, app, "1.0.0");
		const channelId = await setTestChannel(world, app, "production");
		const answer = await readThenWrite(
			world,
			(racing) => remove({ version: "1.0.0" }, racing),
			() => promote(id, channelId),
		);
		expect(answer).toMatchObject({ status: 409, body: { error: "bundle_in_use" } });
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("deletes once for two concurrent requests", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		const answer = await readThenWrite(
			world,
			(racing) => remove({ version: "1.0.0" }, racing),
			() => remove({ version: "1.0.0" }),
		);
		expect(answer).toMatchObject({ status: 404, body: { error: "bundle_not_found" } });
		expect(await auditOf("bundle.delete")).toHaveLength(1);
	});

	test("drops a pending bundle, also if it becomes ready at the same time", async () => {
		const dropped = await register(world, app, "1.0.0", world.adminKey);
		expect((await remove({ version: "1.0.0" })).status).toBe(200);
		expect(await bundleRow(dropped.body.id)).toBeUndefined();

		const registered = await register(world, app, "1.0.1", world.adminKey);
		const answer = await readThenWrite(
			world,
			(racing) => remove({ version: "1.0.1" }, racing),
			() => putBytes(world, registered.body.upload_url, bundleOf(130)),
		);
		expect(answer.status).toBe(200);
		expect(await bundleRow(registered.body.id)).toMatchObject({ status: "deleted", object_key: null });
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("deletes unused bundles with all=true, with an audit entry each, and no pending ones", async () => {
		const used = await uploadTestBundle(world, app, "1.0.0");
		const rollout = await uploadTestBundle(world, app, "1.0.1");
		for (const version of ["2.0.0", "2.0.1"]) await uploadTestBundle(world, app, version);
		const pending = await register(world, app, "3.0.0", world.adminKey);
		const channelId = await setTestChannel(world, app, "production", { version: "1.0.0" });
		await run(query.updateTable("channels").set({ rollout_version_id: rollout }).where("id", "=", channelId));
		const elsewhere = await createTestApp(world);
		const foreign = await uploadTestBundle(world, elsewhere, "2.0.0");

		expect(await remove({ all: "true" })).toMatchObject({ status: 200, trips: 2 });
		expect((await list()).body.map((bundle: { id: number }) => bundle.id)).toEqual([rollout, used]);
		expect((await bundleRow(foreign))?.status).toBe("ready");
		expect((await auditOf("bundle.delete")).map((entry) => JSON.parse(entry.before ?? "{}").version).sort()).toEqual([
			"2.0.0",
			"2.0.1",
		]);
		expect(await violations(app.uuid)).toEqual([]);
		expect((await putBytes(world, pending.body.upload_url, bundleOf(130))).status).toBe(200);
	});

	test("answers 400 with both version and all, with all=false, or with a parameter that is unknown or empty, and deletes nothing", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		for (const parameters of [
			{ all: "false" },
			{ all: "true", version: "1.0.0" },
			{ all: "1" },
			{ vresion: "1.0.0" },
			{ version: "" },
			{ version: "1.0.0", channel: "production" },
		]) {
			expect((await remove(parameters as Record<string, string>)).status, JSON.stringify(parameters)).toBe(400);
		}
		for (const body of [{ version: null }, { version: ["1.0.0"] }, { Version: "1.0.0" }, ["1.0.0"], "1.0.0"]) {
			const sent = typeof body === "object" && !Array.isArray(body) ? { app_id: app.appId, ...body } : body;
			const { status } = await world.request("DELETE", `/bundle?app_id=${app.appId}`, {
				key: world.adminKey,
				body: sent,
			});
			expect(status, JSON.stringify(body)).toBe(400);
		}
		expect((await list()).body).toHaveLength(1);
	});

	test("without version deletes every unused bundle, and none that a channel serves", async () => {
		for (const version of ["1.0.0", "1.0.1"]) await uploadTestBundle(world, app, version);
		await setTestChannel(world, app, "production", { version: "1.0.0" });
		expect((await remove({})).status).toBe(200);
		expect((await list()).body.map((bundle: { name: string }) => bundle.name)).toEqual(["1.0.0"]);
	});
});

describe("POST /bundle/complete", () => {
	test("answers 404 for an unknown version and the record of a ready one, to uploaders only", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		const reader = await createTestKey(world, "app_reader", app);
		expect((await complete(world, app, "9.0.0", world.adminKey)).status).toBe(404);
		expect((await list()).body[0]).toMatchObject((await complete(world, app, "1.0.0", world.adminKey)).body);
		expect((await complete(world, app, "1.0.0", reader.text)).status).toBe(403);
	});

	test("completes another key's upload for callers that are not limited to their own work", async () => {
		const uploader = await createTestKey(world, "app_uploader", app);
		await uploadTestBundle(world, app, "1.0.0", uploader.text);
		expect((await complete(world, app, "1.0.0", world.adminKey)).status).toBe(200);
		const preview = await createTestKey(world, "app_preview", app);
		expect((await complete(world, app, "1.0.0", preview.text)).status).toBe(403);
	});
});
