/**
 * The preview role: the specification's seven rules by number, then what everybody else gets at each step, then races. Every refusal
 * stands beside the same request by someone who may, so that none passes by coincidence.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { openDb, query } from "../../src/db/client";
import migration from "../../src/db/migrations/0014_preview_channels.sql?raw";
import { readThenWrite } from "./support/interleave";
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
} from "./support/world";

let world: World;
let app: TestApp;
let ci: TestKey;
let otherCi: TestKey;

beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	ci = await createTestKey(world, "app_preview", app);
	otherCi = await createTestKey(world, "app_preview", app);
});

const createChannel = (key: string, channel: string, fields: Record<string, unknown> = {}) =>
	world.request("POST", "/channel", { key, body: { app_id: app.appId, channel, ...fields } });
const showChannel = (channel: string) =>
	world.request("GET", "/channel", { key: world.adminKey, query: { app_id: app.appId, channel } });
const promote = (key: string, versionId: number, channelId: number) =>
	world.request("PUT", "/bundle", {
		key,
		body: { app_id: app.appId, version_id: versionId, channel_id: channelId },
	});
const cleanUp = (key: string, channel: string) =>
	world.request("DELETE", "/channel", { key, query: { app_id: app.appId, channel, delete_bundle: "true" } });
const showBundle = async (version: string) =>
	(await world.request("GET", "/bundle", { key: world.adminKey, query: { app_id: app.appId, version } })).body;

/** A preview as CI makes it: a channel, a bundle, the promotion. */
async function makePreview(key: TestKey, name: string) {
	const version = `1.0.0-${name}`;
	const channelId = (await createChannel(key.text, name)).body.id as number;
	const bundleId = await uploadTestBundle(world, app, version, key.text);
	const promoted = await promote(key.text, bundleId, channelId);
	expect(promoted.status).toBe(200);
	return { channel: name, version, channelId, bundleId };
}

/** One of each major, below the first, and with two digits. */
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
		expect((await showChannel("limits")).body).toMatchObject(PREVIEW_SETTINGS);
		const { body: entries } = await world.request("GET", `/app/${app.appId}/audit`, {
			key: world.adminKey,
			query: { target: `channel:${channelId}`, action: "channel.create" },
		});
		expect(entries).toMatchObject([{ after: PREVIEW_SETTINGS }]);
	});

	test("serves its bundle to every store build, whatever its version", async () => {
		for (const [name, version] of [
			["reach-low", "0.0.0-pr.1"],
			["reach-high", "99.0.0-pr.1"],
		] as const) {
			await createChannel(ci.text, name, { allow_device_self_set: true });
			await uploadTestBundle(world, app, version, ci.text);
			await createChannel(ci.text, name, { version });
			for (const build of STORE_BUILDS) {
				// A refusal names the version as well; only an update has a link.
				const update = { version, url: expect.any(String) };
				expect((await check(app, build, name)).body, `${version} on ${build}`).toMatchObject(update);
			}
		}
	});

	test("keeps an update limit that the request names", async () => {
		await createChannel(ci.text, "limits-named", { disableAutoUpdate: "minor" });
		expect((await showChannel("limits-named")).body).toMatchObject({ ...PREVIEW_SETTINGS, disableAutoUpdate: "minor" });
		await createChannel(ci.text, "limits-named-native", { disableAutoUpdateUnderNative: true });
		expect((await showChannel("limits-named-native")).body).toMatchObject({
			...PREVIEW_SETTINGS,
			disableAutoUpdateUnderNative: true,
		});
		await createChannel(ci.text, "limits-null", { disableAutoUpdate: null });
		expect((await showChannel("limits-null")).body).toMatchObject(PREVIEW_SETTINGS);
	});

	test("is the only kind without limits: the channel of anybody else keeps what is older or of another major away", async () => {
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

	test("keeps the ordinary limits where the creator holds a wider role as well", async () => {
		const both = await world.request("POST", "/apikey", {
			key: world.adminKey,
			body: {
				name: "both",
				bindings: ["app_preview", "app_developer"].map((role_name) => ({
					...{ role_name, scope_type: "app", org_id: world.orgId, app_id: app.uuid },
				})),
			},
		});
		expect((await createChannel(both.body.key, "limits-both")).status).toBe(201);
		expect((await showChannel("limits-both")).body).toMatchObject(SAFE_SETTINGS);
	});

	test("from before loses both limits in the migration, unless somebody changed one of them", async () => {
		const revision = async () =>
			(await testEnv.DB.prepare("SELECT revision FROM apps WHERE id = ?").bind(app.uuid).first("revision")) as number;
		const safe = { disableAutoUpdate: "major", disableAutoUpdateUnderNative: true };
		await createChannel(ci.text, "before", safe);
		await createChannel(ci.text, "before-changed", { ...safe, disableAutoUpdate: "patch" });
		await createChannel(world.adminKey, "before-admin");
		const before = await revision();
		const statements = migration
			.replace(/^--.*$/gm, "")
			.split(";")
			.map((text) => text.trim());
		await testEnv.DB.batch(statements.filter((text) => text !== "").map((text) => testEnv.DB.prepare(text)));
		expect((await showChannel("before")).body).toMatchObject(PREVIEW_SETTINGS);
		expect((await showChannel("before-changed")).body).toMatchObject({ ...safe, disableAutoUpdate: "patch" });
		expect((await showChannel("before-admin")).body).toMatchObject(safe);
		expect(await revision()).toBe(before + 1);
	});
});

describe("the seven rules", () => {
	test("rule 1: a key bound app_preview on one app makes a private channel, uploads, promotes and deletes both", async () => {
		const preview = await makePreview(ci, "rule1");
		expect((await showChannel("rule1")).body).toMatchObject({ public: false, version: { name: preview.version } });
		expect((await cleanUp(ci.text, "rule1")).body).toEqual({ status: "ok" });
		expect((await showChannel("rule1")).status).toBe(404);
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

	test("rule 2: the role holds reading the app and its bundles, uploading and creating channels, and nothing else", async () => {
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
		const channelId = (await createChannel(ci.text, "rule3")).body.id;
		const key = await world.request("GET", `/apikey/${ci.id}`, { key: world.adminKey });
		const [parent] = key.body.bindings.filter((binding: { role_name: string }) => binding.role_name === "app_preview");
		const children = key.body.bindings.filter(
			(binding: { channel_id: number | null }) => binding.channel_id === channelId,
		);
		expect(children).toMatchObject([
			{ role_name: "channel_preview", scope_type: "channel", app_id: app.uuid, parent_binding_id: parent.id },
		]);
	});

	test("rule 3: the channel_preview binding dies with its app_preview binding", async () => {
		const shortLived = await createTestKey(world, "app_preview", app);
		await createChannel(shortLived.text, "rule3-parent");
		const db = openDb(testEnv.DB, "first-primary");
		await db.batch([
			query
				.deleteFrom("role_bindings")
				.where("api_key_id", "=", shortLived.id)
				.where("role_name", "=", "app_preview")
				.compile(),
		]);
		expect((await cleanUp(shortLived.text, "rule3-parent")).status).toBe(404);
		const left = await db.batch([
			query.selectFrom("role_bindings").select("id").where("api_key_id", "=", shortLived.id).compile(),
		]);
		expect(left[0].rows).toEqual([]);
	});

	test("rule 3: it grants nothing from the millisecond on in which its app_preview binding runs out", async () => {
		const shortLived = await createTestKey(world, "app_preview", app);
		await createChannel(shortLived.text, "rule3-runs-out");
		const runsOutAt = (timeMs: number) =>
			testEnv.DB.prepare(
				"UPDATE role_bindings SET expires_at_ms = ? WHERE api_key_id = ? AND role_name = 'app_preview'",
			)
				.bind(timeMs, shortLived.id)
				.run();
		await runsOutAt(world.clock.nowMs);
		expect((await cleanUp(shortLived.text, "rule3-runs-out")).status).toBe(404);
		await runsOutAt(world.clock.nowMs + 1);
		expect((await cleanUp(shortLived.text, "rule3-runs-out")).status).toBe(200);
	});

	test("rule 4: the key lists the app's channels, and changes none but its own", async () => {
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

	test("rule 5: only the bundle it uploaded itself, by id and by name, in both requests that promote", async () => {
		const foreign = await uploadTestBundle(world, app, "1.0.0-rule5-admin");
		const own = await uploadTestBundle(world, app, "1.0.0-rule5-own", ci.text);
		const channelId = (await createChannel(ci.text, "rule5")).body.id;
		const refused = await Promise.all([
			promote(ci.text, foreign, channelId),
			createChannel(ci.text, "rule5", { version: "1.0.0-rule5-admin" }),
			createChannel(ci.text, "rule5-new", { version: "1.0.0-rule5-admin" }),
		]);
		for (const answer of refused) expect(answer).toMatchObject({ status: 403, body: { error: "permission_denied" } });
		expect((await showChannel("rule5-new")).status).toBe(404);
		expect((await showChannel("rule5")).body.version).toBeNull();
		expect((await promote(ci.text, own, channelId)).status).toBe(200);
		expect((await createChannel(ci.text, "rule5-with-version", { version: "1.0.0-rule5-own" })).status).toBe(201);
	});

	test("rule 5: not another preview key's channel, and not its bundle", async () => {
		const mine = await makePreview(ci, "rule5-mine");
		const theirs = await makePreview(otherCi, "rule5-theirs");
		expect((await promote(otherCi.text, theirs.bundleId, mine.channelId)).status).toBe(404);
		expect((await promote(otherCi.text, mine.bundleId, theirs.channelId)).status).toBe(403);
		expect((await cleanUp(otherCi.text, "rule5-mine")).status).toBe(404);
		expect((await showChannel("rule5-mine")).body.version.name).toBe(mine.version);
		expect((await cleanUp(ci.text, "rule5-mine")).status).toBe(200);
	});

	test("rule 5: a channel that it created is out of its reach from the moment on at which somebody makes it public", async () => {
		const own = await createTestApp(world, "published");
		const key = (await createTestKey(world, "app_preview", own)).text;
		const ask = (method: string, path: string, fields: object, by = key) =>
			world.request(method, path, { key: by, body: { app_id: own.appId, ...fields } });
		const first = await uploadTestBundle(world, own, "1.0.0-pr.1", key);
		await uploadTestBundle(world, own, "1.0.0-pr.2", key);
		const { id } = (await ask("POST", "/channel", { channel: "main", version: "1.0.0-pr.2" })).body;
		expect((await ask("POST", "/channel", { channel: "main", public: true }, world.adminKey)).status).toBe(200);
		const tries = [
			await ask("POST", "/channel", { channel: "main", version: "1.0.0-pr.1" }),
			await ask("PUT", "/bundle", { version_id: first, channel_id: id }),
			await ask("POST", "/channel/rollback", { channel: "main", version: "builtin" }),
			await ask("DELETE", "/channel", { channel: "main", delete_bundle: true }),
		];
		for (const { status } of tries) expect([403, 404]).toContain(status);
		const device = await check(own, "1.0.0", "");
		expect(device.body.version).toBe("1.0.0-pr.2");
		const again = await ask("POST", "/channel", { channel: "main", version: "1.0.0-pr.1" }, world.adminKey);
		expect(again.status).toBe(200);
	});

	test("rule 6: a channel that it makes is never public and never the default one", async () => {
		const isPublic = await createChannel(ci.text, "rule6", { public: true });
		expect(isPublic).toMatchObject({ status: 400, body: { error: "preview_channel_must_be_private" } });
		const isDefault = await createChannel(ci.text, "dev");
		expect(isDefault).toMatchObject({ status: 409, body: { error: "channel_name_reserved" } });
		expect((await createChannel(ci.text, "rule6")).body.public).toBe(false);
		const later = await createChannel(ci.text, "rule6", { public: true });
		expect(later).toMatchObject({ status: 403, body: { error: "permission_denied" } });
		expect((await showChannel("rule6")).body.public).toBe(false);
	});

	test("rule 7: the clean-up removes its own channel with its own bundle and leaves another's bundle alone", async () => {
		const mine = await makePreview(ci, "rule7");
		const foreign = await uploadTestBundle(world, app, "1.0.0-rule7-admin");
		expect((await promote(world.adminKey, foreign, mine.channelId)).status).toBe(200);
		const refused = await cleanUp(ci.text, "rule7");
		expect(refused).toMatchObject({ status: 403, body: { error: "permission_denied" } });
		expect((await showChannel("rule7")).body.version.name).toBe("1.0.0-rule7-admin");
		expect(await showBundle("1.0.0-rule7-admin")).toHaveLength(1);
		await promote(ci.text, mine.bundleId, mine.channelId);
		expect((await cleanUp(ci.text, "rule7")).status).toBe(200);
	});

	test("rule 7: the role gives no bundle.delete: a single bundle cannot be deleted, not even its own", async () => {
		await uploadTestBundle(world, app, "1.0.0-rule7-own", ci.text);
		const remove = (key: string) =>
			world.request("DELETE", "/bundle", { key, query: { app_id: app.appId, version: "1.0.0-rule7-own" } });
		expect(await remove(ci.text)).toMatchObject({ status: 403, body: { moreInfo: { permission: "bundle.delete" } } });
		expect(await remove(world.adminKey)).toMatchObject({ status: 200 });
	});
});

describe("the clean-up is one atomic step", () => {
	test("a bundle that another channel uses is refused, and nothing has changed", async () => {
		const preview = await makePreview(ci, "shared");
		await createChannel(ci.text, "shared-too", { version: preview.version });
		const refused = await cleanUp(ci.text, "shared");
		expect(refused).toMatchObject({
			status: 409,
			body: { error: "bundle_in_use", moreInfo: { channels: ["shared-too"] } },
		});
		expect((await showChannel("shared")).status).toBe(200);
		expect(await showBundle(preview.version)).toHaveLength(1);
	});

	test("channel, binding, bundle and bytes go together, and both names are free again", async () => {
		const preview = await makePreview(ci, "together");
		const db = openDb(testEnv.DB, "first-primary");
		const objectKeys = async () =>
			(
				await db.batch([query.selectFrom("bundles").select("object_key").where("id", "=", preview.bundleId).compile()])
			)[0].rows;
		const [stored] = await objectKeys();
		expect(await testEnv.BUNDLES.head(stored?.object_key ?? "")).not.toBeNull();
		expect((await cleanUp(ci.text, "together")).status).toBe(200);
		expect(await testEnv.BUNDLES.head(stored?.object_key ?? "")).toBeNull();
		const bindings = await db.batch([
			query.selectFrom("role_bindings").select("id").where("channel_id", "=", preview.channelId).compile(),
		]);
		expect(bindings[0].rows).toEqual([]);
		const again = await makePreview(ci, "together");
		expect(again.channelId).not.toBe(preview.channelId);
		expect(again.bundleId).not.toBe(preview.bundleId);
	});

	test("a channel without a bundle is cleaned up as well, and a second clean-up finds nothing", async () => {
		await createChannel(ci.text, "empty");
		expect((await cleanUp(ci.text, "empty")).status).toBe(200);
		expect(await cleanUp(ci.text, "empty")).toMatchObject({ status: 404, body: { error: "channel_not_found" } });
	});

	test("an administrator cleans up any preview, a developer without bundle.delete does not", async () => {
		const developer = await createTestKey(world, "app_developer", app);
		await makePreview(ci, "by-admin");
		expect(await cleanUp(developer.text, "by-admin")).toMatchObject({
			status: 403,
			body: { moreInfo: { permission: "channel.delete" } },
		});
		expect((await cleanUp(world.adminKey, "by-admin")).status).toBe(200);
	});

	test("without delete_bundle the bundle stays", async () => {
		const preview = await makePreview(ci, "bundle-stays");
		const deleted = await world.request("DELETE", "/channel", {
			key: ci.text,
			query: { app_id: app.appId, channel: "bundle-stays" },
		});
		expect(deleted.status).toBe(200);
		expect(await showBundle(preview.version)).toMatchObject([{ channels: [] }]);
	});
});

describe("what others get", () => {
	test("a key of another organization sees nothing at any step, and an expired key is told so", async () => {
		const elsewhere = await createWorld();
		const expiring = await createTestKey(world, "app_preview", app, { expires_at: "2026-11-21T08:00:01Z" });
		const preview = await makePreview(ci, "others");
		const steps = (key: string) => [
			createChannel(key, "others-new"),
			createChannel(key, "others", { version: preview.version }),
			world.request("POST", "/bundle", { key, body: { app_id: app.appId, version: "6.6.6" } }),
			promote(key, preview.bundleId, preview.channelId),
			cleanUp(key, "others"),
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
		expect((await showChannel("others")).body.version.name).toBe(preview.version);
		expect((await showChannel("others-new")).status).toBe(404);
	});

	test("what another organization gets for a channel that exists is what it gets for one that does not", async () => {
		const elsewhere = await createWorld();
		await createChannel(ci.text, "hidden");
		const [existing, missing] = await Promise.all([
			cleanUp(elsewhere.adminKey, "hidden"),
			cleanUp(elsewhere.adminKey, "never-was"),
		]);
		expect({ ...existing.body, requestId: "" }).toEqual({ ...missing.body, requestId: "" });
	});

	test("a preview key of a sibling app is a stranger", async () => {
		const sibling = await createTestApp(world, "sibling");
		const siblingCi = await createTestKey(world, "app_preview", sibling);
		await createChannel(ci.text, "sibling-cannot");
		expect((await cleanUp(siblingCi.text, "sibling-cannot")).status).toBe(404);
		expect((await createChannel(siblingCi.text, "sibling-new")).status).toBe(404);
	});

	test("a channel of the same name in another app is another channel, in neither's way", async () => {
		// Beside it in whichever order the database comes by them.
		const { newId } = world.deps;
		const siblings: TestApp[] = [];
		for (const start of ["00000000", "ffffffff"]) {
			Object.assign(world.deps, { newId: () => `${start}${newId().slice(8)}` });
			siblings.push(await createTestApp(world, "sibling"));
		}
		Object.assign(world.deps, { newId });
		for (const each of siblings) {
			await uploadTestBundle(world, each, "2.0.0");
			await setTestChannel(world, each, "same-name", { version: "2.0.0" });
		}
		const sibling = siblings[0] ?? app;
		const foreign = await setTestChannel(world, sibling, "same-name");
		const reader = await createTestKey(world, "app_reader", app);
		const bundleId = await uploadTestBundle(world, app, "1.0.0-by-id");
		expect((await promote(reader.text, bundleId, foreign)).status, "by its id, it is not there").toBe(404);
		const query = { app_id: sibling.appId, channel: "same-name" };
		const show = async () => (await world.request("GET", "/channel", { key: world.adminKey, query })).body;
		const before = await show();
		await makePreview(ci, "same-name");
		expect((await cleanUp(ci.text, "same-name")).status).toBe(200);
		expect(await show()).toEqual(before);
	});
});

describe("repeating what holds already", () => {
	test("a POST that changes nothing needs no more than sight of the channel, and writes nothing", async () => {
		const created = await createChannel(ci.text, "self-assign", { allow_device_self_set: true });
		expect(created.status).toBe(201);
		const before = (await showChannel("self-assign")).body;
		world.clock.nowMs += 1_000;
		const again = await createChannel(ci.text, "self-assign", { allow_device_self_set: true, public: false });
		world.clock.nowMs -= 1_000;
		expect(again).toMatchObject({ status: 200, body: { status: "ok", id: before.id } });
		expect((await showChannel("self-assign")).body).toEqual(before);
		expect((await createChannel(ci.text, "self-assign", { allow_device_self_set: false })).status).toBe(403);
	});
});

describe("races on one channel", () => {
	test("of two clean-ups one succeeds and the other finds nothing", async () => {
		await makePreview(ci, "race-two");
		const answers = await Promise.all([cleanUp(ci.text, "race-two"), cleanUp(ci.text, "race-two")]);
		expect(answers.map((answer) => answer.status).sort()).toEqual([200, 404]);
	});

	test("a promotion between the clean-up's reading and writing stops it, and the channel keeps what was promoted", async () => {
		const preview = await makePreview(ci, "race-promote");
		const newer = await uploadTestBundle(world, app, "2.0.0-race-promote", ci.text);
		const answer = await readThenWrite(
			world,
			(racing) =>
				racing.request("DELETE", "/channel", {
					key: ci.text,
					query: { app_id: app.appId, channel: "race-promote", delete_bundle: "true" },
				}),
			() => promote(ci.text, newer, preview.channelId),
		);
		expect(answer).toMatchObject({ status: 409, body: { error: "channel_changed" } });
		expect((await showChannel("race-promote")).body.version.name).toBe("2.0.0-race-promote");
		expect(await showBundle(preview.version)).toHaveLength(1);
	});

	test("a clean-up between the promotion's reading and writing leaves no channel that points to nothing", async () => {
		const preview = await makePreview(ci, "race-clean");
		const next = await uploadTestBundle(world, app, "1.0.1-race-clean", ci.text);
		const answer = await readThenWrite(
			world,
			(racing) =>
				racing.request("PUT", "/bundle", {
					key: ci.text,
					body: { app_id: app.appId, version_id: next, channel_id: preview.channelId },
				}),
			() => cleanUp(ci.text, "race-clean"),
		);
		expect(answer).toMatchObject({ status: 404, body: { error: "channel_not_found" } });
		expect((await showChannel("race-clean")).status).toBe(404);
	});

	test("a bundle that another channel took in between is not deleted", async () => {
		const preview = await makePreview(ci, "race-shared");
		const answer = await readThenWrite(
			world,
			(racing) =>
				racing.request("DELETE", "/channel", {
					key: ci.text,
					query: { app_id: app.appId, channel: "race-shared", delete_bundle: "true" },
				}),
			() => createChannel(ci.text, "race-shared-taker", { version: preview.version }),
		);
		expect(answer).toMatchObject({ status: 409, body: { error: "bundle_in_use" } });
		expect((await showChannel("race-shared")).status).toBe(200);
		expect((await showChannel("race-shared-taker")).body.version.name).toBe(preview.version);
	});

	test("a key that is revoked while it creates a channel leaves no channel behind", async () => {
		const doomed = await createTestKey(world, "app_preview", app);
		const answer = await readThenWrite(
			world,
			(racing) =>
				racing.request("POST", "/channel", { key: doomed.text, body: { app_id: app.appId, channel: "race-revoked" } }),
			() => world.request("DELETE", `/apikey/${doomed.id}`, { key: world.adminKey }),
		);
		expect(answer).toMatchObject({ status: 401, body: { error: "invalid_api_key" } });
		expect((await showChannel("race-revoked")).status).toBe(404);
	});

	test("of two creations of one name one succeeds and the other is told that the channel changed", async () => {
		const answer = await readThenWrite(
			world,
			(racing) =>
				racing.request("POST", "/channel", { key: ci.text, body: { app_id: app.appId, channel: "race-name" } }),
			() => createChannel(otherCi.text, "race-name"),
		);
		expect(answer).toMatchObject({ status: 409, body: { error: "channel_changed" } });
		expect((await cleanUp(ci.text, "race-name")).status).toBe(404);
		expect((await cleanUp(otherCi.text, "race-name")).status).toBe(200);
	});
});
