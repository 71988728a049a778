/**
 * Sessions: how one begins, what it may, and how it ends. It is a principal like a key, with the rights of its account and no more; only
 * the service's own pages can use it; whoever signs in gets a token that nobody knew before.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { mintSessionToken } from "../../src/authz/keys";
import { databaseText } from "./support/database-text";
import { askForCode, codeFor, OWN_PAGE, sessionOf, sessionTokenOf, signIn, type TestSession } from "./support/sessions";
import {
	createTestApp,
	createTestMember,
	createWorld,
	makeOperator,
	ORIGIN,
	type TestApp,
	testEnv,
	type World,
} from "./support/world";
import { bundleOf } from "./support/zip";

const DAY_MS = 24 * 60 * 60 * 1000;

let world: World;
let app: TestApp;
let session: TestSession;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	session = await signIn(world);
});

describe("a session as a principal", () => {
	test("has its account's bindings, in one round trip with the request's own reads", async () => {
		const answer = await world.request("GET", `/app/${app.appId}`, { headers: session.headers });
		expect(answer).toMatchObject({ status: 200, trips: 1, body: { app_id: app.appId } });
	});

	test("is the account by its address in the audit log", async () => {
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

	test("makes keys that are its account's, and none that is stronger", async () => {
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

	test("creates an organization where its account may, and no key gets a part in it", async () => {
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

	test("is not concerned by what the organization demands of keys", async () => {
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

	test("uploads a bundle: by link and in parts, and nobody else goes on with it", async () => {
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

	test("a member's role on the app that they make goes to the member", async () => {
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
		const told = await world.request("GET", "/organization/audit", {
			key: world.adminKey,
			query: { orgId: world.orgId, action: "binding.create", target: email },
		});
		expect(told.body).toMatchObject([{ target: { type: "user", id: uid, name: email }, after: { scope_type: "app" } }]);
		const renamed = await world.request("PUT", "/app/com.example.by.member", {
			headers: theirs.headers,
			body: { name: "y" },
		});
		expect(renamed.status).toBe(200);
	});

	test("loses what its account loses, at once, also between the decision and the write", async () => {
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

	test("beside a key is not looked at: the key decides", async () => {
		const other = await createWorld();
		const answer = await world.request("GET", `/app/${app.appId}`, { key: other.adminKey, headers: session.headers });
		expect(answer.status).toBe(404);
		const bad = await world.request("GET", `/app/${app.appId}`, { key: "cap_x", headers: session.headers });
		expect(bad).toMatchObject({ status: 401, body: { error: "invalid_api_key" } });
		// Nor is where the request comes from: a key is sent on purpose.
		const headers = { ...session.headers, origin: "https://evil.example", "sec-fetch-site": "cross-site" };
		const own = await world.request("PUT", `/app/${app.appId}`, { key: world.adminKey, headers, body: { name: "z" } });
		expect(own.status).toBe(200);
	});

	test("is nothing to the stock CLI's endpoints", async () => {
		const answer = await world.request("GET", "/compat/capgo-cli/rest/v1/apps", { headers: session.headers });
		expect(answer).toMatchObject({ status: 401, body: { error: "missing_api_key" } });
	});
});

describe("requests of other sites", () => {
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
	])("with %s change nothing", async (_, headers) => {
		expect(await write(headers)).toMatchObject({ status: 403, body: { error: "cross_site_request" } });
		const out = await world.request("POST", "/sign-out", { headers: { ...cookie(), ...headers } });
		expect(out).toMatchObject({ status: 403, body: { error: "cross_site_request" } });
		// Nor does anybody sign a victim in to an account of their own.
		const link = await world.request("POST", "/sign-in/link", { headers, body: { token: "sil_x" } });
		expect(link).toMatchObject({ status: 403, body: { error: "cross_site_request" } });
	});

	test("of the service's own pages do, and a body that is not JSON does not", async () => {
		expect((await write({ origin: ORIGIN })).status).toBe(200);
		expect((await write({ "sec-fetch-site": "same-origin" })).status).toBe(200);
		const form = await world.request("PUT", `/app/${app.appId}`, {
			headers: { ...session.headers, "content-type": "text/plain" },
			rawBody: '{"name":"changed"}',
		});
		expect(form).toMatchObject({ status: 415 });
	});

	test("read nothing either, where the browser says whose they are", async () => {
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

describe("the cookie", () => {
	test("is for this host, HTTPS and no script", async () => {
		const attempt = await askForCode(world, world.adminEmail);
		const { headers } = await world.request("POST", "/sign-in/code/verify", {
			headers: OWN_PAGE,
			body: { attempt, code: codeFor(world, world.adminEmail) },
		});
		expect(headers.getSetCookie()[0]).toMatch(
			/^__Host-capstan-session=ses_\w{38}; Path=\/; HttpOnly; SameSite=Lax; Secure; Max-Age=2592000$/,
		);
		expect(headers.get("cache-control")).toBe("private, no-store");
	});

	test("has a plain name on loopback alone, which counts nowhere else", async () => {
		const local = "http://127.0.0.1:8787";
		const answer = await world.request("POST", `${local}/sign-in/code`, {
			headers: { origin: local },
			body: { email: world.adminEmail },
		});
		const verified = await world.request("POST", `${local}/sign-in/code/verify`, {
			headers: { origin: local },
			body: { attempt: answer.body.attempt, code: codeFor(world, world.adminEmail) },
		});
		const token = /^capstan-session=(ses_\w+); Path=\/; HttpOnly; SameSite=Lax; Max-Age/.exec(
			verified.headers.get("set-cookie") ?? "",
		)?.[1];
		const cookie = `capstan-session=${token}`;
		expect((await world.request("GET", `${local}/account`, { headers: { cookie } })).status).toBe(200);
		expect((await world.request("GET", "/account", { headers: { cookie } })).status).toBe(401);
		const insecure = "http://updates.example.com";
		const refused = await world.request("POST", `${insecure}/sign-in/code`, {
			headers: { origin: insecure },
			body: { email: world.adminEmail },
		});
		expect(refused).toMatchObject({ status: 400, body: { error: "https_required" } });
	});

	test.each(["ses_nonsense", "cap_x", "", mintSessionToken((length) => new Uint8Array(length).fill(7)).text])(
		"%j is nobody's",
		async (token) => {
			const answer = await world.request("GET", "/account", sessionOf(token));
			expect(answer).toMatchObject({ status: 401, body: { error: "invalid_session" } });
			expect(answer.headers.get("set-cookie")).toMatch(/^__Host-capstan-session=; .*Max-Age=0$/);
		},
	);
});

describe("a session ends", () => {
	test("seven days after its last use, and thirty after its sign-in however busy it is", async () => {
		const here = await createWorld();
		const [idle, busy] = [await signIn(here), await signIn(here)];
		const start = here.clock.nowMs;
		const isGood = async (one: TestSession) => (await here.request("GET", "/account", one)).status === 200;
		for (let day = 1; day < 30; day++) {
			here.clock.nowMs = start + day * DAY_MS;
			expect(await isGood(busy), `day ${day}`).toBe(true);
		}
		expect(await isGood(idle)).toBe(false);
		here.clock.nowMs = start + 30 * DAY_MS - 1;
		expect(await isGood(busy)).toBe(true);
		here.clock.nowMs += 1;
		expect(await isGood(busy)).toBe(false);
		here.clock.nowMs = start + 7 * DAY_MS - 1;
		expect(await isGood(idle)).toBe(true);
	});

	test("when it signs out, and the cookie goes", async () => {
		const mine = await signIn(world);
		const out = await world.request("POST", "/sign-out", mine);
		expect(out.status).toBe(200);
		expect(out.headers.get("set-cookie")).toMatch(/^__Host-capstan-session=; .*Max-Age=0$/);
		expect((await world.request("GET", "/account", mine)).status).toBe(401);
	});

	test("one by one and all, each for its owner alone", async () => {
		const here = await createWorld();
		const [first, second, third] = [await signIn(here), await signIn(here), await signIn(here)];
		const list = async (who: TestSession) => (await here.request("GET", "/account/sessions", who)).body;
		const sessions = await list(first);
		expect(sessions).toHaveLength(3);
		expect(sessions.filter((one: { current: boolean }) => one.current)).toHaveLength(1);
		const { email } = await createTestMember(here, "org_super_admin");
		const stranger = await signIn(here, email);
		const victim = sessions.find((one: { current: boolean }) => one.current).id;
		const refused = await here.request("DELETE", `/account/sessions/${victim}`, stranger);
		expect(refused).toMatchObject({ status: 404, body: { error: "session_not_found" } });
		expect((await here.request("DELETE", `/account/sessions/${victim}`, second)).status).toBe(200);
		expect((await here.request("GET", "/account", first)).status).toBe(401);
		const others = await here.request("DELETE", "/account/sessions", { ...second, query: { others: "true" } });
		expect(others.body).toEqual({ status: "ok", ended: 1 });
		expect((await here.request("GET", "/account", third)).status).toBe(401);
		expect((await here.request("DELETE", "/account/sessions", second)).body.ended).toBe(1);
		expect((await here.request("GET", "/account", second)).status).toBe(401);
		expect((await here.request("GET", "/account", stranger)).status).toBe(200);
	});

	test("when its browser signs in anew: a token that somebody planted is worth nothing afterwards", async () => {
		const planted = await signIn(world);
		const fresh = await signIn(world, world.adminEmail, planted.headers);
		expect(fresh.token).not.toBe(planted.token);
		expect((await world.request("GET", "/account", planted)).status).toBe(401);
		expect((await world.request("GET", "/account", fresh)).status).toBe(200);
		const unknown = mintSessionToken(world.deps.randomBytes).text;
		const mine = await signIn(world, world.adminEmail, { ...sessionOf(unknown).headers });
		expect(mine.token).not.toBe(unknown);
	});

	test("and its secret stands nowhere: not in the database, not in a log", async () => {
		const mine = await signIn(world);
		const { results } = await testEnv.DB.prepare("SELECT * FROM sessions").all();
		expect(JSON.stringify(results)).not.toContain(mine.token);
		const log = await world.request("GET", "/account/log", mine);
		expect(log.body[0]).toMatchObject({ action: "sign_in", details: { method: "code" } });
		expect(JSON.stringify(log.body)).not.toContain("ses_");
	});
});

describe("what outlives a session", () => {
	const MINUTE_MS = 60_000;
	const dangerous = (email: string): readonly (readonly [string, string, object])[] => [
		["POST", "/account/passkey-options", { body: {} }],
		["POST", "/account/email", { body: { email: "elsewhere@example.com" } }],
		["DELETE", "/account", {}],
		["POST", "/apikey", { query: { org_id: world.orgId }, body: { name: "for ever" } }],
		["PUT", `/apikey/${world.adminKeyId}`, { body: { regenerate: true } }],
		["GET", `/apikey/${world.adminKeyId}`, { query: { reveal: "true" } }],
		["POST", "/organization/members", { body: { orgId: world.orgId, email: "friend@example.com", role: "org_admin" } }],
		["PUT", "/organization/members", { body: { orgId: world.orgId, email, role: "org_admin" } }],
		["DELETE", "/organization/members", { query: { orgId: world.orgId, email } }],
		[
			"PUT",
			"/organization/members/permissions",
			{ body: { orgId: world.orgId, email, global_permissions: ["org.create"] } },
		],
	];

	test("is made within fifteen minutes of a sign-in; afterwards nothing is, until there is another", async () => {
		await makeOperator(world);
		const { email } = await createTestMember(world, "org_admin");
		const { headers } = await signIn(world);
		expect((await world.request("GET", "/account", { headers })).body.recent_sign_in_until).toBe(
			new Date(world.clock.nowMs + 15 * MINUTE_MS).toISOString(),
		);
		world.clock.nowMs += 15 * MINUTE_MS - 1;
		expect((await world.request("POST", "/account/passkey-options", { headers, body: {} })).status).toBe(200);
		world.clock.nowMs += 1;
		const before = await databaseText();
		for (const [method, path, options] of dangerous(email)) {
			const answer = await world.request(method, path, { ...options, headers });
			expect(answer, `${method} ${path}`).toMatchObject({ status: 403, body: { error: "recent_sign_in_required" } });
		}
		expect(await databaseText()).toBe(before);
		const again = await signIn(world, world.adminEmail, { ...headers });
		expect((await world.request("GET", "/account", { headers })).status).toBe(401);
		const made = await world.request("POST", "/apikey", {
			headers: again.headers,
			query: { org_id: world.orgId },
			body: { name: "for ever" },
		});
		expect(made.status).toBe(201);
	});

	test("is nothing that a session only does: it looks, renames, ends and signs out as long as it lives", async () => {
		const { headers } = await signIn(world);
		world.clock.nowMs += 60 * MINUTE_MS;
		const key = `/apikey/${world.adminKeyId}`;
		const harmless: readonly (readonly [string, string, object])[] = [
			["GET", "/account", {}],
			["DELETE", "/account", { query: { dry_run: "true" } }],
			["GET", key, {}],
			["PUT", key, { body: { name: "renamed" } }],
			["DELETE", "/account/sessions", { query: { others: "true" } }],
			["DELETE", "/organization/members", { query: { orgId: world.orgId, email: world.adminEmail, dry_run: "true" } }],
			["POST", "/sign-out", {}],
		];
		for (const [method, path, options] of harmless) {
			const { status } = await world.request(method, path, { ...options, headers });
			expect([200, 409], `${method} ${path}`).toContain(status);
		}
	});

	test("is told to whoever may do it alone, before anything of the request is judged", async () => {
		const { email } = await createTestMember(world, "org_member");
		const { headers } = await signIn(world, email);
		world.clock.nowMs += 60 * MINUTE_MS;
		const body = { orgId: world.orgId, email: "no address", role: 7 };
		expect(await world.request("POST", "/organization/members", { headers, body })).toMatchObject({
			status: 403,
			body: { error: "permission_denied" },
		});
		const admin = await signIn(world);
		world.clock.nowMs += 60 * MINUTE_MS;
		expect(await world.request("POST", "/organization/members", { headers: admin.headers, body })).toMatchObject({
			status: 403,
			body: { error: "recent_sign_in_required" },
		});
	});

	test("is no key's concern", async () => {
		world.clock.nowMs += 60 * MINUTE_MS;
		const options = { key: world.adminKey, query: { org_id: world.orgId }, body: { name: "by key" } };
		expect((await world.request("POST", "/apikey", options)).status).toBe(201);
	});
});

test("sessionTokenOf sees no token where none is set", () => {
	expect(sessionTokenOf(new Headers())).toBeUndefined();
});
