/**
 * Downloads by signed, expiring links: complete, in ranges and with conditions (RFC 9110). The
 * database is asked at most once in two seconds, whether the app exists. A link opens one object
 * for one method until it expires.
 */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { query } from "../../../src/db/client";
import { verifyLink } from "../../../src/storage/links";
import { downloadUrl, putBytes, register, rows } from "../support/bytes";
import {
	app,
	bodyOf,
	bytes,
	get,
	objectKey,
	objectKeyOf,
	prepareDownload,
	SIZE,
	url,
	world,
} from "../support/download-scene";
import { beforeEachTrip } from "../support/interleave";
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
} from "../support/world";
import { bundleOf } from "../support/zip";

beforeAll(prepareDownload);

describe("a download link", () => {
	test("answers with the whole object, its size, its ETag, and a cache lifetime up to the link's expiry", async () => {
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

	test("is the same for an hour, and valid for at least a day", async () => {
		const at = (nowMs: number) => downloadUrl({ ...world, clock: { nowMs } }, objectKey);
		const hourMs = 3_600_000;
		expect(await at(world.clock.nowMs + 1000)).toBe(await at(world.clock.nowMs + hourMs));
		expect(await at(world.clock.nowMs + 1000)).not.toBe(await at(world.clock.nowMs + hourMs + 1000));
		const expiresMs = Number(new URL(await at(world.clock.nowMs)).searchParams.get("expires")) * 1000;
		expect(expiresMs).toBeGreaterThanOrEqual(world.clock.nowMs + 24 * hourMs);
	});

	test("cannot be cached beyond its expiry, to the millisecond, and then answers 403", async () => {
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

	test("answers 403 after a change of path, expiry or signature, and opens no object of another app", async () => {
		const otherApp = await createTestApp(world);
		await uploadTestBundle(world, otherApp, "1.0.1");
		const other = await objectKeyOf("1.0.1", otherApp);
		expect(other, "the control: it is an object of the other app").toContain(otherApp.uuid);
		const { origin, search, pathname } = new URL(url);
		const altered = [
			`${origin}/files/download/${other}${search}`,
			`${origin}${pathname.replace(app.uuid, `${app.uuid}%2F${otherApp.uuid}`)}${search}`,
			`${origin}${pathname.replace(app.uuid, otherApp.uuid)}${search}`,
			`${origin}/files/download/${app.uuid}/../${other}${search}`,
			`${origin}/files/download/${app.uuid}/${search}`,
			`${origin}${pathname.replace(/object$/, "segment-0000000000000")}${search}`,
			url.replace(/expires=(\d+)/, (_, seconds) => `expires=${Number(seconds) + 3600}`),
			url.replace(/.$/, (last) => (last === "0" ? "1" : "0")),
			url.slice(0, -1),
			`${url}0`,
		];
		for (const address of altered) {
			const refused = await get({}, address);
			expect([refused.status, refused.body.error ?? ""]).not.toEqual([200, ""]);
			expect([400, 403, 404]).toContain(refused.status);
		}
		expect(await get({}, `${origin}/files/download/${other}${search}`)).toMatchObject({
			status: 403,
			body: { error: "invalid_signature" },
		});
		// Without a signature the signature is invalid; two expiries are an invalid request.
		for (const parameters of ["", "?expires=1", "?signature=aa"]) {
			expect((await get({}, origin + pathname + parameters)).status).toBe(403);
		}
		expect((await get({}, `${origin}${pathname}${search}&expires=1`)).status).toBe(400);
	});

	test("cannot be used for an upload, nor an upload link for a download", async () => {
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

	test("is signed for its method as well as for its path", async () => {
		const { pathname, searchParams } = new URL(url);
		const link = { expires: searchParams.get("expires") ?? "", signature: searchParams.get("signature") ?? "" };
		expect(await verifyLink(world.deps, "GET", pathname, link, world.clock.nowMs)).toBeGreaterThan(0);
		await expect(verifyLink(world.deps, "PUT", pathname, link, world.clock.nowMs)).rejects.toThrow("does not match");
	});

	test("answers 403 if another secret signed it", async () => {
		const stranger = await createWorld({ config: { CAPSTAN_SECRET: "ab".repeat(32) } });
		expect((await get({}, await downloadUrl(stranger, objectKey))).status).toBe(403);
	});

	test("answers 404 for a deleted bundle", async () => {
		await uploadTestBundle(world, app, "1.0.3");
		const address = await downloadUrl(world, await objectKeyOf("1.0.3"));
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

	test("works while the database does not answer", async () => {
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

	test("answers 503 with Retry-After if R2 does not answer", async () => {
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

test("the link of a channel's bundle serves the bytes of the bundle", async () => {
	const id = await uploadTestBundle(world, app, "1.1.0", world.adminKey, bundleOf(170, 4));
	await setTestChannel(world, app, "served", { version: "1.1.0" });
	const [row] = await rows(query.selectFrom("bundles").selectAll().where("id", "=", id));
	const served = bodyOf(await get({}, await downloadUrl(world, row?.object_key ?? "")));
	expect(await sha256Hex(served)).toBe(row?.sha256);
	expect(await testEnv.BUNDLES.head(row?.object_key ?? "")).not.toBeNull();
});

describe("a link of a deleted app", () => {
	let own: World;
	let theirs: TestApp;
	let address: string;
	/** Another isolate. */
	let elsewhere: Pick<World, "request">;
	beforeEach(async () => {
		own = await createWorld();
		theirs = await createTestApp(own);
		await uploadTestBundle(own, theirs, "1.0.0", own.adminKey, bytes);
		const [row] = await rows(query.selectFrom("bundles").select("object_key").where("app_id", "=", theirs.uuid));
		address = await downloadUrl(own, row?.object_key ?? "");
		elsewhere = { request: requestThrough(createApp(own.deps)) };
	});
	const fetchPart = (from = elsewhere) => from.request("GET", address, { headers: { range: "bytes=0-9" } });
	const removeOrganization = () =>
		own.request("DELETE", "/organization", { key: own.adminKey, query: { orgId: own.orgId } });

	test("costs one lookup in two seconds for any number of ranges", async () => {
		expect(await fetchPart()).toMatchObject({ status: 206, trips: 1 });
		for (let range = 0; range < 20; range++) expect(await fetchPart()).toMatchObject({ status: 206, trips: 0 });
		own.clock.nowMs += 2_000;
		expect(await fetchPart()).toMatchObject({ status: 206, trips: 1 });
		expect(await fetchPart()).toMatchObject({ status: 206, trips: 0 });
	});

	test("ends within four seconds of the organization's deletion, and is valid again after its restoration", async () => {
		expect((await fetchPart()).status).toBe(206);
		expect((await removeOrganization()).status).toBe(200);
		own.clock.nowMs += 4_000;
		expect(await fetchPart()).toMatchObject({ status: 404, body: { error: "not_found" } });
		expect((await elsewhere.request("HEAD", address)).status).toBe(404);
		await own.request("POST", "/organization/restore", { key: own.adminKey, body: { orgId: own.orgId } });
		own.clock.nowMs += 4_000;
		expect((await fetchPart()).status).toBe(206);
	});

	test("ends immediately in the isolate that deletes the app", async () => {
		expect((await fetchPart()).status).toBe(206);
		await elsewhere.request("DELETE", "/organization", { key: own.adminKey, query: { orgId: own.orgId } });
		expect((await fetchPart()).status).toBe(404);
	});

	test("ends with its app, while links of another app stay valid", async () => {
		const other = await createTestApp(own);
		await uploadTestBundle(own, other, "1.0.0", own.adminKey, bytes);
		const [row] = await rows(query.selectFrom("bundles").select("object_key").where("app_id", "=", other.uuid));
		expect((await fetchPart()).status).toBe(206);
		const { status } = await elsewhere.request("DELETE", `/app/${theirs.appId}`, { key: own.adminKey });
		expect(status).toBe(200);
		expect((await fetchPart()).status).toBe(404);
		expect((await elsewhere.request("GET", await downloadUrl(own, row?.object_key ?? ""))).status).toBe(200);
	});

	test("works while the database is slow or down, and is checked again afterwards", async () => {
		let isDown = true;
		const watched = beforeEachTrip(own.deps.d1, () => {
			if (isDown) throw new Error("D1 is down");
		});
		const request = requestThrough(createApp({ ...own.deps, d1: watched.d1 }));
		expect((await fetchPart({ request })).status).toBe(206);
		expect(watched.trips).toBe(1);
		expect((await fetchPart({ request })).status).toBe(206);
		expect(watched.trips).toBe(1);
		isDown = false;
		await removeOrganization();
		own.clock.nowMs += 4_000;
		expect((await fetchPart({ request })).status).toBe(404);
		const never = beforeEachTrip(own.deps.d1, () => new Promise<void>((resolve) => setTimeout(resolve, 50)));
		const impatient = requestThrough(createApp({ ...own.deps, d1: never.d1, deadline: async () => undefined }));
		expect((await fetchPart({ request: impatient })).status).toBe(206);
	});
});
