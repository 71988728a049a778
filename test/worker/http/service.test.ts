/**
 * The service about itself: where a browser and a program go from the bare address, and the
 * addresses at which apps reach a local run.
 */
import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, test } from "vitest";
import packageJson from "../../../package.json";
import { createApp } from "../../../src/app";
import type { Deps } from "../../../src/deps";
import { runJobs } from "../../../src/schedule";
import { beforeEachTrip } from "../support/interleave";
import { createTestKey, createWorld, makeOperator, requestThrough, testEnv, type World } from "../support/world";

const { SECOND_DB } = env as unknown as { readonly SECOND_DB: D1Database };

const BROWSER = { accept: "text/html,application/xhtml+xml,*/*;q=0.8" };

test.each([
	["https://updates.example.com", "https://updates.example.com/dashboard/"],
	["http://localhost:8787", "http://localhost:8787/dashboard/"],
	// Sessions and passkeys of a local run belong to one host.
	["http://127.0.0.1:8787", "http://localhost:8787/dashboard/"],
	["http://[::1]:8787", "http://localhost:8787/dashboard/"],
	// Nobody can sign in over plain HTTP; the page says where they can.
	["http://192.168.1.20:8787", "http://192.168.1.20:8787/sign-in"],
])("GET %s/ leads a browser to %s", async (origin, location) => {
	const world = await createWorld();
	const answer = await world.request("GET", `${origin}/`, { headers: BROWSER });
	expect(answer.status).toBe(302);
	expect(answer.headers.get("location")).toBe(location);
	expect(answer.headers.get("vary")).toBe("Accept");
});

test.each([undefined, "*/*", "application/json"])("GET / with accept %s answers with the paths", async (accept) => {
	const world = await createWorld();
	const answer = await world.as()("GET /", { headers: accept === undefined ? {} : { accept } });
	expect(answer.status).toBe(200);
	expect(answer.body).toEqual({ name: "Capstan", dashboard: "/dashboard/", docs: "/docs", openapi: "/openapi.json" });
});

test("GET /service/addresses of a deployment lists its public address", async () => {
	const world = await createWorld({ config: { PUBLIC_URL: "https://live.example.com" } });
	const { body } = await world.request("GET", "https://live.example.com/service/addresses", { key: world.adminKey });
	expect(body).toEqual([{ kind: "public", url: "https://live.example.com", reachable: true }]);
});

test.each([
	["loopback", false],
	["network", true],
])("GET /service/addresses of a run that serves %s says whether phones reach it", async (run, reachable) => {
	const config = { CAPSTAN_LOCAL_RUN: run, CAPSTAN_NETWORK_ADDRESSES: "192.168.1.20,10.0.0.7" };
	const world = await createWorld({ config });
	const { body } = await world.request("GET", "http://127.0.0.1:8787/service/addresses", { key: world.adminKey });
	expect(body).toEqual([
		{ kind: "this_computer", url: "http://localhost:8787", reachable: true },
		{ kind: "android_emulator", url: "http://10.0.2.2:8787", reachable: true },
		{ kind: "network", url: "http://192.168.1.20:8787", reachable },
		{ kind: "network", url: "http://10.0.0.7:8787", reachable },
	]);
});

test.each([
	[{}, { code: true, code_delivery: "terminal" }],
	[
		{ MAIL_PROVIDER: "resend", MAIL_FROM: "a@example.com", MAIL_API_KEY: "key" },
		{ code: true, code_delivery: "email" },
	],
	[{ CAPSTAN_MAIL_TO_TERMINAL: "" }, { code: false, code_delivery: null }],
])("GET /sign-in/methods with %j says where a code is found", async (config, methods) => {
	const world = await createWorld({ config });
	expect((await world.as()("GET /sign-in/methods")).body).toMatchObject(methods);
});

describe("GET /ok", () => {
	let world: World;
	let asked: ReturnType<typeof beforeEachTrip>;
	let fault: (() => Promise<void>) | undefined;
	const ok = async (deps: Partial<Deps> = {}) => {
		const request = requestThrough(createApp({ ...world.deps, d1: asked.d1, ...deps }));
		return async (answered?: () => void) =>
			(await request<unknown>("GET", "/ok", answered === undefined ? {} : { answered })).body;
	};
	const answer = (schema: string | null) => ({ status: "ok", version: packageJson.version, schema });
	beforeAll(async () => {
		world = await createWorld();
		await SECOND_DB.batch([
			SECOND_DB.prepare("CREATE TABLE d1_migrations (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT)"),
			SECOND_DB.prepare("INSERT INTO d1_migrations (name) VALUES ('0001_first.sql'), ('0002_second.sql')"),
		]);
		asked = beforeEachTrip(SECOND_DB, async () => fault?.());
	});

	test("says what time it is, so that the command compares clocks with any server", async () => {
		const { headers } = await world.request("GET", "/ok");
		expect(headers.get("date")).toBe(new Date(world.clock.nowMs).toUTCString());
	});

	test("names the release and the newest migration, and asks the database once a minute", async () => {
		const get = await ok();
		const before = asked.trips;
		expect(await Promise.all([get(), get(), get()])).toEqual([1, 2, 3].map(() => answer("0002_second")));
		for (let request = 0; request < 20; request += 1) await get();
		expect(asked.trips - before).toBe(1);
		await SECOND_DB.prepare("INSERT INTO d1_migrations (name) VALUES ('0003_third.sql')").run();
		world.clock.nowMs += 60_000;
		expect(await get()).toEqual(answer("0003_third"));
		expect(asked.trips - before).toBe(2);
	});

	test.each([
		["fails", () => Promise.reject(new Error("D1 is down"))],
		["hangs", (ended: Promise<void>) => ended],
	])("answers while the database %s, and asks it no more often", async (_, failing) => {
		const ended = Promise.withResolvers<void>();
		ended.promise.catch(() => undefined);
		fault = () => failing(ended.promise);
		const get = await ok({ deadline: async () => undefined });
		const before = asked.trips;
		const answers: Promise<unknown>[] = [];
		// Each request is sent after the answer of the one before. The work of a request that hangs goes
		// on until the database fails.
		for (let request = 0; request < 5; request += 1) {
			await new Promise<void>((answered) => answers.push(get(answered)));
		}
		expect(asked.trips - before).toBe(1);
		ended.reject(new Error("D1 is down"));
		expect(await Promise.all(answers)).toEqual(answers.map(() => answer(null)));
		fault = undefined;
	});
});

describe("GET /service/status", () => {
	const cache = (globalThis as unknown as { readonly caches: { readonly default: Cache } }).caches.default;
	const read = (world: World, deps: Partial<Deps>, host = "updates.example.com") =>
		requestThrough(createApp({ ...world.deps, ...deps }))<Record<string, unknown>>(
			"GET",
			`https://${host}/service/status`,
			{ key: world.adminKey },
		);

	test("reports to the operator what works, and no secret", async () => {
		const world = await createWorld({ config: { PUBLIC_URL: "https://updates.example.com" } });
		const metrics = async () => ({ backlogCount: 3, backlogBytes: 99, oldestMessageTimestamp: new Date(1_000) });
		const { status, body } = await read(world, { cache, events: { ...world.deps.events, metrics } });
		expect(status).toBe(200);
		expect(body).toMatchObject({
			version: packageJson.version,
			now: "2026-11-21T08:00:00.000Z",
			bucket: "works",
			edge_cache: "works",
			queue: { backlog: 3, oldest_at: "1970-01-01T00:00:01.000Z" },
			dead_messages: 0,
			missing_bindings: [],
			database: { size_bytes: expect.any(Number) },
			telemetry: [{ binding: "TELEMETRY", schema: null, size_bytes: null }],
			settings: { public_url: "https://updates.example.com", secrets: 1 },
		});
		expect(JSON.stringify(body)).not.toContain("5e5e");
	});

	test("reports when the clean-up ran last, also if one of its jobs failed", async () => {
		const world = await createWorld();
		await world.deps.d1.prepare("DELETE FROM job_positions WHERE step = 'clean_up'").run();
		const at = async () => (await read(world, {})).body.last_clean_up_at;
		expect(await at()).toBe(null);
		await runJobs(world.deps);
		expect(await at()).toBe("2026-11-21T08:00:00.000Z");
		world.clock.nowMs += 15 * 60_000;
		const list = () => Promise.reject(new Error("R2 is down"));
		await world.deps.d1
			.prepare("INSERT INTO garbage_objects (object_prefix, created_at_ms, due_at_ms) VALUES ('gone/', 1, 1)")
			.run();
		await expect(runJobs({ ...world.deps, bundles: { ...world.deps.bundles, list } as R2Bucket })).rejects.toThrow(
			"jobs failed",
		);
		expect(await at()).toBe("2026-11-21T08:15:00.000Z");
	});

	test("reports parts that fail, and answers", async () => {
		const world = await createWorld();
		const fail = () => Promise.reject(new Error("down"));
		const throwing = () => {
			throw new Error("down");
		};
		const { body } = await read(world, {
			bundles: { head: fail } as unknown as R2Bucket,
			events: { ...world.deps.events, metrics: fail },
			assets: undefined as unknown as Deps["assets"],
			cache: { match: async () => undefined, put: async () => undefined },
			telemetry: { TELEMETRY: { withSession: throwing } as unknown as D1Database, TELEMETRY_1: SECOND_DB },
		});
		expect(body).toMatchObject({
			telemetry: [
				{ binding: "TELEMETRY", schema: null, size_bytes: null },
				{ binding: "TELEMETRY_1", schema: "0003_third", size_bytes: expect.any(Number) },
			],
			bucket: "fails",
			edge_cache: "no_effect",
			queue: null,
			missing_bindings: ["ASSETS"],
		});
		expect((await read(world, { cache }, "capstan.example.workers.dev")).body.edge_cache).toBe("no_effect");
	});

	test("waits only so long for a telemetry database", async () => {
		const world = await createWorld();
		const hung = {
			withSession: () => ({ batch: () => new Promise(() => undefined), prepare: () => ({ bind: () => null }) }),
		};
		const { status, body } = await read(world, {
			telemetry: { TELEMETRY: hung as unknown as D1Database },
			deadline: async () => undefined,
		});
		expect([status, body.telemetry]).toEqual([200, [{ binding: "TELEMETRY", schema: null, size_bytes: null }]]);
	});

	test("names a telemetry database that has reports and is gone from wrangler.toml", async () => {
		const world = await createWorld();
		await testEnv.DB.prepare("INSERT INTO report_removals VALUES ('app', 'TELEMETRY_3', 1)").run();
		expect((await read(world, { cache })).body.missing_bindings).toEqual(["TELEMETRY_3"]);
		await testEnv.DB.prepare("DELETE FROM report_removals").run();
	});

	test("is only for owners of the first organization", async () => {
		const operator = await createWorld();
		const other = await createWorld({ isOperator: false });
		await makeOperator(operator);
		const reader = await createTestKey(operator, "org_member");
		const get = async (key?: string) =>
			(await operator.request("GET", "/service/status", key === undefined ? {} : { key })).status;
		expect([await get(operator.adminKey), await get(other.adminKey), await get(reader.text), await get()]).toEqual([
			200, 404, 403, 401,
		]);
		const { adminKey: key, orgId } = operator;
		const deleted = await operator.request("DELETE", "/organization", { key, query: { orgId } });
		expect(deleted.status).toBe(200);
		expect(await get(operator.adminKey)).toBe(404);
	});
});

describe("every response over HTTPS", () => {
	test.each([
		["GET", "/ok", 200],
		["GET", "/nowhere", 404],
		["GET", "/organization", 401],
		["POST", "/updates", 400],
		["GET", "/download/none", 404],
	] as const)("has Strict-Transport-Security: %s %s", async (method, path, status) => {
		const world = await createWorld();
		const answer = await world.request(method, path, method === "POST" ? { body: {} } : {});
		expect(answer.headers.get("strict-transport-security")).toBe("max-age=31536000");
		expect([status, 200, 400, 403, 404]).toContain(answer.status);
		const plain = await world.request(method, `http://127.0.0.1:8787${path}`, method === "POST" ? { body: {} } : {});
		expect(plain.headers.get("strict-transport-security")).toBeNull();
	});
});
