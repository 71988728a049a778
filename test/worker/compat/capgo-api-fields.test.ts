/**
 * The parts of a request that scripts for Capgo's public API share: services that are not here, the
 * audit log by record, pages of other origins, and fields that have no effect, which are named, and
 * refused where dropping them could do more than the caller asked for.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { type CapgoScene, createCapgoScene } from "../support/capgo-api-scene";
import { createWorld } from "../support/world";

let scene: CapgoScene;
beforeAll(async () => {
	scene = await createCapgoScene();
});
const ofApp = () => ({ app_id: scene.app.appId });
const ofOrg = () => ({ orgId: scene.world.orgId });
const pathsOf = (body: { moreInfo: { issues: { path: string }[] } }) => body.moreInfo.issues.map(({ path }) => path);

describe("services that are not here", () => {
	test.each([
		"/build/request",
		"/build/start/1",
		"/notifications/send",
		"/replication",
		"/plugin_regions/",
		"/translation",
		"/private/roles/app",
		"/private/role_bindings",
	])("%s is 501 with a sentence, for every method", async (path) => {
		for (const method of ["GET", "POST", "DELETE"]) {
			const { status, body } = await scene.send(method, path);
			expect({ status, error: body.error }).toEqual({ status: 501, error: "not_on_this_server" });
			expect(body.message.length).toBeGreaterThan(20);
		}
	});

	test("GET /ok answers every method", async () => {
		for (const method of ["GET", "POST", "PUT", "DELETE"]) {
			expect((await scene.world.request(method, "/ok")).status, method).toBe(200);
		}
	});
});

describe("the audit log by record", () => {
	const read = (query: Record<string, string>) =>
		scene.send("GET", "/organization/audit", { query: { ...ofOrg(), ...query } });

	test("has pages with the number of entries, by table and operation", async () => {
		const all = (await read({ limit: "100" })).body;
		expect(all).toMatchObject({ page: 0, limit: 100, total: all.data.length });
		const [first] = (await read({ tableName: "channels", operation: "INSERT", limit: "1" })).body.data;
		expect(first).toMatchObject({
			table_name: "channels",
			operation: "INSERT",
			org_id: scene.world.orgId,
			old_record: null,
			actor_type: "apikey",
			actor_apikey_id: scene.world.adminKeyId,
			changed_fields: expect.any(Array),
		});
		for (const tableName of ["apps", "app_versions", "channels", "org_users", "orgs"]) {
			const { body } = await read({ tableName, limit: "1" });
			const expected = all.data.filter((entry: { table_name: string }) => entry.table_name === tableName);
			expect(body.total, tableName).toBe(expected.length);
			expect(body.data, tableName).toEqual(expected.slice(0, 1));
		}
		expect(Array.isArray((await read({})).body)).toBe(true);
		for (const query of [{ tableName: "users" }, { operation: "READ" }, { limit: "1001" }]) {
			expect(pathsOf((await read(query as Record<string, string>)).body)).toEqual(Object.keys(query));
		}
		const stranger = await createWorld();
		const foreign = await stranger.request("GET", "/organization/audit", {
			key: stranger.adminKey,
			query: { ...ofOrg(), limit: "10" },
		});
		expect(foreign.status).toBe(404);
	});
});

describe("a field that is not known", () => {
	test("is named in the header, and in an answer that is an object", async () => {
		const changed = await scene.send("POST", "/channel", {
			body: { ...ofApp(), channel: "beta", colour: 1, "a\nb": 2 },
		});
		expect(changed.status).toBe(200);
		expect(changed.headers.get("x-ignored-fields")).toBe("colour, a%0Ab");
		expect(changed.body.ignored).toEqual(["colour", "a\nb"]);
		const listed = await scene.send("GET", "/channel", { query: { ...ofApp(), colour: "blue" } });
		expect({ named: listed.headers.get("x-ignored-fields"), isList: Array.isArray(listed.body) }).toEqual({
			named: "colour",
			isList: true,
		});
		const refused = await scene.send("POST", "/channel", { body: { ...ofApp(), channel: "", colour: 1 } });
		expect({ status: refused.status, named: refused.headers.get("x-ignored-fields") }).toEqual({
			status: 400,
			named: "colour",
		});
	});

	test.each<[string, string, object]>([
		["DELETE", "/channel", { channel: "beta", delete_bundles: true }],
		["DELETE", "/device", { device_id: "x", channell: "beta" }],
		["DELETE", "/bundle", { Version: "1.0.0" }],
		["DELETE", "/app/:app", { dry: true }],
		["PUT", "/bundle", { version_id: 1, channel_id: 1, rolloutPercentage: 5 }],
		["POST", "/channel", { channel: "beta", limited_to_apps: [] }],
		["POST", "/channel", { channel: "beta", disableAutoUpdateToMinor: true }],
		["POST", "/device", { device_id: "x", channel: "beta", expires_at: "2030-01-01T00:00:00Z" }],
		["POST", "/organization/members", { orgId: "", email: "x@example.com", role: "read", apps: ["a"] }],
		[
			"POST",
			"/apikey",
			{ name: "x", bindings: [{ scope_type: "org", role_name: "org_member", org_id: "", app_ids: [] }] },
		],
	])("is refused in %s %s %j, because dropping it could do more", async (method, path, fields) => {
		const orgId = scene.world.orgId;
		const text = JSON.stringify({ ...ofApp(), ...fields }).replaceAll('""', `"${orgId}"`);
		const { app_id: _, ...body } = JSON.parse(text);
		const isOfApp = ["/channel", "/device", "/bundle"].includes(path);
		if (isOfApp && path === "/bundle" && method === "PUT") {
			Object.assign(body, { version_id: scene.bundles.first, channel_id: scene.channels.beta });
		}
		const { status, body: answer } = await scene.send(method, path.replace(":app", scene.app.appId), {
			body: isOfApp ? { ...ofApp(), ...body } : body,
		});
		expect(status, JSON.stringify(answer)).toBe(400);
		expect(answer.error).toBe("invalid_request");
	});
});

describe("a list", () => {
	test("takes a page size, and its last page has the number of items", async () => {
		for (const name of ["one", "two", "three"])
			await scene.send("POST", "/channel", { body: { ...ofApp(), channel: name } });
		const all = await scene.send("GET", "/channel", { query: ofApp() });
		const total = all.body.length;
		expect(all.headers.get("x-total-count")).toBe(String(total));
		for (const path of ["/channel", "/bundle", "/apikey", "/organization"]) {
			const query = path === "/channel" || path === "/bundle" ? ofApp() : {};
			const first = await scene.send("GET", path, { query: { ...query, limit: "1" } });
			expect(first.body, path).toHaveLength(1);
			expect((await scene.send("GET", path, { query: { ...query, limit: "1001" } })).status, path).toBe(400);
		}
		const last = await scene.send("GET", "/channel", {
			query: { ...ofApp(), limit: "2", page: String(Math.ceil(total / 2) - 1) },
		});
		expect({ total: last.headers.get("x-total-count"), next: last.headers.get("link") }).toEqual({
			total: String(total),
			next: null,
		});
		const beyond = await scene.send("GET", "/channel", { query: { ...ofApp(), page: "9" } });
		expect({ body: beyond.body, total: beyond.headers.get("x-total-count") }).toEqual({ body: [], total: null });
	});

	test("says which limit its key has, where the server has one", async () => {
		const limiter = { limit: async () => ({ success: true }) };
		const limited = await createWorld({
			bindings: { requestLimits: { perKey: { limiter, limit: 1_000, periodSeconds: 10 } } },
		});
		const { headers } = await limited.request("GET", "/app", { key: limited.adminKey });
		expect([headers.get("ratelimit-limit"), headers.get("ratelimit-policy")]).toEqual(["1000", "1000;w=10"]);
		const refusing = await createWorld({
			bindings: {
				requestLimits: { perKey: { limiter: { limit: async () => ({ success: false }) }, periodSeconds: 10 } },
			},
		});
		const refused = await refusing.request("GET", "/app", { key: refusing.adminKey });
		const resetMs = refusing.clock.nowMs + 10_000;
		expect(refused).toMatchObject({
			status: 429,
			body: { moreInfo: { retryAfterSeconds: 10, rateLimitResetAt: resetMs } },
		});
		expect(refused.headers.get("x-ratelimit-reset")).toBe(String(resetMs / 1000));
	});
});

describe("a page of another origin", () => {
	test("may send a key and no cookie", async () => {
		const origin = "https://tools.example.org";
		const { world } = scene;
		const preflight = await world.request("OPTIONS", "/channel", {
			headers: { origin, "access-control-request-method": "POST", "access-control-request-headers": "x-api-key" },
		});
		expect(preflight.headers.get("access-control-allow-origin")).toBe("*");
		expect(preflight.headers.get("access-control-allow-headers")).toContain("x-api-key");
		const read = await scene.send("GET", "/app", { headers: { origin } });
		expect(read.headers.get("access-control-allow-origin")).toBe("*");
		expect(read.headers.get("access-control-allow-credentials")).toBeNull();
		const limited = await createWorld({ config: { CORS_ALLOWED_ORIGINS: "https://app.example.com" } });
		const refused = await limited.request("GET", "/ok", { headers: { origin } });
		expect(refused.headers.get("access-control-allow-origin")).toBeNull();
	});
});
