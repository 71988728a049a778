/**
 * Sessions: how a session is created, what it may do, and how it ends. A session is a principal
 * with the rights of its account. Only the service's own pages can use it, and each sign-in creates
 * a new token.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { signIn, type TestSession } from "../support/sessions";
import {
	createTestApp,
	createTestMember,
	createWorld,
	ORIGIN,
	type TestApp,
	testEnv,
	type World,
} from "../support/world";
import { bundleOf } from "../support/zip";

let world: World;
let app: TestApp;
let session: TestSession;

beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	session = await signIn(world);
});

describe("a session as a principal", () => {
	test("has its account's bindings, loaded in one round trip with the request's reads", async () => {
		const read = () => world.request("GET", `/app/${app.appId}`, { headers: session.headers });
		await read();
		const answer = await read();
		expect(answer).toMatchObject({ status: 200, trips: 1, body: { app_id: app.appId } });
	});

	test("appears in the audit log as the address of its account", async () => {
		const changed = await world.request("PUT", `/app/${app.appId}`, {
			headers: session.headers,
			body: { name: "By hand" },
		});
		expect(changed.status).toBe(200);
		const log = await world.request("GET", `/app/${app.appId}/audit`, { headers: session.headers });
		expect(log.body[0]).toMatchObject({
			action: "app.update",
			actor: { type: "user", id: world.userId, name: world.adminEmail },
		});
	});

	test("creates keys of its account that are no stronger than the account", async () => {
		const headers = session.headers;
		const made = await world.request("POST", "/apikey", {
			headers,
			body: { name: "mine", bindings: [{ role_name: "org_admin", scope_type: "org", org_id: world.orgId }] },
		});
		expect(made).toMatchObject({ status: 201, body: { user_id: world.userId } });
		const { email } = await createTestMember(world, "org_admin");
		const weaker = await signIn(world, email);
		const refused = await world.request("POST", "/apikey", {
			headers: weaker.headers,
			body: { name: "x", bindings: [{ role_name: "org_super_admin", scope_type: "org", org_id: world.orgId }] },
		});
		expect(refused).toMatchObject({ status: 403, body: { error: "permission_denied" } });
		const creator = await world.request("POST", "/apikey", {
			headers: weaker.headers,
			body: {
				name: "x",
				bindings: [{ role_name: "org_admin", scope_type: "org", org_id: world.orgId }],
				global_permissions: ["org.create"],
			},
		});
		expect(creator).toMatchObject({ status: 403, body: { moreInfo: { permission: "org.create" } } });
		expect((await world.request("PUT", "/organization", { headers: weaker.headers, body: { name: "x" } })).status).toBe(
			403,
		);
	});

	test("creates an organization if its account may, without a binding for any key", async () => {
		const made = await world.request("PUT", "/organization", {
			headers: session.headers,
			body: { name: "Made by hand" },
		});
		expect(made.status).toBe(201);
		const bindings = await testEnv.DB.prepare("SELECT user_id, api_key_id FROM role_bindings WHERE org_id = ?")
			.bind(made.body.id)
			.all();
		expect(bindings.results).toEqual([{ user_id: world.userId, api_key_id: null }]);
	});

	test("is not subject to key policies", async () => {
		const other = await createWorld();
		const theirs = await signIn(other);
		const policy = { orgId: other.orgId, require_apikey_expiration: true, enforce_hashed_api_keys: true };
		await testEnv.DB.prepare(
			"UPDATE organizations SET require_apikey_expiration = 1, enforce_hashed_api_keys = 1 WHERE id = ?",
		)
			.bind(other.orgId)
			.run();
		expect(
			(await other.request("GET", "/organization", { key: other.adminKey, query: { orgId: other.orgId } })).status,
		).toBe(401);
		const read = await other.request("GET", "/organization", {
			headers: theirs.headers,
			query: { orgId: other.orgId },
		});
		expect(read).toMatchObject({ status: 200, body: { require_apikey_expiration: policy.require_apikey_expiration } });
	});

	test("uploads a bundle by link and by chunks, and no other principal can continue the upload", async () => {
		const headers = session.headers;
		const registered = await world.request("POST", "/bundle", {
			headers,
			body: { app_id: app.appId, version: "7.0.0" },
		});
		expect(registered.status).toBe(201);
		const stored = await world.request("PUT", registered.body.upload_url, {
			rawBody: bundleOf(130),
			headers: { "content-length": "130" },
		});
		expect(stored.status).toBe(200);
		await world.request("POST", "/bundle", { headers, body: { app_id: app.appId, version: "7.1.0" } });
		const file = btoa(`orgs/${world.orgId}/apps/${app.appId}/7.1.0.zip`);
		const tus = { "tus-resumable": "1.0.0", "upload-length": "130", "upload-metadata": `filename ${file}` };
		const begun = await world.request("POST", "/files/upload/attachments", { headers: { ...headers, ...tus } });
		expect(begun.status).toBe(201);
		const location = new URL(begun.headers.get("location") ?? "").pathname;
		const { email } = await createTestMember(world, "org_admin");
		const theirs = await signIn(world, email);
		const patch = (who: TestSession) =>
			world.request("PATCH", location, {
				headers: {
					...who.headers,
					"tus-resumable": "1.0.0",
					"upload-offset": "0",
					"content-type": "application/offset+octet-stream",
				},
				rawBody: bundleOf(130),
			});
		expect((await patch(theirs)).status).toBe(404);
		expect((await patch(session)).status).toBe(204);
		const taken = await world.request("POST", "/bundle", {
			headers: theirs.headers,
			body: { app_id: app.appId, version: "7.1.0" },
		});
		expect(taken.status).toBe(409);
	});

	test("gives the role on a new app to the member who created it", async () => {
		const { uid, email } = await createTestMember(world, "org_member");
		const theirs = await signIn(world, email);
		const body = { app_id: "com.example.by.member", name: "x", owner_org: world.orgId };
		expect((await world.request("POST", "/app", { headers: theirs.headers, body })).status).toBe(201);
		const { results } = await testEnv.DB.prepare(
			"SELECT api_key_id FROM role_bindings WHERE user_id = ? AND scope_type = 'app'",
		)
			.bind(uid)
			.all();
		expect(results).toEqual([{ api_key_id: null }]);
		const log = await world.request("GET", "/organization/audit", {
			key: world.adminKey,
			query: { orgId: world.orgId, action: "binding.create", target: email },
		});
		expect(log.body).toMatchObject([{ target: { type: "user", id: uid, name: email }, after: { scope_type: "app" } }]);
		const renamed = await world.request("PUT", "/app/com.example.by.member", {
			headers: theirs.headers,
			body: { name: "y" },
		});
		expect(renamed.status).toBe(200);
	});

	test("loses the roles that its account loses immediately, even between the decision and the write", async () => {
		const { email } = await createTestMember(world, "org_admin");
		const theirs = await signIn(world, email);
		const ask = () =>
			world.request("GET", "/organization/members", { headers: theirs.headers, query: { orgId: world.orgId } });
		expect((await ask()).status).toBe(200);
		await world.request("DELETE", "/organization/members", {
			key: world.adminKey,
			query: { orgId: world.orgId, email },
		});
		expect((await ask()).status).toBe(404);
	});

	test("is ignored in a request with an API key", async () => {
		const other = await createWorld();
		const answer = await world.request("GET", `/app/${app.appId}`, { key: other.adminKey, headers: session.headers });
		expect(answer.status).toBe(404);
		const bad = await world.request("GET", `/app/${app.appId}`, { key: "cap_x", headers: session.headers });
		expect(bad).toMatchObject({ status: 401, body: { error: "invalid_api_key" } });
		// The origin of the request does not matter, because browsers never send a key by themselves.
		const headers = { ...session.headers, origin: "https://evil.example", "sec-fetch-site": "cross-site" };
		const own = await world.request("PUT", `/app/${app.appId}`, { key: world.adminKey, headers, body: { name: "z" } });
		expect(own.status).toBe(200);
	});

	test("is refused by the endpoints of the stock CLI", async () => {
		const answer = await world.request("GET", "/compat/capgo-cli/rest/v1/apps", { headers: session.headers });
		expect(answer).toMatchObject({ status: 401, body: { error: "missing_api_key" } });
	});
});

describe("a cross-site request", () => {
	const cookie = () => ({ cookie: session.headers.cookie ?? "" });
	const write = (headers: Record<string, string>) =>
		world.request("PUT", `/app/${app.appId}`, { headers: { ...cookie(), ...headers }, body: { name: "changed" } });

	test.each<[string, Record<string, string>]>([
		["no origin at all", {}],
		["another origin", { origin: "https://evil.example" }],
		["a sandboxed frame", { origin: "null" }],
		["a sibling host", { origin: "https://www.example.com", "sec-fetch-site": "same-site" }],
		["the own host without HTTPS", { origin: ORIGIN.replace("https", "http") }],
		["the own host at another port", { origin: `${ORIGIN}:8443` }],
		["the own origin as a prefix", { origin: `${ORIGIN}.evil.example` }],
		["an origin and a site that contradict it", { origin: ORIGIN, "sec-fetch-site": "cross-site" }],
		["a typed address", { "sec-fetch-site": "none" }],
		["a cross-site fetch without an origin", { "sec-fetch-site": "cross-site" }],
	])("with %s changes nothing", async (_, headers) => {
		expect(await write(headers)).toMatchObject({ status: 403, body: { error: "cross_site_request" } });
		const out = await world.request("POST", "/sign-out", { headers: { ...cookie(), ...headers } });
		expect(out).toMatchObject({ status: 403, body: { error: "cross_site_request" } });
		// Another site cannot sign a victim in to the attacker's account.
		const link = await world.request("POST", "/sign-in/link", { headers, body: { token: "sil_x" } });
		expect(link).toMatchObject({ status: 403, body: { error: "cross_site_request" } });
	});

	test("differs from a request of the service's own pages, which succeeds with a JSON body", async () => {
		expect((await write({ origin: ORIGIN })).status).toBe(200);
		expect((await write({ "sec-fetch-site": "same-origin" })).status).toBe(200);
		const form = await world.request("PUT", `/app/${app.appId}`, {
			headers: { ...session.headers, "content-type": "text/plain" },
			rawBody: '{"name":"changed"}',
		});
		expect(form).toMatchObject({ status: 415 });
	});

	test("reads nothing if the browser reports its origin", async () => {
		const read = (headers: Record<string, string>) =>
			world.request("GET", `/app/${app.appId}`, { headers: { ...cookie(), ...headers } });
		expect((await read({ "sec-fetch-site": "cross-site" })).status).toBe(403);
		expect((await read({ "sec-fetch-site": "same-site" })).status).toBe(403);
		expect((await read({ origin: "https://evil.example" })).status).toBe(403);
		expect((await read({ "sec-fetch-site": "none" })).status).toBe(200);
		expect((await read({})).status).toBe(200);
		const shared = await createWorld({ config: { CORS_ALLOWED_ORIGINS: "https://app.example" } });
		const theirs = await signIn(shared);
		const answer = await shared.request("GET", "/app", {
			headers: { ...theirs.headers, origin: "https://app.example" },
		});
		expect(answer.status).toBe(403);
		expect(answer.headers.get("access-control-allow-credentials")).toBeNull();
	});
});
