/**
 * The stock CLI's own requests where the CLI itself cannot show it: shapes that are not on the list, the mark between the two calls of
 * its clean-up, registrations, and what a preview key is told.
 */
import { sql } from "kysely";
import { beforeAll, describe, expect, test } from "vitest";
import { openDb, query } from "../../src/db/client";
import { sweep } from "../../src/events/sweep";
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
} from "./support/world";

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
const update = async (defaultChannel: string) =>
	(
		await world.request("POST", "/updates", {
			body: {
				app_id: app.appId,
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
	test("a known shape is answered as an array, or as the one object that is asked for", async () => {
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
	])("%s is refused", async (_, parameters) => {
		expect(await channels(parameters)).toMatchObject({ status: 400, body: { error: "invalid_request" } });
	});

	test("the newest bundle is told for --auto-bump, and nothing else about bundles", async () => {
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

	test("the upload channel can be chosen, and a setting that is not there is refused rather than dropped", async () => {
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

	test("an organization is shown to its own keys alone", async () => {
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

	test("an organization is created for the key's own account, by a key that may", async () => {
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

	test("a preview key is told what it may do, and that it may not delete bundles, so that the CLI cleans up in one call", async () => {
		const own = (
			await world.request("POST", "/channel", { key: ci.text, body: { app_id: app.appId, channel: "asked" } })
		).body.id;
		const foreign = await setTestChannel(world, app, "foreign");
		expect(await ask(ci.text, "app.upload_bundle")).toBe(true);
		expect(await ask(ci.text, "app.read_channels")).toBe(true);
		expect(await ask(ci.text, "bundle.delete")).toBe(false);
		expect(await ask(ci.text, "channel.delete", { channel_id: own })).toBe(true);
		expect(await ask(ci.text, "channel.delete", { channel_id: foreign })).toBe(false);
		expect(await ask(ci.text, "channel.update_settings", { channel_id: own })).toBe(false);
	});

	test("a channel is asked for its own version, and each key for its own account", async () => {
		const fresh = await createTestApp(world);
		const tell = async (key: string, name: string, body: Record<string, unknown> = {}) =>
			(await world.request("POST", `${PREFIX}/rpc/${name}`, { key, body: { apikey: key, ...body } })).body;
		const current = (channel: number) =>
			tell(world.adminKey, "get_channel_current_bundle_rbac", { p_app_id: fresh.appId, p_channel_id: channel });
		for (const version of ["0.1.0", "0.2.0"]) {
			await uploadTestBundle(world, fresh, version);
			const channel = await setTestChannel(world, fresh, `current-${version}`, { version });
			expect(await current(channel)).toEqual([{ bundle_name: version }]);
		}
		expect(await current(await setTestChannel(world, fresh, "current-none"))).toEqual([{ bundle_name: "builtin" }]);
		for (const one of [world, await createWorld()]) {
			const account = testEnv.DB.prepare("SELECT email FROM users WHERE id = ?").bind(one.userId);
			expect(await tell(one.adminKey, "request_actor_email_adress")).toBe(await account.first("email"));
		}
	});

	test("an unknown name, an unknown app, another app's channel and another organization are denied", async () => {
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
	test("between them the bundle is marked and devices keep it; the second call ends where the one atomic call ends", async () => {
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

	test("a mark that is taken back leaves the bundle when its channel goes", async () => {
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

	test("the CLI takes marks back by a list of versions; deleting by a list is refused", async () => {
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

	test("mark and taking back are in the audit log once each, however often they are asked for", async () => {
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

	test("a mark by id needs bundle.delete on the bundle's own app", async () => {
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

	test("a marked bundle that another channel uses stays with it", async () => {
		await uploadTestBundle(world, app, "1.0.3");
		await setTestChannel(world, app, "first", { version: "1.0.3" });
		await setTestChannel(world, app, "second", { version: "1.0.3" });
		await markDeleted("1.0.3", true);
		await world.request("DELETE", "/channel", { key: world.adminKey, query: { app_id: app.appId, channel: "first" } });
		expect(await versions()).toContain("1.0.3");
		await world.request("DELETE", "/channel", { key: world.adminKey, query: { app_id: app.appId, channel: "second" } });
		expect(await versions()).not.toContain("1.0.3");
	});

	test("a mark whose second call never comes is taken back by the sweep", async () => {
		await uploadTestBundle(world, app, "1.0.4");
		await setTestChannel(world, app, "abandoned", { version: "1.0.4" });
		await markDeleted("1.0.4", true);
		world.clock.nowMs = NOW_MS + 2 * 60 * 60 * 1000;
		await sweep(world.deps);
		world.clock.nowMs = NOW_MS;
		await world.request("DELETE", "/channel", {
			key: world.adminKey,
			query: { app_id: app.appId, channel: "abandoned" },
		});
		expect(await versions()).toContain("1.0.4");
	});

	test("an unlinked bundle is deleted at once, and a key without bundle.delete changes nothing", async () => {
		await uploadTestBundle(world, app, "1.0.5", ci.text);
		expect((await markDeleted("1.0.5", true, ci.text)).status).toBe(403);
		expect(await versions()).toContain("1.0.5");
		await markDeleted("1.0.5", true);
		expect(await versions()).not.toContain("1.0.5");
	});
});

describe("registrations", () => {
	const upsert = (body: Record<string, unknown>, key: string) =>
		world.request("POST", `${PREFIX}/app_versions`, {
			key,
			query: { on_conflict: "name,app_id", app_id: `eq.${app.appId}` },
			body: { app_id: app.appId, storage_provider: "r2-direct", ...body },
		});

	test("a second upsert after the upload changes nothing, neither the creator nor the manifest", async () => {
		expect((await upsert({ name: "2.0.0", checksum: "ab".repeat(32) }, ci.text)).status).toBe(201);
		const link = await world.request("POST", "/files/upload_link", {
			key: ci.text,
			body: { app_id: app.appId, name: "2.0.0" },
		});
		const wrong = await world.request("PUT", link.body.url, { rawBody: "bytes", headers: { "content-length": "5" } });
		expect(wrong).toMatchObject({ status: 400, body: { error: "checksum_mismatch" } });
		await uploadTestBundle(world, app, "2.0.0", ci.text);
		expect((await upsert({ name: "2.0.0", storage_provider: "r2", manifest: null }, ci.text)).status).toBe(201);
		expect((await upsert({ name: "2.0.0", storage_provider: "r2", manifest: null }, world.adminKey)).status).toBe(403);
		const [row] = (
			await openDb(testEnv.DB, "first-primary").batch([
				query
					.selectFrom("bundles")
					.select(["created_by_key", "status"])
					.where("app_id", "=", app.uuid)
					.where("name", "=", "2.0.0")
					.compile(),
			])
		)[0].rows;
		expect(row).toEqual({ created_by_key: ci.id, status: "ready" });
	});

	test("the end of an upload that was never begun, and one whose filter names another bundle, are refused", async () => {
		expect(await upsert({ name: "2.9.9", storage_provider: "r2" }, ci.text)).toMatchObject({
			status: 404,
			body: { error: "bundle_not_found" },
		});
		const other = await world.request("POST", `${PREFIX}/app_versions`, {
			key: ci.text,
			query: { app_id: `eq.${app.appId}`, name: "eq.2.9.8" },
			body: { app_id: app.appId, name: "2.9.9", storage_provider: "r2-direct" },
		});
		expect(other).toMatchObject({ status: 400, body: { error: "conflicting_parameters" } });
	});

	test("whether a version is taken is answered as its registration then is", async () => {
		const isTaken = async (key: string) =>
			(
				await world.request("POST", `${PREFIX}/rpc/exist_app_versions`, {
					key,
					body: { appid: app.appId, name_version: "2.1.0" },
				})
			).body;
		expect(await isTaken(ci.text)).toBe(false);
		await upsert({ name: "2.1.0" }, ci.text);
		expect(await isTaken(ci.text)).toBe(false);
		expect(await isTaken(world.adminKey)).toBe(true);
		expect((await upsert({ name: "2.1.0" }, world.adminKey)).status).toBe(409);
		world.clock.nowMs = NOW_MS + 25 * 60 * 60 * 1000;
		expect(await isTaken(world.adminKey)).toBe(false);
		expect((await upsert({ name: "2.1.0" }, world.adminKey)).status).toBe(201);
		world.clock.nowMs = NOW_MS;
	});

	test("an upload that failed is taken back by its own key, and by no other", async () => {
		await upsert({ name: "2.0.1" }, ci.text);
		const takeBack = (key: string) =>
			world.request("DELETE", "/private/delete_failed_version", { key, body: { app_id: app.appId, name: "2.0.1" } });
		expect((await takeBack(world.adminKey)).status).toBe(403);
		expect((await takeBack(ci.text)).status).toBe(200);
		expect((await upsert({ name: "2.0.1" }, world.adminKey)).status).toBe(201);
	});

	test("a manifest with a path out of the bundle, a repeated file or none at all is refused", async () => {
		await upsert({ name: "2.0.2" }, ci.text);
		const set = (manifest: unknown) =>
			world.request("POST", "/private/set_manifest", {
				key: ci.text,
				body: { app_id: app.appId, name: "2.0.2", manifest },
			});
		const file = (file_name: string) => ({ file_name, s3_path: "orgs/x", file_hash: "ab" });
		for (const name of ["../../etc/passwd", "/etc/passwd", "a/../../b", "C:\\x"]) {
			expect(await set([file(name)]), name).toMatchObject({
				status: 400,
				body: { moreInfo: { issues: [{ path: "manifest.0.file_name" }] } },
			});
		}
		expect((await set([file("a"), file("b"), file("a")])).body.moreInfo).toEqual({
			issues: [{ path: "manifest.2.file_name", message: "is named twice", received: "a" }],
		});
		expect((await set([])).status).toBe(400);
		expect(await set([file("a")])).toMatchObject({ status: 400, body: { error: "missing_delta_files" } });
	});
});

describe("manifests", () => {
	const pathOf = (file: string) => `orgs/${world.orgId}/apps/${app.appId}/delta/${file}`;
	async function store(files: readonly string[]): Promise<void> {
		const db = openDb(testEnv.DB, "first-primary");
		for (let first = 0; first < files.length; first += 2000) {
			const part = JSON.stringify(files.slice(first, first + 2000).map(pathOf));
			await db.batch([
				sql`INSERT INTO delta_objects (app_id, path, object_key, size_bytes, last_claimed_at_ms)
					SELECT ${app.uuid}, value, value, 1, ${NOW_MS} FROM json_each(${part})`.compile(query),
			]);
		}
	}
	const entry = (file: string) => ({ file_name: file, s3_path: pathOf(file), file_hash: "ab".repeat(32) });
	const set = (name: string, manifest: unknown) =>
		world.request("POST", "/private/set_manifest", {
			key: world.adminKey,
			body: { app_id: app.appId, name, manifest },
		});
	const register = (version: string) =>
		world.request("POST", "/bundle", { key: world.adminKey, body: { app_id: app.appId, version } });

	test("one that is set is there for good: the same again is fine, more, less or other files are refused", async () => {
		await store(["index.html", "b.js", "c.js"]);
		await register("3.0.0");
		const manifest = [entry("index.html"), entry("b.js")];
		expect((await set("3.0.0", manifest)).status).toBe(200);
		expect((await set("3.0.0", manifest.toReversed())).status).toBe(200);
		const refused = { status: 409, body: { error: "bundle_already_ready" } };
		expect(await set("3.0.0", [...manifest, entry("c.js")])).toMatchObject(refused);
		expect(await set("3.0.0", [entry("index.html")])).toMatchObject(refused);
		expect(await set("3.0.0", [entry("index.html"), entry("c.js")])).toMatchObject(refused);
		expect(await set("3.0.0", [entry("index.html"), { ...entry("b.js"), file_hash: "cd".repeat(32) }])).toMatchObject(
			refused,
		);
		expect(await set("3.0.0", [entry("index.html"), { ...entry("b.js"), s3_path: pathOf("c.js") }])).toMatchObject(
			refused,
		);
	});

	test("one key cannot name what another keeps for itself, even by its inner path", async () => {
		await register("3.0.1");
		const manifest = [{ ...entry("a.js"), s3_path: `${ci.id}:${pathOf("a.js")}` }];
		expect(await set("3.0.1", manifest)).toMatchObject({
			status: 400,
			body: { moreInfo: { issues: [{ path: "manifest.0.s3_path" }] } },
		});
	});

	test("ten thousand files are set in two round trips, once and again, and reach a device", async () => {
		const files = Array.from({ length: 10_000 }, (_, index) =>
			index === 0 ? "index.html.br" : `assets/chunks/one-of-very-many-files-${index}.js.br`,
		);
		await store(files);
		await register("1.9.0");
		const manifest = files.map(entry);
		for (let time = 0; time < 2; time += 1) {
			const answer = await set("1.9.0", manifest);
			expect(answer.status, JSON.stringify(answer.body)).toBe(200);
			expect(answer.headers.get("server-timing")).toContain("trips=2");
		}
		expect((await set("1.9.0", manifest.slice(0, -1))).status).toBe(409);
		const missing = await set("1.9.0", [...manifest.slice(0, -1), entry("not-there.js")]);
		expect(missing).toMatchObject({
			status: 400,
			body: { error: "missing_delta_files", moreInfo: { count: 1, files: [pathOf("not-there.js")] } },
		});
		const finalized = await world.request("POST", "/private/finalize_bundle_upload", {
			key: world.adminKey,
			body: { app_id: app.appId, name: "1.9.0" },
		});
		expect(finalized.status).toBe(200);
		await setTestChannel(world, app, "many-files", { version: "1.9.0", allow_device_self_set: true });
		const answer = await update("many-files");
		expect(answer.version).toBe("1.9.0");
		expect(answer.manifest).toHaveLength(files.length);
	});
});
