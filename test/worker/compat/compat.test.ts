/**
 * Requests of the stock CLI that the CLI itself cannot test: shapes that are not listed, the mark
 * between the two calls of its clean-up, registrations, and the answers to a preview key.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { openDb, query } from "../../../src/db/client";
import { runJobs } from "../../../src/schedule";
import {
	createTestApp,
	createTestKey,
	createWorld,
	NOW_MS,
	setTestChannel,
	type TestApp,
	type TestKey,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

const PREFIX = "/compat/capgo-cli/rest/v1";
let world: World;
let app: TestApp;
let ci: TestKey;

beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	ci = await createTestKey(world, "app_preview", app);
});

const channels = (parameters: Record<string, string>, headers: Record<string, string> = {}) =>
	world.request("GET", `${PREFIX}/channels`, {
		key: world.adminKey,
		query: { app_id: `eq.${app.appId}`, ...parameters },
		headers,
	});

const markDeleted = (version: string, deleted: boolean, key: string = world.adminKey) =>
	world.request("PATCH", `${PREFIX}/app_versions`, {
		key,
		query: { app_id: `eq.${app.appId}`, deleted: "eq.false", name: `eq.${version}` },
		body: { deleted },
	});

const versions = async () =>
	(await world.request("GET", "/bundle", { key: world.adminKey, query: { app_id: app.appId } })).body.map(
		(bundle: { name: string }) => bundle.name,
	);

const update = async (defaultChannel: string, of = app) =>
	(
		await world.request("POST", "/updates", {
			body: {
				app_id: of.appId,
				device_id: crypto.randomUUID(),
				version_name: "builtin",
				version_build: "1.0.0",
				platform: "android",
				plugin_version: "8.51.23",
				defaultChannel,
			},
		})
	).body;
const served = async (defaultChannel: string) => (await update(defaultChannel)).version;

describe("table-shaped reads", () => {
	test("answer a listed shape as an array, or as a single object on request", async () => {
		const id = await setTestChannel(world, app, "shape");
		expect((await channels({ select: "id, version", name: "eq.shape" })).body).toEqual([{ id, version: null }]);
		const single = { accept: "application/vnd.pgrst.object+json" };
		expect((await channels({ select: "id,version", name: "eq.shape" }, single)).body).toEqual({ id, version: null });
		expect(await channels({ select: "id,version", name: "eq.nowhere" }, single)).toMatchObject({
			status: 406,
			body: { code: "PGRST116" },
		});
	});

	test.each<[string, Record<string, string>]>([
		["another select", { select: "id,created_by_key" }],
		["every column of another table", { select: "*,app_versions(*)" }],
		["a prototype", { select: "__proto__" }],
		["another operator", { select: "id", name: "like.*" }],
		["another or", { select: "id", or: "(public.eq.true,id.gt.0)" }],
		["a filter that is not known", { select: "id", public: "eq.true" }],
		["an order", { select: "id", order: "name" }],
	])("refuse %s", async (_, parameters) => {
		expect(await channels(parameters)).toMatchObject({ status: 400, body: { error: "invalid_request" } });
	});

	test("show the newest bundle for --auto-bump, and nothing else about bundles", async () => {
		const fresh = await createTestApp(world);
		const newest = (query: Record<string, string>) =>
			world.request("GET", `${PREFIX}/app_versions`, {
				key: world.adminKey,
				query: { app_id: `eq.${fresh.appId}`, order: "created_at.desc", limit: "1", ...query },
			});
		expect((await newest({ select: "name" })).body).toEqual([]);
		await uploadTestBundle(world, fresh, "1.0.0");
		const id = await uploadTestBundle(world, fresh, "1.0.1");
		expect((await newest({ select: "name" })).body).toEqual([{ name: "1.0.1" }]);
		expect((await newest({ select: "id, name" })).body).toEqual([{ id, name: "1.0.1" }]);
		for (const query of [
			{ select: "*" },
			{ select: "name", limit: "2" },
			{ select: "name", order: "id" },
			{ select: "name", name: "eq.1" },
		]) {
			expect((await newest(query)).status, JSON.stringify(query)).toBe(400);
		}
	});

	test("set the upload channel, and refuse a setting that does not exist here", async () => {
		const fresh = await createTestApp(world);
		const set = (body: unknown) =>
			world.request("PATCH", `${PREFIX}/apps`, { key: world.adminKey, query: { app_id: `eq.${fresh.appId}` }, body });
		expect((await set({ default_upload_channel: "nightly" })).status).toBe(204);
		const read = await world.request("GET", `${PREFIX}/apps`, {
			key: world.adminKey,
			query: { app_id: `eq.${fresh.appId}`, select: "default_upload_channel" },
		});
		expect(read.body).toEqual([{ default_upload_channel: "nightly" }]);
		expect((await set({ default_upload_channel: "dev", allow_preview: true })).status).toBe(204);
		expect((await world.request("GET", `/app/${fresh.appId}`, { key: world.adminKey })).body).toMatchObject({
			default_upload_channel: "dev",
			allow_preview: true,
		});
		expect(await set({ allow_preview: false, plan: "free" })).toMatchObject({
			status: 400,
			body: { moreInfo: { issues: [{ path: "plan" }] } },
		});
	});

	test("show an organization only to its own keys", async () => {
		const read = (orgId: string) =>
			world.request("GET", `${PREFIX}/orgs`, {
				key: world.adminKey,
				query: {
					select:
						"name,enforcing_2fa,password_policy_config,require_apikey_expiration,max_apikey_expiration_days,enforce_hashed_api_keys",
					id: `eq.${orgId}`,
				},
				headers: { accept: "application/vnd.pgrst.object+json" },
			});
		expect(await read(world.orgId)).toMatchObject({ status: 200, body: { enforcing_2fa: false } });
		expect((await read((await createWorld()).orgId)).status).toBe(404);
		await world.request("POST", "/organization", {
			key: world.adminKey,
			body: { orgId: world.orgId, max_apikey_expiration_days: 365, dry_run: true },
		});
		expect((await read(world.orgId)).body).toMatchObject({
			require_apikey_expiration: false,
			max_apikey_expiration_days: null,
			enforce_hashed_api_keys: false,
		});
		const policies = { require_apikey_expiration: true, max_apikey_expiration_days: 30, enforce_hashed_api_keys: true };
		const admin = await createTestKey(world, "org_super_admin", undefined, { expires_at: "2026-11-30T08:00:00Z" });
		const switchTo = (key: string, fields: object) =>
			world.request("POST", "/organization", { key, body: { orgId: world.orgId, ...fields } });
		expect((await switchTo(world.adminKey, policies)).status).toBe(200);
		const shown = await world.request("GET", `${PREFIX}/orgs`, {
			key: admin.text,
			query: {
				select:
					"name,management_email,created_by,enforcing_2fa,password_policy_config,require_apikey_expiration,max_apikey_expiration_days,enforce_hashed_api_keys",
				id: `eq.${world.orgId}`,
			},
		});
		expect(shown.body).toMatchObject([policies]);
		await switchTo(admin.text, {
			require_apikey_expiration: false,
			max_apikey_expiration_days: 0,
			enforce_hashed_api_keys: false,
		});
	});

	test("create an organization for the key's account, with a key that may", async () => {
		const add = (key: string) =>
			world.request("POST", `${PREFIX}/orgs`, {
				key,
				query: { select: "*" },
				body: { name: "Added", management_email: "ada@example.com", created_by: crypto.randomUUID() },
				headers: { accept: "application/vnd.pgrst.object+json" },
			});
		const { status, body } = await add(world.adminKey);
		expect({ status, body }).toEqual({ status: 200, body: { id: expect.any(String), name: "Added" } });
		const made = await world.request("GET", "/organization", { key: world.adminKey, query: { orgId: body.id } });
		expect(made.body).toMatchObject({ created_by: world.userId, management_email: "ada@example.com" });
		const refused = await add((await createTestKey(world, "org_super_admin")).text);
		expect(refused).toMatchObject({ status: 403, body: { moreInfo: { permission: "org.create" } } });
	});
});

describe("permission questions", () => {
	const ask = async (key: string, permission_key: string, more: Record<string, unknown> = {}) =>
		(
			await world.request("POST", `${PREFIX}/rpc/cli_check_permission`, {
				key,
				body: { apikey: key, permission_key, org_id: null, app_id: app.appId, channel_id: null, ...more },
			})
		).body;

	test("grant a preview key its own work, and not bundle.delete, so that the CLI cleans up in one call", async () => {
		const own = (
			await world.request("POST", "/channel", { key: ci.text, body: { app_id: app.appId, channel: "pr-asked" } })
		).body.id;
		const foreign = await setTestChannel(world, app, "foreign");
		expect(await ask(ci.text, "app.upload_bundle")).toBe(true);
		expect(await ask(ci.text, "app.read_channels")).toBe(true);
		expect(await ask(ci.text, "bundle.delete")).toBe(false);
		expect(await ask(ci.text, "channel.delete", { channel_id: own })).toBe(true);
		expect(await ask(ci.text, "channel.delete", { channel_id: foreign })).toBe(false);
		expect(await ask(ci.text, "channel.update_settings", { channel_id: own })).toBe(false);
	});

	test("answer with a channel's version and with the key's account", async () => {
		const fresh = await createTestApp(world);
		const call = async (key: string, name: string, body: Record<string, unknown> = {}) =>
			(await world.request("POST", `${PREFIX}/rpc/${name}`, { key, body: { apikey: key, ...body } })).body;
		const current = (channel: number) =>
			call(world.adminKey, "get_channel_current_bundle_rbac", { p_app_id: fresh.appId, p_channel_id: channel });
		for (const version of ["0.1.0", "0.2.0"]) {
			await uploadTestBundle(world, fresh, version);
			const channel = await setTestChannel(world, fresh, `current-${version}`, { version });
			expect(await current(channel)).toEqual([{ bundle_name: version }]);
		}
		expect(await current(await setTestChannel(world, fresh, "current-none"))).toEqual([{ bundle_name: "builtin" }]);
		for (const one of [world, await createWorld()]) {
			const account = testEnv.DB.prepare("SELECT email FROM users WHERE id = ?").bind(one.userId);
			expect(await call(one.adminKey, "request_actor_email_adress")).toBe(await account.first("email"));
		}
	});

	test("deny an unknown name, an unknown app, another app's channel and another organization", async () => {
		expect(await ask(world.adminKey, "app.everything")).toBe(false);
		expect(await ask(world.adminKey, "toString")).toBe(false);
		expect(await ask(world.adminKey, "app.read", { app_id: "com.not.there" })).toBe(false);
		const elsewhere = await setTestChannel(world, await createTestApp(world), "elsewhere");
		expect(await ask(world.adminKey, "channel.delete", { channel_id: elsewhere })).toBe(false);
		const other = await createWorld();
		expect(await ask(other.adminKey, "app.read")).toBe(false);
		expect(await ask(world.adminKey, "org.create_app", { app_id: null, org_id: world.orgId })).toBe(true);
	});
});

describe("the two calls of an administrator's clean-up", () => {
	test("mark the bundle and keep it for devices in between; the second call has the result of the atomic call", async () => {
		await uploadTestBundle(world, app, "1.0.1");
		await setTestChannel(world, app, "two-calls", { version: "1.0.1", allow_device_self_set: true });
		expect((await markDeleted("1.0.1", true)).status).toBe(204);
		expect(await served("two-calls")).toBe("1.0.1");
		const deleted = await world.request("DELETE", "/channel", {
			key: world.adminKey,
			body: { app_id: app.appId, channel: "two-calls", delete_bundle: false },
		});
		expect(deleted.status).toBe(200);
		expect(await versions()).not.toContain("1.0.1");
		await uploadTestBundle(world, app, "1.0.1");
	});

	test("keep the bundle when its channel is deleted, if the mark was removed", async () => {
		await uploadTestBundle(world, app, "1.0.2");
		await setTestChannel(world, app, "taken-back", { version: "1.0.2" });
		await markDeleted("1.0.2", true);
		expect((await markDeleted("1.0.2", false)).status).toBe(204);
		await world.request("DELETE", "/channel", {
			key: world.adminKey,
			query: { app_id: app.appId, channel: "taken-back" },
		});
		expect(await versions()).toContain("1.0.2");
	});

	test("remove marks by a list of versions, and refuse to delete by a list", async () => {
		const patch = (name: string, deleted: boolean) =>
			world.request("PATCH", `${PREFIX}/app_versions`, {
				key: world.adminKey,
				query: { app_id: `eq.${app.appId}`, name },
				body: { deleted },
			});
		const names = ["1.0.11", "1.0.12"];
		for (const name of names) {
			await uploadTestBundle(world, app, name);
			await setTestChannel(world, app, `list-${name}`, { version: name });
			await markDeleted(name, true);
		}
		expect((await patch("in.(1.0.11,1.0.12)", true)).status).toBe(400);
		expect((await patch('in.("1.0.11",1.0.12)', false)).status).toBe(204);
		for (const name of names) {
			await world.request("DELETE", "/channel", {
				key: world.adminKey,
				query: { app_id: app.appId, channel: `list-${name}` },
			});
		}
		expect(await versions()).toEqual(expect.arrayContaining(names));
		for (const filter of ["in.()", "in.(1.0.11", "gt.1", 'in.(1.0.11,"x)', "1.0.11"]) {
			expect((await patch(filter, false)).status, filter).toBe(400);
		}
	});

	test("write one audit entry for each change of a mark, however often it is requested", async () => {
		const id = await uploadTestBundle(world, app, "1.0.13");
		await setTestChannel(world, app, "audited", { version: "1.0.13" });
		for (const deleted of [true, true, false, false]) await markDeleted("1.0.13", deleted);
		const [log] = await openDb(testEnv.DB, "first-primary").batch([
			query
				.selectFrom("audit_log")
				.select("action")
				.where("org_id", "=", world.orgId)
				.where("target_type", "=", "bundle")
				.where("target_id", "=", String(id))
				.where("action", "in", ["bundle.mark_for_deletion", "bundle.keep"])
				.orderBy("id")
				.compile(),
		]);
		expect(log.rows.map(({ action }) => action)).toEqual(["bundle.mark_for_deletion", "bundle.keep"]);
	});

	test("need bundle.delete on the bundle's own app for a mark by id", async () => {
		const id = await uploadTestBundle(world, app, "1.0.14");
		const byId = (key: string, bundle = id) =>
			world.request("PATCH", `${PREFIX}/app_versions`, { key, query: { id: `eq.${bundle}` }, body: { deleted: true } });
		expect((await byId((await createWorld()).adminKey)).status).toBe(404);
		const siblingApp = await createTestApp(world);
		const sibling = await createTestKey(world, "app_admin", siblingApp);
		expect((await byId(sibling.text)).status).toBe(404);
		expect(await versions()).toContain("1.0.14");
		expect((await byId(world.adminKey)).status).toBe(204);
		expect(await versions()).not.toContain("1.0.14");
		const ofSibling = await uploadTestBundle(world, siblingApp, "1.0.14");
		expect((await byId(sibling.text, ofSibling)).status).toBe(204);
	});

	test("keep a marked bundle that another channel uses", async () => {
		await uploadTestBundle(world, app, "1.0.3");
		await setTestChannel(world, app, "first", { version: "1.0.3" });
		await setTestChannel(world, app, "second", { version: "1.0.3" });
		await markDeleted("1.0.3", true);
		await world.request("DELETE", "/channel", { key: world.adminKey, query: { app_id: app.appId, channel: "first" } });
		expect(await versions()).toContain("1.0.3");
		await world.request("DELETE", "/channel", { key: world.adminKey, query: { app_id: app.appId, channel: "second" } });
		expect(await versions()).not.toContain("1.0.3");
	});

	test("lose the mark to the clean-up if the second call never comes", async () => {
		await uploadTestBundle(world, app, "1.0.4");
		await setTestChannel(world, app, "abandoned", { version: "1.0.4" });
		await markDeleted("1.0.4", true);
		world.clock.nowMs = NOW_MS + 2 * 60 * 60 * 1000;
		await runJobs(world.deps);
		world.clock.nowMs = NOW_MS;
		await world.request("DELETE", "/channel", {
			key: world.adminKey,
			query: { app_id: app.appId, channel: "abandoned" },
		});
		expect(await versions()).toContain("1.0.4");
	});

	test("delete an unused bundle immediately, and change nothing for a key without bundle.delete", async () => {
		await uploadTestBundle(world, app, "1.0.5", ci.text);
		expect((await markDeleted("1.0.5", true, ci.text)).status).toBe(403);
		expect(await versions()).toContain("1.0.5");
		await markDeleted("1.0.5", true);
		expect(await versions()).not.toContain("1.0.5");
	});
});
