/**
 * Authentication of every endpoint, derived from the endpoint list: no request passes without a
 * valid key, and no other method, broken body or list avoids the check. Answers to valid keys, by
 * role and scope, are in isolation-matrix.test.ts; requests come from support/requests.ts.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { mintKey, mintSessionToken } from "../../../src/authz/secrets";
import { allEndpoints } from "../../../src/endpoints";
import { type AnyEndpoint, permissionsOf } from "../../../src/http/endpoint";
import { databaseText, emptyDatabase } from "../support/database-text";
import {
	documentedCodes,
	guarded,
	guardedGroups,
	keyOf,
	ofSessions,
	prepareRequest,
	send,
} from "../support/isolation-cast";
import { PUBLIC_ENDPOINTS } from "../support/public-requests";
import type { PreparedRequest } from "../support/request-parts";
import { REQUESTS } from "../support/requests";
import { SESSION_REQUESTS } from "../support/session-requests";
import { peopleOf, sessionOf } from "../support/sessions";
import { createTestApp, createTestKey, createWorld, type TestApp, type World } from "../support/world";

const endpoints: readonly AnyEndpoint[] = allEndpoints;

let world: World;
let app: TestApp;
let elsewhere: World;
/** Keys that must get a 401, with its code. */
let unauthenticated: readonly (readonly [who: string, key: string | undefined, code: string])[];

beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	elsewhere = await createWorld({ isOperator: false });
	const expired = await createTestKey(world, "org_super_admin", undefined, { expires_at: "2026-11-21T08:00:00.001Z" });
	const revoked = await createTestKey(world, "org_super_admin");
	await world.admin("DELETE /apikey/:id", { params: { id: revoked.id } });
	world.clock.nowMs += 1;
	unauthenticated = [
		["no key", undefined, "missing_api_key"],
		["a malformed key", "cap_nonsense", "invalid_api_key"],
		["an unknown key", mintKey(world.deps.randomBytes).text, "invalid_api_key"],
		["a revoked key", revoked.text, "invalid_api_key"],
		["an expired key", expired.text, "expired_api_key"],
	];
});

describe("the list of endpoints", () => {
	test("has a request for every endpoint that needs a key, and the public ones are the reviewed ones", () => {
		const isPublic = endpoints.filter((endpoint) => "public" in endpoint.access);
		expect(isPublic.map(keyOf).sort(), "review the new public endpoint in test/worker/support/requests.ts").toEqual(
			[...PUBLIC_ENDPOINTS].sort(),
		);
		const missing = guarded.map(keyOf).filter((key) => REQUESTS[key] === undefined);
		expect(missing, "add a request for these to test/worker/support/requests.ts").toEqual([]);
		const unused = Object.keys(REQUESTS).filter((key) => !guarded.some((endpoint) => keyOf(endpoint) === key));
		expect(unused, "these have no endpoint any more; remove them").toEqual([]);
	});

	test("gives the reason for each public endpoint, and the limit of each answer to any key", () => {
		for (const { access, ...endpoint } of endpoints) {
			const reason = "public" in access ? access.public : "anyKey" in access ? access.anyKey : undefined;
			if (reason !== undefined) expect(reason, keyOf(endpoint)).toMatch(/^[A-Z].{15,}\.$/);
		}
	});
});

describe("without a valid key", () => {
	describe.each(guardedGroups)("in group %i", (_, ofGroup) => {
		const prepared = new Map<string, PreparedRequest>();
		let before: string;
		const preparedOf = (name: string) => prepared.get(name) ?? { path: "" };
		beforeAll(async () => {
			for (const [name, endpoint] of ofGroup) {
				const target = endpoint.method === "DELETE" ? await createTestApp(world, "doomed") : app;
				prepared.set(name, await prepareRequest(world, target, endpoint));
			}
			before = await databaseText();
		});

		test.each(ofGroup)("%s reports which kind of key is missing", async (name, endpoint) => {
			for (const [who, key, code] of unauthenticated) {
				const answer = await send(world, endpoint.method, preparedOf(name), key);
				expect(answer, who).toMatchObject({ status: 401, body: { error: code, moreInfo: {} } });
				expect(documentedCodes(endpoint, 401), "openapi.json does not declare it").toContain(code);
			}
		});

		test("no refused request changed a row of any table", async () => {
			expect(await databaseText(), "a refused request changed something").toBe(before);
		});

		test.each(ofGroup)("%s succeeds with a valid key", async (name, endpoint) => {
			const allowed = await send(world, endpoint.method, preparedOf(name), world.adminKey);
			expect(allowed.status, JSON.stringify(allowed.body)).toBeLessThan(300);
		});
	});

	test("HEAD is refused like GET", async () => {
		for (const endpoint of guarded.filter(({ method }) => method === "GET")) {
			const request = await prepareRequest(world, app, endpoint);
			for (const [who, key] of unauthenticated) {
				expect((await send(world, "HEAD", request, key)).status, `${keyOf(endpoint)} with ${who}`).toBe(401);
			}
		}
	});
});

describe("the check cannot be avoided", () => {
	test("an undeclared method is 405 with the declared ones, before any key is read", async () => {
		const declared = Map.groupBy(endpoints, (endpoint) => endpoint.path);
		let refused = 0;
		for (const [path, ofPath] of declared) {
			const methods: readonly string[] = ofPath.flatMap(({ method, alsoMethods = [] }) => [method, ...alsoMethods]);
			const concrete = path.replace(/:\w+(\{.+?\})?/g, "x");
			for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE"].filter((name) => !methods.includes(name))) {
				const answer = await send(world, method, { path: concrete });
				expect(answer, `${method} ${path}`).toMatchObject({ status: 405, body: { error: "method_not_allowed" } });
				const allowed = answer.headers.get("allow")?.split(", ") ?? [];
				expect(allowed, `${method} ${path}`).toEqual(expect.arrayContaining([...methods]));
				expect(allowed, `${method} ${path}`).not.toContain(method);
				refused += 1;
			}
		}
		expect(refused).toBeGreaterThan(100);
	});

	test("a broken request reveals nothing of its schema to a stranger, and reports the fault to an authorized caller", async () => {
		for (const endpoint of guarded) {
			if (endpoint.body === undefined || permissionsOf(endpoint.access).length === 0) continue;
			const request = await prepareRequest(world, app, endpoint);
			const broken = {
				...request,
				body: { ...(request.body as object), name: 7, version: [], channel: {}, version_id: "x" },
			};
			const stranger = await send(world, endpoint.method, broken, elsewhere.adminKey);
			expect([404, 400], keyOf(endpoint)).toContain(stranger.status);
			if (stranger.status === 400) expect(stranger.body.moreInfo.issues[0].path).toMatch(/channel|name/);
			const nobody = await send(world, endpoint.method, broken);
			expect(nobody.status, keyOf(endpoint)).toBe(401);
		}
	});

	test("lists for any key show nothing of others", async () => {
		const [apps, keys, organizations] = await Promise.all([
			world.as(elsewhere.adminKey)("GET /app"),
			world.as(elsewhere.adminKey)("GET /apikey"),
			world.as(elsewhere.adminKey)("GET /organization"),
		]);
		expect(apps.body).toEqual([]);
		expect(keys.body.map((row: { id: string }) => row.id)).toEqual([elsewhere.adminKeyId]);
		expect(organizations.body.map((row: { id: string }) => row.id)).toEqual([elsewhere.orgId]);
	});
});

describe("endpoints for sessions only", () => {
	test("have a request each, and refuse every key", async () => {
		expect(ofSessions.map(keyOf).filter((name) => SESSION_REQUESTS[name] === undefined)).toEqual([]);
		expect(ofSessions.length).toBeGreaterThan(10);
		await emptyDatabase();
		const here = await createWorld();
		for (const endpoint of ofSessions) {
			const name = keyOf(endpoint);
			const request = await SESSION_REQUESTS[name]?.(peopleOf(here));
			if (request === undefined) throw new Error("no request");
			const { path, headers, ...options } = request;
			const before = await databaseText();
			const { cookie: _, ...bare } = headers as Record<string, string>;
			const send = (more: object) => here.request(endpoint.method, path, { headers: bare, ...options, ...more });
			const unknown = sessionOf(mintSessionToken(here.deps.randomBytes).text).headers;
			for (const [who, answer, code] of [
				["nobody", await send({}), "invalid_session"],
				["an unknown session", await send({ headers: unknown }), "invalid_session"],
				["a key", await send({ key: here.adminKey }), "session_required"],
				["a key beside the session", await send({ headers, key: here.adminKey }), "session_required"],
				["another site", await send({ headers: { ...headers, origin: "https://evil.example" } }), "cross_site_request"],
			] as const) {
				expect(answer.body.error, `${name} by ${who}`).toBe(code);
				expect(documentedCodes(endpoint, answer.status), `${name} by ${who}`).toContain(code);
			}
			expect(await databaseText(), `${name}: a refused request changed something`).toBe(before);
			expect((await send({ headers })).status, name).toBeLessThan(300);
		}
	});
});
