/**
 * What holds for every endpoint: how a key may come, in which order a request is judged, how errors look, and what never leaves.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { ANONYMOUS_VALUE } from "../../src/api/credentials";
import type { AnyEndpoint } from "../../src/api/endpoint";
import { allEndpoints } from "../../src/app";
import { mintKey } from "../../src/authz/keys";
import { REQUESTS } from "./support/requests";
import { createTestApp, createTestKey, createWorld, type TestApp, testEnv, type World } from "./support/world";

let world: World;
let app: TestApp;
beforeAll(async () => {
	world = await createWorld({ config: { CORS_ALLOWED_ORIGINS: "https://dashboard.example.com" } });
	app = await createTestApp(world);
});

const list = (headers: Record<string, string>) =>
	world.request("GET", "/channel", { query: { app_id: app.appId }, headers });

describe("the body", () => {
	test("that breaks off is the client's to send again, not a failure of ours", async () => {
		const broken = new ReadableStream({
			start(controller) {
				controller.enqueue(new TextEncoder().encode('{"app_id":'));
			},
			pull(controller) {
				controller.error(new TypeError("the connection was lost"));
			},
		});
		const answer = await world.request("POST", "/channel", {
			key: world.adminKey,
			headers: { "content-type": "application/json" },
			rawBody: broken,
		});
		expect(answer).toMatchObject({ status: 400, body: { error: "invalid_request" } });
		expect(answer.body.message).toContain("broke off");
	});
});

describe("the key", () => {
	test.each(["authorization", "capstankey", "servicekey", "capgkey", "Capgkey"])("is taken from %s", async (name) => {
		expect((await list({ [name]: world.adminKey })).status).toBe(200);
	});

	test("is taken after Bearer, and the same key in two headers is one key", async () => {
		expect((await list({ authorization: `Bearer ${world.adminKey}`, capgkey: world.adminKey })).status).toBe(200);
	});

	test("the published anonymous value counts as no key, beside a key and alone", async () => {
		const anonymous = { authorization: `Bearer ${ANONYMOUS_VALUE}` };
		expect((await list({ ...anonymous, capgkey: world.adminKey })).status).toBe(200);
		expect(await list(anonymous)).toMatchObject({ status: 401, body: { error: "missing_api_key" } });
	});

	test("two different keys are refused, whichever of them is good", async () => {
		const other = await createTestKey(world, "app_reader", app);
		expect(await list({ authorization: world.adminKey, capgkey: other.text })).toMatchObject({
			status: 400,
			body: { error: "ambiguous_api_key" },
		});
	});

	test("unknown, malformed and revoked keys get one answer, an expired one is told so", async () => {
		const revoked = await createTestKey(world, "app_reader", app);
		await world.request("DELETE", `/apikey/${revoked.id}`, { key: world.adminKey });
		const typo = `${world.adminKey.slice(0, -1)}${world.adminKey.endsWith("0") ? "1" : "0"}`;
		const answers = await Promise.all(
			[revoked.text, typo, "nonsense", "eyJhbGciOi.x.y"].map((key) => list({ authorization: key })),
		);
		for (const answer of answers) expect(answer).toMatchObject({ status: 401, body: { error: "invalid_api_key" } });
		expect(new Set(answers.map((answer) => answer.body.message)).size).toBe(1);
		const expiring = await createTestKey(world, "app_reader", app, { expires_at: "2026-11-21T08:00:00.010Z" });
		expect((await list({ authorization: expiring.text })).status).toBe(200);
		world.clock.nowMs += 10;
		expect(await list({ authorization: expiring.text })).toMatchObject({
			status: 401,
			body: { error: "expired_api_key" },
		});
		world.clock.nowMs -= 10;
	});
});

describe("input", () => {
	test("a broken body is told to those who may, and says nothing to strangers", async () => {
		const elsewhere = await createWorld();
		const broken = { app_id: app.appId, version: 7 };
		expect((await world.request("POST", "/bundle", { body: broken })).status).toBe(401);
		expect(await world.request("POST", "/bundle", { key: elsewhere.adminKey, body: broken })).toMatchObject({
			status: 404,
			body: { error: "app_not_found" },
		});
		expect(await world.request("POST", "/bundle", { key: world.adminKey, body: broken })).toMatchObject({
			status: 400,
			body: { error: "invalid_request", moreInfo: { issues: [{ path: "version", received: "7" }] } },
		});
	});

	test.each<[string, string, string, unknown]>([
		["an app that is a number", "POST /bundle", "app_id", { app_id: 7, version: "1.0.0" }],
		["an app that is an object", "POST /bundle", "app_id", { app_id: { length: 3 }, version: "1.0.0" }],
		["an organization that is a number", "POST /organization", "orgId", { orgId: 7, name: "x" }],
		["a channel that is no whole number", "PUT /bundle", "channel_id", { version_id: 1, channel_id: 1.5 }],
		["a channel that is too large a number", "PUT /bundle", "channel_id", { version_id: 1, channel_id: 1e300 }],
		["a channel that is a text", "PUT /bundle", "channel_id", { version_id: 1, channel_id: "1" }],
		["a channel without its app", "POST /channel", "app_id", { channel: "production" }],
		["an app without its channel", "POST /channel", "channel", { app_id: "com.example.app" }],
		["no body at all", "POST /bundle", "app_id", undefined],
		["bindings that are null", "POST /apikey", "org_id", { name: "x", bindings: null }],
		["a binding that is null", "POST /apikey", "bindings.0", { name: "x", bindings: [null] }],
		["bindings that are a number", "POST /apikey", "bindings", { name: "x", bindings: 7 }],
	])("%s names no target: 400 with the field, to whoever asks", async (_, endpoint, path, body) => {
		const [method = "", url = ""] = endpoint.split(" ");
		const whole = url === "/bundle" && method === "PUT" ? { app_id: app.appId, ...(body as object) } : body;
		const stranger = await createWorld();
		for (const { adminKey } of [world, stranger]) {
			const answer = await world.request(method, url, { key: adminKey, body: whole });
			expect(answer, JSON.stringify(answer.body)).toMatchObject({ status: 400, body: { error: "invalid_request" } });
			expect(answer.body.moreInfo.issues.map((issue: { path: string }) => issue.path)).toContain(path);
		}
	});

	test("that is invalid is told to whoever holds one of the permissions that it might need, and to no one else", async () => {
		const body = { app_id: app.appId, channel: "new", ios: "perhaps" };
		const set = async (role: string, fields: object = {}) => {
			const { text } = await createTestKey(world, role, app);
			return world.request("POST", "/channel", { key: text, body: { ...body, ...fields } });
		};
		for (const role of ["app_admin", "app_uploader", "app_preview", "app_reader"]) {
			expect(await set(role), role).toMatchObject({ status: 400, body: { error: "invalid_request" } });
		}
		const stranger = await createWorld();
		expect(await stranger.request("POST", "/channel", { key: stranger.adminKey, body })).toMatchObject({
			status: 404,
			body: { error: "app_not_found" },
		});
		expect(
			await set("app_reader", { ios: true }),
			"of a channel to be created, the app is what lacks it",
		).toMatchObject({
			status: 403,
			body: { error: "permission_denied", moreInfo: { permission: "app.create_channel", scope: "app" } },
		});
	});

	test("unknown fields are ignored and an optional field that is null is absent", async () => {
		const made = await world.request("POST", "/channel", {
			key: world.adminKey,
			body: { app_id: app.appId, channel: "lenient", ios: null, disableAutoUpdate: null, whatever: { x: [1] } },
		});
		expect(made.status).toBe(201);
	});

	test.each<[string, Record<string, unknown>, number]>([
		["no JSON", { rawBody: "{", headers: { "content-type": "application/json" } }, 400],
		["JSON that is no object", { body: [1, 2] }, 400],
		["a body of another type", { rawBody: "app_id=x", headers: { "content-type": "text/plain" } }, 415],
		["a body that is too large", { body: { app_id: "com.a.b", name: "x".repeat(1_100_000) } }, 413],
		[
			"broken UTF-8",
			{ rawBody: new Uint8Array([123, 34, 255, 34, 125]), headers: { "content-type": "application/json" } },
			400,
		],
		["a lone surrogate and NUL", { body: { app_id: "com.a.b", name: "\ud800\u0000" } }, 400],
		[
			"a prototype as field",
			{ rawBody: '{"__proto__":{"name":"x"}}', headers: { "content-type": "application/json" } },
			400,
		],
		[
			"deep JSON",
			{ rawBody: `${"[".repeat(100_000)}${"]".repeat(100_000)}`, headers: { "content-type": "application/json" } },
			400,
		],
	])("%s is refused", async (_, options, status) => {
		const body = options.body as Record<string, unknown> | undefined;
		const withOrg =
			body !== undefined && !Array.isArray(body) ? { ...options, body: { ...body, owner_org: world.orgId } } : options;
		const answer = await world.request("POST", "/app", { key: world.adminKey, ...withOrg });
		expect(answer.status, JSON.stringify(answer.body)).toBe(status);
		expect(answer.body).toMatchObject({ message: expect.any(String), requestId: expect.any(String) });
	});

	test("a body that cannot be read is told as that where no field is to blame, and no target is named", async () => {
		const answer = await world.request("PUT", "/organization", {
			key: world.adminKey,
			rawBody: "name=x",
			headers: { "content-type": "text/plain" },
		});
		expect(answer.status).toBe(415);
	});

	test("a query parameter that is given twice is refused by its name", async () => {
		const answer = await world.request("GET", `/channel?app_id=${app.appId}&app_id=com.example.other`, {
			key: world.adminKey,
		});
		expect(answer).toMatchObject({ status: 400, body: { moreInfo: { issues: [{ path: "app_id" }] } } });
	});
});

describe("answers", () => {
	test("an error has its four parts, and its request id is the header's", async () => {
		const answer = await world.request("GET", "/channel", { key: world.adminKey, query: { app_id: "com.not.there" } });
		expect(Object.keys(answer.body).sort()).toEqual(["error", "message", "moreInfo", "requestId"]);
		expect(answer.body.requestId).toBe(answer.headers.get("x-request-id"));
		expect(answer.headers.get("cache-control")).toBe("private, no-store");
	});

	test("a trailing slash is the same path", async () => {
		const answer = await world.request("GET", "/channel/", { key: world.adminKey, query: { app_id: app.appId } });
		expect(answer.status).toBe(200);
	});

	test("an unknown path is 404, another method 405 with Allow, HEAD is GET without a body", async () => {
		expect(await world.request("GET", "/nothing")).toMatchObject({ status: 404, body: { error: "not_found" } });
		const wrong = await world.request("PATCH", "/channel", { key: world.adminKey });
		expect(wrong).toMatchObject({ status: 405, body: { error: "method_not_allowed" } });
		expect(wrong.headers.get("allow")).toBe("GET, POST, DELETE, HEAD, OPTIONS");
		const head = await world.request("HEAD", "/organization", { key: world.adminKey });
		expect([head.status, (head.body as ArrayBuffer).byteLength]).toEqual([200, 0]);
	});

	test("CORS is the same everywhere: allowed origins are named, others are not", async () => {
		for (const path of ["/channel", "/bundle", "/app", "/updates", "/files/config", "/private/config"]) {
			const from = async (origin: string) =>
				(await world.request("GET", path, { key: world.adminKey, headers: { origin } })).headers.get(
					"access-control-allow-origin",
				);
			expect(await from("https://dashboard.example.com"), path).toBe("https://dashboard.example.com");
			expect(await from("https://evil.example.com"), path).toBeNull();
		}
		const preflight = await world.request("OPTIONS", "/channel", {
			headers: {
				origin: "https://dashboard.example.com",
				"access-control-request-method": "POST",
				"access-control-request-headers": "capstankey",
			},
		});
		expect(preflight.status).toBe(204);
		expect(preflight.headers.get("access-control-allow-headers")).toContain("capstankey");
		expect(preflight.headers.get("access-control-allow-credentials")).toBeNull();
	});
});

describe("faults", () => {
	const failing = (message: string) =>
		({
			withSession: () => ({
				prepare: (text: string) => testEnv.DB.prepare(text),
				batch: async () => {
					throw new Error(message);
				},
			}),
		}) as unknown as D1Database;

	test.each([
		"D1_ERROR: Network connection lost.",
		"D1_ERROR: D1 DB is overloaded. Requests queued for too long.",
		"D1_ERROR: storage caused object to be reset",
	])("a database that fails is 503 with Retry-After, never a refused key: %s", async (message) => {
		const logged: unknown[] = [];
		const broken = await createWorld({ bindings: { d1: failing(message) } });
		Object.assign(broken.deps, { log: (...entry: unknown[]) => logged.push(entry) });
		const answer = await broken.request("GET", "/channel", { key: world.adminKey, query: { app_id: app.appId } });
		expect(answer).toMatchObject({ status: 503, body: { error: "service_unavailable" } });
		expect(answer.headers.get("retry-after")).toBe("5");
		expect(JSON.stringify(answer.body)).not.toContain("D1");
	});

	test("an error that nobody expected is internal_error, and its text stays in the log", async () => {
		const broken = await createWorld({
			bindings: { d1: failing("D1_ERROR: no such column: api_keys.secret: SQLITE_ERROR") },
		});
		const answer = await broken.request("GET", "/app", { key: world.adminKey });
		expect(answer).toMatchObject({ status: 500, body: { error: "internal_error", moreInfo: {} } });
		expect(JSON.stringify(answer.body)).not.toContain("column");
	});
});

describe("every endpoint", () => {
	const endpoints: readonly AnyEndpoint[] = allEndpoints;
	const keyOf = ({ method, path }: AnyEndpoint) => `${method} ${path}`;
	const pathOf = ({ path }: AnyEndpoint) => path.replace(/:\w+(\{.+?\})?/g, "x");

	test("that reads a body tells a stranger nothing of it, whatever is wrong with it", async () => {
		const readers = endpoints.filter(({ body, queryOrBody }) => body !== undefined || queryOrBody === true);
		const guarded = readers.filter(({ access }) => !("public" in access || "ownSession" in access));
		expect(guarded.length).toBeGreaterThan(20);
		const unknown = mintKey(world.deps.randomBytes).text;
		const bodies: Record<string, { rawBody: string; headers: Record<string, string> }> = {
			"no JSON": { rawBody: "{", headers: { "content-type": "application/json" } },
			"another type": { rawBody: "a=b", headers: { "content-type": "text/plain" } },
			"too large": { rawBody: "{}", headers: { "content-type": "application/json", "content-length": "999999999" } },
		};
		for (const endpoint of guarded) {
			for (const [what, options] of Object.entries(bodies)) {
				for (const key of [undefined, "cap_typo", unknown]) {
					const answer = await world.request(endpoint.method, `${pathOf(endpoint)}?app_id=a&app_id=b`, {
						...options,
						key,
					});
					expect(answer.status, `${keyOf(endpoint)}: ${what}`).toBe(401);
				}
			}
		}
	});

	test("that lists takes a page that is a whole number from 0, and is empty past the end", async () => {
		const lists = endpoints.filter(
			({ access, query }) =>
				!("ownSession" in access) &&
				query !== undefined &&
				"entries" in query &&
				Object.hasOwn(query.entries as object, "page"),
		);
		expect(lists.map(keyOf)).toEqual(
			expect.arrayContaining(["GET /app", "GET /apikey", "GET /bundle", "GET /channel", "GET /organization"]),
		);
		for (const endpoint of lists) {
			const prepared = await REQUESTS[keyOf(endpoint)]?.(world, app);
			if (prepared === undefined) throw new Error(`no request for ${keyOf(endpoint)}`);
			// Naming one organization asks for that one instead of the list.
			const { orgId, ...rest } = prepared.query ?? {};
			const query = endpoint.path === "/organization" || orgId === undefined ? rest : { ...rest, orgId };
			const page = (number: string) =>
				world.request(endpoint.method, prepared.path, { key: world.adminKey, query: { ...query, page: number } });
			// The list of apps stands beside the quotas of the organization.
			const listOf = ({ body }: { readonly body: unknown }) =>
				endpoint.path === "/organization/usage" ? (body as { apps: unknown }).apps : body;
			expect(listOf(await page("0")), keyOf(endpoint)).toBeInstanceOf(Array);
			const past = await page("999999999");
			expect([past.status, listOf(past)], keyOf(endpoint)).toEqual([200, []]);
			for (const bad of ["-1", "1.5", "1e3", " 1", "x", "", "9999999999"]) {
				expect(await page(bad), `${keyOf(endpoint)} page=${bad}`).toMatchObject({
					status: 400,
					body: { error: "invalid_request", moreInfo: { issues: [{ path: "page" }] } },
				});
			}
		}
	});

	test("answers with a request id of its own, and nothing that a cache may keep unless it says so", async () => {
		const ids = new Set<string | null>();
		for (const endpoint of endpoints) {
			const { status, headers, body } = await world.request(endpoint.method, pathOf(endpoint));
			expect(headers.get("cache-control"), keyOf(endpoint)).toMatch(/no-store/);
			expect(headers.get("x-request-id"), keyOf(endpoint)).toMatch(/^[0-9a-f-]{36}$/);
			if (status >= 400) expect(body.requestId, keyOf(endpoint)).toBe(headers.get("x-request-id"));
			ids.add(headers.get("x-request-id"));
		}
		expect(ids.size).toBe(endpoints.length);
	});
});
