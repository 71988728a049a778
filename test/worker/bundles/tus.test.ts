/**
 * Resumable uploads by TUS 1.0: received bytes are kept, the client continues after them, and the
 * last byte completes the bundle or file. The bytes of two writers never mix, and the next request
 * completes an upload that crashed before its completion.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { query } from "../../../src/db/client";
import {
	bundleOf,
	deltaName,
	locationOf,
	newestBundle,
	patterned,
	register,
	rows,
	storedBytes,
	storedKeys,
	storedSha256,
	TUS_PATH,
	tusCreate,
	tusHead,
	tusPatch,
	zipName,
} from "../support/bytes";
import { violations } from "../support/invariants";
import {
	createTestApp,
	createTestKey,
	createWorld,
	requestThrough,
	sha256Hex,
	type TestApp,
	type TestKey,
	testEnv,
	type World,
} from "../support/world";

const SEGMENT_BYTES = 4 * 1024 * 1024;
let world: World;
let app: TestApp;
let ci: TestKey;
let otherKey: TestKey;

beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	ci = await createTestKey(world, "app_developer", app);
	otherKey = await createTestKey(world, "app_developer", app);
});
const bundleRow = (name: string) => newestBundle(app.uuid, name);

const deltaRow = async (file: string) =>
	(
		await rows(
			query
				.selectFrom("delta_objects")
				.selectAll()
				.where("app_id", "=", app.uuid)
				// A file without a hash in its path is private to its key.
				.where("path", "in", [deltaName(world, app, file), `${ci.id}:${deltaName(world, app, file)}`]),
		)
	)[0];

const offsetOf = async (location: string) =>
	Number((await tusHead(world, ci.text, location)).headers.get("upload-offset"));

/** Registers a version and opens an upload for it. */
async function begin(version: string, length: number, fields: Record<string, unknown> = {}): Promise<string> {
	const registered = await register(world, app, version, ci.text, fields);
	expect(registered.status).toBe(201);
	return locationOf(await tusCreate(world, ci.text, zipName(world, app, version), length));
}

describe("the TUS protocol", () => {
	test("OPTIONS answers with version, extensions and the size limit without a key", async () => {
		const answer = await world.request("OPTIONS", TUS_PATH);
		expect(answer.status).toBe(204);
		expect(answer.headers.get("tus-version")).toBe("1.0.0");
		expect(answer.headers.get("tus-extension")).toBe("creation,expiration");
		expect(answer.headers.get("tus-max-size")).toBe("1073741824");
	});

	test("creation answers 201 with Location, offset 0 and expiry, with and without a trailing slash", async () => {
		for (const [version, path] of [
			["1.0.0", TUS_PATH],
			["1.0.1", `${TUS_PATH}/`],
		] as const) {
			await register(world, app, version, ci.text);
			const created = await world.request("POST", path, {
				key: ci.text,
				headers: {
					"tus-resumable": "1.0.0",
					"upload-length": "125",
					"upload-metadata": `filename ${btoa(zipName(world, app, version))}`,
				},
			});
			expect(created).toMatchObject({ status: 201, trips: 2 });
			expect(created.headers.get("tus-resumable")).toBe("1.0.0");
			expect(created.headers.get("upload-offset")).toBe("0");
			expect(Date.parse(created.headers.get("upload-expires") ?? "")).toBe(world.clock.nowMs + 86_400_000);
			expect(created.headers.get("location")).toMatch(/^https:\/\/updates\.example\.com\/files\/upload\/attachments\//);
			expect((await tusPatch(world, ci.text, locationOf(created), 0, bundleOf(125))).status).toBe(204);
			expect((await bundleRow(version))?.status).toBe("ready");
		}
	});

	test("HEAD answers with the offset after each PATCH, and the last byte makes the bundle ready", async () => {
		const bytes = bundleOf(30_000);
		const location = await begin("1.1.0", bytes.length, { checksum: await sha256Hex(bytes), size: bytes.length });
		for (const [start, end] of [
			[0, 10_000],
			[10_000, 10_001],
			[10_001, 30_000],
		] as const) {
			expect(await offsetOf(location)).toBe(start);
			const patched = await tusPatch(world, ci.text, location, start, bytes.slice(start, end));
			expect(patched).toMatchObject({ status: 204, trips: end === 30_000 ? 2 : 1 });
			expect(patched.headers.get("upload-offset")).toBe(String(end));
		}
		const head = await tusHead(world, ci.text, location);
		expect([head.headers.get("upload-offset"), head.headers.get("upload-length")]).toEqual(["30000", "30000"]);
		const row = await bundleRow("1.1.0");
		expect(row).toMatchObject({ status: "ready", sha256: await sha256Hex(bytes), size_bytes: 30_000 });
		expect(await storedSha256(row?.object_key ?? "")).toBe(await sha256Hex(bytes));
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("POST with X-HTTP-Method-Override is the PATCH or HEAD that it names, on uploads alone", async () => {
		const bytes = bundleOf(20_000);
		const location = await begin("1.9.1", bytes.length);
		const post = (method: string, offset: number, rawBody?: Uint8Array) =>
			world.request("POST", location, {
				key: ci.text,
				...(rawBody === undefined ? {} : { rawBody }),
				headers: {
					"tus-resumable": "1.0.0",
					"x-http-method-override": method,
					"upload-offset": String(offset),
					"content-type": "application/offset+octet-stream",
				},
			});
		expect((await post("PATCH", 0, bytes.slice(0, 9_000))).status).toBe(204);
		const head = await post("head", 0);
		expect([head.status, head.headers.get("upload-offset")]).toEqual([200, "9000"]);
		expect((await post("DELETE", 0)).status).toBe(405);
		expect((await post("patch", 9_000, bytes.slice(9_000))).status).toBe(204);
		expect(await bundleRow("1.9.1")).toMatchObject({ status: "ready", sha256: await sha256Hex(bytes) });
		const elsewhere = { key: ci.text, headers: { "x-http-method-override": "DELETE" }, query: { app_id: app.appId } };
		expect((await world.request("POST", "/bundle", elsewhere)).status).toBe(400);
	});

	test("one PATCH of several segments is stored completely, for any chunk sizes", async () => {
		const bytes = bundleOf(SEGMENT_BYTES + 12_345);
		for (const [version, fields] of [
			["1.1.1", { checksum: await sha256Hex(bytes) }],
			["1.1.2", { checksum: "cd".repeat(256), session_key: "iv:key" }],
			["1.1.3", {}],
		] as const) {
			const location = await begin(version, bytes.length, fields);
			expect((await tusPatch(world, ci.text, location, 0, bytes)).status).toBe(204);
			const row = await bundleRow(version);
			expect(row).toMatchObject({ status: "ready", sha256: await sha256Hex(bytes), size_bytes: bytes.length });
			expect(await storedSha256(row?.object_key ?? "")).toBe(await sha256Hex(bytes));
		}
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("a length of exactly one segment is one object, without a copy and without garbage", async () => {
		const bytes = bundleOf(SEGMENT_BYTES);
		const location = await begin("1.1.4", bytes.length);
		expect((await tusPatch(world, ci.text, location, 0, bytes)).status).toBe(204);
		const row = await bundleRow("1.1.4");
		expect(row?.object_key).toMatch(/segment-0000000000000$/);
		expect(await storedKeys(row?.object_key?.replace(/segment.*$/, "") ?? "")).toEqual([row?.object_key]);
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("a wrong offset is 409 with the right one, and stores nothing", async () => {
		const location = await begin("1.2.0", 100);
		await tusPatch(world, ci.text, location, 0, patterned(40));
		for (const offset of [0, 39, 41, 100]) {
			const refused = await tusPatch(world, ci.text, location, offset, patterned(10));
			expect(refused).toMatchObject({
				status: 409,
				body: { error: "upload_offset_conflict", moreInfo: { offset: 40 } },
			});
			expect(refused.headers.get("upload-offset")).toBe("40");
		}
		expect(await offsetOf(location)).toBe(40);
	});

	test("more bytes than Upload-Length are 413, declared or not, and earlier bytes are kept", async () => {
		const bytes = bundleOf(200);
		const location = await begin("1.2.1", bytes.length);
		await tusPatch(world, ci.text, location, 0, bytes.slice(0, 160));
		expect((await tusPatch(world, ci.text, location, 160, patterned(41))).status).toBe(413);
		const undeclared = new Blob([patterned(41)]).stream();
		expect((await tusPatch(world, ci.text, location, 160, undeclared)).status).toBe(413);
		expect(await offsetOf(location)).toBe(160);
		expect((await tusPatch(world, ci.text, location, 160, bytes.slice(160))).status).toBe(204);
		expect((await bundleRow("1.2.1"))?.status).toBe("ready");
	});

	test("another content type is 415, another or no protocol version 412, an invalid offset 400", async () => {
		const location = await begin("1.2.2", 100);
		const patch = (headers: Record<string, string>) => tusPatch(world, ci.text, location, 0, patterned(10), headers);
		expect(await patch({ "content-type": "application/octet-stream" })).toMatchObject({ status: 415 });
		for (const version of ["", "0.2.2"]) {
			const refused = await patch({ "tus-resumable": version });
			expect(refused).toMatchObject({ status: 412, body: { error: "unsupported_tus_version" } });
			expect(refused.headers.get("tus-version")).toBe("1.0.0");
		}
		const without = await world.request("HEAD", location, { key: ci.text });
		expect(without.status).toBe(412);
		for (const offset of ["", "-1", "1.5", "ten"]) expect((await patch({ "upload-offset": offset })).status).toBe(400);
		for (const length of ["", "-1", "ten"]) {
			const created = await tusCreate(world, ci.text, zipName(world, app, "1.2.2"), 0, { "upload-length": length });
			expect(created.status).toBe(400);
		}
		expect(await offsetOf(location)).toBe(0);
	});

	test("another key or organization gets 404, as for an unknown upload", async () => {
		const location = await begin("1.2.3", 10);
		const stranger = await createWorld();
		for (const key of [otherKey.text, world.adminKey, stranger.adminKey]) {
			expect(await tusHead(world, key, location)).toMatchObject({ status: 404 });
			expect(await tusPatch(world, key, location, 0, patterned(10))).toMatchObject({
				status: 404,
				body: { error: "upload_not_found" },
			});
		}
		expect((await tusHead(world, ci.text, `${TUS_PATH}/${crypto.randomUUID()}`)).status).toBe(404);
		expect((await bundleRow("1.2.3"))?.status).toBe("pending");
	});

	test("creation needs the caller's own registration in that organization and app", async () => {
		const stranger = await createWorld();
		const foreign = await tusCreate(world, stranger.adminKey, zipName(world, app, "1.2.3"), 10);
		expect(foreign).toMatchObject({ status: 404, body: { error: "app_not_found" } });
		const wrongOrg = `orgs/${stranger.orgId}/apps/${app.appId}/1.2.3.zip`;
		expect((await tusCreate(world, ci.text, wrongOrg, 10)).status).toBe(404);
		expect(await tusCreate(world, ci.text, zipName(world, app, "99.0.0"), 10)).toMatchObject({
			status: 404,
			body: { error: "bundle_not_found" },
		});
		expect(await tusCreate(world, otherKey.text, zipName(world, app, "1.2.3"), 10)).toMatchObject({
			status: 409,
			body: { error: "bundle_already_exists" },
		});
		expect(await tusCreate(world, ci.text, zipName(world, app, "1.1.0"), 10)).toMatchObject({
			status: 409,
			body: { error: "bundle_already_ready" },
		});
		for (const name of ["nonsense", "orgs/x", `orgs/${world.orgId}/apps/${app.appId}/1.2.3.tar`]) {
			expect((await tusCreate(world, ci.text, name, 10)).status).toBe(404);
		}
	});

	test("a second creation replaces the first, whose bytes become garbage", async () => {
		const first = await begin("1.2.4", 140);
		await tusPatch(world, ci.text, first, 0, patterned(5));
		const second = locationOf(await tusCreate(world, ci.text, zipName(world, app, "1.2.4"), 140));
		expect((await tusHead(world, ci.text, first)).status).toBe(404);
		expect((await tusPatch(world, ci.text, second, 0, bundleOf(140))).status).toBe(204);
		expect((await bundleRow("1.2.4"))?.status).toBe("ready");
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("creation extends the registration to the lifetime of the upload", async () => {
		const slow = await createWorld();
		const slowApp = await createTestApp(slow);
		const [one, two] = [
			await createTestKey(slow, "app_developer", slowApp),
			await createTestKey(slow, "app_developer", slowApp),
		];
		await register(slow, slowApp, "1.0.0", one.text);
		slow.clock.nowMs += 23 * 3_600_000;
		const location = locationOf(await tusCreate(slow, one.text, zipName(slow, slowApp, "1.0.0"), 130));
		slow.clock.nowMs += 2 * 3_600_000;
		expect((await register(slow, slowApp, "1.0.0", two.text)).status).toBe(409);
		expect((await tusPatch(slow, one.text, location, 0, bundleOf(130))).status).toBe(204);
	});
});

describe("one upload costs", () => {
	test("the memory of one segment, in one buffer", async () => {
		const location = await begin("1.3.0", 3 * SEGMENT_BYTES - 5);
		const buffers = new Set<ArrayBufferLike>();
		const sizes: number[] = [];
		const bundles = new Proxy(testEnv.BUNDLES, {
			get(bucket, name) {
				const value: unknown = Reflect.get(bucket, name);
				if (typeof value !== "function") return value;
				if (name !== "put") return value.bind(bucket);
				return (...given: Parameters<R2Bucket["put"]>) => {
					if (given[1] instanceof Uint8Array) {
						buffers.add(given[1].buffer);
						sizes.push(given[1].byteLength);
					}
					return bucket.put(...given);
				};
			},
		});
		const client = { request: requestThrough(createApp({ ...world.deps, bundles })) };
		const bytes = bundleOf(3 * SEGMENT_BYTES - 5);
		expect((await tusPatch(client, ci.text, location, 0, bytes)).status).toBe(204);
		expect(sizes).toEqual([SEGMENT_BYTES, SEGMENT_BYTES, SEGMENT_BYTES - 5]);
		expect([...buffers].map((buffer) => buffer.byteLength)).toEqual([SEGMENT_BYTES]);
		expect((await bundleRow("1.3.0"))?.sha256).toBe(await sha256Hex(bytes));
	});

	test("a bounded number of reads: too many small segments are refused early", async () => {
		const location = await begin("1.3.1", 1000);
		const prefix = (await rows(query.selectFrom("uploads").selectAll().orderBy("created_at_ms", "desc"))).find(
			(upload) => location.endsWith(upload.id),
		)?.object_prefix;
		const segment = (offset: number) => `${prefix}segment-${String(offset).padStart(13, "0")}`;
		for (let start = 0; start < 899; start += 100) {
			const offsets = Array.from({ length: Math.min(100, 899 - start) }, (_, index) => start + index);
			await Promise.all(offsets.map((offset) => testEnv.BUNDLES.put(segment(offset), "x")));
		}
		expect((await tusPatch(world, ci.text, location, 899, "y")).status).toBe(204);
		const refused = await tusPatch(world, ci.text, location, 900, "z");
		expect(refused).toMatchObject({ status: 413, body: { moreInfo: { limitPieces: 900 } } });
		expect(await offsetOf(location)).toBe(900);
	});
});

describe("files of the delta store", () => {
	const upload = async (file: string, bytes: Uint8Array) => {
		const location = locationOf(await tusCreate(world, ci.text, deltaName(world, app, file), bytes.length));
		const patched = await tusPatch(world, ci.text, location, 0, bytes);
		expect(patched).toMatchObject({ status: 204, trips: 2 });
	};

	test("are stored under their path without a registration", async () => {
		await upload("aa_index.html", patterned(500));
		const row = await deltaRow("aa_index.html");
		expect(row).toMatchObject({ size_bytes: 500, last_claimed_at_ms: world.clock.nowMs });
		expect(await storedBytes(row?.object_key ?? "")).toEqual(patterned(500));
	});

	test("are complete with their creation if they are empty, in two round trips", async () => {
		for (const file of ["00_a.txt", "00_b.txt", "00_a.txt"]) {
			expect(await tusCreate(world, ci.text, deltaName(world, app, file), 0)).toMatchObject({ status: 201, trips: 2 });
			const row = await deltaRow(file);
			expect(row?.size_bytes).toBe(0);
			expect(await storedBytes(row?.object_key ?? "")).toEqual(new Uint8Array());
		}
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("keep the first object if they are sent twice; the second becomes garbage", async () => {
		await upload("bb_main.js", patterned(400));
		const first = await deltaRow("bb_main.js");
		world.clock.nowMs += 5;
		await upload("bb_main.js", patterned(400));
		world.clock.nowMs -= 5;
		expect(await deltaRow("bb_main.js")).toEqual({ ...first, last_claimed_at_ms: world.clock.nowMs + 5 });
		expect(await violations(app.uuid)).toEqual([]);
		const garbage = await rows(
			query
				.selectFrom("garbage_objects")
				.selectAll()
				.where("created_at_ms", "=", world.clock.nowMs + 5),
		);
		expect(garbage).toHaveLength(1);
	});

	test("are joined from several segments", async () => {
		const bytes = patterned(SEGMENT_BYTES + 1);
		await upload("cc_big.wasm", bytes);
		expect(await storedSha256((await deltaRow("cc_big.wasm"))?.object_key ?? "")).toBe(await sha256Hex(bytes));
		expect(await violations(app.uuid)).toEqual([]);
	});
});
