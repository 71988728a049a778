/**
 * Work before authentication: at every endpoint a stranger's body is not read, and a stranger's
 * question costs one look-up.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { mintKey, mintSessionToken } from "../../../src/authz/secrets";
import { allEndpoints } from "../../../src/endpoints";
import type { AnyEndpoint } from "../../../src/http/endpoint";
import { DEFAULT_LIMIT_BYTES } from "../../../src/http/pipeline/body";
import { countingRows } from "../support/counting";
import { REQUESTS } from "../support/requests";
import { sessionOf } from "../support/sessions";
import {
	createTestApp,
	createTestKey,
	createWorld,
	type RequestOptions,
	requestThrough,
	type TestApp,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

const nameOf = ({ method, path }: AnyEndpoint) => `${method} ${path}`;
const isPublic = ({ access }: AnyEndpoint) => "public" in access;
const random = (length: number) => crypto.getRandomValues(new Uint8Array(length));
const unknownKey = () => mintKey(random).text;
/** Well formed, and unknown: a key, or a session where only sessions are accepted. */
const unknownCaller = ({ access }: AnyEndpoint): Pick<RequestOptions, "key" | "headers"> =>
	"ownSession" in access ? { headers: sessionOf(mintSessionToken(random).text).headers } : { key: unknownKey() };
const pathOf = ({ path }: AnyEndpoint) => path.replaceAll(/:\w+(\{[^}]*\})?/g, "5e1f0d3c-0000-4000-8000-000000000000");

const CHUNK_BYTES = 64 * 1024;

/**
 * A body that counts how often more of it was asked for. The runtime asks once before anybody
 * reads.
 */
function watchedBody(length: number) {
	const state = { pulls: 0 };
	const chunk = new Uint8Array(CHUNK_BYTES).fill(0x20);
	const body = new ReadableStream<Uint8Array>({
		pull(controller) {
			state.pulls += 1;
			if (state.pulls * CHUNK_BYTES > length) controller.close();
			else controller.enqueue(chunk);
		},
	});
	return { body, state };
}

const withBody = allEndpoints.filter(
	({ body, queryOrBody, rawBody }) => body !== undefined || queryOrBody === true || rawBody !== undefined,
);

describe("the body of a stranger is answered before it is read", () => {
	test.each(
		withBody.filter((endpoint) => !isPublic(endpoint)).map((endpoint) => [nameOf(endpoint), endpoint] as const),
	)("%s", async (_, endpoint) => {
		const length = 15_500_000;
		for (const declared of [{}, { "content-length": String(length) }]) {
			const { body, state } = watchedBody(length);
			const rows = countingRows(world.deps.d1);
			const stranger = requestThrough(createApp({ ...world.deps, d1: rows.d1 }));
			const caller = unknownCaller(endpoint);
			const { status } = await stranger(endpoint.method, pathOf(endpoint), {
				...caller,
				headers: { "content-type": "application/json", ...declared, ...caller.headers },
				rawBody: body,
			});
			expect(status).toBe(401);
			expect(state.pulls).toBeLessThanOrEqual(1);
			expect(rows.trips).toBeLessThanOrEqual(1);
		}
	});

	test.each(withBody.filter(isPublic).map((endpoint) => [nameOf(endpoint), endpoint] as const))(
		"%s, which needs no key, reads no more than the default",
		async (_, endpoint) => {
			expect(endpoint.bodyLimitBytes ?? DEFAULT_LIMIT_BYTES).toBeLessThanOrEqual(DEFAULT_LIMIT_BYTES);
			const { body, state } = watchedBody(15_500_000);
			const { status } = await world.request(endpoint.method, pathOf(endpoint), {
				headers: { "content-type": "application/json" },
				query: { expires: "9999999999", signature: "0".repeat(64) },
				rawBody: body,
			});
			expect(status).toBeGreaterThanOrEqual(400);
			expect(state.pulls).toBeLessThanOrEqual(DEFAULT_LIMIT_BYTES / CHUNK_BYTES + 2);
			if (endpoint.rawBody !== undefined) expect(state.pulls).toBeLessThanOrEqual(1);
		},
	);

	const large = allEndpoints.filter(({ bodyLimitBytes = 0 }) => bodyLimitBytes > DEFAULT_LIMIT_BYTES);

	test("the large limit is for callers with the permission", async () => {
		expect(large.length).toBeGreaterThan(0);
		const reader = await createTestKey(world, "app_reader", app);
		const developer = await createTestKey(world, "app_developer", app);
		for (const endpoint of large) {
			for (const [key, most] of [
				[reader.text, DEFAULT_LIMIT_BYTES],
				[developer.text, endpoint.bodyLimitBytes ?? 0],
			] as const) {
				const { body, state } = watchedBody(100_000_000);
				const { status } = await world.request(endpoint.method, pathOf(endpoint), {
					key,
					headers: { "content-type": "application/json" },
					rawBody: body,
				});
				expect(status).toBe(413);
				expect(state.pulls * CHUNK_BYTES).toBeGreaterThan(most);
				expect(state.pulls * CHUNK_BYTES).toBeLessThanOrEqual(most + 3 * CHUNK_BYTES);
			}
		}
	});

	test("large bodies of a caller are read at a rate, and small ones go on", async () => {
		const pauses: number[] = [];
		const paced = await createWorld({ bindings: { delay: async (ms) => void pauses.push(ms) } });
		const ownApp = await createTestApp(paced);
		const other = await createTestKey(paced, "app_developer", ownApp);
		const send = (endpoint: AnyEndpoint, length: number, key: string) => {
			const { body } = watchedBody(length);
			const headers = { "content-type": "application/json" };
			return paced.request(endpoint.method, pathOf(endpoint), { key, headers, rawBody: body });
		};
		const [largest] = large;
		if (largest === undefined) throw new Error("no endpoint has a large body");
		for (let body = 0; body < 4; body += 1) {
			expect((await send(largest, 1024 * 1024, paced.adminKey)).status).toBe(400);
		}
		expect(pauses).toEqual([500, 1_000, 1_500]);
		expect((await send(largest, 1_000, paced.adminKey)).status).toBe(400);
		expect((await send(largest, 1024 * 1024, other.text)).status).toBe(400);
		expect(pauses).toHaveLength(3);
		// Every endpoint counts, also below the limit of most.
		const ordinary = allEndpoints.find(({ path, method }) => path === "/channel" && method === "POST");
		if (ordinary === undefined) throw new Error("there is no POST /channel");
		for (let body = 0; body < 50; body += 1) await send(ordinary, 1_000_000, paced.adminKey);
		expect(Math.max(...pauses)).toBeLessThanOrEqual(20_000);
		const refused = await send(ordinary, 1_000_000, paced.adminKey);
		expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "5"]);
		expect((await send(ordinary, 1_000, paced.adminKey)).status).toBe(400);
		paced.clock.nowMs += 10_000;
		expect((await send(ordinary, 1_000_000, paced.adminKey)).status).toBe(400);
	});
});

test.each(Object.keys(REQUESTS))("%s costs a stranger one look-up", async (name) => {
	const [method = "", path = ""] = name.split(" ");
	const endpoint = allEndpoints.find((each) => each.method === method && each.path === path);
	if (endpoint === undefined || isPublic(endpoint)) return;
	const prepared = await REQUESTS[name]?.(world, app);
	if (prepared === undefined) throw new Error("there is no request");
	const rows = countingRows(world.deps.d1);
	const { path: asked, thing: _, ...request } = prepared;
	const stranger = requestThrough(createApp({ ...world.deps, d1: rows.d1 }));
	const { status } = await stranger(method, asked, { ...request, key: unknownKey() });
	expect(status).toBe(401);
	expect(rows.statements.filter(({ text }) => /^\W*SELECT/.test(text)).length).toBeLessThanOrEqual(1);
	expect(rows.read).toBeLessThan(10);
});

test("a key that was revoked costs one request of more, and then a look-up", async () => {
	const key = await createTestKey(world, "app_reader", app);
	const rows = countingRows(world.deps.d1);
	const own = requestThrough(createApp({ ...world.deps, d1: rows.d1 }));
	const list = async () => {
		const before = rows.trips;
		const { status } = await own("GET", "/device", { key: key.text, query: { app_id: app.appId } });
		return [status, rows.trips - before];
	};
	expect(await list()).toEqual([200, 3]);
	expect(await list()).toEqual([200, 2]);
	await world.admin("DELETE /apikey/:id", { params: { id: key.id } });
	expect((await list())[0]).toBe(401);
	const { statements } = rows;
	const seen = statements.length;
	expect((await list())[0]).toBe(401);
	expect(rows.statements.length - seen).toBeLessThanOrEqual(1);
});
