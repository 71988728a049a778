/**
 * The end of a preview: DELETE /channel with its bundle, other callers, repeated and concurrent
 * requests.
 */
import { describe, expect, test } from "vitest";
import { openDb, query } from "../../../src/db/client";
import { readThenWrite } from "../support/interleave";
import {
	app,
	ci,
	cleanUp,
	createChannel,
	makePreview,
	otherCi,
	preparePreviewScene,
	promote,
	showBundle,
	showChannel,
	world,
} from "../support/preview-scene";
import {
	createTestApp,
	createTestKey,
	createWorld,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
} from "../support/world";

preparePreviewScene();

describe("DELETE /channel with delete_bundle", () => {
	test("refuses a bundle that another channel uses, and changes nothing", async () => {
		const preview = await makePreview(ci, "shared");
		await createChannel(ci.text, "pr-shared-too", { version: preview.version });
		const refused = await cleanUp(ci.text, "pr-shared");
		expect(refused).toMatchObject({
			status: 409,
			body: { error: "bundle_in_use", moreInfo: { channels: ["pr-shared-too"] } },
		});
		expect((await showChannel("pr-shared")).status).toBe(200);
		expect(await showBundle(preview.version)).toHaveLength(1);
	});

	test("deletes channel, binding, bundle and bytes together, and frees both names", async () => {
		const preview = await makePreview(ci, "together");
		const db = openDb(testEnv.DB, "first-primary");
		const objectKeys = async () =>
			(
				await db.batch([query.selectFrom("bundles").select("object_key").where("id", "=", preview.bundleId).compile()])
			)[0].rows;
		const [stored] = await objectKeys();
		expect(await testEnv.BUNDLES.head(stored?.object_key ?? "")).not.toBeNull();
		expect((await cleanUp(ci.text, "pr-together")).status).toBe(200);
		expect(await testEnv.BUNDLES.head(stored?.object_key ?? "")).toBeNull();
		const bindings = await db.batch([
			query.selectFrom("role_bindings").select("id").where("channel_id", "=", preview.channelId).compile(),
		]);
		expect(bindings[0].rows).toEqual([]);
		const again = await makePreview(ci, "together");
		expect(again.channelId).not.toBe(preview.channelId);
		expect(again.bundleId).not.toBe(preview.bundleId);
	});

	test("deletes a channel without a bundle, and answers 404 to a second request", async () => {
		await createChannel(ci.text, "pr-empty");
		expect((await cleanUp(ci.text, "pr-empty")).status).toBe(200);
		expect(await cleanUp(ci.text, "pr-empty")).toMatchObject({ status: 404, body: { error: "channel_not_found" } });
	});

	test("is for administrators on any preview, and not for a developer without bundle.delete", async () => {
		const developer = await createTestKey(world, "app_developer", app);
		await makePreview(ci, "by-admin");
		expect(await cleanUp(developer.text, "pr-by-admin")).toMatchObject({
			status: 403,
			body: { moreInfo: { permission: "channel.delete" } },
		});
		expect((await cleanUp(world.adminKey, "pr-by-admin")).status).toBe(200);
	});

	test("keeps the bundle without delete_bundle", async () => {
		const preview = await makePreview(ci, "bundle-stays");
		const deleted = await world.request("DELETE", "/channel", {
			key: ci.text,
			query: { app_id: app.appId, channel: "pr-bundle-stays" },
		});
		expect(deleted.status).toBe(200);
		expect(await showBundle(preview.version)).toMatchObject([{ channels: [] }]);
	});
});

describe("other callers", () => {
	test("see nothing at any step with a key of another organization, and an expired key gets its error", async () => {
		const elsewhere = await createWorld();
		const expiring = await createTestKey(world, "app_preview", app, { expires_at: "2026-11-21T08:00:01Z" });
		const preview = await makePreview(ci, "others");
		const steps = (key: string) => [
			createChannel(key, "pr-others-new"),
			createChannel(key, "pr-others", { version: preview.version }),
			world.request("POST", "/bundle", { key, body: { app_id: app.appId, version: "6.6.6" } }),
			promote(key, preview.bundleId, preview.channelId),
			cleanUp(key, "pr-others"),
			world.request("GET", "/channel", { key, query: { app_id: app.appId } }),
		];
		for (const answer of await Promise.all(steps(elsewhere.adminKey))) {
			expect(answer.status).toBe(404);
			expect(["app_not_found", "channel_not_found"]).toContain(answer.body.error);
		}
		world.clock.nowMs += 2_000;
		for (const answer of await Promise.all(steps(expiring.text))) {
			expect(answer).toMatchObject({ status: 401, body: { error: "expired_api_key" } });
		}
		world.clock.nowMs -= 2_000;
		expect((await showChannel("pr-others")).body.version.name).toBe(preview.version);
		expect((await showChannel("pr-others-new")).status).toBe(404);
	});

	test("get the same answer for an existing and an absent channel of another organization", async () => {
		const elsewhere = await createWorld();
		await createChannel(ci.text, "pr-hidden");
		const [existing, missing] = await Promise.all([
			cleanUp(elsewhere.adminKey, "pr-hidden"),
			cleanUp(elsewhere.adminKey, "pr-never-was"),
		]);
		expect({ ...existing.body, requestId: "" }).toEqual({ ...missing.body, requestId: "" });
	});

	test("see nothing with a preview key of another app of the organization", async () => {
		const sibling = await createTestApp(world, "sibling");
		const siblingCi = await createTestKey(world, "app_preview", sibling);
		await createChannel(ci.text, "pr-sibling-cannot");
		expect((await cleanUp(siblingCi.text, "pr-sibling-cannot")).status).toBe(404);
		expect((await createChannel(siblingCi.text, "pr-sibling-new")).status).toBe(404);
	});

	test("have channels of the same name in another app, which are independent", async () => {
		// One app on each side, because the order of the rows is not defined.
		const { newId } = world.deps;
		const siblings: TestApp[] = [];
		for (const start of ["00000000", "ffffffff"]) {
			Object.assign(world.deps, { newId: () => `${start}${newId().slice(8)}` });
			siblings.push(await createTestApp(world, "sibling"));
		}
		Object.assign(world.deps, { newId });
		for (const each of siblings) {
			await uploadTestBundle(world, each, "2.0.0");
			await setTestChannel(world, each, "pr-same-name", { version: "2.0.0" });
		}
		const sibling = siblings[0] ?? app;
		const foreign = await setTestChannel(world, sibling, "pr-same-name");
		const reader = await createTestKey(world, "app_reader", app);
		const bundleId = await uploadTestBundle(world, app, "1.0.0-by-id");
		expect((await promote(reader.text, bundleId, foreign)).status, "by its id, it is not there").toBe(404);
		const query = { app_id: sibling.appId, channel: "pr-same-name" };
		const show = async () => (await world.request("GET", "/channel", { key: world.adminKey, query })).body;
		const before = await show();
		await makePreview(ci, "same-name");
		expect((await cleanUp(ci.text, "pr-same-name")).status).toBe(200);
		expect(await show()).toEqual(before);
	});
});

describe("a repeated POST /channel", () => {
	test("needs only permission to read the channel, and writes nothing", async () => {
		const created = await createChannel(ci.text, "pr-self-assign", { allow_device_self_set: true });
		expect(created.status).toBe(201);
		const before = (await showChannel("pr-self-assign")).body;
		world.clock.nowMs += 1_000;
		const again = await createChannel(ci.text, "pr-self-assign", { allow_device_self_set: true, public: false });
		world.clock.nowMs -= 1_000;
		expect(again).toMatchObject({ status: 200, body: { status: "ok", id: before.id } });
		expect((await showChannel("pr-self-assign")).body).toEqual(before);
		expect((await createChannel(ci.text, "pr-self-assign", { allow_device_self_set: false })).status).toBe(403);
	});
});

describe("concurrent requests on one channel", () => {
	test("let one of two deletions succeed, and answer 404 to the other", async () => {
		await makePreview(ci, "race-two");
		const answers = await Promise.all([cleanUp(ci.text, "pr-race-two"), cleanUp(ci.text, "pr-race-two")]);
		expect(answers.map((answer) => answer.status).sort()).toEqual([200, 404]);
	});

	test("stop a deletion after a promotion, and the channel keeps the promoted bundle", async () => {
		const preview = await makePreview(ci, "race-promote");
		const newer = await uploadTestBundle(world, app, "2.0.0-race-promote", ci.text);
		const answer = await readThenWrite(
			world,
			(racing) =>
				racing.request("DELETE", "/channel", {
					key: ci.text,
					query: { app_id: app.appId, channel: "pr-race-promote", delete_bundle: "true" },
				}),
			() => promote(ci.text, newer, preview.channelId),
		);
		expect(answer).toMatchObject({ status: 409, body: { error: "channel_changed" } });
		expect((await showChannel("pr-race-promote")).body.version.name).toBe("2.0.0-race-promote");
		expect(await showBundle(preview.version)).toHaveLength(1);
	});

	test("never leave a channel that points to a deleted bundle", async () => {
		const preview = await makePreview(ci, "race-clean");
		const next = await uploadTestBundle(world, app, "1.0.1-race-clean", ci.text);
		const answer = await readThenWrite(
			world,
			(racing) =>
				racing.request("PUT", "/bundle", {
					key: ci.text,
					body: { app_id: app.appId, version_id: next, channel_id: preview.channelId },
				}),
			() => cleanUp(ci.text, "pr-race-clean"),
		);
		expect(answer).toMatchObject({ status: 404, body: { error: "channel_not_found" } });
		expect((await showChannel("pr-race-clean")).status).toBe(404);
	});

	test("keep a bundle that another channel starts to use", async () => {
		const preview = await makePreview(ci, "race-shared");
		const answer = await readThenWrite(
			world,
			(racing) =>
				racing.request("DELETE", "/channel", {
					key: ci.text,
					query: { app_id: app.appId, channel: "pr-race-shared", delete_bundle: "true" },
				}),
			() => createChannel(ci.text, "pr-race-shared-taker", { version: preview.version }),
		);
		expect(answer).toMatchObject({ status: 409, body: { error: "bundle_in_use" } });
		expect((await showChannel("pr-race-shared")).status).toBe(200);
		expect((await showChannel("pr-race-shared-taker")).body.version.name).toBe(preview.version);
	});

	test("create no channel for a key that is revoked in between", async () => {
		const doomed = await createTestKey(world, "app_preview", app);
		const answer = await readThenWrite(
			world,
			(racing) =>
				racing.request("POST", "/channel", {
					key: doomed.text,
					body: { app_id: app.appId, channel: "pr-race-revoked" },
				}),
			() => world.request("DELETE", `/apikey/${doomed.id}`, { key: world.adminKey }),
		);
		expect(answer).toMatchObject({ status: 401, body: { error: "invalid_api_key" } });
		expect((await showChannel("pr-race-revoked")).status).toBe(404);
	});

	test("let one of two creations of a name succeed, and answer channel_changed to the other", async () => {
		const answer = await readThenWrite(
			world,
			(racing) =>
				racing.request("POST", "/channel", { key: ci.text, body: { app_id: app.appId, channel: "pr-race-name" } }),
			() => createChannel(otherCi.text, "pr-race-name"),
		);
		expect(answer).toMatchObject({ status: 409, body: { error: "channel_changed" } });
		expect((await cleanUp(ci.text, "pr-race-name")).status).toBe(404);
		expect((await cleanUp(otherCi.text, "pr-race-name")).status).toBe(200);
	});
});
