/**
 * Passkeys: an authenticator's response is accepted once, for its challenge, from this origin, and
 * with user verification; only the owner lists, renames and removes a passkey.
 */
import * as v from "valibot";
import { beforeEach, describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { MINUTE_MS } from "../../../src/domain/time";
import { endpoint } from "../../../src/http/endpoint";
import { type Bent, createAuthenticator } from "../support/authenticator";
import { OWN_PAGE, sessionOf, sessionTokenOf, signIn, signInByPasskey, type TestSession } from "../support/sessions";
import { createTestMember, createWorld, ORIGIN, requestThrough, testEnv, type World } from "../support/world";

type Authenticator = Awaited<ReturnType<typeof createAuthenticator>>;

let world: World;
let session: TestSession;
let authenticator: Authenticator;

beforeEach(async () => {
	world = await createWorld();
	session = await signIn(world);
	authenticator = await createAuthenticator(ORIGIN);
});

async function register(bent: Bent = {}, by: TestSession = session, name = "My phone") {
	const { body } = await world.request("POST", "/account/passkey-options", { headers: by.headers, body: {} });
	const credential = await authenticator.create(body.options, bent);
	return world.request("POST", "/account/passkeys", {
		headers: by.headers,
		body: { attempt: body.attempt, name, credential },
	});
}

async function begin() {
	return (await world.request("POST", "/sign-in/passkey/options", { headers: OWN_PAGE, body: {} })).body;
}

async function enter(bent: Bent = {}, begun?: { attempt: string; options: { challenge: string } }) {
	const { attempt, options } = begun ?? (await begin());
	const credential = await authenticator.get(options, bent);
	return world.request("POST", "/sign-in/passkey", { headers: OWN_PAGE, body: { attempt, credential } });
}

describe("passkey registration", () => {
	test("requires a discoverable passkey with user verification, and excludes existing ones", async () => {
		expect(await register()).toMatchObject({ status: 201, trips: 2, body: { name: "My phone", last_used_at: null } });
		const { body } = await world.request("POST", "/account/passkey-options", { headers: session.headers, body: {} });
		expect(body.options).toMatchObject({
			rp: { id: "updates.example.com" },
			user: { name: world.adminEmail },
			attestation: "none",
			authenticatorSelection: { residentKey: "required", userVerification: "required" },
			excludeCredentials: [{ id: authenticator.id }],
		});
	});

	test.each<[string, Bent]>([
		["another origin", { origin: "https://updates.example.com.evil.example" }],
		["another host", { rpId: "evil.example" }],
		["another challenge", { challenge: "AAAA" }],
		["an assertion", { type: "webauthn.get" }],
		["no user verification", { flags: 1 }],
		["no user presence", { flags: 4 }],
		["an invalid self-attestation", { selfAttested: true, signature: new Uint8Array([0x30, 6, 2, 1, 1, 2, 1, 1]) }],
	])("refuses %s and stores nothing", async (_, bent) => {
		expect(await register(bent)).toMatchObject({ status: 400, body: { error: "passkey_not_registered" } });
		expect((await world.request("GET", "/account/passkeys", session)).body).toEqual([]);
	});

	test("accepts the self-attestation that some authenticators send unrequested", async () => {
		expect((await register({ selfAttested: true })).status).toBe(201);
		expect((await enter()).status).toBe(200);
	});

	test("accepts a challenge once, within five minutes, for the account that requested it", async () => {
		const { email } = await createTestMember(world, "org_super_admin");
		const other = await signIn(world, email);
		const { body } = await world.request("POST", "/account/passkey-options", { headers: session.headers, body: {} });
		const credential = await authenticator.create(body.options);
		const send = (by: TestSession, response: unknown = credential) =>
			world.request("POST", "/account/passkeys", {
				headers: by.headers,
				body: { attempt: body.attempt, name: "x", credential: response },
			});
		expect((await send(other)).status).toBe(400);
		world.clock.nowMs += 5 * MINUTE_MS;
		expect((await send(session)).status).toBe(400);
		world.clock.nowMs -= 1;
		expect((await send(session)).status).toBe(201);
		expect((await send(session)).status).toBe(400);
		expect(await register({}, other)).toMatchObject({ status: 409, body: { error: "passkey_already_registered" } });
	});
});

describe("passkey sign-in", () => {
	beforeEach(async () => {
		expect((await register()).status).toBe(201);
	});

	test("finds the account by the passkey alone and creates a session, in two round trips", async () => {
		const answer = await enter();
		expect(answer).toMatchObject({ status: 200, trips: 2, body: { email: world.adminEmail } });
		const fresh = sessionOf(sessionTokenOf(answer.headers) ?? "");
		expect((await world.request("GET", "/account", fresh)).body).toMatchObject({ uid: world.userId, passkeys: 1 });
		const log = await world.request("GET", "/account/log", fresh);
		expect(log.body[0]).toMatchObject({ action: "sign_in", details: { method: "passkey", passkey: "My phone" } });
	});

	test("lists no credentials in its options, so it reveals no account", async () => {
		expect((await begin()).options).toMatchObject({ allowCredentials: [], userVerification: "required" });
	});

	test.each<[string, Bent]>([
		["another origin", { origin: "https://evil.example" }],
		["another host", { rpId: "evil.example" }],
		["another challenge", { challenge: "AAAA" }],
		["a registration", { type: "webauthn.create" }],
		["no user verification", { flags: 1 }],
		["no user presence", { flags: 4 }],
		["an unchanged counter", { counter: 1 }],
		["a lower counter", { counter: 0 }],
		["another signature", { signature: new Uint8Array([0x30, 6, 2, 1, 1, 2, 1, 1]) }],
		["no signature", { signature: new Uint8Array([1]) }],
	])("refuses %s", async (_, bent) => {
		const answer = await enter(bent);
		expect(answer).toMatchObject({ status: 401, body: { error: "sign_in_failed", moreInfo: {} } });
		expect(answer.headers.get("set-cookie")).toBeNull();
	});

	test("refuses an unknown passkey with the same error", async () => {
		const mine = await enter({ challenge: "AAAA" });
		authenticator = await createAuthenticator(ORIGIN);
		const unknown = await enter();
		expect(unknown.status).toBe(401);
		expect({ ...unknown.body, requestId: "" }).toEqual({ ...mine.body, requestId: "" });
	});

	test("accepts a challenge once, within five minutes, for the purpose that requested it", async () => {
		const begun = await begin();
		const credential = await authenticator.get(begun.options);
		const send = () =>
			world.request("POST", "/sign-in/passkey", { headers: OWN_PAGE, body: { attempt: begun.attempt, credential } });
		world.clock.nowMs += 5 * MINUTE_MS;
		expect((await send()).status).toBe(401);
		world.clock.nowMs -= 1;
		const racing = await Promise.all([send(), send()]);
		expect(racing.map(({ status }) => status).sort()).toEqual([200, 401]);
		expect((await send()).status).toBe(401);
		const registration = await world.request("POST", "/account/passkey-options", {
			headers: session.headers,
			body: {},
		});
		expect((await enter({}, registration.body)).status).toBe(401);
	});
});

describe("the owner of a passkey", () => {
	test("lists, renames and removes it, and other accounts get 404", async () => {
		const name = '<img src=x onerror="alert(1)">';
		const { body: made } = await register({}, session, name);
		expect((await world.request("GET", "/account/passkeys", session)).body).toMatchObject([{ id: made.id, name }]);
		const { email } = await createTestMember(world, "org_super_admin");
		const other = await signIn(world, email);
		expect((await world.request("GET", "/account/passkeys", other)).body).toEqual([]);
		const path = `/account/passkeys/${made.id}`;
		for (const [method, body] of [
			["PUT", { name: "stolen" }],
			["DELETE", undefined],
		] as const) {
			const refused = await world.request(method, path, { headers: other.headers, body });
			expect(refused).toMatchObject({ status: 404, body: { error: "passkey_not_found" } });
		}
		expect((await world.request("PUT", path, { headers: session.headers, body: { name: "Blue" } })).status).toBe(200);
		expect((await world.request("GET", "/account/passkeys", session)).body).toMatchObject([{ name: "Blue" }]);
		expect((await world.request("DELETE", path, session)).status).toBe(200);
		expect((await enter()).status).toBe(401);
		const log = await world.request("GET", "/account/log", session);
		expect(log.body.map((entry: { action: string }) => entry.action)).toEqual([
			"passkey.delete",
			"passkey.rename",
			"passkey.create",
			"sign_in",
		]);
		const { results } = await testEnv.DB.prepare("SELECT * FROM passkeys WHERE user_id = ?").bind(world.userId).all();
		expect(results).toEqual([]);
	});
});

describe("an endpoint that requires a recent sign-in with a passkey", () => {
	const approve = endpoint({
		method: "POST",
		path: "/approve",
		tag: "Test",
		summary: "Needs a passkey",
		access: { anyKey: "for the test" },
		recentSignIn: "passkey",
		body: v.object({}),
		response: v.strictObject({ status: v.literal("ok") }),
		errors: [],
		example: { body: {}, response: { status: "ok" } },
		handle: async () => ({ status: "ok" as const }),
	});
	const ask = (by: { headers: Readonly<Record<string, string>> } | { key: string }) =>
		requestThrough(createApp(world.deps, [approve]))("POST", "/approve", { ...by, body: {} });

	test("asks an account without a passkey to add one", async () => {
		expect(await ask(session)).toMatchObject({ status: 403, body: { error: "passkey_required" } });
	});

	test("asks a session of another sign-in method to sign in with the passkey", async () => {
		expect((await register()).status).toBe(201);
		expect(await ask(session)).toMatchObject({
			status: 403,
			body: { error: "recent_sign_in_required", moreInfo: { method: "passkey" } },
		});
	});

	test("accepts a sign-in with a passkey for fifteen minutes, while the account has one", async () => {
		const fresh = await signInByPasskey(world, session);
		world.clock.nowMs += 15 * MINUTE_MS - 1;
		expect((await ask(fresh)).status).toBe(200);
		world.clock.nowMs += 1;
		expect(await ask(fresh)).toMatchObject({ status: 403, body: { error: "recent_sign_in_required" } });
		world.clock.nowMs -= 1;
		await testEnv.DB.prepare("DELETE FROM passkeys WHERE user_id = ?").bind(world.userId).run();
		expect(await ask(fresh)).toMatchObject({ status: 403, body: { error: "passkey_required" } });
	});

	test("does not ask an API key for one", async () => {
		expect((await ask({ key: world.adminKey })).status).toBe(200);
	});
});
