/**
 * POST /bundle: registration of a version, repeated, by another key, and with values that are
 * refused.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { DAY_MS } from "../../../src/domain/time";
import { bundleOf, complete, newestBundle, putBytes, register } from "../support/bytes";
import { violations } from "../support/invariants";
import {
	createTestApp,
	createTestKey,
	createWorld,
	setTestChannel,
	type TestApp,
	type TestKey,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
let ci: TestKey;

beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	ci = await createTestKey(world, "app_developer", app);
});
const bundleRow = (name: string, uuid = app.uuid) => newestBundle(uuid, name);

describe("POST /bundle", () => {
	test("starts over for the same key: the old link is invalid and its bytes become garbage", async () => {
		const first = await register(world, app, "3.0.0", ci.text);
		const second = await register(world, app, "3.0.0", ci.text, { comment: "again" });
		expect(second.status).toBe(201);
		expect(second.body.id).not.toBe(first.body.id);
		expect((await putBytes(world, first.body.upload_url, bundleOf(130))).status).toBe(404);
		expect((await putBytes(world, second.body.upload_url, bundleOf(140))).status).toBe(200);
		expect(await bundleRow("3.0.0")).toMatchObject({ status: "ready", size_bytes: 140, comment: "again" });
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("answers 409 to another key until the registration expires", async () => {
		const held = await createWorld();
		const heldApp = await createTestApp(held);
		const [one, two] = [
			await createTestKey(held, "app_developer", heldApp),
			await createTestKey(held, "app_developer", heldApp),
		];
		await register(held, heldApp, "1.0.0", one.text);
		held.clock.nowMs += DAY_MS - 1;
		expect(await register(held, heldApp, "1.0.0", two.text)).toMatchObject({
			status: 409,
			body: { error: "bundle_already_exists" },
		});
		held.clock.nowMs += 1;
		expect((await register(held, heldApp, "1.0.0", two.text)).status).toBe(201);
		expect((await bundleRow("1.0.0", heldApp.uuid))?.created_by_key).toBe(two.id);
	});

	test("answers 409 for a ready version, also to the key that uploaded it", async () => {
		await uploadTestBundle(world, app, "3.1.0", ci.text);
		const before = await bundleRow("3.1.0");
		for (const key of [ci.text, world.adminKey]) {
			expect(await register(world, app, "3.1.0", key)).toMatchObject({
				status: 409,
				body: { error: "bundle_already_exists" },
			});
		}
		expect(await bundleRow("3.1.0")).toEqual(before);
	});

	test("accepts the version of a deleted bundle, under a new id", async () => {
		const id = await uploadTestBundle(world, app, "3.2.0");
		const query_ = { app_id: app.appId, version: "3.2.0" };
		expect((await world.request("DELETE", "/bundle", { key: world.adminKey, query: query_ })).status).toBe(200);
		const again = await uploadTestBundle(world, app, "3.2.0", ci.text);
		expect(again).toBeGreaterThan(id);
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("refuses a size over the limit and a checksum that is not a SHA-256", async () => {
		for (const fields of [
			{ size: 2 ** 40 },
			{ size: 0 },
			{ size: 1.5 },
			{ checksum: "ab" },
			{ checksum: "ab".repeat(256) },
		]) {
			expect((await register(world, app, "3.3.0", world.adminKey, fields)).status).toBe(400);
		}
		expect(await bundleRow("3.3.0")).toBeUndefined();
	});

	test("hides a pending bundle from lists and channels; completing it names the missing bytes", async () => {
		const registered = await register(world, app, "3.4.0", world.adminKey, { size: 10 });
		const listed = await world.request("GET", "/bundle", {
			key: world.adminKey,
			query: { app_id: app.appId, version: "3.4.0" },
		});
		expect(listed.body).toEqual([]);
		const channelId = await setTestChannel(world, app, "pending-test");
		const promoted = await world.request("PUT", "/bundle", {
			key: world.adminKey,
			body: { app_id: app.appId, version_id: registered.body.id, channel_id: channelId },
		});
		expect(promoted).toMatchObject({ status: 409, body: { error: "bundle_not_ready" } });
		expect(await complete(world, app, "3.4.0", world.adminKey)).toMatchObject({
			status: 409,
			body: { error: "bundle_incomplete", moreInfo: { received_bytes: 0, expected_bytes: 10 } },
		});
	});

	test("opens an upload by link that is not reachable by TUS", async () => {
		const registered = await register(world, app, "3.5.0", world.adminKey, { size: 10 });
		const id = new URL(registered.body.upload_url).pathname.split("/").at(-1);
		const head = await world.request("HEAD", `/files/upload/attachments/${id}`, {
			key: world.adminKey,
			headers: { "tus-resumable": "1.0.0" },
		});
		expect(head.status).toBe(404);
	});
});
