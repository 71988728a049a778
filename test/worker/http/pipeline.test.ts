/**
 * Rules for every endpoint: where a key is accepted, the order of checks, the format of errors, and
 * the data that no response contains.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { mintKey } from "../../../src/authz/secrets";
import { allEndpoints } from "../../../src/endpoints";
import type { AnyEndpoint } from "../../../src/http/endpoint";
import { ANONYMOUS_VALUE } from "../../../src/http/pipeline/credential-headers";
import { LIST_FIELDS, REQUESTS } from "../support/requests";
import { createTestApp, createTestKey, createWorld, type TestApp, testEnv, type World } from "../support/world";

let world: World;
let app: TestApp;
beforeAll(async () => {
	world = await createWorld({ config: { CORS_ALLOWED_ORIGINS: "https://dashboard.example.com" } });
	app = await createTestApp(world);
});

const list = (headers: Record<string, string>) => world.as()("GET /channel", { query: { app_id: app.appId }, headers });

describe("the body", () => {
	test("that ends early is a client error", async () => {
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
		expect(answer.body.message).toContain("shorter than its headers");
	});
});

describe("the key", () => {
	test.each(["authorization", "capstankey", "servicekey", "capgkey", "Capgkey"])("is accepted in %s", async (name) => {
		expect((await list({ [name]: world.adminKey })).status).toBe(200);
	});

	test("is accepted after Bearer, and once in two headers", async () => {
		expect((await list({ authorization: `Bearer ${world.adminKey}`, capgkey: world.adminKey })).status).toBe(200);
	});

	test("may come with the published anonymous value, which counts as no key", async () => {
		const anonymous = { authorization: `Bearer ${ANONYMOUS_VALUE}` };
		expect((await list({ ...anonymous, capgkey: world.adminKey })).status).toBe(200);
		expect(await list(anonymous)).toMatchObject({ status: 401, body: { error: "missing_api_key" } });
	});

	test("must be one: two different keys are refused", async () => {
		const other = await createTestKey(world, "app_reader", app);
		expect(await list({ authorization: world.adminKey, capgkey: other.text })).toMatchObject({
			status: 400,
			body: { error: "ambiguous_api_key" },
		});
	});

	test("gets one answer if unknown, malformed or revoked, and another if expired", async () => {
		const revoked = await createTestKey(world, "app_reader", app);
		await world.admin("DELETE /apikey/:id", { params: { id: revoked.id } });
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

	test("that is unknown is 401 whatever the body is, and an empty Bearer counts as no key", async () => {
		const unknown = `${world.adminKey.slice(0, 4)}${"0".repeat(38)}`;
		const broken = { rawBody: "{", headers: { "content-type": "application/json" } };
		expect((await world.request("POST", "/app", { key: unknown, ...broken })).status).toBe(401);
		expect((await world.request("POST", "/app", { key: world.adminKey, ...broken })).status).toBe(400);
		const headers = { authorization: "Bearer ", capgkey: world.adminKey };
		expect((await world.request("GET", "/app", { headers })).status).toBe(200);
	});
});

describe("input", () => {
	test("reports a broken body only to authorized callers", async () => {
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
		["a channel that is a text", "PUT /bundle", "channel_id", { version_id: 1, channel_id: "one" }],
		["a channel without its app", "POST /channel", "app_id", { channel: "production" }],
		["an app without its channel", "POST /channel", "channel", { app_id: "com.example.app" }],
		["no body at all", "POST /bundle", "app_id", undefined],
		["bindings that are null", "POST /apikey", "org_id", { name: "x", bindings: null }],
		["a binding that is null", "POST /apikey", "bindings.0", { name: "x", bindings: [null] }],
		["bindings that are a number", "POST /apikey", "bindings", { name: "x", bindings: 7 }],
	])("%s names no target: 400 with the field, for keys of every organization", async (_, endpoint, path, body) => {
		const [method = "", url = ""] = endpoint.split(" ");
		const whole = url === "/bundle" && method === "PUT" ? { app_id: app.appId, ...(body as object) } : body;
		const stranger = await createWorld();
		for (const { adminKey } of [world, stranger]) {
			const answer = await world.request(method, url, { key: adminKey, body: whole });
			expect(answer, JSON.stringify(answer.body)).toMatchObject({ status: 400, body: { error: "invalid_request" } });
			expect(answer.body.moreInfo.issues.map((issue: { path: string }) => issue.path)).toContain(path);
		}
	});

	test("is validated only for callers with one of the permissions that it might need", async () => {
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

	test("ignores unknown fields, and treats an optional null as absent", async () => {
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

	test("reports an unreadable body as such when it names no target", async () => {
		const answer = await world.request("PUT", "/organization", {
			key: world.adminKey,
			rawBody: "name=x",
			headers: { "content-type": "text/plain" },
		});
		expect(answer.status).toBe(415);
	});

	test("refuses a repeated query parameter by name", async () => {
		const answer = await world.request("GET", `/channel?app_id=${app.appId}&app_id=com.example.other`, {
			key: world.adminKey,
		});
		expect(answer).toMatchObject({ status: 400, body: { moreInfo: { issues: [{ path: "app_id" }] } } });
	});

	test("with a target field of the wrong type is 400, not 404", async () => {
		expect(
			await world.request("POST", "/app", { key: world.adminKey, body: { app_id: 5, name: {}, owner_org: 7 } }),
		).toMatchObject({
			status: 400,
			body: { moreInfo: { issues: [{ path: "app_id" }, { path: "name" }, { path: "owner_org" }] } },
		});
		expect(
			(await world.request("POST", "/channel", { key: world.adminKey, body: { app_id: 5, channel: "x" } })).status,
		).toBe(400);
	});
	test("may repeat an unknown parameter; a link without a signature is an invalid signature", async () => {
		expect((await world.request("GET", "/app?x=1&x=2", { key: world.adminKey })).status).toBe(200);
		expect(await world.request("GET", "/files/download/a/b/object")).toMatchObject({
			status: 403,
			body: { error: "invalid_signature" },
		});
	});
});

describe("answers", () => {
	test("include five fields in an error, with the request id of the header", async () => {
		const answer = await world.admin("GET /channel", { query: { app_id: "com.not.there" } });
		expect(Object.keys(answer.body).sort()).toEqual(["error", "message", "moreInfo", "requestId", "status"]);
		expect(answer.body.status).toBe("KO");
		expect(answer.body.requestId).toBe(answer.headers.get("x-request-id"));
		expect(answer.headers.get("cache-control")).toBe("private, no-store");
	});

	test("are the same with a trailing slash", async () => {
		const answer = await world.request("GET", "/channel/", { key: world.adminKey, query: { app_id: app.appId } });
		expect(answer.status).toBe(200);
	});

	test("are 404 for an unknown path, 405 with Allow for another method, and without a body for HEAD", async () => {
		expect(await world.request("GET", "/nothing")).toMatchObject({ status: 404, body: { error: "not_found" } });
		const wrong = await world.request("PATCH", "/channel", { key: world.adminKey });
		expect(wrong).toMatchObject({ status: 405, body: { error: "method_not_allowed" } });
		expect(wrong.headers.get("allow")).toBe("GET, POST, DELETE, HEAD, OPTIONS");
		const head = await world.request("HEAD", "/organization", { key: world.adminKey });
		expect([head.status, (head.body as ArrayBuffer).byteLength]).toEqual([200, 0]);
	});

	test("have CORS headers for allowed origins only", async () => {
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

	test("to OPTIONS name the methods of a path, and TUS errors carry the TUS version", async () => {
		const options = await world.request("OPTIONS", "/app");
		expect([options.status, options.headers.get("allow")]).toEqual([204, "GET, POST, HEAD, OPTIONS"]);
		const unversioned = await world.request("GET", `/files/upload/attachments/${crypto.randomUUID()}`, {
			key: world.adminKey,
		});
		expect(unversioned.headers.get("tus-resumable")).toBe("1.0.0");
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
		const answer = await broken.as(world.adminKey)("GET /channel", { query: { app_id: app.appId } });
		expect(answer).toMatchObject({ status: 503, body: { error: "service_unavailable" } });
		expect(answer.headers.get("retry-after")).toBe("5");
		expect(JSON.stringify(answer.body)).not.toContain("D1");
	});

	test("become internal_error if unexpected, with the text only in the log", async () => {
		const broken = await createWorld({
			bindings: { d1: failing("D1_ERROR: no such column: api_keys.secret: SQLITE_ERROR") },
		});
		const answer = await broken.as(world.adminKey)("GET /app");
		expect(answer).toMatchObject({ status: 500, body: { error: "internal_error", moreInfo: {} } });
		expect(JSON.stringify(answer.body)).not.toContain("column");
	});
});

describe("every endpoint", () => {
	const endpoints: readonly AnyEndpoint[] = allEndpoints;
	const keyOf = ({ method, path }: AnyEndpoint) => `${method} ${path}`;
	const pathOf = ({ path }: AnyEndpoint) => path.replace(/:\w+(\{.+?\})?/g, "x");

	test("that reads a body reports nothing about it to strangers", async () => {
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

	test("that lists accepts a page from 0, and is empty past the end", async () => {
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
			const whole = endpoint.path === "/organization" || orgId === undefined ? rest : { ...rest, orgId };
			const query = endpoint.path.startsWith("/statistics/org") ? { ...whole, breakdown: "true" } : whole;
			const asked = { key: world.adminKey, mostTrips: 3 };
			const page = (number: string) =>
				world.request(endpoint.method, prepared.path, { ...asked, query: { ...query, page: number } });
			const listOf = ({ body }: { readonly body: unknown }) => {
				const name = LIST_FIELDS[endpoint.path];
				return name === undefined ? body : (body as Record<string, unknown>)[name];
			};
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

	test("answers with a unique request id, and is not cacheable unless it declares that", async () => {
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
