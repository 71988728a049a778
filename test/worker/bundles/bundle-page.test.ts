/**
 * The bundle page of the dashboard: notes and link, files, a download, the channels it was live on,
 * and the list that finds it.
 */
import { createExecutionContext } from "cloudflare:test";
import { beforeEach, describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { register } from "../support/bytes";
import { addTestFiles, removeTestZip } from "../support/delta-files";
import { readThenWrite } from "../support/interleave";
import {
	createTestApp,
	createTestKey,
	createWorld,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";
import { zipOf } from "../support/zip";

let world: World;
let app: TestApp;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

const get = (path: string, query: Record<string, string> = {}, key = world.adminKey) =>
	world.request("GET", path, { key, query: { app_id: app.appId, ...query } });
const annotate = (body: Record<string, unknown>, key = world.adminKey, via: Pick<World, "request"> = world) =>
	via.request("POST", "/bundle/metadata", { key, body: { app_id: app.appId, ...body } });
const shown = async (version: string) => (await get("/bundle", { version })).body[0];

describe("POST /bundle/metadata", () => {
	test("changes what it names, removes with null, and says who changed what", async () => {
		const id = await uploadTestBundle(world, app, "1.0.0");
		expect((await annotate({ version: "1.0.0", comment: "Search" })).body).toEqual({ status: "ok" });
		expect((await annotate({ version_id: id, link: "https://example.com/c/1" })).status).toBe(200);
		expect(await shown("1.0.0")).toMatchObject({ comment: "Search", link: "https://example.com/c/1" });
		expect((await annotate({ version: "1.0.0", comment: null })).status).toBe(200);
		expect((await annotate({ version: "1.0.0", link: "" })).status).toBe(200);
		expect(await shown("1.0.0")).toMatchObject({ comment: null, link: null });
		const audit = await world.request("GET", `/app/${app.appId}/audit`, {
			key: world.adminKey,
			query: { action: "bundle.update" },
		});
		expect(audit.body.at(-1)).toMatchObject({
			target: { type: "bundle", id: String(id), name: "1.0.0" },
			before: { comment: null, link: null },
			after: { comment: "Search", link: null },
		});
		expect(audit.body).toHaveLength(4);
	});

	test.each<[string, Record<string, unknown>, string]>([
		["no bundle", { comment: "x" }, "version"],
		["two bundles", { version: "1.0.0", version_id: 1, comment: "x" }, "version"],
		["nothing to change", { version: "1.0.0" }, "comment"],
		["a script as link", { version: "1.0.0", link: "javascript:alert(1)" }, "link"],
		["a long text", { version: "1.0.0", comment: "x".repeat(2049) }, "comment"],
	])("names the field for %s", async (_, body, path) => {
		await uploadTestBundle(world, app, "1.0.0");
		const answer = await annotate(body);
		expect([answer.status, answer.body.moreInfo?.issues[0].path]).toEqual([400, path]);
	});

	test("a preview key changes its own bundle only, and a reader none", async () => {
		const preview = await createTestKey(world, "app_preview", app);
		const reader = await createTestKey(world, "app_reader", app);
		await uploadTestBundle(world, app, "1.0.0");
		await uploadTestBundle(world, app, "1.1.0-pr.1", preview.text);
		const status = async (version: string, key: string) => (await annotate({ version, comment: "x" }, key)).status;
		expect(await status("1.1.0-pr.1", preview.text)).toBe(200);
		expect(await status("1.0.0", preview.text)).toBe(403);
		expect(await status("1.0.0", reader.text)).toBe(403);
		expect(await status("9.0.0", world.adminKey)).toBe(404);
	});

	test("notes that devices of a protected channel see are for administrators", async () => {
		const uploader = await createTestKey(world, "app_uploader", app);
		const preview = await createTestKey(world, "app_preview", app);
		await uploadTestBundle(world, app, "1.0.0", uploader.text);
		await setTestChannel(world, app, "production", { version: "1.0.0", protected: true });
		const change = async (comment: string, key = uploader.text) =>
			(await annotate({ version: "1.0.0", comment }, key)).status;
		expect(await change("nobody sees this")).toBe(200);
		const expose = (expose_metadata: boolean) =>
			world.request("PUT", `/app/${app.appId}`, { key: world.adminKey, body: { expose_metadata } });
		await expose(true);
		expect(await change("seen")).toBe(403);
		expect(await change("seen", world.adminKey)).toBe(200);
		await uploadTestBundle(world, app, "1.1.0-pr.1", preview.text);
		const ofPreview = async () =>
			(await annotate({ version: "1.1.0-pr.1", comment: "pull request" }, preview.text)).status;
		expect(await ofPreview()).toBe(200);
		await setTestChannel(world, app, "beta", { version: "1.1.0-pr.1", allow_preview_bundle: true });
		expect(await ofPreview()).toBe(403);
		await expose(false);
		const raced = await readThenWrite(
			world,
			(racing) => annotate({ version: "1.0.0", comment: "raced" }, uploader.text, racing),
			() => expose(true),
		);
		expect([raced.status, (await shown("1.0.0")).comment]).toEqual([409, "seen"]);
	});
});

describe("GET /bundle/files", () => {
	const bytes = (length: number) => new Uint8Array(length).fill(65);

	test("lists the files of a zip with sizes, the largest first, and counts what a search finds", async () => {
		const zip = zipOf([
			{ name: "index.html", content: bytes(10) },
			{ name: "assets/app.js", content: bytes(300) },
			{ name: "assets/", content: bytes(0) },
		]);
		await uploadTestBundle(world, app, "1.0.0", world.adminKey, zip);
		expect((await get("/bundle/files", { version: "1.0.0" })).body).toEqual({
			version: "1.0.0",
			by: "zip",
			not_listed: null,
			total: 2,
			bytes: 310,
			files: [
				{ file: "assets/app.js", size: 300, stored: 300 },
				{ file: "index.html", size: 10, stored: 10 },
			],
		});
		expect((await get("/bundle/files", { version: "1.0.0", search: "INDEX" })).body).toMatchObject({
			total: 1,
			bytes: 10,
		});
	});

	test("lists the files of a manifest, as devices name them", async () => {
		const id = await uploadTestBundle(world, app, "1.0.0");
		await addTestFiles(app, id, ["index.html", "assets/app.js.br"]);
		expect((await get("/bundle/files", { version: "1.0.0" })).body).toEqual({
			version: "1.0.0",
			by: "manifest",
			not_listed: null,
			total: 2,
			bytes: 2,
			files: [
				{ file: "assets/app.js", size: null, stored: 1 },
				{ file: "index.html", size: 1, stored: 1 },
			],
		});
		const none = await get("/bundle/files", { version: "1.0.0", search: "absent" });
		expect(none.body).toMatchObject({ by: "manifest", total: 0, files: [] });
	});

	test("says why the files of an encrypted zip are not listed", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		await testEnv.DB.prepare("UPDATE bundles SET session_key = 'a:b' WHERE app_id = ?").bind(app.uuid).run();
		const { body } = await get("/bundle/files", { version: "1.0.0" });
		expect(body).toMatchObject({ by: null, not_listed: "encrypted", files: [] });
	});
});

describe("GET /bundle/download", () => {
	test("gives a link to the bytes that needs no key", async () => {
		const zip = zipOf([{ name: "index.html", content: new TextEncoder().encode("hello") }]);
		await uploadTestBundle(world, app, "1.0.0", world.adminKey, zip);
		const { body } = await get("/bundle/download", { version: "1.0.0" });
		expect(body).toMatchObject({ size: zip.length, encrypted: false, expires_at: "2026-11-22T08:00:00.000Z" });
		const downloaded = await createApp(world.deps).fetch(new Request(body.url), testEnv, createExecutionContext());
		expect(new Uint8Array(await downloaded.arrayBuffer())).toEqual(zip);
	});

	test("a preview key downloads its own bundles only, and a bundle of single files has no zip", async () => {
		const preview = await createTestKey(world, "app_preview", app);
		const id = await uploadTestBundle(world, app, "1.0.0");
		await uploadTestBundle(world, app, "1.1.0-pr.1", preview.text);
		expect((await get("/bundle/download", { version: "1.1.0-pr.1" }, preview.text)).status).toBe(200);
		expect((await get("/bundle/download", { version: "1.0.0" }, preview.text)).status).toBe(403);
		await addTestFiles(app, id, ["index.html"]);
		await removeTestZip(id);
		const { status, body } = await get("/bundle/download", { version: "1.0.0" });
		expect([status, body.error]).toEqual([409, "bundle_has_no_zip"]);
	});
});

test("GET /app/:app_id/releases?version tells where a bundle was live, from when until when", async () => {
	for (const version of ["1.0.0", "1.1.0"]) await uploadTestBundle(world, app, version);
	await setTestChannel(world, app, "production", { version: "1.0.0" });
	const { nowMs } = world.clock;
	world.clock.nowMs = nowMs + 60_000;
	await setTestChannel(world, app, "beta", { version: "1.0.0" });
	world.clock.nowMs = nowMs + 120_000;
	await setTestChannel(world, app, "production", { version: "1.1.0" });
	const { body } = await world.request("GET", `/app/${app.appId}/releases`, {
		key: world.adminKey,
		query: { version: "1.0.0" },
	});
	const at = (ms: number) => new Date(nowMs + ms).toISOString();
	expect(body).toMatchObject([
		{ channel: { name: "beta" }, version: "1.0.0", at: at(60_000), until: null, is_live: true },
		{ channel: { name: "production" }, version: "1.0.0", at: at(0), until: at(120_000), is_live: false },
	]);
	expect(body).toHaveLength(2);
});

describe("GET /bundle?totals=true", () => {
	/** The deprecated path answers alike, and the array has the same bundles. */
	const names = async (query: Record<string, string>) => {
		const { body, headers } = await get("/bundle", { ...query, totals: "true" });
		expect(headers.get("x-ignored-fields")).toBeNull();
		expect((await get("/bundle/list", query)).body).toEqual(body);
		const { body: array } = await get("/bundle", query);
		expect(array.map(({ id }: { id: number }) => id)).toEqual(body.bundles.map(({ id }: { id: number }) => id));
		return [body.total, ...body.bundles.map(({ name }: { name: string }) => name)];
	};

	test("finds parts of versions and notes, and counts them", async () => {
		await uploadTestBundle(world, app, "1.2.0", world.adminKey, undefined, { comment: "Faster SEARCH" });
		await uploadTestBundle(world, app, "1.10.0");
		expect(await names({ search: "search" })).toEqual([1, "1.2.0"]);
		expect(await names({ search: "10" })).toEqual([1, "1.10.0"]);
		expect(await names({ search: "%" })).toEqual([0]);
		expect((await get("/bundle", { sort: "name" })).body.moreInfo.issues[0].path).toBe("sort");
		const { body } = await get("/bundle", { totals: "true", version: "1.2.0" });
		expect(body).toMatchObject({ total: 1, bundles: [{ name: "1.2.0", native_packages: null }] });
		expect(body.bundles[0]).not.toHaveProperty("owner_org");
		const second = await get("/bundle", { totals: "true", limit: "1", page: "1" });
		expect(second.body).toMatchObject({ total: 2, bundles: [{ name: "1.2.0" }] });
		expect(second.body.bundles).toHaveLength(1);
		const { body: array, headers } = await get("/bundle", { sort: "version", order: "asc", limit: "1" });
		expect(array).toMatchObject([{ name: "1.2.0", owner_org: expect.any(String) }]);
		expect(headers.get("link")).toContain("sort=version");
	});

	test("sorts by time, version or size", async () => {
		const sizes = { "1.10.0": 1000, "1.9.0": 3000, "2.0.0-pr.10": 2000, "2.0.0-pr.9": 4000, "2.0.0": 5000 };
		for (const [version, length] of Object.entries(sizes)) {
			const zip = zipOf([{ name: "index.html", content: new Uint8Array(length) }]);
			await uploadTestBundle(world, app, version, world.adminKey, zip);
		}
		const [total, ...all] = await names({});
		expect([total, all]).toEqual([5, Object.keys(sizes).reverse()]);
		const ordered = async (sort: string, order: string) => (await names({ sort, order })).slice(1);
		expect(await ordered("version", "desc")).toEqual(["2.0.0", "2.0.0-pr.10", "2.0.0-pr.9", "1.10.0", "1.9.0"]);
		expect(await ordered("size", "asc")).toEqual(["1.10.0", "2.0.0-pr.10", "1.9.0", "2.0.0-pr.9", "2.0.0"]);
		expect(await ordered("created", "asc")).toEqual(Object.keys(sizes));
	});

	test("shows the bundles of a state", async () => {
		const preview = await createTestKey(world, "app_preview", app);
		for (const version of ["1.0.0", "1.1.0", "1.2.0", "1.3.0"]) await uploadTestBundle(world, app, version);
		await uploadTestBundle(world, app, "2.0.0-pr.1", preview.text);
		await register(world, app, "3.0.0", world.adminKey);
		await setTestChannel(world, app, "production", { version: "1.0.0" });
		await setTestChannel(world, app, "production", { version: "1.1.0" });
		const removed = await world.request("DELETE", "/bundle", {
			key: world.adminKey,
			query: { app_id: app.appId, version: "1.2.0" },
		});
		expect(removed.status).toBe(200);
		// The number beside each state is what its list has, whichever state is asked for.
		for (const search of [{}, { search: "1." }]) {
			const { states } = (await get("/bundle", { totals: "true", state: "live", ...search })).body;
			const kinds = Object.keys(states);
			expect(kinds.sort()).toEqual(["all", "deleted", "live", "preview", "unfinished", "unused"]);
			for (const kind of kinds) {
				const of = kind === "all" ? {} : { state: kind };
				const { total } = (await get("/bundle", { totals: "true", ...of, ...search })).body;
				expect(states[kind], `${kind} ${JSON.stringify(search)}`).toBe(total);
			}
		}
		expect(await names({ state: "live" })).toEqual([1, "1.1.0"]);
		// 1.0.0 is kept for a rollback.
		expect(await names({ state: "unused" })).toEqual([2, "2.0.0-pr.1", "1.3.0"]);
		expect(await names({ state: "preview" })).toEqual([1, "2.0.0-pr.1"]);
		expect(await names({ state: "unfinished" })).toEqual([1, "3.0.0"]);
		expect(await names({ state: "deleted" })).toEqual([1, "1.2.0"]);
		expect((await names({}))[0]).toBe(4);
		const { body } = await get("/bundle/list", { state: "deleted" });
		expect(body.bundles[0]).toMatchObject({ deleted_at: "2026-11-21T08:00:00.000Z", channels: [] });
	});
});
