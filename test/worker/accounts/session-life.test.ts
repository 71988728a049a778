/** The life of a session: cookie, expiry, sign-out, and changes that require a recent sign-in. */
import { beforeAll, describe, expect, test } from "vitest";
import { mintSessionToken } from "../../../src/authz/secrets";
import { DAY_MS, MINUTE_MS } from "../../../src/domain/time";
import { databaseText } from "../support/database-text";
import {
	askForCode,
	codeFor,
	OWN_PAGE,
	sessionOf,
	sessionTokenOf,
	signIn,
	type TestSession,
} from "../support/sessions";
import { createTestMember, createWorld, makeOperator, testEnv, type World } from "../support/world";

let world: World;

beforeAll(async () => {
	world = await createWorld();
});

describe("the session cookie", () => {
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

	test("has a plain name on loopback, which is accepted nowhere else", async () => {
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
		"is refused if it is %j",
		async (token) => {
			const answer = await world.request("GET", "/account", sessionOf(token));
			expect(answer).toMatchObject({ status: 401, body: { error: "invalid_session" } });
			expect(answer.headers.get("set-cookie")).toMatch(/^__Host-capstan-session=; .*Max-Age=0$/);
		},
	);
});

describe("a session", () => {
	test("ends seven days after its last use, and thirty days after its sign-in in any case", async () => {
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

	test("ends with sign-out, which clears the cookie", async () => {
		const mine = await signIn(world);
		const out = await world.request("POST", "/sign-out", mine);
		expect(out.status).toBe(200);
		expect(out.headers.get("set-cookie")).toMatch(/^__Host-capstan-session=; .*Max-Age=0$/);
		expect((await world.request("GET", "/account", mine)).status).toBe(401);
	});

	test("ends one by one or all together, for its owner only", async () => {
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

	test("is replaced when its browser signs in again, so that a planted token is worthless", async () => {
		const planted = await signIn(world);
		const fresh = await signIn(world, world.adminEmail, planted.headers);
		expect(fresh.token).not.toBe(planted.token);
		expect((await world.request("GET", "/account", planted)).status).toBe(401);
		expect((await world.request("GET", "/account", fresh)).status).toBe(200);
		const unknown = mintSessionToken(world.deps.randomBytes).text;
		const mine = await signIn(world, world.adminEmail, { ...sessionOf(unknown).headers });
		expect(mine.token).not.toBe(unknown);
	});

	test("is stored without its secret, in the database and in logs", async () => {
		const mine = await signIn(world);
		const { results } = await testEnv.DB.prepare("SELECT * FROM sessions").all();
		expect(JSON.stringify(results)).not.toContain(mine.token);
		const log = await world.request("GET", "/account/log", mine);
		expect(log.body[0]).toMatchObject({ action: "sign_in", details: { method: "code" } });
		expect(JSON.stringify(log.body)).not.toContain("ses_");
	});
});

describe("a change that outlives a session", () => {
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

	test("requires a sign-in of the last fifteen minutes", async () => {
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

	test("does not include reads, renames, ending sessions and signing out, which need no recent sign-in", async () => {
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

	test("includes the policies of an organization, but not its name or a dry run", async () => {
		const { headers } = await signIn(world);
		world.clock.nowMs += 60 * MINUTE_MS;
		const change = (fields: object) =>
			world.request("POST", "/organization", { headers, body: { orgId: world.orgId, ...fields } });
		for (const policy of [
			{ enforce_hashed_api_keys: true },
			{ require_apikey_expiration: false },
			{ max_apikey_expiration_days: 0 },
		]) {
			expect(await change(policy)).toMatchObject({ status: 403, body: { error: "recent_sign_in_required" } });
			expect((await change({ ...policy, dry_run: true })).status).toBe(200);
		}
		expect((await change({ name: "Renamed" })).status).toBe(200);
		const fresh = await signIn(world);
		const changed = await world.request("POST", "/organization", {
			...fresh,
			body: { orgId: world.orgId, max_apikey_expiration_days: 0 },
		});
		expect(changed.status).toBe(200);
	});

	test("asks for a recent sign-in after the permission check and before validation", async () => {
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

	test("needs no recent sign-in from an API key", async () => {
		world.clock.nowMs += 60 * MINUTE_MS;
		const options = { key: world.adminKey, query: { org_id: world.orgId }, body: { name: "by key" } };
		expect((await world.request("POST", "/apikey", options)).status).toBe(201);
	});
});

test("sessionTokenOf returns no token if no cookie is set", () => {
	expect(sessionTokenOf(new Headers())).toBeUndefined();
});
