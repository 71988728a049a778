/**
 * Downloads by signed, expiring links: whole, in ranges and by conditions, as RFC 9110 has it. The database is asked only whether the app
 * still exists, at most once in two seconds, and a link opens one object for one method until its hour.
 */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createApp } from "../../src/app";
import { query } from "../../src/db/client";
import { wantedOf } from "../../src/domain/conditional-request";
import { verifyLink } from "../../src/storage/links";
import { downloadUrl, putBytes, register, rows } from "./support/bytes";
import { beforeEachTrip } from "./support/interleave";
import {
	createTestApp,
	createWorld,
	requestThrough,
	setTestChannel,
	sha256Hex,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "./support/world";
import { bundleOf } from "./support/zip";

let world: World;
let app: TestApp;
let url: string;
let objectKey: string;
const SIZE = 1000;
const bytes = bundleOf(SIZE);

const objectKeyOf = async (version: string) =>
	(
		await rows(
			query.selectFrom("bundles").select("object_key").where("app_id", "=", app.uuid).where("name", "=", version),
		)
	)[0]?.object_key ?? "";

beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	await uploadTestBundle(world, app, "1.0.0", world.adminKey, bytes);
	objectKey = await objectKeyOf("1.0.0");
	url = downloadUrl(world, objectKey);
});

const get = (headers: Record<string, string> = {}, address = url) => world.request("GET", address, { headers });
const bodyOf = (answer: { body: unknown }) => new Uint8Array(answer.body as ArrayBuffer);

describe("a link", () => {
	test("answers with the whole object, its size, its ETag and leave to keep it as long as the link is good", async () => {
		const answer = await get();
		expect(answer.status).toBe(200);
		expect(bodyOf(answer)).toEqual(bytes);
		expect(answer.headers.get("content-length")).toBe(String(SIZE));
		expect(answer.headers.get("content-type")).toBe("application/zip");
		expect(answer.headers.get("accept-ranges")).toBe("bytes");
		expect(answer.headers.get("etag")).toMatch(/^"[0-9a-f]{32}"$/);
		expect(answer.headers.get("last-modified")).toMatch(/GMT$/);
		const expires = Number(new URL(url).searchParams.get("expires"));
		expect(answer.headers.get("cache-control")).toBe(
			`public, max-age=${expires - world.clock.nowMs / 1000}, immutable, no-transform`,
		);
	});

	test("is the same all hour long, and lives a day at least", () => {
		const at = (nowMs: number) => downloadUrl({ ...world, clock: { nowMs } }, objectKey);
		const hourMs = 3_600_000;
		expect(at(world.clock.nowMs + 1000)).toBe(at(world.clock.nowMs + hourMs));
		expect(at(world.clock.nowMs + 1000)).not.toBe(at(world.clock.nowMs + hourMs + 1000));
		const expiresMs = Number(new URL(at(world.clock.nowMs)).searchParams.get("expires")) * 1000;
		expect(expiresMs).toBeGreaterThanOrEqual(world.clock.nowMs + 24 * hourMs);
	});

	test("may never be kept beyond its expiry, to the millisecond, and then is 403", async () => {
		const late = await createWorld();
		const expiresMs = Number(new URL(url).searchParams.get("expires")) * 1000;
		late.clock.nowMs = expiresMs - 1001;
		const last = await late.request("GET", url);
		expect(last.status).toBe(200);
		expect(last.headers.get("cache-control")).toContain("max-age=1,");
		for (const nowMs of [expiresMs - 999, expiresMs, expiresMs + 86_400_000]) {
			late.clock.nowMs = nowMs;
			const refused = await late.request("GET", url);
			expect(refused).toMatchObject({ status: 403, body: { error: "link_expired" } });
			expect(refused.headers.get("cache-control")).toBe("private, no-store");
		}
	});

	test("altered in path, expiry or signature is 403, and a link for one object does not open another", async () => {
		await uploadTestBundle(world, app, "1.0.1");
		const other = await objectKeyOf("1.0.1");
		const { origin, search, pathname } = new URL(url);
		const altered = [
			`${origin}/files/download/${other}${search}`,
			`${origin}${pathname.replace(/object$/, "segment-0000000000000")}${search}`,
			url.replace(/expires=(\d+)/, (_, seconds) => `expires=${Number(seconds) + 3600}`),
			url.replace(/.$/, (last) => (last === "0" ? "1" : "0")),
			url.slice(0, -1),
			`${url}0`,
		];
		for (const address of altered) {
			const refused = await get({}, address);
			expect([refused.status, refused.body.error ?? ""]).not.toEqual([200, ""]);
			expect([400, 403]).toContain(refused.status);
		}
		expect(await get({}, `${origin}/files/download/${other}${search}`)).toMatchObject({
			status: 403,
			body: { error: "invalid_signature" },
		});
		// A link without its signature is one that nobody signed; one with two expiries is no link at all.
		for (const parameters of ["", "?expires=1", "?signature=aa"]) {
			expect((await get({}, origin + pathname + parameters)).status).toBe(403);
		}
		expect((await get({}, `${origin}${pathname}${search}&expires=1`)).status).toBe(400);
	});

	test("for uploading does not open a download, nor the other way round", async () => {
		const registered = await register(world, app, "1.0.2", world.adminKey);
		const upload = new URL(registered.body.upload_url);
		expect((await get({}, upload.href)).status).toBe(405);
		expect(await get({}, `${upload.origin}/files/download/${objectKey}${upload.search}`)).toMatchObject({
			status: 403,
		});
		const { search } = new URL(url);
		expect(await putBytes(world, `${upload.origin}${upload.pathname}${search}`, bytes)).toMatchObject({ status: 403 });
		expect((await world.request("DELETE", url)).status).toBe(405);
	});

	test("is signed for its method as well as for its path", () => {
		const { pathname, searchParams } = new URL(url);
		const link = { expires: searchParams.get("expires") ?? "", signature: searchParams.get("signature") ?? "" };
		expect(verifyLink(world.deps, "GET", pathname, link, world.clock.nowMs)).toBeGreaterThan(0);
		expect(() => verifyLink(world.deps, "PUT", pathname, link, world.clock.nowMs)).toThrow("altered");
	});

	test("signed with another secret is 403", async () => {
		const stranger = await createWorld({ config: { CAPSTAN_SECRET: "ab".repeat(32) } });
		expect((await get({}, downloadUrl(stranger, objectKey))).status).toBe(403);
	});

	test("to a bundle that was deleted is 404", async () => {
		await uploadTestBundle(world, app, "1.0.3");
		const address = downloadUrl(world, await objectKeyOf("1.0.3"));
		expect((await get({}, address)).status).toBe(200);
		const deleted = await world.request("DELETE", "/bundle", {
			key: world.adminKey,
			query: { app_id: app.appId, version: "1.0.3" },
		});
		expect(deleted.status).toBe(200);
		for (const headers of [{}, { range: "bytes=0-1" }]) {
			expect(await get(headers, address)).toMatchObject({ status: 404, body: { error: "not_found" } });
		}
		expect((await world.request("HEAD", address)).status).toBe(404);
	});

	test("goes on when the database does not answer", async () => {
		const d1 = {
			withSession: () => ({
				prepare: () => {
					throw new Error("D1 is down");
				},
				batch: async () => {
					throw new Error("D1 is down");
				},
			}),
		} as unknown as D1Database;
		const request = requestThrough(createApp({ ...world.deps, d1 }));
		expect((await request("GET", url)).status).toBe(200);
	});

	test("is 503 with Retry-After when R2 does not answer", async () => {
		const fail = async () => {
			throw new Error("Network connection lost.");
		};
		const bundles = { get: fail, head: fail } as unknown as R2Bucket;
		const request = requestThrough(createApp({ ...world.deps, bundles }));
		for (const headers of [{}, { range: "bytes=0-1" }]) {
			const answer = await request("GET", url, { headers });
			expect(answer.status).toBe(503);
			expect(answer.headers.get("retry-after")).toBe("5");
		}
		expect((await world.request("GET", url)).status).toBe(200);
	});
});

describe("Range", () => {
	test.each([
		["the first bytes", "bytes=0-99", 0, 99],
		["the middle", "bytes=100-101", 100, 101],
		["one byte", "bytes=999-999", 999, 999],
		["to the end", "bytes=900-", 900, 999],
		["all of it", "bytes=0-", 0, 999],
		["beyond the end", "bytes=900-5000", 900, 999],
		["the last bytes", "bytes=-10", 990, 999],
		["a suffix longer than the file", "bytes=-5000", 0, 999],
	])("%s is 206 with exactly these bytes", async (_, range, first, last) => {
		const answer = await get({ range });
		expect(answer.status).toBe(206);
		expect(answer.headers.get("content-range")).toBe(`bytes ${first}-${last}/${SIZE}`);
		expect(answer.headers.get("content-length")).toBe(String(last - first + 1));
		expect(bodyOf(answer)).toEqual(bytes.slice(first, last + 1));
	});

	test.each(["bytes=1000-", "bytes=1000-2000", "bytes=99999-", "bytes=-0"])(
		"%s is 416 with the size",
		async (range) => {
			const answer = await get({ range });
			expect(answer).toMatchObject({ status: 416, body: { error: "range_not_satisfiable" } });
			expect(answer.headers.get("content-range")).toBe("bytes */1000");
		},
	);

	test.each(["bytes=0-1,5-6", "bytes=5-2", "bytes=-", "bytes=a-b", "items=0-1", "0-1", ""])(
		"%s is no single byte range, so the whole is sent",
		async (range) => {
			const answer = await get({ range });
			expect(answer.status).toBe(200);
			expect(answer.headers.get("content-range")).toBeNull();
			expect(bodyOf(answer)).toEqual(bytes);
		},
	);

	test("parts of any size put together are the file", async () => {
		const parts: number[] = [];
		for (let offset = 0; offset < SIZE; offset += 333) {
			parts.push(...bodyOf(await get({ range: `bytes=${offset}-${offset + 332}` })));
		}
		expect(await sha256Hex(new Uint8Array(parts))).toBe(await sha256Hex(bytes));
	});

	test("If-Range with the ETag gives the part, with anything else the whole", async () => {
		const etag = (await get()).headers.get("etag") ?? "";
		expect((await get({ range: "bytes=0-1", "if-range": etag })).status).toBe(206);
		for (const other of ['"0123456789abcdef0123456789abcdef"', `W/${etag}`, "Sat, 21 Nov 2026 08:00:00 GMT"]) {
			const answer = await get({ range: "bytes=0-1", "if-range": other });
			expect(answer.status).toBe(200);
			expect(bodyOf(answer)).toEqual(bytes);
		}
		expect((await get({ range: "bytes=5000-", "if-range": '"other"' })).status).toBe(200);
	});
});

describe("conditions", () => {
	test("If-None-Match is 304 without a body for the same file, also as a weak tag, in a list and as *", async () => {
		const etag = (await get()).headers.get("etag") ?? "";
		for (const tags of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
			const answer = await get({ "if-none-match": tags });
			expect(answer.status).toBe(304);
			expect(bodyOf(answer)).toHaveLength(0);
			expect(answer.headers.get("etag")).toBe(etag);
			expect(answer.headers.get("cache-control")).toContain("immutable");
		}
		expect((await get({ "if-none-match": '"other"' })).status).toBe(200);
		expect((await get({ "if-none-match": etag, range: "bytes=0-1" })).status).toBe(304);
		expect((await get({ "if-none-match": '"other"', range: "bytes=0-1" })).status).toBe(206);
	});

	test("If-Match is 412 for another file, and lets the same one through", async () => {
		const etag = (await get()).headers.get("etag") ?? "";
		expect(await get({ "if-match": '"other"' })).toMatchObject({ status: 412, body: { error: "precondition_failed" } });
		expect(await get({ "if-match": `W/${etag}` })).toMatchObject({ status: 412 });
		expect((await get({ "if-match": etag, range: "bytes=0-1" })).status).toBe(206);
	});

	test("dates count where no tag is given", () => {
		const modifiedMs = Date.UTC(2026, 10, 21, 8, 0, 0, 400);
		const object = { etag: '"e"', sizeBytes: 10, modifiedMs };
		const [before, same, after] = [-1000, 0, 1000].map((ms) => new Date(modifiedMs + ms).toUTCString()) as [
			string,
			string,
			string,
		];
		const kind = (headers: Record<string, string>) => wantedOf(new Headers(headers), object, true).kind;
		expect([before, same, after].map((date) => kind({ "if-modified-since": date }))).toEqual([
			"whole",
			"not_modified",
			"not_modified",
		]);
		expect([before, same, after].map((date) => kind({ "if-unmodified-since": date }))).toEqual([
			"precondition_failed",
			"whole",
			"whole",
		]);
		expect(kind({ "if-modified-since": after, "if-none-match": '"other"' })).toBe("whole");
		expect(kind({ "if-unmodified-since": before, "if-match": '"e"' })).toBe("whole");
		expect(kind({ "if-modified-since": "yesterday", "if-unmodified-since": "tomorrow" })).toBe("whole");
	});

	test("an empty object has no range", () => {
		const object = { etag: '"e"', sizeBytes: 0, modifiedMs: 0 };
		for (const range of ["bytes=0-", "bytes=-5", "bytes=0-0"]) {
			expect(wantedOf(new Headers({ range }), object, true).kind).toBe("unsatisfiable");
		}
	});
});

describe("HEAD", () => {
	test("tells what GET would, without the bytes, whatever Range says", async () => {
		const whole = await get();
		for (const headers of [{}, { range: "bytes=0-1" }, { range: "bytes=5000-" }]) {
			const head = await world.request("HEAD", url, { headers });
			expect(head.status).toBe(200);
			expect(bodyOf(head)).toHaveLength(0);
			for (const name of [
				"content-length",
				"etag",
				"last-modified",
				"content-type",
				"cache-control",
				"accept-ranges",
			]) {
				expect([name, head.headers.get(name)]).toEqual([name, whole.headers.get(name)]);
			}
			expect(head.headers.get("content-range")).toBeNull();
		}
		const etag = whole.headers.get("etag") ?? "";
		expect((await world.request("HEAD", url, { headers: { "if-none-match": etag } })).status).toBe(304);
	});
});

test("the bytes of a channel's bundle are those that a link to it serves", async () => {
	const id = await uploadTestBundle(world, app, "1.1.0", world.adminKey, bundleOf(170, 4));
	await setTestChannel(world, app, "served", { version: "1.1.0" });
	const [row] = await rows(query.selectFrom("bundles").selectAll().where("id", "=", id));
	const served = bodyOf(await get({}, downloadUrl(world, row?.object_key ?? "")));
	expect(await sha256Hex(served)).toBe(row?.sha256);
	expect(await testEnv.BUNDLES.head(row?.object_key ?? "")).not.toBeNull();
});

/** Waits for the database as long as it takes; everything else happens at once. */
const patient = (ms: number) => (ms === 500 ? new Promise<void>(() => undefined) : Promise.resolve());

describe("a link of an app that goes", () => {
	let own: World;
	let theirs: TestApp;
	let address: string;
	/** Another isolate, whose patience with the database never ends. */
	let elsewhere: Pick<World, "request">;
	beforeEach(async () => {
		own = await createWorld();
		theirs = await createTestApp(own);
		await uploadTestBundle(own, theirs, "1.0.0", own.adminKey, bytes);
		const [row] = await rows(query.selectFrom("bundles").select("object_key").where("app_id", "=", theirs.uuid));
		address = downloadUrl(own, row?.object_key ?? "");
		elsewhere = { request: requestThrough(createApp({ ...own.deps, delay: patient })) };
	});
	const fetchPart = (from = elsewhere) => from.request("GET", address, { headers: { range: "bytes=0-9" } });
	const removeOrganization = () =>
		own.request("DELETE", "/organization", { key: own.adminKey, query: { orgId: own.orgId } });

	test("costs one lookup in two seconds, however many ranges are fetched", async () => {
		expect(await fetchPart()).toMatchObject({ status: 206, trips: 1 });
		for (let range = 0; range < 20; range++) expect(await fetchPart()).toMatchObject({ status: 206, trips: 0 });
		own.clock.nowMs += 2_000;
		expect(await fetchPart()).toMatchObject({ status: 206, trips: 1 });
		expect(await fetchPart()).toMatchObject({ status: 206, trips: 0 });
	});

	test("ends within four seconds of the organization's deletion, and is good again once it is restored", async () => {
		expect((await fetchPart()).status).toBe(206);
		expect((await removeOrganization()).status).toBe(200);
		own.clock.nowMs += 4_000;
		expect(await fetchPart()).toMatchObject({ status: 404, body: { error: "not_found" } });
		expect((await elsewhere.request("HEAD", address)).status).toBe(404);
		await own.request("POST", "/organization/restore", { key: own.adminKey, body: { orgId: own.orgId } });
		own.clock.nowMs += 4_000;
		expect((await fetchPart()).status).toBe(206);
	});

	test("ends at once in the isolate that deletes it", async () => {
		expect((await fetchPart()).status).toBe(206);
		await elsewhere.request("DELETE", "/organization", { key: own.adminKey, query: { orgId: own.orgId } });
		expect((await fetchPart()).status).toBe(404);
	});

	test("ends with its app, and another app of the organization goes on", async () => {
		const other = await createTestApp(own);
		await uploadTestBundle(own, other, "1.0.0", own.adminKey, bytes);
		const [row] = await rows(query.selectFrom("bundles").select("object_key").where("app_id", "=", other.uuid));
		expect((await fetchPart()).status).toBe(206);
		const { status } = await elsewhere.request("DELETE", `/app/${theirs.appId}`, { key: own.adminKey });
		expect(status).toBe(200);
		expect((await fetchPart()).status).toBe(404);
		expect((await elsewhere.request("GET", downloadUrl(own, row?.object_key ?? ""))).status).toBe(200);
	});

	test("goes on while the database is slow or down, and asks again when it is back", async () => {
		let isDown = true;
		const watched = beforeEachTrip(own.deps.d1, () => {
			if (isDown) throw new Error("D1 is down");
		});
		const request = requestThrough(createApp({ ...own.deps, d1: watched.d1, delay: patient }));
		expect((await fetchPart({ request })).status).toBe(206);
		expect(watched.trips).toBe(1);
		expect((await fetchPart({ request })).status).toBe(206);
		expect(watched.trips).toBe(1);
		isDown = false;
		await removeOrganization();
		own.clock.nowMs += 4_000;
		expect((await fetchPart({ request })).status).toBe(404);
		const never = beforeEachTrip(own.deps.d1, () => new Promise<void>((resolve) => setTimeout(resolve, 50)));
		const impatient = requestThrough(createApp({ ...own.deps, d1: never.d1 }));
		expect((await fetchPart({ request: impatient })).status).toBe(206);
	});
});
