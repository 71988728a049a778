/**
 * Isolation against crafted requests: headers, paging parameters, ids and filters reach no other
 * tenant.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { allEndpoints } from "../../../src/endpoints";
import type { AnyEndpoint } from "../../../src/http/endpoint";
import { databaseText } from "../support/database-text";
import { createTenant, expectRefused, REST, type Request, type Tenant } from "../support/isolation-scene";
import { createTestApp, createTestKey, createWorld, type RequestOptions } from "../support/world";

describe("header tricks", () => {
	let ours: Tenant;
	let theirs: Tenant;
	beforeAll(async () => {
		ours = await createTenant();
		theirs = await createTenant();
	});

	test("two keys in any places are refused", async () => {
		const { world, app } = ours;
		const names = ["authorization", "capstankey", "servicekey", "capgkey"];
		const pairs = names.flatMap((one) => names.filter((other) => other !== one).map((other) => [one, other] as const));
		for (const [one, other] of pairs) {
			const answer = await world.as()("GET /app/:app_id", {
				params: { app_id: app.appId },
				headers: { [one]: world.adminKey, [other]: theirs.world.adminKey },
			});
			expect(answer, `${one} and ${other}`).toMatchObject({ status: 400, body: { error: "ambiguous_api_key" } });
		}
		for (const value of [
			`${world.adminKey}, ${theirs.world.adminKey}`,
			`Bearer ${world.adminKey}, Bearer ${theirs.world.adminKey}`,
			`Basic ${btoa(`x:${world.adminKey}`)}`,
			`Bearer Bearer ${world.adminKey}`,
		]) {
			expect(
				(await world.as()("GET /app/:app_id", { params: { app_id: app.appId }, headers: { authorization: value } }))
					.status,
			).toBe(401);
		}
	});

	test("a key in a query, cookie or body is ignored", async () => {
		const { world, app } = ours;
		const key = world.adminKey;
		const tries: RequestOptions[] = [
			{ query: { key, apikey: key, authorization: key, capstankey: key } },
			{ headers: { cookie: `authorization=${key}; capstankey=${key}` } },
			{ headers: { apikey: key, "x-authorization": key, "proxy-authorization": key } },
		];
		for (const options of tries) {
			expect((await world.request("GET", `/app/${app.appId}`, options)).status).toBe(401);
		}
		const body = { app_id: app.appId, channel: "by-body", capstankey: key, authorization: key };
		expect((await world.as()("POST /channel", { body })).status).toBe(401);
	});

	test("no header changes the key of a request", async () => {
		const { world, app } = theirs;
		for (const name of ["x-user-id", "x-org-id", "x-key-id", "x-capgo-spoof-admin-authorization"]) {
			for (const value of [world.adminKeyId, world.userId, world.orgId, "1"]) {
				const answer = await world.as(ours.world.adminKey)("GET /app/:app_id", {
					params: { app_id: app.appId },
					headers: { [name]: value },
				});
				expect(answer.status, `${name}: ${value}`).toBe(404);
			}
		}
	});

	test("no header changes the method or path of a request", async () => {
		const { world, app } = ours;
		const before = await databaseText();
		for (const name of ["x-http-method-override", "x-http-method", "x-method-override"]) {
			const headers = { [name]: "DELETE" };
			const read = await world.admin("GET /app/:app_id", { params: { app_id: app.appId }, headers });
			expect(read.body, name).toMatchObject({ app_id: app.appId });
			const posted = await world.request("POST", `/app/${app.appId}`, { key: world.adminKey, headers, body: {} });
			expect(posted.status, name).toBe(405);
		}
		const query = { _method: "DELETE", method: "DELETE" };
		expect((await world.request("GET", `/app/${app.appId}`, { key: world.adminKey, query })).status).toBe(200);
		for (const name of ["x-original-url", "x-rewrite-url", "x-forwarded-uri", "x-forwarded-prefix"]) {
			const headers = { [name]: `/app/${theirs.app.appId}` };
			const read = await world.admin("GET /app/:app_id", { params: { app_id: app.appId }, headers });
			expect(read.body, name).toMatchObject({ app_id: app.appId });
			const open = await world.as()("GET /ok", { headers: { [name]: `/app/${app.appId}` } });
			expect(JSON.stringify(open.body), name).not.toContain(app.appId);
		}
		expect(await databaseText()).toBe(before);
	});

	test("a forwarded address passes no address list, and the log names the address that the platform saw", async () => {
		const { world, app } = ours;
		const key = await createTestKey(world, "app_admin", app, { ip_allow_list: ["192.0.2.0/24"] });
		const forwarded = {
			"x-forwarded-for": "192.0.2.1",
			"x-real-ip": "192.0.2.1",
			"true-client-ip": "192.0.2.1",
			"x-client-ip": "192.0.2.1",
			"cf-connecting-ipv6": "192.0.2.1",
			forwarded: "for=192.0.2.1",
		};
		const from = (headers: Record<string, string>) =>
			world.as(key.text)("GET /app/:app_id", { params: { app_id: app.appId }, headers });
		expect((await from(forwarded)).status).toBe(403);
		expect((await from({ ...forwarded, "cf-connecting-ip": "198.51.100.1" })).status).toBe(403);
		expect((await from({ "cf-connecting-ip": "192.0.2.1" })).status).toBe(200);
	});

	test("links ignore the Host of a request if the address of the service is configured", async () => {
		const world = await createWorld({ config: { PUBLIC_URL: "https://updates.example.com" } });
		const app = await createTestApp(world);
		const evil = "evil.example.net";
		const register = (origin: string, more: Record<string, string> = {}) =>
			world.request("POST", `${origin}/bundle`, {
				key: world.adminKey,
				body: { app_id: app.appId, version: "1.5.0" },
				headers: { "x-forwarded-host": evil, "x-forwarded-proto": "http", "x-host": evil, ...more },
			});
		expect((await register(`https://${evil}`)).status, "another name of the server").toBe(421);
		const answer = await register("https://capstan.team.workers.dev", { forwarded: `host=${evil}` });
		expect(answer.status).toBe(201);
		expect(JSON.stringify(answer.body)).not.toContain(evil);
		expect(answer.body.upload_url).toMatch(/^https:\/\/updates\.example\.com\//);
		const unconfigured = await ours.world.admin("POST /bundle", {
			body: { app_id: ours.app.appId, version: "5.0.0" },
			headers: { "x-forwarded-host": evil, "x-forwarded-proto": "http", forwarded: `host=${evil}` },
		});
		expect(JSON.stringify(unconfigured.body)).not.toContain(evil);
	});
});

/** Whether the endpoint is a list of pages. */
const isPaged = ({ method, query }: AnyEndpoint) =>
	method === "GET" && query !== undefined && "entries" in query && Object.hasOwn(query.entries as object, "page");

describe("injection by paging parameters", () => {
	let ours: Tenant;
	let theirs: Tenant;
	beforeAll(async () => {
		ours = await createTenant();
		theirs = await createTenant("1.6.6");
	});
	const lists = (): readonly (readonly [string, Record<string, string>])[] => [
		["/app", {}],
		["/apikey", {}],
		["/organization", {}],
		["/organization/members", { orgId: ours.world.orgId }],
		["/channel", { app_id: ours.app.appId }],
		["/bundle", { app_id: ours.app.appId }],
	];

	const isSorting = (name: string) => name === "sort" || name === "order";

	test("a page is a whole number from 0", async () => {
		const { world } = ours;
		const before = await databaseText();
		const paged = new Set<string>(allEndpoints.filter(isPaged).map(({ path }) => path));
		expect(paged.size).toBeGreaterThanOrEqual(5);
		const bad = ["-1", "1.5", "1e1", "0x1", "", " 1", "1;drop table apps", "0 union select key_hash from api_keys"];
		for (const [path, query] of lists()) {
			const first = await world.request("GET", path, { key: world.adminKey, query });
			const same = await world.request("GET", path, { key: world.adminKey, query: { ...query, page: "0" } });
			expect(same.body, path).toEqual(first.body);
			if (!paged.has(path)) continue;
			for (const page of [...bad, "1--", "'1'", "٣", "NaN", "9".repeat(40)]) {
				const answer = await world.request("GET", path, { key: world.adminKey, query: { ...query, page } });
				expect(answer.status, `${path}?page=${page}: ${JSON.stringify(answer.body)}`).toBe(400);
			}
		}
		expect(await databaseText()).toBe(before);
	});

	test("limits, orders, offsets, selections and operators change no answer: unknown fields are ignored, known ones checked", async () => {
		const { world } = ours;
		const tricks: Record<string, string> = {
			limit: "1000",
			offset: "-50",
			order: "key_hash.desc",
			select: "*,api_keys(*)",
			or: `(owner_org.eq.${theirs.world.orgId})`,
			and: "(1.eq.1)",
			"owner_org.eq": theirs.world.orgId,
			"app_id[]": theirs.app.appId,
			"app_id[neq]": "x",
			sort: "1;drop table apps",
			range: "0-1000",
		};
		for (const [path, query] of lists()) {
			const plain = await world.request("GET", path, { key: world.adminKey, query });
			for (const [name, value] of Object.entries(tricks)) {
				const answer = await world.request("GET", path, { key: world.adminKey, query: { ...query, [name]: value } });
				if (path === "/bundle" && isSorting(name)) {
					expect([answer.status, answer.body], `${path}?${name}=${value}`).toMatchObject([
						400,
						{ message: expect.stringContaining(`${name}: must be`) },
					]);
				} else {
					expect([answer.status, answer.body], `${path}?${name}=${value}`).toEqual([plain.status, plain.body]);
				}
			}
			const range = { range: "items=0-1000", prefer: "count=exact" };
			const answer = await world.request("GET", path, { key: world.adminKey, query, headers: range });
			expect(answer.body, `${path} with headers`).toEqual(plain.body);
		}
	});

	test("an id is compared as text, in every parameter", async () => {
		const { world } = ours;
		const injections = [
			"' or '1'='1",
			`${theirs.app.appId}' --`,
			"%",
			"com.example.%",
			"*",
			`x"); drop table apps; --`,
		];
		await expectRefused(
			world,
			world.adminKey,
			injections.flatMap((text): Request[] => [
				{ method: "GET", path: `/app/${encodeURIComponent(text)}` },
				{ method: "GET", path: "/channel", query: { app_id: text } },
				{ method: "GET", path: `/apikey/${encodeURIComponent(text)}` },
				{ method: "GET", path: "/organization", query: { orgId: text } },
				{ method: "DELETE", path: "/channel", query: { app_id: ours.app.appId, channel: text } },
				{ method: "DELETE", path: "/bundle", query: { app_id: ours.app.appId, version: text } },
			]),
			[400, 404],
		);
	});

	test("filters of the stock CLI accept one shape and no other operator", async () => {
		const { world } = ours;
		const eq = { app_id: `eq.${ours.app.appId}` };
		const of = (table: string, query: Record<string, string>): Request => ({
			method: "GET",
			path: `${REST}/${table}`,
			query,
		});
		const theirId = theirs.app.appId;
		const known = await world.request("GET", `${REST}/channels`, {
			key: world.adminKey,
			query: { select: "id,version", ...eq },
		});
		expect(known.status, "the control").toBe(200);
		await expectRefused(
			world,
			world.adminKey,
			[
				of("channels", { select: "id,version", app_id: "neq.x" }),
				of("channels", { select: "id,version", app_id: "like.*" }),
				of("channels", { select: "id,version", app_id: `in.(${ours.app.appId},${theirId})` }),
				of("channels", { select: "id,version", app_id: `not.eq.${theirId}` }),
				of("channels", { select: "id,version", app_id: `eq.${theirId}` }),
				of("channels", { select: "id,version", ...eq, or: `(app_id.eq.${theirId})` }),
				of("channels", { select: "id,version", ...eq, limit: "1000", offset: "0" }),
				of("channels", { select: "id,version,apps(*)", ...eq }),
				of("channels", { select: "id,version,owner_org", ...eq }),
				of("app_versions", { select: "*", ...eq }),
				of("app_versions", { select: "name,session_key", ...eq, order: "created_at.desc", limit: "1" }),
				of("apps", { select: "*", ...eq }),
				of("orgs", { select: "*", id: `eq.${ours.world.orgId}` }),
				of("orgs", { select: "name,enforcing_2fa", id: `neq.${ours.world.orgId}` }),
				of("apikeys", { select: "*" }),
			],
			[400, 404],
		);
	});
});
