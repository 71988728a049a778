/** Uploads through the tables of the stock CLI: registrations and manifests. */
import { sql } from "kysely";
import { beforeAll, describe, expect, test } from "vitest";
import { openDb, query } from "../../../src/db/client";
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

describe("registrations", () => {
	const upsert = (body: Record<string, unknown>, key: string) =>
		world.request("POST", `${PREFIX}/app_versions`, {
			key,
			query: { on_conflict: "name,app_id", app_id: `eq.${app.appId}` },
			body: { app_id: app.appId, storage_provider: "r2-direct", ...body },
		});

	test("change neither creator nor manifest by a second upsert after the upload", async () => {
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

	test("refuse to complete an upload that never started, and a filter that names another bundle", async () => {
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

	test("succeed for exactly the versions that exist_app_versions calls free", async () => {
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

	test("can be deleted after a failed upload by their own key only", async () => {
		await upsert({ name: "2.0.1" }, ci.text);
		const takeBack = (key: string) =>
			world.request("DELETE", "/private/delete_failed_version", { key, body: { app_id: app.appId, name: "2.0.1" } });
		expect((await takeBack(world.adminKey)).status).toBe(403);
		expect((await takeBack(ci.text)).status).toBe(200);
		expect((await upsert({ name: "2.0.1" }, world.adminKey)).status).toBe(201);
	});

	test("refuse a manifest with a path out of the bundle, a repeated file or no file", async () => {
		await upsert({ name: "2.0.2" }, ci.text);
		const set = (manifest: unknown) =>
			world.request("POST", "/private/set_manifest", {
				key: ci.text,
				body: { app_id: app.appId, name: "2.0.2", manifest },
			});
		const file = (file_name: string) => ({ file_name, s3_path: "orgs/x", file_hash: "ab".repeat(32) });
		for (const name of ["../../etc/passwd", "/etc/passwd", "a/../../b", "C:\\x"]) {
			expect(await set([file(name)]), name).toMatchObject({
				status: 400,
				body: { moreInfo: { issues: [{ path: "manifest.0.file_name" }] } },
			});
		}
		expect((await set([file("a"), file("b"), file("a")])).body.moreInfo).toEqual({
			issues: [{ path: "manifest.2.file_name", message: "is named twice", received: "a" }],
		});
		for (const name of ["a//b", "a/", "a/./b", `a/${"é".repeat(128)}`]) {
			expect((await set([file(name)])).body.moreInfo, name).toMatchObject({
				issues: [{ path: "manifest.0.file_name" }],
			});
		}
		const SAME: readonly (readonly [string, string])[] = [
			["app.js", "app.js.br"],
			["app.js.br", "app.js"],
			["a", "a/b.js"],
			["a/b.js", "a"],
			["a.br", "a/b.js"],
			["Icon.png", "icon.png.br"],
			["\u00e9.png", "e\u0301.png"],
		];
		for (const [one, other] of SAME) {
			expect(await set([file("index.html"), file(one), file(other)]), `${one}, ${other}`).toMatchObject({
				status: 400,
				body: { moreInfo: { issues: [{ path: "manifest.2.file_name", received: other }] } },
			});
		}
		const different = await set([file("a.js.br"), file("a.js.br.map"), file("b/a.js")]);
		expect(different, "other names").toMatchObject({ status: 400, body: { error: "missing_delta_files" } });
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
			mostTrips: 3,
			body: { app_id: app.appId, name, manifest },
		});
	const register = (version: string) =>
		world.request("POST", "/bundle", { key: world.adminKey, body: { app_id: app.appId, version } });

	test("are immutable: the same manifest again succeeds, more, fewer or other files are refused", async () => {
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

	test("cannot name a private file of another key, even by its inner path", async () => {
		await register("3.0.1");
		const manifest = [{ ...entry("a.js"), s3_path: `${ci.id}:${pathOf("a.js")}` }];
		expect(await set("3.0.1", manifest)).toMatchObject({
			status: 400,
			body: { moreInfo: { issues: [{ path: "manifest.0.s3_path" }] } },
		});
	});

	test("of ten thousand files are set in two round trips after the look-up of the key, repeatedly, and reach a device", async () => {
		const files = Array.from({ length: 10_000 }, (_, index) =>
			index === 0 ? "index.html.br" : `assets/chunks/one-of-very-many-files-${index}.js.br`,
		);
		await store(files);
		await register("1.9.0");
		const manifest = files.map(entry);
		for (let time = 0; time < 2; time += 1) {
			const answer = await set("1.9.0", manifest);
			expect(answer.status, JSON.stringify(answer.body)).toBe(200);
			expect(answer.headers.get("server-timing")).toContain("trips=3");
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

	test("are refused once a channel serves the bundle, and if a file differs from the first manifest", async () => {
		const own = await createTestApp(world, "set-once");
		const ci = await createTestKey(world, "app_preview", own);
		const path = (name: string) => `orgs/${world.orgId}/apps/${own.appId}/delta/abc_${name}`;
		for (const name of ["index.html", "evil.js"]) {
			await world.request("POST", "/files/upload/attachments", {
				key: ci.text,
				headers: { "tus-resumable": "1.0.0", "upload-length": "0", "upload-metadata": `filename ${btoa(path(name))}` },
			});
		}
		const set = (version: string, ...names: string[]) =>
			world.request("POST", "/private/set_manifest", {
				key: ci.text,
				body: {
					app_id: own.appId,
					name: version,
					manifest: names.map((name) => ({ file_name: name, s3_path: path(name), file_hash: "ab".repeat(32) })),
				},
			});
		await uploadTestBundle(world, own, "1.0.1", ci.text);
		expect((await set("1.0.1", "index.html")).status).toBe(200);
		expect((await set("1.0.1", "index.html")).status).toBe(200);
		expect(await set("1.0.1", "index.html", "evil.js")).toMatchObject({
			status: 409,
			body: { error: "bundle_already_ready" },
		});
		expect(await set("1.0.1", "evil.js")).toMatchObject({ status: 422, body: { error: "bundle_invalid" } });
		await uploadTestBundle(world, own, "1.0.2", ci.text);
		await setTestChannel(world, own, "production", { public: true, version: "1.0.2", allow_preview_bundle: true });
		expect(await set("1.0.2", "index.html")).toMatchObject({ status: 409, body: { error: "bundle_already_ready" } });
		expect(await update("production", own)).not.toHaveProperty("manifest");
	});
});
