/**
 * The zip check on every upload path: a zip that devices cannot unpack never becomes a bundle. Its
 * bytes are removed, its version is free again, and the answer and the audit log name the reason.
 * The rules have their tests in bundle-archive.test.ts.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { ConfigError, parseConfig } from "../../../src/config";
import { query } from "../../../src/db/client";
import { DAY_MS } from "../../../src/domain/time";
import { runJobs } from "../../../src/schedule";
import {
	complete,
	deltaName,
	locationOf,
	newestBundle,
	patterned,
	putBytes,
	register,
	rows,
	storedKeys,
	tusCreate,
	tusHead,
	tusPatch,
	zipName,
} from "../support/bytes";
import { beforeEachTrip } from "../support/interleave";
import { violations } from "../support/invariants";
import {
	type Answer,
	createTestApp,
	createTestKey,
	createWorld,
	requestThrough,
	setTestChannel,
	sha256Hex,
	type TestApp,
	type TestKey,
	testEnv,
	type World,
} from "../support/world";
import { bundleOf, joined, zipOf } from "../support/zip";

const SEGMENT_BYTES = 4 * 1024 * 1024;
const TEXT = new TextEncoder().encode("hello");
const IN_FOLDER = zipOf([{ name: "dist/index.html", content: patterned(3000) }]);
const FOLDER_REFUSED = {
	status: 422,
	body: {
		error: "bundle_invalid",
		message: expect.stringContaining('index.html is in the folder "dist"'),
		moreInfo: { reason: "index_html_in_folder", folder: "dist", entry: "dist/index.html" },
	},
};

type Client = Pick<World, "request">;

let world: World;
let app: TestApp;
let ci: TestKey;
let other: TestKey;
let served: Uint8Array;

beforeAll(async () => {
	world = await createWorld({ bindings: { fetch: async () => new Response(served) } });
	app = await createTestApp(world);
	ci = await createTestKey(world, "app_developer", app);
	other = await createTestKey(world, "app_developer", app);
});

let counter = 0;
const freshVersion = () => `1.0.${++counter}`;
const bundleRow = (version: string) => newestBundle(app.uuid, version);

/**
 * The registration and its stored bytes are removed, another key can register the version, and the
 * log has the reason.
 */
async function expectGone(version: string, reason = "index_html_in_folder"): Promise<void> {
	expect(await bundleRow(version)).toBeUndefined();
	expect(await violations(app.uuid)).toEqual([]);
	const [entry] = (
		await world.request("GET", `/app/${app.appId}/audit`, { key: world.adminKey, query: { action: "bundle.delete" } })
	).body;
	expect(entry).toMatchObject({
		target: { name: version },
		before: { status: "pending" },
		after: null,
		details: { reason: "bundle_invalid", bundle_invalid: { reason } },
	});
	expect(entry.details.bundle_invalid.message).toMatch(/\. .+\.$/);
	expect((await register(world, app, version, other.text)).status).toBe(201);
	world.clock.nowMs += DAY_MS;
	await runJobs(world.deps);
	expect(await storedKeys(`${app.uuid}/`)).toEqual([]);
}

async function putWay(client: Client, version: string, bytes: Uint8Array, fields: object = {}) {
	const { body } = await register(world, app, version, ci.text, { ...fields });
	return putBytes(client, body.upload_url, bytes);
}

async function tusWay(client: Client, version: string, bytes: Uint8Array, pieces: number) {
	await register(world, app, version, ci.text);
	const location = locationOf(await tusCreate(world, ci.text, zipName(world, app, version), bytes.length));
	const pieceBytes = Math.ceil(bytes.length / pieces);
	let answer: Answer | undefined;
	for (let offset = 0; offset < bytes.length; offset += pieceBytes) {
		answer = await tusPatch(client, ci.text, location, offset, bytes.slice(offset, offset + pieceBytes));
	}
	return { answer, location };
}

/** The first requests of the stock CLI: a registration and its upload link. */
async function cliLink(version: string): Promise<string> {
	const upserted = await cliUpsert(version, "r2-direct");
	expect(upserted.status).toBe(201);
	const body = { app_id: app.appId, name: version };
	return (await world.request("POST", "/private/upload_link", { key: ci.text, body })).body.url;
}

const cliUpsert = (version: string, storage_provider: string, fields: object = {}) =>
	world.request("POST", "/compat/capgo-cli/rest/v1/app_versions", {
		key: ci.text,
		body: { app_id: app.appId, name: version, storage_provider, ...fields },
	});

describe("a zip that is not a bundle is refused", () => {
	test("in one request to the signed link, with and without a checksum", async () => {
		for (const fields of [{}, { checksum: await sha256Hex(IN_FOLDER), size: IN_FOLDER.length }]) {
			const version = freshVersion();
			expect(await putWay(world, version, IN_FOLDER, fields)).toMatchObject(FOLDER_REFUSED);
			await expectGone(version);
		}
	});

	test("if it is five bytes of text", async () => {
		const version = freshVersion();
		expect(await putWay(world, version, TEXT)).toMatchObject({
			status: 422,
			body: { error: "bundle_invalid", moreInfo: { reason: "not_a_zip" } },
		});
		await expectGone(version, "not_a_zip");
	});

	test.each([1, 3])("with the last byte of a resumable upload of %i requests", async (pieces) => {
		const version = freshVersion();
		const { answer, location } = await tusWay(world, version, IN_FOLDER, pieces);
		expect(answer).toMatchObject(FOLDER_REFUSED);
		expect((await tusHead(world, ci.text, location)).status).toBe(404);
		await expectGone(version);
	});

	test("if its directory and its end are in different segments", async () => {
		const large = zipOf([
			{ name: "a.js", content: patterned(SEGMENT_BYTES - 40_000) },
			...Array.from({ length: 1000 }, (_, index) => ({ name: `assets/${index}.js` })),
		]);
		const version = freshVersion();
		const { answer } = await tusWay(world, version, large, 1);
		expect(answer).toMatchObject({ status: 422, body: { moreInfo: { reason: "missing_index_html" } } });
		await expectGone(version, "missing_index_html");
	});

	test("with bundle_invalid to the stock CLI's link", async () => {
		const version = freshVersion();
		expect(await putBytes(world, await cliLink(version), IN_FOLDER)).toMatchObject(FOLDER_REFUSED);
		expect((await cliUpsert(version, "r2")).status).toBe(404);
		await expectGone(version);
	});

	test("if it is external, and nothing is registered", async () => {
		served = IN_FOLDER;
		const external_url = "https://cdn.example.org/b.zip";
		const version = freshVersion();
		expect(await register(world, app, version, ci.text, { external_url })).toMatchObject(FOLDER_REFUSED);
		expect(await cliUpsert(version, "external", { external_url })).toMatchObject(FOLDER_REFUSED);
		expect(await bundleRow(version)).toBeUndefined();
		served = bundleOf(200);
		expect((await register(world, app, version, other.text, { external_url })).status).toBe(201);
	});
});

/**
 * Sends a request whose writing batch never reaches the database: all bytes are stored, and no row
 * says so.
 */
async function crashed(send: (client: Client) => Promise<unknown>): Promise<void> {
	const failing = beforeEachTrip(testEnv.DB, (trip) => {
		if (trip > 1) throw new Error("Network connection lost.");
	});
	await send({ request: requestThrough(createApp({ ...world.deps, d1: failing.d1 })) });
	expect(failing.trips).toBe(2);
}

describe("after a crash, a zip that is not a bundle is refused", () => {
	test("by POST /bundle/complete, and then the bundle is unknown", async () => {
		const version = freshVersion();
		await crashed((client) => putWay(client, version, IN_FOLDER));
		expect((await bundleRow(version))?.status).toBe("pending");
		expect(await complete(world, app, version, ci.text)).toMatchObject(FOLDER_REFUSED);
		expect((await complete(world, app, version, ci.text)).status).toBe(404);
		await expectGone(version);
	});

	test("by the repeated PUT", async () => {
		const version = freshVersion();
		const { body } = await register(world, app, version, ci.text);
		await crashed((client) => putBytes(client, body.upload_url, IN_FOLDER));
		expect(await putBytes(world, body.upload_url, IN_FOLDER)).toMatchObject(FOLDER_REFUSED);
		await expectGone(version);
	});

	test("by a TUS HEAD", async () => {
		const version = freshVersion();
		let location = "";
		await crashed(async (client) => {
			({ location } = await tusWay(client, version, IN_FOLDER, 1));
		});
		expect((await tusHead(world, ci.text, location)).status).toBe(422);
		await expectGone(version);
	});

	test.each(["finalize", "upsert"] as const)("by the stock CLI's completion (%s)", async (way) => {
		const version = freshVersion();
		const link = await cliLink(version);
		await crashed((client) => putBytes(client, link, IN_FOLDER));
		const answer =
			way === "upsert"
				? await cliUpsert(version, "r2")
				: await world.request("POST", "/private/finalize_bundle_upload", {
						key: ci.text,
						body: { app_id: app.appId, name: version },
					});
		expect(answer).toMatchObject(FOLDER_REFUSED);
		await expectGone(version);
	});
});

describe("the zip check accepts", () => {
	test("an encrypted bundle, which it cannot read, stored here or external", async () => {
		const version = freshVersion();
		const sealed = { checksum: "ab".repeat(256), session_key: "iv:key" };
		expect((await putWay(world, version, TEXT, sealed)).status).toBe(200);
		expect(await bundleRow(version)).toMatchObject({ status: "ready" });
		served = TEXT;
		const elsewhere = freshVersion();
		const external = { ...sealed, external_url: "https://cdn.example.org/sealed.zip" };
		expect((await register(world, app, elsewhere, ci.text, external)).status).toBe(201);
	});

	test("a bundle without a zip", async () => {
		const version = freshVersion();
		await cliUpsert(version, "r2-direct");
		const file = deltaName(world, app, `aa_${version}`);
		const location = locationOf(await tusCreate(world, ci.text, file, TEXT.length));
		expect((await tusPatch(world, ci.text, location, 0, TEXT)).status).toBe(204);
		const manifest = [{ file_name: "index.html", s3_path: file, file_hash: "ab".repeat(32) }];
		const set = { key: ci.text, body: { app_id: app.appId, name: version, manifest } };
		expect((await world.request("POST", "/private/set_manifest", set)).status).toBe(200);
		expect((await cliUpsert(version, "r2")).status).toBe(201);
		expect(await bundleRow(version)).toMatchObject({ status: "ready", object_key: null });
	});

	test("an external bundle that is larger than the kept end", async () => {
		// The start page is before the kept end, and the directory is in two of the kept blocks.
		served = zipOf([
			{ name: "index.html", content: patterned(50) },
			{ name: "large.bin", content: patterned(20 * 1024 * 1024) },
			...Array.from({ length: 20_000 }, (_, index) => ({ name: `assets/${index}.js` })),
		]);
		const version = freshVersion();
		const external_url = "https://cdn.example.org/large.zip";
		expect(await register(world, app, version, ci.text, { external_url })).toMatchObject({
			status: 201,
			body: { size: served.length, checksum: await sha256Hex(served) },
		});
		served = joined(served, TEXT);
		const damaged = await register(world, app, freshVersion(), ci.text, { external_url });
		expect(damaged).toMatchObject({ status: 422, body: { moreInfo: { reason: "damaged_zip" } } });
	});
});

test("a device is never offered a refused zip", async () => {
	const version = freshVersion();
	await putWay(world, version, bundleOf(500));
	await setTestChannel(world, app, "production", { version, public: true });
	const refused = freshVersion();
	const { body } = await register(world, app, refused, ci.text);
	await putBytes(world, body.upload_url, IN_FOLDER);
	const promoted = await world.request("POST", "/channel", {
		key: world.adminKey,
		body: { app_id: app.appId, channel: "production", version: refused },
	});
	expect(promoted).toMatchObject({ status: 404, body: { error: "bundle_not_found" } });
	const offered = await world.request("POST", "/updates", {
		body: {
			app_id: app.appId,
			device_id: crypto.randomUUID(),
			version_name: "builtin",
			version_build: "1.0.0",
			platform: "android",
			plugin_version: "8.51.23",
			is_emulator: false,
			is_prod: true,
		},
	});
	expect(offered.body).toMatchObject({ version });
});

describe("MAX_UNCOMPRESSED_BUNDLE_BYTES", () => {
	const limitOf = (variables: Record<string, string>) =>
		parseConfig({ ...testEnv, ...variables }).maxUncompressedBundleBytes;

	test("is twice MAX_BUNDLE_BYTES if it is empty", () => {
		expect(limitOf({})).toBe(2 * 1024 ** 3);
		expect(limitOf({ MAX_BUNDLE_BYTES: "1000", MAX_UNCOMPRESSED_BUNDLE_BYTES: "" })).toBe(2000);
		expect(limitOf({ MAX_UNCOMPRESSED_BUNDLE_BYTES: "123" })).toBe(123);
	});

	test.each(["0", "-1", "1.5", "2 GB", String(1024 ** 4)])("cannot be %s", (value) => {
		expect(() => limitOf({ MAX_UNCOMPRESSED_BUNDLE_BYTES: value })).toThrow(ConfigError);
	});

	test("limits the unpacked size of a bundle", async () => {
		const small = await createWorld({ config: { MAX_UNCOMPRESSED_BUNDLE_BYTES: "1000" } });
		const smallApp = await createTestApp(small);
		const upload = async (version: string, contentBytes: number) => {
			const { body } = await register(small, smallApp, version, small.adminKey);
			return putBytes(small, body.upload_url, zipOf([{ name: "index.html", content: patterned(contentBytes) }]));
		};
		expect((await upload("1.0.0", 1000)).status).toBe(200);
		expect(await upload("1.0.1", 1001)).toMatchObject({
			status: 422,
			body: { moreInfo: { reason: "uncompressed_too_large", limit: 1000 } },
		});
	});
});

describe("the link of a bundle", () => {
	const BAD_LINKS = [
		"javascript:alert(1)",
		"ftp://example.com/a",
		"example.com",
		"https://user:secret@example.com/",
		"",
	];
	test.each(BAD_LINKS)("cannot be %j, by the API and by the stock CLI", async (link) => {
		const version = freshVersion();
		const answers = [
			await register(world, app, version, ci.text, { link }),
			await cliUpsert(version, "r2-direct", { link }),
		];
		for (const answer of answers) {
			expect(answer).toMatchObject({ status: 400, body: { error: "invalid_request" } });
			expect((answer.body as { moreInfo: object }).moreInfo).toMatchObject({
				issues: expect.arrayContaining([expect.objectContaining({ path: "link" })]),
			});
		}
		expect(await bundleRow(version)).toBeUndefined();
	});

	test.each(["https://example.com/pr/3", "http://localhost:3000/x", null])("can be %j", async (link) => {
		expect((await register(world, app, freshVersion(), ci.text, { link })).body).toMatchObject({ link });
		const version = freshVersion();
		expect((await cliUpsert(version, "r2-direct", { link })).status).toBe(201);
		expect((await bundleRow(version))?.link).toBe(link);
	});
});

test("the check of a bundle with more content than it unpacks reads its end and its first header", async () => {
	const reads: R2GetOptions["range"][] = [];
	const bundles = new Proxy(testEnv.BUNDLES, {
		get(bucket, name) {
			const value: unknown = Reflect.get(bucket, name);
			if (typeof value !== "function") return value;
			if (name !== "get") return value.bind(bucket);
			return (...given: [string, R2GetOptions]) => {
				// The stored snapshot of the app is read whole.
				if (given[1]?.range !== undefined) reads.push(given[1].range);
				return bucket.get(...given);
			};
		},
	});
	const client = { request: requestThrough(createApp({ ...world.deps, bundles })) };
	const bytes = bundleOf(17_000_000);
	const version = freshVersion();
	const fields = { checksum: await sha256Hex(bytes) };
	expect((await putWay(client, version, bytes, fields)).status).toBe(200);
	expect(reads).toEqual([
		{ offset: 17_000_000 - 65_633, length: 65_633 },
		{ offset: 0, length: 40 },
	]);
	const uploads = query
		.selectFrom("bundles")
		.select("status")
		.where("app_id", "=", app.uuid)
		.where("name", "=", version);
	expect(await rows(uploads)).toEqual([{ status: "ready" }]);
});
