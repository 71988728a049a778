/**
 * The preview role: the specification's seven rules by number, then the answers to other callers at
 * each step, then races. Each refusal stands beside the same request by a permitted caller, because
 * it could otherwise have another cause.
 */
import { describe, expect, test } from "vitest";
import { openDb, query } from "../../../src/db/client";
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
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
} from "../support/world";

preparePreviewScene();

/** Store builds of several major versions, below 1 and with two digits. */
const STORE_BUILDS = ["0.9.0", "1.0.0", "1.4.2", "2.3.0", "10.0.1"] as const;

const check = (of: TestApp, versionBuild: string, defaultChannel: string) =>
	world.request("POST", "/updates", {
		body: {
			app_id: of.appId,
			device_id: crypto.randomUUID(),
			platform: "ios",
			version_name: "builtin",
			version_build: versionBuild,
			plugin_version: "8.51.23",
			defaultChannel,
		},
	});

describe("a preview channel", () => {
	const PREVIEW_SETTINGS = { disableAutoUpdate: "none", disableAutoUpdateUnderNative: false };
	const SAFE_SETTINGS = { disableAutoUpdate: "major", disableAutoUpdateUnderNative: true };

	test("is created without update limits, and the audit log says so", async () => {
		const { channelId } = await makePreview(ci, "limits");
		expect((await showChannel("pr-limits")).body).toMatchObject(PREVIEW_SETTINGS);
		const { body: entries } = await world.request("GET", `/app/${app.appId}/audit`, {
			key: world.adminKey,
			query: { target: `channel:${channelId}`, action: "channel.create" },
		});
		expect(entries).toMatchObject([{ after: PREVIEW_SETTINGS }]);
	});

	test("serves its bundle to every store build, whatever its version", async () => {
		for (const [name, version] of [
			["pr-reach-low", "0.0.0-pr.1"],
			["pr-reach-high", "99.0.0-pr.1"],
		] as const) {
			await createChannel(ci.text, name, { allow_device_self_set: true });
			await uploadTestBundle(world, app, version, ci.text);
			await createChannel(ci.text, name, { version });
			for (const build of STORE_BUILDS) {
				// A refusal also names the version; only an update has a link.
				const update = { version, url: expect.any(String) };
				expect((await check(app, build, name)).body, `${version} on ${build}`).toMatchObject(update);
			}
		}
	});

	test("keeps an update limit that the request names", async () => {
		await createChannel(ci.text, "pr-limits-named", { disableAutoUpdate: "minor" });
		expect((await showChannel("pr-limits-named")).body).toMatchObject({
			...PREVIEW_SETTINGS,
			disableAutoUpdate: "minor",
		});
		await createChannel(ci.text, "pr-limits-named-native", { disableAutoUpdateUnderNative: true });
		expect((await showChannel("pr-limits-named-native")).body).toMatchObject({
			...PREVIEW_SETTINGS,
			disableAutoUpdateUnderNative: true,
		});
		await createChannel(ci.text, "pr-limits-null", { disableAutoUpdate: null });
		expect((await showChannel("pr-limits-null")).body).toMatchObject(PREVIEW_SETTINGS);
	});

	test("is the only kind without update limits: other channels refuse older bundles and other major versions", async () => {
		const own = await createTestApp(world);
		for (const [role, name] of [
			["app_developer", "developer"],
			["app_admin", "admin"],
		] as const) {
			const { text } = await createTestKey(world, role, own);
			const body = { app_id: own.appId, channel: name, allow_device_self_set: true };
			expect((await world.request("POST", "/channel", { key: text, body })).status).toBe(201);
			const shown = await world.request("GET", "/channel", { key: text, query: { app_id: own.appId, channel: name } });
			expect(shown.body).toMatchObject(SAFE_SETTINGS);
		}
		await uploadTestBundle(world, own, "2.0.0-pr.1");
		await world.request("POST", "/channel", {
			key: world.adminKey,
			body: { app_id: own.appId, channel: "admin", version: "2.0.0-pr.1" },
		});
		expect((await check(own, "2.3.0", "admin")).body).toMatchObject({ error: "disable_auto_update_under_native" });
		expect((await check(own, "1.0.0", "admin")).body).toMatchObject({ error: "disable_auto_update_to_major" });
	});

	test("has the ordinary update limits if the creator also has a wider role", async () => {
		const both = await world.request("POST", "/apikey", {
			key: world.adminKey,
			body: {
				name: "both",
				bindings: ["app_preview", "app_developer"].map((role_name) => ({
					role_name,
					scope_type: "app",
					org_id: world.orgId,
					app_id: app.uuid,
				})),
			},
		});
		expect((await createChannel(both.body.key, "pr-limits-both")).status).toBe(201);
		expect((await showChannel("pr-limits-both")).body).toMatchObject(SAFE_SETTINGS);
	});
});

describe("the seven rules", () => {
	test("rule 1: a key with app_preview on one app creates a private channel, uploads, promotes and deletes both", async () => {
		const preview = await makePreview(ci, "rule1");
		expect((await showChannel("pr-rule1")).body).toMatchObject({ public: false, version: { name: preview.version } });
		expect((await cleanUp(ci.text, "pr-rule1")).body).toEqual({ status: "ok" });
		expect((await showChannel("pr-rule1")).status).toBe(404);
		expect(await showBundle(preview.version)).toEqual([]);
	});

	test("rule 1: the binding must name the app by its UUID", async () => {
		const made = await world.request("POST", "/apikey", {
			key: world.adminKey,
			body: {
				name: "wrong id",
				bindings: [{ role_name: "app_preview", scope_type: "app", org_id: world.orgId, app_id: app.appId }],
			},
		});
		expect(made).toMatchObject({ status: 400, body: { error: "invalid_request" } });
		expect(made.body.moreInfo.issues[0].path).toBe("bindings.0.app_id");
	});

	test("rule 2: the role may read the app and its bundles, upload and create channels, and nothing else", async () => {
		const allowed = await Promise.all([
			world.request("GET", `/app/${app.appId}`, { key: ci.text }),
			world.request("GET", "/bundle", { key: ci.text, query: { app_id: app.appId } }),
		]);
		expect(allowed.map((answer) => answer.status)).toEqual([200, 200]);
		const refused = await Promise.all([
			world.request("PUT", `/app/${app.appId}`, { key: ci.text, body: { name: "mine" } }),
			world.request("DELETE", `/app/${app.appId}`, { key: ci.text }),
			world.request("DELETE", "/bundle", { key: ci.text, query: { app_id: app.appId, all: "true" } }),
			world.request("POST", "/apikey", { key: ci.text, query: { org_id: world.orgId }, body: { name: "more" } }),
			world.request("POST", "/app", { key: ci.text, body: { app_id: "com.x.y", name: "x", owner_org: world.orgId } }),
		]);
		expect(refused.map((answer) => [answer.status, answer.body.moreInfo.permission])).toEqual([
			[403, "app.update_settings"],
			[403, "app.delete"],
			[403, "bundle.delete"],
			[403, "org.manage_apikeys"],
			[403, "org.create_app"],
		]);
	});

	test("rule 3: creating a channel adds a channel_preview binding for the key on that channel, in the same batch", async () => {
		const channelId = (await createChannel(ci.text, "pr-rule3")).body.id;
		const key = await world.request("GET", `/apikey/${ci.id}`, { key: world.adminKey });
		const [parent] = key.body.bindings.filter((binding: { role_name: string }) => binding.role_name === "app_preview");
		const children = key.body.bindings.filter(
			(binding: { channel_id: number | null }) => binding.channel_id === channelId,
		);
		expect(children).toMatchObject([
			{ role_name: "channel_preview", scope_type: "channel", app_id: app.uuid, parent_binding_id: parent.id },
		]);
	});

	test("rule 3: the channel_preview binding is deleted with its app_preview binding", async () => {
		const shortLived = await createTestKey(world, "app_preview", app);
		await createChannel(shortLived.text, "pr-rule3-parent");
		const db = openDb(testEnv.DB, "first-primary");
		await db.batch([
			query
				.deleteFrom("role_bindings")
				.where("api_key_id", "=", shortLived.id)
				.where("role_name", "=", "app_preview")
				.compile(),
		]);
		expect((await cleanUp(shortLived.text, "pr-rule3-parent")).status).toBe(404);
		const left = await db.batch([
			query.selectFrom("role_bindings").select("id").where("api_key_id", "=", shortLived.id).compile(),
		]);
		expect(left[0].rows).toEqual([]);
	});

	test("rule 3: it grants nothing from the millisecond in which its app_preview binding expires", async () => {
		const shortLived = await createTestKey(world, "app_preview", app);
		await createChannel(shortLived.text, "pr-rule3-runs-out");
		const runsOutAt = (timeMs: number) =>
			testEnv.DB.prepare(
				"UPDATE role_bindings SET expires_at_ms = ? WHERE api_key_id = ? AND role_name = 'app_preview'",
			)
				.bind(timeMs, shortLived.id)
				.run();
		await runsOutAt(world.clock.nowMs);
		expect((await cleanUp(shortLived.text, "pr-rule3-runs-out")).status).toBe(404);
		await runsOutAt(world.clock.nowMs + 1);
		expect((await cleanUp(shortLived.text, "pr-rule3-runs-out")).status).toBe(200);
	});

	test("rule 4: the key lists the app's channels, and changes only its own", async () => {
		await setTestChannel(world, app, "rule4-main", { public: true });
		const listed = await world.request("GET", "/channel", { key: ci.text, query: { app_id: app.appId } });
		expect(listed.body.map((channel: { name: string }) => channel.name)).toContain("rule4-main");
		const before = (await showChannel("rule4-main")).body;
		const bundleId = await uploadTestBundle(world, app, "1.0.0-rule4", ci.text);
		const attempts = await Promise.all([
			createChannel(ci.text, "rule4-main", { version: "1.0.0-rule4" }),
			createChannel(ci.text, "rule4-main", { public: false }),
			promote(ci.text, bundleId, before.id),
			world.request("DELETE", "/channel", { key: ci.text, query: { app_id: app.appId, channel: "rule4-main" } }),
			cleanUp(ci.text, "rule4-main"),
		]);
		expect(attempts.map((answer) => [answer.status, answer.body.error])).toEqual([
			[403, "permission_denied"],
			[403, "permission_denied"],
			[404, "channel_not_found"],
			[404, "channel_not_found"],
			[404, "channel_not_found"],
		]);
		expect(attempts[0]?.body.moreInfo).toEqual({ permission: "channel.promote_bundle", scope: "channel" });
		expect((await showChannel("rule4-main")).body).toEqual(before);
	});

	test("rule 5: the key promotes only its own bundle, by id and by name, in both requests that promote", async () => {
		const foreign = await uploadTestBundle(world, app, "1.0.0-rule5-admin");
		const own = await uploadTestBundle(world, app, "1.0.0-rule5-own", ci.text);
		const channelId = (await createChannel(ci.text, "pr-rule5")).body.id;
		const refused = await Promise.all([
			promote(ci.text, foreign, channelId),
			createChannel(ci.text, "pr-rule5", { version: "1.0.0-rule5-admin" }),
			createChannel(ci.text, "pr-rule5-new", { version: "1.0.0-rule5-admin" }),
		]);
		for (const answer of refused) expect(answer).toMatchObject({ status: 403, body: { error: "permission_denied" } });
		expect((await showChannel("pr-rule5-new")).status).toBe(404);
		expect((await showChannel("pr-rule5")).body.version).toBeNull();
		expect((await promote(ci.text, own, channelId)).status).toBe(200);
		expect((await createChannel(ci.text, "pr-rule5-with-version", { version: "1.0.0-rule5-own" })).status).toBe(201);
	});

	test("rule 5: the key changes neither the channel nor the bundle of another preview key", async () => {
		const mine = await makePreview(ci, "rule5-mine");
		const theirs = await makePreview(otherCi, "rule5-theirs");
		expect((await promote(otherCi.text, theirs.bundleId, mine.channelId)).status).toBe(404);
		expect((await promote(otherCi.text, mine.bundleId, theirs.channelId)).status).toBe(403);
		expect((await cleanUp(otherCi.text, "pr-rule5-mine")).status).toBe(404);
		expect((await showChannel("pr-rule5-mine")).body.version.name).toBe(mine.version);
		expect((await cleanUp(ci.text, "pr-rule5-mine")).status).toBe(200);
	});

	test("rule 5: the key loses its channel in the moment in which the channel becomes public", async () => {
		const own = await createTestApp(world, "published");
		const key = (await createTestKey(world, "app_preview", own)).text;
		const ask = (method: string, path: string, fields: object, by = key) =>
			world.request(method, path, { key: by, body: { app_id: own.appId, ...fields } });
		const first = await uploadTestBundle(world, own, "1.0.0-pr.1", key);
		await uploadTestBundle(world, own, "1.0.0-pr.2", key);
		const { id } = (await ask("POST", "/channel", { channel: "pr-main", version: "1.0.0-pr.2" })).body;
		expect((await ask("POST", "/channel", { channel: "pr-main", public: true }, world.adminKey)).status).toBe(200);
		const tries = [
			await ask("POST", "/channel", { channel: "pr-main", version: "1.0.0-pr.1" }),
			await ask("PUT", "/bundle", { version_id: first, channel_id: id }),
			await ask("POST", "/channel/rollback", { channel: "pr-main", version: "builtin" }),
			await ask("DELETE", "/channel", { channel: "pr-main", delete_bundle: true }),
		];
		for (const { status } of tries) expect([403, 404]).toContain(status);
		const device = await check(own, "1.0.0", "");
		expect(device.body.version).toBe("1.0.0-pr.2");
		const again = await ask("POST", "/channel", { channel: "pr-main", version: "1.0.0-pr.1" }, world.adminKey);
		expect(again.status).toBe(200);
	});

	test("rule 6: a channel that the key creates is never public and never the default", async () => {
		const isPublic = await createChannel(ci.text, "pr-rule6", { public: true });
		expect(isPublic).toMatchObject({ status: 400, body: { error: "preview_channel_must_be_private" } });
		const isDefault = await createChannel(ci.text, "dev");
		expect(isDefault).toMatchObject({ status: 409, body: { error: "channel_name_reserved" } });
		expect((await createChannel(ci.text, "pr-rule6")).body.public).toBe(false);
		const later = await createChannel(ci.text, "pr-rule6", { public: true });
		expect(later).toMatchObject({ status: 403, body: { error: "permission_denied" } });
		expect((await showChannel("pr-rule6")).body.public).toBe(false);
	});

	test("rule 7: the clean-up removes its own channel with its own bundle and leaves another's bundle alone", async () => {
		const mine = await makePreview(ci, "rule7");
		const foreign = await uploadTestBundle(world, app, "1.0.0-rule7-admin");
		expect((await promote(world.adminKey, foreign, mine.channelId)).status).toBe(200);
		const refused = await cleanUp(ci.text, "pr-rule7");
		expect(refused).toMatchObject({ status: 403, body: { error: "permission_denied" } });
		expect((await showChannel("pr-rule7")).body.version.name).toBe("1.0.0-rule7-admin");
		expect(await showBundle("1.0.0-rule7-admin")).toHaveLength(1);
		await promote(ci.text, mine.bundleId, mine.channelId);
		expect((await cleanUp(ci.text, "pr-rule7")).status).toBe(200);
	});

	test("rule 7: the role has no bundle.delete, so the key cannot delete a single bundle, not even its own", async () => {
		await uploadTestBundle(world, app, "1.0.0-rule7-own", ci.text);
		const remove = (key: string) =>
			world.request("DELETE", "/bundle", { key, query: { app_id: app.appId, version: "1.0.0-rule7-own" } });
		expect(await remove(ci.text)).toMatchObject({ status: 403, body: { moreInfo: { permission: "bundle.delete" } } });
		expect(await remove(world.adminKey)).toMatchObject({ status: 200 });
	});
});
