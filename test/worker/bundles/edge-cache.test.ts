/**
 * Downloads through the cache of the data center: which of them read R2, that a copy answers
 * exactly as R2 does, and that the link still decides. The cache is the runtime's own; R2 counts
 * its reads.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { query } from "../../../src/db/client";
import type { Deps } from "../../../src/deps";
import { HOUR_MS } from "../../../src/domain/time";
import { downloadUrl, rows } from "../support/bytes";
import {
	createTestApp,
	createWorld,
	requestThrough,
	sha256Hex,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";
import { bundleOf } from "../support/zip";

const SIZE = 1000;
const LARGE = 300 * 1024;
const edge = (globalThis as unknown as { readonly caches: { readonly default: Cache } }).caches.default;

let world: World;
let app: TestApp;
/** Reads of R2 by downloads. */
let reads: string[];
let copies: { readonly address: string; readonly control: string | null }[];

const watchedBucket = new Proxy(testEnv.BUNDLES, {
	get(bucket, name) {
		const member = Reflect.get(bucket, name);
		if (typeof member !== "function") return member;
		return (...parameters: unknown[]) => {
			if (name === "get" || name === "head") reads.push(name);
			return member.apply(bucket, parameters);
		};
	},
});
const watchedCache: Deps["cache"] = {
	match: (...parameters) => edge.match(...parameters),
	put(request, response) {
		const address = typeof request === "string" ? request : "";
		copies.push({ address, control: response.headers.get("cache-control") });
		return edge.put(request, response);
	},
};

const through = (changes: Partial<Deps> = {}) => ({
	request: requestThrough(createApp({ ...world.deps, bundles: watchedBucket, cache: watchedCache, ...changes })),
});

async function uploaded(version: string, bytes: Uint8Array<ArrayBuffer>, of = app): Promise<string> {
	await uploadTestBundle(world, of, version, world.adminKey, bytes);
	const [row] = await rows(
		query.selectFrom("bundles").select("object_key").where("app_id", "=", of.uuid).where("name", "=", version),
	);
	return row?.object_key ?? "";
}

/** The parts of an answer that a client sees. */
async function seen(client: Pick<World, "request">, url: string, headers: Record<string, string> = {}, method = "GET") {
	const { status, body, headers: answered } = await client.request<unknown>(method, url, { headers });
	const names = ["etag", "last-modified", "content-type", "content-length", "content-range", "cache-control"];
	return {
		status,
		sha256: body instanceof ArrayBuffer ? await sha256Hex(new Uint8Array(body)) : undefined,
		headers: Object.fromEntries([...names, "accept-ranges"].map((name) => [name, answered.get(name)])),
	};
}

beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	reads = [];
	copies = [];
});

describe("a second download within the hour", () => {
	test("does not read R2 and is equal to the first, in every isolate and with a later link", async () => {
		const bytes = bundleOf(SIZE);
		const key = await uploaded("1.0.0", bytes);
		const url = await downloadUrl(world, key);
		const fromR2 = await seen(through(), url);
		expect(fromR2.sha256).toBe(await sha256Hex(bytes));
		expect(reads).toEqual(["get"]);
		reads = [];
		expect(await seen(through(), url)).toEqual(fromR2);
		world.clock.nowMs += HOUR_MS;
		const laterUrl = await downloadUrl(world, key);
		expect(laterUrl).not.toBe(url);
		expect((await seen(through(), laterUrl)).sha256).toBe(fromR2.sha256);
		expect(reads).toEqual([]);
	});

	test.each([
		["a range", { range: "bytes=100-199" }],
		["the last bytes", { range: "bytes=-10" }],
		["a range beyond the end", { range: "bytes=900-5000" }],
		["a range that cannot be satisfied", { range: "bytes=1000-" }],
		["several ranges", { range: "bytes=0-1,5-6" }],
		["If-Range with another tag", { range: "bytes=0-9", "if-range": '"other"' }],
		["If-Range with the tag", { range: "bytes=0-9", "if-range": "<etag>" }],
		["If-None-Match with the tag", { "if-none-match": "<etag>" }],
		["If-None-Match with another tag", { "if-none-match": '"other"', range: "bytes=0-9" }],
		["If-Match with another tag", { "if-match": '"other"' }],
	])("answers %s as R2 does", async (_, asked: Record<string, string>) => {
		const url = await downloadUrl(world, await uploaded("1.0.0", bundleOf(SIZE)));
		const cached = through();
		const etag = (await seen(cached, url)).headers.etag ?? "";
		const headers = Object.fromEntries(
			Object.entries(asked).map(([name, value]) => [name, value.replace("<etag>", etag)]),
		);
		const fromR2 = await seen(through({ cache: undefined }), url, headers);
		expect(reads.length).toBeGreaterThan(1);
		reads = [];
		expect(await seen(cached, url, headers)).toEqual(fromR2);
		expect(reads).toEqual([]);
	});

	test("answers HEAD as R2 does", async () => {
		const url = await downloadUrl(world, await uploaded("1.0.0", bundleOf(SIZE)));
		await seen(through(), url);
		const fromR2 = await seen(through({ cache: undefined }), url, {}, "HEAD");
		reads = [];
		expect(await seen(through(), url, {}, "HEAD")).toEqual(fromR2);
		expect(reads).toEqual([]);
	});

	test("of a large object is served from one copy, even after simultaneous first downloads", async () => {
		const bytes = bundleOf(LARGE);
		const url = await downloadUrl(world, await uploaded("1.0.0", bytes));
		const client = through();
		const first = await Promise.all([1, 2, 3].map(() => seen(client, url)));
		for (const { sha256 } of first) expect(sha256).toBe(await sha256Hex(bytes));
		expect(reads).toHaveLength(4);
		reads = [];
		expect((await seen(client, url)).sha256).toBe(await sha256Hex(bytes));
		expect(await seen(client, url, { range: `bytes=${LARGE - 5}-` })).toMatchObject({
			status: 206,
			sha256: await sha256Hex(bytes.slice(-5)),
		});
		expect(reads).toEqual([]);
	});

	test("counts as served bytes like the first", async () => {
		const url = await downloadUrl(world, await uploaded("1.0.0", bundleOf(SIZE)));
		const client = through();
		await seen(client, url);
		await seen(client, url);
		await seen(client, url, { range: "bytes=0-99" });
		await seen(client, url, {}, "HEAD");
		const counted = world.deps.sent.flatMap((message) => ("events" in message ? message.events : []));
		const served = counted.flatMap((event) => (event.type === "served" ? Object.values(event.bytes) : []));
		expect(served.reduce((sum, one) => sum + one, 0)).toBe(2 * SIZE + 100);
	});
});

describe("a cached copy", () => {
	test("is stored under the object's key only, for an hour", async () => {
		const key = await uploaded("1.0.0", bundleOf(SIZE));
		await seen(through(), await downloadUrl(world, key));
		expect(copies).toEqual([
			{
				address: `https://updates.example.com/edge-cache/${key}`,
				control: "public, max-age=3600, immutable, no-transform",
			},
		]);
		expect((await world.request("GET", `/edge-cache/${key}`)).status).toBe(404);
	});

	test("is not served for an expired or altered link, another object or a deleted app", async () => {
		const key = await uploaded("1.0.0", bundleOf(SIZE));
		const url = await downloadUrl(world, key);
		// Waits for the database, however long it takes.
		const client = through({ delay: (ms) => (ms === 500 ? new Promise(() => undefined) : Promise.resolve()) });
		await seen(client, url);
		const other = await createTestApp(world);
		const otherUrl = await downloadUrl(world, await uploaded("1.0.0", bundleOf(SIZE), other));
		const refused = async (address: string) => (await seen(client, address)).status;
		expect(await refused(url.replace(/.$/, (last) => (last === "0" ? "1" : "0")))).toBe(403);
		expect(await refused(`${url.split("?")[0]}?${otherUrl.split("?")[1]}`)).toBe(403);
		const { status } = await client.request("DELETE", `/app/${app.appId}`, { key: world.adminKey });
		expect([status, await refused(url)]).toEqual([200, 404]);
		expect(await refused(otherUrl)).toBe(200);
		world.clock.nowMs += 25 * HOUR_MS;
		expect(await refused(otherUrl)).toBe(403);
	});

	test("is created by complete downloads only", async () => {
		const url = await downloadUrl(world, await uploaded("1.0.0", bundleOf(SIZE)));
		await seen(through(), url, { range: "bytes=0-9" });
		await seen(through(), url, {}, "HEAD");
		await seen(through(), url, { "if-none-match": "*" });
		expect(copies).toEqual([]);
	});
});

describe("without a working cache", () => {
	test.each([
		["with no Cache API", { cache: undefined }, "updates.example.com"],
		["on workers.dev", {}, "capstan.example.workers.dev"],
		[
			"while the cache fails",
			{
				cache: {
					match: () => Promise.reject(new Error("down")),
					put: () => Promise.reject(new Error("down")),
				},
			},
			"updates.example.com",
		],
	])("every download reads R2 once, %s", async (_, changes, host) => {
		const bytes = bundleOf(LARGE);
		const url = (await downloadUrl(world, await uploaded("1.0.0", bytes))).replace("updates.example.com", host);
		const client = through(changes);
		await seen(client, url);
		reads = [];
		for (const _attempt of [1, 2]) expect((await seen(client, url)).sha256).toBe(await sha256Hex(bytes));
		expect(reads).toEqual(["get", "get"]);
		expect(await seen(client, url, { range: "bytes=0-9" })).toMatchObject({
			status: 206,
			sha256: await sha256Hex(bytes.slice(0, 10)),
		});
	});

	test("a cache that drops every copy costs one more read of a large object an hour", async () => {
		const url = await downloadUrl(world, await uploaded("1.0.0", bundleOf(LARGE)));
		const client = through({ cache: { match: async () => undefined, put: async () => undefined } });
		for (const _attempt of [1, 2, 3]) await seen(client, url);
		expect(reads).toHaveLength(4);
		world.clock.nowMs += HOUR_MS;
		await seen(client, url);
		expect(reads).toHaveLength(6);
	});
});
