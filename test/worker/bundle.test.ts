/**
 * The records of bundles: the list, promotion, and deletion, one and all. A bundle that a channel uses is never deleted, whatever
 * happens at the same time, and what is deleted gives up its bytes and its name.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { query } from "../../src/db/client";
import { bundleOf, complete, putBytes, register, rows, run, storedKeys } from "./support/bytes";
import { readThenWrite } from "./support/interleave";
import { violations } from "./support/invariants";
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
	test("of a version that is taken says whether it is there or still on its way", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		const uploader = await createTestKey(world, "app_developer", app);
		const register = (version: string, key: string) =>
			world.request("POST", "/bundle", { key, body: { app_id: app.appId, version } });
		await register("1.0.1", uploader.text);
		expect((await register("1.0.0", world.adminKey)).body.message).toMatch(/exists already/);
		expect((await register("1.0.1", world.adminKey)).body.message).toMatch(/being uploaded by somebody else/);
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

	test("promotes a bundle that another key uploaded, for whoever is not limited to their own", async () => {
		const uploader = await createTestKey(world, "app_uploader", app);
		const id = await uploadTestBundle(world, app, "1.0.0", uploader.text);
		expect((await promote(id, await setTestChannel(world, app, "production"))).status).toBe(200);
	});

	test("of a bundle that is deleted at the same time is 404, and the channel stays as it was", async () => {
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

	test("of a bundle in use is 409 and names the channels, also those that use it as their rollout", async () => {
		const id = await uploadTestBundle(world, app, "1.0.0");
		const rollout = await setTestChannel(world, app, "rollout");
		await setTestChannel(world, app, "stable", { version: "1.0.0" });
		await run(query.updateTable("channels").set({ rollout_version_id: id }).where("id", "=", rollout));
		const refused = await remove({ version: "1.0.0" });
		expect(refused).toMatchObject({ status: 409, body: { error: "bundle_in_use" } });
		expect(refused.body.moreInfo.channels.sort()).toEqual(["rollout", "stable"]);
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("of a bundle that is promoted at the same time is 409 and deletes nothing", async () => {
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

	test("twice at the same time happens once", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		const answer = await readThenWrite(
			world,
			(racing) => remove({ version: "1.0.0" }, racing),
			() => remove({ version: "1.0.0" }),
		);
		expect(answer).toMatchObject({ status: 404, body: { error: "bundle_not_found" } });
		expect(await auditOf("bundle.delete")).toHaveLength(1);
	});

	test("of a pending bundle drops it, and deletes it all the same when it becomes ready meanwhile", async () => {
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

	test("with all=true deletes what no channel uses, with an audit entry each, and leaves pending ones alone", async () => {
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

	test("says neither, both, or all=false is 400, and nothing is deleted", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		for (const parameters of [{}, { all: "false" }, { all: "true", version: "1.0.0" }, { all: "1" }]) {
			expect((await remove(parameters as Record<string, string>)).status).toBe(400);
		}
		expect((await list()).body).toHaveLength(1);
	});
});

describe("POST /bundle/complete", () => {
	test("of a version that is not there is 404, and of a ready one its record, to uploaders only", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		const reader = await createTestKey(world, "app_reader", app);
		expect((await complete(world, app, "9.0.0", world.adminKey)).status).toBe(404);
		expect((await complete(world, app, "1.0.0", world.adminKey)).body).toEqual((await list()).body[0]);
		expect((await complete(world, app, "1.0.0", reader.text)).status).toBe(403);
	});

	test("of another key's upload is for whoever is not limited to their own", async () => {
		const uploader = await createTestKey(world, "app_uploader", app);
		await uploadTestBundle(world, app, "1.0.0", uploader.text);
		expect((await complete(world, app, "1.0.0", world.adminKey)).status).toBe(200);
		const preview = await createTestKey(world, "app_preview", app);
		expect((await complete(world, app, "1.0.0", preview.text)).status).toBe(403);
	});
});
